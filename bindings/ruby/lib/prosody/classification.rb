# frozen_string_literal: true

module Prosody
  # Class methods that say which exceptions of a method are permanent and which transient.
  #
  #   class Orders < Prosody::EventHandler
  #     def on_message(context, message) = ...
  #     permanent :on_message, KeyError, TypeError
  #   end
  module ErrorClassification
    # Translates exceptions that leave a method.
    # @private
    class Wrapper < Module
      def initialize(name, target, errors)
        super()
        define_method(name) do |*arguments, **options, &block|
          super(*arguments, **options, &block)
        rescue *errors => e
          raise target, Raised.text(e)
        end
      end
    end
    private_constant :Wrapper

    # Lets the given exceptions leave the method as PermanentError.
    def permanent(name, *errors)
      classify(name, PermanentError, errors)
    end

    # Lets the given exceptions leave the method as TransientError.
    def transient(name, *errors)
      classify(name, TransientError, errors)
    end

    # The method below all wrappers, nil when there is none.
    # @private
    def self.unwrap(method)
      method = method.super_method while method && method.owner.is_a?(Wrapper)
      method
    end

    private

    def classify(name, target, errors)
      unless !errors.empty? && errors.all? { |error| error.is_a?(Module) }
        raise ArgumentError, "name the exception classes, such as `permanent :#{name}, KeyError`"
      end
      unless method_defined?(name) || private_method_defined?(name)
        raise NameError.new("Method `#{name}` is not defined", name, receiver: self)
      end

      prepend Wrapper.new(name, target, errors)
      name
    end
  end
end

# frozen_string_literal: true

module Prosody
  # Handles the events of the subscribed topics.
  #
  # A method that returns has succeeded. One that raises has failed: the event is tried again,
  # unless the exception is permanent. What it returns is sent only to a sender that asked for it.
  class EventHandler
    extend ErrorClassification

    METHODS = %i[on_message on_excise on_timer].freeze

    # Handles a message.
    # @param context [Context]
    # @param message [Message]
    def on_message(context, message)
      raise NotImplementedError, "#{self.class} must implement #on_message"
    end

    # Deletes what is kept for a key.
    # @param context [Context]
    # @param message [ExciseMessage]
    def on_excise(context, message)
      raise NotImplementedError, "#{self.class} must implement #on_excise"
    end

    # Handles a timer that has come due.
    # @param context [Context]
    # @param timer [Timer]
    def on_timer(context, timer)
      raise NotImplementedError, "#{self.class} must implement #on_timer"
    end

    class << self
      # Checks that an object can handle events.
      # @raise [ArgumentError] naming the method that is missing or takes other arguments
      def validate_handler!(handler)
        METHODS.each do |name|
          method = find(handler, name)
          raise ArgumentError, "handler must implement ##{name}" if method.nil?
          raise ArgumentError, "handler ##{name} must accept two parameters" unless two?(method)
        end
      end

      private

      def find(handler, name)
        method = ErrorClassification.unwrap(handler.public_method(name))
        method unless method.nil? || method.owner == EventHandler
      rescue NameError
        nil
      end

      def two?(method)
        kinds = method.parameters.map(&:first)
        required = kinds.count(:req)
        return false if required > 2 || kinds.include?(:keyreq)

        kinds.include?(:rest) || required + kinds.count(:opt) >= 2
      end
    end
  end
end

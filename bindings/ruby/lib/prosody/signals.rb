# frozen_string_literal: true

module Prosody
  # Ruby installs signal handlers without SA_ONSTACK. One that meets a Go stack ends the process, so
  # that the flag is added after each `trap`.
  # @private
  module Signals
    # Goes before Signal.trap and Kernel.trap.
    module Trap
      def trap(*arguments, &block)
        super
      ensure
        Signals.fix
      end
    end

    # Goes before the private `trap` of all objects.
    module Private
      private

      def trap(*arguments, &block)
        super
      ensure
        Signals.fix
      end
    end

    class << self
      # Mends the handlers that there are, and those to come.
      def install(library)
        @library = library
        fix
        [Kernel.singleton_class, Signal.singleton_class].each { |place| place.prepend(Trap) }
        Kernel.prepend(Private)
      end

      def fix
        @library&.signals_fix
      end
    end
  end
  private_constant :Signals
end

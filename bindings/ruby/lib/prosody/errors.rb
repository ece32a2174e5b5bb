# frozen_string_literal: true

module Prosody
  # Base of the exceptions of Prosody.
  class Error < StandardError; end

  # Base of the exceptions by which a handler says whether trying again makes sense.
  class EventHandlerError < Error
    # @return [Boolean] whether the same event would fail again for ever
    def permanent?
      raise NotImplementedError, "#{self.class} must implement #permanent?"
    end
  end

  # The event may succeed later: it is tried again.
  class TransientError < EventHandlerError
    # @return [Boolean] false
    def permanent?
      false
    end
  end

  # The event can never succeed: it is given up.
  class PermanentError < EventHandlerError
    # @return [Boolean] true
    def permanent?
      true
    end
  end

  # An operation on keyed state that can never succeed.
  class PermanentStateError < PermanentError; end

  # An operation on keyed state that may succeed later.
  class TransientStateError < TransientError; end

  # nil cannot be stored: clear or delete the entry.
  class NullValueError < TransientStateError; end

  # A call of the client failed.
  class CallError < RuntimeError
    # @return [String] the status of the C interface, such as "PROSODY_ERR_TIMEOUT"
    attr_reader :status
    # @return [Symbol] :usage, :closed, :transient, :permanent, :fatal or :none
    attr_reader :category

    def initialize(text, status: "", category: :none)
      super(text)
      @status = status
      @category = category
    end
  end

  # Stops a handler that runs on a thread. Like Async::Stop it is no StandardError.
  class Cancelled < Exception # rubocop:disable Lint/InheritException
    def initialize(text = "Task cancelled")
      super
    end
  end

  # What the library says about an exception of a handler.
  # @private
  module Raised
    LIMIT = 16 * 1024 # bytes of a text that leaves the process

    class << self
      # Whether an exception says so of itself; no answer, or a failing one, means no.
      def permanent?(error)
        error.respond_to?(:permanent?) && !!error.permanent?
      rescue Exception # rubocop:disable Lint/RescueException
        false
      end

      # `Class: message` in UTF-8, bounded.
      def describe(error)
        name = error.class.name || "anonymous exception"
        message = text(error)
        line = message.empty? ? name : "#{name}: #{message}"
        line.bytesize > LIMIT ? line.byteslice(0, LIMIT).scrub("") : line
      end

      # The message of an exception, also of one whose `message` fails.
      def text(error)
        message = error.message.to_s
        message = message.encode(Encoding::UTF_8, invalid: :replace, undef: :replace) unless
          message.encoding == Encoding::UTF_8
        message.scrub
      rescue Exception # rubocop:disable Lint/RescueException
        "<the exception has no text>"
      end
    end
  end
  private_constant :Raised
end

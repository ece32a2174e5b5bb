# frozen_string_literal: true

module Prosody
  # The attempt of a handler. It is over when the handler has returned.
  class Context
    # @private
    def initialize(attempt)
      @attempt = attempt
    end

    # @return [Demand] why the event is handled, and how often it was tried before
    def demand
      @attempt.demand
    end

    # @return [Boolean] whether the handler is to stop
    def should_cancel?
      @attempt.cancelled?
    end

    # Waits until the handler is to stop, or until the attempt is over.
    def on_cancel
      @attempt.await_cancel
    end

    def inspect
      "#<#{self.class}>"
    end
  end
end

# frozen_string_literal: true

module Prosody
  # The attempt of a handler. It is over when the handler has returned. Timers and state are those of the event's key.
  #
  # There is one timer for a second. A time is rounded to the nearest second.
  # Changes are seen by #scheduled at once and become durable when the handler succeeds; a failed attempt
  # changes nothing. With `immediate: true` a change is durable when the call returns, whatever becomes of
  # the handler.
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

    # Has `on_timer` called at a time; at once when it is past.
    # @param time [Time, DateTime, #to_time]
    # @return [nil]
    # @raise [ArgumentError] when it is no time, or before 1970 or after 2106
    def schedule(time, immediate: false)
      @attempt.timers.schedule(time, immediate)
    end

    # Replaces all timers of the key by one.
    # @return [nil]
    def clear_and_schedule(time, immediate: false)
      @attempt.timers.schedule(time, immediate, clear: true)
    end

    # Takes a timer back. One that does not exist is no error.
    # @return [nil]
    def unschedule(time, immediate: false)
      @attempt.timers.unschedule(time, immediate)
    end

    # Takes all timers of the key back.
    # @return [nil]
    def clear_scheduled(immediate: false)
      @attempt.timers.clear(immediate)
    end

    # @return [Array<Time>] the key's timers in UTC, ascending, without the one that fires
    def scheduled
      @attempt.timers.list
    end

    # The collection of the event's key; the same object for the same definition. Name, kind and payload tell which.
    # @param definition [StateDefinition] one that the option state_collections lists
    # @return [ValueState, MapState, SetState, DequeState]
    # @raise [PermanentStateError] when it is not listed, or of another kind there
    # @raise [TransientStateError] when the attempt is over
    def state(definition)
      @attempt.state(definition)
    end

    def inspect
      "#<#{self.class}>"
    end
  end
end

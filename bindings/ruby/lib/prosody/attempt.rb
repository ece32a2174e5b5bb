# frozen_string_literal: true

module Prosody
  # One run of the handler for one event. Whatever the handler does, the attempt gets an outcome.
  # @private
  class Attempt
    OUTCOME = "LlQQQQQ"
    OUTCOME_SIZE = 48
    FIRST = Demand.new(:normal, 0)
    ENDING = [SystemExit, SignalException].freeze
    NAMES = { Message => "on_message", ExciseMessage => "on_excise", Timer => "on_timer" }.freeze
    OVER = "The context is no longer valid because the event has already been processed"
    private_constant :OUTCOME, :OUTCOME_SIZE, :FIRST, :ENDING, :OVER, :NAMES

    # @return [Cancelled, nil] why the handler is to stop
    attr_reader :cancelled
    # @return [Object, nil] who runs the attempt: lets the handler be interrupted, and stops it
    attr_reader :runner

    def initialize(subscription, token, raw)
      @subscription = subscription
      @token = token
      @raw = raw
      @settled = false
    end

    # Runs the handler within the guard of the runner.
    def run(runner)
      @runner = runner
      event = read
      result = Tracing.attempt(NAMES.fetch(event.class), @fields.span, method(:about)) { runner.guard(self) { call(event) } }
      succeed(@flags.anybits?(Packed::FLAG_RESPONSE) ? response(result) : nil)
    rescue Exception => e # rubocop:disable Lint/RescueException
      failed(e) unless @settled
    ensure
      abandon
    end

    # Notes that the handler is to stop; the runner stops it.
    def cancel(reason)
      @cancelled = Cancelled.new(reason)
      yield
      wake
    end

    # The attempt fails unless it has an outcome: its thread was killed.
    def abandon
      failed(TransientError.new("the handler's thread was killed")) unless @settled
    end

    def demand
      @flags.to_i.anybits?(Packed::FLAG_FAILURE) ? Demand.new(:failure, @retries) : FIRST
    end

    def cancelled?
      return true if @cancelled || @settled

      @subscription.library.should_cancel(@token) != Library::OK
    end

    # @raise [CallError] when the attempt is over
    def timers
      raise CallError.new(OVER, status: "PROSODY_ERR_SETTLED", category: :usage) if @settled

      @timers ||= Timers.new(@subscription.library, @subscription.port, @token)
    end

    # @return [Collection] the collection of the event's key
    # @raise [TransientStateError] when the attempt is over
    def state(definition)
      raise TransientStateError, States::OVER if @settled

      (@states ||= States.new(@subscription.runtime, @subscription.names, @token)).bind(definition)
    end

    def await_cancel
      return if @cancelled || @settled

      waiter = Thread::Queue.new
      (@waiters ||= []) << waiter
      waiter.pop unless @cancelled || @settled
      nil
    ensure
      @waiters&.delete(waiter)
    end

    private

    def read
      return timer if Packed.kind(@raw) == Packed::TIMER

      fields = Packed.event(@raw, @subscription.names)
      @raw = nil
      @flags = fields.flags
      @retries = fields.retries
      @fields = fields
      Record.received(fields)
    rescue JSON::JSONError => e
      raise PermanentError, "the payload cannot be read: #{Raised.text(e)[0, 200]}"
    end

    def timer
      @fields = Packed.timer(@raw)
      @raw = nil
      @flags = @fields.flags
      @retries = @fields.retries
      Timer.new(key: @fields.key, time: Timers.time(@fields.second))
    end

    def call(event)
      handler = @subscription.handler
      context = Context.new(self)
      case event
      when Message then handler.on_message(context, event)
      when Timer then handler.on_timer(context, event)
      else handler.on_excise(context, event)
      end
    end

    def response(result)
      Codec.encode(result)
    rescue ArgumentError => e
      raise PermanentError, "the response: #{e.message}"
    end

    def succeed(response)
      settle(Library::SUCCESS, response, nil)
    end

    def failed(error)
      permanent = Raised.permanent?(error)
      settle(permanent ? Library::PERMANENT : Library::TRANSIENT, nil, Raised.describe(error))
      report(error, permanent)
      Thread.main.raise(error) if ENDING.any? { |kind| error.is_a?(kind) }
    end

    def settle(result, response, text)
      @settled = true
      complete(result, response, text)
      @subscription.over(@token)
      wake
    end

    def complete(result, response, text)
      library = @subscription.library
      if response.nil? && text.nil?
        library.complete([OUTCOME_SIZE, result, @token, 0, 0, 0, 0].pack(OUTCOME), 1, nil)
        return
      end
      bytes = "#{response}#{text}"
      memory = FFI::MemoryPointer.new(1, OUTCOME_SIZE + bytes.bytesize + 1, false)
      start = memory.address + OUTCOME_SIZE
      parts = response ? [start, response.bytesize, 0, 0] : [0, 0, start, text.bytesize]
      memory.put_bytes(0, [OUTCOME_SIZE, result, @token, *parts].pack(OUTCOME))
      memory.put_bytes(OUTCOME_SIZE, bytes)
      library.complete(memory, 1, nil)
    end

    def wake
      @waiters&.dup&.each { |waiter| waiter << nil }
    end

    def report(error, permanent)
      expected = error.equal?(@cancelled) || (@cancelled && !error.is_a?(StandardError))
      kind = @fields.is_a?(Packed::Timing) ? "timer" : "message"
      text = "#{kind} handling failed#{' for good' if permanent}:#{place} #{details(error)}"
      @subscription.log.write(expected ? Logger::WARN : Logger::ERROR, "prosody.handler", text)
      Reports.capture(error, kind_of_event, context, @subscription.log) unless expected || @fields.nil?
    end

    def kind_of_event
      return "timer" if @fields.is_a?(Packed::Timing)

      @fields.payload ? "message" : "excise"
    end

    # What Sentry is told of the event.
    def context
      return { "key" => @fields.key, "time" => Timers.time(@fields.second).strftime("%FT%TZ") } if @fields.is_a?(Packed::Timing)

      { "topic" => @fields.topic, "partition" => @fields.place, "offset" => @fields.offset, "key" => @fields.key }
    end

    # The attributes of the attempt's span.
    def about
      return { "key" => @fields.key, "timer.fire_time" => context["time"] } if @fields.is_a?(Packed::Timing)

      { "messaging.system" => "kafka", **context }
    end

    # What the log says about the event.
    def place
      case @fields
      when nil then ""
      when Packed::Timing then " key #{@fields.key.inspect} at #{Timers.time(@fields.second)}"
      else " #{@fields.topic}[#{@fields.place}]@#{@fields.offset}"
      end
    end

    def details(error)
      error.full_message(highlight: false, order: :top)
    rescue Exception # rubocop:disable Lint/RescueException
      Raised.describe(error)
    end
  end
  private_constant :Attempt
end

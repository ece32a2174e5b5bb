# frozen_string_literal: true

module Prosody
  # One subscription: reads its queue on a thread of its own and has the handler run.
  # @private
  class Subscription
    # @return [Hash] texts that repeat
    attr_reader :names
    attr_reader :handler, :runtime, :library, :log
    # Whether the library has said that it consumes.
    attr_accessor :running

    def initialize(runtime, handler)
      @runtime = runtime
      @library = runtime.library
      @log = runtime.log
      @handler = handler
      @names = {}
      @active = {}
      @running = false
      @closed = false
      @channel = Channel.new(@library)
      @runner = Fibers.wanted? ? Fibers.new : Pool.new(runtime.method(:ending?))
      start
    end

    def port
      @runtime.port
    end

    def handle
      @channel.handle
    end

    def wait
      @channel.wait
    end

    def rest
      @channel.rest
    end

    # Handles what is ready.
    # @return [Boolean] false when nothing more will come
    def drain
      alive = @channel.drain do |kind, token, raw|
        case kind
        when Packed::MESSAGE, Packed::EXCISE, Packed::TIMER then begin_attempt(token, raw)
        when Packed::CANCEL then cancel(token, raw)
        else @runtime.port.take(kind, token, raw)
        end
      end
      @closed = true unless alive
      !@closed
    end

    # An attempt has its outcome.
    def over(token)
      @active.delete(token)
    end

    # Lets go of the handler. The thread ends soon; open events count as failed.
    def close
      return if @closed

      @closed = true
      @channel.wake
    end

    private

    def start
      @thread = Thread.new { work }
      @thread.name = "prosody-subscription"
    end

    def work
      @runner.read(self)
    ensure
      @closed || @runtime.ending? ? finish : heal
    end

    def finish
      @runner.close
      @channel.destroy
    end

    # The thread was killed: another takes its place.
    def heal
      @runner.lost(@active.values)
      start
    end

    def begin_attempt(token, raw)
      attempt = Attempt.new(self, token, raw)
      @active[token] = attempt
      @runner.start(attempt)
    end

    def cancel(token, raw)
      attempt = @active[token]
      @runner.stop(attempt, Packed.reason(raw)) if attempt
    end
  end
  private_constant :Subscription
end

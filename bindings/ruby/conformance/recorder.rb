# frozen_string_literal: true

require "monitor"

# A call of a handler.
Call = Struct.new(:kind, :key, :event, :began)

# Notes each call of the handler, then runs the script given for that kind of event.
class Recorder < Prosody::EventHandler
  # Calls in the order of beginning; pairs of call and error, or nil, in the order of ending.
  attr_reader :calls, :done, :peak, :active

  def initialize(message: nil, excise: nil, timer: nil)
    super()
    @scripts = { message:, excise:, timer: }
    @calls = []
    @done = []
    @active = 0
    @peak = 0
    @lock = Monitor.new
    @pulse = @lock.new_cond
  end

  def on_message(context, message)
    play(:message, context, message)
  end

  def on_excise(context, message)
    play(:excise, context, message)
  end

  def on_timer(context, timer)
    play(:timer, context, timer)
  end

  # Waits until the block says yes, asking after each event.
  def until(what = "the expected handler calls", within: WAIT)
    deadline = clock + within
    @lock.synchronize do
      until yield
        left = deadline - clock
        raise "deadline passed waiting for #{what}; last of #{@calls.size} calls: #{last}" if left <= 0

        @pulse.wait([left, 0.5].min) # other threads change what the block looks at, too
      end
    end
  end

  def count(number, kind = nil, **options)
    self.until("#{number} calls of #{kind || 'any kind'}", **options) { of(kind).size >= number }
    of(kind)
  end

  def finished(number, **options)
    self.until("#{number} finished calls", **options) { @done.size >= number }
  end

  def of(kind = nil, key: nil)
    @lock.synchronize do
      @calls.select { |call| [nil, call.kind].include?(kind) && [nil, call.key].include?(key) }
    end
  end

  def payloads(key = nil)
    of(:message, key:).map { |call| call.event.payload }
  end

  def successes
    @lock.synchronize { @done.select { |_, error| error.nil? }.map(&:first) }
  end

  private

  def last
    @calls.last(12).map { |call| [call.kind, call.key[-24..] || call.key, call.event.inspect[0, 60]] }
  end

  def play(kind, context, event)
    call = Call.new(kind, event.key, event, Time.now)
    enter(call)
    error = nil
    @scripts[kind]&.call(context, event)
  rescue Exception => e # rubocop:disable Lint/RescueException
    error = e
    raise
  ensure
    leave(call, error)
  end

  def enter(call)
    @lock.synchronize do
      @calls << call
      @active += 1
      @peak = [@peak, @active].max
      @pulse.broadcast
    end
  end

  def leave(call, error)
    @lock.synchronize do
      @active -= 1
      @done << [call, error]
      @pulse.broadcast
    end
  end
end

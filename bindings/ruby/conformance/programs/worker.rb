# frozen_string_literal: true

# A consumer in a process of its own that counts ids, remembers values and says each event on a line.
#
# Argument: JSON with `options`, `pause`, `hold` and `fail`. Ends on SIGTERM after a shutdown. Payloads of messages:
# {"op": "count", "id"}; {"op": "remember", "value", "timer": seconds or null}; {"op": "hold"} writes and then waits for
# ever; {"op": "flaky"} fails in a process with `fail`; {"op": "report"}.

require "json"
require "prosody"

Prosody.logger = Logger.new(File::NULL)
SETTINGS = JSON.parse(ARGV.fetch(0))
COUNT = Prosody.value("count")
NAMES = Prosody.map("names")
VALUE = Prosody.value("value")
OTHER = Prosody.deque("other")
LOCK = Mutex.new

def say(word, **what)
  LOCK.synchronize do
    puts "#{word} #{JSON.generate(what)}"
    $stdout.flush
  end
end

# Does what the messages ask for.
class Worker < Prosody::EventHandler
  def on_message(context, message)
    send(message.payload["op"], context, message, *[COUNT, NAMES, VALUE, OTHER].map { |each| context.state(each) })
  end

  def on_excise(_context, message)
    say("EXCISED", key: message.key)
  end

  def on_timer(context, timer)
    say("FIRED", key: timer.key, time: timer.time.to_i, value: context.state(VALUE).get)
  end

  private

  def count(_context, message, count, names, *)
    count.set((count.get || 0) + 1)
    sleep SETTINGS.fetch("pause", 0)
    names.set(message.payload["id"], 1)
    say("COUNTED", id: message.payload["id"])
  end

  def remember(context, message, _count, _names, value, other)
    value.set(message.payload["value"])
    other.push(message.payload["value"])
    context.schedule(Time.now + message.payload["timer"]) if message.payload["timer"]
    say("REMEMBERED", key: message.key)
  end

  def hold(_context, _message, _count, _names, value, other)
    say("BEGIN", value: value.get, other: other.each.to_a)
    return unless SETTINGS["hold"]

    value.set("floor")
    value.commit
    value.set("pending")
    other.push("pending")
    say("HOLDING")
    sleep 3600
  end

  def flaky(_context, _message, _count, _names, value, _other)
    return say("RECOVERED", value: value.get) unless SETTINGS["fail"]

    value.set("of a failed attempt")
    say("FAILING")
    raise Prosody::TransientError, "not in this process"
  end

  def report(context, message, count, names, value, other)
    say("REPORT", key: message.key, count: count.get, names: names.each_key.to_a, value: value.get, other: other.each.to_a,
                  timers: context.scheduled.map(&:to_i))
  end
end

stop = Thread::Queue.new
trap("TERM") { stop << true }
client = Prosody::Client.new(SETTINGS["options"].merge("state_collections" => [COUNT, NAMES, VALUE, OTHER]))
client.subscribe(Worker.new)
say("SUBSCRIBED")
stop.pop
client.shutdown
say("ENDED")

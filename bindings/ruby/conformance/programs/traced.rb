# frozen_string_literal: true

# A program that sends, handles, uses state and a timer once, so that its spans can be examined.
#
# Argument: JSON with `options`, `topic`, `wait` (stay until SIGTERM) and `host_spans` (the program has spans of its own,
# and says them). Says READY when all has happened.

require "json"
require "prosody"

SETTINGS = JSON.parse(ARGV.fetch(0))
require_relative "opentelemetry" if SETTINGS["host_spans"]
Prosody.logger = Logger.new(File::NULL)
VALUE = Prosody.value("v")
MAP = Prosody.map("m")
DEQUE = Prosody.deque("d")

# Uses each kind of operation.
class Handler < Prosody::EventHandler
  attr_reader :fired

  def initialize
    super
    @fired = Thread::Queue.new
  end

  def on_message(context, message)
    raise Prosody::PermanentError, "deliberate" if message.payload["fail"]

    return work(context) unless SETTINGS["host_spans"]

    OpenTelemetry.tracer_provider.tracer("application").in_span("business") { work(context) }
  end

  def on_excise(_context, _message); end

  def on_timer(context, _timer)
    context.state(VALUE).get
    @fired << true
  end

  private

  def work(context)
    value, entries, line = [VALUE, MAP, DEQUE].map { |definition| context.state(definition) }
    value.set(1)
    2.times { value.get }
    300.times { |number| entries.set(format("%04d", number), number) }
    entries.get("0001")
    entries.each_key.to_a
    line.push(1)
    line.shift
    context.schedule(Time.now + 1)
    "answer"
  end
end

stop = Thread::Queue.new
trap("TERM") { stop << true }
handler = Handler.new
client = Prosody::Client.new(SETTINGS["options"].merge("state_collections" => [VALUE, MAP, DEQUE]))
client.subscribe(handler)
client.send_message(SETTINGS["topic"], "traced", {})
handler.fired.pop
client.request(topic: SETTINGS["topic"], key: "asked", payload: { fail: true },
               subsystems: [SETTINGS["options"]["subsystem"]], timeout: 20)
puts "READY"
$stdout.flush
stop.pop if SETTINGS["wait"]
client.shutdown

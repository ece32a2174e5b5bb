# frozen_string_literal: true

# A small service in mock mode: it sends, handles, excises and sets a timer, and says what happens.
#
# Run it in the repository with `ruby -Ibindings/ruby/lib bindings/ruby/examples/demo.rb`.

require "json"
require "prosody"

TOPIC = "orders"

class Orders < Prosody::EventHandler
  # @param expected [Integer] how many events there are to be
  def initialize(expected)
    super()
    @left = expected
    @lock = Mutex.new
    @done = Thread::Queue.new
  end

  def on_message(context, message)
    context.schedule(Time.now + 1) if message.key == "order-1" && message.payload["n"] == 3
    say "message #{message.key} #{JSON.generate(message.payload)}"
  end

  def on_excise(_context, message)
    say "excise #{message.key}"
  end

  def on_timer(_context, timer)
    say "timer #{timer.key}"
  end

  def wait
    @done.pop
  end

  private

  # Handlers of several keys run at the same time.
  def say(line)
    @lock.synchronize do
      puts line
      @left -= 1
      @done << true if @left.zero?
    end
  end
end

Prosody.logger = Logger.new($stderr, level: Logger::WARN)

Prosody::Client.open(
  mock: true,
  bootstrap_servers: "demo",
  group_id: "demo",
  source_system: "demo-sender",
  subscribed_topics: TOPIC
) do |client|
  orders = Orders.new(8)
  client.subscribe(orders)
  %w[order-1 order-2].each do |key|
    (1..3).each { |number| client.send_message(TOPIC, key, { n: number }) }
  end
  client.excise(TOPIC, "order-1")
  orders.wait
end
puts "done"

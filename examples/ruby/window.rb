# frozen_string_literal: true

# Sends each customer one letter a day at most: about all that came since the first message.
#
# The messages wait in a deque, which keeps their places in the log and not their bytes. A timer ends the window. Both
# survive a restart, and share the order of their key.
#
# Set PROSODY_BOOTSTRAP_SERVERS, PROSODY_CASSANDRA_NODES, PROSODY_GROUP_ID and PROSODY_SUBSCRIBED_TOPICS, and run it.

require "prosody"

WINDOW = 24 * 3600
WAITING = Prosody.message_deque("waiting", capacity: 100) # the newest hundred

class Letters < Prosody::EventHandler
  def initialize(client)
    super()
    @client = client
  end

  def on_message(context, message)
    waiting = context.state(WAITING)
    context.schedule(message.timestamp + WINDOW) if waiting.empty?
    waiting.push(message)
  end

  def on_timer(context, timer)
    waiting = context.state(WAITING)
    orders = waiting.each.map { |message| message.payload["order"] }
    # Should this attempt fail after the send, the next one sends the same id: it goes out once.
    @client.send_message("letters", timer.key, { id: "#{timer.key} #{timer.time}", orders: })
    waiting.clear
  end

  def on_excise(context, _message)
    context.state(WAITING).clear
    context.clear_scheduled
  end
end

if $PROGRAM_NAME == __FILE__
  stop = Thread::Queue.new
  %w[INT TERM].each { |signal| trap(signal) { stop << signal } }
  Prosody.logger.level = Logger::WARN
  Prosody::Client.open(state_collections: [WAITING]) do |client|
    client.subscribe(Letters.new(client))
    puts "collecting until Ctrl-C"
    $stdout.flush
    stop.pop
  end
end

# frozen_string_literal: true

# Counts the messages of each key, without a database of its own.
#
# The count becomes durable together with the event, so that each message counts once, whatever fails. Other services
# read the counts: client.state("counter", COUNT).get(key).
#
# Set PROSODY_BOOTSTRAP_SERVERS, PROSODY_CASSANDRA_NODES, PROSODY_GROUP_ID and PROSODY_SUBSCRIBED_TOPICS, and run it.

require "prosody"

COUNT = Prosody.value("count", published: true)

class Counter < Prosody::EventHandler
  def on_message(context, _message)
    count = context.state(COUNT)
    count.set((count.get || 0) + 1)
  end

  def on_excise(context, _message)
    context.state(COUNT).clear
  end

  # It sets none.
  def on_timer(_context, _timer); end
end

if $PROGRAM_NAME == __FILE__
  stop = Thread::Queue.new
  %w[INT TERM].each { |signal| trap(signal) { stop << signal } }
  Prosody.logger.level = Logger::WARN
  Prosody::Client.open(subsystem: "counter", state_collections: [COUNT]) do |client|
    client.subscribe(Counter.new)
    puts "counting until Ctrl-C"
    $stdout.flush
    stop.pop
  end
end

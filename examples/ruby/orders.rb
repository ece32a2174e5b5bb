# frozen_string_literal: true

# Leads orders from placed to paid to shipped. One that nobody pays within 15 minutes lapses.
#
# A shop asks for each step with a request, and gets the answer once the step is durable:
#
#   client.request(topic: "orders", key: "order-1", payload: { step: "paid" }, subsystems: ["orders"], timeout: 5)
#
# The support desk reads the status, which is published: client.state("orders", STATUS).get("order-1"). An excise record
# deletes what is kept of an order.
#
# Set PROSODY_BOOTSTRAP_SERVERS, PROSODY_CASSANDRA_NODES, PROSODY_GROUP_ID and PROSODY_SUBSCRIBED_TOPICS, and run it.

require "prosody"

STATUS = Prosody.value("status", published: true)
PATIENCE = 15 * 60
BEFORE = { "placed" => nil, "paid" => "placed", "shipped" => "paid" }.freeze

class Orders < Prosody::EventHandler
  def on_message(context, message)
    status = context.state(STATUS)
    step = message.payload["step"]
    present = status.get
    unless BEFORE.key?(step) && BEFORE[step] == present
      # No retry helps. A shop that waits gets this text.
      raise Prosody::PermanentError, "#{message.key} is #{present || 'unknown'}: it cannot be #{step}"
    end

    status.set(step)
    step == "placed" ? context.schedule(message.timestamp + PATIENCE) : context.clear_scheduled
    { status: step }
  end

  def on_timer(context, _timer)
    context.state(STATUS).set("lapsed")
  end

  def on_excise(context, _message)
    context.state(STATUS).clear
    context.clear_scheduled
  end
end

if $PROGRAM_NAME == __FILE__
  stop = Thread::Queue.new
  %w[INT TERM].each { |signal| trap(signal) { stop << signal } }
  Prosody.logger.level = Logger::WARN
  Prosody::Client.open(subsystem: "orders", state_collections: [STATUS]) do |client|
    client.subscribe(Orders.new)
    puts "taking orders until Ctrl-C"
    $stdout.flush
    stop.pop
  end
end

# frozen_string_literal: true

# A member that schedules a timer for a record. The timer fails once, is deferred, and then sends a record on.
require "prosody"

Prosody.logger = Logger.new($stderr)

# What it does.
class Handler < Prosody::EventHandler
  attr_reader :done
  attr_writer :client

  def initialize(onward)
    super()
    @onward = onward
    @done = Thread::Queue.new
  end

  def on_message(context, _message)
    context.schedule(Time.now + 1)
  end

  def on_excise(_context, _message); end

  def on_timer(context, timer)
    raise Prosody::TransientError, "the first time" if context.demand.retry.zero?

    @client.send_message(@onward, timer.key, { "n" => 2 })
    @done << true
  end
end

handler = Handler.new(ARGV.fetch(0))
Prosody::Client.open do |client|
  handler.client = client
  client.subscribe(handler)
  handler.done.pop
end

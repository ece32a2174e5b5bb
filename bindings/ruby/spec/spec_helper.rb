# frozen_string_literal: true

ENV.delete_if { |name, _| name.start_with?("PROSODY_") && name != "PROSODY_LIBRARY" }

require "open3"
require "prosody"
require "rbconfig"
require "set"
require "socket"
require "timeout"

Prosody.logger = Logger.new(File::NULL)

# A handler that notes its calls; blocks say what it does.
class Recorder < Prosody::EventHandler
  attr_reader :calls
  # What it does with a message.
  attr_writer :work

  def initialize(message: nil, excise: nil, timer: nil)
    super()
    @work = message
    @excise = excise
    @timer = timer
    @calls = Thread::Queue.new
  end

  def on_message(context, message)
    @calls << message
    @work&.call(context, message)
  end

  def on_excise(context, message)
    @calls << message
    @excise&.call(context, message)
  end

  def on_timer(context, timer)
    @timer&.call(context, timer)
  end

  # The next calls, so many.
  def take(count)
    Array.new(count) { @calls.pop }
  end
end

# Clients and names for tests.
module Helpers
  PATIENCE = 30
  LIB = File.expand_path("../lib", __dir__)
  # A producer that reaches its store, but no broker.
  NOWHERE = { mock: false, bootstrap_servers: "localhost:1", cassandra_nodes: "localhost:9042",
              cassandra_keyspace: "prosody_ruby", group_id: nil, subscribed_topics: nil }.freeze

  def name(prefix = "n")
    "#{prefix}-#{Process.pid}-#{@names = @names.to_i + 1}-#{rand(1_000_000)}"
  end

  def topic
    @topic ||= name("topic")
  end

  # A client of mock mode; its source system is not its group, so that it gets what it sends.
  def client(**options)
    defaults = { mock: true, bootstrap_servers: "mock", group_id: name("group"), source_system: "spec",
                 subscribed_topics: topic, send_timeout: 60 }
    made = Prosody::Client.new(defaults.merge(options))
    (@clients ||= []) << made
    made
  end

  def consume(handler, **options)
    client(**options).tap { |made| made.subscribe(handler) }
  end

  def patiently(seconds = PATIENCE, &block)
    Timeout.timeout(seconds, &block)
  end

  # Runs a block in a handler for one message and gives its value.
  def within(recorder = nil, ending = nil, key: "k", **options, &block)
    answers = Thread::Queue.new
    handler = recorder || Recorder.new
    handler.work = lambda do |context, _|
      answers << [true, block.call(context)]
    rescue StandardError, RSpec::Expectations::ExpectationNotMetError => e
      answers << [false, e]
    ensure
      ending&.call(context)
    end
    @made ||= consume(handler, **options)
    @made.send_message(topic, key, 1)
    good, value = patiently { answers.pop }
    good ? value : raise(value)
  end

  # Waits until the block says yes.
  def eventually(seconds = PATIENCE)
    patiently(seconds) { sleep 0.005 until yield }
  end

  # What is logged meanwhile; it waits for the wanted text.
  def lines(wanted = "\n")
    output = StringIO.new
    before = Prosody.logger
    Prosody.logger = Logger.new(output)
    yield
    eventually { output.string.include?(wanted) }
    output.string
  ensure
    Prosody.logger = before
  end

  # Runs a program in a process of its own.
  # @return [Array(String, Process::Status)] both outputs, and the status
  def ruby(program, *arguments, seconds: 60)
    prelude = <<~RUBY
      require "prosody"
      Prosody.logger = Logger.new($stderr, level: Logger::ERROR)
      class Handler < Prosody::EventHandler
        def on_message(_context, _message); end
        def on_excise(_context, _message); end
        def on_timer(_context, _timer); end
      end
      def client(**options)
        Prosody::Client.new(
          { mock: true, bootstrap_servers: "mock", group_id: "group", source_system: "spec", subscribed_topics: "topic" }
            .merge(options)
        )
      end
    RUBY
    command = ["timeout", "-s", "ABRT", seconds.to_s, RbConfig.ruby, "-I", LIB, "-e", prelude + program, *arguments]
    Open3.capture2e(*command, stdin_data: "")
  end
end

RSpec.configure do |config|
  config.include Helpers
  config.disable_monkey_patching!
  config.expect_with(:rspec) { |expectations| expectations.max_formatted_output_length = 2000 }
  config.order = :random
  Kernel.srand config.seed

  reachable = begin
    [9094, 9042].each { |port| Socket.tcp("localhost", port, connect_timeout: 1).close }
    true
  rescue SystemCallError
    false
  end
  config.filter_run_excluding real: true unless reachable

  config.around { |example| Timeout.timeout(example.metadata.fetch(:limit, 120)) { example.run } }
  config.after { (@clients || []).each(&:shutdown) }
end

# frozen_string_literal: true

# Tools of the conformance suite: settings, a handler that records, clients, raw Kafka access, shared consumers.
#
# It mirrors the suite of the Python package case by case; CASES.md tells which case is where.
# CONFORMANCE_REAL=1 runs it against Kafka and Cassandra, CONFORMANCE_FIBERS=1 with the gem async.

ENV.delete_if { |name, _| name.start_with?("PROSODY_") && name != "PROSODY_LIBRARY" }
ENV["PROSODY_PEER_BIND_ADDRESS"] = "127.0.0.1:0"
ENV["PROSODY_PROBE_PORT"] = "none"
ENV["PROSODY_LOG"] = ENV.fetch("CONFORMANCE_LOG", "off")

require "async" if ENV["CONFORMANCE_FIBERS"]
require "base64"
require "json"
require "open3"
require "prosody"
require "rbconfig"
require "securerandom"
require "set"
require "socket"
require "timeout"
require_relative "recorder"
require_relative "stage"

KAFKA = ENV.fetch("CONFORMANCE_KAFKA", "localhost:9094")
CASSANDRA = ENV.fetch("CONFORMANCE_CASSANDRA", "localhost:9042")
KEYSPACE = ENV.fetch("CONFORMANCE_KEYSPACE", "prosody_conformance")
PATIENCE = Float(ENV.fetch("CONFORMANCE_PATIENCE", "1"))
REAL = !ENV["CONFORMANCE_REAL"].to_s.empty?
WAIT = 40 * PATIENCE # how long an expected event may take
LIMIT = 120 * PATIENCE # of one example

Prosody.logger = ENV["CONFORMANCE_LOG"] ? Logger.new($stderr) : Logger.new(File::NULL)

def clock
  Process.clock_gettime(Process::CLOCK_MONOTONIC)
end

# Runs all at the same time; their results, errors among them, in order.
def together(*calls)
  calls.map { |call| Thread.new { attempt(&call) } }.map(&:value)
end

# The result of a block, or its error.
def attempt
  yield
rescue StandardError => e
  e
end

# Makes names, topics, clients and processes; closes the clients at the end.
class World
  LIB = File.expand_path("../lib", __dir__)
  HERE = __dir__
  OMITTED = Object.new.freeze # an option that is left out

  attr_reader :clients

  def initialize
    @clients = []
    @topics = []
    @children = []
    @unique = SecureRandom.hex(5)
    @serial = 0
    @lock = Mutex.new
  end

  def name(label = "n")
    "crb-#{label}-#{@unique}-#{@lock.synchronize { @serial += 1 }}"
  end

  def topic(label = "topic", partitions: 3, name: nil)
    name ||= name(label)
    return name unless REAL

    admin.create_topic(name, partitions, 1)
    @topics << name
    name
  end

  # Options for a client that works in the chosen mode.
  def options(**overrides)
    mode = if REAL
             { cassandra_nodes: CASSANDRA, cassandra_keyspace: KEYSPACE, telemetry_enabled: false, commit_interval: 0.2 }
           else
             { mock: true }
           end
    { bootstrap_servers: KAFKA, poll_interval: 0.02, shutdown_timeout: 10.0, send_timeout: 30.0, **mode, **overrides }
      .reject { |_, value| value.equal?(OMITTED) }
  end

  def client(**overrides)
    Prosody::Client.new(options(**overrides)).tap { |made| @lock.synchronize { @clients << made } }
  end

  # A subscribed client; its own sends carry a foreign source system, so that it sees them.
  # @return [Array(Prosody::Client, String)] with its first topic
  def consumer(handler, topics: nil, **overrides)
    topics ||= topic
    made = client(group_id: name("group"), source_system: "conformance", subscribed_topics: topics, **overrides)
    made.subscribe(handler)
    [made, Array(topics).first]
  end

  # Waits until the client owns partitions.
  def assigned(client)
    eventually("an assignment") { client.assigned_partitions.positive? }
  end

  # Polls until the block gives something true, and returns that.
  def eventually(what, within: WAIT)
    deadline = clock + within
    loop do
      result = yield
      return result if result
      raise "deadline passed waiting for #{what}" if clock > deadline

      sleep 0.03
    end
  end

  # A running consumer of scripted events, with collections.
  def stage(collections = [], topic: nil, **overrides)
    made = Lab.new(self)
    made.open(collections, topic || self.topic, **overrides)
    made
  end

  def close
    @children.each { |child| child.kill if child.alive? }
    clients = @clients.dup
    @clients.clear
    together(*clients.map { |client| -> { client.shutdown } })
    return if @topics.empty?

    together(*@topics.map { |name| -> { admin.delete_topic(name) } })
  end

  # Runs a Ruby program in a process of its own; its exit status, or number of its signal below 0, and its output.
  def script(source, *arguments, environment: {}, timeout: 60)
    command = ["timeout", "-s", "KILL", (timeout * PATIENCE).to_s, *ruby, "-e", source, *arguments]
    output, status = Open3.capture2e(environment, *command, stdin_data: "")
    [status.exitstatus || -status.termsig, output]
  end

  # Starts one of the programs with JSON settings as its argument.
  def process(program, settings, environment = {})
    command = [*ruby, File.join(HERE, "programs", program), JSON.generate(settings)]
    Child.new(environment, command).tap { |child| @children << child }
  end

  def ruby
    [RbConfig.ruby, "-I", LIB, *(["-r", "async"] if ENV["CONFORMANCE_FIBERS"])]
  end

  # ---- raw Kafka, real mode only

  # Produces [key, value] or [key, value, headers] as a foreign program would, bytes untouched.
  def produce(topic, *records, partition: -1)
    raw("produce", topic, partition, records.map do |key, value, headers|
      [encode(key), encode(value), (headers || []).map { |name, text| [name, encode(text)] }]
    end)
  end

  # Reads so many raw records of a topic from its beginning: hashes of key, value and headers.
  def records(topic, count)
    raw("records", topic, count, []).map do |key, value, headers|
      { key: decode(key), value: decode(value), headers: headers.map { |name, text| [name, decode(text)] } }
    end
  end

  private

  def admin
    @admin ||= Prosody::AdminClient.new(KAFKA)
  end

  def raw(*arguments, records)
    python = ENV.fetch("PYTHON", "python3")
    output, status = Open3.capture2(python, File.join(HERE, "raw.py"), KAFKA, *arguments.map(&:to_s),
                                    stdin_data: JSON.generate(records))
    raise "raw.py failed" unless status.success?

    JSON.parse(output)
  end

  def encode(bytes)
    bytes && Base64.strict_encode64(bytes)
  end

  def decode(text)
    text && Base64.strict_decode64(text)
  end
end

# A program that says lines.
class Child
  attr_reader :heard

  def initialize(environment, command)
    @input, @output, @thread = Open3.popen2e(environment, *command)
    @input.close
    @heard = []
  end

  # The next line that starts with a word; what follows it, as JSON.
  def hear(word, within: WAIT * 1.5)
    Timeout.timeout(within) do
      while (line = @output.gets)
        @heard << line.chomp
        start, rest = line.chomp.split(" ", 2)
        return rest && JSON.parse(rest) if start == word
      end
    end
    raise "the process ended without saying #{word}: #{@heard.last(30)}"
  rescue Timeout::Error
    raise "no line #{word}; heard #{@heard.last(30)}"
  end

  def signal(name)
    Process.kill(name, @thread.pid)
  end

  def kill
    signal("KILL")
    @thread.value
  end

  def alive?
    @thread.alive?
  end

  # Its exit status when it has ended; what it still says is kept in #heard.
  def ended(within: WAIT)
    Timeout.timeout(within) do
      @heard.concat(@output.read.lines(chomp: true))
      @thread.value.exitstatus || -@thread.value.termsig
    end
  end
end

# What examples call without a receiver. A group says what its stage registers: `collections:`, and `options:` of its client.
module Play
  # Sets variables of the environment for the block.
  def environment(**variables)
    variables.each { |name, value| ENV[name.to_s] = value }
    yield
  ensure
    variables.each_key { |name| ENV.delete(name.to_s) unless name == :PROSODY_PROBE_PORT }
  end

  def world
    @world ||= World.new
  end

  # The consumer that the examples of a group share. After a failed one it is replaced.
  def stage
    store = self.class.metadata[:stages] ||= {}
    store[:stage] ||= begin
      place = World.new
      collections, options = self.class.metadata.values_at(:collections, :options)
      [place, collections ? place.stage(collections, **options.to_h) : Stage.new(place, options.to_h)]
    end
    store[:stage].last
  end
end

RSpec.configure do |config|
  config.include Play
  config.disable_monkey_patching!
  config.expect_with(:rspec) { |expectations| expectations.max_formatted_output_length = 2000 }
  config.filter_run_excluding(REAL ? { mock_only: true } : { real_only: true })

  config.after(:context) { self.class.metadata[:stages]&.delete(:stage)&.first&.close }
  config.around { |example| Timeout.timeout(example.metadata.fetch(:limit, LIMIT)) { example.run } }
  config.after do |example|
    @world&.close
    self.class.metadata[:stages]&.delete(:stage)&.first&.close if example.exception
  end
end

# frozen_string_literal: true

require "tmpdir"

# What needs a process of its own: forks, forgotten shutdowns, several reactors, exits from a handler.
RSpec.describe Process do
  prelude = <<~RUBY
    require "prosody"
    class Quiet < Prosody::EventHandler
      def on_message(context, message); end
      def on_excise(context, message); end
      def on_timer(context, timer); end
    end
    def make(**more)
      Prosody::Client.new(bootstrap_servers: "localhost:1", mock: true, group_id: "processes",
                          subscribed_topics: "conf-processes", **more)
    end
  RUBY

  it "client refuses work after fork" do
    status, output = world.script(prelude + <<~'RUBY')
      client = make(source_system: "forked")
      client.subscribe(Quiet.new)
      child = fork do
        raise "source" unless client.source_system == "forked"
        [-> { client.send_message("conf-processes", "k", 1) }, -> { client.shutdown }, -> { client.consumer_state },
         -> { Prosody::Client.new }].each do |call|
          call.call
          exit!(1)
        rescue RuntimeError => e
          exit!(2) unless e.message.include?("cannot be used after fork")
        end
        exit!(42)
      end
      status = Process.wait2(child).last
      client.shutdown
      puts "child #{status.exitstatus}"
    RUBY
    expect([status, output]).to match([0, /child 42/])
  end

  it "process ends without shutdown" do
    status, output = world.script(prelude + <<~RUBY)
      client = make
      client.subscribe(Quiet.new)
      client.send_message("conf-processes", "k", 1)
      puts "sent"
    RUBY
    expect([status, output]).to match([0, /sent/])
  end

  it "client survives a second event loop" do
    status, output = world.script("require 'async'\n#{prelude}#{<<~'SECOND'}")
      client = Async { make }.wait
      Async do
        client.send_message("conf-processes", "k", 1)
        client.shutdown
        puts "state #{client.consumer_state}"
      end
    SECOND
    expect([status, output]).to match([0, /state shut_down/])
  end

  # ---- exits from a handler

  stopper = <<~'RUBY'
    require "prosody"
    Prosody.logger = Logger.new(File::NULL)
    TOPIC, GROUP, KAFKA, CASSANDRA, KEYSPACE, MODE, ERROR, ENDING = ARGV
    CALLS = ENV.fetch("CONFORMANCE_CALLS")
    DONE = Thread::Queue.new
    class Stops < Prosody::EventHandler
      def on_message(context, message)
        File.write(CALLS, "x", mode: "a")
        raise ERROR == "SystemExit" ? SystemExit.new(7) : Interrupt.new if File.size(CALLS) < 2
        DONE << true
      end
      def on_excise(context, message); end
      def on_timer(context, timer); end
    end
    where = MODE == "mock" ? { mock: true } : { cassandra_nodes: CASSANDRA, cassandra_keyspace: KEYSPACE, telemetry_enabled: false }
    client = Prosody::Client.new(bootstrap_servers: KAFKA, group_id: GROUP, subscribed_topics: TOPIC, defer_enabled: false,
                                 source_system: "stopper", shutdown_timeout: 5.0, **where)
    begin
      fresh = !File.exist?(CALLS)
      client.subscribe(Stops.new)
      client.send_message(TOPIC, "key", 1) if fresh
      Timeout.timeout(30) { DONE.pop }
      puts "delivered again"
    ensure
      client.shutdown if ENDING == "tidy"
    end
  RUBY

  # Runs the program whose handler raises; a second run goes on with the same topic and group.
  define_method(:stop) do |folder, topic, error, ending|
    world.script(stopper, topic, "#{topic}-group", KAFKA, CASSANDRA, KEYSPACE, REAL ? "real" : "mock", error, ending,
                 environment: { "CONFORMANCE_CALLS" => File.join(folder, "calls") })
  end

  %w[SystemExit Interrupt].each do |error|
    it "exit in a handler is no success [#{error}]" do
      Dir.mktmpdir do |folder|
        topic = world.topic
        status, output = stop(folder, topic, error, "tidy")
        expect(output).not_to include("Timeout::Error")
        next if File.read(File.join(folder, "calls")) != "x" # tried again

        expect([status, output]).not_to match([0, anything])
        if REAL # so the next process gets the record
          status, output = stop(folder, topic, error, "tidy")
          expect([status, output]).to match([0, /delivered again/])
        end
      end
    end
  end

  { "SystemExit" => [7], "Interrupt" => [1, 130, -2] }.each do |error, statuses|
    it "exit in a handler gives its exit status [#{error}]" do
      Dir.mktmpdir do |folder|
        status, output = stop(folder, world.topic, error, "abrupt")
        expect(statuses.include?(status) || output.include?("delivered again")).to be(true), "#{status}: #{output}"
      end
    end
  end
end

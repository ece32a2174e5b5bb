# frozen_string_literal: true

require "net/http"
require "weakref"

# Life cycle of a client, its options and environment, handler checks, probes and the admin client.
RSpec.describe Prosody::Client do
  def own(**options)
    world.client(group_id: world.name, subscribed_topics: world.topic, **options)
  end

  it "options are keyword only" do
    ["localhost:9094", 5, nil].each { |wrong| expect { described_class.new(wrong) }.to raise_error(ArgumentError) }
    expect { described_class.new(no_such_option: 1) }.to raise_error(NoMethodError, /no_such_option/)
  end

  it "states follow the calls" do
    client = own
    expect(client.consumer_state).to eq(:configured)
    client.subscribe(Recorder.new)
    expect(client.consumer_state).to eq(:running)
    client.unsubscribe
    expect(client.consumer_state).to eq(:configured)
    client.shutdown
    expect(client.consumer_state).to eq(:shut_down)
  end

  it "second subscribe is refused" do
    first = Recorder.new
    second = Recorder.new
    client, topic = world.consumer(first)
    expect { client.subscribe(second) }.to raise_error(RuntimeError)
    client.send_message(topic, "key", 1)
    first.count(1)
    expect(second.calls).to be_empty
  end

  it "concurrent subscribes have one winner" do
    client = own
    results = together(*([-> { client.subscribe(Recorder.new) }] * 4))
    expect(results.grep(RuntimeError).size).to eq(3)
    expect(client.consumer_state).to eq(:running)
  end

  it "unsubscribe needs a running consumer" do
    client = own
    expect { client.unsubscribe }.to raise_error(RuntimeError)
    expect(client.consumer_state).to eq(:configured)
  end

  it "concurrent unsubscribes end configured" do
    client, = world.consumer(Recorder.new)
    refused = together(*Array.new(4) { -> { client.unsubscribe } }).grep(Exception)
    expect(refused.size).to be < 4
    expect(refused).to all(be_a(RuntimeError))
    expect(client.consumer_state).to eq(:configured)
  end

  it "shutdown is idempotent and shared" do
    client, = world.consumer(Recorder.new)
    expect(together(*Array.new(5) { -> { client.shutdown } })).to all(be_nil)
    client.shutdown
    expect(client.consumer_state).to eq(:shut_down)
  end

  it "shutdown of an unused client" do
    client = world.client(source_system: "alone")
    client.shutdown
    expect(client.consumer_state).to eq(:shut_down)
  end

  it "unsubscribe racing shutdown ends shut down" do
    client, = world.consumer(Recorder.new)
    left, ended = together(-> { client.unsubscribe }, -> { client.shutdown })
    expect(ended).to be_nil
    expect(left).to be_nil.or be_a(RuntimeError)
    expect(client.consumer_state).to eq(:shut_down)
  end

  it "everything is refused after shutdown" do
    topic = world.topic
    client = world.client(group_id: "after", subscribed_topics: topic)
    client.shutdown
    [-> { client.send_message(topic, "k", 1) }, -> { client.excise(topic, "k") },
     -> { client.subscribe(Recorder.new) }, -> { client.unsubscribe }].each do |call|
      expect(&call).to raise_error(RuntimeError)
    end
    expect([client.assigned_partitions, client.is_stalled?, client.source_system]).to eq([0, false, "after"])
  end

  it "shutdown waits for running handlers" do
    handler = Recorder.new(message: ->(*) { sleep 1.5 })
    client, topic = world.consumer(handler, shutdown_timeout: 30.0)
    client.send_message(topic, "key", 1)
    handler.count(1)
    client.shutdown
    expect([handler.successes.size, handler.active]).to eq([1, 0])
  end

  it "async with shuts down after an error" do
    client = nil
    expect do
      described_class.open(world.options(source_system: "scoped")) do |opened|
        client = opened
        raise ZeroDivisionError
      end
    end.to raise_error(ZeroDivisionError)
    expect(client.consumer_state).to eq(:shut_down)
    expect(described_class.open(world.options(source_system: "scoped"), &:source_system)).to eq("scoped")
    expect { described_class.open(world.options(source_system: "scoped")) }.to raise_error(ArgumentError)
  end

  it "subscribe again with another handler" do
    first = Recorder.new
    second = Recorder.new
    client, topic = world.consumer(first)
    client.send_message(topic, "key", "one")
    first.finished(1)
    client.unsubscribe
    client.subscribe(second)
    client.send_message(topic, "key", "two")
    second.until(within: [20, WAIT].min) { second.payloads.include?("two") }
    expect(first.payloads).to eq(["one"])
  end

  it "next member takes over soon" do
    first = Recorder.new
    second = Recorder.new
    group = world.name("group")
    client, topic = world.consumer(first, group_id: group)
    client.send_message(topic, "key", 1)
    first.finished(1)
    client.shutdown
    heir, = world.consumer(second, topics: topic, group_id: group)
    heir.send_message(topic, "key", 2)
    second.until(within: [20, WAIT].min) { second.payloads.include?(2) }
  end

  # The frames of a thread of its own hold no reference when it has ended.
  def handled_once
    Thread.new do
      handler = Recorder.new
      client, topic = world.consumer(handler)
      client.send_message(topic, "key", 1)
      handler.finished(1)
      client.unsubscribe
      WeakRef.new(handler)
    end.value
  end

  it "handler is released after unsubscribe" do
    watchers = Array.new(5) { handled_once } # the collector is conservative: one of them may stay
    world.eventually("the handlers to be collected") do
      GC.start
      watchers.count(&:weakref_alive?) < 2
    end
  end

  it "assignment is visible" do
    topic = world.topic(partitions: 3)
    client = world.client(group_id: world.name, source_system: "x", subscribed_topics: topic)
    expect(client.assigned_partitions).to eq(0)
    client.subscribe(Recorder.new)
    client.send_message(topic, "key", 1) # in mock a topic comes into being with its first record
    world.eventually("3 partitions") { client.assigned_partitions == 3 }
    expect(client.is_stalled?).to be(false)
    client.unsubscribe
    expect(client.assigned_partitions).to eq(0)
  end

  it "plain operations return none" do
    topic = world.topic
    client = world.client(group_id: world.name, subscribed_topics: topic)
    results = [client.send_message(topic, "key", 1), client.excise(topic, "key"), client.subscribe(Recorder.new),
               client.unsubscribe, client.shutdown]
    expect(results).to eq([nil] * 5)
  end

  # ---- source system

  it "source system defaults to the group" do
    sources = lambda do
      [world.client(group_id: "the-group").source_system, world.client(group_id: "the-group", source_system: "own").source_system]
    end
    expect(sources.call).to eq(%w[the-group own])
    environment(PROSODY_SOURCE_SYSTEM: "from-env") { expect(sources.call).to eq(%w[from-env own]) }
  end

  it "source system or group is required" do
    expect { world.client }.to raise_error(RuntimeError, /source_system/i)
  end

  # ---- options

  [[:bootstrap_servers, 5, nil], [:bootstrap_servers, [], /bootstrap/i], [:mode, "low latency", /mode/],
   [:mode, :fast, /mode/], [:max_concurrency, "many", nil], [:max_concurrency, Object.new, nil],
   [:timeout, "5s", /duration/], [:timeout, Float::NAN, /timeout/],
   [:timeout, Float::INFINITY, /timeout/], [:shutdown_timeout, -1.0, /shutdown_timeout/], [:probe_port, 65_536, /probe_port/],
   [:probe_port, -1, /probe_port/], [:idempotence_cache_size, 0, /idempotence_cache_size/], [:loader_cache_size, 0, /loader/],
   [:message_spans, "sibling", /message_spans/], [:timer_spans, "Child", /timer_spans/], [:subsystem, " ", /subsystem/],
   [:state_owned_cache_size, "abc", /state_owned_cache_size/], [:state_read_cache, true, /state_read_cache/],
   [:peer_bind_address, "localhost:9099", /peer_bind_address/], [:state_collections, [5], /collection/i],
   [:defer_failure_threshold, "high", nil]].each do |option, value, named|
    it "wrong option fails create [#{option} #{value.inspect[0, 20]}]" do
      expect { world.client(group_id: "g", subscribed_topics: "conf-none", option => value) }
        .to raise_error(value == [] ? RuntimeError : ArgumentError, *named)
    end
  end

  [[:max_concurrency, 0], [:max_concurrency, -1], [:max_uncommitted, 0], [:scheduler_failure_weight, 1.5],
   [:monopolization_threshold, -0.1], [:idempotence_ttl, 59.0], [:allowed_events, []]].each do |option, value|
    it "value out of range is refused by subscribe at the latest [#{option} #{value}]" do
      topic = world.topic
      client = nil
      expect do
        client = world.client(group_id: world.name, subscribed_topics: topic, option => value)
        client.subscribe(Recorder.new)
      end.to raise_error(StandardError) { |error| expect(error).to be_a(ArgumentError).or be_a(RuntimeError) }
      expect(client.consumer_state).to eq(:configured) if client
    end
  end

  it "none means unset" do
    client = world.client(group_id: "nones", source_system: nil, max_concurrency: nil, timeout: nil, mode: nil,
                          allowed_events: nil, probe_port: nil, failure_topic: nil)
    expect(client.source_system).to eq("nones")
  end

  it "durations as number or timedelta" do
    [5, 5.5, 11/2r].each do |value|
      client = world.client(source_system: "durations", shutdown_timeout: value, timeout: value, poll_interval: value)
      client.shutdown
    end
  end

  it "client with broken consumer settings still produces" do
    topic = world.topic
    client = world.client(group_id: world.name, source_system: "x", subscribed_topics: topic, mode: :low_latency)
    client.send_message(topic, "key", 1)
    [-> { client.consumer_state }, -> { client.subscribe(Recorder.new) }].each do |call|
      expect(&call).to raise_error(RuntimeError, /failure.?topic/i)
    end
  end

  it "subscribe without topics fails" do
    client = world.client(group_id: world.name, source_system: "x")
    expect { client.subscribe(Recorder.new) }.to raise_error(RuntimeError)
  end

  it "missing topic fails create by name", :real_only do
    missing = world.name("missing")
    expect { world.client(group_id: world.name, subscribed_topics: missing).subscribe(Recorder.new) }
      .to raise_error(RuntimeError, /#{missing}/)
  end

  # ---- environment

  it "environment configures a client" do
    topics = [world.topic, world.topic]
    handler = Recorder.new
    given = { PROSODY_BOOTSTRAP_SERVERS: KAFKA, PROSODY_GROUP_ID: world.name("group"),
              PROSODY_SUBSCRIBED_TOPICS: topics.join(","), PROSODY_SOURCE_SYSTEM: "environment",
              PROSODY_SHUTDOWN_TIMEOUT: "5s 500ms", PROSODY_CASSANDRA_NODES: CASSANDRA,
              PROSODY_CASSANDRA_KEYSPACE: KEYSPACE, PROSODY_MOCK: (!REAL).to_s }
    omitted = %i[bootstrap_servers cassandra_nodes cassandra_keyspace mock shutdown_timeout].to_h do |name|
      [name, World::OMITTED]
    end
    client = environment(**given) { world.client(**omitted).tap { |made| made.subscribe(handler) } }
    topics.each { |topic| client.send_message(topic, "key", topic) }
    handler.count(2)
    expect(client.source_system).to eq("environment")
    expect(handler.payloads).to match_array(topics)
  end

  it "bad environment value names the variable" do
    topic = world.topic
    { PROSODY_SHUTDOWN_TIMEOUT: "5", PROSODY_MAX_CONCURRENCY: "many",
      PROSODY_PEER_REGISTRATION_TTL: "long" }.each do |name, value|
      environment(name => value) do
        expect do
          world.client(group_id: world.name, subscribed_topics: topic, shutdown_timeout: World::OMITTED).subscribe(Recorder.new)
        end.to raise_error(StandardError, /#{name}/)
      end
    end
  end

  it "explicit option beats a bad environment" do
    topic = world.topic
    environment(PROSODY_SHUTDOWN_TIMEOUT: "garbage", PROSODY_MAX_CONCURRENCY: "") do
      client = world.client(group_id: world.name, subscribed_topics: topic, shutdown_timeout: 5)
      client.subscribe(Recorder.new)
      expect(client.consumer_state).to eq(:running)
    end
  end

  # ---- handlers

  it "subscribe takes event handlers only" do
    client = own
    [Object.new, nil, ->(context, message) {}, Recorder].each do |wrong|
      expect { client.subscribe(wrong) }.to raise_error(ArgumentError, /must implement/)
    end
    expect(client.consumer_state).to eq(:configured)
  end

  %i[on_message on_excise on_timer].each do |method|
    it "handler methods must be callable [#{method}]" do
      client = own
      missing = Class.new(Prosody::EventHandler) do
        (Prosody::EventHandler::METHODS - [method]).each { |name| define_method(name) { |_context, _event| nil } }
      end
      expect { client.subscribe(missing.new) }.to raise_error(ArgumentError, /must implement ##{method}/)
      [->(_context) {}, ->(_context, _event, _more) {}, ->(_context, _event, more:) { more }].each do |body|
        wrong = Class.new(Recorder) { define_method(method, &body) }
        expect { client.subscribe(wrong.new) }.to raise_error(ArgumentError, /##{method} must accept two parameters/)
      end
      expect(client.consumer_state).to eq(:configured)
    end
  end

  it "event handler is abstract and generic" do
    Prosody::EventHandler::METHODS.each do |name|
      expect { Prosody::EventHandler.new.public_send(name, nil, nil) }.to raise_error(NotImplementedError, /#{name}/)
    end
  end

  # ---- admin client and probes

  it "admin client checks its configuration" do
    expect { Prosody::AdminClient.new(nil).create_topic("conf-nowhere", 1, 1) }.to raise_error(StandardError) { |error|
      expect(error).to be_a(ArgumentError).or be_a(RuntimeError)
    }
  end

  it "admin client creates and deletes topics", :real_only do
    admin = Prosody::AdminClient.new([KAFKA])
    topic = world.name("admin")
    admin.create_topic(topic, 2, 1, cleanup_policy: "delete", retention: 3600)
    world.client(source_system: "admin").send_message(topic, "key", 1)
    expect { admin.create_topic(topic, 2, 1) }.to raise_error(RuntimeError, /exists/i)
    admin.delete_topic(topic)
    admin.create_topic(topic, 1, 1)
    admin.delete_topic(topic)
  end

  it "probes answer while subscribed", :real_only do
    port = TCPServer.open("127.0.0.1", 0) { |server| server.addr[1] }
    ask = lambda do |path|
      Net::HTTP.get_response("127.0.0.1", path, port).code
    rescue SystemCallError
      nil
    end
    client, = world.consumer(Recorder.new, probe_port: port)
    %w[/livez /readyz].each { |path| world.eventually(path) { ask.call(path) == "200" } }
    expect([ask.call("/readyz/"), ask.call("/other")]).to eq(%w[200 404])
    client.unsubscribe
    expect(ask.call("/livez")).to be_nil
  end
end

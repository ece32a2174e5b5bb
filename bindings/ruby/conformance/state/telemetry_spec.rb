# frozen_string_literal: true

require "time"

# Spans over OTLP and records of the telemetry topic: existence, parents, attributes, nothing lost at the end.
RSpec.describe "telemetry" do
  producer = 4
  consumer = 5
  client_kind = 3

  # A small collector in a process of its own.
  collector = Class.new do
    attr_reader :endpoint, :protocol

    def initialize(protocol)
      @protocol = protocol
      @input, output, @thread = Open3.popen2(ENV.fetch("PYTHON", "python3"), File.join(World::HERE, "collector.py"), protocol)
      @output = output
      @endpoint = line("ENDPOINT")
    end

    # What has arrived.
    def spans
      @input.puts
      line("SPANS")
    end

    def close
      @input.close
      @thread.value
    end

    private

    def line(word)
      JSON.parse(@output.gets.delete_prefix("#{word} "))
    end
  end

  # Runs the traced program to its end; returns its exit status and its own spans.
  define_method(:trace) do |place, endpoint, protocol, wait: false, host: false|
    topic = place.topic
    options = place.options(group_id: place.name("group"), source_system: "conformance", subscribed_topics: topic,
                            subsystem: place.name("subsystem"))
    child = place.process("traced.rb", { options:, topic:, wait:, host_spans: host },
                          { "OTEL_EXPORTER_OTLP_ENDPOINT" => endpoint, "OTEL_SERVICE_NAME" => "conformance",
                            "OTEL_EXPORTER_OTLP_PROTOCOL" => protocol, "PROSODY_LOG" => "info" })
    child.hear("READY")
    child.signal("TERM") if wait
    [child.ended, child.heard.filter_map { |line| JSON.parse(line.delete_prefix("HOST ")) if line.start_with?("HOST ") }]
  end

  define_method(:traced) { |*arguments, **options| trace(*arguments, **options).first }

  # The spans of one run of the program that ends by itself.
  runs = {}
  define_method(:run_of) do |protocol|
    runs.fetch(protocol) do
      gathered = collector.new(protocol)
      expect(traced(world, gathered.endpoint, protocol)).to eq(0)
      runs[protocol] = gathered.spans.tap { gathered.close }
    end
  end

  def named(spans, name)
    spans.select { |span| span["name"] == name }
  end

  # The one span of a name that is about a key.
  def about(spans, name, key)
    found = named(spans, name).select { |span| span["attributes"].values.map(&:to_s).include?(key) }
    expect(found.size).to eq(1)
    found.first
  end

  %w[grpc http/protobuf].each do |protocol|
    it "all spans of a program arrive before it ends [#{protocol}]" do
      spans = run_of(protocol)
      names = %w[send receive trigger request schedule value.set value.get map.set map.get deque.push_back deque.pop_front]
      expect(names - spans.map { |span| span["name"] }).to eq([])
      expect(spans.map { |span| span["service"] }.uniq).to eq(["conformance"])
    end

    it "each state operation has exactly one span [#{protocol}]" do
      counts = run_of(protocol).map { |span| span["name"] }.tally
      expect(counts).to include("value.set" => 1, "value.get" => 3, "map.set" => 300, "map.get" => 1, "deque.push_back" => 1,
                                "deque.pop_front" => 1, "map.stream" => 1)
    end

    it "the received message continues the trace of its sender [#{protocol}]" do
      spans = run_of(protocol)
      receive = about(spans, "receive", "traced")
      send = about(spans, "send", "traced")
      expect([send["kind"], receive["kind"]]).to eq([producer, consumer])
      expect([receive["parent"], receive["trace"]]).to eq([send["id"], send["trace"]])
      known = spans.to_h { |span| [span["id"], span] }
      %w[value.set map.set map.stream deque.push_back schedule].flat_map { |name| named(spans, name) }.each do |span|
        expect(span["trace"]).to eq(send["trace"])
        span = known.fetch(span["parent"]) until span["id"] == receive["id"]
      end
    end

    it "spans carry what they are about [#{protocol}]" do
      spans = run_of(protocol)
      receive = named(spans, "receive").first["attributes"]
      expect(receive.values.map(&:to_s) & %w[traced asked]).not_to be_empty
      expect([receive.keys.grep(/partition/), receive.keys.grep(/offset/)]).to all(satisfy(&:any?))
      collections = ->(name) { named(spans, name).map { |span| span["attributes"]["collection"] }.uniq }
      expect([collections.call("value.get"), collections.call("map.set")]).to eq([["v"], ["m"]])
      expect(named(spans, "map.get").map { |span| span["attributes"]["map.key"] }).to include("0001")
    end

    it "a timer starts a trace of its own and links back [#{protocol}]" do
      spans = run_of(protocol)
      trigger, *more = named(spans, "trigger")
      send = about(spans, "send", "traced")
      expect([more, trigger["kind"], trigger["links"]]).to eq([[], consumer, [send["trace"]]])
      expect(trigger["trace"]).not_to eq(send["trace"])
      expect(named(spans, "value.get").count { |span| span["trace"] == trigger["trace"] }).to eq(1)
    end

    it "a request is a client span with its counts [#{protocol}]" do
      spans = run_of(protocol)
      request, *more = named(spans, "request")
      facts = request["attributes"]
      expect([more, request["kind"]]).to eq([[], client_kind])
      expect(%w[received succeeded failed].map { |name| facts["responses.#{name}"] }).to eq([1, 0, 1])
      expect([facts["responses.missing"].to_s, facts["messaging.kafka.message.key"]]).to eq(["", "asked"])
      send = about(spans, "send", "asked")
      expect([send["parent"], send["trace"]]).to eq([request["id"], request["trace"]])
    end

    it "span ids are unique and complete [#{protocol}]" do
      spans = run_of(protocol)
      ids = spans.map { |span| span["id"] }
      expect(ids).not_to be_empty
      expect(ids.uniq.size).to eq(ids.size)
      expect(spans.map { |span| span["trace"] }.grep(/\A0*\z/)).to eq([])
      expect(spans.reject { |span| span["parent"].empty? || ids.include?(span["parent"]) }).to eq([])
    end
  end

  it "spans are exported when sigterm ends the program" do
    gathered = collector.new("http/protobuf")
    expect(traced(world, gathered.endpoint, "http/protobuf", wait: true)).to eq(0)
    expect(%w[send receive trigger request value.set map.set] - gathered.spans.map { |span| span["name"] }).to eq([])
    gathered.close
  end

  it "handler spans of python are linked into the trace" do
    gathered = collector.new("http/protobuf")
    _, host = trace(world, gathered.endpoint, "http/protobuf", host: true)
    spans = gathered.spans
    receive = about(spans, "receive", "traced")
    own = host.select { |span| span["trace"] == receive["trace"] }.to_h { |span| [span["name"], span] }
    expect(own.fetch("on_message")["parent"]).to eq(receive["id"])
    expect(own.fetch("business")["parent"]).to eq(own["on_message"]["id"])
    expect(named(spans, "map.set").map { |span| span["parent"] }.uniq).to eq([own["business"]["id"]])
    expect(host.map { |span| span["name"] }).to include("on_timer")
    gathered.close
  end

  it "a dead collector does not hold up the program" do
    expect(traced(world, "http://127.0.0.1:9", "http/protobuf")).to eq(0)
  end

  it "flush and shutdown of telemetry may be called at any time" do
    status, output = world.script(<<~RUBY)
      require "prosody"
      2.times { Prosody.flush_telemetry }
      2.times { Prosody.shutdown_telemetry }
      puts "fine"
    RUBY
    expect([status, output]).to match([0, /fine/])
  end

  # What a watcher of the telemetry topic has seen: pairs of key and record.
  def seen(listener)
    listener.of(:message).map { |call| [call.key, call.event.payload] }
  end

  it "the telemetry topic tells the story of each event", :real_only do
    topic = world.topic("telemetry", partitions: 1)
    listener = Recorder.new
    world.consumer(listener, topics: topic)
    value = Prosody.value("v")
    place = world.stage([value], telemetry_enabled: true, telemetry_topic: topic)
    good, bad, retried = %w[good bad retried].map { |label| place.key(label) }
    timer = place.expect([:timer, good], ->(*) {})
    place.run(good) do |context, _|
      context.schedule(Time.now + (5 * 3600))
      context.clear_and_schedule(Time.now + 2)
    end
    expect { place.run(bad) { raise Prosody::PermanentError, "deliberate refusal" } }.to raise_error(Prosody::PermanentError)
    attempts = 0
    place.run(retried) { raise Again, "deliberate retry" if (attempts += 1) == 1 }
    timer.wait
    wanted = %w[message.sent message.dispatched message.succeeded timer.scheduled timer.cancelled timer.dispatched
                timer.succeeded]
             .map do |kind|
      [good, "prosody.#{kind}"]
    end
    wanted += [[bad, "prosody.message.failed"], [retried, "prosody.message.failed"], [retried, "prosody.message.succeeded"]]
    world.eventually("all telemetry records") { (wanted - seen(listener).map { |key, record| [key, record["type"]] }).empty? }
    of = lambda { |key, kind|
      seen(listener).filter_map do |owner, record|
        record if owner == key && record["type"] == "prosody.#{kind}"
      end
    }
    seen(listener).each do |key, record|
      sent = record["type"].end_with?("sent")
      expect(record).to include("key" => key, "topic" => place.topic, "partition" => be_an(Integer), "hostname" => /./,
                                "eventTime" => /\A\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z\z/,
                                "source" => sent ? "conformance" : place.group)
      expect(record.values).not_to include(nil)
      if record["type"].include?(".message.")
        expect(record).to include("offset" => be_an(Integer))
        expect(record).not_to have_key("scheduledTime")
      else
        expect(record).to include("scheduledTime" => /\A\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ\z/, "timerType" => "application")
      end
    end
    expect(of.call(good, "message.dispatched").map { |record| record["demandType"] }.uniq).to eq(["normal"])
    expect(of.call(bad,
                   "message.failed")).to match([include("errorCategory" => "permanent", "exception" => /deliberate refusal/)])
    expect(of.call(retried, "message.failed").first["errorCategory"]).to eq("transient")
    expect(of.call(retried, "message.succeeded").map { |record| record["demandType"] }).to eq(["failure"])
  end

  it "switched off telemetry writes nothing", :real_only do
    topic = world.topic("telemetry", partitions: 1)
    listener = Recorder.new
    world.consumer(listener, topics: topic)
    quiet = world.stage([], telemetry_enabled: false, telemetry_topic: topic)
    loud = world.stage([], telemetry_enabled: true, telemetry_topic: topic)
    quiet.run("quiet") { nil }
    loud.run("loud") { nil }
    world.eventually("the loud records") do
      seen(listener).any? { |key, record| key == "loud" && record["type"] == "prosody.message.succeeded" }
    end
    expect(seen(listener).map(&:first).uniq).to eq(["loud"])
  end
end

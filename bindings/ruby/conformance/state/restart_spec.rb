# frozen_string_literal: true

# What outlives a process: state, handled ids, timers, deferred messages; and what SIGKILL may not break.
RSpec.describe "restarts", :real_only, limit: 400 * PATIENCE do
  takeover = 150 # a killed member is missed by the broker only after its session has run out

  # The worker program under one group and topic, started, stopped and killed.
  service = Class.new do
    attr_reader :said

    def initialize(world)
      @world = world
      @said = []
      @topic = world.topic
      @group = world.name("group")
      @sender = world.client(source_system: "conformance")
    end

    def start(options: { defer_enabled: false }, **settings)
      options = @world.options(group_id: @group, subscribed_topics: @topic, source_system: "conformance", **options)
      @child = @world.process("worker.rb", { options:, **settings })
      hear("SUBSCRIBED")
    end

    # A graceful end.
    def stop
      @child.signal("TERM")
      status = @child.ended
      @said.concat(@child.heard)
      raise "no end: #{@child.heard.last(20)}" unless @child.heard.any? { |line| line.start_with?("ENDED") }

      status
    end

    def kill
      @child.signal("KILL")
      @child.ended
      @said.concat(@child.heard)
    end

    def send_message(key, **payload)
      @sender.send_message(@topic, key, payload)
    end

    def hear(word, within: WAIT * 1.5)
      @child.hear(word, within:)
    end

    def report(key, within: WAIT * 1.5)
      send_message(key, op: "report")
      loop do
        report = hear("REPORT", within:)
        return report if report["key"] == key
      end
    end
  end

  let(:worker) { service.new(world) }

  it "a process ends with status zero" do
    options = { defer_enabled: true, defer_base: 1.0, defer_failure_threshold: 1.0 }
    statuses = Array.new(6) do |number|
      worker.start(fail: number.odd?, options:)
      3.times { worker.report("key-#{number}") }
      worker.send_message("flaky", op: "flaky")
      worker.hear(number.odd? ? "FAILING" : "RECOVERED")
      worker.stop
    end
    expect(statuses).to eq([0] * 6)
  end

  it "state outlives the process" do
    worker.start
    %w[one two].each do |value|
      worker.send_message("key", op: "remember", value:)
      worker.hear("REMEMBERED")
    end
    worker.send_message("key", op: "count", id: "id-1")
    worker.hear("COUNTED")
    worker.stop
    worker.start
    expect(worker.report("key")).to include("value" => "two", "other" => %w[one two], "count" => 1, "names" => ["id-1"])
    worker.stop
  end

  it "ids of handled messages outlive the process" do
    worker.start
    worker.send_message("key", op: "count", id: "same")
    worker.hear("COUNTED")
    worker.stop
    worker.start
    worker.send_message("key", op: "count", id: "same")
    worker.send_message("key", op: "count", id: "other")
    expect(worker.hear("COUNTED")).to eq({ "id" => "other" })
    expect(worker.report("key")).to include("count" => 2, "names" => %w[other same])
    worker.stop
  end

  it "timers outlive the process" do
    fired = -> { worker.said.count { |line| line.start_with?("FIRED") } }
    worker.start
    worker.send_message("overdue", op: "remember", value: "a", timer: 1.0)
    worker.send_message("coming", op: "remember", value: "b", timer: 3600.0)
    2.times { worker.hear("REMEMBERED") }
    worker.stop
    already = fired.call
    sleep 1.5 # let the first one fall due
    worker.start
    expect(worker.hear("FIRED")).to include("key" => "overdue", "value" => "a") if already.zero?
    coming = worker.report("coming")
    expect([coming["timers"].size, coming["value"], worker.report("overdue")["timers"]]).to eq([1, "b", []])
    worker.stop
    expect(fired.call).to eq(1)
  end

  it "a deferred message outlives the process" do
    options = { defer_enabled: true, defer_base: 1.0, defer_max_delay: 2.0, defer_failure_threshold: 1.0 }
    worker.start(fail: true, options:)
    3.times do |number|
      worker.send_message("healthy-#{number}", op: "report")
      worker.hear("REPORT")
    end
    worker.send_message("key", op: "flaky")
    worker.hear("FAILING")
    worker.stop
    worker.start(options:)
    expect(worker.hear("RECOVERED")).to eq({ "value" => nil })
    worker.stop
  end

  it "a killed attempt leaves only its committed floor" do
    worker.start(hold: true)
    worker.send_message("key", op: "hold")
    expect(worker.hear("BEGIN")["value"]).to be_nil
    worker.hear("HOLDING")
    worker.kill
    worker.start
    expect(worker.hear("BEGIN", within: takeover)).to eq({ "value" => "floor", "other" => [] })
    expect(worker.report("key")).to include("value" => "floor", "other" => [])
    worker.stop
  end

  it "counters are exact despite sigkill at random points" do
    keys = %w[red green blue]
    sent = 0
    worker.start(pause: 0.02)
    2.times do
      60.times do
        worker.send_message(keys[sent % 3], op: "count", id: format("id-%03d", sent))
        sent += 1
      end
      rand(3..39).times { worker.hear("COUNTED", within: takeover) }
      sleep rand * 0.05
      worker.kill
      worker.start(pause: 0.02)
    end
    keys.each_with_index do |key, place|
      ids = (place...sent).step(3).map { |number| format("id-%03d", number) }
      expect(worker.report(key, within: takeover)).to include("count" => ids.size, "names" => ids)
    end
    worker.stop
  end

  it "a name keeps its kind for ever" do
    names = { group_id: world.name("group"), topic: world.topic }
    world.stage([Prosody.value("thing")], **names).client.shutdown
    [Prosody.map("thing"), Prosody.message_value("thing")].each do |other|
      expect { world.stage([other], **names).read(other, "key") }.to raise_error(StandardError, /thing/)
      world.clients.pop.shutdown
    end
    again = world.stage([Prosody.value("thing", ttl: 86_400, read_uncommitted: true)], **names)
    expect(again.read(Prosody.value("thing"), "key")).to be_nil
  end

  it "limits of a definition may change with a deployment" do
    names = { group_id: world.name("group"), topic: world.topic }
    deploy = lambda do |capacity, keyset_limit|
      world.stage([Prosody.deque("line", capacity:), Prosody.map("m", keyset_limit:)], **names)
    end
    push = lambda do |context, message|
      line = context.state(Prosody.deque("line"))
      entries = context.state(Prosody.map("m"))
      message.payload["items"].each do |item|
        line.push(item)
        entries.set(item, 1)
      end
      [line.each.to_a, entries.each_key.to_a]
    end
    first = deploy.call(6, 128)
    expect(first.run("key", push, items: [*"a".."f"])).to eq([[*"a".."f"], [*"a".."f"]])
    first.client.shutdown
    second = deploy.call(2, 0)
    expect(second.run("key", push, items: [*"g".."l"])).to eq([%w[k l], [*"a".."l"]])
    second.client.shutdown
    third = deploy.call(4, 1000)
    expect(third.run("key", push, items: %w[m n])).to eq([%w[k l m n], [*"a".."n"]])
  end
end

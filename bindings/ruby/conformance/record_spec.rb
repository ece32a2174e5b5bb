# frozen_string_literal: true

# Real mode: restarts, committed offsets, and records that other programs wrote or read.
RSpec.describe "records", :real_only do
  it "restart goes on after the last processed record" do
    first = Recorder.new
    second = Recorder.new
    group = world.name("group")
    client, topic = world.consumer(first, group_id: group)
    20.times { |number| client.send_message(topic, "key-#{number % 4}", number) }
    first.finished(20)
    client.shutdown
    world.client(source_system: "sender").send_message(topic, "key-0", "new")
    world.consumer(second, topics: topic, group_id: group)
    second.count(1)
    expect(second.payloads).to eq(["new"])
  end

  %i[pipeline best_effort].product([0.0, 0.5]).each do |mode, pause|
    it "clean shutdown commits what was processed [#{mode} #{pause}]" do
      first = Recorder.new(message: ->(_, message) { sleep pause if message.payload == "last" })
      second = Recorder.new
      topic = world.topic(partitions: 1)
      options = { topics: topic, group_id: world.name("group"), mode:, commit_interval: 5.0 }
      client, = world.consumer(first, **options)
      [*0...5, "last"].each { |payload| client.send_message(topic, "key", payload) }
      first.count(6)
      client.shutdown
      expect(first.successes.size).to eq(6)
      heir, = world.consumer(second, idempotence_version: "2", **options)
      heir.send_message(topic, "key", "new")
      second.until { second.payloads.include?("new") }
      expect(second.payloads).to eq(["new"])
    end
  end

  it "duplicates are recognised after a restart" do
    first, second, third = Array.new(3) { Recorder.new }
    group = world.name("group")
    client, topic = world.consumer(first, group_id: group)
    client.send_message(topic, "key", { id: "A", n: 1 })
    first.finished(1)
    client.shutdown
    client, = world.consumer(second, topics: topic, group_id: group)
    client.send_message(topic, "key", { id: "A", n: 2 })
    client.send_message(topic, "key", { id: "B", n: 3 })
    second.finished(1)
    expect(second.payloads.map { |payload| payload["n"] }).to eq([3])
    client.shutdown
    client, = world.consumer(third, topics: topic, group_id: group, idempotence_version: "2")
    client.send_message(topic, "key", { id: "A", n: 4 })
    third.until { third.payloads.any? { |payload| payload["id"] == "A" } }
  end

  bad = [["ok", "not json"], ["ok", "{\"open\": "], ["ok", ""], ["ok", "\xFF\xFE".b], ["ok", "1 2"], %w[ok nul],
         [nil, "{}"], ["\xFF\xFE\xFD".b, "{}"], [nil, nil], ["\xFF".b, nil], ["ok", "[" * 20_000]]

  %i[pipeline low_latency best_effort].each do |mode|
    it "undecodable records do not stop consumption [#{mode}]" do
      handler = Recorder.new
      topic = world.topic(partitions: 1)
      world.consumer(handler, topics: topic, mode:, failure_topic: world.topic("failures"))
      world.produce(topic, *bad, ["ok", " {\"good\": [1]} "])
      handler.until { handler.payloads.include?({ "good" => [1] }) }
      world.produce(topic, *bad, %w[ok 2])
      handler.until { handler.payloads.include?(2) }
      expect(handler.payloads).to eq([{ "good" => [1] }, 2])
    end
  end

  it "odd headers do no harm" do
    handler = Recorder.new
    topic = world.topic(partitions: 1)
    world.consumer(handler, topics: topic)
    cases = [[["x", nil]], [["", ""]], [["source-system", "\xFF\xFE".b]], [["source-system", nil]], [%w[traceparent rubbish]],
             [%w[source-system a], %w[source-system b]], [["response-request-id", "no uuid"]],
             [%w[response-deadline soon], ["response-peer", "\x00"], ["response-awaited", ""]],
             Array.new(200) { |number| ["h#{number}", "v" * 100] }, [["traceparent", "00-#{'0' * 32}-#{'0' * 16}-01"]]]
    world.produce(topic, *cases.each_with_index.map { |headers, number| ["key-#{number}", number.to_s, headers] })
    handler.count(cases.size)
    expect(handler.payloads.sort).to eq([*0...cases.size])
    expect(handler.calls.map { |call| call.event.response_requested? }).to all(be(false))
  end

  it "foreign records have no source system" do
    handler = Recorder.new
    topic = world.topic(partitions: 1)
    world.consumer(handler, topics: topic)
    world.produce(topic, %w[key 1], ["key", "2", [%w[source-system billing]]])
    handler.count(2)
    expect(handler.calls.map { |call| call.event.source_system }).to eq([nil, "billing"])
  end

  it "produced record on the wire" do
    topic = world.topic(partitions: 1)
    client = world.client(source_system: "wire")
    client.send_message(topic, "kéy", { "a" => [1, 2.5, "é"] })
    client.excise(topic, "kéy")
    message, excise = world.records(topic, 2)
    expect([message[:key], excise[:key]]).to eq(["kéy".b, "kéy".b])
    expect([message[:value].force_encoding("UTF-8"), excise[:value]]).to eq(['{"a":[1,2.5,"é"]}', nil])
    [message, excise].each { |record| expect(record[:headers].to_h["source-system"]).to eq("wire") }
  end

  it "regular expression subscription" do
    handler = Recorder.new
    prefix = world.name("pattern")
    wanted = world.topic(name: "#{prefix}-yes")
    unwanted = world.topic(name: "other-#{prefix}")
    client, = world.consumer(handler, topics: ["^#{prefix}-.*"])
    client.send_message(unwanted, "key", "no")
    client.send_message(wanted, "key", "yes")
    handler.count(1)
    expect(handler.payloads).to eq(["yes"])
  end
end

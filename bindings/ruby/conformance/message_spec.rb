# frozen_string_literal: true

# Records from send_message to the handler: payloads, keys, order, concurrency, filters, duplicates.
RSpec.describe Prosody::Message do
  # Sends payloads in order under one key and returns what the handler got.
  def echo(payloads)
    handler, key = stage.part
    payloads.each { |payload| stage.send_message(key.call, payload) }
    handler.count(payloads.size)
    handler.payloads
  end

  # Equality that also tells 1 from 1.0, and 0.0 from -0.0.
  def same?(left, right)
    return false unless left.instance_of?(right.class)

    case left
    when Hash then left.keys == right.keys && left.all? { |key, value| same?(value, right[key]) }
    when Array then left.size == right.size && left.zip(right).all? { |pair| same?(*pair) }
    when Float then left == right && (1 / left).positive? == (1 / right).positive?
    else left == right
    end
  end

  # ---- payloads

  it "scalars and containers round trip" do
    payloads = [nil, true, false, "", "text", [], {}, [[]], [nil], { "a" => nil }, [1, "two", 3.5, nil, true, { "x" => [{}] }],
                { "" => "" }, { "deep" => { "er" => [{ "and" => { "deeper" => [1, [2, [3]]] } }] } },
                { "id" => "not-seen-before", "type" => "t" }]
    expect(same?(echo(payloads), payloads)).to be(true)
  end

  it "numbers round trip exactly" do
    payloads = [0, 1, -1, 2**31, 2**53, (2**53) + 1, (2**63) - 1, -(2**63), 2**63, (2**64) - 1,
                0.0, -0.0, 1.0, -1.5, 0.1, 1 / 3.0, 5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, 1e22, 1e23,
                123_456_789.125]
    expect(same?(echo(payloads), payloads)).to be(true)
  end

  it "text round trips" do
    texts = ["naïve Ünïcödé", "日本語", "🦊🌍 e\u0301 \u200d", "\x00 \x01 \x1f \x7f", "\"quoted\" \\ / \b\f\n\r\t", "\u2028\u2029",
             "\u{d7ff}\u{e000}\u{ffff}\u{10ffff}", "x" * 70_000]
    payloads = texts + [texts.to_h { |text| [text, text] }]
    expect(echo(payloads)).to eq(payloads)
  end

  def random_json(rng, depth = 0)
    case rng.rand(depth < 4 ? 8 : 5)
    when 0 then [nil, true, false].sample(random: rng)
    when 1 then rng.rand(-(2**63)..((2**64) - 1))
    when 2 then [1, -1].sample(random: rng) * rng.rand * (10.0**rng.rand(-300..300))
    when 3, 4 then Array.new(rng.rand(12)) { [rng.rand(1..127), rng.rand(0xA0..0xD7FE)].sample(random: rng) }.pack("U*")
    when 5, 6 then Array.new(rng.rand(5)) { [rng.rand.to_s, random_json(rng, depth + 1)] }.to_h
    else Array.new(rng.rand(5)) { random_json(rng, depth + 1) }
    end
  end

  it "random documents round trip" do
    rng = Random.new(20_261)
    documents = Array.new(60) { random_json(rng) }
    expect(same?(echo(documents), documents)).to be(true)
  end

  it "object key order is kept" do
    payload, = echo([{ "z" => 1, "a" => { "y" => 1, "b" => 2 }, "m" => 3 }])
    expect([payload.keys, payload["a"].keys]).to eq([%w[z a m], %w[y b]])
  end

  it "tuple arrives as list" do
    pair = Struct.new(:left, :right).new(1, [2])
    expect(echo([pair.to_a, { t: Set.new }, { symbol: :value }]))
      .to eq([[1, [2]], { "t" => [] }, { "symbol" => "value" }])
  end

  it "large payload" do
    rng = Random.new(1)
    payload = { "blob" => Array.new(900_000) { rng.rand(97..122).chr }.join }
    expect(echo([payload]) == [payload]).to be(true)
  end

  it "unrepresentable payload is refused and nothing sent" do
    handler, key = stage.part
    [Object.new, "\xFF".b, { [1] => 2 }, "\xED\xA0\x80", [1, { "x" => Object.new }], 2**64, -(2**63) - 1, 10**400, 1..2,
     Time.now].each do |wrong|
      expect { stage.send_message(key.call, wrong) }.to raise_error(ArgumentError, /not representable/)
    end
    stage.send_message(key.call, "end")
    handler.count(1)
    expect(handler.payloads).to eq(["end"])
  end

  it "nan and infinity are refused" do
    _, key = stage.part
    [Float::NAN, Float::INFINITY, { "x" => [-Float::INFINITY] }].each do |wrong|
      expect { stage.send_message(key.call, wrong) }.to raise_error(ArgumentError)
    end
  end

  it "wrong argument types are refused" do
    [[stage.topic, 5], [stage.topic, nil], [stage.topic, ["k"]], [7, "k"]].each do |topic, key|
      expect { stage.client.send_message(topic, key, 1) }.to raise_error(ArgumentError)
    end
  end

  # ---- fields and keys

  it "message fields" do
    handler, key = stage.part
    began = Time.now - 1
    3.times { |number| stage.send_message(key.call, { "n" => number }) }
    messages = handler.count(3).map(&:event)
    messages.each do |message|
      expect(message).to be_a(described_class).and be_frozen
      expect([message.topic, message.key]).to eq([stage.topic, key.call])
      expect(message.partition).to be_between(0, 2)
      expect(message.offset).to be_an(Integer).and be >= 0
      expect(message.timestamp).to be_utc.and be_between(began, Time.now + 1)
      expect(message.timestamp.usec % 1000).to eq(0)
      expect([message.source_system, message.response_requested?]).to eq(["conformance", false])
    end
    expect(messages.map(&:partition).uniq.size).to eq(1)
    expect(messages.map(&:offset)).to eq(messages.map(&:offset).uniq.sort)
    expect(messages.first).not_to respond_to(:key=)
  end

  it "excise has no payload" do
    handler, key = stage.part
    stage.send_message(key.call, 1)
    stage.client.excise(stage.topic, key.call)
    stage.send_message(key.call, 2)
    handler.count(3)
    expect(handler.calls.map(&:kind)).to eq(%i[message excise message])
    record = handler.calls[1].event
    expect(record).to be_a(Prosody::ExciseMessage)
    expect(record).not_to respond_to(:payload)
    expect([record.topic, record.key, record.source_system]).to eq([stage.topic, key.call, "conformance"])
    expect(record.offset).to be > handler.calls[0].event.offset
    expect(record.timestamp).to be_utc
  end

  it "null payload is not an excise" do
    handler, key = stage.part
    stage.send_message(key.call, nil)
    handler.count(1)
    expect([handler.calls[0].kind, handler.calls[0].event.payload]).to eq([:message, nil])
  end

  it "unusual keys" do
    handler, key = stage.part
    names = ["ключ", "键", "🔑", "e\u0301", "\u00e9", " ", "a b\tc\nd", "nul\x00nul", "'\"`;--", "/", "x" * 5000, ""].map(&key)
    names.each { |name| stage.send_message(name, name) }
    handler.count(names.size)
    expect(handler.calls.map { |call| [call.key, call.event.payload] }).to match_array(names.map { |name| [name, name] })
  end

  it "many keys" do
    handler, key = stage.part
    together(*Array.new(12) do |part|
               lambda {
                 50.times do |n|
                   stage.send_message(key.call(((50 * part) + n).to_s), (50 * part) + n)
                 end
               }
             end)
      .each { |result| expect(result).not_to be_an(Exception) }
    handler.count(600)
    expect(handler.payloads.sort).to eq([*0...600])
  end

  it "handler result is ignored for plain records" do
    handler, key = stage.part(message: ->(*) { Object.new })
    stage.send_message(key.call, 1)
    stage.send_message(key.call, 2)
    handler.finished(2)
    expect(handler.payloads).to eq([1, 2])
  end

  # ---- order and concurrency

  it "one key never overlaps" do
    handler, key = stage.part(message: ->(*) { sleep 0.02 })
    25.times { |number| stage.send_message(key.call, number) }
    handler.finished(25)
    expect([handler.peak, handler.payloads]).to eq([1, [*0...25]])
  end

  it "blocked key does not hold up others" do
    gate = Thread::Queue.new
    handler, key = stage.part(message: ->(_, message) { gate.pop if message.payload == "block" })
    stage.send_message(key.call("blocked"), "block")
    handler.count(1)
    12.times { |number| stage.send_message(key.call("free-#{number}"), number) }
    begin
      handler.finished(12)
    ensure
      gate << true
    end
    handler.finished(13)
  end

  it "as many keys at once as allowed" do
    gate = Thread::Queue.new
    handler = Recorder.new(message: ->(*) { gate.pop })
    client, topic = world.consumer(handler, max_concurrency: 5, max_uncommitted: 20)
    15.times { |number| client.send_message(topic, "key-#{number}", number) }
    handler.count(5)
    sleep 0.3 # room for a sixth one to show up
    gate.close
    handler.finished(15)
    expect(handler.peak).to eq(5)
  end

  it "random workload keeps order per key" do
    rng = Random.new(77)
    lock = Mutex.new
    running = Set.new
    overlaps = []
    succeeded = Hash.new { |all, key| all[key] = [] }
    failures = [*0...150].select { rng.rand < 0.15 }.to_h { |number| [number, rng.rand(1..3)] }
    pauses = Array.new(1000) { rng.rand * 0.01 }
    work = lambda do |_, message|
      lock.synchronize { overlaps << message unless running.add?(message.key) }
      sleep pauses.sample
      number = message.payload
      if failures.fetch(number, 0).positive?
        lock.synchronize { failures[number] -= 1 }
        raise Prosody::TransientError, "again"
      end
      raise Prosody::PermanentError, "skipped" if (number % 29).zero?

      lock.synchronize { succeeded[message.key] << number }
    ensure
      lock.synchronize { running.delete(message.key) }
    end
    handler = Recorder.new(message: work)
    client, topic = world.consumer(handler, defer_enabled: false, max_retry_delay: 0.1)
    sent = Hash.new { |all, key| all[key] = [] }
    150.times do |number|
      key = "key-#{rng.rand(12)}"
      sent[key] << number
      client.send_message(topic, key, number)
    end
    expected = sent.transform_values { |numbers| numbers.reject { |number| (number % 29).zero? } }
    handler.until("all records") { succeeded.values.sum(&:size) == expected.values.sum(&:size) }
    expect([succeeded, overlaps]).to eq([expected, []])
  end

  it "same key goes to the same partition from any client" do
    handler, key = stage.part
    other = world.client(source_system: "other")
    20.times do |number|
      stage.send_message(key.call(number.to_s), "one")
      other.send_message(stage.topic, key.call(number.to_s), "two")
    end
    handler.count(40)
    20.times do |number|
      events = handler.of(key: key.call(number.to_s)).map(&:event)
      expect([events.map(&:partition).uniq.size, events.map(&:payload)]).to eq([1, %w[one two]])
    end
  end

  # ---- filters

  it "own records are not consumed" do
    handler = Recorder.new
    group = world.name("group")
    client, topic = world.consumer(handler, group_id: group, source_system: group)
    other = world.client(source_system: "other")
    client.send_message(topic, "key", "own")
    other.send_message(topic, "key", "foreign")
    client.excise(topic, "key")
    other.send_message(topic, "key", "end")
    handler.until { handler.payloads.include?("end") }
    expect([handler.payloads, handler.of(:excise)]).to eq([%w[foreign end], []])
    expect(handler.calls.map { |call| call.event.source_system }.uniq).to eq(["other"])
  end

  it "allowed events filter by prefix" do
    handler = Recorder.new
    client, topic = world.consumer(handler, allowed_events: ["user.", "order"])
    ["user.created", "order", "orders.x", "User.created", "xuser.", "user", nil, 5, ""].each_with_index do |kind, number|
      client.send_message(topic, "key", { n: number, type: kind })
    end
    client.send_message(topic, "key", { n: 9 })
    client.send_message(topic, "key", ["no object"])
    client.excise(topic, "key")
    client.send_message(topic, "key", { n: 10, type: "order.end" })
    handler.until { handler.payloads.any? { |payload| payload.is_a?(Hash) && payload["n"] == 10 } }
    expect(handler.payloads.grep(Hash).map { |payload| payload["n"] }).to eq([0, 1, 2, 6, 7, 9, 10])
    expect([handler.payloads.include?(["no object"]), handler.of(:excise).size]).to eq([true, 1])
  end

  it "duplicates by id are skipped" do
    handler, key = stage.part
    other = world.client(source_system: "other")
    send = lambda do |client, id, number, place = key.call|
      client.send_message(stage.topic, place, { id:, n: number })
    end
    send.call(stage.client, "A", 1)
    send.call(stage.client, "B", 2)
    send.call(other, "A", 3)
    send.call(other, "A", 4, key.call("elsewhere"))
    [5, 6].each { |number| send.call(stage.client, 7, number) }
    [7, 8].each { |number| send.call(stage.client, { x: "A" }, number) }
    send.call(other, "C", 9)
    handler.until { handler.payloads.any? { |payload| payload["n"] == 9 } && handler.of(key: key.call("elsewhere")).any? }
    expect(handler.payloads(key.call).map { |payload| payload["n"] }).to eq([1, 2, 5, 6, 7, 8, 9])
    expect(handler.payloads(key.call("elsewhere")).map { |payload| payload["n"] }).to eq([4])
  end

  it "producer drops a repeated id" do
    handler = Recorder.new
    client, topic = world.consumer(handler, mode: :best_effort)
    [["A", 1], ["A", 2], ["B", 3]].each { |id, number| client.send_message(topic, "key", { id:, n: number }) }
    handler.until { handler.payloads.any? { |payload| payload["n"] == 3 } }
    expect(handler.payloads.map { |payload| payload["n"] }).to eq([1, 3])
  end

  it "permanent failure counts as processed for duplicates" do
    handler, key = stage.part(message: ->(_, message) { raise Prosody::PermanentError, "no" if message.payload["n"] == 1 })
    other = world.client(source_system: "other")
    stage.send_message(key.call, { id: "A", n: 1 })
    handler.finished(1)
    other.send_message(stage.topic, key.call, { id: "A", n: 2 })
    other.send_message(stage.topic, key.call, { n: 3 })
    handler.until { handler.payloads.include?({ "n" => 3 }) }
    expect(handler.payloads.map { |payload| payload["n"] }).to eq([1, 3])
  end
end

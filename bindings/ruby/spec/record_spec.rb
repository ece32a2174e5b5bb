# frozen_string_literal: true

RSpec.describe Prosody.const_get(:Packed) do
  null = 0xFFFFFFFF

  def event(flags: 0, topic: "t", key: "k", payload: "1", source: nil, headers: [])
    null = 0xFFFFFFFF
    parts = [topic, key, payload, source, "trace", nil].map { |text| text&.b }
    packed = headers.map do |name, value|
      [name.bytesize, value ? value.bytesize : null].pack("LL") + name.b + value.to_s.b
    end.join
    sizes = parts.map { |text| text ? text.bytesize : null }
    [0, 1, flags, 7, 42, 1_700_000_000_123, 3, 2, *sizes, packed.bytesize, headers.size].pack("LSSQqqlLLLLLLLLL") +
      parts.compact.join + packed + ("\0" * 5)
  end

  it "reads events" do
    headers = [["a", "\0\xFF"], ["a", nil], ["\xFE", ""]]
    made = described_class.event(event(key: "k\0é", source: "s", flags: 1, headers:), {})
    expect(made.to_a).to eq(["t", 3, 42, 1_700_000_000_123, "k\0é", "1", "s",
                             [["a", "\0\xFF".b], ["a", nil], ["\xFE".b, ""]], 2, 1, described_class.event(event, {}).span])
    expect(made.span.to_a).to eq(["trace", ""])
    expect(made.key.encoding).to eq(Encoding::UTF_8)
    expect(made.headers.map { |_, value| value&.encoding }).to eq([Encoding::BINARY, nil, Encoding::BINARY])
  end

  it "reads what is null or empty" do
    made = described_class.event(event(payload: nil, key: ""), {})
    expect([made.payload, made.key, made.source, made.headers]).to eq([nil, "", nil, []])
    expect(described_class.event(event(payload: ""), {}).payload).to eq("")
  end

  it "keeps texts that repeat, within bounds" do
    names = {}
    first = described_class.event(event, names).topic
    expect(described_class.event(event, names).topic).to equal(first)
    2000.times { |index| described_class.event(event(topic: "t#{index}"), names) }
    expect(names.size).to be <= 1024
  end

  it "reads completions, lines, cancellations and faults" do
    raw = [0, 5, 0, 9, 300, 3, 42, 1, 4, null].pack("LSSQllqqLL") + "é!x".b
    expect(described_class.completion(raw).to_a).to eq([300, 3, 42, 1, "é!x".b, ""])
    raw = [0, 6, 0, 0, 5, 20, 1, 2, 2].pack("LSSQqlLLL") + "ab\xFF{}".b
    expect(described_class.line(raw).to_a).to eq([5, 20, "a", "b\u{FFFD}", "{}"])
    expect(described_class.reason([0, 4, 0, 9, 2, 0].pack("LSSQlL"))).to eq("partition has been revoked")
    expect(described_class.reason([0, 4, 0, 9, 99, 0].pack("LSSQlL"))).to eq("the handler is to stop")
    expect(described_class.fault("#{[0, 7, 0, 0, 2, 0].pack('LSSQLL')}abc")).to eq("ab")
  end
end

RSpec.describe Prosody::Message do
  def message(**fields)
    described_class.new(topic: "t", partition: 1, offset: 2, timestamp: 1_700_000_000_123, key: "k", payload: 1, **fields)
  end

  it "has its time in UTC, to the millisecond" do
    expect(message.timestamp).to eq(Time.at(1_700_000_000, 123, :millisecond))
    expect(message.timestamp).to be_utc
    expect(message(timestamp: Time.new(2024, 3, 31, 2, 30, 0, "+09:00")).timestamp).to eq(Time.utc(2024, 3, 30, 17, 30))
    [-62_135_596_800_000, 0, 1, 253_402_300_799_999].each do |time|
      expect((message(timestamp: time).timestamp.to_r * 1000).to_i).to eq(time)
    end
  end

  it "is frozen and compares by what was sent" do
    expect(message).to be_frozen
    expect(message).to eq(message(headers: [%w[a b]], source_system: "s", response_requested: true))
    expect(message.hash).to eq(message.hash)
    expect(message).not_to eq(message(key: "l"))
    expect({ message => 1 }[message]).to eq(1)
  end

  it "can be matched" do
    case message
    in { topic: "t", payload: Integer => payload } then expect(payload).to eq(1)
    end
  end

  it "differs from an excise message" do
    excise = Prosody::ExciseMessage.new(topic: "t", partition: 1, offset: 2, timestamp: 0, key: "k")
    expect(excise).not_to respond_to(:payload)
    expect(excise).to be_frozen
    expect(message).not_to eq(excise)
  end
end

RSpec.describe Prosody::Demand do
  it "tells kind and number" do
    demand = described_class.new(:failure, 2)
    expect([demand.failure?, demand.normal?, demand.retries, demand.retry]).to eq([true, false, 2, 2])
    expect(demand).to eq(described_class.new(:failure, 2))
  end
end

# frozen_string_literal: true

RSpec.describe "published state" do
  options = { published: true, read_cache: false }
  value = Prosody.value("value", **options)
  map = Prosody.map("map", **options)
  set = Prosody.set("set", **options)
  deque = Prosody.deque("deque", **options)

  let(:recorder) { Recorder.new }
  let(:servers) { name("servers") }
  let(:reading) { client(bootstrap_servers: servers, group_id: nil, subscribed_topics: nil) }

  # Runs a block in a handler of the service that publishes.
  define_method(:publish) do |key: "k", &block|
    within(recorder, key:, state_collections: [value, map, set, deque], subsystem: "shop", bootstrap_servers: servers, &block)
  end

  # Reads until what is written has come through.
  def seen(expected)
    found = nil
    eventually(10) { (found = yield) == expected }
    found
  rescue Timeout::Error
    raise "found #{found.inspect}, not #{expected.inspect}"
  end

  it "is read by key from elsewhere" do
    publish do |context|
      context.state(value).set({ "n" => 1.5 })
      %w[a1 a2 b1].each { |key| context.state(map)[key] = key.upcase }
      %w[x é].each { |member| context.state(set) << member }
      3.times { |number| context.state(deque) << number }
    end
    values, maps, sets, deques = [value, map, set, deque].map { |definition| reading.state("shop", definition) }
    expect([values, maps, sets, deques].map(&:class))
      .to eq([Prosody::PublishedValue, Prosody::PublishedMap, Prosody::PublishedSet, Prosody::PublishedDeque])
    seen({ "n" => 1.5 }) { values.get("k") }
    expect([values.value("k"), values.get("other")]).to eq([{ "n" => 1.5 }, nil])
    expect([maps.get("k", "a1"), maps["k", "zz"], maps.fetch("k", "zz", 0), maps.fetch("k", "zz", &:upcase), maps.dig("k", "a2"),
            maps.get_many("k", %w[b1 zz]), maps.values_at("k", "b1", "zz"), maps.slice("k", "a1", "zz"),
            maps.fetch_values("k", "b1"), maps.contains_many("k", %w[a1 zz]), maps.empty?("k"), maps.empty?("other")])
      .to eq(["A1", nil, 0, "ZZ", "A2", ["B1", nil], ["B1", nil], { "a1" => "A1" }, ["B1"], [true, false], false, true])
    expect(%i[key? has_key? include? member?].map { |name| maps.public_send(name, "k", "a1") }).to eq([true] * 4)
    expect { maps.fetch("k", "zz") }.to raise_error(KeyError)
    expect([sets.include?("k", "é"), sets.member?("k", "z"), sets.contains_many("k", %w[z x]), sets.empty?("k"),
            sets.each("k").to_a, sets.reverse_each("k", limit: 1).to_a]).to eq([true, false, [false, true], false, %w[x é],
                                                                                %w[é]])
    expect([deques.get("k", -1), deques.get("k", 7), deques.first("k"), deques.last("k"), deques.length("k"),
            deques.size("other"), deques.empty?("k"), deques.fetch("k", 9, "none"), deques.each("k", range: 1..2).to_a,
            deques.reverse_each("k").to_a])
      .to eq([2, nil, 0, 2, 3, 0, false, "none", [1, 2], [2, 1, 0]])
  end

  it "is scanned with the same queries" do
    publish { |context| 600.times { |number| context.state(map)[format("%03d", number)] = number } }
    maps = reading.state("shop", map)
    seen(600) { maps.each_key("k").count }
    expect(maps.each_pair("k", prefix: "01", limit: 2).to_a).to eq([["010", 10], ["011", 11]])
    expect(maps.reverse_each_pair("k", after: "002").to_a).to eq([["001", 1], ["000", 0]])
    expect(maps.each_value("k", range: "100"..."103").to_a).to eq([100, 101, 102])
    expect(maps.reverse_each_value("k", limit: 1).to_a).to eq([599])
    pairs = []
    expect(maps.each("k", limit: 1) { |key, number| pairs << key << number }).to equal(maps)
    expect(pairs).to eq(["000", 0])
    expect(maps.each("k") { |key, _| break key if key }).to eq("000")
    stream = maps.reverse_each_key("k")
    expect([stream.next, stream.next]).to eq(%w[599 598])
    expect { maps.each_key("k", from: "a", after: "b") }.to raise_error(ArgumentError, /from and after/)
    expect { maps.each_key("k", bogus: 1) }.to raise_error(ArgumentError, /bogus/)
    expect { maps.each_key(5) }.to raise_error(TypeError)
  end

  it "sees what is committed" do
    values = reading.state("shop", value)
    publish { |context| context.state(value).set("old") }
    seen("old") { values.get("k") }
    publish do |context|
      context.state(value).set("new")
      expect(values.get("k")).to eq("old")
      context.state(value).commit
      expect(seen("new") { values.get("k") }).to eq("new")
    end
  end

  it "tells what cannot be read" do
    expect do
      reading.state("shop", value).get("k")
    end.to raise_error(Prosody::TransientStateError, "no publication rows for shop/value")
    publish { |context| context.state(value).set(1) }
    seen(1) { reading.state(" shop ", value).get("k") }
    expect { reading.state("shop", Prosody.map("value")).get("k", "a") }
      .to raise_error(Prosody::PermanentStateError, /descriptor identity mismatch for source group/)
    expect { reading.state("Shop", value).get("k") }.to raise_error(Prosody::TransientStateError)
    expect { reading.state(" ", value) }.to raise_error(ArgumentError, "subsystem name must not be empty")
    expect { reading.state("shop", Prosody.value("value", read_cache: 0)) }
      .to raise_error(Prosody::PermanentStateError, "invalid read-cache policy: cache ttl is zero")
    [Prosody.message_value("value"), "value", nil].each do |wrong|
      expect do
        reading.state("shop", wrong)
      end.to raise_error(TypeError)
    end
    values = reading.state("shop", value)
    expect { values.dup }.to raise_error(TypeError)
    reading.shutdown
    expect { reading.state("shop", value) }.to raise_error(RuntimeError, /shut down/)
  end

  # Live readers and collections of the library.
  def live
    core = reading.instance_variable_get(:@core)
    library = core.instance_variable_get(:@library)
    unless library.respond_to?(:client_stats)
      library.attach_function :client_stats, :prosody_client_stats, %i[pointer pointer size_t pointer pointer], :int32
    end
    stats = JSON.parse(library.text(:client_stats, core.instance_variable_get(:@handle)))
    [stats.dig("library", "handles", "reader"), stats.dig("library", "states")]
  end

  it "leaves nothing behind" do
    publish { |context| 3.times { |number| context.state(map)[number.to_s] = number } }
    maps = reading.state("shop", map)
    seen(3) { maps.each_key("k").count }
    readers, states = live
    maps.get_many("k", %w[0 9])
    maps.each_key("k").first(2)
    maps.each("k") { |key, _| break key if key }
    expect { maps.each("k") { |key, _| raise IOError if key } }.to raise_error(IOError)
    expect(live).to eq([readers, states])
    50.times { reading.state("shop", map).each_key("k").next }
    eventually do
      GC.start
      live.first < readers + 25
    end
    expect(live.last).to be < states + 25
  end
end

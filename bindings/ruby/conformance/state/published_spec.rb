# frozen_string_literal: true

# Published state: readers by subsystem, their cache, errors, retirement, scans.
fresh = { published: true, read_cache: false }
value = Prosody.value("profile", **fresh)
map = Prosody.map("prices", **fresh)
deque = Prosody.deque("recent", **fresh)
set = Prosody.set("tags", **fresh)
cached = Prosody.value("cached", published: true, read_cache: 3600)
briefly = Prosody.value("briefly", published: true, read_cache: 0.3)
own = Prosody.value("private")

RSpec.describe "published state", collections: [value, map, deque, set, cached, briefly, own], options: { subsystem: true } do
  define_method(:write) do |key|
    stage.run_and_read(key, own) do |context, _| # a later event of the key: the writes are committed
      context.state(value).set({ "name" => "n" })
      %w[c a b].each_with_index do |name, number|
        context.state(map).set(name, number)
        context.state(deque).push(name)
      end
    end
  end

  def written
    stage.key.tap { |key| write(key) }
  end

  def reader_of(definition, subsystem: stage.subsystem, client: stage.client)
    client.state(subsystem, definition)
  end

  it "a published value is read by key" do
    key = written
    reader = reader_of(value)
    expect(reader).to be_a(Prosody::PublishedValue)
    expect([reader.get(key), reader.value(key), reader.get(stage.key)]).to eq([{ "name" => "n" }, { "name" => "n" }, nil])
  end

  it "a published map answers point reads" do
    key = written
    reader = reader_of(map)
    expect([reader.get(key, "a"), reader[key, "a"], reader.get(key, "zz"), reader.get(stage.key, "a")]).to eq([1, 1, nil, nil])
    expect([reader.get_many(key, %w[b zz c b]), reader.values_at(key, "b", "zz")]).to eq([[2, nil, 0, 2], [2, nil]])
    expect([reader.key?(key, "c"), reader.include?(key, "zz"), reader.has_key?(key, "a"), reader.member?(key, "zz")])
      .to eq([true, false, true, false])
    expect([reader.fetch(key, "zz", 5), reader.fetch(key, "zz", &:upcase)]).to eq([5, "ZZ"])
    expect([reader.slice(key, "a", "zz"), reader.dig(key, "a"), reader.fetch_values(key, "a")]).to eq([{ "a" => 1 }, 1, [1]])
    expect { reader.fetch(key, "zz") }.to raise_error(KeyError)
  end

  it "a published map tells presence in bulk" do
    key = written
    reader = reader_of(map)
    expect([reader.contains_many(key, %w[zz a]), reader.empty?(key),
            reader.empty?(stage.key)]).to eq([[false, true], false, true])
  end

  it "a published map is scanned in order" do
    key = written
    reader = reader_of(map)
    expect([reader.each_pair(key).to_a, reader.each(key).to_a]).to all(eq([["a", 1], ["b", 2], ["c", 0]]))
    expect([reader.each_key(key).to_a, reader.reverse_each_key(key).to_a, reader.each_value(key).to_a])
      .to eq([%w[a b c], %w[c b a], [1, 2, 0]])
    expect([reader.reverse_each_value(key).to_a, reader.reverse_each_pair(key).first, reader.each_pair(stage.key).to_a])
      .to eq([[0, 2, 1], ["c", 0], []])
    seen = []
    expect(reader.each_pair(key) { |name, number| seen << [name, number] }).to be(reader)
    expect(seen).to eq([["a", 1], ["b", 2], ["c", 0]])
  end

  it "a published scan takes the scan options" do
    key = written
    expect(reader_of(map).each_key(key, after: "a", limit: 1).to_a).to eq(["b"])
    expect(reader_of(map).reverse_each_pair(key, from: "b").to_a).to eq([["b", 2], ["a", 1]])
    expect(reader_of(deque).each(key, range: 1...3).to_a).to eq(%w[a b])
    expect(reader_of(deque).reverse_each(key, limit: 2).to_a).to eq(%w[b a])
    expect { reader_of(map).each_key(key, limit: 0) }.to raise_error(ArgumentError)
  end

  it "a published deque is read at both ends" do
    key = written
    empty = stage.key
    reader = reader_of(deque)
    expect([0, 2, 3, -1, -4].map { |index| reader.get(key, index) }).to eq(["c", "b", nil, "b", nil])
    expect([reader.size(key), reader.length(empty), reader.empty?(empty), reader.empty?(key)]).to eq([3, 0, true, false])
    expect([reader.first(key), reader.last(key), reader.last(empty), reader.fetch(key, 9, 1)]).to eq(["c", "b", nil, 1])
    expect([reader.each(key).to_a, reader.reverse_each(key).to_a]).to eq([%w[c a b], %w[b a c]])
  end

  it "a published set is read" do
    key = stage.key
    stage.run_and_read(key, own) { |context, _| %w[b a].each { |name| context.state(set).add(name) } }
    reader = reader_of(set)
    expect([reader.include?(key, "a"), reader.member?(key, "x"),
            reader.contains_many(key, %w[x b])]).to eq([true, false, [false, true]])
    expect([reader.empty?(key), reader.empty?(stage.key)]).to eq([false, true])
    expect([reader.each(key).to_a, reader.reverse_each(key, limit: 1).to_a]).to eq([%w[a b], ["b"]])
  end

  it "readers see only committed state" do
    key = written
    reader = reader_of(value)
    during = nil
    step = lambda do |context, _|
      context.state(value).set("pending")
      during = reader.get(key)
      context.state(value).commit
      context.state(value).set("dropped")
      raise Prosody::PermanentError, "drop the rest"
    end
    expect { stage.run(key, step) }.to raise_error(Prosody::PermanentError)
    stage.read(own, key)
    expect([during, reader.get(key)]).to eq([{ "name" => "n" }, "pending"])
  end

  it "a handler can read published state of other keys" do
    key = stage.key
    other = written
    results = stage.run_and_read(key, value) do |context, _|
      reader = reader_of(map)
      context.state(value).set(reader.get(other, "b"))
      reader.each_key(other).to_a
    end
    expect(results).to eq([%w[a b c], 2])
  end

  it "a cached answer lives as long as its window" do
    key = stage.key
    step = ->(context, message) { [cached, briefly].each { |each| context.state(each).set(message.payload["value"]) } }
    stage.run(key, step, value: 1)
    stage.read(value, key)
    lasting = reader_of(cached)
    short = reader_of(briefly)
    expect([lasting.get(key), short.get(key)]).to eq([1, 1])
    stage.run(key, step, value: 2)
    stage.read(value, key)
    world.eventually("the end of the cache window") { short.get(key) == 2 }
    expect(lasting.get(key)).to eq(1)
  end

  it "subsystem names are trimmed and not empty" do
    key = written
    expect(reader_of(value, subsystem: "  #{stage.subsystem} ").get(key)).to eq({ "name" => "n" })
    ["", "  "].each do |blank|
      expect { reader_of(value, subsystem: blank) }.to raise_error(StandardError) { |error|
        expect(error).to be_a(ArgumentError).or be_a(RuntimeError)
      }
    end
  end

  it "what nobody publishes fails at the first read" do
    [[world.name("nobody"), value], [stage.subsystem, Prosody.value("no-such", read_cache: false)], [stage.subsystem, own],
     [stage.subsystem.upcase, value]].each do |subsystem, definition|
      reader = reader_of(definition, subsystem:)
      expect { reader.get("key") }.to raise_error(Prosody::TransientStateError)
    end
  end

  it "reading as another kind is a permanent error" do
    reader = reader_of(Prosody.map("profile", read_cache: false))
    expect { reader.get("key", "x") }.to raise_error(Prosody::PermanentStateError)
  end

  it "only json definitions can be opened" do
    [Prosody.message_value("m"), Prosody.message_deque("d"), 5, "profile"].each do |wrong|
      expect { reader_of(wrong) }.to raise_error(TypeError)
    end
  end

  it "odd cache settings of a reader are refused" do
    [true, -1].each { |bad| expect { Prosody.value("profile", read_cache: bad) }.to raise_error(ArgumentError) }
    expect { reader_of(Prosody.value("profile", read_cache: 0)).get("key") }.to raise_error(Prosody::PermanentStateError)
  end

  it "publishing needs a subsystem" do
    expect { world.stage([Prosody.value("orphan", published: true)]) }.to raise_error(RuntimeError, /subsystem/)
  end

  it "a client without subscription reads what others publish" do
    key = written
    client = world.client(group_id: world.name("reader"))
    expect([reader_of(value, client:).get(key), reader_of(map, client:).each_key(key).to_a]).to eq([{ "name" => "n" }, %w[a b c]])
  end

  it "retirement removes the publication" do
    names = { subsystem: world.name("subsystem"), group_id: world.name("group"), topic: world.topic }
    kept = Prosody.value("kept", **fresh)
    first = world.stage([value, kept], **names)
    reader = reader_of(value, subsystem: names[:subsystem], client: world.client(group_id: world.name("reader")))
    expect(reader.get("key")).to be_nil
    first.client.shutdown
    world.stage([Prosody.value("profile", published: false), kept], **names)
    late = world.client(group_id: world.name("reader"))
    expect do
      reader_of(value, subsystem: names[:subsystem], client: late).get("key")
    end.to raise_error(Prosody::TransientStateError)
    expect(reader_of(kept, subsystem: names[:subsystem], client: late).get("key")).to be_nil
  end

  it "every partition is reached by key", :real_only do
    place = world.stage([value], topic: world.topic(partitions: 7), subsystem: true)
    keys = Array.new(24) { |number| place.key("schlüssel #{number}") }
    step = lambda do |context, message|
      context.state(value).set(message.key)
      message.partition
    end
    partitions = keys.map { |key| place.run(key, step) }
    expect(keys.map { |key| place.read(value, key) }).to eq(keys)
    reader = reader_of(value, subsystem: place.subsystem, client: world.client(group_id: world.name("reader")))
    expect(keys.map { |key| reader.get(key) }).to eq(keys)
    expect(partitions.uniq.size).to be > 3
  end
end

# frozen_string_literal: true

# Map collections: point operations, key set limits, persistence across events.
entries = Prosody.map("entries")
untracked = Prosody.map("untracked", keyset_limit: 0)
tiny = Prosody.map("tiny", keyset_limit: 3)

RSpec.describe Prosody::MapState, collections: [entries, untracked, tiny] do
  define_method(:fill) do |key, pairs, definition = entries|
    stage.prepare(key) { |context, _| pairs.each { |name, value| context.state(definition).set(name, value) } }
  end

  it "get gives the default only for an absent key" do
    stage.run(stage.key) do |context, _|
      map = context.state(entries)
      expect([map.set("zero", 0), map["empty"] = [], map.store("more", 1)]).to eq([0, [], 1])
      expect([map.fetch("zero", 9), map.fetch("empty", 9), map.fetch("missing", 9), map.get("missing"), map["zero"]])
        .to eq([0, [], 9, nil, 0])
      expect(map.fetch("missing", &:upcase)).to eq("MISSING")
      expect { map.fetch("missing") }.to raise_error(KeyError) { |error| expect(error.key).to eq("missing") }
      map.set("nested", { "a" => [{ "b" => 5 }] })
      expect([map.dig("nested", "a", 0, "b"), map.dig("missing", "a")]).to eq([5, nil])
      %i[key? has_key? include? member?].each do |question|
        expect([map.public_send(question, "zero"), map.public_send(question, "missing")]).to eq([true, false])
      end
    end
  end

  it "get many keeps order and repeats" do
    key = stage.key
    fill(key, { "a" => 1, "b" => 2 })
    found = stage.run(key) do |context, _|
      map = context.state(entries)
      map.set("c", 3)
      expect(map.values_at("b", "x", "a")).to eq([2, nil, 1])
      expect(map.slice("a", "x", "c")).to eq({ "a" => 1, "c" => 3 })
      expect(map.fetch_values("a", "x") { |name| name * 2 }).to eq([1, "xx"])
      expect { map.fetch_values("a", "x") }.to raise_error(KeyError)
      [%w[b x a b c], []].map { |keys| map.get_many(keys) }
    end
    expect(found).to eq([[2, nil, 1, 2, 3], []])
  end

  it "contains many and is empty see stored and new entries" do
    key = stage.key
    fill(key, { "stored" => 1, "doomed" => 1 })
    _, left = stage.run_and_read(key, entries) do |context, _|
      map = context.state(entries)
      expect(map.empty?).to be(false)
      map.set("new", 1)
      map.delete("doomed")
      expect(map.contains_many(%w[new doomed stored never new])).to eq([true, false, true, false, true])
      map.delete("stored")
      expect(map.empty?).to be(false)
      map.delete("new")
      expect(map.empty?).to be(true)
    end
    expect(left).to eq({})
  end

  it "removing an absent entry changes nothing" do
    key = stage.key
    fill(key, { "a" => 1 })
    expect(stage.run_and_read(key, entries) { |context, _| %w[absent a a].map { |name| context.state(entries).delete(name) } })
      .to eq([[nil, nil, nil], {}])
  end

  it "clear removes stored and new entries but not later ones" do
    key = stage.key
    fill(key, { "old" => 1, "again" => 1 })
    results = stage.run_and_read(key, entries) do |context, _|
      map = context.state(entries)
      map.set("new", 2)
      map.clear
      expect([map.each_key.to_a, map.get("old"), map.key?("new")]).to eq([[], nil, false])
      map.set("again", 3)
      map.each_pair.to_a
    end
    expect(results).to eq([[["again", 3]], { "again" => 3 }])
  end

  it "the three projections agree" do
    key = stage.key
    fill(key, { "c" => { "deep" => [1] }, "a" => "x", "b" => false })
    items, plain, keys, values, handed, same = stage.run(key) do |context, _|
      map = context.state(entries)
      handed = []
      same = map.each { |name, value| handed << [name, value] }.equal?(map)
      [map.each_pair.to_a, map.each.to_a, map.each_key.to_a, map.each_value.to_a, handed, same]
    end
    expect(items).to eq([%w[a x], ["b", false], ["c", { "deep" => [1] }]])
    expect([plain, handed, same]).to eq([items, items, true])
    expect([keys, values]).to eq([%w[a b c], ["x", false, { "deep" => [1] }]])
  end

  [entries, untracked, tiny].each do |definition|
    it "the key set limit never changes results [#{definition.name}]" do
      key = stage.key
      model = {}
      expected = []
      rounds = [[:set, "gfedcba"], [:delete, "bdf"], [:set, "zb"], [:clear, ""], [:set, "xy"], [:delete, "xy"], [:set, "q"]]
      steps = rounds.map do |operation, names|
        model.clear if operation == :clear
        names.each_char { |name| operation == :delete ? model.delete(name) : model[name] = name * 2 }
        expected << model.sort
        lambda do |context, _|
          map = context.state(definition)
          map.clear if operation == :clear
          names.each_char { |name| operation == :delete ? map.delete(name) : map.set(name, name * 2) }
          map.each_pair.to_a
        end
      end
      expect(stage.series(key, *steps, Lab.reader(definition))).to eq([*expected, model])
    end
  end

  it "keys must be strings" do
    found = stage.run(stage.key) do |context, _|
      map = context.state(entries)
      [5, nil, ["x"], 1.5].each do |bad|
        [-> { map.get(bad) }, -> { map.set(bad, 1) }, -> { map.delete(bad) }, -> { map.key?(bad) }].each do |call|
          expect(&call).to raise_error(TypeError)
        end
      end
      expect { map.get("\xFF") }.to raise_error(ArgumentError)
      map.each_key.to_a
    end
    expect(found).to eq([])
  end

  it "a refused entry leaves the map untouched" do
    _, found = stage.run_and_read(stage.key, entries) do |context, _|
      map = context.state(entries)
      map.set("a", 1)
      expect { map.set("a", nil) }.to raise_error(Prosody::NullValueError)
      expect { map.set("a", Object.new) }.to raise_error(Prosody::TransientStateError)
      expect { map["b"] = nil }.to raise_error(Prosody::NullValueError)
      map.set("nested", { "null" => nil })
    end
    expect(found).to eq({ "a" => 1, "nested" => { "null" => nil } })
  end

  it "odd keys are ordinary keys" do
    key = stage.key
    pairs = ["", " ", "\u0000", "a" * 3000, "ä", "a\u0308", "\u{1F600}"].each_with_index.to_h
    fill(key, pairs)
    expect(stage.read(entries, key)).to eq(pairs)
  end

  it "parallel writes of one attempt are all kept" do
    pairs = Array.new(200) { |number| [format("%03d", number), number] }
    _, found = stage.run_and_read(stage.key, entries) do |context, _|
      together(*pairs.each_slice(20).map { |some| -> { some.each { |name, value| context.state(entries).set(name, value) } } })
    end
    expect(found).to eq(pairs.to_h)
  end
end

# frozen_string_literal: true

# Scans: order, direction, edges, limits, laziness, large collections, agreement with plain Ruby models.
map = Prosody.map("entries")
untracked = Prosody.map("untracked", keyset_limit: 0)
deque = Prosody.deque("line")
set = Prosody.set("members")

RSpec.describe "scans", collections: [map, untracked, deque, set] do
  awkward = ["", "\u0000", "10", "9", "Z", "a", "a\u0000", "ab", "b", "ÿ", "\u{d7ff}", "\u{ffff}", "\u{10000}", "\u{1F600}"]

  define_method(:write) do |key, names, definition = map|
    stage.prepare(key) { |context, _| names.each { |name| context.state(definition).set(name, name) } }
  end

  [map, untracked].each do |definition|
    it "map scans follow the byte order of utf8 [#{definition.name}]" do
      key = stage.key
      names = awkward.shuffle(random: Random.new(1))
      write(key, names.each_slice(2).map(&:first), definition)
      forward, backward, items = stage.run(key) do |context, _|
        entries = context.state(definition)
        names.each_slice(2).filter_map(&:last).each { |name| entries.set(name, name) }
        [entries.each_key.to_a, entries.reverse_each_key.to_a, entries.each_pair.to_a]
      end
      expected = awkward.sort_by(&:bytes)
      expect([forward, backward, items]).to eq([expected, expected.reverse, expected.map { |name| [name, name] }])
      expect(stage.run(key) { |context, _| context.state(definition).reverse_each_key.to_a }).to eq(expected.reverse)
    end
  end

  it "values walk backward too" do
    key = stage.key
    write(key, %w[b a c])
    values, pairs, same = stage.run(key) do |context, _|
      entries = context.state(map)
      [entries.reverse_each_value.to_a, entries.reverse_each_pair.to_a, entries.reverse_each.to_a]
    end
    expect([values, pairs, same]).to eq([%w[c b a], [%w[c c], %w[b b], %w[a a]], pairs])
  end

  edges = [
    [{ prefix: "b" }, %w[b ba bb]], [{ prefix: "" }, %w[a b ba bb c]], [{ prefix: "x" }, []],
    [{ from: "ba" }, %w[ba bb c]], [{ after: "ba" }, %w[bb c]], [{ to: "ba" }, %w[a b ba]],
    [{ before: "ba" }, %w[a b]], [{ from: "b", to: "bb" }, %w[b ba bb]],
    [{ after: "b", before: "bb" }, %w[ba]], [{ from: "aa", before: "bz" }, %w[b ba bb]],
    [{ range: "b"..."bb" }, %w[b ba]], [{ range: "b".."bb" }, %w[b ba bb]], [{ range: nil..."b" }, %w[a]],
    [{ range: "bb".. }, %w[bb c]], [{ range: "c"..."a" }, []], [{ range: nil.. }, %w[a b ba bb c]],
    [{ range: "a"..."c", after: "b" }, %w[ba bb]], [{ prefix: "b", after: "b" }, %w[ba bb]],
    [{ limit: 2 }, %w[a b]], [{ limit: 99 }, %w[a b ba bb c]], [{ after: "b", limit: 1 }, %w[ba]],
    [{ from: "z" }, []], [{ prefix: "b", limit: 1 }, %w[b]]
  ]
  backward_edges = [
    [{ from: "ba" }, %w[ba b a]], [{ after: "ba" }, %w[b a]], [{ to: "ba" }, %w[c bb ba]], [{ before: "ba" }, %w[c bb]],
    [{ from: "bb", to: "b" }, %w[bb ba b]], [{ from: "b", to: "bb" }, []], [{ prefix: "b", limit: 2 }, %w[bb ba]],
    [{ range: "b"..."bb" }, %w[ba b]], [{ limit: 1 }, %w[c]]
  ]

  [map, untracked].each do |definition|
    it "edges prefixes and limits select entries [#{definition.name}]" do
      key = stage.key
      write(key, %w[a b ba bb c], definition)
      forward, backward, items, values = stage.run(key) do |context, _|
        entries = context.state(definition)
        [edges.map { |options, _| [options, entries.each_key(**options).to_a] },
         backward_edges.map { |options, _| [options, entries.reverse_each_key(**options).to_a] },
         entries.each_pair(prefix: "ba").to_a, entries.each_value(limit: 1).to_a]
      end
      expect([forward, backward]).to eq([edges, backward_edges])
      expect([items, values]).to eq([[%w[ba ba]], %w[a]])
    end
  end

  positions = [
    [{ from: 1, before: 3 }, [1, 2]], [{ after: 3 }, [4, 5]], [{ to: 1 }, ["front", 1]], [{ range: 1...3 }, [1, 2]],
    [{ range: 4..98 }, [4, 5]], [{ range: 3...1 }, []], [{ limit: 1 }, ["front"]], [{ after: 99 }, []],
    [{ range: ..1 }, ["front", 1]]
  ]
  backward_positions = [
    [{ limit: 2 }, [5, 4]], [{ from: 2 }, [2, 1, "front"]], [{ to: 4 }, [5, 4]], [{ range: 1...3 }, [2, 1]]
  ]

  it "deque scans select by position" do
    key = stage.key
    stage.prepare(key) do |context, _|
      6.times { |number| context.state(deque).push(number) }
      context.state(deque).shift
      context.state(deque).unshift("front")
    end
    forward, backward = stage.run(key) do |context, _|
      line = context.state(deque)
      [positions.map { |options, _| [options, line.each(**options).to_a] },
       backward_positions.map { |options, _| [options, line.reverse_each(**options).to_a] }]
    end
    expect([forward, backward]).to eq([positions, backward_positions])
  end

  senseless = [
    [TypeError, :map, { prefix: 5 }], [TypeError, :map, { from: 5 }], [ArgumentError, :map, { unknown: 1 }],
    [ArgumentError, :map, { limit: "1" }], [ArgumentError, :map, { limit: 1.5 }], [TypeError, :map, { range: 0..2 }],
    [ArgumentError, :map, { limit: 0 }], [ArgumentError, :map, { limit: -1 }], [ArgumentError, :map, { from: "a", after: "b" }],
    [ArgumentError, :map, { to: "a", before: "b" }], [TypeError, :map, { range: "a" }], [ArgumentError, :map, { limit: 2**64 }],
    [ArgumentError, :deque, { prefix: "a" }], [ArgumentError, :deque, { from: "a" }], [ArgumentError, :deque, { from: -1 }],
    [ArgumentError, :deque, { range: -1.. }], [TypeError, :deque, { range: 5 }]
  ]

  it "senseless options are errors" do
    keys = stage.run(stage.key) do |context, _|
      entries = context.state(map)
      entries.set("a", 1)
      senseless.each do |error, kind, options|
        scan = kind == :map ? entries.method(:each_key) : context.state(deque).method(:each)
        expect { scan.call(**options) }.to raise_error(error), options.inspect
        expect { scan.call(**options) { |item| item } }.to raise_error(error), options.inspect
      end
      entries.each_key.to_a
    end
    expect(keys).to eq(["a"])
  end

  it "leaving a scan early is harmless" do
    key = stage.key
    write(key, Array.new(300) { |number| format("%03d", number) })
    seen, count = stage.run(key) do |context, _|
      entries = context.state(map)
      seen = entries.each_key.first(3)
      entries.each_key { |name| break seen << name } # rubocop:disable Lint/UnreachableLoop
      opened = entries.each_pair
      seen << opened.next << opened.next
      opened.rewind
      seen << opened.next
      entries.set("after", 1)
      [seen, entries.each_key.count]
    end
    expect([seen, count]).to eq([["000", "001", "002", "000", %w[000 000], %w[001 001], %w[000 000]], 301])
  end

  [255, 256, 257, 1300].each do |size|
    it "large collections are walked completely [#{size}]" do
      key = stage.key
      names = Array.new(size) { |number| format("%05d", number) }
      stage.prepare(key) do |context, _|
        names.each do |name|
          context.state(map).set(name, name)
          context.state(deque).push(name)
        end
      end
      forward, backward, line, reverse = stage.run(key) do |context, _|
        entries = context.state(map)
        items = context.state(deque)
        names.each_slice(7) do |name, *|
          entries.delete(name)
          entries.set("#{name}x", 1)
        end
        items.shift
        items.push("last")
        [entries.each_key.to_a, entries.reverse_each_key.to_a, items.each.to_a, items.reverse_each.to_a]
      end
      expected = names.each_with_index.map { |name, number| (number % 7).zero? ? "#{name}x" : name }.sort
      expect([forward, backward]).to eq([expected, expected.reverse])
      expect([line, reverse]).to eq([names.drop(1) + ["last"], ["last"] + names.drop(1).reverse])
    end
  end

  it "a scan dies with its attempt" do
    key = stage.key
    kept = nil
    write(key, Array.new(700) { |number| format("%04d", number) })
    first = stage.run(key) do |context, _|
      kept = context.state(map).each_key
      kept.first
    end
    expect(first).to eq("0000")
    stage.run(key) { nil }
    expect { kept.to_a }.to raise_error(Prosody::TransientStateError)
  end

  # One random operation on a map handle and on the hash that models it.
  def map_round(dice, entries, model)
    name = ("a".."h").to_a.sample(random: dice) + ["", "1", "é", "\u{1F600}"].sample(random: dice)
    case dice.rand
    when 0...0.55 then entries.set(name, model[name] = dice.rand(1000))
    when 0...0.9
      model.delete(name)
      entries.delete(name)
    when 0...0.93
      model.clear
      entries.clear
    else expect(entries.get(name)).to eq(model[name])
    end
  end

  # Rounds of which some fail; the model keeps what the others did.
  def rounds(dice, committed)
    fates = Array.new(8) { dice.rand < 0.3 }
    steps = fates.map do |failing|
      lambda do |context, _|
        model = committed.dup
        yield context, model
        raise Prosody::PermanentError, "dropped" if failing

        committed.replace(model)
      end
    end
    [fates, steps]
  end

  [11, 12].each do |seed|
    it "random map operations agree with a dict [#{seed}]" do
      dice = Random.new(seed)
      key = stage.key
      committed = {}
      definition = seed.odd? ? map : untracked
      fates, steps = rounds(dice, committed) do |context, model|
        entries = context.state(definition)
        40.times do
          map_round(dice, entries, model)
          next if dice.rand > 0.15

          expected = model.sort_by { |name, _| name.bytes }
          expect([entries.each_pair.to_a, entries.reverse_each_key.to_a]).to eq([expected, expected.map(&:first).reverse])
        end
      end
      *ends, found = stage.series(key, *steps, Lab.reader(definition))
      expect([ends.map { |result| result.is_a?(Prosody::PermanentError) }, found]).to eq([fates, committed])
    end
  end

  # One random operation on a deque handle and on the array that models it.
  def deque_round(dice, line, model)
    item = dice.rand(1000)
    case dice.rand
    when 0...0.3
      line.push(item)
      model.push(item)
    when 0...0.55
      line.unshift(item)
      model.unshift(item)
    when 0...0.7 then expect(line.pop).to eq(model.pop)
    when 0...0.85 then expect(line.shift).to eq(model.shift)
    when 0...0.87
      line.clear
      model.clear
    else
      index = dice.rand(-4..3)
      expect([line.get(index), line.size, line.each.to_a]).to eq([model[index], model.size, model])
    end
  end

  [21, 22].each do |seed|
    it "random deque operations agree with a deque [#{seed}]" do
      dice = Random.new(seed)
      committed = []
      fates, steps = rounds(dice, committed) do |context, model|
        40.times { deque_round(dice, context.state(deque), model) }
      end
      *ends, found = stage.series(stage.key, *steps, Lab.reader(deque))
      expect([ends.map { |result| result.is_a?(Prosody::PermanentError) }, found]).to eq([fates, committed])
    end
  end

  it "random set operations agree with a sorted set" do
    dice = Random.new(31)
    model = Set.new
    letters = %w[a b c é]
    step = lambda do |context, _|
      members = context.state(set)
      40.times do
        name = letters.sample(random: dice) + ["", "\u0000", "x", "\u{1F600}"].sample(random: dice)
        if dice.rand < 0.6
          members.add(name)
          model.add(name)
        else
          members.delete(name)
          model.delete(name)
        end
        edge = letters.sample(random: dice)
        expected = model.sort_by(&:bytes).select { |member| (member.bytes <=> edge.bytes) >= 0 }
        expect([members.each(from: edge).to_a, members.include?(name)]).to eq([expected, model.include?(name)])
      end
      members.each.to_a == model.sort_by(&:bytes)
    end
    expect(stage.series(stage.key, *([step] * 5))).to eq([true] * 5)
  end
end

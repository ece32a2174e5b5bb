# frozen_string_literal: true

RSpec.describe "scans of keyed state" do
  map = Prosody.map("map")
  untracked = Prosody.map("untracked", keyset_limit: 0)
  set = Prosody.set("set")
  deque = Prosody.deque("deque")

  let(:recorder) { Recorder.new }

  # Runs a block in a handler.
  define_method(:step) do |key: "k", &block|
    within(recorder, key:, state_collections: [map, untracked, set, deque], &block)
  end

  keys = %w[a b ba bb c]
  queries = {
    { prefix: "b" } => %w[b ba bb], { prefix: "" } => keys, { prefix: "x" } => [], { from: "ba" } => %w[ba bb c],
    { after: "ba" } => %w[bb c], { to: "ba" } => %w[a b ba], { before: "ba" } => %w[a b],
    { from: "b", to: "bb" } => %w[b ba bb], { after: "b", before: "bb" } => %w[ba], { from: "aa", before: "bz" } => %w[b ba bb],
    { range: "b"..."bb" } => %w[b ba], { range: "b".."bb" } => %w[b ba bb], { range: nil..."b" } => %w[a],
    { range: ..."b" } => %w[a], { range: .."b" } => %w[a b], { range: "bb".. } => %w[bb c], { range: "bb"... } => %w[bb c],
    { range: "c".."a" } => [], { range: nil..nil } => keys, { range: "b".."b" } => %w[b],
    { range: "a"..."c", after: "b" } => %w[ba bb],
    { prefix: "b", after: "b" } => %w[ba bb], { limit: 2 } => %w[a b], { limit: 99 } => keys, { after: "b", limit: 1 } => %w[ba],
    { from: "z" } => [], { prefix: :b, limit: 1 } => %w[b], { from: nil, limit: nil } => keys
  }
  backward = {
    { from: "ba" } => %w[ba b a], { after: "ba" } => %w[b a], { to: "ba" } => %w[c bb ba], { before: "ba" } => %w[c bb],
    { from: "bb", to: "b" } => %w[bb ba b], { from: "b", to: "bb" } => [], { prefix: "b", limit: 2 } => %w[bb ba],
    { range: "b"..."bb" } => %w[ba b], { limit: 1 } => %w[c]
  }
  positions = {
    {} => [10, 11, 12, 13, 14], { from: 1 } => [11, 12, 13, 14], { after: 1 } => [12, 13, 14], { to: 2 } => [10, 11, 12],
    { before: 2 } => [10, 11], { from: 1, before: 3 } => [11, 12], { range: 1..3 } => [11, 12, 13], { range: 1...3 } => [11, 12],
    { range: ..1 } => [10, 11], { range: 3.. } => [13, 14], { range: 3..1 } => [], { limit: 2 } => [10, 11], { after: 99 } => [],
    { range: 0..((2**64) - 1) } => [10, 11, 12, 13, 14], { range: 4..99, from: 0 } => [14]
  }
  reversed = { { from: 3 } => [13, 12, 11, 10], { to: 3 } => [14, 13], { limit: 2 } => [14, 13], { range: 1...3 } => [12, 11] }

  [map, untracked].each do |definition|
    it "select keys of the #{definition.name == 'map' ? 'map' : 'map without a list of its keys'}" do
      step { |context| keys.shuffle(random: Random.new(2)).each { |key| context.state(definition)[key] = key } }
      found = step do |context|
        state = context.state(definition)
        [queries.to_h { |query, _| [query, state.each_key(**query).to_a] },
         backward.to_h { |query, _| [query, state.reverse_each_key(**query).to_a] },
         state.each_pair(prefix: "ba").to_a, state.each(limit: 1).to_a, state.each_value(after: "bb").to_a,
         state.reverse_each_pair(limit: 1).to_a, state.reverse_each(limit: 1).to_a, state.reverse_each_value(prefix: "b").to_a]
      end
      expect(found).to eq([queries, backward, [%w[ba ba]], [%w[a a]], %w[c], [%w[c c]], [%w[c c]], %w[bb ba b]])
    end
  end

  it "select members of a set" do
    step { |context| keys.each { |key| context.state(set) << key } }
    found = step do |context|
      state = context.state(set)
      [queries.to_h { |query, _| [query, state.each(**query).to_a] },
       backward.to_h { |query, _| [query, state.reverse_each(**query).to_a] }]
    end
    expect(found).to eq([queries, backward])
  end

  it "select items of a deque by position" do
    found = step do |context|
      state = context.state(deque)
      [11, 12, 13, 14].each { |item| state << item }
      state.unshift(10)
      [positions.to_h { |query, _| [query, state.each(**query).to_a] },
       reversed.to_h { |query, _| [query, state.reverse_each(**query).to_a] }]
    end
    expect(found).to eq([positions, reversed])
  end

  it "refuse what makes no sense, at the call" do
    wrong = {
      { limit: 0 } => /limit/, { limit: -1 } => /limit/, { limit: 1.5 } => /limit/, { limit: "2" } => /limit/,
      { limit: 2**64 } => /limit/, { from: "a", after: "b" } => /from and after/, { to: "a", before: "b" } => /to and before/,
      { bogus: 1 } => /unknown keyword: :bogus/, { from: "\xFF" } => /from/
    }
    mistyped = { { from: 1 } => /from: expected a String/, { prefix: 5 } => /prefix/, { range: "a" } => /expected a Range/,
                 { range: 1..2 } => /range: expected a String/ }
    misplaced = { { from: -1 } => /from.*non-negative/, { before: 1.5 } => /before.*non-negative/,
                  { to: "a" } => /to.*non-negative/, { range: -2..-1 } => /range.*non-negative/, { from: 2**64 } => /from/,
                  { prefix: "x" } => /unknown keyword: :prefix/ }
    names = %i[each each_pair each_key each_value reverse_each reverse_each_pair reverse_each_key reverse_each_value]
    step do |context|
      state = context.state(map)
      state["a"] = 1
      names.each do |name|
        wrong.each { |query, text| expect { state.public_send(name, **query) }.to raise_error(ArgumentError, text) }
        mistyped.each { |query, text| expect { state.public_send(name, **query, &:itself) }.to raise_error(TypeError, text) }
      end
      %i[each reverse_each].each do |name|
        misplaced.each do |query, text|
          expect do
            context.state(deque).public_send(name, **query)
          end.to raise_error(ArgumentError, text)
        end
        expect { context.state(deque).public_send(name, range: 3) }.to raise_error(TypeError, /Range/)
      end
      expect(state.each_key.to_a).to eq(["a"])
    end
  end

  it "take a block or give an Enumerator" do
    step do |context|
      state = context.state(map)
      keys.each { |key| state[key] = key.upcase }
      pairs = []
      expect(state.each { |key, value| pairs << key << value }).to equal(state)
      expect(pairs).to eq(keys.flat_map { |key| [key, key.upcase] })
      expect(state.each).to be_a(Enumerator)
      expect(state.each_pair.with_index.map { |(key, value), index| [key, value, index] }.last).to eq(["c", "C", 4])
      expect(state.each_key.lazy.map(&:upcase).first(2)).to eq(%w[A B])
      stream = state.each_key(prefix: "b")
      expect([stream.next, stream.next, stream.peek, stream.next]).to eq(%w[b ba bb bb])
      expect { stream.next }.to raise_error(StopIteration)
      expect(context.state(set).each(&:undefined)).to equal(context.state(set))
      expect(context.state(deque).reverse_each(&:undefined)).to equal(context.state(deque))
    end
  end

  it "may be left early" do
    step { |context| 700.times { |number| context.state(map)[format("%03d", number)] = number } }
    step do |context|
      state = context.state(map)
      expect(state.each { |key, _| break key if key }).to eq("000")
      expect { state.each_value { |number| raise IOError if number } }.to raise_error(IOError)
      expect(state.each_key.find { |key| key > "300" }).to eq("301")
      state["after"] = 1
      expect(state.each_key.count).to eq(701)
    end
  end

  [255, 256, 257, 1300].each do |size|
    it "walk over #{size} entries" do
      names = Array.new(size) { |number| format("%05d", number) }
      step do |context|
        names.each { |name| context.state(deque) << context.state(map).set(name, "#{name}#{'x' * 300}")[0, 5] }
      end
      found = step do |context|
        state = context.state(map)
        (0...size).step(7) { |number| [state.delete(names[number]), state.store("#{names[number]}x", 1)] }
        context.state(deque).shift
        [state.each_key.to_a, state.reverse_each_key.to_a, state.each_value.count, context.state(deque).each.to_a]
      end
      expected = names.each_with_index.map { |name, number| (number % 7).zero? ? "#{name}x" : name }
      expect(found).to eq([expected, expected.reverse, size, names.drop(1)])
    end
  end

  it "give entries that are larger than the memory for them" do
    step { |context| 3.times { |number| context.state(deque) << (number.to_s * 100_000) } }
    expect(step { |context| context.state(deque).each.map { |item| [item[0], item.size] } })
      .to eq([["0", 100_000], ["1", 100_000], ["2", 100_000]])
  end

  it "agree with a Hash over random changes" do
    dice = Random.new(11)
    model = {}
    8.times do
      failing = dice.rand < 0.3
      after = step_with(dice, failing, model.dup)
      model = after unless failing
      expect(step { |context| context.state(map).each.to_a }).to eq(model.sort_by { |key, _| key.b })
    end
  end

  define_method(:step_with) do |dice, failing, model|
    ending = failing ? ->(_) { raise Prosody::PermanentError, "no" } : nil
    within(recorder, ending, state_collections: [map, untracked, set, deque]) do |context|
      state = context.state(map)
      40.times do
        name = "abcdefgh"[dice.rand(8)] + ["", "1", "é", "😀"][dice.rand(4)]
        case dice.rand(100)
        when 0...55 then model[name] = state[name] = dice.rand(1000)
        when 55...90 then [model.delete(name), state.delete(name)]
        when 90...93 then [model.clear, state.clear]
        else expect(state[name]).to eq(model[name])
        end
      end
      expect(state.reverse_each_pair.to_a).to eq(model.sort_by { |key, _| key.b }.reverse)
    end
    model
  end
end

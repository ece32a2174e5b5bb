# frozen_string_literal: true

# Deque collections: both ends, positions, capacity, persistence across events.
line = Prosody.deque("line")
bounded = Prosody.deque("bounded", capacity: 3)

RSpec.describe Prosody::DequeState, collections: [line, bounded] do
  define_method(:fill) do |key, items, definition = line|
    stage.prepare(key) { |context, _| items.each { |item| context.state(definition).push(item) } }
  end

  it "both ends push and pop" do
    key = stage.key
    fill(key, [1, 2])
    results = stage.run_and_read(key, line) do |context, _|
      deque = context.state(line)
      expect([deque.push(3), deque.unshift(0)]).to all(be(deque))
      expect(deque.each.to_a).to eq([0, 1, 2, 3])
      deque.append(4) << 5
      deque.prepend(-1)
      expect([deque.pop, deque.pop, deque.shift]).to eq([5, 4, -1])
      [deque.pop, deque.shift, deque.pop]
    end
    expect(results).to eq([[3, 0, 2], [1]])
  end

  it "an empty deque answers without errors" do
    found = stage.run(stage.key) do |context, _|
      deque = context.state(line)
      [deque.pop, deque.shift, deque.last, deque.first, deque.get(0), deque.get(-1), deque.size, deque.length, deque.empty?]
    end
    expect(found).to eq([nil, nil, nil, nil, nil, nil, 0, 0, true])
  end

  it "peeks look without removing" do
    key = stage.key
    fill(key, %w[front middle back])
    found = stage.run(key) do |context, _|
      deque = context.state(line)
      [deque.last, deque.first, deque.size, deque.empty?]
    end
    expect(found).to eq(["back", "front", 3, false])
  end

  it "positions count from either end" do
    key = stage.key
    fill(key, %w[a b c])
    found = stage.run(key) do |context, _|
      deque = context.state(line)
      deque.unshift("z")
      expect([deque.fetch(1), deque.fetch(9, "default"), deque.fetch(9) { |index| index * 2 }]).to eq(["a", "default", 18])
      expect { deque.fetch(9) }.to raise_error(IndexError)
      [0, 1, 3, 4, 10**6, 2**70, -1, -4, -5].map { |index| deque.get(index) }
    end
    expect(found).to eq(["z", "a", "c", nil, nil, nil, "c", "z", nil])
  end

  it "a position must be an integer" do
    stage.run(stage.key) do |context, _|
      ["0", 1.5, nil].each { |bad| expect { context.state(line).get(bad) }.to raise_error(Prosody::TransientStateError) }
    end
  end

  it "capacity evicts from the other end" do
    key = stage.key
    fill(key, [*0...6], bounded)
    expect(stage.read(bounded, key)).to eq([3, 4, 5])
    results = stage.run_and_read(key, bounded) do |context, _|
      deque = context.state(bounded)
      deque.unshift("left")
      expect([deque.each.to_a, deque.size]).to eq([["left", 3, 4], 3])
      deque.push("right").each.to_a
    end
    expect(results).to eq([[3, 4, "right"]] * 2)
  end

  it "an emptied deque can be used again" do
    key = stage.key
    fill(key, [1, 2])
    found = stage.run(key) do |context, _|
      deque = context.state(line)
      deque.push(3)
      deque.clear
      expect([deque.size, deque.each.to_a, deque.last]).to eq([0, [], nil])
      deque.unshift("b").unshift("a").each.to_a
    end
    expect(found).to eq(%w[a b])
    _, left = stage.run_and_read(key, line) do |context, _|
      deque = context.state(line)
      nil until deque.pop.nil?
      deque.push("again")
    end
    expect(left).to eq(["again"])
  end

  it "a work queue keeps its order over events" do
    key = stage.key
    taken = []
    fill(key, [*0...5])
    step = lambda do |context, _|
      deque = context.state(line)
      taken << deque.shift
      deque.push(taken.last + 100)
      deque.unshift("urgent")
      taken << deque.shift
    end
    expect(stage.series(key, step, step, step, Lab.reader(line)).last).to eq([3, 4, 100, 101, 102])
    expect(taken).to eq([0, "urgent", 1, "urgent", 2, "urgent"])
  end

  it "items walk in both directions" do
    key = stage.key
    fill(key, [1, 2, 3])
    found = stage.run(key) do |context, _|
      deque = context.state(line)
      deque.push(4)
      [deque.each.to_a, deque.reverse_each.to_a]
    end
    expect(found).to eq([[1, 2, 3, 4], [4, 3, 2, 1]])
  end

  it "a refused item leaves the deque untouched" do
    key = stage.key
    fill(key, ["kept"])
    results = stage.run_and_read(key, line) do |context, _|
      deque = context.state(line)
      %i[push unshift].each do |push|
        expect { deque.public_send(push, nil) }.to raise_error(Prosody::NullValueError)
        expect { deque.public_send(push, Object.new) }.to raise_error(Prosody::TransientStateError)
      end
      deque.size
    end
    expect(results).to eq([1, ["kept"]])
  end
end

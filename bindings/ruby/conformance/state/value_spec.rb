# frozen_string_literal: true

# Value collections: JSON round trips, absence, rejected writes, definitions.
plain = Prosody.value("plain")
other = Prosody.value("other")

RSpec.describe Prosody::ValueState, collections: [plain, other] do
  samples = [0, false, true, -1, 1.5, -0.25, 1e300, "", "text", "é\u0000\u{1F600}", [], {}, [nil], { "n" => nil }, (2**64) - 1,
             -(2**63), (2**53) + 1, { "b" => [1, { "c" => "d" }], "a" => 2.0 }, [[[[]]]], "x" * 5000]

  it "a value never written reads as none" do
    expect(stage.run(stage.key) { |context, _| context.state(plain).get }).to be_nil
  end

  it "every json value comes back equal in value and type" do
    results = together(*samples.map do |sample|
      lambda do
        key = stage.key
        [stage.run(key) do |context, _|
          context.state(plain).set(sample)
          context.state(plain).value
        end, stage.read(plain, key)]
      end
    end)
    results.zip(samples) do |seen, sample|
      expect(seen).to eq([sample, sample])
      expect(seen.map(&:class)).to all(be(sample.class))
    end
  end

  it "a tuple is stored as a list" do
    key = stage.key
    _, found = stage.run_and_read(key, plain) { |context, _| context.state(plain).value = { pair: Set[1, 2] } }
    expect(found).to eq({ "pair" => [1, 2] })
  end

  it "keys and collections do not share values" do
    first = stage.key
    second = stage.key
    stage.run(first) { |context, _| context.state(plain).set("mine") }
    expect([stage.read(plain, second), stage.read(other, first), stage.read(plain, first)]).to eq([nil, nil, "mine"])
  end

  it "a cleared value is absent at once and later" do
    key = stage.key
    stage.run(key) { |context, _| context.state(plain).set(1) }
    cleared = stage.run(key) do |context, _|
      [context.state(plain).clear, context.state(plain).get]
    end
    expect([cleared, stage.read(plain, key)]).to eq([[nil, nil], nil])
    _, found = stage.run_and_read(key, plain) do |context, _|
      context.state(plain).clear
      context.state(plain).set(2)
    end
    expect(found).to eq(2)
  end

  it "the last write of an attempt wins" do
    _, found = stage.run_and_read(stage.key, plain) { |context, _| 50.times { |number| context.state(plain).set(number) } }
    expect(found).to eq(49)
  end

  it "a large value survives" do
    large = { "blob" => Array.new(30_000) { |number| format("%08d", number) } }
    _, found = stage.run_and_read(stage.key, plain) { |context, _| context.state(plain).set(large) }
    expect(found == large).to be(true)
  end

  it "null is not a value" do
    results = stage.run_and_read(stage.key, plain) do |context, _|
      handle = context.state(plain)
      handle.set("kept")
      [nil, Float::NAN, Float::INFINITY, -Float::INFINITY].each do |null|
        expect { handle.set(null) }.to raise_error(Prosody::NullValueError)
      end
      handle.get
    end
    expect(results).to eq(%w[kept kept])
  end

  it "a null write has its own error class" do
    expect(Prosody::NullValueError).to be < Prosody::TransientStateError
    stage.run(stage.key) { |context, _| expect { context.state(plain).set(nil) }.to raise_error(Prosody::NullValueError) }
  end

  it "what json cannot express is refused" do
    results = stage.run_and_read(stage.key, plain) do |context, _|
      handle = context.state(plain)
      handle.set("kept")
      [Object.new, "\xFF".b, { [1] => "key" }, 2**64, -(2**63) - 1, { "deep" => [Object.new] },
       { "deep" => { nil => 3 } }].each do |thing|
        expect { handle.set(thing) }.to raise_error(Prosody::TransientStateError)
      end
      handle.get
    end
    expect(results).to eq(%w[kept kept])
  end

  it "one attempt has one handle for a definition" do
    seen = []
    step = lambda do |context, _|
      expect(context.state(plain)).to be(context.state(plain))
      seen << context.state(plain)
    end
    key = stage.key
    2.times { stage.run(key, step) }
    expect(seen[0]).not_to be(seen[1])
  end

  it "options of the passed definition do not matter for binding" do
    found = stage.run(stage.key) do |context, _|
      context.state(Prosody.value("plain", ttl: 3600, read_uncommitted: true)).set("same")
      context.state(plain).get
    end
    expect(found).to eq("same")
  end

  it "parallel operations of one attempt all happen" do
    found = stage.run(stage.key) do |context, _|
      together(-> { context.state(plain).set("a") }, -> { context.state(other).set("b") })
      together(*([plain, other] * 10).map { |definition| -> { context.state(definition).get } })
    end
    expect(found).to eq(%w[a b] * 10)
  end

  it "definitions describe themselves and cannot change" do
    made = [[Prosody.value("a", ttl: 60, published: true), "value", "json"], [Prosody.map("b", keyset_limit: 5), "map", "json"],
            [Prosody.deque("c", capacity: 9), "deque", "json"], [Prosody.message_value("d"), "value", "message"],
            [Prosody.message_map("e"), "map", "message"],
            [Prosody.message_deque("f", read_uncommitted: true), "deque", "message"]]
    made.each do |definition, kind, payload|
      config = definition.to_state_config
      expect([definition.kind, definition.payload, definition.name]).to eq([kind, payload, config[:name]])
      expect(config).to include(kind:, payload:)
      expect(definition).to be_frozen
      expect { definition.instance_variable_set(:@name, "changed") }.to raise_error(FrozenError)
    end
    expect(made[0][0].to_state_config).to eq({ name: "a", kind: "value", payload: "json", ttl_seconds: 60, published: true })
    expect([made[1][0].to_state_config[:keyset_limit], made[2][0].to_state_config[:capacity]]).to eq([5, 9])
    expect(made[5][0].to_state_config[:read_uncommitted]).to be(true)
  end

  it "state errors carry their classification" do
    expect(Prosody::PermanentStateError).to be < Prosody::PermanentError
    expect(Prosody::TransientStateError).to be < Prosody::TransientError
    expect([Prosody::PermanentStateError.new("x").permanent?,
            Prosody::TransientStateError.new("x").permanent?]).to eq([true, false])
  end
end

# frozen_string_literal: true

RSpec.describe Prosody::StateDefinition do
  it "is frozen, tells what it is and becomes a config" do
    { Prosody.value("a", ttl: 60, published: true, read_cache: 2.5) =>
        { name: "a", kind: "value", payload: "json", ttl_seconds: 60, published: true, read_cache: 2.5 },
      Prosody.map(:b, keyset_limit: 0, read_uncommitted: true) =>
        { name: "b", kind: "map", payload: "json", read_uncommitted: true, keyset_limit: 0 },
      Prosody.set("c", keyset_limit: 5, read_cache: false) => { name: "c", kind: "set", keyset_limit: 5, read_cache: false },
      Prosody.deque("d", capacity: 3, ttl: 2.0) =>
        { name: "d", kind: "deque", payload: "json", ttl_seconds: 2, capacity: 3 },
      Prosody.message_value("e", ttl: 1) => { name: "e", kind: "value", payload: "message", ttl_seconds: 1 },
      Prosody.message_map("f", keyset_limit: 1) => { name: "f", kind: "map", payload: "message", keyset_limit: 1 },
      Prosody.message_deque("g", capacity: 1) => { name: "g", kind: "deque", payload: "message", capacity: 1 } }
      .each do |definition, config|
        expect(definition).to be_frozen
        expect(definition.name).to be_frozen
        expect(definition.to_state_config).to eq(config)
        expect(definition.to_h.keys).to eq(%i[name kind payload ttl_seconds read_uncommitted published read_cache
                                              keyset_limit capacity])
      end
  end

  it "compares by value" do
    expect(Prosody.value("a", ttl: 1)).to eq(Prosody.value("a", ttl: 1))
    expect({ Prosody.map("a") => 1 }[Prosody.map("a")]).to eq(1)
    expect(Prosody.value("a")).not_to eq(Prosody.value("a", ttl: 1))
    expect(Prosody.map("a")).not_to eq(Prosody.set("a"))
    expect(Prosody.value("a").with(ttl_seconds: 7)).to eq(Prosody.value("a", ttl: 7))
    case Prosody.deque("x")
    in { name: "x", kind: "deque" } then nil
    end
    expect(Prosody.set("s", ttl: 3).inspect).to eq('#<Prosody::StateDefinition name="s" kind="set" ttl_seconds=3>')
  end

  it "refuses what it cannot be" do
    [1.5, Float::NAN, Float::INFINITY, "60", true].each do |ttl|
      expect { Prosody.value("a", ttl:) }.to raise_error(ArgumentError, /ttl: must be a whole number of seconds/)
    end
    [true, -1, "5", Float::NAN].each do |read_cache|
      expect { Prosody.value("a", read_cache:) }.to raise_error(ArgumentError, /read_cache/)
    end
    expect { Prosody.value("\xFF") }.to raise_error(ArgumentError, /name/)
    [-> { Prosody.value("a", capacity: 1) }, -> { Prosody.map("a", capacity: 1) }, -> { Prosody.deque("a", keyset_limit: 1) },
     -> { Prosody.message_value("a", published: true) }].each { |wrong| expect(&wrong).to raise_error(ArgumentError, /unknown/) }
  end

  it "is checked when a client is made or subscribes" do
    { Prosody.value("a", ttl: -1) => /state_collections\[0\]\.ttl_seconds/,
      Prosody.map("a", keyset_limit: -1) => /keyset_limit is "-1": must be a non-negative whole number/,
      Prosody.deque("a", capacity: 0) => /capacity is "0": must be a positive whole number/,
      Prosody.value("a", read_cache: 0) => /read_cache/,
      { name: "a", kind: "heap" } => /kind/, { name: "a", kind: "value", size: 1 } => /size/,
      { name: "a", kind: "value", ttl_seconds: Float::NAN } => /state_collections: .*NaN/ }.each do |collection, text|
      expect { client(state_collections: collection) }.to raise_error(ArgumentError, text)
    end
    [Prosody.value("a", ttl: 0), Prosody.set("a", keyset_limit: 4097), Prosody.value(" "), Prosody.value("a", published: true),
     [Prosody.value("a"), Prosody.map("a")]].each do |collections|
      made = client(state_collections: collections)
      expect { made.subscribe(Recorder.new) }.to raise_error(RuntimeError, /state_collections/)
      expect(made.consumer_state).to eq(:configured)
    end
    expect { client(state_collections: 5) }.to raise_error(ArgumentError, "Invalid state collection: Integer")
  end
end

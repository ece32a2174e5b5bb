# frozen_string_literal: true

# Expiry: entries with a time to live end after it, in mock mode too; bounds of the option.
value = Prosody.value("value", ttl: 2)
map = Prosody.map("map", ttl: 2)
deque = Prosody.deque("deque", ttl: 2)
kept = Prosody.value("kept")
long = Prosody.value("long", ttl: 3600)

RSpec.describe "times to live", collections: [value, map, deque, kept, long], options: { state_recovery_delay: 1 } do
  define_method(:write) do |key|
    stage.run(key) do |context, _|
      context.state(value).set("soon gone")
      context.state(kept).set("stays")
      context.state(long).set("stays long")
      context.state(map).set("a", 1)
      context.state(deque).push(1)
    end
  end

  # Waits until an event of the key finds the collection empty.
  def expired(key, definition, empty)
    stage.world.eventually("the expiry", within: [WAIT, 20].min) { stage.read(definition, key) == empty }
  end

  it "a value expires and others stay" do
    key = stage.key
    write(key)
    expired(key, value, nil)
    expect([stage.read(kept, key), stage.read(long, key)]).to eq(["stays", "stays long"])
  end

  it "map entries and deque items expire" do
    key = stage.key
    write(key)
    expired(key, map, {})
    expired(key, deque, [])
    found = stage.run(key) do |context, _|
      [context.state(map).get("a"), context.state(map).key?("a"), context.state(map).each_key.to_a, context.state(deque).last]
    end
    expect(found).to eq([nil, false, [], nil])
  end

  it "writing again starts the time anew" do
    key = stage.key
    write(key)
    rewrite = lambda do |context, _|
      context.state(value).get.tap do
        context.state(value).set("again")
        context.state(map).set("b", 1)
      end
    end
    started = last = clock
    values = []
    while clock - started < 4.5
      found = stage.run(key, rewrite)
      values << found if clock - last < 1.8 # else this machine was too slow to say anything
      last = clock
    end
    expect(values.uniq - ["soon gone", "again"]).to eq([])
    expect(values).not_to be_empty
    expect(stage.run(key) { |context, _| context.state(map).each_key.to_a }).to eq(["b"])
  end

  it "an expired collection can be written again" do
    key = stage.key
    write(key)
    expired(key, map, {})
    expired(key, deque, [])
    found = stage.run(key) do |context, _|
      context.state(value).set("new")
      context.state(map).set("z", 9)
      context.state(deque).push("first")
      [context.state(value).get, context.state(map).each_pair.to_a, context.state(deque).each.to_a]
    end
    expect(found).to eq(["new", [["z", 9]], ["first"]])
  end

  [0, -1, 1.5, 630_720_001, "60"].each do |bad|
    it "impossible times are refused [#{bad}]" do
      expect { world.stage([Prosody.value("bad", ttl: bad)]) }.to raise_error(StandardError) { |error|
        expect(error).to be_a(ArgumentError).or be_a(RuntimeError)
      }
    end
  end
end

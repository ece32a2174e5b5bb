# frozen_string_literal: true

# Message collections: references to delivered messages that read back as those messages.
last = Prosody.message_value("last")
by_name = Prosody.message_map("by-name")
backlog = Prosody.message_deque("backlog")
plain = Prosody.value("plain")
plain_map = Prosody.map("plain-map")
plain_deque = Prosody.deque("plain-deque")

RSpec.describe "messages in state", collections: [last, by_name, backlog, plain, plain_map, plain_deque] do
  # Stores the current message in all three kinds; returns it.
  define_method(:store) do |key|
    step = lambda do |context, message|
      context.state(last).set(message)
      context.state(by_name).set("it", message)
      context.state(backlog).push(message)
      message
    end
    stage.run(key, step, note: "payload ü")
  end

  it "a message reads back equal in the same attempt" do
    stage.run(stage.key) do |context, message|
      context.state(last).set(message)
      context.state(by_name)["it"] = message
      context.state(backlog) << message
      expect([context.state(last).get, context.state(by_name).get("it"), *context.state(backlog).each]).to all(eq(message))
    end
  end

  it "a message value reads back equal in a later event" do
    key = stage.key
    original = store(key)
    loaded = stage.read(last, key)
    expect(loaded).to eq(original)
    expect(loaded.payload["note"]).to eq("payload ü")
    %i[topic partition offset timestamp key payload].each do |field|
      expect(loaded.public_send(field)).to eq(original.public_send(field))
    end
  end

  it "message maps and deques read back" do
    key = stage.key
    first = store(key)
    second = store(key)
    taken = stage.run(key) do |context, _|
      named = context.state(by_name)
      queue = context.state(backlog)
      expect([named.get("it"), named.get_many(%w[it x]), named.each_pair.to_a]).to eq([second, [second, nil], [["it", second]]])
      expect([queue.each.to_a, queue.get(0), queue.last]).to eq([[first, second], first, second])
      queue.shift
    end
    expect(taken).to eq(first)
  end

  it "a loaded message can be stored again" do
    key = stage.key
    original = store(key)
    _, found = stage.run_and_read(key, by_name) { |context, _| context.state(by_name).set("copy", context.state(last).get) }
    expect(found).to eq({ "it" => original, "copy" => original })
  end

  it "presence and size do not need the message itself" do
    key = stage.key
    store(key)
    found = stage.run(key) do |context, _|
      [context.state(by_name).key?("it"), context.state(by_name).each_key.to_a, context.state(backlog).size]
    end
    expect(found).to eq([true, ["it"], 1])
  end

  it "only messages can be stored" do
    size = stage.run(stage.key) do |context, _|
      ["text", { "topic" => "t", "partition" => 0, "offset" => 1 }, 5].each do |thing|
        expect { context.state(last).set(thing) }.to raise_error(Prosody::TransientStateError)
        expect { context.state(backlog).push(thing) }.to raise_error(Prosody::TransientStateError)
      end
      context.state(backlog).size
    end
    expect(size).to eq(0)
  end

  it "a message made by hand cannot be stored" do
    stage.run(stage.key) do |context, message|
      forged = Prosody::Message.new(topic: message.topic, partition: message.partition, offset: message.offset,
                                    timestamp: message.timestamp, key: message.key, payload: message.payload)
      expect(forged).to eq(message)
      expect { context.state(last).set(forged) }.to raise_error(Prosody::TransientStateError)
      expect { context.state(by_name).set("it", forged) }.to raise_error(Prosody::TransientStateError)
    end
  end

  it "json collections refuse messages" do
    stage.run(stage.key) do |context, message|
      expect { context.state(plain).set(message) }.to raise_error(Prosody::TransientStateError)
      expect { context.state(plain_map).set("it", message) }.to raise_error(Prosody::TransientStateError)
      expect { context.state(plain_deque).push(message) }.to raise_error(Prosody::TransientStateError)
    end
  end

  it "clearing and removing messages works by reference" do
    key = stage.key
    store(key)
    stage.run(key) do |context, _|
      context.state(last).clear
      context.state(by_name).delete("it")
      context.state(backlog).clear
    end
    expect([last, by_name, backlog].map { |definition| stage.read(definition, key) }).to eq([nil, {}, []])
  end
end

# frozen_string_literal: true

# Set collections: membership, order, key set limits, transactions.
tracked = Prosody.set("members")
untracked = Prosody.set("untracked", keyset_limit: 0)
tiny = Prosody.set("tiny", keyset_limit: 2)

RSpec.describe Prosody::SetState, collections: [tracked, untracked, tiny] do
  define_method(:add) do |key, names, definition = tracked|
    stage.prepare(key) { |context, _| names.each { |name| context.state(definition).add(name) } }
  end

  it "adding twice and discarding absent members is harmless" do
    key = stage.key
    add(key, %w[b a b])
    _, found = stage.run_and_read(key, tracked) do |context, _|
      members = context.state(tracked)
      expect([members.add("a"), members << "a", members.delete("absent")]).to all(be(members))
      members.delete("b")
      expect([members.include?("a"), members.member?("b")]).to eq([true, false])
    end
    expect(found).to eq(["a"])
  end

  it "members come in byte order and back" do
    key = stage.key
    names = ["b", "", "a\u0000", "é", "Z", "10", "9", "a", "\u{ffff}", "\u{1F600}"]
    add(key, names)
    forward, backward = stage.run(key) do |context, _|
      [context.state(tracked).each.to_a, context.state(tracked).reverse_each.to_a]
    end
    expect([forward, backward]).to eq([names.sort_by(&:bytes), names.sort_by(&:bytes).reverse])
  end

  it "presence answers see stored and new members" do
    key = stage.key
    add(key, %w[stored doomed])
    _, found = stage.run_and_read(key, tracked) do |context, _|
      members = context.state(tracked)
      members.add("new")
      members.delete("doomed")
      expect(members.contains_many(%w[new doomed stored never])).to eq([true, false, true, false])
      expect(members.empty?).to be(false)
      members.clear
      expect([members.empty?, members.contains_many(%w[new stored])]).to eq([true, [false, false]])
    end
    expect(found).to eq([])
  end

  [tracked, untracked, tiny].each do |definition|
    it "the key set limit never changes a set [#{definition.name}]" do
      key = stage.key
      add(key, %w[f e d c b a], definition)
      results = stage.run_and_read(key, definition) do |context, _|
        %w[b d].each { |name| context.state(definition).delete(name) }
        context.state(definition).add("x").each.to_a
      end
      expect(results).to eq([%w[a c e f x]] * 2)
    end
  end

  it "a set is committed and rolled back like other collections" do
    key = stage.key
    step = lambda do |context, _|
      members = context.state(tracked)
      members.add("floor")
      expect([members.commit, members.commit]).to eq(%i[applied no_op])
      members.add("later")
      members.delete("floor")
      members.rollback
      expect(members.each.to_a).to eq(["floor"])
      members.add("lost")
      raise Prosody::PermanentError, "drop the rest"
    end
    expect { stage.run(key, step) }.to raise_error(Prosody::PermanentError, "drop the rest")
    expect(stage.read(tracked, key)).to eq(["floor"])
  end

  it "members must be strings" do
    stage.run(stage.key) do |context, _|
      members = context.state(tracked)
      [1, nil, ["x"]].each do |bad|
        %i[add delete include?].each { |call| expect { members.public_send(call, bad) }.to raise_error(TypeError) }
      end
    end
  end

  it "a set definition has no payload" do
    definition = Prosody.set("plain", keyset_limit: 7, ttl: 60)
    expect([definition.kind, definition.payload, definition.keyset_limit]).to eq(["set", nil, 7])
    expect(definition.to_state_config).to eq({ name: "plain", kind: "set", ttl_seconds: 60, keyset_limit: 7 })
  end
end

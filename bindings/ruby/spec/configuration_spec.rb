# frozen_string_literal: true

RSpec.describe Prosody::Configuration do
  def set(name, value)
    described_class.new(name => value).public_send(name)
  end

  it "takes a hash and a block" do
    made = described_class.new("group_id" => :billing) { |c| c.mock = 1 }
    expect(made.to_hash).to eq(group_id: "billing", mock: true)
  end

  it "takes another configuration" do
    first = described_class.new(group_id: "a")
    second = described_class.new(first) { |c| c.group_id = "b" }
    expect([first.group_id, second.group_id]).to eq(%w[a b])
  end

  it "refuses unknown options" do
    expect { described_class.new(grop_id: "x") }.to raise_error(NoMethodError, /grop_id=/)
  end

  it "stores nil and leaves it out of the hash" do
    made = described_class.new(group_id: "a", timeout: nil)
    made.group_id = nil
    expect(made.to_hash).to eq({})
  end

  it "converts integers, floats and booleans" do
    expect(set(:max_concurrency, "8")).to eq(8)
    expect(set(:scheduler_wait_weight, "1.5")).to eq(1.5)
    expect(set(:defer_enabled, false)).to be(false)
    expect { set(:max_retries, "many") }.to raise_error(ArgumentError)
    expect { set(:max_retries, Object.new) }.to raise_error(ArgumentError)
    expect { set(:scheduler_wait_weight, "heavy") }.to raise_error(ArgumentError)
  end

  it "converts durations" do
    expect(set(:timeout, 3)).to eq(3)
    expect(set(:timeout, 0.25r)).to eq(0.25)
    expect { set(:timeout, "3s") }.to raise_error(ArgumentError, "Invalid type for duration: String")
  end

  it "takes durations of Active Support" do
    stub_const("ActiveSupport::Duration", Struct.new(:to_f))
    expect(set(:timeout, ActiveSupport::Duration.new(90.0))).to eq(90.0)
  end

  it "converts lists without splitting texts" do
    expect(set(:subscribed_topics, "a,b")).to eq(["a,b"])
    expect(set(:subscribed_topics, [:a, "b"])).to eq(%w[a b])
    expect { set(:subscribed_topics, 5) }.to raise_error(ArgumentError)
  end

  it "converts modes" do
    expect(set(:mode, "Low_Latency")).to eq(:low_latency)
    expect(set(:mode, :"best-effort")).to eq(:best_effort)
    expect { set(:mode, "fast") }.to raise_error(ArgumentError, "Invalid mode: fast")
  end

  it "converts words with underscores" do
    expect(set(:invalid_records, :dead_letter)).to eq("dead-letter")
  end

  it "converts the probe port" do
    expect([false, :disabled, "disabled"].map { |off| set(:probe_port, off) }).to eq([false, false, false])
    expect(described_class.new(probe_port: false).to_hash).to eq(probe_port: false)
    expect(set(:probe_port, 0)).to eq(0)
    expect(set(:probe_port, nil)).to be_nil
    expect { set(:probe_port, 65_536) }.to raise_error(ArgumentError)
    expect { set(:probe_port, -1) }.to raise_error(ArgumentError)
  end

  it "converts the read cache" do
    expect([true, false, "2.5", 3].map { |value| set(:state_read_cache, value) }).to eq([true, false, 2.5, 3])
  end

  it "converts definitions of collections" do
    definition = Struct.new(:to_state_config).new({ name: "a", kind: "value" })
    expect(set(:state_collections, [definition])).to eq([{ name: "a", kind: "value" }])
    expect(set(:state_collections, { name: "b" })).to eq([{ name: "b" }])
  end

  it "takes properties of librdkafka as a Hash" do
    expect(set(:kafka, { "client.rack": :a, "retries" => 5 })).to eq("client.rack" => "a", "retries" => "5")
    expect { set(:kafka, "retries=5") }.to raise_error(ArgumentError, /kafka: String, expected a Hash/)
  end

  it "shows no values, which may be secret" do
    expect(described_class.new(cassandra_password: "geheim").inspect).not_to include("geheim")
  end

  it "has the options of the library" do
    rows = JSON.parse(Prosody.const_get(:Runtime).current.library.text(:options))
    rows = rows.reject { |row| row["environment_only"] }
    expected = rows.to_h { |row| [row["name"].to_sym, row["type"]] }
    types = { string: "string", word: "enum", mode: "enum", properties: nil }
    ours = Prosody.const_get(:OPTIONS).transform_values { |type| types.fetch(type, type.to_s) }.compact
    loose = %i[message_spans timer_spans peer_bind_address] + expected.select { |_, type| type == "size" }.keys
    expect(ours.keys).to match_array(expected.keys)
    expect(ours.except(*loose)).to eq(expected.except(*loose))
  end
end

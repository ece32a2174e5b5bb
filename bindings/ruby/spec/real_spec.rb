# frozen_string_literal: true

# The same on a real broker; left out when none answers.
RSpec.describe "a real broker", real: true do
  servers = "localhost:9094"

  def real(**options)
    client(mock: false, bootstrap_servers: "localhost:9094", cassandra_nodes: "localhost:9042", probe_port: false,
           cassandra_keyspace: "prosody_ruby", **options)
  end

  let(:admin) { Prosody::AdminClient.new(servers) }

  before { admin.create_topic(topic, 3, 1) }
  after { admin.delete_topic(topic) }

  it "carries records whole and in order" do
    handler = Recorder.new
    made = real
    made.subscribe(handler)
    20.times { |index| made.send_message(topic, "k#{index % 4}", { "n" => index }, headers: [["a", "\0\xFF"], ["a", nil]]) }
    made.excise(topic, "k0")
    calls = patiently(60) { handler.take(21) }
    order = calls.grep(Prosody::Message).group_by(&:key).transform_values { |all| all.map { |one| one.payload["n"] } }
    expect(order).to eq((0..3).to_h { |key| ["k#{key}", (0...5).map { |step| (4 * step) + key }] })
    expect(calls.first.headers.first(2)).to eq([["a", "\0\xFF".b], ["a", nil]])
    expect(calls.grep(Prosody::ExciseMessage).map(&:key)).to eq(["k0"])
  end

  it "goes on after a restart" do
    group = name("group")
    2.times do |round|
      handler = Recorder.new
      made = real(group_id: group)
      made.subscribe(handler)
      5.times { |index| made.send_message(topic, "k", [round, index]) }
      expect(patiently(60) { handler.take(5) }.map(&:payload)).to eq((0...5).map { |index| [round, index] })
      made.shutdown
      expect(handler.calls).to be_empty
    end
  end

  it "names what exists already" do
    expect { admin.create_topic(topic, 3, 1) }.to raise_error(RuntimeError, /exists/i)
  end
end

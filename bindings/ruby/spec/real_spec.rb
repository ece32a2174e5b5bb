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

  describe "with keyed state" do
    all = [Prosody.value("value"), Prosody.map("map", keyset_limit: 0), Prosody.set("set"), Prosody.deque("deque", capacity: 400),
           Prosody.message_value("message")]

    # Runs a block in a handler of a member that starts for it.
    define_method(:member) do |group, &block|
      answers = Thread::Queue.new
      made = real(group_id: group, state_collections: all)
      made.subscribe(Recorder.new(message: lambda { |context, message|
        answers << begin
          block.call(all.map { |definition| context.state(definition) }, message)
        rescue StandardError, RSpec::Expectations::ExpectationNotMetError => e
          e
        end
      }))
      made.send_message(topic, "k", "payload")
      patiently(60) { answers.pop }.tap { |answer| raise answer if answer.is_a?(Exception) }
    ensure
      made&.shutdown
    end

    it "finds it again after a restart" do
      group = name("group")
      sent = member(group) do |(value, map, set, deque, kept), message|
        value.set({ "n" => (2**64) - 1, "text" => "é" * 50_000 })
        700.times do |number|
          map[format("%03d", number)] = number
          set << number.to_s
          deque << (number + 1)
        end
        kept.set(message)
        message
      end
      found = member(group) do |(value, map, set, deque, kept), _|
        [value.get.transform_values { |one| one.is_a?(String) ? one.size : one }, map.each_key.count,
         map.reverse_each(limit: 1).to_a, map.values_at("007", "zzz"), map.key?("008"), set.include?("9"),
         set.each(limit: 2).to_a, set.contains_many(%w[1 x]),
         deque.size, deque.first, deque.get(-1), deque.shift, map.empty?, kept.get]
      end
      expect(found).to eq([{ "n" => (2**64) - 1, "text" => 50_000 }, 700, [["699", 699]], [7, nil], true, true, %w[0 1],
                           [true, false], 400, 301, 700, 301, false, sent])
    end

    it "is waited for by fibers, while others run" do
      admin.create_topic("#{topic}-fibers", 3, 1)
      text, status = ruby(<<~RUBY)
        require "async"
        TOTAL = Prosody.value("total")
        class Handler
          def on_message(context, message)
            total = context.state(TOTAL)
            open = ($open = $open.to_i + 1)
            $peak = [$peak.to_i, open].max
            total.set((total.get || 0) + message.payload)
            total.commit
            $open -= 1
            ($done ||= Thread::Queue.new) << [message.key, total.get]
          end
        end
        $done = Thread::Queue.new
        options = { mock: false, bootstrap_servers: "localhost:9094", cassandra_nodes: "localhost:9042", probe_port: false,
                    cassandra_keyspace: "prosody_ruby", group_id: "#{name('group')}", subscribed_topics: "#{topic}-fibers",
                    state_collections: [TOTAL] }
        2.times do
          made = client(**options)
          made.subscribe(Handler.new)
          Array.new(20) do |number|
            Thread.new { made.send_message("#{topic}-fibers", "k\#{number}", number) }
          end.each(&:join)
          totals = Array.new(20) { $done.pop }.to_h
          puts totals.values.sum
          made.shutdown
        end
        puts $peak > 1
      RUBY
      admin.delete_topic("#{topic}-fibers")
      expect([text.lines.grep(/\A(\d+|true|false)$/).map(&:chomp), status.success?]).to eq([%w[190 380 true], true]), text
    end
  end
end

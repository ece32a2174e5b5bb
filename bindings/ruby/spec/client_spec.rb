# frozen_string_literal: true

RSpec.describe Prosody::Client do
  describe "options" do
    it "names what is malformed" do
      expect { client(timeout: -1) }.to raise_error(ArgumentError, /timeout/)
      expect { client(timeout: Float::NAN) }.to raise_error(ArgumentError, /timeout/)
      expect { client(message_spans: "x") }.to raise_error(ArgumentError, /message_spans/)
      expect { client(state_read_cache: true) }.to raise_error(ArgumentError, /state_read_cache/)
      expect { client(group_id: "\xFF") }.to raise_error(ArgumentError, /group_id/)
      expect { client(bogus: 1) }.to raise_error(NoMethodError)
    end

    it "names what is missing" do
      expect { described_class.new }.to raise_error(RuntimeError, /bootstrap_servers/)
      expect { client(group_id: nil, source_system: nil) }
        .to raise_error(Prosody::CallError, /source_system/) { |error| expect(error.status).to eq("PROSODY_ERR_CONFIG") }
    end

    it "keeps a client that can only send" do
      made = client(group_id: nil)
      expect { made.consumer_state }.to raise_error(RuntimeError, /consumer configuration failed: .*PROSODY_GROUP_ID/)
      expect { made.subscribe(Recorder.new) }.to raise_error(RuntimeError, /consumer configuration failed/)
      expect(made.send_message(topic, "k", 1)).to be_nil
    end

    it "checks ranges at subscribe" do
      made = client(max_concurrency: 0)
      expect { made.subscribe(Recorder.new) }.to raise_error(RuntimeError, /failed to initialize consumer: .*max_concurrency/)
      expect(made.consumer_state).to eq(:configured)
    end

    it "reads the environment when a client is made" do
      ENV["PROSODY_SOURCE_SYSTEM"] = "from-env"
      expect(client(source_system: nil).source_system).to eq("from-env")
    ensure
      ENV.delete("PROSODY_SOURCE_SYSTEM")
    end

    it "takes every option" do
      options = {
        mode: :best_effort, max_concurrency: 3, max_uncommitted: 9, timeout: 1.5, commit_interval: 1, poll_interval: 0.05,
        shutdown_timeout: 3, stall_threshold: 20, statistics_interval: 1, probe_port: false, failure_topic: "f",
        invalid_records: :skip, idempotence_cache_size: 10, idempotence_version: 2, idempotence_ttl: 3600,
        slab_size: 60, message_spans: :follows_from, timer_spans: "child", send_timeout: 2, max_retries: 1,
        retry_base: 0.01, max_retry_delay: 1, defer_enabled: true, allowed_events: %w[a b], scheduler_failure_weight: 0.5,
        state_owned_cache_size: "1 MiB", state_read_cache: false, subsystem: "s", kafka: { "client.id": "x" }
      }
      made = consume(Recorder.new, **options)
      expect(made.consumer_state).to eq(:running)
    end
  end

  describe "life cycle" do
    it "goes through its states" do
      made = client
      expect([made.consumer_state, made.assigned_partitions, made.is_stalled?]).to eq([:configured, 0, false])
      made.subscribe(Recorder.new)
      expect(made.consumer_state).to eq(:running)
      eventually { made.assigned_partitions.positive? }
      expect { made.subscribe(Recorder.new) }.to raise_error(RuntimeError, "consumer is already subscribed")
      made.unsubscribe
      expect(made.consumer_state).to eq(:configured)
      expect { made.unsubscribe }.to raise_error(RuntimeError, "consumer is not subscribed")
      2.times { expect(made.shutdown).to be_nil }
      expect([made.consumer_state, made.assigned_partitions, made.is_stalled?]).to eq([:shut_down, 0, false])
    end

    it "refuses work after shutdown, and still has its name" do
      made = client
      made.shutdown
      [-> { made.send_message("t", "k", 1) }, -> { made.excise("t", "k") },
       -> { made.subscribe(Recorder.new) }, -> { made.unsubscribe }].each do |call|
        expect(&call).to raise_error(RuntimeError, "client is shut down")
      end
      expect(made.source_system).to eq("spec")
    end

    it "raises where the caller is" do
      made = client
      made.shutdown
      line = __LINE__ + 1
      expect { made.unsubscribe }
        .to(raise_error { |error| expect(error.backtrace.join("\n")).to include("#{__FILE__}:#{line}") })
    end

    it "ends with a block" do
      kept = nil
      options = { mock: true, bootstrap_servers: "m", source_system: "s" }
      value = described_class.open(options) do |made|
        kept = made
        5
      end
      expect(value).to eq(5)
      expect { kept.send_message("t", "k", 1) }.to raise_error(RuntimeError, "client is shut down")
      expect { described_class.open(options) { raise IOError } }.to raise_error(IOError)
      expect { described_class.open(options) }.to raise_error(ArgumentError)
    end

    it "shares a shutdown between threads" do
      made = consume(Recorder.new)
      expect(Array.new(8) { Thread.new { made.shutdown } }.map(&:value)).to eq([nil] * 8)
    end

    it "can be closed while calls are open" do
      made = client
      callers = Array.new(8) do
        Thread.new do
          loop { made.send_message(topic, "k", 1) }
        rescue RuntimeError => e
          e.message
        end
      end
      sleep 0.05
      made.shutdown
      expect(callers.map(&:value)).to all(match(/shut down|clos/))
    end

    it "subscribes again, with another handler" do
      handlers = Array.new(3) { Recorder.new }
      made = client
      handlers.each_with_index do |handler, index|
        made.subscribe(handler)
        made.send_message(topic, "k", index)
        expect(patiently { handler.take(1) }.map(&:payload)).to eq([index])
        made.unsubscribe
      end
      expect(handlers.map { |handler| handler.calls.size }).to eq([0, 0, 0])
    end

    it "leaves no threads and no handlers behind" do
      made = client
      handlers = ObjectSpace::WeakMap.new
      10.times do
        handler = Recorder.new
        handlers[handler] = true
        made.subscribe(handler)
        made.send_message(topic, "k", 1)
        patiently { handler.take(1) }
        made.unsubscribe
      end
      made.subscribe(Recorder.new)
      made.shutdown
      eventually { Thread.list.none? { |thread| %w[prosody-worker prosody-subscription].include?(thread.name) } }
      eventually do
        GC.start
        handlers.size <= 2 # the stack may still show some
      end
    end

    it "checks the handler before anything happens" do
      made = client
      expect { made.subscribe(Object.new) }.to raise_error(ArgumentError, "handler must implement #on_message")
      expect(made.consumer_state).to eq(:configured)
    end

    it "cannot be copied" do
      expect { client.dup }.to raise_error(TypeError)
    end

    it "is closed when it was forgotten" do
      text = lines("was not shut down") do
        proc { described_class.new(mock: true, bootstrap_servers: "m", source_system: "forgotten") }.call
        eventually do
          GC.start
          ObjectSpace.each_object(described_class).none? { |made| made.source_system == "forgotten" }
        end
      end
      expect(text).to include("a client was not shut down")
    end
  end

  describe "records" do
    it "arrive whole" do
      handler = Recorder.new
      made = consume(handler)
      before = Time.now
      payload = { "n" => 9_007_199_254_740_993, "f" => 1.0, "t" => "a\0é", "x" => [nil, true] }
      made.send_message(topic, "k\0é", payload, headers: [["a", "\0\xFF"], ["a", nil], ["b", ""]])
      made.excise(topic, "k\0é", headers: { "why" => "asked" })
      message, excise = patiently { handler.take(2) }
      expect(message).to be_a(Prosody::Message).and have_attributes(
        topic:, key: "k\0é", payload:, source_system: "spec", response_requested?: false
      )
      expect(message.timestamp).to be_within(10).of(before)
      expect(message.headers.first(3)).to eq([["a", "\0\xFF".b], ["a", nil], ["b", ""]])
      expect(excise).to be_a(Prosody::ExciseMessage).and have_attributes(key: "k\0é", partition: message.partition)
      expect(excise.offset).to be > message.offset
      expect(excise.headers.first).to eq(%w[why asked])
    end

    it "may have an empty key and any JSON value" do
      handler = Recorder.new
      made = consume(handler)
      values = [nil, false, 0, "", [], {}, 1.5, (2**64) - 1]
      values.each { |value| made.send_message(topic, "", value) }
      expect(patiently { handler.take(values.size) }.map(&:payload)).to eq(values)
    end

    it "may be large" do
      handler = Recorder.new
      made = consume(handler)
      made.send_message(topic, "k", "x" * 700_000)
      made.send_message(topic, "k", "y")
      expect(patiently { handler.take(2) }.map { |message| message.payload.size }).to eq([700_000, 1])
    end

    it "keep their order for each key" do
      seen = Hash.new { |hash, key| hash[key] = [] }
      lock = Mutex.new
      handler = Recorder.new(message: lambda { |_, message|
        sleep(rand / 1000)
        lock.synchronize { seen[message.key] << message.payload }
      })
      made = consume(handler)
      senders = Array.new(5) { |key| Thread.new { 40.times { |index| made.send_message(topic, "k#{key}", index) } } }
      senders.each(&:join)
      patiently { handler.take(200) }
      made.unsubscribe
      expect(seen.values).to eq([(0...40).to_a] * 5)
    end

    it "run at the same time for several keys, one at a time for one key" do
      open = Hash.new(0)
      peak = 0
      overlap = false
      lock = Mutex.new
      handler = Recorder.new(message: lambda { |_, message|
        lock.synchronize do
          overlap ||= (open[message.key] += 1) > 1
          peak = [peak, open.values.sum].max
        end
        eventually { peak > 1 } # so that it is no matter of speed
        lock.synchronize { open[message.key] -= 1 }
      })
      made = consume(handler)
      24.times { |index| made.send_message(topic, "k#{index % 8}", index) }
      patiently { handler.take(24) }
      made.unsubscribe
      expect(overlap).to be(false)
      expect(peak).to be_between(2, 8)
    end

    it "are refused where they cannot be carried" do
      made = client
      [["\xFF", "k", 1], ["t", "\xFF", 1], ["t", "\x81".dup.force_encoding("Shift_JIS"), 1], [nil, "k", 1], ["t", 5, 1],
       ["t", "k", Float::NAN], ["t", "k", 2**64], ["t", "k", "\xFF"]].each do |arguments|
        expect { made.send_message(*arguments) }.to raise_error(ArgumentError)
      end
      [5, [["a"]], [["a", 1]], [%w[a b c]], [["\xFF", "a"]]].each do |headers|
        expect { made.send_message("t", "k", 1, headers:) }.to raise_error(ArgumentError)
      end
      expect { made.send_message("a\0b", "k", 1) }.to raise_error(RuntimeError, /topic/)
      expect { made.send_message("", "k", 1) }.to raise_error(RuntimeError)
      expect { made.send_message("t", "k" * 40_000, 1) }.to raise_error(RuntimeError, /key/)
    end

    it "carry texts of other encodings" do
      handler = Recorder.new
      made = consume(handler)
      made.send_message(topic, "日本".encode(Encoding::Shift_JIS), "日本".encode(Encoding::EUC_JP))
      expect(patiently { handler.take(1) }.first).to have_attributes(key: "日本", payload: "日本")
    end
  end

  describe "in threads and fibers" do
    it "survives interrupted callers" do
      made = client(max_concurrency: 2)
      handler = Recorder.new
      calls = [-> { made.send_message(topic, "k", 1) }, -> { made.excise(topic, "k") }, -> { made.subscribe(handler) },
               -> { made.unsubscribe }, -> { client(group_id: "other").shutdown }, -> { made.consumer_state }]
      200.times do |index|
        Timeout.timeout(0.0005 * (1 + (index % 4))) { calls[index % calls.size].call }
      rescue Timeout::Error, Prosody::CallError
        nil
      end
      20.times do
        caller = Thread.new { loop { made.send_message(topic, "k", 1) } }
        sleep 0.002
        caller.kill
        patiently { caller.join }
      end
      begin
        made.unsubscribe
      rescue RuntimeError
        nil
      end
      after = Recorder.new
      made.subscribe(after)
      made.send_message(topic, "last", "last")
      patiently { nil until after.calls.pop.key == "last" }
      runtime = Prosody.const_get(:Runtime).current
      eventually { runtime.port.instance_variable_get(:@pending).empty? }
    end

    it "forgets the calls of interrupted callers", real: true do
      made = client(**Helpers::NOWHERE, send_timeout: 10)
      pending = Prosody.const_get(:Runtime).current.port.instance_variable_get(:@pending)
      before = pending.size
      expect { Timeout.timeout(0.05) { made.send_message("t", "k", 1) } }.to raise_error(Timeout::Error)
      expect(pending.size).to eq(before)
    end

    it "lives on when its threads are killed" do
      made = client
      handler = Recorder.new
      made.subscribe(handler)
      made.send_message(topic, "k", 1)
      patiently { handler.take(1) }
      Thread.list.select { |thread| thread.name.to_s.start_with?("prosody-") }.each(&:kill)
      sleep 0.05
      patiently { made.send_message(topic, "k", 2) }
      expect(patiently { handler.take(1) }.map(&:payload)).to eq([2])
    end

    it "can be used under a fiber scheduler" do
      text, status = ruby(<<~RUBY)
        require "async"
        order = []
        made = client
        Async do |task|
          stopped = task.async { made.send_message("topic", "k", 1); sleep 60 }
          task.sleep 0.05
          stopped.stop
          10.times.map { |i| task.async { made.send_message("topic", "k", i); order << i } }.each(&:wait)
          made.shutdown
        end
        puts order.sort.inspect
      RUBY
      expect([text.lines.last, status.success?]).to eq(["#{(0..9).to_a.inspect}\n", true])
    end
  end

  describe Prosody::AdminClient do
    it "creates and deletes topics" do
      admin = described_class.new("mock", mock: true)
      admin.create_topic(topic, 2, 1, cleanup_policy: "compact", retention: 60)
      expect { admin.create_topic(topic, 2, 1) }
        .to raise_error(RuntimeError, /exists/i) { |error| expect(error.status).to eq("PROSODY_ERR_EXISTS") }
      made = consume(Recorder.new)
      eventually { made.assigned_partitions == 2 }
      made.shutdown
      2.times { expect(admin.delete_topic(topic)).to be_nil }
    end

    it "names bad arguments" do
      admin = described_class.new("mock", mock: true)
      expect { admin.create_topic("t", 0) }.to raise_error(ArgumentError, /partitions/)
      expect { admin.create_topic("t", 1, retention: -1) }.to raise_error(ArgumentError, /retention/)
      expect { admin.create_topic(nil) }.to raise_error(ArgumentError, /name/)
      expect { described_class.new }.to raise_error(RuntimeError, /bootstrap_servers/)
    end
  end
end

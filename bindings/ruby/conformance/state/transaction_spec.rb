# frozen_string_literal: true

# Attempts as transactions: what a success keeps, what a failure drops, commit floors, handles after the end.
value = Prosody.value("value")
map = Prosody.map("map")
deque = Prosody.deque("deque")
direct = Prosody.value("direct", read_uncommitted: true)
all = [value, map, deque, direct]

RSpec.describe "transactions", collections: all, options: { max_concurrency: 16 } do
  define_method(:readers) { |definitions| definitions.map { |definition| Lab.reader(definition) } }
  define_method(:put) { |key, content, place = stage| place.prepare(key) { |context, _| context.state(value).set(content) } }
  define_method(:handles) { |context| [value, map, deque].map { |definition| context.state(definition) } }

  it "an attempt reads its own writes everywhere" do
    found = stage.run(stage.key) do |context, _|
      one, entries, line = handles(context)
      one.set(1)
      entries.set("b", 2)
      entries.set("a", 1)
      line.push("x")
      line.unshift("w")
      [one.get, entries.each_pair.to_a, line.each.to_a, line.size]
    end
    expect(found).to eq([1, [["a", 1], ["b", 2]], %w[w x], 2])
  end

  it "a permanent failure drops all writes" do
    key = stage.key
    put(key, "before")
    step = lambda do |context, _|
      context.state(value).set("lost")
      context.state(map).set("lost", 1)
      context.state(deque).push("lost")
      context.state(direct).set("lost")
      raise Prosody::PermanentError, "no"
    end
    expect { stage.run(key, step) }.to raise_error(Prosody::PermanentError, "no")
    expect(stage.series(key, *readers(all))).to eq(["before", {}, [], nil])
  end

  it "a permanently failed event counts as processed" do
    key = stage.key
    attempts = []
    step = lambda do |*|
      attempts << 1
      raise Prosody::PermanentError, "no"
    end
    expect { stage.start(step, key, id: "id-#{key}").wait }.to raise_error(Prosody::PermanentError)
    again = stage.expect("again-#{key}", step)
    stage.client.send_message(stage.topic, key, { ticket: "again-#{key}", id: "id-#{key}" })
    stage.read(value, key) # a later event of the key has been handled
    expect([attempts, again.attempts]).to eq([[1], 0])
  end

  it "a retry sees only what was committed" do
    key = stage.key
    seen = []
    put(key, 10)
    stage.run(key) do |context, _|
      one, entries, line = handles(context)
      seen << [one.get, entries.each_key.to_a, line.size, context.state(direct).get]
      one.set(one.get + 1)
      entries.set("try #{seen.size}", 1)
      line.push(seen.size)
      context.state(direct).set(seen.size)
      raise Again, "once more" if seen.size < 3
    end
    expect(seen).to eq([[10, [], 0, nil]] * 3)
    expect(stage.series(key, *readers(all))).to eq([11, { "try 3" => 1 }, [3], 3])
  end

  it "a committed floor survives the failure of the attempt" do
    key = stage.key
    seen = []
    stage.run(key) do |context, _|
      one, entries, line = handles(context)
      seen << [one.get, entries.each_key.to_a, line.each.to_a]
      next if seen.size > 1

      one.set("floor")
      entries.set("uncommitted", 1)
      line.push("floor")
      one.commit
      line.commit
      one.set("above")
      line.push("above")
      raise Again, "fails after its commits"
    end
    expect(seen).to eq([[nil, [], []], ["floor", [], ["floor"]]])
    expect(stage.series(key, *readers([value, map, deque]))).to eq(["floor", {}, ["floor"]])
  end

  it "rollback returns to the floor of that collection" do
    key = stage.key
    put(key, "stored")
    found = stage.run(key) do |context, _|
      one, entries, line = handles(context)
      one.set("dropped")
      entries.set("kept", 1)
      one.rollback
      expect(one.get).to eq("stored")
      one.set("floor")
      one.commit
      one.clear
      one.rollback
      line.push(1)
      line.commit
      line.clear
      line.unshift(0)
      line.rollback
      [one.get, line.each.to_a]
    end
    expect(found).to eq(["floor", [1]])
    expect(stage.series(key, *readers([value, map, deque]))).to eq(["floor", { "kept" => 1 }, [1]])
  end

  it "commit and rollback tell whether they did anything" do
    outcomes = stage.run(stage.key) do |context, _|
      one, entries, line = handles(context)
      [[one, -> { one.set(1) }], [entries, -> { entries.set("a", 1) }], [line, -> { line.push(1) }]].flat_map do |handle, write|
        before = [handle.commit, handle.rollback]
        write.call
        middle = [handle.commit, handle.commit]
        write.call
        [*before, *middle, handle.rollback, handle.rollback]
      end
    end
    expect(outcomes).to eq(%i[no_op no_op applied no_op applied no_op] * 3)
  end

  it "a read uncommitted collection keeps the writes of a success" do
    results = stage.run_and_read(stage.key, direct) do |context, _|
      context.state(direct).set("kept")
      context.state(direct).get
    end
    expect(results).to eq(%w[kept kept])
  end

  it "a cancelled attempt drops its writes" do
    place = world.stage([value], timeout: 0.5)
    key = place.key
    seen = []
    place.run(key) do |context, _|
      seen << context.state(value).get
      context.state(value).set(seen.size)
      sleep 60 if seen.size == 1
    end
    expect([seen, place.read(value, key)]).to eq([[nil, nil], 2])
  end

  # A context and handles whose attempt is over.
  define_method(:leak) do |key, failing|
    kept = nil
    step = lambda do |context, _|
      kept = [context, context.state(value), context.state(map).each_key]
      context.state(value).set("written")
      raise Prosody::PermanentError, "over" if failing
    end
    attempt { stage.run(key, step) }
    stage.read(value, key) # the next event of the key: the attempt has ended
    kept
  end

  { "after success" => false, "after failure" => true }.each do |name, failing|
    it "handles are dead after the attempt [#{name}]" do
      key = stage.key
      _, handle, scan = leak(key, failing)
      [-> { handle.set("late") }, -> { handle.clear }, -> { handle.commit }].each do |write|
        expect(&write).to raise_error(Prosody::PermanentStateError)
      end
      expect { scan.next }.to raise_error(Prosody::TransientStateError)
      handle.rollback
      expect(stage.read(value, key)).to eq(failing ? nil : "written")
    end

    it "a read through a dead handle is an error [#{name}]" do
      _, handle, = leak(stage.key, failing)
      expect { handle.get }.to raise_error(Prosody::TransientStateError)
    end
  end

  it "a dead context binds no collection and no timer" do
    context, = leak(stage.key, false)
    expect { context.state(deque).size }.to raise_error(Prosody::TransientStateError)
    expect { context.schedule(Time.now + 3600) }.to raise_error(RuntimeError)
  end

  it "only registered definitions can be used" do
    stage.run(stage.key) do |context, _|
      [Prosody.value("unknown"), Prosody.map("value"), Prosody.deque("map"), Prosody.message_value("value"),
       Prosody.message_map("map")].each do |definition|
        expect { context.state(definition).clear }.to raise_error(Prosody::PermanentStateError)
      end
      expect { context.state("value") }.to raise_error(TypeError)
    end
  end

  it "a state error decides about retries like any other" do
    key = stage.key
    attempts = []
    expect do
      stage.run(key) do |context, _|
        context.state(Prosody.value("unknown")).get
      end
    end.to raise_error(Prosody::PermanentStateError)
    stage.run(key) do |context, _|
      attempts << 1
      begin
        context.state(value).set(Object.new) if attempts.size == 1
      rescue Prosody::TransientStateError => e
        raise e.permanent? ? "permanent" : Again.new("as the state error says")
      end
      context.state(value).set("second")
    end
    expect([attempts.size, stage.read(value, key)]).to eq([2, "second"])
  end

  it "names are registered once" do
    client = world.client(group_id: world.name("group"), subscribed_topics: world.topic,
                          state_collections: [Prosody.value("twice"), Prosody.map("twice")])
    expect { client.subscribe(Recorder.new) }.to raise_error(RuntimeError, /twice/)
    expect(client.consumer_state).to eq(:configured)
  end

  it "timer handlers are transactions too" do
    key = stage.key
    seen = []
    fire = lambda do |context, _|
      seen << context.state(value).get
      context.state(value).set("timer #{seen.size}")
      raise Again, "first firing fails" if seen.size == 1
    end
    ticket = stage.expect([:timer, key], fire)
    stage.run(key) do |context, _|
      context.state(value).set("message")
      context.schedule(Time.now + 1)
    end
    ticket.wait
    expect([seen, stage.read(value, key)]).to eq([%w[message message], "timer 2"])
  end

  it "an excise handler can clear the state" do
    key = stage.key
    put(key, "personal")
    clear = ->(context, _) { context.state(value).get.tap { context.state(value).clear } }
    ticket = stage.expect([:excise, key], clear)
    stage.client.excise(stage.topic, key)
    expect([ticket.wait, stage.read(value, key)]).to eq(["personal", nil])
  end

  it "the result of a plain message has no consequence" do
    seen = []
    work = lambda do |context, message|
      seen << context.state(value).get
      context.state(value).set(seen.size)
      message.payload == "odd" ? Object.new : nil
    end
    handler = Recorder.new(message: work)
    client, topic = world.consumer(handler, state_collections: [value], defer_enabled: false, shutdown_timeout: 2.0)
    %w[odd even].each { |payload| client.send_message(topic, "key", payload) }
    handler.finished(2)
    expect([handler.payloads, seen]).to eq([%w[odd even], [nil, 1]])
  end

  it "counters count every id once despite failures and duplicates" do
    dice = Random.new(20)
    keys = Array.new(4) { stage.key("count") }
    fates = Array.new(48) { |n| ["#{stage.group}-#{n}", %i[good good permanent retried retried].sample(random: dice)] }.to_h
    names = fates.keys
    expected = names.each_with_index.group_by { |_, n| keys[n % 4] }
                    .transform_values { |some| some.count { |name, _| fates[name] != :permanent } }
    step = lambda do |context, message|
      name = message.payload["id"]
      context.state(value).set((context.state(value).get || 0) + 1)
      context.state(map).set(name, 1)
      raise Prosody::PermanentError, "never" if fates[name] == :permanent

      if fates[name] == :retried
        fates[name] = :good
        raise Again, "later"
      end
    end
    names.each_with_index do |name, n|
      [1, 1, 2].sample(random: dice).times { stage.start(step, keys[n % 4], id: name) }
    end
    found = keys.to_h { |key| [key, stage.series(key, *readers([value, map]))] }
    expect(found.transform_values { |count, ids| [count, ids.size] }).to eq(expected.transform_values { |count| [count, count] })
  end

  it "a deferred message is a new attempt on committed state" do
    place = world.stage([value], defer_enabled: true, defer_base: 1.0, defer_failure_threshold: 1.0)
    key = place.key
    seen = []
    healthy = Array.new(6) { place.key } # some successes first, so that deferral is chosen
    healthy.each { |other| put(other, "healthy", place) }
    expect(healthy.map { |other| place.read(value, other) }).to all(eq("healthy"))
    step = lambda do |context, message|
      seen << [message.payload["note"], context.state(value).get]
      context.state(value).set("attempt #{seen.size}")
      raise Again, "defer me" if seen.size == 1
    end
    %w[first second].map { |note| place.start(step, key, note:) }.each(&:wait)
    expect(seen).to eq([["first", nil], ["first", nil], ["second", "attempt 2"]])
  end

  it "a waiting attempt does not hold up other keys" do
    slow = stage.key("slow")
    quick = stage.key("quick")
    release = Thread::Queue.new
    wait = lambda do |context, _|
      context.state(value).set("slow")
      release.pop
    end
    ticket = stage.start(wait, slow)
    put(quick, "quick")
    expect([stage.read(value, quick), ticket.done?]).to eq(["quick", false])
    release << true
    ticket.wait
    expect(stage.read(value, slow)).to eq("slow")
  end
end

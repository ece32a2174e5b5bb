# frozen_string_literal: true

RSpec.describe "keyed state" do
  value = Prosody.value("value")
  map = Prosody.map("map")
  set = Prosody.set("set")
  deque = Prosody.deque("deque")
  bounded = Prosody.deque("bounded", capacity: 3)
  message = Prosody.message_value("message")
  messages = Prosody.message_map("messages")
  backlog = Prosody.message_deque("backlog")
  all = [value, map, set, deque, bounded, message, messages, backlog]

  let(:recorder) { Recorder.new }
  let(:samples) do
    [0, false, true, -1, 1.5, -0.25, 1e300, "", "text", "é\0😀", [], {}, [nil], { "n" => nil }, (2**64) - 1, -(2**63),
     { "b" => [1, { "c" => "d" }], "a" => 2.0 }, [[[[]]]], "x" * 5000, "y" * 300_000]
  end

  # Runs a block in a handler, with the collection of a definition.
  def on(definition, ending = nil, key: "k", all: nil)
    within(recorder, ending, key:, state_collections: all || collections) { |context| yield context.state(definition) }
  end

  define_method(:collections) { all }

  def failing(definition, &block)
    on(definition, ->(_) { raise Prosody::PermanentError, "no" }, &block)
  end

  describe "a value" do
    it "comes back equal in value and class, at once and later" do
      expect(on(value, &:get)).to be_nil
      samples.each do |sample|
        seen = [on(value) { |state| [state.set(sample), state.value] }, on(value, &:get)]
        expect(seen).to eq([[sample, sample], sample])
        expect(seen.last.class).to eq(sample.class)
      end
      expect(on(value, key: "other", &:get)).to be_nil
    end

    it "is set and cleared" do
      expect(on(value) { |state| [state.value = 5, state.clear, state.get] }).to eq([5, nil, nil])
      expect(on(value) { |state| state.value = { symbol: :text } }).to eq({ symbol: :text })
      expect(on(value, &:value)).to eq({ "symbol" => "text" })
    end

    it "is left alone when it cannot be stored" do
      refused = on(value) do |state|
        state.set("kept")
        [nil, Float::NAN, Float::INFINITY, 2**64, Object.new, "\xFF", [Float::NAN], { [] => 1 }].map do |wrong|
          state.set(wrong)
        rescue Prosody::TransientStateError => e
          [e.class, e.message]
        end << state.get
      end
      null, nan, infinite, *others, kept = refused
      expect(kept).to eq("kept")
      expect(null).to eq([Prosody::NullValueError, "JSON null is not a storable value; use clear (value/deque) or remove " \
                                                   "(map) to delete an entry"])
      expect([nan, infinite].map(&:first)).to eq([Prosody::NullValueError] * 2)
      expect(others.map(&:first)).to eq([Prosody::TransientStateError] * 5)
      expect([nan, infinite, *others].map(&:last)).to all(start_with("value is not representable as JSON: "))
      expect(on(value, &:get)).to eq("kept")
    end

    it "is refused when it is too large" do
      expect { on(value) { |state| state.set("x" * (70 * 1024 * 1024)) } }.to raise_error(Prosody::PermanentStateError, /bytes/)
      expect(on(value, &:get)).to be_nil
    end
  end

  describe "a map" do
    let(:names) { ["", "\0", "10", "9", "Z", "a", "a\0", "ab", "b", "ÿ", "\u{d7ff}", "\u{ffff}", "\u{10000}", "😀"] }

    it "has the methods of a Hash" do
      answers = on(map) do |state|
        state["b"] = 2
        [state.store("a", { "in" => { "x" => 1 } }), state.set("c", 3), state["a"], state.get("z"), state["b"],
         state.values_at("b", "z", "b"), state.get_many(%w[c z]), state.slice("z", "c"), state.fetch_values("b", "c"),
         state.fetch_values("b", "z", &:upcase), state.dig("a", "in", "x"), state.dig("z", "in"), state.dig("b"), # rubocop:disable Style/SingleArgumentDig
         state.fetch("b"), state.fetch("z", 7), state.fetch("z", &:succ), state.contains_many(%w[a z]), state.empty?,
         state.delete("b"), state.delete("b"), state.key?("b"), state.clear, state.empty?, state.get_many([]),
         state.contains_many([]), state.slice]
      end
      inner = { "in" => { "x" => 1 } }
      expect(answers).to eq([inner, 3, inner, nil, 2, [2, nil, 2], [3, nil], { "c" => 3 }, [2, 3], [2, "Z"], 1, nil, 2, 2, 7,
                             "aa", [true, false], false, nil, nil, false, nil, true, [], [], {}])
    end

    it "tells whether it has a key" do
      answers = on(map) do |state|
        state[:a] = 1
        %i[key? has_key? include? member?].map { |name| [state.public_send(name, "a"), state.public_send(name, "b")] }
      end
      expect(answers).to eq([[true, false]] * 4)
    end

    it "raises as a Hash does" do
      on(map) do |state|
        state["n"] = 1
        expect { state.fetch("z") }.to raise_error(KeyError, 'key not found: "z"') { |error|
          expect([error.key, error.receiver]).to eq(["z", state])
        }
        expect { state.fetch("z", 1, 2) }.to raise_error(ArgumentError)
        expect { state.fetch_values("n", "z") }.to raise_error(KeyError, /"z"/)
        expect { state.dig("n", "x") }.to raise_error(TypeError)
        [5, nil, 1.5].each do |wrong|
          [-> { state.get(wrong) }, -> { state[wrong] = 1 }, -> { state.delete(wrong) }, -> { state.key?(wrong) },
           -> { state.get_many([wrong]) }].each { |call| expect(&call).to raise_error(TypeError, /expected a String/) }
        end
        ["ab", 5, nil].each do |wrong|
          [-> { state.get_many(wrong) }, -> { state.contains_many(wrong) }].each do |call|
            expect(&call).to raise_error(TypeError, /keys: expected an Array, got/)
          end
        end
        expect { state.get("\xFF") }.to raise_error(ArgumentError, /not valid UTF-8/)
      end
    end

    it "keeps keys in the order of their bytes" do
      on(map) { |state| names.shuffle(random: Random.new(1)).each { |name| state[name] = name } }
      sorted = names.sort_by(&:b)
      seen = on(map) { |state| [state.each_key.to_a, state.reverse_each_key.to_a, state.get_many(names)] }
      expect(seen).to eq([sorted, sorted.reverse, names])
      expect(seen.flatten.map(&:encoding).uniq).to eq([Encoding::UTF_8])
    end

    it "holds a large value and many keys" do
      long = "k" * 20_000
      on(map) do |state|
        state[long] = "v" * 200_000
        500.times { |number| state[format("%04d", number)] = number }
      end
      expect(on(map) { |state| [state[long].size, state.values_at(*Array.new(500) { |n| format("%04d", n) })] })
        .to eq([200_000, Array.new(500) { |n| n }])
      expect(on(map) { |state| state.get_many([long, "x" * 9000, "0007"]).map { |one| one.is_a?(String) ? one.size : one } })
        .to eq([200_000, nil, 7])
    end
  end

  describe "a set" do
    it "has the methods of a Set" do
      on(set) do |state|
        expect(state.add("b").add("a") << "é" << "a").to equal(state)
        expect([state.include?("a"), state.member?("z"), state.contains_many(%w[é z]), state.empty?])
          .to eq([true, false, [true, false], false])
        expect(state.delete("a").delete("a")).to equal(state)
        expect { state << 5 }.to raise_error(TypeError, /member: expected a String/)
      end
      expect(on(set) { |state| [state.each.to_a, state.reverse_each.to_a] }).to eq([%w[b é], %w[é b]])
      expect(on(set) { |state| [state.clear, state.empty?, state.each.to_a] }).to eq([nil, true, []])
    end
  end

  describe "a deque" do
    it "has two ends" do
      on(deque) do |state|
        expect([state.pop, state.shift, state.first, state.last, state.get(0), state.get(-1), state.length, state.empty?])
          .to eq([nil, nil, nil, nil, nil, nil, 0, true])
        expect(state.push(2).append(3) << 4).to equal(state)
        expect(state.unshift(1).prepend(0)).to equal(state)
        expect([state.each.to_a, state.size, state.first, state.last, state.empty?]).to eq([[0, 1, 2, 3, 4], 5, 0, 4, false])
        expect([state.pop, state.shift, state.reverse_each.to_a]).to eq([4, 0, [3, 2, 1]])
      end
      expect(on(deque) { |state| [state.each.to_a, state.clear, state.length] }).to eq([[1, 2, 3], nil, 0])
    end

    it "is read by position" do
      on(deque) do |state|
        %w[a b c].each { |item| state << item }
        expect([0, 2, 3, -1, -3, -4, 2**70, -(2**70)].map { |index| state.get(index) })
          .to eq(["a", "c", nil, "c", "a", nil, nil, nil])
        expect([state.fetch(1), state.fetch(9, 0), state.fetch(9) do |index|
                                                     index + 1
                                                   end, state.fetch(-1)]).to eq(["b", 0, 10, "c"])
        expect { state.fetch(9) }.to raise_error(IndexError, /9/)
        expect { state.fetch(9, 1, 2) }.to raise_error(ArgumentError)
        ["0", 1.5, nil].each { |wrong| expect { state.get(wrong) }.to raise_error(Prosody::TransientStateError, /Integer/) }
        expect { state << nil }.to raise_error(Prosody::NullValueError)
        expect { state.unshift(Object.new) }.to raise_error(Prosody::TransientStateError)
        expect(state.size).to eq(3)
      end
    end

    it "keeps as many items as it may" do
      on(bounded) { |state| 6.times { |number| state << number } }
      expect(on(bounded) { |state| [state.each.to_a, state.unshift("left").each.to_a] }).to eq([[3, 4, 5], ["left", 3, 4]])
    end

    it "gives large items whole" do
      on(deque) { |state| state << ("x" * 200_000) << 1 }
      expect(on(deque) do |state|
               [state.first.size, state.shift.size, state.shift, state.shift]
             end).to eq([200_000, 200_000, 1, nil])
    end
  end

  describe "messages" do
    # Keeps the message of an event in all three collections.
    def keep
      within(recorder, state_collections: collections) do |context|
        stored = recorder.take(1).first
        yield context, stored
        stored
      end
    end

    it "come back whole and can be stored again" do
      first, second = Array.new(2) do
        keep do |context, stored|
          context.state(collections[5]).set(stored)
          context.state(collections[6])["it"] = stored
          context.state(collections[7]) << stored
          expect(context.state(collections[5]).get).to eq(stored)
        end
      end
      found = nil
      keep do |context, _|
        one, named, line = collections.last(3).map { |definition| context.state(definition) }
        found = [one.get, named["it"], named.values_at("it", "x"), named.each.to_a, line.each.to_a, line.first, line.get(-1)]
        named["copy"] = line.shift
      end
      expect(found).to eq([second, second, [second, nil], [["it", second]], [first, second], first, second])
      expect(found[0].to_h).to eq(second.to_h)
      keep { |context, _| expect(context.state(collections[6])["copy"]).to eq(first) }
    end

    it "are delivered ones" do
      keep do |context, stored|
        one, _, line = collections.last(3).map { |definition| context.state(definition) }
        forged = Prosody::Message.new(**stored.to_h.tap { |fields| fields.delete(:response_requested) })
        expect(forged).to eq(stored)
        ["text", 5, nil, { "topic" => "t" }, forged].each do |wrong|
          expect { one.set(wrong) }.to raise_error(Prosody::TransientStateError, /expected a Kafka message|only a message/)
          expect { line << wrong }.to raise_error(Prosody::TransientStateError)
        end
        [context.state(collections[0]).method(:set), context.state(collections[3]).method(:push)].each do |store|
          expect { store.call(stored) }.to raise_error(Prosody::TransientStateError, /it is a message/)
        end
        expect([one.get, line.size]).to eq([nil, 0])
      end
    end
  end

  describe "an attempt" do
    it "has one handle for a collection" do
      handles = Array.new(2) do
        within(recorder, state_collections: all) do |context|
          expect(context.state(value)).to equal(context.state(Prosody.value("value", ttl: 5, read_uncommitted: true)))
          context.state(value)
        end
      end
      expect(handles[0]).not_to equal(handles[1])
      expect { handles[0].dup }.to raise_error(TypeError)
    end

    it "that fails changes nothing" do
      on(value) { |state| state.set("before") }
      failing(value) { |state| state.set("lost") }
      failing(map) { |state| state["a"] = 1 }
      failing(deque) { |state| state << 1 }
      expect([on(value, &:get), on(map, &:empty?), on(deque, &:size)]).to eq(["before", true, 0])
    end

    it "keeps what it has committed, collection by collection" do
      failing(value) { |state| [state.set("floor"), state.commit, state.set("above")] }
      expect(on(value, &:get)).to eq("floor")
      outcomes = { value => ->(state) { state.set(1) }, map => ->(state) { state["a"] = 1 },
                   set => ->(state) { state << "a" }, deque => ->(state) { state << 1 } }.map do |definition, write|
        on(definition) do |state|
          seen = [state.commit, state.rollback]
          write.call(state)
          seen += [state.commit, state.commit]
          write.call(state)
          seen + [state.rollback, state.rollback]
        end
      end
      expect(outcomes).to eq([%i[no_op no_op applied no_op applied no_op]] * 4)
      expect(on(value) { |state| [state.clear, state.rollback, state.get] }).to eq([nil, :applied, 1])
    end

    it "only uses what is registered" do
      within(recorder, state_collections: all) do |context|
        expect { context.state(Prosody.value("unknown")) }
          .to raise_error(Prosody::PermanentStateError, 'state collection "unknown" is not registered')
        [Prosody.map("value"), Prosody.set("map"), Prosody.message_value("value")].each do |wrong|
          expect { context.state(wrong) }.to raise_error(Prosody::PermanentStateError, /state collection identity mismatch/)
        end
        [nil, "value", { name: "value", kind: "value" }].each do |wrong|
          expect { context.state(wrong) }.to raise_error(TypeError, /expected a Prosody::StateDefinition/)
        end
      end
    end

    it "takes its handles with it" do
      context, values, entries, scan = within(recorder, state_collections: all) do |own|
        own.state(map)["a"] = 1
        [own, own.state(value), own.state(map), own.state(map).each_key]
      end
      on(value, &:get)
      reads = [-> { values.get }, -> { entries.key?("a") }, -> { entries.each.to_a }, -> { entries.empty? },
               -> { context.state(value) }, -> { scan.first }]
      reads.each { |read| expect(&read).to raise_error(Prosody::TransientStateError, /terminated context|attempt is over/) }
      [-> { values.set(1) }, -> { values.clear }, -> { values.commit }, -> { entries.delete("a") }].each do |write|
        expect(&write).to raise_error(Prosody::PermanentStateError, "state mutation attempted on a settled session")
      end
      expect(values.rollback).to eq(:no_op)
    end

    it "may be that of a timer" do
      seen = Thread::Queue.new
      @recorder = Recorder.new(timer: lambda { |context, _|
        seen << context.state(value).get
        context.state(value).set("timer #{seen.size}")
        raise Prosody::TransientError, "again" if context.demand.normal?
      })
      within(@recorder, state_collections: all, retry_base: 0.001, defer_enabled: false) do |context|
        context.state(value).set("message")
        context.schedule(Time.at(1))
      end
      expect(patiently { Array.new(2) { seen.pop } }).to eq(%w[message message])
    end

    it "that is stopped changes nothing" do
      seen = Thread::Queue.new
      handler = Recorder.new(message: lambda { |context, _|
        seen << context.state(value).get
        context.state(value).set("stopped or not")
        sleep if seen.size == 1
      })
      made = consume(handler, state_collections: all, timeout: 0.1, retry_base: 0.001, defer_enabled: false)
      2.times { made.send_message(topic, "k", 1) }
      eventually { seen.size == 3 }
      expect(Array.new(3) { seen.pop }).to eq([nil, nil, "stopped or not"])
    end

    it "does not reach into a forked child" do
      text = on(value) do |state|
        reader, writer = IO.pipe
        child = fork do
          state.get
        rescue RuntimeError => e
          writer.write(e.message)
        ensure
          exit!
        end
        writer.close
        reader.read.tap { Process.wait(child) }
      end
      expect(text).to start_with("Prosody::Client cannot be used after fork")
    end

    it "may use state in many threads at once" do
      totals = on(map) do |state|
        Array.new(8) do |thread|
          Thread.new { 200.times { |number| state["#{thread}-#{number}"] = "#{thread}.#{number}" * 50 } }
        end.each(&:join)
        Array.new(8) { |thread| Thread.new { Array.new(200) { |number| state["#{thread}-#{number}"] } } }.map(&:value)
      end
      expect(totals).to eq(Array.new(8) { |thread| Array.new(200) { |number| "#{thread}.#{number}" * 50 } })
    end
  end
end

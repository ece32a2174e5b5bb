# frozen_string_literal: true

require "time"

# What happens to a record whose handler fails: classification, modes, retry order, deferral, time-outs, shutdown.
RSpec.describe Prosody::EventHandlerError, options: { defer_enabled: false, max_retry_delay: 0.2 } do
  in_place = { defer_enabled: false, max_retry_delay: 0.2 } # retries at once, on the spot
  again = Prosody::TransientError
  never = Prosody::PermanentError

  # A script that raises for the first calls of each payload (of those in `on`); an excise record has the payload nil.
  def failing(times, error = Prosody::TransientError, on: nil)
    left = Hash.new(times)
    lambda do |_, event|
      payload = event.respond_to?(:payload) ? event.payload : nil
      next if on && !on.include?(payload)

      raise error, "boom" if (left[payload] -= 1) >= 0
    end
  end

  def stopped
    [Prosody::Cancelled, *(Async::Stop if defined?(Async::Stop))]
  end

  # ---- classes and decorators

  it "error classes" do
    expect([again, never]).to all(be < described_class)
    expect(described_class).to be < Prosody::Error
    expect(Prosody::Error.superclass).to be(StandardError)
    expect([again.new("x").permanent?, never.new("x").permanent?]).to eq([false, true])
    expect(never.new("text").message).to eq("text")
    expect { described_class.new.permanent? }.to raise_error(NotImplementedError)
  end

  { transient: again, permanent: never }.each do |decorator, raised|
    it "decorators translate the named errors only [#{decorator}]" do
      handler = Class.new(Recorder) do
        attr_writer :error

        def on_message(_context, _message)
          raise @error if @error

          "result"
        end
        public_send(decorator, :on_message, IndexError, ArgumentError)
      end.new
      work = lambda do |error|
        handler.error = error
        handler.on_message(nil, nil)
      end
      [KeyError.new("k"), ArgumentError.new("text")].each do |original|
        expect { work.call(original) }.to raise_error(raised, original.message) { |error| expect(error.cause).to be(original) }
      end
      expect { work.call(ZeroDivisionError.new) }.to raise_error(ZeroDivisionError)
      expect { work.call(Prosody::Cancelled.new) }.to raise_error(Prosody::Cancelled)
      expect(work.call(nil)).to eq("result")
    end

    it "decorators work on plain functions [#{decorator}]" do
      plain = Class.new do
        extend Prosody::ErrorClassification

        def work(fail: false)
          raise Errno::ENOENT, "gone" if fail

          5
        end
        public_send(decorator, :work, SystemCallError)
      end
      expect(plain.new.work).to eq(5)
      expect { plain.new.work(fail: true) }.to raise_error(raised, /gone/)
      expect { plain.public_send(decorator, :work) }.to raise_error(ArgumentError)
      expect { plain.public_send(decorator, :missing, KeyError) }.to raise_error(NameError, "Method `missing` is not defined")
    end
  end

  it "decorated handler methods decide the retry" do
    decorated = Class.new(Recorder) do
      def on_message(context, message) = super # rubocop:disable Lint/UselessMethodDefinition
      def on_excise(context, message) = super # rubocop:disable Lint/UselessMethodDefinition
      permanent :on_message, ArgumentError
      transient :on_excise, ArgumentError
    end
    handler, key = stage.part(decorated.new(message: failing(5, ArgumentError), excise: failing(2, ArgumentError)))
    stage.send_message(key.call, 1)
    stage.client.excise(stage.topic, key.call)
    handler.until { handler.of(:excise).size == 3 }
    expect(handler.payloads).to eq([1])
  end

  # ---- classification in pipeline mode

  duck = Class.new(StandardError) { def permanent? = true }
  broken = Class.new(StandardError) { def permanent? = raise("no answer") }
  unprintable = Class.new(StandardError) { def message = raise("no text") }
  custom = Class.new(Exception) # rubocop:disable Lint/InheritException

  it "every exception but a permanent one is retried" do
    kinds = [again, ArgumentError, broken, unprintable, custom, Prosody::Cancelled, Timeout::Error, StopIteration, NoMemoryError,
             NotImplementedError, ClosedQueueError, UncaughtThrowError, SystemStackError, FiberError]
    errors = kinds.each_with_index.to_h { |kind, number| ["error-#{number}", kind] }
    seen = Set.new
    work = lambda do |_, message|
      kind = errors[message.payload]
      next if kind.nil? || !seen.add?(message.payload)

      raise(kind == UncaughtThrowError ? kind.new(:tag, nil, "text") : kind.new)
    end
    handler, key = stage.part(message: work)
    errors.each_key do |name|
      stage.send_message(key.call(name), name)
      stage.send_message(key.call(name), "next")
    end
    handler.until("all retries") { handler.successes.size == 2 * errors.size }
    errors.each_key { |name| expect(handler.payloads(key.call(name))).to eq([name, name, "next"]) }
  end

  [never, duck].each_with_index do |error, number|
    it "permanent failure is not retried [#{number}]" do
      handler, key = stage.part(message: failing(9, error, on: ["bad"]), excise: failing(9, error))
      stage.send_message(key.call, "bad")
      stage.client.excise(stage.topic, key.call)
      stage.send_message(key.call, "end")
      handler.until { handler.payloads.include?("end") }
      expect(handler.calls.map(&:kind)).to eq(%i[message excise message])
    end
  end

  # ---- order during retries

  it "retries keep the order of their key while others flow" do
    released = false
    slow = nil
    work = ->(_, message) { raise again, "not yet" if message.key == slow && message.payload.zero? && !released }
    handler, key = stage.part(message: work)
    slow = key.call("slow")
    4.times { |number| stage.send_message(slow, number) }
    handler.until { handler.of(key: slow).size >= 2 }
    10.times { |number| stage.send_message(key.call("free-#{number}"), number) }
    handler.until { handler.successes.count { |call| call.key != slow } == 10 }
    expect(handler.payloads(slow).uniq).to eq([0])
    released = true
    handler.until { handler.payloads(slow).include?(3) }
    handler.until { handler.successes.count { |call| call.key == slow } == 4 }
    expect(handler.successes.select { |call| call.key == slow }.map { |call| call.event.payload }).to eq([0, 1, 2, 3])
  end

  it "demand tells first delivery from retry" do
    demands = []
    work = lambda do |context, _|
      demands << context.demand
      raise again, "again" if demands.size < 4
    end
    handler, key = stage.part(message: work)
    stage.send_message(key.call, 1)
    handler.finished(4)
    expect(demands.map(&:kind)).to eq(%i[normal failure failure failure])
    expect(demands.map(&:retries)).to eq([0, 1, 2, 3])
    expect(demands.map(&:retry)).to eq(demands.map(&:retries))
    expect(demands.map(&:failure?)).to eq(demands.map(&:normal?).map(&:!))
  end

  # Successes first, so that one failure is below the failure threshold and gets deferred.
  def warm_up(client, topic, handler, count = 20)
    count.times { |number| client.send_message(topic, "warm-#{number}", "warm") }
    handler.finished(count)
  end

  it "deferred record comes back before the later ones" do
    handler = Recorder.new(message: failing(2, on: ["first"]))
    client, topic = world.consumer(handler)
    warm_up(client, topic, handler)
    %w[first second third].each { |payload| client.send_message(topic, "key", payload) }
    client.send_message(topic, "free", "free")
    handler.until { handler.of(key: "free").any? }
    handler.until { handler.payloads("key").include?("third") }
    expect(handler.payloads("key")).to eq((["first"] * 3) + %w[second third])
  end

  it "record sent while another is deferred waits behind it" do
    released = false
    handler = Recorder.new(message: ->(_, message) { raise again, "not yet" if message.payload == "first" && !released })
    client, topic = world.consumer(handler)
    warm_up(client, topic, handler)
    client.send_message(topic, "key", "first")
    handler.until("the first deferred retry") { handler.of(key: "key").size >= 2 }
    client.excise(topic, "key")
    client.send_message(topic, "key", "second")
    client.send_message(topic, "free", "free")
    handler.until { handler.of(key: "free").any? }
    expect(handler.payloads("key").uniq).to eq(["first"])
    released = true
    handler.until { handler.successes.count { |call| call.key == "key" } == 3 }
    done = handler.successes.select { |call| call.key == "key" }
    expect(done.map { |call| call.kind == :message ? call.event.payload : "excise" }).to eq(%w[first excise second])
  end

  it "deferred record that turns permanent releases the key" do
    handler = nil
    work = lambda do |_, message|
      next if message.payload != "first"

      raise handler.of(key: "key").size < 2 ? again.new("later") : never.new("never")
    end
    handler = Recorder.new(message: work)
    client, topic = world.consumer(handler)
    warm_up(client, topic, handler)
    client.send_message(topic, "key", "first")
    client.send_message(topic, "key", "second")
    handler.until { handler.payloads("key").include?("second") }
    expect(handler.payloads("key")).to eq(%w[first first second])
  end

  it "transient failure with default settings is never lost" do
    handler = Recorder.new(message: failing(1))
    client, topic = world.consumer(handler)
    5.times { |number| client.send_message(topic, "key-#{number}", number) }
    handler.until { handler.successes.size == 5 }
    expect(handler.payloads.sort).to eq([*0...5].flat_map { |number| [number, number] })
  end

  it "deferred record survives a restart", :real_only do
    first = Recorder.new(message: ->(_, message) { raise again, "down" if message.key == "key" })
    second = Recorder.new
    group = world.name("group")
    client, topic = world.consumer(first, group_id: group)
    warm_up(client, topic, first)
    client.send_message(topic, "key", "first")
    first.until("a deferred retry") { first.of(key: "key").size >= 2 }
    client.send_message(topic, "key", "second")
    client.shutdown
    world.consumer(second, topics: topic, group_id: group)
    second.until { second.payloads("key").include?("second") }
    expect(second.payloads("key")).to eq(%w[first second])
  end

  # ---- the other modes

  it "best effort does not retry" do
    handler = Recorder.new(message: failing(9, on: %w[bad worse]), excise: failing(9))
    client, topic = world.consumer(handler, mode: :best_effort)
    %w[bad worse good].each { |payload| client.send_message(topic, "key", payload) }
    client.excise(topic, "key")
    client.send_message(topic, "key", "end")
    handler.until { handler.payloads.include?("end") }
    expect([handler.payloads, handler.of(:excise).size]).to eq([%w[bad worse good end], 1])
  end

  [[2, again, 3], [0, again, 1], [3, never, 1]].each do |retries, error, calls|
    it "low latency copies failed records to the failure topic [#{retries} #{error}]" do
      failures = world.topic("failures")
      handler = Recorder.new(message: failing(99, error, on: ["bad"]))
      reader = Recorder.new
      world.consumer(reader, topics: failures, mode: :best_effort)
      client, topic = world.consumer(handler, mode: :low_latency, failure_topic: failures, max_retries: retries,
                                              max_retry_delay: 0.2)
      client.send_message(topic, "key", "bad")
      client.send_message(topic, "key", "end")
      handler.until { handler.payloads.include?("end") }
      expect(handler.payloads).to eq((["bad"] * calls) + ["end"])
      reader.count(1)
      expect(reader.calls.map { |call| [call.key, call.event.payload] }).to eq([%w[key bad]])
    end
  end

  it "failure topic record", :real_only do
    failures = world.topic("failures", partitions: 1)
    topic = world.topic(partitions: 1)
    handler = Recorder.new(message: failing(99), excise: failing(99))
    group = world.name("group")
    client, = world.consumer(handler, topics: topic, group_id: group, mode: :low_latency, failure_topic: failures, max_retries: 0)
    client.send_message(topic, "key", { "a" => [1.5, "é"] })
    client.excise(topic, "key")
    handler.finished(2)
    world.records(failures, 2).zip(%w[message excise], handler.calls) do |record, kind, call|
      headers = record[:headers].to_h
      expect(record[:key]).to eq("key")
      expect(record[:value]).to eq(kind == "message" ? '{"a":[1.5,"é"]}'.b : nil)
      expect(headers).to include(
        "source-kind" => kind, "source-topic" => topic, "source-partition" => "0", "source-offset" => call.event.offset.to_s,
        "source-group-id" => group, "source-system" => "conformance", "source-error" => /boom/,
        "source-timestamp" => call.event.timestamp.iso8601(3)
      )
    end
  end

  # ---- time-out and shutdown

  it "timeout cancels the handler and retries" do
    notes = []
    work = lambda do |context, _|
      next unless notes.empty?

      began = clock
      raise "cancelled at once" if context.should_cancel?

      begin
        sleep 600
      rescue *stopped
        notes << [clock - began, context.should_cancel?]
        raise
      end
    end
    handler = Recorder.new(message: work)
    client, topic = world.consumer(handler, timeout: 1.5, **in_place)
    client.send_message(topic, "key", 1)
    client.send_message(topic, "key", 2)
    handler.until { handler.payloads.include?(2) }
    expect(handler.payloads).to eq([1, 1, 2])
    expect(notes).to match([[be_between(1.2, 15), true]])
  end

  it "handler that ends well after the timeout has succeeded" do
    work = lambda do |context, message|
      next if message.payload != 1

      begin
        sleep 600
      rescue *stopped
        context.on_cancel
      end
    end
    handler = Recorder.new(message: work)
    client, topic = world.consumer(handler, timeout: 1.0, **in_place)
    client.send_message(topic, "key", 1)
    client.send_message(topic, "key", 2)
    handler.until { handler.payloads.include?(2) }
    expect(handler.payloads).to eq([1, 2])
  end

  it "shutdown cancels late and the record stays undone" do
    notes = []
    work = lambda do |context, _|
      sleep 600
    ensure
      notes << [clock, context.should_cancel?]
    end
    first = Recorder.new(message: work)
    second = Recorder.new
    group = world.name("group")
    client, topic = world.consumer(first, group_id: group, shutdown_timeout: 4.0)
    client.send_message(topic, "key", 1)
    first.count(1)
    began = clock
    client.shutdown
    ended = clock
    expect(notes).to match([[be_between(began + 2.0, began + 4.5), true]])
    expect(ended - began).to be <= 12
    if REAL
      world.consumer(second, topics: topic, group_id: group)
      second.count(1)
    end
  end

  it "shutdown does not wait for a deaf handler" do
    gate = false
    work = lambda do |*|
      until gate
        begin
          sleep 0.05
        rescue *stopped
          nil
        end
      end
    end
    handler = Recorder.new(message: work)
    client, topic = world.consumer(handler, shutdown_timeout: 2.0)
    client.send_message(topic, "key", 1)
    handler.count(1)
    began = clock
    begin
      Timeout.timeout(30) { client.shutdown }
    ensure
      gate = true
    end
    expect(clock - began).to be < 15
  end

  it "context is dead after its attempt" do
    kept = nil
    handler, key = stage.part(message: ->(context, _) { kept = [context, Thread.new { context.on_cancel }] })
    stage.send_message(key.call, 1)
    handler.finished(1)
    context, waiter = kept
    expect(waiter.join(20)).to be(waiter)
    expect(context.should_cancel?).to be(true)
    [-> { context.schedule(Time.now + 3600) }, -> { context.scheduled }, -> { context.clear_scheduled }].each do |call|
      expect(&call).to raise_error(RuntimeError, /no longer valid/)
    end
  end
end

# frozen_string_literal: true

# What becomes of handlers, on threads; fiber_spec.rb has the same for fibers.
RSpec.describe "handlers" do
  permanent = Class.new(StandardError) { def permanent? = true }
  undecided = Class.new(StandardError) { def permanent? = raise("no answer") }

  # Runs the handler for one message and tells how often it was called before a second message came.
  def attempts(**options, &block)
    count = 0
    @topic = name("topic")
    handler = Recorder.new(message: lambda { |context, message|
      next if message.payload == "after"

      block.call(context, count += 1)
    })
    made = consume(handler, retry_base: 0.001, max_retry_delay: 0.002, defer_enabled: false, **options)
    made.send_message(topic, "k", "first")
    made.send_message(topic, "k", "after")
    patiently { nil until handler.calls.pop.payload == "after" }
    count
  end

  it "are tried again after a failure" do
    demands = []
    expect(attempts do |context, count|
      demands << context.demand
      raise "no" if count < 4
    end).to eq(4)
    expect(demands.map(&:kind)).to eq(%i[normal failure failure failure])
    expect(demands.map(&:retries)).to eq([0, 1, 2, 3])
  end

  it "are not tried again after a permanent failure" do
    expect(attempts { raise Prosody::PermanentError, "no" }).to eq(1)
    expect(attempts { raise permanent, "no" }).to eq(1)
  end

  it "are tried again when the exception cannot say what it is" do
    expect(attempts { |_, count| raise undecided if count < 3 }).to eq(3)
    expect(attempts { |_, count| raise Prosody::EventHandlerError if count < 3 }).to eq(3)
  end

  it "fail by exceptions of every class, also of those without a text" do
    mute = Class.new(StandardError) { def message = raise("no text") }
    errors = [NoMemoryError, NotImplementedError, SystemStackError, StopIteration, Prosody::Cancelled, mute,
              Class.new(Exception)] # rubocop:disable Lint/InheritException
    expect(attempts { |_, count| raise errors[count - 1] if count <= errors.size }).to eq(errors.size + 1)
    expect(attempts { |_, count| throw :nowhere if count == 1 }).to eq(2)
  end

  it "fail when their thread is killed" do
    expect(attempts { |_, count| Thread.current.kill if count <= 3 }).to eq(4)
  end

  it "fail when something is raised into their thread" do
    expect(attempts do |_, count|
      next if count > 3

      me = Thread.current
      Thread.new { me.raise(IOError, "from outside") }
      sleep
    end).to eq(4)
  end

  it "may use Timeout" do
    expect(attempts { |_, count| Timeout.timeout(0.01) { sleep } if count < 3 }).to eq(3)
  end

  it "are stopped at their deadline" do
    events = []
    text = lines("exceeded its timeout") do
      expect(attempts(timeout: 0.05) do |context, count|
        next if count > 1

        begin
          sleep
        ensure
          events << context.should_cancel?
        end
      end).to eq(2)
    end
    expect(events).to eq([true])
    expect(text).to include("exceeded its timeout")
  end

  it "succeed when they swallow the cancellation" do
    expect(attempts(timeout: 0.05) do
      sleep
    rescue Prosody::Cancelled
      nil
    end).to eq(1)
  end

  it "are not stopped amid a computation" do
    steps = 0
    expect(attempts(timeout: 0.05) { |context| steps += 1 until context.should_cancel? }).to eq(1)
    expect(steps).to be > 0
  end

  it "can wait for their cancellation" do
    expect(attempts(timeout: 0.05) do |context, count|
      next if count > 1

      Thread.new { context.on_cancel }.value
      raise "stopped" if context.should_cancel?
    rescue Prosody::Cancelled
      raise "stopped"
    end).to eq(2)
  end

  it "end those who wait for their cancellation" do
    waiters = []
    context = nil
    attempts do |current, _|
      context = current
      waiters << Thread.new { current.on_cancel }
      Thread.pass until waiters.last.stop?
    end
    expect(patiently { waiters.map(&:value) }).to eq([nil])
    expect(context.should_cancel?).to be(true)
    expect(patiently { context.on_cancel }).to be_nil
  end

  it "never get the cancellation of an attempt that is over" do
    attempt = Struct.new(:cancelled)
    late = attempt.new(nil)
    result = Thread::Queue.new
    script = Struct.new(:late, :attempt, :result) do
      def work(worker)
        Thread.handle_interrupt(Object => :never) do
          worker.guard(late) do # no blocking call: the cancellation stays pending
            late.cancelled = Prosody::Cancelled.new
            other = Thread.new { worker.stop(late) }
            Thread.pass while other.alive?
          end
          result << worker.guard(attempt.new(nil)) { sleep(0.001) && :fine }
        rescue Prosody::Cancelled
          result << :stray
        end
      end
    end
    Prosody.const_get(:Pool).const_get(:Worker).new(script.new(late, attempt, result))
    expect(patiently { result.pop }).to eq(:fine)
  end

  it "never get the cancellation of another attempt" do
    strays = Thread::Queue.new
    handler = Recorder.new(message: lambda { |context, message|
      begin
        sleep(message.payload.even? ? 0.02 : 0.001)
      rescue Prosody::Cancelled
        strays << message unless context.should_cancel?
        raise
      end
    })
    made = consume(handler, timeout: 0.02, mode: :best_effort)
    sent = 0
    eventually(100) do # one that is cancelled before it starts is not called
      20.times { made.send_message(topic, "k#{sent % 10}", sent += 1) }
      handler.calls.size > 150
    end
    made.unsubscribe
    expect(strays).to be_empty
  end

  it "are waited for at shutdown" do
    ended = false
    handler = Recorder.new(message: lambda { |_, _|
      sleep 0.2
      ended = true
    })
    made = consume(handler)
    made.send_message(topic, "k", 1)
    patiently { handler.take(1) }
    made.shutdown
    expect(ended).to be(true)
  end

  it "are stopped near the end of a shutdown" do
    ended = []
    handler = Recorder.new(message: lambda { |_, _|
      begin
        sleep
      rescue Prosody::Cancelled => e
        ended << e.message
        raise
      end
    })
    made = consume(handler, shutdown_timeout: 0.5)
    made.send_message(topic, "k", 1)
    patiently { handler.take(1) }
    patiently(60) { made.shutdown }
    expect(ended.size).to eq(1)
  end

  it "do not hold up a shutdown when they ignore it" do
    release = Thread::Queue.new
    handler = Recorder.new(message: lambda { |_, _|
      begin
        release.pop
      rescue Prosody::Cancelled
        retry
      end
    })
    made = consume(handler, shutdown_timeout: 0.3)
    made.send_message(topic, "k", 1)
    patiently { handler.take(1) }
    patiently(60) { made.shutdown }
    release << 1
  end

  it "may use their own client" do
    made = nil
    handler = Recorder.new(message: lambda { |_, message|
      made.send_message(topic, "k", message.payload - 1) if message.payload.positive?
    })
    made = consume(handler)
    made.send_message(topic, "k", 5)
    expect(patiently { handler.take(6) }.map(&:payload)).to eq([5, 4, 3, 2, 1, 0])
  end

  it "get excise records, with the same rules" do
    count = 0
    handler = Recorder.new(excise: lambda { |_, _|
      raise "again" if (count += 1) < 3
    })
    made = consume(handler, retry_base: 0.001)
    made.excise(topic, "k")
    expect(patiently { handler.take(3) }.map(&:offset).uniq.size).to eq(1)
    made.unsubscribe
    expect(count).to eq(3)
  end

  it "run on threads that are used again" do
    threads = Set.new
    handler = Recorder.new(message: lambda { |_, _|
      threads << Thread.current
      sleep 0.001
    })
    made = consume(handler, max_concurrency: 4)
    200.times { |index| made.send_message(topic, "k#{index % 20}", index) }
    patiently { handler.take(200) }
    made.unsubscribe
    expect(threads.size).to be_between(1, 8)
  end

  it "say in the log why they failed" do
    text = lines("a reason") { attempts { |_, count| raise ArgumentError, "a reason" if count == 1 } }
    expect(text).to match(/ERROR.*message handling failed: #{topic}.*a reason/).and include(__FILE__)
  end

  it "are not disturbed by a logger that fails" do
    broken = Logger.new(File::NULL)
    def broken.add(*) = raise("no log")
    before = Prosody.logger
    Prosody.logger = broken
    expect { expect(attempts { |_, count| raise "x" if count == 1 }).to eq(2) }.to output(/logger failed/).to_stderr
  ensure
    Prosody.logger = before
  end
end

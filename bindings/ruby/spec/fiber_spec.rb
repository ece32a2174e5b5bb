# frozen_string_literal: true

# Programs that use the gem `async` get their handlers run as fibers.
RSpec.describe "handlers as fibers" do
  def fibers(program)
    text, status = ruby(<<~RUBY)
      require "async"
      class Handler
        def initialize(&block)
          super()
          @block = block
          @calls = Thread::Queue.new
        end
        attr_reader :calls
        def on_message(context, message)
          @calls << message
          @block.call(context, message)
        end
      end
      #{program}
    RUBY
    expect(status).to be_success, text
    text.lines.map(&:chomp)
  end

  it "all run on one thread, at the same time" do
    out = fibers(<<~RUBY)
      threads, open, peak = {}, 0, 0
      handler = Handler.new do |_, _|
        threads[Thread.current] = true
        peak = [peak, open += 1].max
        sleep 0.005 until peak > 3
        open -= 1
      end
      made = client
      made.subscribe(handler)
      10.times { |i| made.send_message("topic", "k\#{i}", i) }
      10.times { handler.calls.pop }
      made.shutdown
      puts threads.size, peak > 3
    RUBY
    expect(out).to eq(%w[1 true])
  end

  it "are stopped by Async::Stop, and ensure runs" do
    out = fibers(<<~RUBY)
      seen = []
      handler = Handler.new do |context, message|
        next if message.payload == "after" || seen.any?
        begin
          sleep 60
        rescue Async::Stop => e
          seen << e.class
          raise
        ensure
          seen << context.should_cancel?
        end
      end
      made = client(timeout: 0.05, retry_base: 0.001)
      made.subscribe(handler)
      made.send_message("topic", "k", "first")
      made.send_message("topic", "k", "after")
      calls = []
      calls << handler.calls.pop.payload until calls.last == "after"
      made.shutdown
      puts seen, calls
    RUBY
    expect(out.grep_v(/ERROR|WARN|prosody/)).to include("Async::Stop", "true", "after")
    expect(out.last(3)).to eq(%w[first first after])
  end

  it "succeed when they swallow it, and can wait for it" do
    out = fibers(<<~RUBY)
      handler = Handler.new do |context, message|
        context.on_cancel if message.payload == "first"
      rescue Async::Stop
        nil
      end
      made = client(timeout: 0.05)
      made.subscribe(handler)
      made.send_message("topic", "k", "first")
      made.send_message("topic", "k", "after")
      puts handler.calls.pop.payload, handler.calls.pop.payload
      made.shutdown
    RUBY
    expect(out).to eq(%w[first after])
  end

  it "may use their client, and fail and heal when their thread is killed" do
    out = fibers(<<~RUBY)
      made = nil
      count = 0
      handler = Handler.new do |_, message|
        Thread.current.kill if (count += 1) == 2
        made.send_message("topic", "k", message.payload - 1) if message.payload > 0
      end
      made = client(retry_base: 0.001)
      made.subscribe(handler)
      made.send_message("topic", "k", 3)
      calls = []
      calls << handler.calls.pop.payload until calls.last == 0
      made.shutdown
      puts calls.inspect
    RUBY
    expect(out.last).to eq("[3, 2, 2, 1, 0]")
  end

  it "schedule timers, which run as fibers too" do
    out = fibers(<<~RUBY)
      fired = Thread::Queue.new
      far = Time.at(4_000_000_000)
      handler = Handler.new do |context, _|
        context.schedule(far, immediate: true)
        context.schedule(Time.at(7))
        fired << context.scheduled.map(&:to_i)
      end
      handler.define_singleton_method(:on_timer) do |context, timer|
        fired << [timer.key, timer.time.to_i, context.scheduled.map(&:to_i), Async::Task.current?.nil?]
      end
      made = client
      made.subscribe(handler)
      made.send_message("topic", "k", 1)
      2.times { p fired.pop }
      made.shutdown
    RUBY
    expect(out).to eq(["[7, 4000000000]", '["k", 7, [4000000000], false]'])
  end
end

# frozen_string_literal: true

require "date"

RSpec.describe Prosody.const_get(:Timers) do
  noon = 1_906_545_600

  it "rounds half a second up, exactly" do
    base = Time.at(noon)
    { 0 => 0, 0.4999999 => 0, 1/2r => 1, -1/2r => 0, Rational(-500_001, 1_000_000) => -1, 2.4 => 2, 3.5 => 4,
      Rational(499_999_999, 1_000_000_000) => 0 }.each do |plus, second|
      expect(described_class.second(base + plus)).to eq(noon + second)
    end
  end

  it "takes moments of any zone and class" do
    model = Class.new { def to_time = Time.at(1_906_545_600) }
    [Time.utc(2030, 6, 1, 12), Time.new(2030, 6, 1, 17, 45, 0, "+05:45"), DateTime.new(2030, 6, 1, 1, 0, 0, "-11"),
     model.new].each { |time| expect(described_class.second(time)).to eq(noon) }
    expect(described_class.second(Time.at(0))).to eq(0)
    expect(described_class.second(Time.at(-0.5))).to eq(0)
    expect(described_class.second(Time.at((2**32) - 1))).to eq((2**32) - 1)
  end

  it "refuses what is no moment, or out of range" do
    odd = Class.new { def to_time = 5 }
    text = Class.new(String) { def to_time = Time.at(0) }
    [nil, 5, 5.0, "2030-01-01", Date.new(2030, 1, 1), odd.new, text.new("x")].each do |wrong|
      expect { described_class.second(wrong) }.to raise_error(ArgumentError, /expected a Time, got/)
    end
    [Time.utc(1969, 12, 31, 23, 59, 58), Time.at(-0.51), Time.at((2**32) - 0.5), Time.utc(9999), Time.at(2**80)].each do |wrong|
      expect { described_class.second(wrong) }.to raise_error(ArgumentError, "Invalid time: Time is out of range")
    end
  end
end

RSpec.describe Prosody::Timer do
  it "is frozen, in UTC, and compares by value" do
    timer = described_class.new(key: "k", time: Time.new(2030, 6, 1, 17, 45, 0, "+05:45"))
    expect(timer).to be_frozen
    expect(timer.time).to be_utc
    expect(timer).to eq(described_class.new(key: "k", time: Time.utc(2030, 6, 1, 12)))
    expect({ timer => 1 }[timer]).to eq(1)
    expect(timer).not_to eq(described_class.new(key: "l", time: timer.time))
  end
end

RSpec.describe "timers" do
  def whole(seconds)
    Time.at((Time.now + seconds).to_i + 1)
  end

  def far(plus = 0)
    Time.at(Time.now.to_i + 1_000_000 + plus)
  end

  it "are seen at once and sorted" do
    base = far
    recorder = Recorder.new
    lists = within(recorder) do |context|
      seen = [context.scheduled]
      [30, 10, 20, 10].each { |plus| context.schedule(base + plus) }
      seen << context.scheduled
      context.unschedule(base + 20)
      context.unschedule(base + 25)
      seen << context.scheduled
      context.clear_and_schedule(base)
      seen << context.scheduled
      context.clear_scheduled
      seen << context.scheduled
      150.times { |plus| context.schedule(base + plus) }
      seen << context.scheduled
    end
    expect(lists[0..4]).to eq([[], [base + 10, base + 20, base + 30], [base + 10, base + 30], [base], []])
    expect(lists[5]).to eq(Array.new(150) { |plus| base + plus })
    expect(lists.flatten).to all(be_utc)
    expect(within(recorder, key: "other", &:scheduled)).to eq([])
  end

  # The same for a handler that fails for good.
  def failing(recorder, &block)
    within(recorder, ->(_) { raise Prosody::PermanentError, "no" }, &block)
  end

  it "belong to the attempt" do
    time = far
    recorder = Recorder.new
    within(recorder) { |context| context.schedule(time) }
    failing(recorder) { |context| context.clear_and_schedule(time + 1) }
    expect(within(recorder, &:scheduled)).to eq([time])
  end

  it "outlive a failed attempt when they are immediate" do
    time = far
    recorder = Recorder.new
    failing(recorder) do |context|
      context.schedule(time, immediate: true)
      context.schedule(time + 1, immediate: true)
      context.unschedule(time, immediate: true)
    end
    expect(within(recorder, &:scheduled)).to eq([time + 1])
    failing(recorder) { |context| context.clear_and_schedule(time + 5, immediate: true) }
    expect(within(recorder, &:scheduled)).to eq([time + 5])
    within(recorder) { |context| context.clear_scheduled(immediate: true) }
    expect(within(recorder, &:scheduled)).to eq([])
  end

  it "fire with key and time, and not before" do
    due = whole(0.5)
    fired = Thread::Queue.new
    recorder = Recorder.new(timer: ->(context, timer) { fired << [context.demand.kind, context.scheduled, timer, Time.now] })
    within(recorder, key: "kéy\0") do |context|
      context.schedule(due)
      context.schedule(due + 1000)
    end
    kind, others, timer, at = patiently { fired.pop }
    expect([kind, others, timer]).to eq([:normal, [due + 1000], Prosody::Timer.new(key: "kéy\0", time: due)])
    expect(timer.key.encoding).to eq(Encoding::UTF_8)
    expect(at).to be >= due
  end

  it "come again when they fail, with the number of the retry" do
    demands = Thread::Queue.new
    recorder = Recorder.new(timer: lambda { |context, timer|
      demands << [context.demand.kind, context.demand.retries, timer.time]
      raise "no" if context.demand.retries < 2
    })
    lines = lines("timer handling failed") do
      within(recorder, retry_base: 0.001, max_retry_delay: 0.002) { |context| context.schedule(Time.at(1)) }
      expect(patiently { Array.new(3) { demands.pop } })
        .to eq([[:normal, 0, Time.at(1)], [:failure, 1, Time.at(1)], [:failure, 2, Time.at(1)]])
    end
    expect(lines).to include('timer handling failed: key "k" at 1970-01-01 00:00:01 UTC')
  end

  it "of tomorrow fire when the clock of mock mode is moved" do
    due = far
    fired = Thread::Queue.new
    recorder = Recorder.new(timer: ->(_, timer) { fired << timer.time })
    server = name("server")
    within(recorder, bootstrap_servers: server) { |context| [due, due + 100].each { |time| context.schedule(time) } }
    expect(within(recorder, &:scheduled)).to eq([due, due + 100])
    Prosody::Mock.advance(due - Time.now, [server])
    expect(patiently { fired.pop }).to eq(due)
    Prosody::Mock.advance(100, server)
    expect(patiently { fired.pop }).to eq(due + 100)
    [-1, Float::NAN, "x", nil, 10**12].each do |wrong|
      expect { Prosody::Mock.advance(wrong, server) }.to raise_error(ArgumentError)
    end
    expect { Prosody::Mock.advance(1, "elsewhere") }.to raise_error(ArgumentError, /servers/)
  end

  it "cannot be used after the attempt" do
    kept = nil
    recorder = Recorder.new
    within(recorder) { |context| kept = context }
    within(recorder) { nil }
    [-> { kept.schedule(far) }, -> { kept.unschedule(far) }, -> { kept.clear_scheduled(immediate: true) },
     -> { kept.clear_and_schedule(far, immediate: true) }, -> { kept.scheduled }].each do |call|
      expect(&call).to raise_error(RuntimeError, /context is no longer valid .* has already been processed/)
    end
  end

  it "are refused when the time is wrong, and nothing is scheduled" do
    times = within do |context|
      [nil, 5, "x", Time.at(-1), Time.at(2**32)].each do |wrong|
        %i[schedule unschedule clear_and_schedule].each do |name|
          expect { context.public_send(name, wrong) }.to raise_error(ArgumentError)
        end
      end
      context.scheduled
    end
    expect(times).to eq([])
  end
end

# frozen_string_literal: true

# Timers: scheduling, listing, cancelling, time ranges and zones, order with messages, failures, restarts.
RSpec.describe Prosody::Timer do
  far = 3 * 3600

  # A moment without fraction, that many seconds from now, rounded up.
  def whole(seconds = 0)
    Time.at((Time.now + seconds + 1).to_i).utc
  end

  # Runs the block in one handler call of a fresh key; returns the recorder, the key and the result of the block.
  def act(timer: nil, &steps)
    result = Thread::Queue.new
    # A later message of the key, such as that of flush, does nothing.
    message = ->(context, sent) { result << attempt { steps.call(context) } unless sent.payload == "flush" }
    handler, key = stage.part(message:, timer:)
    stage.send_message(key.call, 0)
    outcome = Timeout.timeout(WAIT) { result.pop }
    raise outcome if outcome.is_a?(Exception)

    [handler, key.call, outcome]
  end

  # Sends one more message for the key and waits for it, so that a second firing would have had its turn.
  def flush(handler, key, marker)
    seen = handler.of(:message, key:).size
    sleep [0, marker - Time.now].max
    stage.send_message(key, "flush")
    handler.until("the flushing message") { handler.of(:message, key:).size > seen }
  end

  def times(handler)
    handler.of(:timer).map { |call| call.event.time }
  end

  # ---- firing

  it "timer fires with its key and time" do
    due = whole(1)
    handler, key, = act { |context| context.schedule(due) }
    call, = handler.count(1, :timer)
    expect(call.event).to be_a(described_class).and be_frozen
    expect([call.event.key, call.event.time, call.event.time.utc?]).to eq([key, due, true])
    expect(call.began).to be >= due - 0.6
  end

  it "timer never fires early" do
    schedule = lambda do |context, message|
      sleep((message.payload - Time.now.to_f) % 1)
      context.schedule(whole(1))
    end
    handler, key = stage.part(message: schedule)
    [0.1, 0.3, 0.55, 0.75, 0.95].each { |part| stage.send_message(key.call(part.to_s), part) }
    handler.count(5, :timer).each { |call| expect(call.began).to be >= call.event.time }
  end

  it "past time fires at once" do
    dues = [whole(-3600), Time.at(1).utc]
    handler, = act { |context| dues.each { |due| context.schedule(due) } }
    handler.count(2, :timer)
    expect(times(handler).sort).to eq(dues.sort)
  end

  it "several timers of a key fire in time order" do
    first = whole(1)
    dues = [2, 0, 1].map { |seconds| first + seconds }
    handler, = act { |context| dues.each { |due| context.schedule(due) } }
    handler.count(3, :timer)
    expect(times(handler)).to eq(dues.sort)
  end

  it "same second is one timer" do
    due = whole(1)
    handler, key, listed = act do |context|
      [0, 0, 0.3, -0.4].each { |fraction| context.schedule(due + fraction) }
      context.scheduled
    end
    expect(listed).to eq([due])
    handler.count(1, :timer)
    flush(handler, key, whole(1))
    expect(handler.of(:timer).size).to eq(1)
  end

  it "fractions are rounded half up" do
    base = whole + far
    _, _, listed = act do |context|
      [0, 2/5r, 499/1000r, 1/2r, 3/5r, 999/1000r].each_with_index do |fraction, number|
        context.schedule(base + (60 * number) + fraction)
      end
      context.scheduled.tap { context.clear_scheduled }
    end
    expect(listed.map { |moment| (moment - base) % 60 }).to eq([0, 0, 0, 1, 1, 1])
  end

  it "many timers all fire" do
    due = whole(3)
    handler, key = stage.part(message: ->(context, _) { context.schedule(due) })
    together(*Array.new(10) { |part| -> { 20.times { |n| stage.send_message(key.call(((20 * part) + n).to_s), n) } } })
    calls = handler.count(200, :timer)
    expect([calls.map(&:key).uniq.size, times(handler).uniq]).to eq([200, [due]])
  end

  it "timer scheduled from a timer" do
    again = []
    timer = lambda do |context, event|
      next if again.size >= 3

      again << event.time
      context.schedule(again.size == 1 ? event.time : whole)
    end
    handler, = act(timer:) { |context| context.schedule(whole) }
    handler.count(4, :timer)
    first, second, third, fourth = times(handler)
    expect([first, [second, third, fourth]]).to eq([second, [second, third, fourth].sort])
  end

  # ---- listing, cancelling, replacing

  it "scheduled lists the key only and sorted" do
    base = whole + far
    dues = [30, 10, 20].map { |seconds| base + seconds }
    _, _, (empty, listed) = act do |context|
      before = context.scheduled
      dues.each { |due| context.schedule(due) }
      [before, context.scheduled]
    end
    expect([empty, listed]).to eq([[], dues.sort])
    expect(listed).to all(be_utc)
    _, _, elsewhere = act(&:scheduled)
    expect(elsewhere).to eq([])
  end

  it "unschedule removes one" do
    first = whole(1)
    second = whole(2)
    handler, _, listed = act do |context|
      context.schedule(first)
      context.schedule(second)
      context.unschedule(first)
      context.unschedule(whole + far)
      context.scheduled
    end
    expect(listed).to eq([second])
    handler.count(1, :timer)
    expect(times(handler)).to eq([second])
  end

  it "clear scheduled removes all" do
    due = whole(2)
    other, = act { |context| context.schedule(due) }
    handler, key, listed = act do |context|
      context.schedule(due)
      context.schedule(due + far)
      context.clear_scheduled
      context.scheduled
    end
    expect(listed).to eq([])
    other.count(1, :timer)
    flush(handler, key, due + 1)
    expect(handler.of(:timer)).to eq([])
  end

  it "clear and schedule replaces all by one" do
    soon = whole(1)
    due = whole(2)
    handler, _, listed = act do |context|
      [soon, due, due + far].each { |time| context.schedule(time) }
      context.clear_and_schedule(due)
      context.scheduled
    end
    expect(listed).to eq([due])
    handler.count(1, :timer)
    expect(times(handler)).to eq([due])
  end

  it "firing timer is not listed" do
    later = whole + far
    listed = Thread::Queue.new
    timer = lambda do |context, _|
      found = context.scheduled
      context.clear_scheduled
      listed << found
    end
    act(timer:) do |context|
      context.schedule(later)
      context.schedule(whole)
    end
    expect(Timeout.timeout(WAIT) { listed.pop }).to eq([later])
  end

  it "later handler sees and cancels earlier timers" do
    due = whole(4)
    seen = []
    message = lambda do |context, record|
      next context.schedule(due) if record.payload == "schedule"

      seen << context.scheduled
      context.unschedule(due)
      seen << context.scheduled
    end
    handler, key = stage.part(message:)
    stage.send_message(key.call, "schedule")
    stage.send_message(key.call, "cancel")
    handler.finished(2)
    expect(seen).to eq([[due], []])
  end

  it "timers belong to the transaction of the handler" do
    kept = whole(1)
    dropped = whole(2)
    listed = nil
    message = lambda do |context, record|
      next context.schedule(kept) if record.payload == "keep"

      context.unschedule(kept)
      context.schedule(dropped)
      listed = context.scheduled
      raise Prosody::PermanentError, "after scheduling"
    end
    handler, key = stage.part(message:)
    stage.send_message(key.call, "keep")
    stage.send_message(key.call, "fail")
    handler.count(1, :timer)
    sleep 2.5
    expect([listed, times(handler)]).to eq([[dropped], [kept]])
  end

  it "immediate timers outlive a failed attempt" do
    due = whole(1)
    message = lambda do |context, _|
      context.schedule(due, immediate: true)
      raise Prosody::PermanentError, "after scheduling"
    end
    handler, key = stage.part(message:)
    stage.send_message(key.call, 0)
    handler.count(1, :timer)
    expect(times(handler)).to eq([due])
  end

  # ---- order with messages

  it "timer never overlaps a message of its key" do
    message = lambda do |context, record|
      context.schedule(Time.now) if record.payload.zero?
      sleep(record.payload.zero? ? 1.5 : 0.05)
    end
    handler, key = stage.part(message:, timer: ->(*) { sleep 0.5 })
    5.times { |number| stage.send_message(key.call, number) }
    handler.finished(6)
    expect([handler.peak, handler.of(:timer).size, handler.payloads]).to eq([1, 1, [*0...5]])
  end

  it "timer waiting behind a message can still be cancelled" do
    due = whole
    handler, key, = act do |context|
      context.schedule(due)
      sleep [0, due + 1 - Time.now].max
      context.unschedule(due)
    end
    flush(handler, key, whole)
    expect(handler.of(:timer)).to eq([])
  end

  # ---- inputs

  it "other time zones mean the same moment" do
    base = whole + far
    zones = ["+05:45", "-11:00", "Z", nil]
    _, _, listed = act do |context|
      zones.each_with_index do |zone, number|
        moment = base + number
        context.schedule(zone ? moment.getlocal(zone) : moment.to_datetime)
      end
      context.scheduled.tap { context.clear_scheduled }
    end
    expect(listed).to eq(Array.new(4) { |number| base + number })
  end

  %i[schedule unschedule clear_and_schedule].each do |operation|
    it "naive and other objects are refused [#{operation}]" do
      _, _, (errors, listed) = act do |context|
        wrong = [5, 5.0, "2030-01-01", nil, Date.new(2030, 1, 1), :now]
        [wrong.map { |value| attempt { context.public_send(operation, value) } }, context.scheduled]
      end
      expect(errors).to all(be_a(ArgumentError))
      expect(listed).to eq([])
    end
  end

  it "times out of range are refused" do
    last = Time.at((2**32) - 1).utc
    wrong = [Time.utc(1969, 12, 31, 23, 59, 58), Time.utc(1), last + 1, Time.utc(9999, 12, 31)]
    _, _, (errors, listed) = act do |context|
      errors = wrong.map { |time| attempt { context.schedule(time) } }
      context.schedule(last)
      [errors, context.scheduled.tap { context.clear_scheduled }]
    end
    expect(errors).to all(be_a(ArgumentError).and(have_attributes(message: /out of range/)))
    expect(listed).to eq([last])
  end

  # ---- failures

  it "failed timer is retried" do
    demands = []
    timer = lambda do |context, event|
      demands << [context.demand.kind, event.time]
      raise Prosody::TransientError, "again" if demands.size < 3
    end
    handler, = act(timer:) { |context| context.schedule(Time.now) }
    handler.until { demands.size == 3 }
    expect(demands.map(&:first)).to eq(%i[normal failure failure])
    expect(demands.map(&:last).uniq.size).to eq(1)
  end

  # A handler whose timer always fails, and what its second message has listed.
  def gives_up(error)
    listed = Thread::Queue.new
    message = ->(context, record) { record.payload.zero? ? context.schedule(Time.now) : listed << context.scheduled }
    [Recorder.new(message:, timer: ->(*) { raise error, "no" }), listed]
  end

  # A timer that fails for good is not listed by the next handler of its key and did not fire twice.
  def given_up(handler, listed)
    yield 0
    handler.count(1, :timer)
    yield 1
    expect(Timeout.timeout(WAIT) { listed.pop }).to eq([])
    expect(handler.of(:timer).size).to eq(1)
  end

  it "permanently failed timer is gone" do
    recorder, listed = gives_up(Prosody::PermanentError)
    handler, key = stage.part(recorder)
    given_up(handler, listed) { |payload| stage.send_message(key.call, payload) }
  end

  it "failed timer is gone in best effort mode" do
    handler, listed = gives_up(Prosody::TransientError)
    client, topic = world.consumer(handler, mode: :best_effort)
    given_up(handler, listed) { |payload| client.send_message(topic, "key", payload) }
  end

  it "future timer waits also while another is deferred" do
    due = nil
    handler = nil
    timer = lambda do |context, _|
      raise Prosody::TransientError, "defer me" if handler.of(:timer, key: "key").size == 1

      context.schedule(due = whole(5)) unless due
    end
    handler = Recorder.new(message: ->(context, record) { context.schedule(Time.now) if record.payload.eql?(0) }, timer:)
    client, topic = world.consumer(handler)
    20.times { |number| client.send_message(topic, "warm-#{number}", "warm") }
    handler.finished(20)
    client.send_message(topic, "key", 0)
    handler.count(3, :timer)
    last = handler.of(:timer, key: "key")[2]
    expect(last.event.time).to eq(due)
    expect(last.began).to be >= due - 1
  end

  # ---- restarts

  it "timers survive a restart", :real_only do
    soon = whole(1)
    later = whole(5)
    distant = whole + far
    listed = Thread::Queue.new
    message = lambda do |context, record|
      next [soon, later, distant].each { |due| context.schedule(due) } if record.payload == "schedule"

      listed << context.scheduled
      context.clear_scheduled
    end
    first = Recorder.new(message:, timer: ->(*) { raise Prosody::TransientError, "not in this process" })
    second = Recorder.new(message:)
    group = world.name("group")
    client, topic = world.consumer(first, group_id: group)
    client.send_message(topic, "key", "schedule")
    first.finished(1)
    client.shutdown
    heir, = world.consumer(second, topics: topic, group_id: group)
    second.count(2, :timer)
    expect(times(second)).to eq([soon, later])
    heir.send_message(topic, "key", "list")
    expect(Timeout.timeout(WAIT) { listed.pop }).to eq([distant])
  end
end

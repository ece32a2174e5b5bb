# frozen_string_literal: true

RSpec.describe "requests" do
  let(:subsystem) { name("subsystem") }

  # A handler that answers what the payload asks for.
  def answering
    kind = Class.new(Recorder) { def on_excise(_context, _message) = "gone" }
    kind.new.tap do |handler|
      handler.work = lambda do |_, message|
        payload = message.payload
        raise Prosody::PermanentError, "no such order" if payload["fail"]

        payload["result"] == "object" ? Object.new : payload["value"]
      end
    end
  end

  def service(**options)
    consume(answering, subsystem:, **options).tap { |made| eventually { made.assigned_partitions.positive? } }
  end

  def ask(made, payload, subsystems: [subsystem], timeout: 20)
    made.request(topic:, key: "k", payload:, subsystems:, timeout:)
  end

  it "give the response of each subsystem" do
    made = service
    value = { "a" => [1, nil, 2.5], "b" => "ü" }
    expect(ask(made, { "value" => value })).to eq(subsystem => Prosody::Success.new(value))
    expect(ask(made, { "value" => nil })).to eq(subsystem => Prosody::Success.new(nil))
    outcomes = ask(made, { "value" => 1 }, subsystems: [" #{subsystem} ", "nobody"], timeout: 0.3)
    expect(outcomes).to eq(subsystem => Prosody::Success.new(1), "nobody" => Prosody::Failure.new(Prosody::Timeout.new))
    expect(outcomes["nobody"].error.message).to eq("no response arrived before the deadline")
    expect(made.request_excise(topic:, key: "k", subsystems: [subsystem], timeout: 20))
      .to eq(subsystem => Prosody::Success.new("gone"))
  end

  it "tell of a handler that failed, and of a response that is no JSON" do
    made = service
    case ask(made, { "fail" => true })[subsystem]
    in { error: Prosody::HandlerError => error }
      expect(error.message).to eq("Prosody::PermanentError: no such order")
    end
    expect(ask(made, { "result" => "object" })[subsystem].error).to be_a(Prosody::HandlerError)
  end

  it "work from other clients and from handlers" do
    made = service
    outer = name("outer")
    handler = Recorder.new
    handler.work = ->(_, _) { ask(made, { "value" => 7 })[subsystem].value }
    asking = consume(handler, subsystem: outer, subscribed_topics: "#{topic}-outer", group_id: name("group"))
    eventually { asking.assigned_partitions.positive? }
    expect(asking.request(topic: "#{topic}-outer", key: "k", payload: 1, subsystems: [outer], timeout: 20))
      .to eq(outer => Prosody::Success.new(7))
  end

  it "check their arguments" do
    made = client
    [[], [""], ["a", " a"]].each { |bad| expect { ask(made, 1, subsystems: bad) }.to raise_error(StandardError, /subsystem/) }
    ["name", nil, [5]].each { |bad| expect { ask(made, 1, subsystems: bad) }.to raise_error(ArgumentError, /subsystems/) }
    [-1, Float::NAN, Float::INFINITY, "1s"].each do |bad|
      expect { ask(made, 1, timeout: bad) }.to raise_error(ArgumentError, /timeout/)
    end
    expect { ask(made, Object.new) }.to raise_error(ArgumentError, /JSON/)
  end

  it "wait for nothing when there is no time" do
    made = client
    began = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    expect(ask(made, 1, timeout: 0)).to eq(subsystem => Prosody::Failure.new(Prosody::Timeout.new))
    expect(Process.clock_gettime(Process::CLOCK_MONOTONIC) - began).to be < 20
  end

  it "are given up by a caller that is interrupted" do
    made = client
    expect { Timeout.timeout(0.1) { ask(made, 1, timeout: 600) } }.to raise_error(Timeout::Error)
    thread = Thread.new { ask(made, 1, timeout: 600) }
    eventually { thread.status == "sleep" }
    thread.kill.join
    expect(Prosody.const_get(:Runtime).current.port.instance_variable_get(:@pending)).to be_empty
  end

  it "end with their client" do
    made = client
    thread = Thread.new { ask(made, 1, timeout: 600) }
    thread.report_on_exception = false
    eventually { thread.status == "sleep" }
    made.shutdown
    expect { patiently { thread.value } }.to raise_error(Prosody::CallError, /shut down/)
    expect { ask(made, 1) }.to raise_error(Prosody::CallError, /shutting down/)
  end

  it "have outcomes that are values" do
    one = Prosody::Success.new([1])
    expect(one).to eq(Prosody::Success.new([1]))
    expect(one).not_to eq(Prosody::Failure.new([1]))
    expect({ one => 1 }[Prosody::Success.new([1])]).to eq(1)
    expect([one.success?, Prosody::Failure.new(Prosody::Timeout.new).success?]).to eq([true, false])
    expect(one.inspect).to eq("#<Prosody::Success value=[1]>")
    expect(one).to be_frozen
  end
end

# frozen_string_literal: true

# Requests: outcomes per subsystem, deadlines, retries, duplicates, requests from handlers, two clients.
value = Prosody.value("served")

RSpec.describe "requests", collections: [value], options: { subsystem: true, max_concurrency: 16 } do
  timeout = Prosody::Failure.new(Prosody::Timeout.new)

  # A request that the step answers; the outcome of this subsystem, or all of them.
  def ask(key = stage.key, within: 25, payload: {}, subsystems: nil, client: stage.client, place: stage, &step)
    request, = place.answer(step)
    outcomes = client.request(topic: place.topic, key:, payload: request.merge(payload), timeout: within,
                              subsystems: subsystems || [place.subsystem])
    subsystems ? outcomes : outcomes.fetch(place.subsystem)
  end

  def success(answer)
    Prosody::Success.new(answer)
  end

  def plain(subsystems, within: 2, client: stage.client)
    client.request(topic: stage.topic, key: stage.key, payload: {}, subsystems:, timeout: within)
  end

  it "the result of the handler is the response" do
    answers = [{ "b" => [1, nil], "a" => "ü" }, 2**63, 0, "", false, [], nil]
    outcomes = together(*answers.map { |answer| -> { ask { answer } } })
    expect(outcomes).to eq(answers.map { |answer| success(answer) })
    expect(outcomes.map { |outcome| outcome.value.class }).to eq(answers.map(&:class))
  end

  it "the request payload reaches the handler as an ordinary message" do
    key = stage.key
    outcome = ask(key, payload: { question: 6 }) do |context, message|
      context.state(value).set("written by a request")
      [message.key, message.topic, message.payload["question"]]
    end
    expect([outcome, stage.read(value, key)]).to eq([success([key, stage.topic, 6]), "written by a request"])
  end

  it "a response means that the state is committed" do
    key = stage.key
    outcomes = Array.new(4) { ask(key) { |context, _| context.state(value).set((context.state(value).get || 0) + 1) } }
    expect(outcomes).to eq([1, 2, 3, 4].map { |number| success(number) })
  end

  it "a permanent error is a failure at once" do
    outcome = ask { raise Prosody::PermanentError, "no such order" }
    expect(outcome).to be_a(Prosody::Failure)
    expect(outcome.error).to be_a(Prosody::HandlerError)
    expect(outcome.error.message).to include("PermanentError", "no such order")
  end

  it "a transient error is answered by the later success" do
    attempts = 0
    outcome = ask do
      attempts += 1
      raise Again, "not yet" if attempts < 3

      attempts
    end
    expect(outcome).to eq(success(3))
  end

  it "a late answer is a timeout" do
    release = Thread::Queue.new
    key = stage.key
    begun = clock
    outcome = ask(key, within: 1.0) { release.pop }
    took = clock - begun
    release << "late"
    expect([outcome, took]).to match([timeout, be_between(0.9, 15)])
    expect(outcome.error.message).not_to be_empty
    expect(ask(key) { "in time" }).to eq(success("in time"))
  end

  it "a zero timeout ends at once" do
    request, ticket = stage.answer(->(*) {})
    outcomes = stage.client.request(topic: stage.topic, key: stage.key, payload: request, timeout: 0,
                                    subsystems: [stage.subsystem, "x"])
    expect(outcomes).to eq({ stage.subsystem => timeout, "x" => timeout })
    ticket.wait
  end

  it "each named subsystem has one outcome" do
    refusing = ->(_, message) { raise Prosody::PermanentError, "second refuses" if message.payload["to"] == "both" }
    second = world.name("second")
    other, = world.consumer(Recorder.new(message: refusing), topics: stage.topic, subsystem: second)
    world.assigned(other)
    outcomes = ask(payload: { to: "both" }, within: 5, subsystems: [stage.subsystem, second, "nobody"]) { "first" }
    expect(outcomes.keys).to contain_exactly(stage.subsystem, second, "nobody")
    expect([outcomes[stage.subsystem], outcomes["nobody"]]).to eq([success("first"), timeout])
    expect(outcomes[second].error.message).to include("second refuses")
  end

  it "names are trimmed and must be distinct and present" do
    [[], [""], ["  "], %w[a a], ["a", " a "]].each do |bad|
      expect { plain(bad) }.to raise_error(StandardError) { |error| expect(error).to be_a(ArgumentError).or be_a(RuntimeError) }
    end
    ["name", 5, [5], nil].each { |bad| expect { plain(bad) }.to raise_error(ArgumentError) }
    expect(ask(subsystems: [" #{stage.subsystem} "]) { 1 }).to eq({ stage.subsystem => success(1) })
  end

  it "a timeout may be given in seconds" do
    [1, 0.5, 1/2r].each { |seconds| expect(plain(["nobody"], within: seconds)).to eq({ "nobody" => timeout }) }
    [-1.0, Float::NAN, Float::INFINITY, "1s", nil].each do |bad|
      expect { plain(["a"], within: bad) }.to raise_error(ArgumentError)
    end
  end

  it "an unencodable payload is an error of the call" do
    expect do
      stage.client.request(topic: stage.topic, key: stage.key, payload: Object.new, subsystems: ["a"], timeout: 2)
    end.to raise_error(ArgumentError)
  end

  it "a duplicate of a handled record is not answered" do
    key = stage.key
    answers = []
    name = { id: "id-#{key}" }
    outcomes = [25, 1.5].map { |within| ask(key, payload: name, within:) { (answers << 1).size } }
    expect([outcomes, answers]).to eq([[success(1), timeout], [1]])
  end

  it "many requests at once get their own answers" do
    calls = Array.new(40) { |number| -> { ask(payload: { number: }) { |_, message| message.payload["number"] } } }
    outcomes = together(*calls)
    expect(outcomes).to eq(Array.new(40) { |number| success(number) })
  end

  it "a handler can request from another key" do
    expect(ask { ["outer", ask { "inner" }.value] }).to eq(success(%w[outer inner]))
  end

  it "a handler waiting for its own key only times out" do
    key = stage.key
    expect(ask(key) { ask(key, within: 0.8) { nil }.error.is_a?(Prosody::Timeout) }).to eq(success(true))
  end

  it "an excise request is answered by on excise" do
    key = stage.key
    forget = lambda do |context, message|
      expect(message).not_to respond_to(:payload)
      context.state(value).clear
      { forgotten: message.key }
    end
    stage.expect([:excise, key], forget, respond: true)
    outcomes = stage.client.request_excise(topic: stage.topic, key:, subsystems: [stage.subsystem], timeout: 25)
    expect(outcomes).to eq({ stage.subsystem => success({ "forgotten" => key }) })
  end

  it "a result that is not json is a permanent failure" do
    calls = 0
    outcome = ask(within: 5) do
      calls += 1
      Object.new
    end
    expect([outcome.error.class, calls]).to eq([Prosody::HandlerError, 1])
  end

  it "a client without subscription can request" do
    requester = world.client(source_system: world.name("requester"))
    expect(ask(client: requester, within: 6) { "for the requester" }).to eq(success("for the requester"))
  end

  it "a consumer without subsystem handles but does not answer" do
    silent = world.stage
    request, ticket = silent.answer(->(*) {})
    outcomes = silent.client.request(topic: silent.topic, key: "key", payload: request, subsystems: ["anybody"], timeout: 1)
    expect(outcomes).to eq({ "anybody" => timeout })
    ticket.wait
  end

  it "best effort answers a transient error at once" do
    place = world.stage([], mode: :best_effort, subsystem: true)
    outcome = ask(place:, client: place.client, within: 10) { raise Again, "once" }
    expect(outcome.error).to be_a(Prosody::HandlerError)
    expect(outcome.error.message).to include("once")
  end

  it "requests end with the client" do
    client = world.client(source_system: "conformance")
    topic = world.topic
    wait = ->(seconds) { client.request(topic:, key: "k", payload: {}, subsystems: ["nobody"], timeout: seconds) }
    pending = Thread.new { attempt { wait.call(14) } }
    expect(pending.join(0.5)).to be_nil
    Timeout.timeout(8) { client.shutdown }
    result = Timeout.timeout(WAIT) { pending.value }
    expect(result).to be_a(RuntimeError).or match({ "nobody" => be_a(Prosody::Failure) })
    expect { wait.call(1) }.to raise_error(RuntimeError)
  end

  it "a cancelled request leaves the client usable" do
    pending = Thread.new { plain(["nobody"], within: 60) }
    expect(pending.join(0.2)).to be_nil
    pending.kill.join
    expect { Timeout.timeout(0.2) { plain(["nobody"], within: 60) } }.to raise_error(Timeout::Error)
    expect(ask { "still here" }).to eq(success("still here"))
  end

  it "messages tell whether a response is wanted" do
    asked = ->(_, message) { message.response_requested? }
    expect([ask(&asked), stage.run(stage.key, asked)]).to eq([success(true), false])
  end
end

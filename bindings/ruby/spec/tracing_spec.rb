# frozen_string_literal: true

require "securerandom"

# What the gems opentelemetry-api and opentelemetry-sdk offer, as far as it is used. Like those, it keeps the current
# span by fiber.
module FakeTelemetry
  Flags = Struct.new(:sampled?) do
    def self.from_byte(byte)
      new(byte.anybits?(1))
    end
  end

  SpanContext = Struct.new(:trace_id, :span_id, :trace_flags, :tracestate, :remote, keyword_init: true) do
    def valid?
      [trace_id, span_id].none? { |id| id.nil? || id.delete("\0").empty? }
    end

    def hex_trace_id
      trace_id.unpack1("H*")
    end

    def hex_span_id
      span_id.unpack1("H*")
    end
  end

  Status = Struct.new(:description) do
    def self.error(text)
      new(text)
    end
  end

  # A span that notes what is done with it.
  Span = Struct.new(:name, :context, :parent, :attributes, :status, :errors, :finished) do
    def record_exception(error)
      (self.errors ||= []) << error
    end

    def finish
      self.finished = true
    end
  end

  # A context is its span, or nil.
  module Context
    def self.empty; end
  end

  State = Struct.new(:text) do
    def self.from_string(text)
      new(text)
    end

    def to_s
      text.to_s
    end
  end

  # The module OpenTelemetry::Trace.
  module Trace
    SpanContext = FakeTelemetry::SpanContext
    TraceFlags = FakeTelemetry::Flags
    Tracestate = FakeTelemetry::State
    Status = FakeTelemetry::Status
    NONE = Span.new("none", SpanContext.new)

    class << self
      def current_span
        Thread.current[:fake_span] || NONE
      end

      def with_span(span)
        before = Thread.current[:fake_span]
        Thread.current[:fake_span] = span
        yield span
      ensure
        Thread.current[:fake_span] = before
      end

      def non_recording_span(context)
        Span.new("remote", context)
      end

      def context_with_span(span, parent_context:)
        raise "not empty" if parent_context

        span
      end
    end
  end

  # The provider and its one tracer.
  class Tracer
    attr_reader :spans, :names

    def initialize
      @spans = Thread::Queue.new
      @names = []
    end

    def tracer(name)
      @names |= [name]
      self
    end

    def start_span(name, with_parent: nil, attributes: {})
      made = SpanContext.new(trace_id: with_parent ? with_parent.context.trace_id : SecureRandom.bytes(16),
                             span_id: SecureRandom.bytes(8), trace_flags: Flags.new(true), tracestate: State.new(""))
      Span.new(name, made, with_parent&.context, attributes).tap { |span| @spans << span }
    end

    def in_span(name, &block)
      current = Trace.current_span
      Trace.with_span(start_span(name, with_parent: current.context.valid? ? current : nil), &block)
    end
  end
end

RSpec.describe "traces" do
  sender = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

  def parents(message)
    message.headers.filter_map { |name, value| value if name == "traceparent" }
  end

  it "pass through when the program has no OpenTelemetry" do
    recorder = Recorder.new(message: lambda do |_, message|
      @made.send_message(topic, "k", 2) if message.payload == 1
    end)
    @made = consume(recorder)
    @made.send_message(topic, "k", 1, headers: [["traceparent", sender], %w[traceparent x]])
    expect(patiently { recorder.take(2) }.map { |message| parents(message) }).to eq([[sender], [sender]])
    @made.send_message(topic, "k", 3)
    expect(parents(patiently { recorder.take(1) }.first)).to eq([])
  end

  describe "with OpenTelemetry" do
    let(:tracer) { FakeTelemetry::Tracer.new }

    before do
      provider = tracer
      telemetry = Module.new do
        const_set(:SDK, Module.new)
        const_set(:Trace, FakeTelemetry::Trace)
        const_set(:Context, FakeTelemetry::Context)
        define_singleton_method(:tracer_provider) { provider }
      end
      stub_const("OpenTelemetry", telemetry)
    end

    after { Prosody.const_get(:Tracing).instance_variable_set(:@on, false) }

    it "make an attempt a span, with the error of a failure" do
      recorder = Recorder.new(message: ->(_, _) { raise Prosody::PermanentError, "refused" },
                              timer: ->(*) {}, excise: ->(context, _) { context.schedule(Time.at(1)) })
      made = consume(recorder)
      made.send_message(topic, "k", 1, headers: [["traceparent", sender], ["tracestate", "a=b"]])
      made.excise(topic, "k", headers: { "traceparent" => "rubbish" })
      message, excise, timer = patiently { Array.new(3) { tracer.spans.pop } }
      expect([message, excise, timer].map(&:name)).to eq(%w[on_message on_excise on_timer])
      expect(message.parent.hex_span_id).to eq(sender.split("-")[2])
      expect(message.parent.tracestate.to_s).to eq("a=b")
      eventually { message.finished && excise.finished }
      expect(message.status.description).to eq("Prosody::PermanentError: refused")
      expect(message.errors.map(&:class)).to eq([Prosody::PermanentError])
      expect(message.attributes).to include("topic" => topic, "key" => "k", "messaging.system" => "kafka")
      expect(excise.parent).to be_nil
      expect(timer.parent.hex_span_id).to eq(excise.context.hex_span_id), "the timer keeps what scheduled it"
      expect(tracer.names).to eq(["prosody.handler"])
    end

    it "do not mix between handlers" do
      count = 20
      handler = Recorder.new
      handler.work = lambda do |_, message|
        next if message.key.start_with?("reply")

        tracer.in_span(message.key) do
          sleep 0.01
          @made.send_message(topic, "reply-#{message.key}", 1, headers: { "traceparent" => sender })
        end
      end
      @made = consume(handler, max_concurrency: count)
      roots = Array.new(count) do |number|
        tracer.in_span("root") do |root|
          @made.send_message(topic, "k#{number}", 1)
          ["reply-k#{number}", root.context.hex_trace_id]
        end
      end.to_h
      replies = patiently { handler.take(2 * count) }.select { |message| message.key.start_with?("reply") }
      expect(replies.to_h { |message| [message.key, parents(message).map { |parent| parent.split("-")[1] }] })
        .to eq(roots.transform_values { |trace| [trace] })
    end
  end

  it "are flushed and ended, again and again" do
    client
    expect([Prosody.flush_telemetry, Prosody.shutdown_telemetry, Prosody.shutdown_telemetry]).to eq([nil, nil, nil])
  end

  it "are sent before the process ends" do
    server = TCPServer.new("127.0.0.1", 0)
    paths = Thread::Queue.new
    Thread.new do
      loop do
        Thread.new(server.accept) do |socket|
          while (line = socket.gets)
            paths << line.split[1]
            length = 0
            while (line = socket.gets.chomp) != ""
              length = Regexp.last_match(1).to_i if line =~ /\Acontent-length: (\d+)/i
            end
            socket.read(length)
            socket.write("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
          end
        end
      end
    end
    ["", "raise 'the end'", "Process.kill('TERM', $$); sleep 30"].each do |ending|
      ruby(<<~RUBY)
        ENV["OTEL_EXPORTER_OTLP_ENDPOINT"] = "http://127.0.0.1:#{server.addr[1]}"
        client.send_message("topic", "k", 1)
        #{ending}
      RUBY
      expect(Array.new(paths.size) { paths.pop }).to include("/v1/traces"), "after #{ending.inspect}"
    end
  end
end

RSpec.describe "Sentry" do
  let(:reported) { Thread::Queue.new }

  before do
    queue = reported
    scope = Struct.new(:tags, :contexts) do
      def set_tags(tags) # rubocop:disable Naming/AccessorMethodName
        self.tags = tags
      end

      def set_context(name, value)
        (self.contexts ||= {})[name] = value
      end
    end
    stub_const("Sentry", Module.new do
      @inits = 0
      singleton_class.attr_reader :inits
      define_singleton_method(:initialized?) { @inits.positive? }
      define_singleton_method(:init) { @inits += 1 }
      define_singleton_method(:with_scope) { |&block| block.call(@scope = scope.new) }
      define_singleton_method(:capture_exception) { |error| queue << [error, @scope] }
    end)
    Prosody.const_get(:Reports).reset
  end

  after do
    ENV.delete("SENTRY_DSN")
    Prosody.const_get(:Reports).reset
  end

  def failing
    handler = Recorder.new(message: lambda do |_, _|
      raise ArgumentError, "cause"
    rescue ArgumentError
      raise Prosody::PermanentError, "given up"
    end)
    made = consume(handler)
    made.send_message(topic, "k", 1)
    patiently { handler.take(1) }
    made.shutdown
  end

  it "hears of exceptions of handlers, by their cause" do
    ENV["SENTRY_DSN"] = "https://key@example.invalid/1"
    failing
    error, scope = patiently { reported.pop }
    expect(error).to be_a(ArgumentError)
    expect(scope.tags).to eq("prosody.event_type" => "message")
    expect(scope.contexts["prosody"]).to include("topic" => topic, "key" => "k", "offset" => 0)
    expect(Sentry.inits).to eq(1)
  end

  it "hears of nothing without a DSN" do
    failing
    expect([reported.size, Sentry.inits]).to eq([0, 0])
  end

  it "is missed with one line" do
    ENV["SENTRY_DSN"] = "https://key@example.invalid/1"
    hide_const("Sentry")
    output = StringIO.new
    Prosody.logger = Logger.new(output)
    2.times { failing }
    eventually { output.string.scan("discarding message").size >= 2 }
    expect(output.string.scan("the gem sentry-ruby is missing").size).to eq(1)
  ensure
    Prosody.logger = Logger.new(File::NULL)
  end
end

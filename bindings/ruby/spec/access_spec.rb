# frozen_string_literal: true

# Calls that a store answers later, with a library that is none.
RSpec.describe Prosody.const_get(:Access) do
  library = Prosody.const_get(:Library)
  packed = Prosody.const_get(:Packed)

  # Answers each function with what it is told to: a status, or a completion that comes later.
  let(:native) do
    Class.new do
      include Prosody.const_get(:Library)::Calls
      attr_reader :calls

      def initialize(answers)
        @answers = answers
        @calls = []
      end

      def status_name(status) = { 104 => "PROSODY_ERR_SETTLED", 203 => "PROSODY_ERR_REVOKED" }.fetch(status, "PROSODY_#{status}")

      def method_missing(name, *arguments)
        @calls << name
        answer = @answers.shift
        answer.respond_to?(:call) ? answer.call(*arguments) : answer
      end

      def respond_to_missing?(*) = true
    end
  end

  # A port at which the answer waits, when it is a completion.
  let(:port) do
    Class.new do
      def fetch
        answer = yield(FFI::Pointer::NULL, 1)
        answer.is_a?(Integer) ? [answer, nil] : [1, answer]
      end
    end
  end

  define_method(:later) do |status, data: "", value: 0, category: 0, text: ""|
    packed::Completion.new(status, category, value, 0, text, data)
  end

  def access(*answers)
    @native = native.new(answers)
    slates = Prosody.const_get(:Slates).new
    described_class.new(Struct.new(:library, :port, :slates).new(@native, port.new, slates), 7)
  end

  it "waits for what is not at hand" do
    expect(access(later(0)).ask(:state_contains, "k")).to be(true)
    expect(access(later(2)).ask(:state_contains, "k")).to be(false)
    expect(access(later(0, data: "[1]")).get(:value_get)).to eq("[1]")
    expect(access(later(2)).get(:map_get, "k")).to be_nil
    expect(access(later(0, value: 5)).size).to eq(5)
    expect(access(later(0, data: "\1\0")).contains(%w[a b])).to eq([true, false])
    expect(access(later(0)).put(:map_set, "1", "k")).to be_nil
  end

  it "asks again with more memory" do
    need = 100_000
    short = ->(*arguments) { arguments[-2].put_uint64(0, need) && library::SHORT }
    whole = lambda do |*arguments|
      expect(arguments[-3]).to eq(need)
      arguments[-4].put_bytes(0, "x" * need)
      library::OK
    end
    expect(access(short, whole).get(:deque_pop, 0, change: true).size).to eq(need)
  end

  it "raises what an error is" do
    transient = { 302 => 3, 305 => 3, 203 => 2 }
    permanent = { 400 => 4, 401 => 4, 403 => 4, 404 => 4 }
    transient.each do |status, category|
      expect { access(later(status, category:, text: "no")).ask(:state_commit, change: true) }
        .to raise_error(Prosody::TransientStateError, "no")
    end
    permanent.each do |status, category|
      expect { access(later(status, category:, text: "no")).ask(:state_empty) }.to raise_error(Prosody::PermanentStateError, "no")
    end
    expect { access(later(104, category: 1)).ask(:state_empty) }.to raise_error(Prosody::TransientStateError)
    expect { access(later(104, category: 1)).ask(:state_clear, change: true) }.to raise_error(Prosody::PermanentStateError)
    expect { access(later(200, category: 2, text: "gone")).ask(:state_empty) }.to raise_error(Prosody::CallError, "gone")
    expect { access(later(100, category: 1, text: "odd")).ask(:state_empty) }.to raise_error(ArgumentError, "odd")
  end

  it "closes a scan however it ends" do
    entry = [32, 1, 0, 1, 0].pack("LLqLL") + "1k".ljust(8, "\0")
    query = Prosody.const_get(:Query).keys(false, false)
    seen = []
    ended = access(0, later(0, data: entry * 2), later(0, data: entry), later(3), nil)
    ended.scan(query) { |raw, key| seen << [raw, key] }
    expect(seen).to eq([%w[1 k]] * 3)
    expect(@native.calls).to eq(%i[scan_open scan_next scan_next scan_next scan_close])
    left = access(0, later(0, data: entry), nil)
    left.scan(query) { break }
    expect(@native.calls.last).to eq(:scan_close)
    over = access(0, later(0, data: entry), later(104, category: 1, text: "over"), nil)
    expect { over.scan(query) { nil } }.to raise_error(Prosody::TransientStateError, "over")
    expect(@native.calls.last).to eq(:scan_close)
  end

  it "shares its memory with no other call" do
    slates = Prosody.const_get(:Slates).new
    first = second = nil
    slates.use { |one| slates.use { |other| [first = one, second = other] } }
    expect(first).not_to equal(second)
    slates.use { |again| expect([first, second]).to include(again) }
  end
end

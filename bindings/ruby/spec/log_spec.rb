# frozen_string_literal: true

RSpec.describe Prosody.const_get(:Log) do
  let(:line) { Prosody.const_get(:Packed).const_get(:Line) }

  def written(logger = nil)
    output = StringIO.new
    before = Prosody.logger
    Prosody.logger = logger || Logger.new(output, level: Logger::INFO)
    log = described_class.new
    yield log
    log.close(10)
    output.string
  ensure
    Prosody.logger = before
  end

  it "has a default that nil brings back" do
    before = Prosody.logger
    Prosody.logger = nil
    expect(Prosody.logger).to be_a(Logger).and have_attributes(level: Logger::INFO)
  ensure
    Prosody.logger = before
  end

  it "keeps level, part and fields" do
    text = written do |log|
      [5, 10, 20, 30, 40].each { |level| log.line(line.new(0, level, "prosody.x", "text #{level}", '{"a":1,"b":"c"}')) }
      log.line(line.new(0, 20, "prosody.x", "odd", "no json"))
    end
    expect(text.lines.map { |one| one.split(" -- ").values_at(0, 1).map(&:strip) }.map { |head, tail| [head[-5..].strip, tail] })
      .to eq([["INFO", "prosody.x: text 20 a=1 b=c"], ["WARN", "prosody.x: text 30 a=1 b=c"],
              ["ERROR", "prosody.x: text 40 a=1 b=c"], ["INFO", "prosody.x: odd no json"]])
  end

  it "keeps each line on one line, whatever a key holds" do
    fields = JSON.generate("key" => "a\nERROR forged\u202e\u2028\e[31m", "größe" => "ü")
    text = written { |log| log.line(line.new(0, 40, "prosody.x", "odd", fields)) }
    expect(text.lines.size).to eq(1)
    expect(text).to include('odd key=a\nERROR forged\u202E\u2028\e[31m größe=ü')
  end

  it "has one line of a message that is given up, with its place and the reason" do
    refuse = ->(_, message) { raise Prosody::PermanentError, "no such\naccount" if message.payload == "bad" }
    recorder = Recorder.new(message: refuse)
    output = StringIO.new
    before = Prosody.logger
    Prosody.logger = Logger.new(output)
    made = consume(recorder)
    %w[bad good].each { |payload| made.send_message(topic, "a\nb", payload) }
    patiently { recorder.take(2) }
    made.shutdown
    eventually { output.string.include?("discarding") }
    last = output.string.lines.grep(/discarding message|copying record/)
    expect(last.size).to eq(1)
    expect(last.first).to match(/ERROR -- .*topic=#{topic} partition=\d offset=0 key=a\\nb .*reason=.*no such\\naccount$/)
  ensure
    Prosody.logger = before
  end

  it "drops lines of a logger that does not keep up, and says so" do
    lines = []
    go = Thread::Queue.new
    slow = Logger.new(File::NULL)
    slow.define_singleton_method(:add) do |_, text, _|
      go.pop if lines.empty?
      lines << text
    end
    written(slow) do |log|
      2000.times { |index| log.write(Logger::WARN, "t", index.to_s) }
      go << 1
    end
    expect(lines.size).to be_between(1024, 1030)
    expect(lines).to include(/\A\d+ lines of the log were dropped\z/)
  end

  it "survives loggers that are none" do
    expect { written(Object.new) { |log| log.write(Logger::WARN, "t", "x") } }.not_to raise_error
  end
end

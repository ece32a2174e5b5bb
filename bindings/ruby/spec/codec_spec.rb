# frozen_string_literal: true

RSpec.describe Prosody.const_get(:Codec) do
  def round(value)
    described_class.decode(described_class.encode(value))
  end

  it "keeps values" do
    [nil, true, "", "é\u0000\u{1F600}", 0, -(2**63), (2**64) - 1, 9_007_199_254_740_993, 1.0, 0.1, 1e300, -0.0,
     [], {}, { "a" => [1, { "b" => nil }] }].each do |value|
      expect(round(value)).to eql(value)
    end
    expect(described_class.encode(-0.0)).to eq("-0.0")
  end

  it "writes compact JSON in the order of the keys" do
    expect(described_class.encode({ b: 1, "a" => "é" })).to eq('{"b":1,"a":"é"}')
  end

  it "turns symbols and sets into texts and arrays" do
    expect(round({ a: :b, c: Set[1, 2] })).to eq("a" => "b", "c" => [1, 2])
  end

  it "refuses what has no exact form" do
    [Float::NAN, Float::INFINITY, [1, { "a" => -Float::INFINITY }], 2**64, -(2**63) - 1, Object.new, Time.now, 1r,
     { nil => 1 }, { a: 1, "a" => 2 }].each do |value|
      expect { described_class.encode(value) }.to raise_error(ArgumentError, /not representable as JSON/)
    end
  end

  it "refuses what is nested too deep, also without an end" do
    value = []
    value << value
    expect { described_class.encode(value) }.to raise_error(ArgumentError, /nested/)
    deep = 499.times.reduce([]) { |inner, _| [inner] }
    expect(round(deep)).to eq(deep)
    expect { described_class.encode([deep]) }.to raise_error(ArgumentError, /nested/)
  end

  it "converts encodings and refuses broken ones" do
    expect(round("日本".encode(Encoding::Shift_JIS))).to eq("日本")
    expect(round("日本".encode(Encoding::UTF_16LE))).to eq("日本")
    expect(round("日本".b)).to eq("日本")
    ["\xFF", "\xFF".b, "\x81".dup.force_encoding(Encoding::Shift_JIS), "\xED\xA0\x80",
     "\xFF".dup.force_encoding(Encoding::US_ASCII)].each do |text|
      expect { described_class.encode([text]) }.to raise_error(ArgumentError, /not valid/)
      expect { described_class.encode({ text => 1 }) }.to raise_error(ArgumentError, /not valid/)
      expect { described_class.text(text, "key") }.to raise_error(ArgumentError, /key: .*not valid/)
    end
  end

  it "makes plain values of subclasses" do
    text = Class.new(String) { def to_json(*) = '"no"' }
    hash = Class.new(Hash) { def to_json(*) = '"no"' }
    expect(described_class.encode(hash[{ text.new("a") => text.new("b") }])).to eq('{"a":"b"}')
  end

  it "reads strictly and makes no objects" do
    expect(described_class.decode(+'{"json_class":"String","raw":[65]}')).to eq("json_class" => "String", "raw" => [65])
    ["[NaN]", "[Infinity]", "[1e999]", "[1#{'0' * 400}.0]", "\"\xFF\"", "[#{'[' * 500}#{']' * 500}]"].each do |text|
      expect { described_class.decode(text.dup) }.to raise_error(JSON::JSONError)
    end
    expect(described_class.decode(+"[1e300, 123456789012345678901234567890]")).to eq([1e300,
                                                                                      123_456_789_012_345_678_901_234_567_890])
  end
end

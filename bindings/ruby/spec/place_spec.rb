# frozen_string_literal: true

require "tmpdir"

RSpec.describe Prosody.const_get(:Place) do
  let(:library) { Prosody.const_get(:Library) }

  around do |example|
    Dir.mktmpdir do |folder|
      @path = File.join(folder, "libprosody.so")
      beside = "libprosody-rdkafka.so.1"
      File.symlink(File.join(File.dirname(described_class.find), beside), File.join(folder, beside))
      example.run
    end
  end

  # Loads a copy of the library that the block has spoilt.
  def spoilt
    data = File.binread(described_class.find)
    yield data
    File.binwrite(@path, data)
    library.load(@path)
  end

  it "names the other machine" do
    here = `uname -m`.strip
    expect { spoilt { |data| data[18, 2] = [22].pack("v") } }
      .to raise_error(LoadError, /built for machine 22, this machine is #{here}: install the gem for #{here}/)
  end

  it "tells which glibc is needed" do
    expect { spoilt { |data| data.sub!("\0GLIBC_2.34\0".b, "\0GLIBC_2.94\0".b) } }
      .to raise_error(LoadError, /needs glibc 2\.94 or newer, this system has 2\.\d+/)
  end

  it "refuses musl" do
    expect { described_class.find("linux-musl") }.to raise_error(LoadError, /musl cannot load Go libraries/)
  end

  it "passes on what else is wrong" do
    File.write(@path, "short")
    expect { library.load(@path) }.to raise_error(LoadError, /cannot load the Prosody library #{@path}: /)
  end

  it "tells a library of another release" do
    { "prosody_abi_version" => /speaks version 99 of the C interface, this gem version 1; install both/,
      "other" => /does not belong to this gem: .*prosody_abi_version/ }.each do |name, text|
      path = File.join(File.dirname(@path), "#{name}.so")
      source = "unsigned #{name}(void) { return 99; }"
      expect(system("cc", "-shared", "-fPIC", "-o", path, "-x", "c", "-", in: IO.popen(["echo", source]))).to be(true)
      expect { library.load(path) }.to raise_error(LoadError, text)
    end
  end
end

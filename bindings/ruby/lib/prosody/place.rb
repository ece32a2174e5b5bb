# frozen_string_literal: true

require "etc"
require "rbconfig"

module Prosody
  # Where the shared library is, and why a system cannot load it.
  # @private
  module Place
    MUSL = "musl cannot load Go libraries: use a system with glibc, such as Debian"
    MACHINES = { 3 => "i686", 40 => "armv7l", 62 => "x86_64", 183 => "aarch64", 243 => "riscv64" }.freeze

    class << self
      # The path of the library.
      # @raise [LoadError] telling how to get it
      def find(system = RbConfig::CONFIG["host_os"])
        raise LoadError, MUSL if system.include?("musl")

        name = system.include?("darwin") ? "libprosody.dylib" : "libprosody.so"
        places = [ENV["PROSODY_LIBRARY"].to_s]
        if places.first.empty?
          places = [File.join(__dir__, "native", name), File.expand_path("../../../../build/lib/#{name}", __dir__)]
        end
        places.find { |place| File.file?(place) } || missing(places)
      end

      # Why the library at a path could not be loaded, and what helps.
      def reason(path, text, here = Etc.uname[:machine])
        built = machine(path)
        return "#{path} is built for #{built}, this machine is #{here}: install the gem for #{here}" if built && built != here

        needed = text.scan(/GLIBC_(\d+)\.(\d+)/).map { |found| found.map(&:to_i) }.max
        return "#{path} needs glibc #{needed.join('.')} or newer, this system has #{glibc}" if needed

        "cannot load the Prosody library #{path}: #{text}"
      end

      private

      def missing(places)
        raise LoadError, "the Prosody library was not found (looked for #{places.join(', ')}). Install the gem, " \
                         "run `make build` in the repository, or set PROSODY_LIBRARY to the path of libprosody.so."
      end

      # The machine that an ELF file is for, if it is one.
      def machine(path)
        head = File.binread(path, 20).to_s
        return unless head.bytesize == 20 && head.start_with?("\x7FELF".b)

        number = head.unpack1(head.getbyte(5) == 1 ? "@18v" : "@18n")
        MACHINES.fetch(number, "machine #{number}")
      end

      def glibc
        Etc.confstr(Etc::CS_GNU_LIBC_VERSION).to_s[/[\d.]+/] || "another C library"
      end
    end
  end
  private_constant :Place
end

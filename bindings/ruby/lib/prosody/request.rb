# frozen_string_literal: true

module Prosody
  # A value that is equal to others of its class with the same parts.
  # @private
  class Part
    # @return [Hash{Symbol => Object}]
    def to_h
      instance_variables.to_h { |name| [name.to_s.delete_prefix("@").to_sym, instance_variable_get(name)] }
    end

    def deconstruct_keys(_names)
      to_h
    end

    # Compares by value.
    def ==(other)
      other.instance_of?(self.class) && to_h == other.to_h
    end
    alias eql? ==

    def hash
      [self.class, to_h].hash
    end

    def inspect
      parts = to_h.map { |name, value| " #{name}=#{value.inspect}" }.join(",")
      "#<#{self.class}#{parts}>"
    end
    alias to_s inspect
  end
  private_constant :Part

  # The handler of the subsystem has succeeded; what it did is durable.
  class Success < Part
    # @return [Object] what the handler returned
    attr_reader :value

    def initialize(value)
      super()
      @value = value
      freeze
    end

    # @return [Boolean] true
    def success?
      true
    end
  end

  # The subsystem gave no response.
  class Failure < Part
    # @return [HandlerError, Timeout, FormatMismatch, MalformedResponse] why there is no response
    attr_reader :error

    # @param error [HandlerError, Timeout, FormatMismatch, MalformedResponse]
    def initialize(error)
      super()
      @error = error
      freeze
    end

    # @return [Boolean] false
    def success?
      false
    end
  end

  # The handler of the subsystem failed for good.
  class HandlerError < Part
    # @return [String] class and text of the handler's exception
    attr_reader :message

    def initialize(message)
      super()
      @message = message
      freeze
    end
  end

  # No response arrived before the deadline.
  class Timeout < Part
    # @return [String]
    def message
      "no response arrived before the deadline"
    end
  end

  # The response is not in JSON, but in another format.
  class FormatMismatch < Part
    # @return [String]
    def message
      "the responder answered in another format"
    end
  end

  # The response is not JSON, although it says so.
  class MalformedResponse < Part
    # @return [String]
    def message
      "the response did not decode"
    end
  end

  # A request: how it goes to the library, and what came of it.
  # @private
  module Request
    SIZE = 32
    FIXED = { 3 => Timeout, 4 => FormatMismatch, 5 => MalformedResponse }.freeze
    MOST = (2**63) - 1
    private_constant :SIZE, :FIXED, :MOST

    class << self
      # The request in memory of its own; the record is in other memory.
      def pack(record, subsystems:, timeout:)
        names = names(subsystems)
        at = SIZE + (16 * names.size)
        memory = FFI::MemoryPointer.new(1, at + names.sum(&:bytesize) + 1, false)
        names.each_with_index do |name, index|
          memory.put_bytes(at, name)
          memory.put_bytes(SIZE + (16 * index), [memory.address + at, name.bytesize].pack("QQ"))
          at += name.bytesize
        end
        memory.put_bytes(0, [SIZE, names.size, memory.address + SIZE, milliseconds(timeout), record.address].pack("LLQqQ"))
      end

      # @return [Hash{String => Success, Failure}]
      def outcomes(data)
        found = {}
        at = 0
        while at < data.bytesize
          size, kind, name, value = data.unpack("LlLL", offset: at)
          subsystem = data.byteslice(at + 16, name).force_encoding(Encoding::UTF_8)
          found[subsystem] = outcome(kind, data.byteslice(at + 16 + name, value))
          at += size
        end
        found
      end

      private

      # Names as the library takes them.
      def names(subsystems)
        unless subsystems.respond_to?(:to_ary)
          raise ArgumentError, "subsystems: expected an Array of Strings, got #{subsystems.class}"
        end

        subsystems.to_ary.map { |name| Codec.text(name, "subsystems") }
      end

      # Whole milliseconds, never less than was given.
      def milliseconds(timeout)
        seconds = Seconds.of(timeout)
        raise ArgumentError, "timeout: expected a duration, got #{timeout.class}" if seconds.nil?
        raise ArgumentError, "timeout: must be a finite number, got #{seconds}" unless seconds.finite?
        raise ArgumentError, "timeout: a duration must not be negative, got #{seconds}" if seconds.negative?

        [(seconds * 1000).ceil, MOST].min
      end

      def outcome(kind, value)
        case kind
        when 1 then Success.new(Codec.decode(value))
        when 2 then Failure.new(HandlerError.new(value.force_encoding(Encoding::UTF_8).scrub))
        else Failure.new(FIXED.fetch(kind, MalformedResponse).new)
        end
      rescue JSON::ParserError
        Failure.new(MalformedResponse.new)
      end
    end
  end
  private_constant :Request
end

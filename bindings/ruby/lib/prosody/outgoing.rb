# frozen_string_literal: true

module Prosody
  # A record to send, as the library takes it.
  # @private
  module Outgoing
    LAYOUT = "LLQQQQQQQ"
    SIZE = 64
    HEADER_SIZE = 32
    private_constant :LAYOUT, :SIZE, :HEADER_SIZE

    class << self
      # One memory holds the error of the call, the record, the table of headers, then all bytes.
      # @return [Array(FFI::Pointer, FFI::Pointer)] the error and the record
      def pack(topic, key, payload, headers)
        memory = FFI::MemoryPointer.new(1, Library::ERROR_SIZE + room(topic, key, payload, headers), false)
        memory.put_bytes(0, Library::NO_ERROR)
        [memory, fill(memory, topic, key, payload, headers)]
      end

      private

      def room(topic, key, payload, headers)
        size = SIZE + topic.bytesize + key.bytesize + (payload ? payload.bytesize : 0) + 1
        headers.each { |name, value| size += HEADER_SIZE + name.bytesize + (value ? value.bytesize : 0) }
        size
      end

      def fill(memory, topic, key, payload, headers)
        record = memory + Library::ERROR_SIZE
        table = SIZE
        at = table + (HEADER_SIZE * headers.size)
        base = record.address
        place = lambda do |text|
          record.put_bytes(at, text)
          at += text.bytesize
          base + at - text.bytesize
        end
        parts = [place.call(topic), topic.bytesize, place.call(key), key.bytesize]
        parts.push(*(payload ? [place.call(payload), payload.bytesize] : [0, 0]))
        headers.each_with_index do |(name, value), index|
          pair = [place.call(name), name.bytesize, value ? place.call(value) : 0, value ? value.bytesize : 0]
          record.put_bytes(table + (HEADER_SIZE * index), pair.pack("QQQQ"))
        end
        record.put_bytes(0, [SIZE, headers.size, *parts, headers.empty? ? 0 : base + table].pack(LAYOUT))
        record
      end
    end
  end
  private_constant :Outgoing
end

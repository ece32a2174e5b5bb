# frozen_string_literal: true

module Prosody
  # The packed records that come out of a queue: their layouts and how their parts are read.
  # @private
  module Packed
    MESSAGE = 1
    EXCISE = 2
    TIMER = 3
    CANCEL = 4
    COMPLETION = 5
    LOG = 6
    FATAL = 7
    FLAG_FAILURE = 1
    FLAG_RESPONSE = 2
    NULL = 0xFFFFFFFF

    HEAD = "LSSQ"
    EVENT = "LSSQqqlLLLLLLLLL"
    EVENT_SIZE = 72
    TIMING = "LSSQqlLLLLL"
    TIMING_SIZE = 48
    private_constant :NULL, :EVENT, :EVENT_SIZE, :TIMING, :TIMING_SIZE

    REASONS = {
      1 => "the handler has exceeded its timeout",
      2 => "partition has been revoked",
      3 => "the consumer is shutting down",
      4 => "partition has been lost"
    }.freeze

    # The end of an asynchronous call.
    Completion = Struct.new(:status, :category, :value, :extra, :text, :data)
    # A line of the log.
    Line = Struct.new(:time_ns, :level, :target, :text, :fields)
    # A message or excise record; `payload` is JSON, or nil.
    Event = Struct.new(:topic, :place, :offset, :timestamp, :key, :payload, :source, :headers, :retries, :flags, :span)

    # A timer record.
    Timing = Struct.new(:key, :second, :retries, :flags, :span)

    class << self
      def kind(raw)
        raw.unpack1("S", offset: 4)
      end

      def timer(raw)
        _, _, flags, _, second, _, retries, topic, key, trace, state = raw.unpack(TIMING)
        span, = span(raw, TIMING_SIZE + topic + key, trace, state)
        key = raw.byteslice(TIMING_SIZE + topic, key).force_encoding(Encoding::UTF_8).freeze
        Timing.new(key, second, retries, flags, span)
      end

      # @param names [Hash] keeps the texts of topics and source systems, which repeat
      def event(raw, names)
        _, _, flags, _, offset, timestamp, partition, retries, topic, key, payload, source, trace, state, _, count =
          raw.unpack(EVENT)
        at = EVENT_SIZE
        topic = name(raw.byteslice(at, topic), names)
        at += topic.bytesize
        key = raw.byteslice(at, key).force_encoding(Encoding::UTF_8).freeze
        at += key.bytesize
        if payload == NULL
          payload = nil
        else
          payload = raw.byteslice(at, payload)
          at += payload.bytesize
        end
        if source == NULL
          source = nil
        else
          source = name(raw.byteslice(at, source), names)
          at += source.bytesize
        end
        span, at = span(raw, at, trace, state)
        Event.new(topic, partition, offset, timestamp, key, payload, source, headers(raw, at, count), retries, flags, span)
      end

      def reason(raw)
        REASONS.fetch(raw.unpack1("l", offset: 16), "the handler is to stop")
      end

      def completion(raw)
        status, category, value, extra, text, data = raw.unpack("llqqLL", offset: 16)
        text = 0 if text == NULL
        data = 0 if data == NULL
        Completion.new(status, category, value, extra, raw.byteslice(48, text), raw.byteslice(48 + text, data))
      end

      def line(raw)
        time, level, target, text, fields = raw.unpack("qlLLL", offset: 16)
        Line.new(time, level, words(raw, 40, target), words(raw, 40 + target, text),
                 words(raw, 40 + target + text, fields))
      end

      def fault(raw)
        words(raw, 24, raw.unpack1("L", offset: 16))
      end

      private

      NONE = [].freeze
      KNOWN = 1024
      private_constant :NONE, :KNOWN

      def name(bytes, names)
        names.fetch(bytes) do
          names.clear if names.size >= KNOWN
          names[bytes.freeze] = bytes.dup.force_encoding(Encoding::UTF_8).freeze
        end
      end

      # The span that a record names, and where its bytes end.
      def span(raw, offset, trace, state)
        trace = state = nil if trace == NULL
        trace &&= raw.byteslice(offset, trace)
        offset += trace&.bytesize.to_i
        state = state.nil? || state == NULL ? "" : raw.byteslice(offset, state)
        [trace && Tracing::Place.new(trace, state), offset + state.bytesize]
      end

      # A name that is not UTF-8 keeps its bytes.
      def headers(raw, offset, count)
        return NONE if count.zero?

        Array.new(count) do
          name_size, value_size = raw.unpack("LL", offset:)
          name = raw.byteslice(offset + 8, name_size).force_encoding(Encoding::UTF_8)
          name.force_encoding(Encoding::BINARY) unless name.valid_encoding?
          offset += 8 + name_size
          value = nil
          unless value_size == NULL
            value = raw.byteslice(offset, value_size).freeze
            offset += value_size
          end
          [name.freeze, value].freeze
        end.freeze
      end

      def words(raw, offset, size)
        raw.byteslice(offset, size).force_encoding(Encoding::UTF_8).scrub
      end
    end
  end
  private_constant :Packed
end

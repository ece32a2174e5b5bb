# frozen_string_literal: true

module Prosody
  # What messages and excise records have in common. Objects are frozen and compare by value.
  class Record
    # @return [String]
    attr_reader :topic
    # @return [Integer]
    attr_reader :partition
    # @return [Integer]
    attr_reader :offset
    # @return [String]
    attr_reader :key
    # @return [Array<Array(String, String)>] name and bytes, or nil for no value; names may repeat
    attr_reader :headers
    # @return [String, nil] the system that sent the record
    attr_reader :source_system

    # @private
    attr_reader :milliseconds

    # @private
    # The message or excise record that the library has handed out.
    # @param fields [Packed::Event]
    # @raise [JSON::JSONError] when its payload cannot be read
    def self.received(fields)
      known = {
        topic: fields.topic, partition: fields.place, offset: fields.offset, timestamp: fields.timestamp,
        key: fields.key, headers: fields.headers, source_system: fields.source,
        response_requested: fields.flags.anybits?(Packed::FLAG_RESPONSE)
      }
      return ExciseMessage.new(**known) unless fields.payload

      Message.new(payload: Codec.decode(fields.payload), delivered: true, **known)
    end

    # @param timestamp [Time, Integer] a time, or milliseconds since the epoch
    def initialize(topic:, partition:, offset:, timestamp:, key:,
                   headers: [], source_system: nil, response_requested: false)
      @topic = topic
      @partition = partition
      @offset = offset
      @milliseconds = timestamp.is_a?(Integer) ? timestamp : (timestamp.to_r * 1000).floor
      @key = key
      @headers = headers
      @source_system = source_system
      @response_requested = response_requested
    end

    # @return [Time] in UTC, to the millisecond
    def timestamp
      Time.at(0, @milliseconds, :millisecond, in: "UTC")
    end

    # @return [Boolean] whether the sender waits for what the handler returns
    def response_requested?
      @response_requested
    end

    # Compares what identifies and what was sent; not headers, sender and request.
    def ==(other)
      other.instance_of?(self.class) && identity == other.identity
    end
    alias eql? ==

    def hash
      identity.hash
    end

    # @return [Hash{Symbol => Object}]
    def to_h
      { topic:, partition:, offset:, timestamp:, key:,
        headers:, source_system:, response_requested: response_requested? }
    end

    def deconstruct_keys(_names)
      to_h
    end

    def inspect
      "#<#{self.class} #{topic}[#{partition}]@#{offset} key=#{key.inspect}>"
    end

    protected

    def identity
      [@topic, @partition, @offset, @milliseconds, @key]
    end
  end
  private_constant :Record

  # A record with a payload.
  class Message < Record
    # @return [Object] the value of the JSON payload
    attr_reader :payload

    def initialize(payload:, delivered: false, **fields)
      super(**fields)
      @payload = payload
      @delivered = delivered
      freeze
    end

    # @private
    # Whether it was handed out by the library, not made by hand.
    def delivered?
      @delivered
    end

    # @return [Hash{Symbol => Object}]
    def to_h
      super.merge(payload:)
    end

    protected

    def identity
      super << @payload
    end
  end

  # A record without payload: the data of its key is to be deleted.
  class ExciseMessage < Record
    def initialize(**fields)
      super
      freeze
    end
  end

  # A timer that has come due.
  class Timer
    # @return [String]
    attr_reader :key
    # @return [Time] in UTC
    attr_reader :time

    def initialize(key:, time:)
      @key = key
      @time = time.getutc.freeze
      freeze
    end

    # Compares by value.
    def ==(other)
      other.instance_of?(Timer) && key == other.key && time == other.time
    end
    alias eql? ==

    def hash
      to_h.hash
    end

    # @return [Hash{Symbol => Object}]
    def to_h
      { key:, time: }
    end

    def deconstruct_keys(_names)
      to_h
    end

    def inspect
      "#<#{self.class} #{key.inspect} at #{time}>"
    end
  end

  # Why an event is handled: for the first time, or again after a failure.
  class Demand
    # @return [Symbol] :normal or :failure
    attr_reader :kind
    # @return [Integer] 0 at first, 1 for the first retry
    attr_reader :retries

    def initialize(kind, retries)
      @kind = kind
      @retries = retries
      freeze
    end

    # @see #retries
    alias retry retries

    # @return [Boolean] whether it is the first time
    def normal?
      kind == :normal
    end

    # @return [Boolean] whether an attempt before has failed
    def failure?
      kind == :failure
    end

    # Compares by value.
    def ==(other)
      other.instance_of?(Demand) && kind == other.kind && retries == other.retries
    end
    alias eql? ==

    def hash
      to_h.hash
    end

    # @return [Hash{Symbol => Object}]
    def to_h
      { kind:, retries: }
    end

    def deconstruct_keys(_names)
      to_h
    end

    def inspect
      "#<#{self.class} #{kind} #{retries}>"
    end
  end
end

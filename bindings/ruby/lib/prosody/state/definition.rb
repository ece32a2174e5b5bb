# frozen_string_literal: true

module Prosody
  # Describes a collection that each key has: its name, its kind and how it is kept. Frozen; compares by value.
  #
  # Made by Prosody.value, .map, .set, .deque, .message_value, .message_map and .message_deque. A client may use those
  # that its option state_collections lists.
  class StateDefinition
    FIELDS = %i[name kind payload ttl_seconds read_uncommitted published read_cache keyset_limit capacity].freeze
    private_constant :FIELDS

    # @return [String]
    attr_reader :name
    # @return [String] "value", "map", "set" or "deque"
    attr_reader :kind
    # @return [String, nil] "json" or "message"; nil for a set
    attr_reader :payload
    # @return [Integer, nil] how many seconds an entry lives after it was written
    attr_reader :ttl_seconds
    # @return [Boolean, nil] whether changes are applied before the event is recorded
    attr_reader :read_uncommitted
    # @return [Boolean, nil] whether other services may read it
    attr_reader :published
    # @return [Numeric, false, nil] how many seconds old an answer to a reader may be; false: read anew each time
    attr_reader :read_cache
    # @return [Integer, nil] up to how many keys of a map or set are listed in one place
    attr_reader :keyset_limit
    # @return [Integer, nil] how many items a deque keeps
    attr_reader :capacity

    # @private
    attr_reader :identity

    # @private
    def initialize(name:, kind:, payload:, ttl_seconds: nil, read_uncommitted: nil, published: nil, read_cache: nil,
                   keyset_limit: nil, capacity: nil)
      @name = Codec.text(name.to_s, "name").dup.freeze
      @kind = kind
      @payload = payload
      @ttl_seconds = whole(ttl_seconds)
      @read_uncommitted = read_uncommitted
      @published = published
      @read_cache = age(read_cache)
      @keyset_limit = keyset_limit
      @capacity = capacity
      @identity = "#{kind}/#{payload}/#{@name}".freeze
      freeze
    end

    # @return [Hash{Symbol => Object}] an item of the option state_collections; what is nil is left out
    def to_state_config
      to_h.compact
    end

    # @return [Hash{Symbol => Object}]
    def to_h
      FIELDS.to_h { |field| [field, public_send(field)] }
    end

    # @return [StateDefinition] one that differs in some fields
    def with(**fields)
      self.class.new(**to_h, **fields)
    end

    # Compares by value.
    def ==(other)
      other.instance_of?(self.class) && to_h == other.to_h
    end
    alias eql? ==

    def hash
      to_h.hash
    end

    def deconstruct_keys(_names)
      to_h
    end

    def inspect
      "#<#{self.class} #{to_state_config.map { |field, value| "#{field}=#{value.inspect}" }.join(' ')}>"
    end
    alias to_s inspect

    private

    def whole(ttl)
      return if ttl.nil?

      seconds = Seconds.of(ttl)
      return seconds.to_i if seconds&.finite? && seconds == seconds.floor

      raise ArgumentError, "ttl: must be a whole number of seconds, got #{ttl.inspect}"
    end

    def age(cache)
      return cache if cache.nil? || cache == false
      raise ArgumentError, "read_cache: true is ambiguous; use a duration or false" if cache == true

      seconds = Seconds.of(cache)
      return seconds if seconds&.finite? && !seconds&.negative?

      raise ArgumentError, "read_cache: expected seconds or false, got #{cache.inspect}"
    end
  end

  # Makes definitions of keyed state. Its methods are those of the module Prosody.
  module Definitions
    # Defines one value for each key.
    # @param ttl [Integer, nil] how many seconds it lives after it was written
    # @param read_uncommitted [Boolean, nil] whether changes are applied before the event is recorded
    # @param published [Boolean, nil] whether other services may read it; needs the option subsystem
    # @param read_cache [Numeric, false, nil] how many seconds old an answer to a reader may be
    # @return [StateDefinition]
    def value(name, ttl: nil, read_uncommitted: nil, published: nil, read_cache: nil)
      StateDefinition.new(name:, kind: "value", payload: "json", ttl_seconds: ttl, read_uncommitted:, published:,
                          read_cache:)
    end

    # Defines a map for each key. Its own keys are texts, in the order of their UTF-8 bytes.
    # @param keyset_limit [Integer, nil] up to how many keys are listed in one place, 0 to 4096
    # @return [StateDefinition]
    # @see #value
    def map(name, ttl: nil, keyset_limit: nil, read_uncommitted: nil, published: nil, read_cache: nil)
      StateDefinition.new(name:, kind: "map", payload: "json", ttl_seconds: ttl, read_uncommitted:, published:,
                          read_cache:, keyset_limit:)
    end

    # Defines a set of texts for each key.
    # @param keyset_limit [Integer, nil] up to how many members are listed in one place, 0 to 4096
    # @return [StateDefinition]
    # @see #value
    def set(name, ttl: nil, keyset_limit: nil, read_uncommitted: nil, published: nil, read_cache: nil)
      StateDefinition.new(name:, kind: "set", payload: nil, ttl_seconds: ttl, read_uncommitted:, published:,
                          read_cache:, keyset_limit:)
    end

    # Defines a double-ended queue for each key.
    # @param capacity [Integer, nil] how many items it keeps; more push out those of the other end
    # @return [StateDefinition]
    # @see #value
    def deque(name, ttl: nil, capacity: nil, read_uncommitted: nil, published: nil, read_cache: nil)
      StateDefinition.new(name:, kind: "deque", payload: "json", ttl_seconds: ttl, read_uncommitted:, published:,
                          read_cache:, capacity:)
    end

    # Defines one message for each key. It is kept by its place in Kafka and read again from there.
    # @return [StateDefinition]
    # @see #value
    def message_value(name, ttl: nil, read_uncommitted: nil)
      StateDefinition.new(name:, kind: "value", payload: "message", ttl_seconds: ttl, read_uncommitted:)
    end

    # Defines a map of messages for each key.
    # @return [StateDefinition]
    # @see #map
    # @see #message_value
    def message_map(name, ttl: nil, keyset_limit: nil, read_uncommitted: nil)
      StateDefinition.new(name:, kind: "map", payload: "message", ttl_seconds: ttl, read_uncommitted:, keyset_limit:)
    end

    # Defines a double-ended queue of messages for each key.
    # @return [StateDefinition]
    # @see #deque
    # @see #message_value
    def message_deque(name, ttl: nil, capacity: nil, read_uncommitted: nil)
      StateDefinition.new(name:, kind: "deque", payload: "message", ttl_seconds: ttl, read_uncommitted:, capacity:)
    end
  end
end

# frozen_string_literal: true

module Prosody
  # What a scan gives: its direction, its bounds and how many entries.
  # @private
  class Query
    BACKWARD = 1
    BARE = 2
    FIRST_EXCLUSIVE = 4
    LAST_EXCLUSIVE = 8
    FIRST = 16
    LAST = 32
    START = 64
    STOP = 128
    MOST = (2**64) - 1
    LAYOUT = "LLQQ10Q4"
    SIZE = 128
    private_constant :BACKWARD, :BARE, :FIRST_EXCLUSIVE, :LAST_EXCLUSIVE, :FIRST, :LAST, :START, :STOP, :MOST, :LAYOUT, :SIZE

    class << self
      # A query of a map or set.
      # @param backward [Boolean] from the last to the first
      # @param bare [Boolean] without values
      # @param prefix [String, nil] with what keys begin
      # @param from [String, nil] the first key, in the order of the scan; after: the one before it
      # @param to [String, nil] the last key; before: the one behind it
      # @param range [Range, nil] of keys, ascending whatever the order
      # @param limit [Integer, nil] of entries, from 1 on
      def keys(backward, bare, prefix: nil, from: nil, after: nil, to: nil, before: nil, range: nil, limit: nil)
        query = new(backward, bare, limit)
        query.prefix = key(prefix, "prefix") unless prefix.nil?
        query.edges(from, after, to, before) { |value, name| key(value, name) }
        query.keys(range) unless range.nil?
        query
      end

      # A query of a deque; positions count from the front.
      # @see .keys
      def positions(backward, from: nil, after: nil, to: nil, before: nil, range: nil, limit: nil)
        query = new(backward, false, limit)
        query.edges(from, after, to, before) { |value, name| position(value, name) }
        query.positions(range) unless range.nil?
        query
      end

      # A key of a map or a member of a set.
      # @raise [TypeError] when it is no text
      # @raise [ArgumentError] when it is not UTF-8
      def key(value, name = "key")
        raise TypeError, "#{name}: expected a String, got #{value.class}" unless value.is_a?(String) || value.is_a?(Symbol)

        Codec.text(value, name)
      end

      # Keys of a map or members of a set.
      # @raise [TypeError] when they are no list
      # @see .key
      def list(values, name = "key")
        unless values.respond_to?(:each) && values.respond_to?(:map)
          raise TypeError, "#{name}s: expected an Array, got #{values.class}"
        end

        values.map { |value| key(value, name) }
      end

      def position(value, name)
        return value if value.is_a?(Integer) && value.between?(0, MOST)

        raise ArgumentError, "#{name}: must be a non-negative whole number below 2^64, got #{value.inspect}"
      end
    end

    attr_writer :prefix

    def initialize(backward, bare, limit)
      unless limit.nil? || (limit.is_a?(Integer) && limit.between?(1, MOST))
        raise ArgumentError, "limit: must be a whole number from 1 to 2^64 - 1, got #{limit.inspect}"
      end

      @flags = (backward ? BACKWARD : 0) | (bare ? BARE : 0)
      @limit = limit || 0
    end

    # Takes both edges.
    # @yield [value, name] checks one
    def edges(from, after, to, before, &check)
      @first = edge({ "from" => from, "after" => after }, FIRST_EXCLUSIVE, &check)
      @last = edge({ "to" => to, "before" => before }, LAST_EXCLUSIVE, &check)
    end

    def keys(range)
      start, stop = ends(range)
      @start = Query.key(start, "range") unless start.nil?
      return if stop.nil?

      @stop = Query.key(stop, "range")
      @stop += "\0" unless range.exclude_end? # the next text in the order of bytes
    end

    def positions(range)
      start, stop = ends(range)
      @start = Query.position(start, "range") unless start.nil?
      return if stop.nil?

      @stop = Query.position(stop, "range")
      @stop += 1 unless range.exclude_end?
      @stop = nil if @stop > MOST
    end

    # The structure of the library; texts are kept by the slate.
    def pack(slate)
      bounds = [@first, @last, @start, @stop]
      texts = [@prefix, *bounds].flat_map { |text| text.is_a?(String) ? [slate.keep(text), text.bytesize] : [0, 0] }
      places = bounds.map { |place| place.is_a?(Integer) ? place : 0 }
      flags = bounds.zip([FIRST, LAST, START, STOP]).sum { |place, flag| place.is_a?(Integer) ? flag : 0 }
      [SIZE, @flags | flags, @limit, *texts, *places].pack(LAYOUT)
    end

    private

    # The one that is given; the second one is exclusive.
    def edge(both, exclusive)
      given = both.compact
      raise ArgumentError, "#{both.keys.join(' and ')} exclude each other" if given.size > 1

      name, value = given.first
      return if name.nil?

      @flags |= exclusive if name == both.keys.last
      yield value, name
    end

    def ends(range)
      raise TypeError, "range: expected a Range, got #{range.class}" unless range.is_a?(Range)

      [range.begin, range.end]
    end
  end
  private_constant :Query
end

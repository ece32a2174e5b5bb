# frozen_string_literal: true

module Prosody
  # A map of a key. Its own keys are texts, in the order of their UTF-8 bytes.
  class MapState < Group
    # @return [Object, nil] nil when there is none
    def get(key)
      load(@access.get(:map_get, Query.key(key)))
    end
    alias [] get

    # The value of a key, else the default, else the value of the block.
    # @raise [KeyError] when there is nothing of them
    def fetch(key, *default)
      raise ArgumentError, "wrong number of arguments (given #{default.size + 1}, expected 1..2)" if default.size > 1

      value = get(key)
      return value unless value.nil?
      return yield key if block_given?
      return default.first unless default.empty?

      raise missing(key)
    end

    # A value inside the value of a key.
    # @return [Object, nil]
    def dig(key, *path)
      { key => get(key) }.dig(key, *path)
    end

    # @param keys [Array<String>]
    # @return [Array<Object, nil>] their values in this order
    def get_many(keys)
      keys = Query.list(keys)
      values = []
      Entry.each(@access.many(keys)) { |raw, _| values << load(raw) }
      values
    end

    # @return [Array<Object, nil>]
    # @see #get_many
    def values_at(*keys)
      get_many(keys)
    end

    # @return [Hash{String => Object}] those of the keys that exist, with their values
    def slice(*keys)
      keys.zip(get_many(keys)).to_h.compact
    end

    # The values of keys; for one that does not exist that of the block.
    # @raise [KeyError] when there is no block
    def fetch_values(*keys)
      keys.zip(get_many(keys)).map do |key, value|
        next value unless value.nil?

        block_given? ? yield(key) : raise(missing(key))
      end
    end

    # @return [Boolean]
    def key?(key)
      @access.ask(:state_contains, Query.key(key))
    end
    alias has_key? key?
    alias include? key?
    alias member? key?

    # @param keys [Array<String>]
    # @return [Array<Boolean>] for each whether it is there
    def contains_many(keys)
      @access.contains(Query.list(keys))
    end

    # @return [Object] the value
    # @raise [NullValueError] for nil, NaN and the infinities
    # @raise [TransientStateError] when JSON cannot hold it, or it is no delivered message
    def set(key, value)
      @access.put(:map_set, @content.dump(value), Query.key(key))
      value
    end
    alias []= set
    alias store set

    # Removes a key. One that does not exist is no error.
    # @return [nil]
    def delete(key)
      @access.ask(:map_remove, Query.key(key), change: true)
      nil
    end

    # Yields keys with values, ascending. Leaving early is fine. Nothing is read ahead but a few entries.
    # @param query [Hash] which ones: `prefix:`; `from:` or `after:`; `to:` or `before:`, in the order of the scan;
    #   `range:`, a Range of keys, ascending whatever the order; `limit:`
    # @return [self, Enumerator] an Enumerator without a block
    # @raise [ArgumentError, TypeError] when the query makes no sense
    def each_pair(**query, &block)
      walk(Query.keys(false, false, **query), block) { |raw, key| [key, load(raw)] }
    end
    alias each each_pair

    # Yields keys, ascending; values are not read.
    # @return [self, Enumerator]
    # @see #each_pair
    def each_key(**query, &block)
      walk(Query.keys(false, true, **query), block) { |_, key| key }
    end

    # Yields values in the order of their keys.
    # @return [self, Enumerator]
    # @see #each_pair
    def each_value(**query, &block)
      walk(Query.keys(false, false, **query), block) { |raw, _| load(raw) }
    end

    # Yields keys with values, descending: `from:` is the high end.
    # @return [self, Enumerator]
    # @see #each_pair
    def reverse_each_pair(**query, &block)
      walk(Query.keys(true, false, **query), block) { |raw, key| [key, load(raw)] }
    end
    alias reverse_each reverse_each_pair

    # Yields keys, descending.
    # @return [self, Enumerator]
    # @see #reverse_each_pair
    def reverse_each_key(**query, &block)
      walk(Query.keys(true, true, **query), block) { |_, key| key }
    end

    # Yields values in the descending order of their keys.
    # @return [self, Enumerator]
    # @see #reverse_each_pair
    def reverse_each_value(**query, &block)
      walk(Query.keys(true, false, **query), block) { |raw, _| load(raw) }
    end

    private

    def missing(key)
      KeyError.new("key not found: #{key.inspect}", receiver: self, key:)
    end
  end
end

# frozen_string_literal: true

module Prosody
  # A double-ended queue of a key.
  class DequeState < Group
    LEAST = -(2**63)
    MOST = (2**63) - 1
    private_constant :LEAST, :MOST

    # Adds an item at the back. Over its capacity the deque loses items of the front.
    # @return [self]
    # @raise [NullValueError] for nil, NaN and the infinities
    # @raise [TransientStateError] when JSON cannot hold it, or it is no delivered message
    def push(item)
      @access.put(:deque_push, @content.dump(item), Access::BACK)
      self
    end
    alias append push
    alias << push

    # Adds an item at the front. Over its capacity the deque loses items of the back.
    # @return [self]
    # @see #push
    def unshift(item)
      @access.put(:deque_push, @content.dump(item), Access::FRONT)
      self
    end
    alias prepend unshift

    # Takes the item at the back.
    # @return [Object, nil] nil when it is empty
    def pop
      load(@access.get(:deque_pop, Access::BACK, change: true))
    end

    # Takes the item at the front.
    # @return [Object, nil] nil when it is empty
    def shift
      load(@access.get(:deque_pop, Access::FRONT, change: true))
    end

    # @return [Object, nil] the item at the front
    def first
      load(@access.get(:deque_peek, Access::FRONT))
    end

    # @return [Object, nil] the item at the back
    def last
      load(@access.get(:deque_peek, Access::BACK))
    end

    # @param index [Integer] from the front; a negative one counts from the back
    # @return [Object, nil] nil when there is none
    # @raise [TransientStateError] when it is no Integer
    def get(index)
      raise TransientStateError, "index: expected an Integer, got #{index.class}" unless index.is_a?(Integer)

      load(@access.get(:deque_get, index)) if index.between?(LEAST, MOST)
    end

    # The item at an index, else the default, else the value of the block.
    # @raise [IndexError] when there is nothing of them
    def fetch(index, *default)
      raise ArgumentError, "wrong number of arguments (given #{default.size + 1}, expected 1..2)" if default.size > 1

      item = get(index)
      return item unless item.nil?
      return yield index if block_given?
      return default.first unless default.empty?

      raise IndexError, "index #{index} outside of the deque"
    end

    # @return [Integer]
    def length
      @access.size
    end
    alias size length

    # Yields items from the front. Leaving early is fine. Nothing is read ahead but a few items.
    # @param query [Hash] which ones, by position from the front: `from:` or `after:`; `to:` or `before:`, in the order
    #   of the scan; `range:`, a Range, ascending whatever the order; `limit:`
    # @return [self, Enumerator] an Enumerator without a block
    # @raise [ArgumentError, TypeError] when the query makes no sense
    def each(**query, &block)
      walk(Query.positions(false, **query), block) { |raw, _| load(raw) }
    end

    # Yields items from the back.
    # @return [self, Enumerator]
    # @see #each
    def reverse_each(**query, &block)
      walk(Query.positions(true, **query), block) { |raw, _| load(raw) }
    end
  end
end

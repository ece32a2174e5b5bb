# frozen_string_literal: true

module Prosody
  # What all collections of a key have in common.
  #
  # Changes belong to the attempt: its reads see them at once, they become durable when the handler succeeds, and a
  # failed attempt changes nothing. After the attempt reads raise TransientStateError, changes PermanentStateError.
  class Collection
    # @private
    def initialize(access, content)
      @access = access
      @content = content
    end

    # Removes all that it holds.
    # @return [nil]
    def clear
      @access.ask(:state_clear, change: true)
      nil
    end

    # Makes the changes of this collection durable now, whatever becomes of the attempt.
    # @return [Symbol] :applied, or :no_op when there was none
    def commit
      @access.ask(:state_commit, change: true) ? :applied : :no_op
    end

    # Drops the changes of this collection since the last commit.
    # @return [Symbol] :applied, or :no_op when there was none
    def rollback
      @access.ask(:state_rollback, change: true) ? :applied : :no_op
    end

    def inspect
      "#<#{self.class}>"
    end

    private

    def load(raw)
      raw && @content.load(raw)
    end

    # Hands what a scan gives to a block, or to an Enumerator when there is none.
    # @yield [raw, key] turns an entry into what is handed over
    def walk(query, block, &take)
      return Enumerator.new { |out| @access.scan(query) { |raw, key| out << take.call(raw, key) } } if block.nil?

      @access.scan(query) { |raw, key| block.call(take.call(raw, key)) }
      self
    end

    def initialize_copy(_other)
      raise TypeError, "a collection cannot be copied"
    end
  end
  private_constant :Collection

  # What maps, sets and deques have in common.
  class Group < Collection
    # @return [Boolean]
    def empty?
      !@access.ask(:state_empty)
    end
  end
  private_constant :Group

  # One value of a key.
  class ValueState < Collection
    # @return [Object, nil] nil when there is none
    def get
      load(@access.get(:value_get))
    end
    alias value get

    # @return [Object] the value
    # @raise [NullValueError] for nil, NaN and the infinities
    # @raise [TransientStateError] when JSON cannot hold it, or it is no delivered message
    def set(value)
      @access.put(:value_set, @content.dump(value))
      value
    end
    alias value= set
  end

  # A set of texts of a key, in the order of their UTF-8 bytes.
  class SetState < Group
    # @return [self]
    def add(member)
      @access.ask(:set_add, Query.key(member, "member"), change: true)
      self
    end
    alias << add

    # Removes a member. One that does not exist is no error.
    # @return [self]
    def delete(member)
      @access.ask(:set_remove, Query.key(member, "member"), change: true)
      self
    end

    # @return [Boolean]
    def include?(member)
      @access.ask(:state_contains, Query.key(member, "member"))
    end
    alias member? include?

    # @param members [Array<String>]
    # @return [Array<Boolean>] for each whether it is there
    def contains_many(members)
      @access.contains(Query.list(members, "member"))
    end

    # Yields the members, ascending.
    # @return [self, Enumerator]
    # @see MapState#each_pair
    def each(**query, &block)
      walk(Query.keys(false, true, **query), block) { |_, key| key }
    end

    # Yields the members, descending.
    # @return [self, Enumerator]
    def reverse_each(**query, &block)
      walk(Query.keys(true, true, **query), block) { |_, key| key }
    end
  end
end

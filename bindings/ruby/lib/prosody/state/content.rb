# frozen_string_literal: true

module Prosody
  # Collections of JSON.
  # @private
  module JsonContent
    NULL = "JSON null is not a storable value; use clear (value/deque) or remove (map) to delete an entry"
    private_constant :NULL

    class << self
      # @return [String]
      # @raise [TransientStateError] when it cannot be stored
      def dump(value)
        raise NullValueError, NULL if value.nil?
        raise TransientStateError, "value is not representable as JSON: it is a message" if value.is_a?(Record)

        Codec.encode(value)
      rescue ArgumentError => e
        raise (value.is_a?(Float) ? NullValueError : TransientStateError), e.message
      end

      def load(raw)
        Codec.decode(raw)
      rescue JSON::JSONError => e
        raise PermanentStateError, "the value cannot be read: #{Raised.text(e)[0, 200]}"
      end
    end
  end
  private_constant :JsonContent

  # Collections of messages that Kafka keeps.
  # @private
  class MessageContent
    # @param names [Hash] keeps texts that repeat
    def initialize(names)
      @names = names
    end

    # @return [Message]
    # @raise [TransientStateError] when it cannot be stored
    def dump(value)
      raise TransientStateError, "expected a Kafka message, got #{value.class}" unless value.is_a?(Message)
      return value if value.delivered?

      raise TransientStateError, "only a message that Prosody has delivered can be stored, not one made by hand"
    end

    def load(raw)
      Record.received(Packed.event(raw, @names))
    rescue JSON::JSONError => e
      raise PermanentStateError, "the message cannot be read: #{Raised.text(e)[0, 200]}"
    end
  end
  private_constant :MessageContent
end

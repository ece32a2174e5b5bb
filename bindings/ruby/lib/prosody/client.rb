# frozen_string_literal: true

module Prosody
  # Sends and consumes records. Methods wait without holding up other threads or fibers.
  #
  # They raise ArgumentError for a bad argument or option, and CallError, a RuntimeError, otherwise.
  class Client
    # Makes a client, yields it and shuts it down.
    # @return [Object] the value of the block
    def self.open(config = {})
      raise ArgumentError, "Prosody::Client.open needs a block" unless block_given?

      client = new(config)
      begin
        yield client
      ensure
        client.shutdown
      end
    end

    # @param config [Hash, Configuration]
    def initialize(config = {})
      configuration = config.is_a?(Configuration) ? config : Configuration.new(config)
      @runtime = Runtime.current
      @core = Core.new(@runtime, configuration)
      ObjectSpace.define_finalizer(self, Core.finalizer(@core))
    end

    # @return [String] the name under which this client sends; also after shutdown and fork
    def source_system
      @core.source
    end

    # Sends a message and waits for the acknowledgement of the broker.
    # @param payload [Object] a value that JSON can hold
    # @param headers [Array, Hash, nil] pairs of name and bytes, or nil for no value
    # @return [nil]
    def send_message(topic, key, payload, headers: nil)
      @runtime.check
      @core.deliver(Codec.text(topic, "topic"), Codec.text(key, "key"), Codec.encode(payload), pairs(headers))
    end

    # Sends an excise record: it orders the deletion of the data of a key.
    # @return [nil]
    def excise(topic, key, headers: nil)
      @runtime.check
      @core.deliver(Codec.text(topic, "topic"), Codec.text(key, "key"), nil, pairs(headers))
    end

    # Sends a message and waits for the response of each subsystem, at most for the timeout. A
    # subsystem that fails or stays silent is an outcome; an exception means that the request as
    # a whole failed.
    # @param subsystems [Array<String>]
    # @param timeout [Numeric, ActiveSupport::Duration] in seconds
    # @return [Hash{String => Success, Failure}]
    def request(topic:, key:, payload:, subsystems:, timeout:, headers: nil)
      @runtime.check
      @core.request(Codec.text(topic, "topic"), Codec.text(key, "key"), Codec.encode(payload), pairs(headers),
                    subsystems:, timeout:)
    end

    # Sends an excise record and waits like {#request}.
    # @return [Hash{String => Success, Failure}]
    def request_excise(topic:, key:, subsystems:, timeout:, headers: nil)
      @runtime.check
      @core.request(Codec.text(topic, "topic"), Codec.text(key, "key"), nil, pairs(headers), subsystems:, timeout:)
    end

    # Starts to consume the subscribed topics.
    # @param handler [EventHandler]
    # @return [nil]
    def subscribe(handler)
      EventHandler.validate_handler!(handler)
      @runtime.check
      @core.begin_subscribe(handler).wait
    end

    # Stops to consume: running handlers end, offsets are committed, the group is left.
    # @return [nil]
    def unsubscribe
      @runtime.check
      @core.begin_unsubscribe.wait
    end

    # Unsubscribes and closes the client. Calling it again is fine.
    # @return [nil]
    def shutdown
      @runtime.check
      @core.begin_shutdown.wait
    end

    # @return [Symbol] :unconfigured, :configured, :running or :shut_down
    # @raise [CallError] when the settings do not allow to consume
    def consumer_state
      @runtime.check
      Library::STATES.fetch(@core.number(:client_state))
    end

    # @return [Integer] how many partitions the client owns; 0 unless running
    def assigned_partitions
      @runtime.check
      @core.number(:client_partitions)
    end

    # @return [Boolean] whether something has stopped moving; false unless running
    def is_stalled? # rubocop:disable Naming/PredicateName
      @runtime.check
      @core.number(:client_stalled) != 0
    end
    alias stalled? is_stalled?

    # Reads a collection that a service publishes. Nothing is read yet.
    # @param subsystem [String] the option subsystem of that service
    # @param definition [StateDefinition]
    # @return [PublishedValue, PublishedMap, PublishedSet, PublishedDeque]
    # @raise [TypeError] for a collection of messages
    def state(subsystem, definition)
      @runtime.check
      @core.reader(subsystem, definition)
    end

    def inspect
      "#<#{self.class} #{source_system}>"
    end

    private

    NO_HEADERS = [].freeze
    private_constant :NO_HEADERS

    def pairs(headers)
      return NO_HEADERS if headers.nil?
      raise ArgumentError, "headers: expected pairs of name and value" unless headers.respond_to?(:to_a)

      headers.to_a.map do |pair|
        name, value = pair
        raise ArgumentError, "headers: expected pairs of name and value" unless pair.is_a?(Array) && pair.size == 2
        raise ArgumentError, "headers: a value must be a String or nil" unless value.nil? || value.is_a?(String)

        [Codec.text(name, "headers"), value]
      end
    end

    def initialize_copy(_other)
      raise TypeError, "a client cannot be copied"
    end
  end
end

# frozen_string_literal: true

module Prosody
  # Creates and deletes topics.
  class AdminClient
    TOPIC = "LllLQQQQq"
    private_constant :TOPIC

    # @param servers [String, Array<String>, nil] nil takes the environment's
    # @param options [Hash] further options, such as `mock: true`
    def initialize(servers = nil, **options)
      @runtime = Runtime.current
      @library = @runtime.library
      out = FFI::MemoryPointer.new(:pointer)
      Settings.open(@library, Configuration.new(options.merge(bootstrap_servers: servers))) do |config|
        error = Library.error
        @library.check(@library.admin_create(config, out, error), error)
      end
      runtime = @runtime
      @handle = FFI::AutoPointer.new(out.get_pointer(0), AdminClient.release(runtime))
    end

    # Creates a topic; nil leaves a setting to the broker.
    # @param retention [Numeric, ActiveSupport::Duration, nil] seconds
    # @return [nil]
    def create_topic(name, partitions = nil, replication_factor = nil, cleanup_policy: nil, retention: nil)
      @runtime.check
      title = @library.bytes(Codec.text(name, "name"))
      policy = cleanup_policy && @library.bytes(Codec.text(cleanup_policy, "cleanup_policy"))
      packed = [56, count(partitions, "partitions"), count(replication_factor, "replication_factor"), 0,
                *words(title), *(policy ? words(policy) : [0, 0]), milliseconds(retention)].pack(TOPIC)
      call { |queue, tag, error| @library.admin_create_topic(@handle, queue, tag, packed, error) }
    end

    # Deletes a topic. One that does not exist is no error.
    # @return [nil]
    def delete_topic(name)
      @runtime.check
      title = @library.bytes(Codec.text(name, "name"))
      call { |queue, tag, error| @library.admin_delete_topic(@handle, queue, tag, title, error) }
    end

    # What frees the native client.
    # @private
    def self.release(runtime)
      ->(pointer) { runtime.library.admin_destroy(pointer) unless runtime.forked? }
    end

    private

    def call(&block)
      finish = lambda do |completion|
        next if completion.status == Library::OK

        raise @library.fault(completion.status, completion.category, completion.text)
      end
      @runtime.port.ask(finish, &block)
    end

    def words(bytes)
      bytes.pointer.get_array_of_uint64(0, 2)
    end

    def count(value, name)
      return 0 if value.nil?
      return value if value.is_a?(Integer) && value.between?(1, (2**31) - 1)

      raise ArgumentError, "#{name}: must be a positive Integer, got #{value.inspect}"
    end

    def milliseconds(retention)
      return 0 if retention.nil?

      seconds = Seconds.of(retention)
      return (seconds * 1000).ceil if seconds&.finite? && seconds&.positive?

      raise ArgumentError, "retention: must be a positive number of seconds, got #{retention.inspect}"
    end
  end
end

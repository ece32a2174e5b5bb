# frozen_string_literal: true

module Prosody
  # For tests: what clients in mock mode with the same bootstrap_servers have in common.
  # Prosody::Testing is the comfortable way to all of this.
  #
  # ArgumentError: there are no such clients.
  module Mock
    CALLS = { read: 1, write: 2, produce: 4, consume: 8, commit: 16, store: 3, broker: 28 }.freeze
    REASONS = { revoked: 2, lost: 4 }.freeze
    ROOM = 1 << 16
    private_constant :CALLS, :REASONS, :ROOM

    class << self
      # Moves the clock forward: timers and retries that become due come now. From there it flows on; it never goes
      # back. How long handlers and calls take is measured in real time.
      # @param seconds [Numeric, ActiveSupport::Duration] at most 100 years
      # @param bootstrap_servers [String, Array<String>]
      # @return [nil]
      def advance(seconds, bootstrap_servers)
        call(:mock_advance, servers(bootstrap_servers), milliseconds(seconds))
        nil
      end

      # Waits until nothing is left to do: each record of a subscribed topic is handled, nothing is due by the clock,
      # and each partition has its owner.
      # @param timeout [Numeric, ActiveSupport::Duration] seconds of real time
      # @return [nil]
      # @raise [CallError] after the time-out; it tells what is busy
      def idle(bootstrap_servers, timeout: 10)
        runtime = Runtime.current
        limit = milliseconds(timeout).clamp(0, (2**31) - 1)
        finish = lambda do |ended|
          raise runtime.library.fault(ended.status, ended.category, ended.text) unless ended.status == Library::OK
        end
        name = servers(bootstrap_servers)
        runtime.port.ask(finish) { |queue, tag, error| runtime.library.mock_idle(name, queue, tag, limit, error) }
        nil
      end

      # The records of a topic, in the order in which they were sent. A payload that is no JSON stays bytes; a null
      # key is empty.
      # @return [Array<Message, ExciseMessage>]
      def records(bootstrap_servers, topic)
        found = []
        size = FFI::MemoryPointer.new(:size_t)
        count = FFI::MemoryPointer.new(:uint32)
        memory = FFI::MemoryPointer.new(ROOM)
        loop do
          status = call(:mock_records, servers(bootstrap_servers), bytes(topic, "topic"), found.size, memory, memory.size,
                        size, count)
          return found if status == Library::FINISHED

          filled = size.get(:size_t, 0)
          if status == Library::SHORT
            memory = FFI::MemoryPointer.new(filled)
          else
            unpack(memory.get_bytes(0, filled), found)
          end
        end
      end

      # Makes the next calls of a kind fail with a transient error.
      # @param calls [Symbol, String] :read, :write or both as :store; :produce, :consume, :commit or all three as :broker
      # @param name [String, nil] narrows them: the key of a call of the store, the topic of :produce, else the group
      # @param times [Integer] so many; -1: all from now on; 0 takes back what was said of this kind and this name
      # @return [nil]
      def fail(bootstrap_servers, calls, name = nil, times: 1)
        kind = CALLS.fetch(calls.to_s.to_sym) do
          raise ArgumentError, "expected one of #{CALLS.keys.map(&:inspect).join(', ')}, got #{calls.inspect}"
        end
        raise ArgumentError, "times must be an Integer, got #{times.inspect}" unless times.is_a?(Integer)

        call(:mock_fail, servers(bootstrap_servers), kind, name ? bytes(name, "name") : Library::Bytes.new, times)
        nil
      end

      # Takes all partitions away from the members of a group, which shares them anew. Handlers that run may end
      # within shutdown_timeout.
      # @param lost [Boolean] they count no more, at once
      # @return [nil]
      def rebalance(bootstrap_servers, group, lost: false)
        call(:mock_rebalance, servers(bootstrap_servers), bytes(group, "group"), REASONS.fetch(lost ? :lost : :revoked))
        nil
      end

      # Frees all that is kept: records, state, faults.
      # @return [nil]
      # @raise [CallError] while clients are open
      def forget(bootstrap_servers)
        call(:mock_forget, servers(bootstrap_servers))
        nil
      end

      private

      def call(name, *arguments)
        library = Runtime.current.library
        error = Library.error
        status = library.public_send(name, *arguments, error)
        raise library.exception(status, error) unless [Library::OK, Library::SHORT, Library::FINISHED].include?(status)

        status
      end

      def bytes(text, what)
        Runtime.current.library.bytes(Codec.text(text, what))
      end

      def servers(bootstrap_servers)
        bytes(Array(bootstrap_servers).map { |one| Codec.text(one, "bootstrap_servers") }.join(","), "bootstrap_servers")
      end

      def milliseconds(seconds)
        time = Seconds.of(seconds)
        raise ArgumentError, "expected seconds, got #{seconds.inspect}" unless time&.finite?

        (time.to_r * 1000).ceil.clamp(-1, (2**63) - 1)
      end

      def unpack(raw, found)
        names = {}
        until raw.empty?
          size = raw.unpack1("L")
          fields = Packed.event(raw.byteslice(0, size), names)
          found << record(fields)
          raw = raw.byteslice(size..)
        end
      end

      def record(fields)
        Record.received(fields)
      rescue JSON::JSONError
        Message.new(topic: fields.topic, partition: fields.place, offset: fields.offset, timestamp: fields.timestamp,
                    key: fields.key, headers: fields.headers, source_system: fields.source, payload: fields.payload)
      end
    end
  end
end

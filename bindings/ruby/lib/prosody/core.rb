# frozen_string_literal: true

module Prosody
  # The native part of a client. It may outlive the client: one that is open is shut down first.
  # @private
  class Core
    NEVER = { Object => :never }.freeze
    private_constant :NEVER

    # What ends a client that was collected. It must not know the client.
    def self.finalizer(core)
      proc { core.retire }
    end

    attr_reader :source

    def initialize(runtime, configuration)
      @runtime = runtime
      @library = runtime.library
      @handle = FFI::Pointer::NULL
      @subscriptions = []
      @answer = method(:check)
      @ended = false
      @retired = false
      made = false
      create(configuration).wait
      @source = @library.text(:client_source, @handle)
      made = true
    ensure
      retire unless made
    end

    # Sends a record; payload is nil for an excise record.
    def deliver(topic, key, payload, headers)
      error, outgoing = Outgoing.pack(topic, key, payload, headers)
      function = payload ? :client_send : :client_excise
      @runtime.port.ask(@answer, error) do |queue, tag|
        @library.public_send(function, @handle, queue, tag, outgoing, error)
      end
    end

    # Sends a record and waits for the answers to it; payload is nil for an excise record. A
    # caller that is interrupted gives the request up.
    # @return [Hash{String => Success, Failure}]
    def request(topic, key, payload, headers, **terms)
      error, outgoing = Outgoing.pack(topic, key, payload, headers)
      asks = Request.pack(outgoing, **terms)
      function = payload ? :client_request : :client_request_excise
      give_up = ->(queue, tag) { @library.client_abandon(@handle, queue, tag, nil) }
      @runtime.port.ask(method(:outcomes), error, give_up:) do |queue, tag|
        @library.public_send(function, @handle, queue, tag, asks, error)
      end
    end

    # @return [Call]
    def begin_subscribe(handler)
      Thread.handle_interrupt(NEVER) do
        subscription = Subscription.new(@runtime, handler)
        @subscriptions << subscription
        begin
          start(subscription)
        rescue Exception # rubocop:disable Lint/RescueException
          release([subscription])
          raise
        end
      end
    end

    # @return [Call]
    def begin_unsubscribe
      before = @subscriptions.dup
      finish = lambda do |completion|
        check(completion)
        release(before.select(&:running))
      end
      @runtime.port.begin(finish) { |queue, tag, error| @library.client_unsubscribe(@handle, queue, tag, error) }
    end

    # @return [Call]
    def begin_shutdown
      finish = lambda do |completion|
        @ended = true
        @runtime.remove(self)
        release(@subscriptions.select(&:running))
        destroy if @retired
        check(completion)
      end
      @runtime.port.begin(finish) { |queue, tag, error| @library.client_shutdown(@handle, queue, tag, error) }
    end

    # @return [Published]
    def reader(subsystem, definition)
      States.check(definition)
      raise TypeError, "collections of messages are not published" if definition.payload == "message"

      Readers.open(@runtime, subsystem, definition) do |name, collection, out, error|
        @library.reader_open(@handle, name, collection, out, error)
      end
    end

    # In mock mode: a reader of what the own group keeps for a topic.
    # @return [Published]
    def kept(topic, definition)
      Readers.open(@runtime, topic, definition) do |name, collection, out, error|
        @library.mock_reader(@handle, name, collection, out, error)
      end
    end

    # @return [Integer]
    def number(function)
      error = Library.error
      out = FFI::MemoryPointer.new(:int32)
      @library.check(@library.public_send(function, @handle, out, error), error)
      out.get_int32(0)
    end

    # Ends a client that nobody knows any more. May run in any thread at any moment.
    def retire
      return if @runtime.forked? || @runtime.ending? || @handle.null?
      return destroy if @ended

      @retired = true
      @runtime.log.write(Logger::WARN, "prosody", "a client was not shut down: call Prosody::Client#shutdown") if @source
      begin_shutdown
    rescue CallError
      destroy
    end

    private

    def outcomes(completion)
      check(completion)
      Request.outcomes(completion.data)
    end

    def check(completion)
      return if completion.status == Library::OK

      raise @library.fault(completion.status, completion.category, completion.text)
    end

    def create(configuration)
      out = FFI::MemoryPointer.new(:pointer)
      Settings.open(@library, configuration) do |config|
        @runtime.port.begin(@answer) do |queue, tag, error|
          status = @library.client_create(config, queue, tag, out, error)
          @handle = out.get_pointer(0)
          @runtime.add(self) if status == Library::PENDING
          status
        end
      end
    end

    def start(subscription)
      finish = lambda do |completion|
        check(completion)
        subscription.running = true
        release([subscription]) if @ended
      rescue StandardError
        release([subscription])
        raise
      end
      @runtime.port.begin(finish) do |_, tag, error|
        @library.client_subscribe(@handle, subscription.handle, tag, error)
      end
    end

    def release(subscriptions)
      subscriptions.each do |subscription|
        @subscriptions.delete(subscription)
        subscription.close
      end
      nil
    end

    def destroy
      @runtime.remove(self)
      handle = @handle
      @handle = FFI::Pointer::NULL
      @library.client_destroy(handle)
    end
  end
  private_constant :Core
end

# frozen_string_literal: true

module Prosody
  # The calls on one collection. What is at hand ends in the call; otherwise the caller waits for the store.
  # @private
  class Access
    BACK = 0
    FRONT = 1
    SETTLED = "PROSODY_ERR_SETTLED"
    REVOKED = "PROSODY_ERR_REVOKED"
    private_constant :SETTLED, :REVOKED

    # The exception of keyed state for one of the library.
    # @param change [Boolean] whether something was to be changed
    def self.fault(error, change: false)
      return error unless error.is_a?(CallError)

      permanent = error.status == SETTLED ? change : error.category == :permanent
      known = error.status == SETTLED || error.status == REVOKED || %i[transient permanent].include?(error.category)
      return error unless known

      (permanent ? PermanentStateError : TransientStateError).new(error.message)
    end

    def initialize(runtime, token)
      @library = runtime.library
      @port = runtime.port
      @slates = runtime.slates
      @token = token
    end

    # Calls a function.
    # @param place [Array<String, Integer>] a key, an end or a position
    # @return [Boolean] false when there was nothing
    def ask(function, *place, change: false)
      @slates.use { |slate| run(function, @token, slate, change, *arguments(slate, place)).first == Library::OK }
    end

    # Stores something.
    def put(function, content, *place)
      @slates.use { |slate| run(function, @token, slate, true, *arguments(slate, place), slate.item(content)) }
      nil
    end

    # @return [String, nil] the bytes of what is stored
    def get(function, *place, change: false)
      @slates.use { |slate| fill(function, @token, slate, change, *arguments(slate, place)) }
    end

    # @return [String] packed entries
    def many(keys)
      @slates.use { |slate| fill(:map_get_many, @token, slate, false, slate.texts(keys), keys.size) }
    end

    # @return [Array<Boolean>]
    def contains(keys)
      @slates.use do |slate|
        found = FFI::MemoryPointer.new(1, [keys.size, 1].max)
        _, completion = run(:state_contains_many, @token, slate, false, slate.texts(keys), keys.size, found)
        data = completion ? completion.data : found.get_bytes(0, keys.size)
        data.each_byte.map { |byte| byte == 1 }
      end
    end

    # @return [Integer]
    def size
      @slates.use do |slate|
        _, completion = run(:deque_size, @token, slate, false, slate.out)
        completion ? completion.value : slate.out.get_int64(0)
      end
    end

    # Yields the entries of a scan.
    def scan(query, &block)
      scan = start(query)
      while (data = @slates.use { |slate| fill(:scan_next, scan, slate, false, counted: true) })
        Entry.each(data, &block)
      end
    ensure
      @library.scan_close(scan) if scan
    end

    def release
      @library.state_release(@token)
    end

    private

    def arguments(slate, place)
      place.map { |part| part.is_a?(String) ? slate.text(part) : part }
    end

    def start(query)
      @slates.use do |slate|
        Tracing.enter(@library)
        status = @library.scan_open(@token, slate.query(query.pack(slate)), slate.out, slate.error)
        check(status, slate)
        slate.out.get_uint64(0)
      end
    end

    def check(status, slate, change: false)
      raise Access.fault(@library.exception(status, slate.error), change:) if status >= Library::ERR_ARGUMENT
    end

    # @return [Array(Integer, Packed::Completion)] the status, and the answer when it was waited for
    def run(function, token, slate, change, *arguments)
      status, completion = @port.fetch do |queue, tag|
        @library.public_send(function, token, queue, tag, *arguments, slate.error)
      end
      check(status, slate, change:)
      return [status, nil] unless completion

      if completion.status >= Library::ERR_ARGUMENT
        error = @library.fault(completion.status, completion.category, completion.text)
        raise Access.fault(error, change:)
      end
      [completion.status, completion]
    end

    # Calls with a buffer that is large enough.
    # @return [String, nil] the bytes; nil when there are none
    def fill(function, token, slate, change, *arguments, counted: false)
      buffer = slate.buffer
      capacity = Slate::CAPACITY
      last = counted ? [slate.size, slate.count] : [slate.size]
      loop do
        status, completion = run(function, token, slate, change, *arguments, buffer, capacity, *last)
        case status
        when Library::OK then return completion ? completion.data : slate.data(buffer)
        when Library::SHORT
          capacity = slate.length
          buffer = FFI::MemoryPointer.new(1, capacity, false)
        else return nil
        end
      end
    end
  end
  private_constant :Access

  # Packed entries, the answers with several items.
  # @private
  module Entry
    HEAD = "LLqL"
    SIZE = 24
    NULL = Library::NULL_SIZE
    private_constant :HEAD, :SIZE, :NULL

    # Yields the bytes of each value, or nil, and the key.
    def self.each(data)
      at = 0
      while at < data.bytesize
        size, value, _, key = data.unpack(HEAD, offset: at)
        start = at + SIZE
        length = value == NULL ? 0 : value
        yield value == NULL ? nil : data.byteslice(start, length),
              data.byteslice(start + length, key).force_encoding(Encoding::UTF_8)
        at += size
      end
    end
  end
  private_constant :Entry
end

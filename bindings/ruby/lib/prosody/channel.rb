# frozen_string_literal: true

require "io/wait"

module Prosody
  # Owns a queue of the library and the buffer into which it is read. One thread reads it.
  # @private
  class Channel
    CAPACITY = 256 * 1024
    HEAD = Packed::HEAD
    WAIT = { Object => :on_blocking }.freeze
    private_constant :CAPACITY, :HEAD, :WAIT

    attr_reader :handle

    def initialize(library)
      @library = library
      @error = Library.error
      out = FFI::MemoryPointer.new(:pointer)
      library.check(library.queue_create(out, @error), @error)
      @handle = out.get_pointer(0)
      @io = IO.for_fd(library.queue_fd(@handle), autoclose: false)
      @buffer = FFI::MemoryPointer.new(1, CAPACITY, false)
      @size = FFI::MemoryPointer.new(:size_t)
      @count = FFI::MemoryPointer.new(:uint32)
    end

    # Waits for records. Only here may a thread that masks interrupts be interrupted.
    def wait
      Thread.handle_interrupt(WAIT) { rest }
    rescue Exception # rubocop:disable Lint/RescueException
      nil # meant for somebody else
    end

    # Waits for records; a fiber lets others run.
    def rest
      @io.wait_readable
    rescue IOError, SystemCallError
      sleep 0.02 # somebody has closed the descriptor
    end

    # Yields kind, token and bytes of each record that is ready.
    # @return [Boolean] false when the queue can be read no more
    def drain
      loop do
        raw, count = take(@buffer, CAPACITY)
        return count.zero? if raw.nil?

        at = 0
        count.times do
          size, kind, _, token = raw.unpack(HEAD, offset: at)
          yield kind, token, raw.byteslice(at, size)
          at += size
        end
      end
    end

    def wake
      @library.queue_wake(@handle)
    end

    # Frees the queue; events that are still open count as failed.
    def destroy
      handle = @handle
      @handle = FFI::Pointer::NULL
      @library.queue_destroy(handle)
    end

    private

    # Bytes and their number of records; nil and 0 when there are none, nil and -1 at the end.
    def take(buffer, capacity)
      status = @library.queue_poll(@handle, buffer, capacity, 0, @size, @count, @error)
      if status == Library::SHORT
        need = @size.get(:size_t, 0)
        return take(FFI::MemoryPointer.new(1, need, false), need)
      end
      return [nil, -1] unless status == Library::OK

      count = @count.get_uint32(0)
      count.zero? ? [nil, 0] : [buffer.get_bytes(0, @size.get(:size_t, 0)), count]
    end
  end
  private_constant :Channel
end

# frozen_string_literal: true

require "ffi"

module Prosody
  # The shared library: its functions, its structures and its statuses.
  # Nothing is loaded before the first client. The layouts are those of prosody.h, version 1.
  #
  # Library.load gives a module that has the C functions as methods, and the ones of Calls.
  # @private
  module Library
    ABI = 1
    OK = 0
    PENDING = 1
    FINISHED = 3
    SHORT = 4
    ERR_ARGUMENT = 100
    ERR_FORKED = 201
    ERR_POISONED = 202
    NULL_SIZE = 0xFFFFFFFF
    ERROR_SIZE = 1024
    NO_ERROR = [ERROR_SIZE, 0, 0, 0].pack("LllL").freeze
    SUCCESS = 0
    TRANSIENT = 1
    PERMANENT = 2
    STATES = %i[unconfigured configured running shut_down].freeze
    CATEGORIES = %i[none usage closed transient permanent fatal].freeze

    # Borrowed bytes, passed by value.
    class Bytes < FFI::Struct
      layout :data, :pointer, :size, :size_t
    end

    TEXT = Bytes.by_value
    STATUS = :int32
    POINTER = :pointer
    TAG = :uint64
    CALL = [[POINTER, POINTER, TAG, POINTER], STATUS].freeze
    ASK = [[POINTER, POINTER, POINTER], STATUS].freeze
    DESTROY = [[POINTER], :void].freeze

    FUNCTIONS = {
      abi_version: [[], :uint32],
      version: [[], :string],
      status_name: [[STATUS], :string],
      signals_fix: [[], STATUS],
      options: [[POINTER, :size_t, POINTER, POINTER], STATUS],
      config_create: [[POINTER, POINTER], STATUS],
      config_set: [[POINTER, TEXT, TEXT, POINTER], STATUS],
      config_set_list: [[POINTER, TEXT, POINTER, :size_t, POINTER], STATUS],
      config_set_none: [[POINTER, TEXT, POINTER], STATUS],
      config_destroy: DESTROY,
      queue_create: [[POINTER, POINTER], STATUS],
      queue_fd: [[POINTER], :int],
      queue_poll: [[POINTER, POINTER, :size_t, :int32, POINTER, POINTER, POINTER], STATUS],
      queue_wake: [[POINTER], STATUS],
      queue_destroy: DESTROY,
      client_create: [[POINTER, POINTER, TAG, POINTER, POINTER], STATUS],
      client_subscribe: CALL,
      client_unsubscribe: CALL,
      client_shutdown: CALL,
      client_send: [[POINTER, POINTER, TAG, POINTER, POINTER], STATUS],
      client_excise: [[POINTER, POINTER, TAG, POINTER, POINTER], STATUS],
      client_request: [[POINTER, POINTER, TAG, POINTER, POINTER], STATUS],
      client_request_excise: [[POINTER, POINTER, TAG, POINTER, POINTER], STATUS],
      client_abandon: CALL,
      client_state: ASK,
      client_partitions: ASK,
      client_stalled: ASK,
      client_source: [[POINTER, POINTER, :size_t, POINTER, POINTER], STATUS],
      client_destroy: DESTROY,
      complete: [[POINTER, :size_t, POINTER], STATUS],
      trace_enter: [[TEXT, TEXT], STATUS],
      telemetry_flush: [[POINTER, TAG, POINTER], STATUS],
      telemetry_shutdown: [[POINTER, TAG, POINTER], STATUS],
      should_cancel: [[:uint64], STATUS],
      timer_schedule: [[:uint64, POINTER, TAG, :int64, :uint32, POINTER], STATUS],
      timer_unschedule: [[:uint64, POINTER, TAG, :int64, :uint32, POINTER], STATUS],
      timer_clear: [[:uint64, POINTER, TAG, :uint32, POINTER], STATUS],
      timer_list: [[:uint64, POINTER, TAG, POINTER, :size_t, POINTER, POINTER], STATUS],
      mock_advance: [[TEXT, :int64, POINTER], STATUS],
      mock_idle: [[TEXT, POINTER, TAG, :int32, POINTER], STATUS],
      mock_records: [[TEXT, TEXT, :uint64, POINTER, :size_t, POINTER, POINTER, POINTER], STATUS],
      mock_fail: [[TEXT, :uint32, TEXT, :int64, POINTER], STATUS],
      mock_rebalance: [[TEXT, TEXT, :int32, POINTER], STATUS],
      mock_forget: [[TEXT, POINTER], STATUS],
      mock_reader: [[POINTER, TEXT, POINTER, POINTER, POINTER], STATUS],
      admin_create: ASK,
      admin_create_topic: [[POINTER, POINTER, TAG, POINTER, POINTER], STATUS],
      admin_delete_topic: [[POINTER, POINTER, TAG, TEXT, POINTER], STATUS],
      admin_destroy: DESTROY
    }.freeze

    class << self
      # @raise [LoadError]
      def load(path = Place.find)
        Module.new do
          extend FFI::Library
          extend Calls
          ffi_lib_flags :now, :local
          Library.open(self, path)
          attach_function :abi_version, :prosody_abi_version, *FUNCTIONS.fetch(:abi_version)
          Library.same(abi_version, path)
          FUNCTIONS.merge(STATE_FUNCTIONS).each do |name, (arguments, result)|
            attach_function name, :"prosody_#{name}", arguments, result
          end
        end
      rescue FFI::NotFoundError => e
        raise LoadError, "#{path} does not belong to this gem: #{e.message}"
      end

      # Refuses a library of another version of the C interface.
      def same(version, path)
        return if version == ABI

        raise LoadError, "#{path} speaks version #{version} of the C interface, this gem version #{ABI}; " \
                         "install both from one release"
      end

      # Opens the library for a module.
      def open(functions, path)
        functions.ffi_lib path
      rescue LoadError => e
        raise LoadError, Place.reason(path, e.message)
      end

      # Memory for an error that a call may fill.
      def error
        FFI::MemoryPointer.new(1, ERROR_SIZE, false).put_bytes(0, NO_ERROR)
      end
    end

    # What is built on the C functions.
    module Calls
      # Raises when a status is an error.
      def check(status, error)
        raise exception(status, error) unless status == OK
      end

      # The exception for a status and the error that a call has filled.
      def exception(status, error)
        size = [error.get_uint32(12), ERROR_SIZE - 17].min
        fault(status, error.get_int32(8), error.get_bytes(16, size))
      end

      # ArgumentError for a malformed argument or option, otherwise a CallError.
      def fault(status, category, text)
        name = status_name(status)
        text = text.dup.force_encoding(Encoding::UTF_8).scrub
        text = name if text.empty?
        return ArgumentError.new(text) if status == ERR_ARGUMENT

        text = FORKED if status == ERR_FORKED
        CallError.new(text, status: name, category: CATEGORIES.fetch(category, :none))
      end

      # Calls a function that writes into a buffer.
      def text(function, *arguments)
        error = Library.error
        size = FFI::MemoryPointer.new(:size_t)
        capacity = 16_384
        loop do
          buffer = FFI::MemoryPointer.new(capacity)
          status = public_send(function, *arguments, buffer, capacity, size, error)
          capacity = size.get(:size_t, 0)
          return buffer.get_bytes(0, capacity).force_encoding(Encoding::UTF_8) if status == OK
          raise exception(status, error) unless status == SHORT
        end
      end

      # Makes a span the current one of the calling thread; nil: none.
      def enter(parent, state)
        first = bytes(parent.to_s)
        second = bytes(state.to_s)
        trace_enter(first, second)
      end

      # Bytes for an argument; what keeps them alive comes with them.
      def bytes(text)
        memory = FFI::MemoryPointer.new(1, [text.bytesize, 1].max)
        memory.put_bytes(0, text)
        Bytes.new.tap do |bytes|
          bytes[:data] = memory
          bytes[:size] = text.bytesize
        end
      end
    end
  end
  private_constant :Library

  FORKED = "Prosody::Client cannot be used after fork. Create a new client in the child process."
  private_constant :FORKED
end

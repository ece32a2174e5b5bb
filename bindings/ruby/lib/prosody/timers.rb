# frozen_string_literal: true

require "date"

module Prosody
  # The timer calls of an attempt.
  # @private
  class Timers
    CLEAR = 1
    IMMEDIATE = 2
    MOST = (2**32) - 1
    HALF = 1/2r
    private_constant :CLEAR, :IMMEDIATE, :MOST, :HALF

    # The second of a time, half a second rounded up.
    # @raise [ArgumentError] when it is no time, or out of range
    def self.second(time)
      moment = time.to_time if time.is_a?(DateTime) || (time.respond_to?(:to_time) && !time.is_a?(Date))
      raise ArgumentError, "expected a Time, got #{time.class}" if !moment.is_a?(Time) || time.is_a?(String)

      second = (moment.to_r + HALF).floor
      raise ArgumentError, "Invalid time: Time is out of range" unless second.between?(0, MOST)

      second
    end

    # @return [Time] in UTC
    def self.time(second)
      Time.at(second, in: "UTC")
    end

    def initialize(library, port, token)
      @library = library
      @port = port
      @token = token
    end

    def schedule(time, immediate, clear: false)
      change(:timer_schedule, [self.class.second(time)], (clear ? CLEAR : 0) | flag(immediate))
    end

    def unschedule(time, immediate)
      change(:timer_unschedule, [self.class.second(time)], flag(immediate))
    end

    def clear(immediate)
      change(:timer_clear, [], flag(immediate))
    end

    # @return [Array<Time>]
    def list
      ready = nil
      finish = lambda do |completion|
        ready || (check(completion) || completion.data.unpack("q*")).map { |second| self.class.time(second) }
      end
      @port.ask(finish) do |queue, tag, error|
        status, seconds = read(queue, tag, error)
        ready = seconds.map { |second| self.class.time(second) } if status == Library::OK
        status
      end
    end

    private

    def flag(immediate)
      immediate ? IMMEDIATE : 0
    end

    # What is not immediate ends in the call.
    def change(function, arguments, flags)
      if flags.anybits?(IMMEDIATE)
        @port.ask(method(:check)) do |queue, tag, error|
          @library.public_send(function, @token, queue, tag, *arguments, flags, error)
        end
      else
        error = Library.error
        Tracing.enter(@library)
        @library.check(@library.public_send(function, @token, nil, 0, *arguments, flags, error), error)
      end
      nil
    end

    def check(completion)
      return if completion.status == Library::OK

      raise @library.fault(completion.status, completion.category, completion.text)
    end

    def read(queue, tag, error)
      count = FFI::MemoryPointer.new(:size_t)
      capacity = 64
      loop do
        seconds = FFI::MemoryPointer.new(:int64, capacity, false)
        status = @library.timer_list(@token, queue, tag, seconds, capacity, count, error)
        number = count.get(:size_t, 0)
        return [status, status == Library::OK ? seconds.get_array_of_int64(0, number) : []] unless status == Library::SHORT

        capacity = number
      end
    end
  end
  private_constant :Timers
end

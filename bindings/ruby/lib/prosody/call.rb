# frozen_string_literal: true

module Prosody
  # The answer that a caller waits for. Fibers under a scheduler and plain threads wait without
  # holding up others.
  # @private
  class Call
    # @yield [completion] what the reader does when the call ends; its value is the answer
    def initialize(&finish)
      @finish = finish
      @answer = Thread::Queue.new
    end

    # Ends the call; runs on the reader's thread.
    def settle(completion)
      @answer << [true, @finish.call(completion)]
    rescue Exception => e # rubocop:disable Lint/RescueException
      @answer << [false, e]
    end

    def abort(error)
      @answer << [false, error]
    end

    # The answer, or the exception.
    def wait
      good, value = @answer.pop
      return value if good

      value.set_backtrace(caller(1)) # where the caller is, not the reader
      raise value
    end
  end
  private_constant :Call
end

# frozen_string_literal: true

module Prosody
  # Runs attempts as fibers of a reactor of the gem `async`, on one thread.
  # @private
  class Fibers
    IMMEDIATE = { Object => :immediate }.freeze
    private_constant :IMMEDIATE

    # Whether the program uses the gem.
    def self.wanted?
      defined?(::Async::Task) && Kernel.respond_to?(:Async, true)
    end

    # Reads the subscription until it ends and all attempts are over.
    def read(subscription)
      Thread.handle_interrupt(IMMEDIATE) do
        Kernel.send(:Async) do |root|
          @root = root
          subscription.rest while subscription.drain
        end
      end
    end

    def start(attempt)
      @root.async { |task| attempt.run(Strand.new(task)) }
    end

    def stop(attempt, reason)
      attempt.cancel(reason) { attempt.runner&.stop(attempt) }
    end

    # The thread has died, and all fibers with it.
    def lost(attempts)
      attempts.each(&:abandon)
    end

    def close; end

    # The fiber of an attempt.
    Strand = Struct.new(:task) do
      def guard(_attempt)
        yield
      end

      def stop(_attempt)
        task.stop
      end
    end
    private_constant :Strand
  end
  private_constant :Fibers
end

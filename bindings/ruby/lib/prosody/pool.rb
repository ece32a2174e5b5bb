# frozen_string_literal: true

module Prosody
  # Runs attempts on threads. There are as many threads as attempts were open at once; they are
  # used again. The core bounds the attempts by max_concurrency.
  # @private
  class Pool
    NEVER = Hash[Object, :never].freeze
    WAIT = Hash[Object, :on_blocking].freeze
    private_constant :NEVER, :WAIT

    # @param ending [#call] whether the process ends: then no thread may be started
    def initialize(ending)
      @jobs = Thread::Queue.new
      @ending = ending
    end

    # Reads the subscription until it ends.
    def read(subscription)
      Thread.handle_interrupt(NEVER) do
        subscription.wait while subscription.drain
      end
    end

    def start(attempt)
      @jobs << attempt
      grow
    end

    def stop(attempt, reason)
      attempt.cancel(reason) { attempt.runner&.stop(attempt) }
    end

    # The thread that read has died; the ones of the attempts live on.
    def lost(_attempts); end

    # The threads end when they have done what is there.
    def close
      @jobs.close
    end

    private

    # Busy threads may stay busy: each waiting attempt needs a waiting thread.
    def grow
      Worker.new(@jobs, method(:left)) if @jobs.size > @jobs.num_waiting
    rescue ThreadError
      nil # no more threads: those that there are do the work
    end

    # A thread was killed: another takes its place.
    def left
      grow unless @ending.call
    end

    # A thread of the pool.
    class Worker
      USER = { Object => :immediate, Cancelled => :on_blocking }.freeze
      FLUSH = { Cancelled => :immediate }.freeze
      private_constant :USER, :FLUSH

      def initialize(jobs, left)
        @jobs = jobs
        @left = left
        @lock = Mutex.new
        @current = nil
        @raised = false
        @thread = Thread.new { work }
        @thread.name = "prosody-worker"
      end

      # Runs code of the user: only there interrupts are let in.
      def guard(attempt, &code)
        enter(attempt)
        Thread.handle_interrupt(USER, &code)
      ensure
        leave
      end

      # Stops the handler, if it still runs.
      def stop(attempt)
        @lock.synchronize do
          next unless @current.equal?(attempt)

          @raised = true
          @thread.raise(attempt.cancelled)
        end
      end

      private

      def work
        @thread = Thread.current
        Thread.handle_interrupt(NEVER) do
          while (attempt = take)
            attempt.run(self)
          end
        end
      ensure
        @left.call
      end

      def take
        Thread.handle_interrupt(WAIT) { @jobs.pop }
      rescue Exception # rubocop:disable Lint/RescueException
        retry # meant for a handler that is over
      end

      def enter(attempt)
        @lock.synchronize { @current = attempt }
        raise attempt.cancelled if attempt.cancelled
      end

      # Nothing raised for this attempt may reach the next one.
      def leave
        @lock.synchronize { @current = nil }
        return unless @raised

        @raised = false
        Thread.handle_interrupt(FLUSH) { Thread.pass }
      rescue Cancelled
        nil
      end
    end
    private_constant :Worker
  end
  private_constant :Pool
end

# frozen_string_literal: true

module Prosody
  # Runs attempts on threads, which are used again. The core bounds the attempts by max_concurrency.
  #
  # At most one thread at a time is called to work; before it runs a handler, which may block, it calls
  # the next one. So quick handlers all run on one thread, without a switch for each.
  # @private
  class Pool
    NEVER = { Object => :never }.freeze
    WAIT = { Object => :on_blocking }.freeze
    private_constant :NEVER, :WAIT

    # @param ending [#call] whether the process ends: then no thread may be started
    def initialize(ending)
      @ending = ending
      @jobs = []
      @bell = Thread::Queue.new
      @called = false # a thread is on its way to the jobs
      @workers = {}.compare_by_identity
      @running = {}.compare_by_identity
    end

    # Reads the subscription until it ends.
    def read(subscription)
      Thread.handle_interrupt(NEVER) do
        subscription.wait while subscription.drain
      end
    end

    def start(attempt)
      @jobs << attempt
      summon
    end

    def stop(attempt, reason)
      attempt.cancel(reason) { attempt.runner&.stop(attempt) }
    end

    # The thread that read has died; the ones of the attempts live on.
    def lost(_attempts); end

    # The threads end when they have done what is there.
    def close
      @bell.close
    end

    # Waits for attempts and runs them. Between handlers no interrupt is let in.
    # @private
    def work(worker)
      Thread.handle_interrupt(NEVER) do
        @workers[worker] = true
        loop do
          @called = false
          while (attempt = @jobs.shift)
            @running[worker] = attempt
            summon unless @jobs.empty?
            attempt.run(worker)
            @running.delete(worker)
          end
          break unless rest
        end
      end
    ensure
      leave(worker)
    end

    private

    def summon
      return if @called

      @called = true
      # A thread that is neither waiting nor running a handler is about to look for jobs.
      if @bell.num_waiting.positive? || @workers.size > @running.size
        @bell << true
      else
        Worker.new(self)
      end
    rescue ThreadError, ClosedQueueError
      @called = false # no more threads: those that there are do the work
    end

    # @return [Boolean] false when there is nothing more to do
    def rest
      Thread.handle_interrupt(WAIT) { @bell.pop }
    rescue Exception # rubocop:disable Lint/RescueException
      true # meant for a handler that is over
    end

    # When the thread was killed, another takes its place.
    def leave(worker)
      @workers.delete(worker)
      @running.delete(worker)
      @called = false
      summon unless @jobs.empty? || @ending.call
    end

    # A thread of the pool.
    class Worker
      USER = { Object => :immediate, Cancelled => :on_blocking }.freeze
      FLUSH = { Cancelled => :immediate }.freeze
      private_constant :USER, :FLUSH

      def initialize(pool)
        @lock = Mutex.new
        @current = nil
        @raised = false
        Thread.new do
          @thread = Thread.current
          @thread.name = "prosody-worker"
          pool.work(self)
        end
      end

      # Runs code of the user: only there interrupts are let in.
      def guard(attempt, &block)
        @lock.synchronize { @current = attempt }
        raise attempt.cancelled if attempt.cancelled

        Thread.handle_interrupt(USER, &block)
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

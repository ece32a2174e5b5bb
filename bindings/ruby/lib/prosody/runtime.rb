# frozen_string_literal: true

require "timeout"

module Prosody
  # What a process has once: the loaded library, the port for answers, the log, the open clients.
  # It is made with the first client, so that requiring the gem before a fork is harmless.
  # @private
  class Runtime
    EXIT_LIMIT = 5 # seconds that the end of the process waits for clients that were not shut down
    LOG_LIMIT = 1
    private_constant :EXIT_LIMIT, :LOG_LIMIT

    @lock = Mutex.new

    class << self
      # @raise [CallError] in a forked child
      def current
        runtime = @current || @lock.synchronize { @current ||= new }
        runtime.check
        runtime
      end
    end

    attr_reader :library, :port, :log, :slates

    def initialize
      @library = Library.load
      @pid = Process.pid
      @cores = {}.compare_by_identity
      @slates = Slates.new
      @ending = false
      @log = Log.new
      @port = Port.new(@library, @log)
      Signals.install(@library)
      at_exit { finish }
    end

    # Whether the process ends: no thread is started any more.
    def ending?
      @ending
    end

    def forked?
      Process.pid != @pid
    end

    # Refuses work in a forked child.
    def check
      raise CallError.new(FORKED, status: "PROSODY_ERR_FORKED", category: :usage) if forked?
    end

    def add(core)
      @cores[core] = true
    end

    def remove(core)
      @cores.delete(core)
    end

    private

    # Leaves the groups at once when the process ends without a shutdown.
    def finish
      return if forked?

      @ending = true
      @port.ending
      ::Timeout.timeout(EXIT_LIMIT) { @cores.keys.map { |core| leave(core) }.each { |call| call&.wait } }
    rescue ::Timeout::Error, CallError
      nil # the process ends all the same
    ensure
      @log.close(LOG_LIMIT) unless forked?
    end

    def leave(core)
      core.begin_shutdown
    rescue CallError
      nil
    end
  end
  private_constant :Runtime
end

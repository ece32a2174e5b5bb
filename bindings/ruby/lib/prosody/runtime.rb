# frozen_string_literal: true

require "timeout"

module Prosody
  # What a process has once: the loaded library, the port for answers, the log, the open clients.
  # It is made with the first client, so that requiring the gem before a fork is harmless.
  # @private
  class Runtime
    EXIT_LIMIT = 5 # seconds that the end of the process waits for clients that were not shut down
    LOG_LIMIT = 1
    EXPORT_LIMIT = 6
    private_constant :EXIT_LIMIT, :LOG_LIMIT, :EXPORT_LIMIT

    @lock = Mutex.new

    class << self
      # @raise [CallError] in a forked child
      def current
        runtime = @current || @lock.synchronize { @current ||= new }
        runtime.check
        runtime
      end

      # @return [Runtime, nil] the one that there is
      def known
        @current
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

    # Waits for a flush or the end of the export; what it cannot send is a line in the log.
    # @return [nil]
    def settle(function)
      return if forked?

      finish = lambda do |completion|
        failed = completion && completion.status != Library::OK
        @log.write(Logger::WARN, "prosody.telemetry", completion.text) if failed
        nil
      end
      @port.begin(finish) { |queue, tag, error| @library.public_send(function, queue, tag, error) }.wait
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
      export unless forked?
      @log.close(LOG_LIMIT) unless forked?
    end

    # The library itself gives up earlier.
    def export
      ::Timeout.timeout(EXPORT_LIMIT) { settle(:telemetry_shutdown) }
    rescue ::Timeout::Error, CallError
      nil
    end

    def leave(core)
      core.begin_shutdown
    rescue CallError
      nil
    end
  end
  private_constant :Runtime
end

# frozen_string_literal: true

module Prosody
  # Reports exceptions of handlers to Sentry, when SENTRY_DSN is set and the program has the gem.
  # @private
  module Reports
    class << self
      # @param error [Exception] what the handler has raised; the cause of a permanent or transient error counts
      # @param kind [String] message, excise or timer
      # @param context [Hash] what the event is
      def capture(error, kind, context, log)
        return unless (sdk = self.sdk(log))

        error = error.cause if error.is_a?(EventHandlerError) && error.cause
        sdk.with_scope do |scope|
          scope.set_tags("prosody.event_type" => kind)
          scope.set_context("prosody", context)
          sdk.capture_exception(error)
        end
      rescue StandardError => e
        log.write(Logger::ERROR, "prosody.sentry", "the exception could not be reported: #{e.class}: #{e.message}")
      end

      # Forgets what was found out; for tests.
      def reset
        @sdk = nil
      end

      private

      def sdk(log)
        @sdk = find(log) if @sdk.nil?
        @sdk || nil
      end

      def find(log)
        return false if ENV["SENTRY_DSN"].to_s.empty?

        require "sentry-ruby" unless defined?(::Sentry)
        ::Sentry.init unless ::Sentry.initialized?
        ::Sentry
      rescue LoadError
        log.write(Logger::ERROR, "prosody.sentry", "SENTRY_DSN is set, but the gem sentry-ruby is missing")
        false
      end
    end
  end
  private_constant :Reports
end

# frozen_string_literal: true

# A Kafka client for services that keep state per key.
#
# Requiring it loads no native library: that happens with the first client.
module Prosody
  @logger = nil

  class << self
    # The logger of the library; by default it writes to the standard output from INFO on.
    # @return [Logger]
    def logger
      @logger ||= Logger.new($stdout, level: Logger::INFO)
    end

    # nil brings the default back.
    attr_writer :logger

    # Sends what has been recorded to the OpenTelemetry collector; it takes some seconds at most.
    # Without an exporter it does nothing.
    # @return [nil]
    def flush_telemetry
      Runtime.known&.settle(:telemetry_flush)
    end

    # Sends what has been recorded and ends the export. Calling it again is fine; the end of the process calls it too.
    # @return [nil]
    def shutdown_telemetry
      Runtime.known&.settle(:telemetry_shutdown)
    end
  end
end

require "logger"
require_relative "prosody/version"
require_relative "prosody/errors"
require_relative "prosody/classification"
require_relative "prosody/handler"
require_relative "prosody/seconds"
require_relative "prosody/configuration"
require_relative "prosody/codec"
require_relative "prosody/message"
require_relative "prosody/context"
require_relative "prosody/request"
require_relative "prosody/log"
require_relative "prosody/place"
require_relative "prosody/library"
require_relative "prosody/state/functions"
require_relative "prosody/state/slate"
require_relative "prosody/settings"
require_relative "prosody/packed"
require_relative "prosody/tracing"
require_relative "prosody/sentry"
require_relative "prosody/call"
require_relative "prosody/channel"
require_relative "prosody/port"
require_relative "prosody/timers"
require_relative "prosody/state/definition"
require_relative "prosody/state/content"
require_relative "prosody/state/query"
require_relative "prosody/state/access"
require_relative "prosody/state/collection"
require_relative "prosody/state/map"
require_relative "prosody/state/deque"
require_relative "prosody/state/states"
require_relative "prosody/state/published"
require_relative "prosody/attempt"
require_relative "prosody/pool"
require_relative "prosody/fibers"
require_relative "prosody/subscription"
require_relative "prosody/outgoing"
require_relative "prosody/core"
require_relative "prosody/signals"
require_relative "prosody/runtime"
require_relative "prosody/client"
require_relative "prosody/admin"
require_relative "prosody/mock"

Prosody.extend Prosody::Definitions

# frozen_string_literal: true

module Prosody
  # For tests: what clients in mock mode have in common.
  module Mock
    # Moves the clock of the clients in mock mode with these servers forward: timers and retries that become due
    # come now. From there it flows on; it never goes back. How long handlers and calls take is measured in real
    # time.
    # @param seconds [Numeric] at most 100 years
    # @param bootstrap_servers [String, Array<String>]
    # @return [nil]
    # @raise [ArgumentError] also when there are no such clients
    def self.advance(seconds, bootstrap_servers)
      unless seconds.is_a?(Numeric) && seconds.real? && seconds.to_f.finite?
        raise ArgumentError, "expected seconds, got #{seconds.inspect}"
      end

      library = Runtime.current.library
      error = Library.error
      servers = library.bytes(Array(bootstrap_servers).map { |one| Codec.text(one, "bootstrap_servers") }.join(","))
      milliseconds = (seconds.to_r * 1000).ceil.clamp(-1, (2**63) - 1)
      library.check(library.mock_advance(servers, milliseconds, error), error)
    end
  end
end

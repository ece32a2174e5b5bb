# frozen_string_literal: true

require "prosody/testing"
require "minitest"

module Prosody
  module Testing
    # Include it into a Minitest::Test: prosody_service makes services, which close after each test.
    module Minitest
      include Helper

      # @private
      def after_teardown
        close_prosody_services
      ensure
        super
      end
    end
  end
end

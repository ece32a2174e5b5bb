# frozen_string_literal: true

require "prosody/testing"
require "rspec/core"

# Each example has prosody_service; what it makes closes after the example.
RSpec.configure do |config|
  config.include Prosody::Testing::Helper
  config.after { close_prosody_services }
end

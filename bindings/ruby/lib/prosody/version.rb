# frozen_string_literal: true

module Prosody
  VERSION = "0.1.0"
end

# frozen_string_literal: true

module Prosody
  # The version of this gem and of the library in it.
  VERSION = "0.1.0"
end

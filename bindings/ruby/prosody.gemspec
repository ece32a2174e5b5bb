# frozen_string_literal: true

require_relative "lib/prosody/version"

# PROSODY_GEM_NATIVE=1 makes a gem for one platform, with both libraries in lib/prosody/native.
Gem::Specification.new do |spec|
  spec.name = "prosody"
  spec.version = Prosody::VERSION
  spec.summary = "A Kafka client for services that keep state per key"
  spec.description = "Per-key order, retries, deferral and graceful shutdown; handlers run on threads or fibers."
  spec.authors = ["Prosody authors"]
  spec.license = "MIT"
  spec.required_ruby_version = ">= 3.1"
  spec.metadata["rubygems_mfa_required"] = "true"

  spec.files = Dir.chdir(__dir__) do
    Dir["lib/**/*.rb", "lib/prosody/native/*", "sig/**/*.rbs", "examples/*.rb", "README.md", "LICENSE*", "NOTICES*"]
  end
  spec.require_paths = ["lib"]
  spec.platform = Gem::Platform.local if ENV["PROSODY_GEM_NATIVE"] == "1"

  spec.add_dependency "ffi", "~> 1.15"
end

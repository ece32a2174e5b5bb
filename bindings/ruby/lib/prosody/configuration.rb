# frozen_string_literal: true

require_relative "options"

module Prosody
  # The options of a client, converted when they are set. nil means not set.
  #
  #   Prosody::Configuration.new(group_id: "billing") { |c| c.subscribed_topics = "orders" }
  class Configuration
    MODES = %i[pipeline low_latency best_effort].freeze
    private_constant :MODES

    # @param options [Hash, Configuration] values by name
    # @yieldparam configuration [Configuration]
    # @raise [NoMethodError] when no option has the name
    # @raise [ArgumentError] when a value, or the whole, is of a wrong type
    def initialize(options = {})
      raise ArgumentError, "expected a Hash of options, got #{options.class}" unless options.respond_to?(:to_hash)

      @values = {}
      options.to_hash.each { |name, value| public_send(:"#{name}=", value) }
      yield self if block_given?
    end

    # A reader and a writer for each option. docs/configuration.md tells what each is for, sig/configuration.rbs what
    # each takes.
    OPTIONS.each do |name, type|
      define_method(name) { @values[name] }
      define_method(:"#{name}=") { |value| @values[name] = value.nil? ? nil : send(:"to_#{type}", value) }
    end

    # @return [Hash{Symbol => Object}] what is set
    def to_hash
      @values.compact
    end
    alias to_h to_hash

    # Names what is set; values may be secret.
    def inspect
      "#<#{self.class} #{to_hash.keys.join(', ')}>"
    end
    alias to_s inspect

    private

    def initialize_copy(other)
      super
      @values = @values.dup
    end

    def to_string(value)
      value.to_s
    end

    def to_word(value)
      value.to_s.tr("_", "-")
    end

    def to_mode(value)
      word = value.to_s.downcase.tr("-", "_").to_sym
      MODES.include?(word) ? word : raise(ArgumentError, "Invalid mode: #{value}")
    end

    def to_list(value)
      return [value] if value.is_a?(String)
      raise ArgumentError, "Invalid type for list: #{value.class}" unless value.respond_to?(:to_a)

      value.to_a.map(&:to_s)
    end

    def to_bool(value)
      value ? true : false
    end

    def to_int(value)
      Integer(value)
    rescue TypeError, FloatDomainError
      raise ArgumentError, "Invalid integer: #{value.inspect}"
    end

    def to_float(value)
      Float(value)
    rescue TypeError
      raise ArgumentError, "Invalid number: #{value.inspect}"
    end

    def to_duration(value)
      Seconds.of(value) || raise(ArgumentError, "Invalid type for duration: #{value.class}")
    end

    # false means off.
    def to_port(value)
      return false if [false, :disabled, "disabled"].include?(value)

      port = to_int(value)
      port.between?(0, 65_535) ? port : raise(ArgumentError, "Invalid probe_port: #{value}")
    end

    def to_read_cache(value)
      [true, false].include?(value) ? value : Seconds.of(value) || to_float(value)
    end

    # Definitions, or the hashes that they turn into.
    def to_collections(value)
      (value.is_a?(Hash) ? [value] : Array(value)).map do |definition|
        next definition.to_state_config if definition.respond_to?(:to_state_config)
        next definition.to_hash if definition.respond_to?(:to_hash)

        raise ArgumentError, "Invalid state collection: #{definition.class}"
      end
    end

    # Properties of librdkafka by name.
    def to_properties(value)
      raise ArgumentError, "Invalid type for kafka: #{value.class}, expected a Hash" unless value.respond_to?(:to_hash)

      value.to_hash.to_h { |name, setting| [name.to_s, setting.to_s] }
    end
  end
end

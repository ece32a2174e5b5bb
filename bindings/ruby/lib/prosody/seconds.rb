# frozen_string_literal: true

module Prosody
  # Lengths of time, as callers give them.
  # @private
  module Seconds
    # @param value [Numeric, ActiveSupport::Duration]
    # @return [Numeric, nil] seconds, an Integer as it is, so that it stays exact; nil when it is no length of time
    def self.of(value)
      return value if value.instance_of?(Integer)
      return unless duration?(value) || (value.is_a?(Numeric) && value.real?)

      value.to_f
    end

    # Such a duration says of itself that it is an Integer.
    def self.duration?(value)
      defined?(::ActiveSupport::Duration) && ::ActiveSupport::Duration === value # rubocop:disable Style/CaseEquality
    end
    private_class_method :duration?
  end
  private_constant :Seconds
end

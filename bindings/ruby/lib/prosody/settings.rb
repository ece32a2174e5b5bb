# frozen_string_literal: true

require "json"

module Prosody
  # Turns a configuration into one of the library.
  # @private
  module Settings
    class << self
      # Yields the native configuration and frees it afterwards.
      def open(library, configuration)
        error = Library.error
        out = FFI::MemoryPointer.new(:pointer)
        library.check(library.config_create(out, error), error)
        config = out.get_pointer(0)
        begin
          configuration.to_hash.each { |name, value| set(library, config, error, name, value) }
          yield config
        ensure
          library.config_destroy(config)
        end
      end

      private

      def set(library, config, error, name, value)
        if name == :kafka
          value.each { |property, setting| put(library, config, error, "kafka.#{property}", setting) }
        else
          put(library, config, error, name.name, text(name, value))
        end
      end

      def put(library, config, error, name, value)
        title = library.bytes(Codec.text(name, "option"))
        status =
          case value
          when nil then library.config_set_none(config, title, error)
          when Array then list(library, config, error, title, value.map { |item| Codec.text(item, name) })
          else library.config_set(config, title, library.bytes(Codec.text(value, name)), error)
          end
        library.check(status, error)
      end

      def list(library, config, error, title, items)
        parts = items.map { |item| library.bytes(item) }
        memory = FFI::MemoryPointer.new(Library::Bytes, [parts.size, 1].max)
        parts.each_with_index do |part, index|
          memory.put_bytes(index * Library::Bytes.size, part.pointer.get_bytes(0, Library::Bytes.size))
        end
        library.config_set_list(config, title, memory, parts.size, error)
      end

      # The text of a value, an array of texts, or nil for what is switched off.
      def text(name, value)
        case OPTIONS.fetch(name)
        when :mode then value.name.tr("_", "-")
        when :list then value
        when :duration then duration(name, value)
        when :float then finite(name, value)
        when :port then value == false ? nil : value.to_s
        when :read_cache then read_cache(name, value)
        when :collections then collections(name, value)
        else value.to_s
        end
      end

      def collections(name, value)
        Codec.encode(value)
      rescue ArgumentError => e
        raise ArgumentError, "#{name}: #{e.message}"
      end

      def duration(name, seconds)
        finite(name, seconds)
        raise ArgumentError, "#{name}: a duration must not be negative, got #{seconds}" if seconds.negative?

        "#{(seconds * 1_000_000_000).round}ns"
      end

      def finite(name, number)
        raise ArgumentError, "#{name}: must be a finite number, got #{number}" unless number.finite?

        number.to_s
      end

      def read_cache(name, value)
        raise ArgumentError, "#{name}: true is ambiguous; use a duration or false" if value == true

        value == false ? nil : duration(name, value)
      end
    end
  end
  private_constant :Settings
end

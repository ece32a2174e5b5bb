# frozen_string_literal: true

require "json"

module Prosody
  # JSON as Prosody carries it: strict in both directions, exact for numbers.
  # @private
  module Codec
    LEAST = -(2**63)
    MOST = (2**64) - 1
    DEPTH = 500

    GENERATE = { max_nesting: DEPTH }.freeze
    PARSE = { max_nesting: DEPTH, create_additions: false }.freeze
    HUGE = /[eE]\+?\d{3}|\d{300}/ # such numbers may be beyond a Float
    private_constant :GENERATE, :PARSE, :HUGE

    class << self
      # Compact JSON in UTF-8.
      # @raise [ArgumentError] when the value has no exact JSON form
      def encode(value)
        JSON.generate(plain(value, 0), GENERATE)
      rescue JSON::GeneratorError => e
        raise ArgumentError, "value is not representable as JSON: #{e.message}"
      end

      # The value of JSON in UTF-8.
      # @raise [JSON::ParserError] when Ruby cannot hold it
      def decode(text)
        text.force_encoding(Encoding::UTF_8)
        raise JSON::ParserError, "not valid UTF-8" unless text.valid_encoding?

        value = JSON.parse(text, PARSE)
        finite(value) if HUGE.match?(text)
        value
      end

      # A text in UTF-8; bytes are taken as UTF-8, other encodings are converted.
      # @raise [ArgumentError] when that would change or lose something
      def text(value, name)
        value = value.name if value.is_a?(Symbol)
        raise ArgumentError, "#{name}: expected a String, got #{value.class}" unless value.is_a?(String)

        utf8(value) || raise(ArgumentError, "#{name}: the text is not valid #{encoding(value)}")
      end

      private

      # The same value of plain classes, so that the generator has nothing to guess.
      def plain(value, depth)
        case value
        when String then utf8(value) || refuse("a text is not valid #{encoding(value)}")
        when Integer then integer(value)
        when nil, true, false then value
        when Hash then object(value, depth)
        when Float then value.finite? ? value : refuse(value.to_s)
        when Symbol then plain(value.name, depth)
        when Array then array(value, depth)
        else other(value, depth)
        end
      end

      def integer(value)
        return value if value >= LEAST && value <= MOST

        refuse("an integer is beyond 64 bits (#{value.bit_length} bits)")
      end

      def array(value, depth)
        refuse("nested more than #{DEPTH} deep") if depth == DEPTH
        value.map { |item| plain(item, depth + 1) }
      end

      def object(value, depth)
        refuse("nested more than #{DEPTH} deep") if depth == DEPTH
        result = {}
        value.each { |key, item| result[name(key)] = plain(item, depth + 1) }
        refuse("two keys of an object are the same text") if result.size != value.size
        result
      end

      def name(key)
        case key
        when String then utf8(key) || refuse("a key is not valid #{encoding(key)}")
        when Symbol then name(key.name)
        when Integer then key.to_s
        else refuse("a key is #{key.class}, not String")
        end
      end

      def other(value, depth)
        return object(value.to_hash, depth) if value.respond_to?(:to_hash)
        return array(value.to_ary, depth) if value.respond_to?(:to_ary)
        return array(value.to_a, depth) if defined?(::Set) && value.is_a?(::Set)

        refuse(value.class.to_s)
      end

      def refuse(what)
        raise ArgumentError, "value is not representable as JSON: #{what}"
      end

      def utf8(text)
        case text.encoding
        when Encoding::UTF_8, Encoding::US_ASCII then text.valid_encoding? ? exact(text) : nil
        when Encoding::BINARY
          bytes = String.new(text, encoding: Encoding::UTF_8)
          bytes if bytes.valid_encoding?
        else text.encode(Encoding::UTF_8)
        end
      rescue EncodingError
        nil
      end

      def exact(text)
        text.instance_of?(String) ? text : String.new(text)
      end

      def encoding(text)
        text.encoding == Encoding::BINARY ? "UTF-8" : text.encoding.name
      end

      def finite(value)
        case value
        when Float then raise JSON::ParserError, "a number is beyond 64 bits" unless value.finite?
        when Array then value.each { |item| finite(item) }
        when Hash then value.each_value { |item| finite(item) }
        end
      end
    end
  end
  private_constant :Codec
end

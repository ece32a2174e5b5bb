# frozen_string_literal: true

module Prosody
  # Reads a collection that a service publishes, for any key. It needs no subscription and sees what is committed.
  #
  # A read raises TransientStateError while nobody publishes the collection, PermanentStateError when it is of another
  # kind there.
  class Published
    # What frees a reader that was collected.
    # @private
    def self.finalizer(runtime, reader)
      proc { runtime.library.reader_destroy(reader) unless runtime.forked? }
    end

    # @private
    def initialize(runtime, reader, definition)
      @runtime = runtime
      @reader = reader
      @definition = definition
      ObjectSpace.define_finalizer(self, Published.finalizer(runtime, reader))
    end

    def inspect
      "#<#{self.class} #{@definition.name}>"
    end

    private

    # Yields the collection of a key.
    def at(key)
      @runtime.check
      access = Access.new(@runtime, bind(Query.key(key)))
      begin
        yield States::HANDLES.fetch(@definition.kind).new(access, content)
      ensure
        access.release
      end
    end

    def content
      @definition.payload == "message" ? MessageContent.new({}) : JsonContent
    end

    # Has a scan of the collection of a key run, or gives an Enumerator when there is no block.
    def walk(key, name, query, block)
      unless block
        at(key) { |all| all.public_send(name, **query) } # tells at once what makes no sense
        return Enumerator.new { |out| walk(key, name, query, out.method(:<<)) }
      end
      at(key) { |all| all.public_send(name, **query, &block) }
      self
    end

    def bind(key)
      library = @runtime.library
      @runtime.slates.use do |slate|
        status = library.reader_bind(@reader, slate.text(key), slate.out, slate.error)
        raise Access.fault(library.exception(status, slate.error)) unless status == Library::OK

        slate.out.get_uint64(0)
      end
    end

    def initialize_copy(_other)
      raise TypeError, "a reader cannot be copied"
    end
  end
  private_constant :Published

  # Reads a published value.
  class PublishedValue < Published
    # @return [Object, nil]
    def get(key)
      at(key, &:get)
    end
    alias value get
  end

  # Defines methods of readers that pass on to the collection of a key.
  # @private
  module Passing
    def pass(*names)
      names.each { |name| define_method(name) { |key, *rest, &block| at(key) { |all| all.public_send(name, *rest, &block) } } }
    end

    def scans(*names)
      names.each { |name| define_method(name) { |key, **query, &block| walk(key, name, query, block) } }
    end
  end
  private_constant :Passing

  # Reads a published map. Its methods are those of MapState that read, with the key before the other arguments.
  #
  #   totals.get("order-1", "apples")
  #   totals.each_pair("order-1", prefix: "a") { |name, count| … }
  class PublishedMap < Published
    extend Passing

    pass :get, :[], :fetch, :dig, :get_many, :values_at, :slice, :fetch_values, :key?, :has_key?, :include?, :member?,
         :contains_many, :empty?
    scans :each_pair, :each, :each_key, :each_value, :reverse_each_pair, :reverse_each, :reverse_each_key,
          :reverse_each_value
  end

  # Reads a published set. Its methods are those of SetState that read, with the key before the other arguments.
  class PublishedSet < Published
    extend Passing

    pass :include?, :member?, :contains_many, :empty?
    scans :each, :reverse_each
  end

  # Reads a published deque. Its methods are those of DequeState that read, with the key before the other arguments.
  class PublishedDeque < Published
    extend Passing

    pass :get, :fetch, :first, :last, :length, :size, :empty?
    scans :each, :reverse_each
  end

  # Opens readers.
  # @private
  module Readers
    KINDS = { "value" => PublishedValue, "map" => PublishedMap, "set" => PublishedSet, "deque" => PublishedDeque }.freeze
    private_constant :KINDS

    class << self
      # @yield [subsystem, collection, out, error] opens the native reader and returns the status
      def open(runtime, subsystem, definition)
        States.check(definition)
        name = Codec.text(subsystem, "subsystem")
        cache = milliseconds(definition.read_cache)
        reader = runtime.slates.use do |slate|
          status = yield slate.text(name), slate.collection(States.pack(definition, slate, cache)), slate.out, slate.error
          raise Access.fault(runtime.library.exception(status, slate.error)) unless status == Library::OK

          slate.out.get_pointer(0)
        end
        KINDS.fetch(definition.kind).new(runtime, reader, definition)
      end

      private

      def milliseconds(cache)
        case cache
        when nil then 0
        when false then -1
        else
          raise PermanentStateError, "invalid read-cache policy: cache ttl is zero" unless cache.positive?

          (cache * 1000).ceil.clamp(1, (2**63) - 1)
        end
      end
    end
  end
  private_constant :Readers
end

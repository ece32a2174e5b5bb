# frozen_string_literal: true

module Prosody
  # The collections of an attempt: one handle for each.
  # @private
  class States
    HANDLES = { "value" => ValueState, "map" => MapState, "set" => SetState, "deque" => DequeState }.freeze
    OVER = "state access attempted on a terminated context"

    # The structure of the library for a definition; the slate keeps its text.
    def self.pack(definition, slate, cache = 0)
      name = definition.name
      payload = definition.payload == "message" ? 1 : 0
      [Library::COLLECTION_SIZE, Library::KINDS.fetch(definition.kind), payload, 0, slate.keep(name), name.bytesize, cache]
        .pack(Library::COLLECTION)
    end

    # @raise [TypeError] when it is no definition
    def self.check(definition)
      return definition if definition.is_a?(StateDefinition) && HANDLES.key?(definition.kind)

      raise TypeError, "expected a Prosody::StateDefinition, got #{definition.class}"
    end

    def initialize(runtime, names, invocation)
      @runtime = runtime
      @invocation = invocation
      @messages = MessageContent.new(names)
      @handles = {}
    end

    # @return [ValueState, MapState, SetState, DequeState] always the same for a collection
    def bind(definition)
      States.check(definition)
      @handles[definition.identity] ||= make(definition)
    end

    private

    def make(definition)
      content = definition.payload == "message" ? @messages : JsonContent
      HANDLES.fetch(definition.kind).new(Access.new(@runtime, token(definition)), content)
    end

    def token(definition)
      library = @runtime.library
      @runtime.slates.use do |slate|
        status = library.state_bind(@invocation, slate.collection(States.pack(definition, slate)), slate.out, slate.error)
        raise Access.fault(library.exception(status, slate.error)) unless status == Library::OK

        slate.out.get_uint64(0)
      end
    end
  end
  private_constant :States
end

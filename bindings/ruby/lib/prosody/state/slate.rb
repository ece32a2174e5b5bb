# frozen_string_literal: true

module Prosody
  # Memory for one call on keyed state, used again by the next one.
  # @private
  class Slate
    CAPACITY = 64 * 1024
    ITEM = "LlqQQQQ"
    ITEM_SIZE = 48
    PAIR = "QQ"
    PLACES = { size: [1024, 8], count: [1032, 8], out: [1040, 16], item: [1056, 48], key: [1104, 16],
               query: [1120, 128] }.freeze
    TEXTS = 1248 # here begin copies of texts
    BUFFER = 8192
    private_constant :ITEM, :ITEM_SIZE, :PAIR, :PLACES, :TEXTS, :BUFFER

    attr_reader :error, :size, :count, :out, :buffer

    def initialize
      @block = FFI::MemoryPointer.new(1, BUFFER + CAPACITY, false)
      @base = @block.address
      @error = @block.slice(0, Library::ERROR_SIZE).put_bytes(0, Library::NO_ERROR)
      @size, @count, @out, @item, key, @query = PLACES.values.map { |at, length| @block.slice(at, length) }
      @key = Library::Bytes.new(key)
      @buffer = @block.slice(BUFFER, CAPACITY)
      clear
    end

    def clear
      @at = TEXTS
      @more = nil
    end

    # The address of a copy of a text; good until #clear.
    def keep(text)
      size = text.bytesize
      if @at + size > BUFFER
        more = FFI::MemoryPointer.new(1, size, false).put_bytes(0, text)
        (@more ||= []) << more
        return more.address
      end
      @block.put_bytes(@at, text)
      @at += size
      @base + @at - size
    end

    # A text as an argument.
    def text(text)
      @block.put_bytes(PLACES[:key][0], [keep(text), text.bytesize].pack(PAIR))
      @key
    end

    # A table of texts as an argument.
    def texts(list)
      pairs = list.flat_map { |text| [keep(text), text.bytesize] }
      table = FFI::MemoryPointer.new(1, [16 * list.size, 16].max, false).put_bytes(0, pairs.pack("Q*"))
      (@more ||= []) << table
      table
    end

    # What is stored as an argument: JSON, or a message.
    def item(content)
      fields = if content.is_a?(String)
                 [0, 0, 0, 0, keep(content), content.bytesize]
               else
                 [content.partition, content.offset, keep(content.topic), content.topic.bytesize, 0, 0]
               end
      @item.put_bytes(0, [ITEM_SIZE, *fields].pack(ITEM))
    end

    # A packed query or collection as an argument.
    def query(packed)
      @query.put_bytes(0, packed)
    end
    alias collection query

    # The bytes of an answer.
    def data(buffer)
      buffer.get_bytes(0, length)
    end

    def length
      @size.get_uint64(0)
    end
  end
  private_constant :Slate

  # The slates that no call uses. A step of the interpreter is atomic, so no lock is needed.
  # @private
  class Slates
    KEPT = 8
    private_constant :KEPT

    def initialize
      @free = []
    end

    # Yields a slate of its own.
    def use
      slate = @free.pop || Slate.new
      yield slate
    ensure
      if slate && @free.size < KEPT
        slate.clear
        @free << slate
      end
    end
  end
  private_constant :Slates
end

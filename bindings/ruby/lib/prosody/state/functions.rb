# frozen_string_literal: true

module Prosody
  module Library
    ABSENT = 2
    ENDED = 3
    KINDS = { "value" => 1, "map" => 2, "deque" => 3, "set" => 4 }.freeze
    STATE = :uint64
    ACT = [[STATE, POINTER, TAG, POINTER], STATUS].freeze
    ACT_KEY = [[STATE, POINTER, TAG, TEXT, POINTER], STATUS].freeze
    FILL = [POINTER, :size_t, POINTER, POINTER].freeze
    COLLECTION = "LllLQQq"
    COLLECTION_SIZE = 40

    # The functions of keyed state.
    STATE_FUNCTIONS = {
      state_bind: [[STATE, POINTER, POINTER, POINTER], STATUS],
      state_commit: ACT,
      state_rollback: ACT,
      state_clear: ACT,
      state_empty: ACT,
      state_contains: ACT_KEY,
      state_contains_many: [[STATE, POINTER, TAG, POINTER, :size_t, POINTER, POINTER], STATUS],
      state_release: [[STATE], :void],
      value_get: [[STATE, POINTER, TAG, *FILL], STATUS],
      value_set: [[STATE, POINTER, TAG, POINTER, POINTER], STATUS],
      map_get: [[STATE, POINTER, TAG, TEXT, *FILL], STATUS],
      map_get_many: [[STATE, POINTER, TAG, POINTER, :size_t, *FILL], STATUS],
      map_set: [[STATE, POINTER, TAG, TEXT, POINTER, POINTER], STATUS],
      map_remove: ACT_KEY,
      set_add: ACT_KEY,
      set_remove: ACT_KEY,
      deque_push: [[STATE, POINTER, TAG, :int32, POINTER, POINTER], STATUS],
      deque_pop: [[STATE, POINTER, TAG, :int32, *FILL], STATUS],
      deque_peek: [[STATE, POINTER, TAG, :int32, *FILL], STATUS],
      deque_get: [[STATE, POINTER, TAG, :int64, *FILL], STATUS],
      deque_size: [[STATE, POINTER, TAG, POINTER, POINTER], STATUS],
      scan_open: [[STATE, POINTER, POINTER, POINTER], STATUS],
      scan_next: [[STATE, POINTER, TAG, POINTER, :size_t, POINTER, POINTER, POINTER], STATUS],
      scan_close: [[STATE], :void],
      reader_open: [[POINTER, TEXT, POINTER, POINTER, POINTER], STATUS],
      reader_bind: [[POINTER, TEXT, POINTER, POINTER], STATUS],
      reader_destroy: DESTROY
    }.freeze
  end
end

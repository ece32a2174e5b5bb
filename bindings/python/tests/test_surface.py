"""The names that programs for prosody-events use, where they use them."""

from __future__ import annotations

import dataclasses
import importlib
from datetime import timedelta
from typing import Any

import pytest

import prosody

MODULES = {
    "prosody.context": "Context",
    "prosody.definition": "value map set deque message_value message_map message_deque",
    "prosody.demand": "Demand DemandKind",
    "prosody.errors": "EventHandlerError TransientError PermanentError StateError "
    "PermanentStateError TransientStateError NullValueError transient "
    "permanent",
    "prosody.handler": "EventHandler",
    "prosody.message": "Message ExciseMessage JSONValue JSONInput",
    "prosody.published": "PublishedValue PublishedMap PublishedSet PublishedDeque",
    "prosody.request": "Success Failure HandlerError Timeout FormatMismatch MalformedResponse "
    "Outcome ResponseError",
    "prosody.state": "Direction StoreOutcome ValueState MapState SetState DequeState value map "
    "set deque message_value message_map message_deque ValueDefinition "
    "MapDefinition SetDefinition DequeDefinition MessageValueDefinition "
    "MessageMapDefinition MessageDequeDefinition PublishedValue PublishedMap "
    "PublishedSet PublishedDeque",
    "prosody.timer": "Timer",
    "prosody": "AdminClient ProsodyClient flush_telemetry shutdown_telemetry",
}
CLASSES = {
    "AdminClient": "create_topic delete_topic",
    "Context": "schedule clear_and_schedule unschedule clear_scheduled scheduled "
    "should_cancel on_cancel state demand",
    "DequeState": "append appendleft pop popleft peek peekleft get size is_empty clear "
    "values __aiter__ commit rollback",
    "EventHandler": "on_message on_excise on_timer __class_getitem__",
    "MapState": "get get_many contains contains_many is_empty set remove clear items keys "
    "values __aiter__ commit rollback",
    "ProsodyClient": "create send excise request request_excise subscribe unsubscribe shutdown "
    "consumer_state assigned_partition_count is_stalled source_system state "
    "__aenter__ __aexit__",
    "PublishedDeque": "get size is_empty peek peekleft values",
    "PublishedMap": "get get_many contains contains_many is_empty items keys values",
    "PublishedSet": "contains contains_many is_empty members",
    "PublishedValue": "get",
    "SetState": "add discard contains contains_many is_empty clear members __aiter__ "
    "commit rollback",
    "ValueState": "get set clear commit rollback",
}


@pytest.mark.parametrize("module", MODULES)
def test_modules(module: str) -> None:
    there = importlib.import_module(module)
    for name in MODULES[module].split():
        assert getattr(there, name) is getattr(prosody, name), name
        assert name in prosody.__all__


@pytest.mark.parametrize("name", CLASSES)
def test_classes(name: str) -> None:
    there = dir(getattr(prosody, name))
    assert [method for method in CLASSES[name].split() if method not in there] == []


KINDS = [
    (prosody.value, prosody.ValueDefinition, "value", "json"),
    (prosody.map, prosody.MapDefinition, "map", "json"),
    (prosody.set, prosody.SetDefinition, "set", None),
    (prosody.deque, prosody.DequeDefinition, "deque", "json"),
    (prosody.message_value, prosody.MessageValueDefinition, "value", "message"),
    (prosody.message_map, prosody.MessageMapDefinition, "map", "message"),
    (prosody.message_deque, prosody.MessageDequeDefinition, "deque", "message"),
]


@pytest.mark.parametrize(("make", "kind", "word", "payload"), KINDS)
def test_definitions(make: Any, kind: Any, word: str, payload: str | None) -> None:
    made = make("orders", ttl=timedelta(hours=1), read_uncommitted=True)
    assert type(made) is kind
    assert made.to_config() == {
        "name": "orders",
        "kind": word,
        "payload": payload,
        "ttl_seconds": 3600,
        "read_uncommitted": True,
        "published": None,
        "read_cache": None,
        "keyset_limit": None,
        "capacity": None,
    }
    assert made == kind("orders", timedelta(hours=1), True)
    assert made != kind("orders")
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.name = "other"


def test_definitions_take_what_fits_their_kind() -> None:
    assert prosody.value[int]("count", published=True, read_cache=False).published is True
    assert prosody.map("m", keyset_limit=5).keyset_limit == 5
    assert prosody.deque("d", capacity=5).capacity == 5
    assert prosody.message_deque("d", capacity=5).capacity == 5
    for make, wrong in (
        (prosody.value, {"capacity": 5}),
        (prosody.map, {"capacity": 5}),
        (prosody.set, {"capacity": 5}),
        (prosody.deque, {"keyset_limit": 5}),
        (prosody.message_value, {"published": True}),
        (prosody.message_map, {"read_cache": False}),
        (prosody.value, {"kind": "map"}),
    ):
        with pytest.raises(TypeError):
            make("x", **wrong)
    with pytest.raises(ValueError, match="ttl must be between 1 and 630720000, got 0"):
        prosody.value("x", ttl=0)
    with pytest.raises(ValueError, match="name must not be empty"):
        prosody.value("")

"""Options: from Python values to the texts of the library.

The library's own table says which options there are and of which type each is.
"""

from __future__ import annotations

import contextlib
import difflib
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from ctypes import byref, c_void_p
from datetime import timedelta
from typing import Any, Literal, TypeAlias, TypedDict

from prosody import native
from prosody.native import Library

Duration: TypeAlias = float | int | timedelta
Texts: TypeAlias = str | Sequence[str]
Spans: TypeAlias = Literal["child", "follows_from"]

OFF = object()
"""Stands for a value that switches an option off."""


class Options(TypedDict, total=False):
    """The options of a client; docs/configuration.md explains each."""

    bootstrap_servers: Texts | None
    group_id: str | None
    source_system: str | None
    subscribed_topics: Texts | None
    allowed_events: Texts | None
    mock: bool | None
    mode: Literal["pipeline", "low-latency", "best-effort"] | None
    max_concurrency: int | None
    max_uncommitted: int | None
    timeout: Duration | None
    commit_interval: Duration | None
    poll_interval: Duration | None
    shutdown_timeout: Duration | None
    stall_threshold: Duration | None
    statistics_interval: Duration | None
    probe_port: int | None
    failure_topic: str | None
    invalid_records: Literal["skip", "dead-letter"] | None
    idempotence_cache_size: int | None
    idempotence_version: str | None
    idempotence_ttl: Duration | None
    slab_size: Duration | None
    message_spans: Spans | None
    timer_spans: Spans | None
    send_timeout: Duration | None
    max_retries: int | None
    retry_base: Duration | None
    max_retry_delay: Duration | None
    defer_enabled: bool | None
    defer_base: Duration | None
    defer_max_delay: Duration | None
    defer_failure_threshold: float | None
    defer_failure_window: Duration | None
    defer_store_cache_size: int | None
    loader_cache_size: int | None
    loader_seek_timeout: Duration | None
    loader_discard_threshold: int | None
    monopolization_enabled: bool | None
    monopolization_threshold: float | None
    monopolization_window: Duration | None
    monopolization_cache_size: int | None
    scheduler_failure_weight: float | None
    scheduler_max_wait: Duration | None
    scheduler_wait_weight: float | None
    scheduler_cache_size: int | None
    telemetry_topic: str | None
    telemetry_enabled: bool | None
    status_page: bool | None
    log: str | None
    cassandra_nodes: Texts | None
    cassandra_keyspace: str | None
    cassandra_user: str | None
    cassandra_password: str | None
    cassandra_datacenter: str | None
    cassandra_rack: str | None
    cassandra_retention: Duration | None
    cassandra_replication: str | None
    cassandra_schema: str | None
    cassandra_tls: bool | None
    cassandra_tls_ca: str | None
    cassandra_tls_cert: str | None
    cassandra_tls_key: str | None
    cassandra_tls_verify: bool | None
    state_collections: Iterable[Any] | None
    state_cache_dir: str | None
    state_owned_cache_size: str | None
    state_memtable_size: str | None
    state_disk_cache_size: str | None
    state_read_cache_size: str | None
    state_read_cache: Duration | Literal[False] | None
    state_recovery_delay: Duration | None
    subsystem: str | None
    peer_bind_address: str | None
    peer_advertised_connect: str | None
    peer_network_name: str | None
    peer_cache_capacity: int | None
    peer_registration_ttl: Duration | None
    peer_tls: bool | None
    peer_tls_ca: str | None
    peer_tls_cert: str | None
    peer_tls_key: str | None
    peer_tls_verify: bool | None
    kafka: Mapping[str, str | int | float | bool] | None


def table(library: Library) -> dict[str, str]:
    """The name and type of every option that can be set."""
    rows = json.loads(library.text(library.options))
    return {row["name"]: row["type"] for row in rows if not row.get("environment_only")}


@contextlib.contextmanager
def settings(library: Library, options: Mapping[str, Any], owner: str) -> Iterator[c_void_p]:
    """A native configuration that holds the options."""
    known = table(library)
    converted: dict[str, Any] = {}
    for name, value in options.items():
        converted.update(_one(known, name, value, owner))
    error = native.make_error()
    config = c_void_p()

    def must(status: int) -> None:
        if status:
            raise library.fault(status, error)

    must(library.config_create(byref(config), byref(error)))
    try:
        for name, value in converted.items():
            title = native.view(name.encode())
            if value is OFF:
                must(library.config_set_none(config, title, byref(error)))
            elif isinstance(value, list):
                items = (native.Bytes * len(value))(*map(native.view, value))
                must(library.config_set_list(config, title, items, len(value), byref(error)))
            else:
                must(library.config_set(config, title, native.view(value), byref(error)))
        yield config
    finally:
        library.config_destroy(config)


def _one(known: Mapping[str, str], name: str, value: Any, owner: str) -> dict[str, Any]:
    if name == "kafka":
        return _properties(value)
    if name.startswith("kafka."):
        return _properties({name[len("kafka.") :]: value})
    kind = known.get(name)
    if kind is None:
        near = difflib.get_close_matches(name, [*known, "kafka"], 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise TypeError(f"{owner} got an unknown option {name!r}{hint}")
    if value is None:
        return {name: OFF} if kind == "port" else {}
    if kind == "collections":
        return _collections(name, value)
    return {name: convert(name, kind, value)}


def convert(name: str, kind: str, value: Any) -> Any:
    """The text of a value: bytes, a list of bytes, or OFF."""
    if kind == "list":
        return _list(name, value)
    if kind == "bool":
        if not isinstance(value, bool):
            raise _wrong(name, "a bool", value)
        return b"true" if value else b"false"
    if kind in ("int", "port"):
        return _int(name, value, 65535 if kind == "port" else None)
    if kind == "float":
        return _float(name, value)
    if kind == "duration":
        return b"%dns" % nanoseconds(name, value)
    if kind == "read_cache":
        if value is True:
            raise ValueError(f"{name}: True is ambiguous; use a duration or False")
        return OFF if value is False else b"%dns" % nanoseconds(name, value)
    if not isinstance(value, str):
        raise _wrong(name, "a size string such as '64 MiB'" if kind == "size" else "a str", value)
    return value.encode()


def nanoseconds(name: str, value: Any) -> int:
    """A duration: a timedelta, or seconds as a number."""
    if isinstance(value, timedelta):
        result = value // timedelta(microseconds=1) * 1000
    elif isinstance(value, int) and not isinstance(value, bool):
        result = value * 10**9
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{name}: {value} is not a duration")
        whole = int(value)
        result = whole * 10**9 + round((value - whole) * 10**9)
    else:
        raise _wrong(name, "a timedelta or non-negative float representing seconds", value)
    if result < 0:
        raise ValueError(f"{name}: a duration must not be negative, got {value!r}")
    return result


def _list(name: str, value: Any) -> list[bytes]:
    if isinstance(value, str):
        value = [value]
    if isinstance(value, (bytes, bytearray, Mapping)) or not isinstance(value, Iterable):
        raise _wrong(name, "a str or a sequence of str", value)
    items = list(value)
    for item in items:
        if not isinstance(item, str):
            raise _wrong(name, "a str or a sequence of str", item)
    return [item.encode() for item in items]


def _int(name: str, value: Any, most: int | None) -> bytes:
    if isinstance(value, bool) or not isinstance(value, int):
        raise _wrong(name, "an int", value)
    if value < 0 or (most is not None and value > most):
        limit = "" if most is None else f" and not beyond {most}"
        raise OverflowError(f"{name}: must not be negative{limit}, got {value}")
    return b"%d" % value


def _float(name: str, value: Any) -> bytes:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _wrong(name, "a float", value)
    if not math.isfinite(value):
        raise ValueError(f"{name}: must be a finite number, got {value}")
    return repr(value).encode()


def _properties(value: Any) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise _wrong("kafka", "a mapping of librdkafka properties", value)
    result = {}
    for name, item in value.items():
        if not isinstance(name, str) or not isinstance(item, (str, int, float)):
            raise TypeError("kafka: properties are str, and values str, int, float or bool")
        text = str(item).lower() if isinstance(item, bool) else str(item)
        result[f"kafka.{name}"] = text.encode()
    return result


def _collections(name: str, value: Any) -> dict[str, Any]:
    """The definitions as JSON."""
    configs = []
    for index, definition in enumerate(value):
        config = definition.to_config()
        if not isinstance(config, Mapping):
            raise _wrong(f"{name}[{index}]", "a to_config() that gives a dict", config)
        config = {field: given for field, given in config.items() if given is not None}
        if isinstance(config.get("ttl_seconds"), timedelta):
            config["ttl_seconds"] = config["ttl_seconds"] // timedelta(seconds=1)
        if not isinstance(config.get("read_cache", False), (bool, str)):
            cache = nanoseconds(f"{name}[{index}].read_cache", config["read_cache"])
            config["read_cache"] = f"{cache}ns"
        configs.append(config)
    return {name: json.dumps(configs).encode()} if configs else {}


def _wrong(name: str, expected: str, value: Any) -> TypeError:
    return TypeError(f"{name}: expected {expected}, got {type(value).__name__}")

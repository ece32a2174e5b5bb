"""A producer of records that Prosody itself would not write: any bytes, any timestamp."""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass

_TABLE = []
for _byte in range(256):
    _value = _byte
    for _ in range(8):
        _value = _value >> 1 ^ (0x82F63B78 if _value & 1 else 0)
    _TABLE.append(_value)


@dataclass
class Raw:
    key: bytes | None = b"k"
    value: bytes | None = b"1"
    timestamp: int = 1_700_000_000_000
    headers: tuple[tuple[bytes, bytes | None], ...] = ()


def write(address: str, topic: str, records: list[Raw], partition: int = 0) -> None:
    """Writes records one batch each, and waits until the broker has them."""
    host, port = address.split(":")
    with socket.create_connection((host, int(port)), 10) as connection:
        for record in records:
            batch = _batch(record)
            body = struct.pack(">hhih", 0, 3, 1, 1) + b"x"  # Produce, version 3, id 1, client x
            body += struct.pack(">hhi", -1, -1, 10_000)  # no transaction, all acks, time-out
            body += struct.pack(">ih", 1, len(topic)) + topic.encode()
            body += struct.pack(">iii", 1, partition, len(batch)) + batch
            connection.sendall(struct.pack(">i", len(body)) + body)
            (size,) = struct.unpack(">i", _take(connection, 4))
            answer = _take(connection, size)
            (code,) = struct.unpack_from(">h", answer, 4 + 4 + 2 + len(topic) + 4 + 4)
            assert code == 0, f"the broker refuses {record} with code {code}"


def _take(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        assert more, "the broker has hung up"
        data += more
    return data


def _batch(record: Raw) -> bytes:
    body = b"\0" + _varint(0) + _varint(0) + _bytes(record.key) + _bytes(record.value)
    body += _varint(len(record.headers))
    for name, value in record.headers:
        body += _bytes(name) + _bytes(value)
    checked = struct.pack(">hiqqqhii", 0, 0, record.timestamp, record.timestamp, -1, -1, -1, 1)
    checked += _varint(len(body)) + body
    crc = 0xFFFFFFFF
    for byte in checked:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 255]
    return struct.pack(">qiibI", 0, len(checked) + 9, -1, 2, crc ^ 0xFFFFFFFF) + checked


def _varint(value: int) -> bytes:
    value = (value << 1 ^ value >> 63) & 0xFFFFFFFFFFFFFFFF
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def _bytes(data: bytes | None) -> bytes:
    return _varint(-1) if data is None else _varint(len(data)) + data

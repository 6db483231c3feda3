"""A small reader of protobuf's wire format, for tests."""

from __future__ import annotations


def varint(data: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place
        shift += 7


def fields(data: bytes) -> list[tuple[int, int | bytes]]:
    """Give (number, value) of every field; strings and messages stay bytes."""
    found: list[tuple[int, int | bytes]] = []
    place = 0
    while place < len(data):
        key, place = varint(data, place)
        number, kind = key >> 3, key & 7
        if kind == 0:
            value, place = varint(data, place)
            found.append((number, value))
        elif kind == 2:
            size, place = varint(data, place)
            assert place + size <= len(data), "a length runs over the end"
            found.append((number, data[place : place + size]))
            place += size
        elif kind == 1:
            found.append((number, int.from_bytes(data[place : place + 8], "little")))
            place += 8
        else:
            raise AssertionError(f"unexpected wire type {kind}")
    return found


def one(message: bytes, number: int) -> int | bytes | None:
    """Give the last value of a field, as protobuf readers do."""
    return next((value for found, value in reversed(fields(message)) if found == number), None)


def many(message: bytes, number: int) -> list[int | bytes]:
    return [value for found, value in fields(message) if found == number]

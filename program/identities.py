"""wiring: the clock and the ids of the running program; tests replace them."""

from __future__ import annotations

import os
import time

ID_BYTES = 16
IDS_AT_ONCE = 256
_VERSION = bytes(each & 0x0F | 0x40 for each in range(256))
_VARIANT = bytes(each & 0x3F | 0x80 for each in range(256))
"""What the bytes of an id become that hold UUID version 4, and RFC 9562's variant."""


def now_ms() -> int:
    """Return the time, in Unix milliseconds."""
    return time.time_ns() // 1_000_000


class Ids:
    """Random UUIDs, as 32 hexadecimal digits. Mutable: it keeps a pool of ids.

    A call of `os.urandom` costs 10 to 40 us whatever its size, so one call fetches 256 ids.
    `list.pop` is atomic, so two threads never get the same id.
    """

    def __init__(self) -> None:
        self._pool: list[str] = []

    def __call__(self) -> str:
        while True:
            try:
                return self._pool.pop()
            except IndexError:
                self._pool.extend(_fresh())


def _fresh() -> list[str]:
    """Return as many new ids as the pool gets at once."""
    fresh = bytearray(os.urandom(ID_BYTES * IDS_AT_ONCE))
    fresh[6::ID_BYTES] = fresh[6::ID_BYTES].translate(_VERSION)
    fresh[8::ID_BYTES] = fresh[8::ID_BYTES].translate(_VARIANT)
    digits = fresh.hex()
    length = 2 * ID_BYTES
    return [digits[start : start + length] for start in range(0, len(digits), length)]

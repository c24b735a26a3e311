"""wiring: the clock and the ids of the running program; tests replace them."""

from __future__ import annotations

import os
import time

ID_BYTES = 16
IDS_AT_ONCE = 256


def now_ms() -> int:
    """Return the time, in Unix milliseconds."""
    return time.time_ns() // 1_000_000


class Ids:
    """Random UUIDs, as 32 hexadecimal digits. Mutable: it keeps a pool of random bytes.

    A call of `os.urandom` costs 10 to 40 us whatever its size, so one call fetches 256 ids.
    `list.pop` is atomic, so two threads never get the same id.
    """

    def __init__(self) -> None:
        self._pool: list[bytes] = []

    def __call__(self) -> str:
        while True:
            try:
                digits = bytearray(self._pool.pop())
            except IndexError:
                fresh = os.urandom(ID_BYTES * IDS_AT_ONCE)
                starts = range(0, len(fresh), ID_BYTES)
                self._pool.extend([fresh[start : start + ID_BYTES] for start in starts])
            else:
                digits[6] = digits[6] & 0x0F | 0x40  # version 4 and RFC 9562's variant
                digits[8] = digits[8] & 0x3F | 0x80
                return digits.hex()

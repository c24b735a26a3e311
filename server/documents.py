"""rule: JSON documents of clients, measured before they are decoded.

A decoder holds the interpreter from the first byte to the last, in a thread too, and takes time and
memory by the number of values more than by the number of bytes: 1 MiB of `[]` is 350,000 lists.
Counting the signs that begin values takes a hundredth of that.
"""

from __future__ import annotations

from server import limits


def has_too_many_values(body: bytes) -> bool:
    """Say whether a JSON text may hold more than `limits.JSON_VALUES_MAX` values.

    Signs inside of texts are counted too, so what is said to be within the bound is.
    """
    if len(body) <= limits.JSON_VALUES_MAX:
        return False  # each sign is a byte
    count = body.count(b",") + body.count(b"[") + body.count(b"{")
    return count > limits.JSON_VALUES_MAX

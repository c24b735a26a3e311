"""rule: the number of values in a client's JSON document, counted before it is decoded.

A decoder holds the interpreter for the whole document, in a thread too, and its time and memory
depend on the number of values more than on the number of bytes: 1 MiB of `[]` is 350,000 lists.
Counting the signs that start values takes a hundredth of that.
"""

from __future__ import annotations

from server import limits


def has_too_many_values(body: bytes) -> bool:
    """Return whether a JSON text may hold more than `limits.JSON_VALUES_MAX` values.

    Signs inside texts are counted too, so the true number is never larger than the count.
    """
    if len(body) <= limits.JSON_VALUES_MAX:
        return False  # every value has at least one byte
    count = body.count(b",") + body.count(b"[") + body.count(b"{")
    return count > limits.JSON_VALUES_MAX

"""rule: the byte range that a Range header selects (RFC 9110, section 14, and S3's rules).

`a-b`, `a-` and `-n` become one half-open slice. Several ranges select the whole body, as in S3; so
does a header that is not a byte range, as RFC 9110 requires. Never reads a body and never picks a
status code: a range that starts past the end raises an error.
"""

from __future__ import annotations

import re

from storage import errors
from storage.model import ByteRange

_ONE_RANGE = re.compile(r"\s*bytes\s*=\s*([0-9]*)\s*-\s*([0-9]*)\s*\Z", re.IGNORECASE | re.ASCII)
_DIGITS_MAX = 19
_BEYOND = 10**_DIGITS_MAX
"""Numbers of more digits than any size has are not converted; they are behind the end of a body.
Clients send the largest number of 64 bits, which has 20 digits, for the end."""


def parse(header: str, size_bytes: int) -> ByteRange | None:
    """Return the slice that header selects of a body of size_bytes; None means the whole body.

    Raises RangeNotSatisfiable if no byte of the body is in the range.
    """
    match = _ONE_RANGE.match(header)
    if match is None:
        return None
    first, last = match.groups()
    if not (first or last):
        return None
    if not first:
        start, stop = max(0, size_bytes - _number(last)), size_bytes
    else:
        start, stop = _number(first), size_bytes
        if last:
            if _number(last) < start:
                return None
            stop = min(size_bytes, _number(last) + 1)
    if start >= stop:
        raise errors.RangeNotSatisfiable(
            f"the range {header!r} is outside a body of {size_bytes} bytes",
            size_bytes=size_bytes,
            requested=header,
        )
    return ByteRange(start=start, stop=stop)


def _number(text: str) -> int:
    """Return a number in decimal digits, at most _BEYOND."""
    digits = text.lstrip("0")
    return int(digits or "0") if len(digits) <= _DIGITS_MAX else _BEYOND

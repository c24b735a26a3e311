"""rule: which bytes a Range header asks for (RFC 9110, section 14, and what S3 makes of it).

`a-b`, `a-` and `-n` become one half-open slice. Several ranges mean the whole body, as S3 answers;
so does a header that is not a byte range at all, as RFC 9110 wants. Never reads a body and never
picks a status: a range that starts past the end is a fact, and is raised.
"""

from __future__ import annotations

import re

from storage import errors
from storage.model import ByteRange

_ONE_RANGE = re.compile(r"\s*bytes\s*=\s*([0-9]*)\s*-\s*([0-9]*)\s*\Z", re.IGNORECASE | re.ASCII)
_DIGITS_MAX = 19
"""More digits than any size has; longer numbers are not worth converting."""


def parse(header: str, size_bytes: int) -> ByteRange | None:
    """Return the slice of a body of size_bytes that header asks for; None means all of it.

    Raises RangeNotSatisfiable when nothing of the body lies in the range.
    """
    found = _ONE_RANGE.match(header)
    if found is None:
        return None
    first, last = found.groups()
    if len(first) > _DIGITS_MAX or len(last) > _DIGITS_MAX or not (first or last):
        return None
    if not first:
        start, stop = max(0, size_bytes - int(last)), size_bytes
    else:
        start, stop = int(first), size_bytes
        if last:
            if int(last) < start:
                return None
            stop = min(size_bytes, int(last) + 1)
    if start >= stop:
        raise errors.RangeNotSatisfiable(
            f"the range {header!r} lies outside a body of {size_bytes} bytes",
            size_bytes=size_bytes,
        )
    return ByteRange(start=start, stop=stop)


def parse_closed(header: str, size_bytes: int) -> ByteRange:
    """Return the slice `bytes=a-b` of a copy source, which must lie wholly inside the body.

    Raises RangeNotSatisfiable for any other form or place.
    """
    found = _ONE_RANGE.match(header)
    if found is not None and 0 < len(found[1]) <= _DIGITS_MAX and 0 < len(found[2]) <= _DIGITS_MAX:
        start, stop = int(found[1]), int(found[2]) + 1
        if start < stop <= size_bytes:
            return ByteRange(start=start, stop=stop)
    raise errors.RangeNotSatisfiable(
        f"the range {header!r} is not a closed range within {size_bytes} bytes",
        size_bytes=size_bytes,
    )

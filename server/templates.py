"""rule: the values of a signed head that differ from request to request, and the bytes around them.

A client that signs in the header sends nearly the same bytes again: its time and its signature
differ, and from SDKs the id of the invocation, and the range of a larger object. A Template knows
where these values stand in a head. A head of the same length that has the same bytes everywhere
else, and letters, digits, `-` and `=` where they stand, has the same headers but for them: none of
these characters ends a value, a line or a head. So it needs no parsing.

Whether such a head is signed rightly is `server.auth.verify`'s to say. Never searches a head for a
value: positions come from a head that httptools parsed, and `of` compares with its result.
"""

from __future__ import annotations

import operator
import re
import string
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from server import limits

Parts: TypeAlias = tuple[bytes, ...]
"""The values that differ, in the order of a template's names; time and signature come first."""
RawHeaders: TypeAlias = Sequence[tuple[bytes, bytes]]

DATE: Final = b"x-amz-date"
AUTHORIZATION: Final = b"authorization"
INVOCATION: Final = b"amz-sdk-invocation-id"
RANGE: Final = b"range"
SIGNATURE: Final = b"Signature="

_HARMLESS: Final = (string.ascii_letters + string.digits + "-=").encode()
_DATE_VALUE: Final = re.compile(rb"[0-9]{8}T[0-9]{6}Z")
_SIGNATURE_VALUE: Final = re.compile(rb"[0-9a-f]{64}")
_OTHER_VALUE: Final = re.compile(rb"[A-Za-z0-9=-]{1,64}")


class Template:
    """Where the values that differ stand in a head.

    names: of their headers. spans: first byte and end of each in the head. indexes: of their
    headers among those of the request.
    """

    __slots__ = ("_pick_parts", "_pick_rest", "indexes", "names", "spans")

    def __init__(
        self,
        names: tuple[bytes, ...],
        spans: tuple[tuple[int, int], ...],
        indexes: tuple[int, ...],
    ) -> None:
        self.names = names
        self.spans = spans
        self.indexes = indexes
        in_order = sorted(spans)
        starts = (0, *(stop for _, stop in in_order))
        stops = (*(start for start, _ in in_order), None)
        # A getter of several slices makes them all in one call.
        self._pick_rest: Callable[[bytes], Parts] = operator.itemgetter(*map(slice, starts, stops))
        self._pick_parts: Callable[[bytes], Parts] = operator.itemgetter(
            *[slice(start, stop) for start, stop in spans]
        )

    def is_like(self, other: Template) -> bool:
        """Return whether another template has the same values in the same places."""
        return (self.names, self.spans, self.indexes) == (other.names, other.spans, other.indexes)

    def rest(self, head: bytes) -> bytes:
        """Return a head without the values that differ."""
        return b"".join(self._pick_rest(head))

    def parts(self, head: bytes) -> Parts | None:
        """Return the values that differ; None if one of them may not be the value of a header."""
        parts = self._pick_parts(head)
        return None if b"".join(parts).translate(None, _HARMLESS) else parts

    def fill(self, headers: RawHeaders, parts: Parts) -> RawHeaders:
        """Return headers with other parts. headers: of a head with the same rest."""
        filled = list(headers)
        for index, part in zip(self.indexes, parts, strict=True):
            name, value = filled[index]
            filled[index] = (name, part if name != AUTHORIZATION else value[: -len(part)] + part)
        return filled


def of(head: bytes, headers: RawHeaders) -> Template | None:
    """Return the template of a head with a signature in its header; None for an unusual head.

    headers: what httptools made of it, with lower-case names. Unusual are a time or a signature
    that is absent, doubled or of another form, a Date header, which is another in each second, and
    bytes that mean something else to httptools than the lines of a head.
    """
    positions = _positions(head, headers)
    if positions is None:
        return None
    places: dict[bytes, int] = {}
    for index, (name, _) in enumerate(headers):
        if name in (DATE, AUTHORIZATION, INVOCATION, RANGE, b"date"):
            if name in places:
                return None
            places[name] = index
    if DATE not in places or AUTHORIZATION not in places or b"date" in places:
        return None
    before, _, signature = headers[places[AUTHORIZATION]][1].rpartition(SIGNATURE)
    if SIGNATURE in before or not _SIGNATURE_VALUE.fullmatch(signature):
        return None
    if not _DATE_VALUE.fullmatch(headers[places[DATE]][1]):
        return None
    others = [
        name
        for name in (INVOCATION, RANGE)
        if name in places and _OTHER_VALUE.fullmatch(headers[places[name]][1])
    ]
    names = [DATE, AUTHORIZATION, *others]
    indexes = [places[name] for name in names]
    spans = []
    for index in indexes:
        name, value = headers[index]
        stop = positions[index] + len(value)
        spans.append((stop - len(signature if name == AUTHORIZATION else value), stop))
    return Template(tuple(names), tuple(spans), tuple(indexes))


def _positions(head: bytes, headers: RawHeaders) -> list[int] | None:
    """Return where the value of each header begins; None unless each is a line of the head, as it
    stands there, and the head ends behind the last."""
    assert len(head) <= limits.REPEAT_BYTES_MAX, "what is remembered is bounded"
    lines = head.split(b"\r\n")
    if len(lines) != len(headers) + 3 or lines[-2:] != [b"", b""]:
        return None
    ends = len(lines) - 1
    if head.count(b"\r") != ends or head.count(b"\n") != ends:
        return None
    positions = []
    position = len(lines[0]) + 2
    for line, (name, value) in zip(lines[1:-2], headers, strict=True):
        own, colon, rest = line.partition(b":")
        text = rest.lstrip(b" \t")
        if not colon or own.lower() != name or text.rstrip(b" \t") != value:
            return None
        positions.append(position + len(line) - len(text))
        position += len(line) + 2
    return positions

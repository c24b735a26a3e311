"""rule: the values of a signed head that differ from request to request, and the bytes around them.

A client that signs in the header sends nearly the same bytes again: its time and its signature
differ, and from SDKs the id of the invocation, and the range of a larger object. A Template knows
where these values stand in a head. A head of the same length that has the same bytes everywhere
else, and letters, digits, `-` and `=` where they stand, has the same headers but for them: none of
these characters ends a value, a line or a head. So it needs no parsing.

A client reads many keys with the same headers. So the key is such a value too, if it is spelled as
a signature spells it. Its length differs; the places of the others are counted from the head's end.
What stands for the key must be letters, digits, `/_.~-` and escapes, none of which ends a path.

A presigned URL has its time and its signature in the query. URLs that one client signs for a bucket
differ in these and in the key.

A client that writes objects sends the length and the digests of each body in the same headers: of a
PUT those are values too. A digest in base64 may have `+` and `/`, which end no value either.

Whether such a head is signed rightly is `server.auth.verify`'s to say. Never searches a head for a
value: positions come from a head that httptools parsed, and `of` compares with its result. Only the
slash before the key is searched; the bytes up to it are compared too.
"""

from __future__ import annotations

import operator
import re
import string
import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from server import limits
from server.auth import sigv4

Parts: TypeAlias = tuple[bytes, ...]
"""The values that differ, in the order of a template's names; time and signature come first, the
key last."""
RawHeaders: TypeAlias = Sequence[tuple[bytes, bytes]]

DATE: Final = b"x-amz-date"
AUTHORIZATION: Final = b"authorization"
INVOCATION: Final = b"amz-sdk-invocation-id"
RANGE: Final = b"range"
TIME_IN_QUERY: Final = b"X-Amz-Date"
SIGNATURE_IN_QUERY: Final = b"X-Amz-Signature"
LENGTH: Final = b"content-length"
SHA256: Final = b"x-amz-content-sha256"
DECODED_LENGTH: Final = b"x-amz-decoded-content-length"
SIGNATURE: Final = b"Signature="
KEY: Final = b":key"
"""The name of the key among the values. No header has it."""
VERSION: Final = b" HTTP/1.1\r\n"
IN_QUERY: Final = -1
"""In place of a header's index."""

_HARMLESS: Final = (string.ascii_letters + string.digits + "-=").encode()
_HARMLESS_BESIDE_KEY: Final = _HARMLESS + b"/_.~%"
_HARMLESS_OF_BODY: Final = _HARMLESS_BESIDE_KEY + b"+"
_DATE_VALUE: Final = re.compile(rb"[0-9]{8}T[0-9]{6}Z")
_SIGNATURE_VALUE: Final = re.compile(rb"[0-9a-f]{64}")
_OTHER_VALUE: Final = re.compile(rb"[A-Za-z0-9=-]{1,64}")
_LOOKED_FOR: Final = frozenset({DATE, AUTHORIZATION, DECODED_LENGTH, b"date", b"transfer-encoding"})
_VALUES_OF_BODY: Final[Mapping[bytes, re.Pattern[bytes]]] = {
    LENGTH: re.compile(rb"[0-9]{1,15}"),
    SHA256: re.compile(rb"[0-9a-f]{64}"),
    b"content-md5": re.compile(rb"[A-Za-z0-9+/]{22}=="),
    b"x-amz-checksum-crc32": re.compile(rb"[A-Za-z0-9+/]{6}=="),
    b"x-amz-checksum-crc32c": re.compile(rb"[A-Za-z0-9+/]{6}=="),
    b"x-amz-checksum-crc64nvme": re.compile(rb"[A-Za-z0-9+/]{11}="),
    b"x-amz-checksum-sha1": re.compile(rb"[A-Za-z0-9+/]{27}="),
    b"x-amz-checksum-sha256": re.compile(rb"[A-Za-z0-9+/]{43}="),
}
"""The headers about a body, and the form of their values. A length has as many digits in all heads
of a template."""
_DIGESTS: Final = _VALUES_OF_BODY.keys() - {LENGTH}


class Template:
    """Where the values that differ stand in a head.

    names: of their headers or parameters, and KEY behind them if the key is one. spans: first byte
    and end of each value in the head, counted from its end if the key differs. indexes: of the
    headers among those of the request, IN_QUERY for a value of a presigned URL. query_span: first
    byte and end of the query of a presigned URL, counted alike. searched_from: where the search for
    the slash before the key begins. tail_bytes: how many bytes a head has behind the key; 0 if the
    key does not differ. length_index: the number of the body's length among the names; None of a
    head without a body. has_digests: whether digests of the body differ too.
    """

    __slots__ = (
        "_digits",
        "_harmless",
        "_pick_parts",
        "_pick_rest",
        "has_digests",
        "indexes",
        "length_index",
        "names",
        "query_span",
        "searched_from",
        "spans",
        "tail_bytes",
    )

    def __init__(
        self,
        names: tuple[bytes, ...],
        spans: tuple[tuple[int, int], ...],
        indexes: tuple[int, ...],
        *,
        query_span: tuple[int, int] | None = None,
        searched_from: int = 0,
        tail_bytes: int = 0,
    ) -> None:
        self.names = names
        self.query_span = query_span
        self.spans = spans
        self.indexes = indexes
        self.searched_from = searched_from
        self.tail_bytes = tail_bytes
        self.length_index = names.index(LENGTH) if LENGTH in names else None
        self.has_digests = not _DIGESTS.isdisjoint(names)
        self._harmless = _HARMLESS_BESIDE_KEY if tail_bytes else _HARMLESS
        if self.length_index is not None:
            self._harmless = _HARMLESS_OF_BODY
        self._digits = _digits_of_length(spans, self.length_index)
        in_order = sorted(spans)
        starts = (-tail_bytes, *(stop for _, stop in in_order))
        stops = (*(start for start, _ in in_order), None)
        # A getter of several slices makes them all in one call.
        self._pick_rest: Callable[[bytes], Parts] = operator.itemgetter(*map(slice, starts, stops))
        self._pick_parts: Callable[[bytes], Parts] = operator.itemgetter(
            *[slice(start, stop) for start, stop in spans]
        )

    def is_like(self, other: Template) -> bool:
        """Return whether another template has the same values in the same places."""
        return self._places() == other._places()

    def _places(self) -> tuple[object, ...]:
        return (
            self.names,
            self.spans,
            self.indexes,
            self.query_span,
            self.searched_from,
            self.tail_bytes,
        )

    def split(self, head: bytes) -> tuple[bytes, Parts]:
        """Return a head without the values that differ, and these values, which are unchecked.

        Lengths with more or fewer digits are of another template, and leave other bytes.
        """
        rest, parts = b"".join(self._pick_rest(head)) + self._digits, self._pick_parts(head)
        if self.tail_bytes:
            start = head.find(b"/", self.searched_from) + 1
            return head[:start] + rest, (*parts, head[start : -self.tail_bytes])
        return rest, parts

    def rest(self, head: bytes) -> bytes:
        """Return a head without the values that differ."""
        return self.split(head)[0]

    def parts(self, head: bytes) -> Parts | None:
        """Return the values that differ; None if one of them may not be the value of a header, or
        the key."""
        parts = self.split(head)[1]
        return parts if self.are_harmless(parts) else None

    def are_harmless(self, parts: Parts) -> bool:
        """Return whether unchecked values may be those of headers, and a key."""
        if b"".join(parts).translate(None, self._harmless):
            return False
        if self.length_index is not None and not parts[self.length_index].isdigit():
            return False
        if not self.tail_bytes:
            return True
        # Written out, as each call counts (0029): the last is one of which `is_key` holds.
        key = parts[-1]
        return (
            0 < len(key) <= limits.TEMPLATE_KEY_BYTES_MAX
            and b"=" not in key
            and b"+" not in key
            and (b"%" not in key or sigv4.is_canonical_path(key))
        )

    def named(self, parts: Parts) -> dict[bytes, bytes]:
        """Return the values that differ by the names of their headers."""
        return dict(zip(self.names, parts, strict=True))

    def before_key(self, path: bytes) -> bytes:
        """Return what stands before the key in the path of a request whose key differs."""
        return path[: path.find(b"/", 1 if self.searched_from else 0) + 1]

    def fill(self, headers: RawHeaders, parts: Parts) -> RawHeaders:
        """Return headers with other parts. headers: of a head with the same rest."""
        filled = list(headers)
        for index, part in zip(self.indexes, parts, strict=False):  # the key is in no header
            if index == IN_QUERY:
                continue
            name, value = filled[index]
            filled[index] = (name, part if name != AUTHORIZATION else value[: -len(part)] + part)
        return filled


def _digits_of_length(spans: tuple[tuple[int, int], ...], index: int | None) -> bytes:
    """Return bytes that say how many digits the length at an index of the values has."""
    if index is None:
        return b""
    start, stop = spans[index]
    return b"%d" % (stop - start)


def is_key(path: bytes) -> bool:
    """Return whether a key, or a path, is spelled so that a template may have it as a value."""
    is_short = 0 < len(path) <= limits.TEMPLATE_KEY_BYTES_MAX
    return is_short and sigv4.is_canonical_path(path)


def text_of_key(key: bytes) -> str:
    """Return the key that is spelled so in a path, of one of which `is_key` holds."""
    return urllib.parse.unquote(key.decode()) if b"%" in key else key.decode()


def key_in_path(path: bytes, key: str) -> bytes:
    """Return how a path spells the key that it names; empty if no template may have it as a
    value."""
    if not is_key(path):
        return b""
    _, _, behind_bucket = path[1:].partition(b"/")
    for spelled in (path[1:], behind_bucket):
        if spelled and text_of_key(spelled) == key:
            return spelled
    return b""


def bytes_behind_key(head: bytes) -> int:
    """Return how many bytes of a head stand behind its path."""
    stop = head.find(VERSION)
    query = head.find(b"?", 0, stop)
    return len(head) - (stop if query < 0 else query)


def of(
    head: bytes,
    headers: RawHeaders,
    path: bytes = b"",
    key: bytes = b"",
    *,
    has_body: bool = False,
    query: bytes = b"",
    parameters: Sequence[tuple[str, str]] = (),
) -> Template | None:
    """Return the template of a signed head; None for an unusual head.

    headers: what httptools made of it, with lower-case names. path, key: the path of a head whose
    key differs, and the key, with which it ends. has_body: a body follows, which other heads of the
    template have another of. query: of a presigned URL; empty where the header has the signature.
    parameters: of the query, decoded. Unusual are a time or a signature that is absent, doubled or
    of another form, a Date header, which is another in each second, a body that is framed by
    something else than one length, a value about the body that the head says a second time, in the
    query or as a decoded length, bytes that mean something else to httptools than the lines of a
    head, and a path with a key that is not where this module would search it.
    """
    positions = _positions(head, headers)
    if positions is None:
        return None
    patterns = {INVOCATION: _OTHER_VALUE, RANGE: _OTHER_VALUE}
    if has_body:
        patterns.update(_VALUES_OF_BODY)
    places: dict[bytes, int] = {}
    for index, (name, _) in enumerate(headers):
        if name in patterns or name in _LOOKED_FOR:
            if name in places:
                return None
            places[name] = index
    in_query = {name.lower().encode("utf-8", "replace") for name, _ in parameters}
    if has_body and (LENGTH not in places or b"transfer-encoding" in places):
        return None
    if has_body and (DECODED_LENGTH in places or DECODED_LENGTH in in_query):
        return None
    if b"date" in places:
        return None
    others = [
        name
        for name, pattern in patterns.items()
        if name in places and pattern.fullmatch(headers[places[name]][1])
    ]
    if has_body and LENGTH not in others:
        return None
    if not in_query.isdisjoint(others):
        return None
    query_span = None
    if query:
        if AUTHORIZATION in places:
            return None
        first = head.find(b"?") + 1
        query_span = (first, first + len(query))
        signed = _spans_in_query(head, query_span, query)
    else:
        signed = _spans_in_headers(headers, positions, places)
    if signed is None:
        return None
    template = Template(
        (*[name for name, _, _ in signed], *others),
        (
            *[span for _, span, _ in signed],
            *[_span_of(headers, positions, places[name]) for name in others],
        ),
        (*[index for _, _, index in signed], *[places[name] for name in others]),
        query_span=query_span,
    )
    return _with_key(head, path, key, template) if key else template


def _span_of(headers: RawHeaders, positions: list[int], index: int) -> tuple[int, int]:
    return positions[index], positions[index] + len(headers[index][1])


def _spans_in_headers(
    headers: RawHeaders, positions: list[int], places: Mapping[bytes, int]
) -> list[tuple[bytes, tuple[int, int], int]] | None:
    """Return name, place and index of the time and the signature in the headers; None if one of
    them is absent or has another form."""
    if DATE not in places or AUTHORIZATION not in places:
        return None
    before, _, signature = headers[places[AUTHORIZATION]][1].rpartition(SIGNATURE)
    if SIGNATURE in before or not _SIGNATURE_VALUE.fullmatch(signature):
        return None
    if not _DATE_VALUE.fullmatch(headers[places[DATE]][1]):
        return None
    _, stop = _span_of(headers, positions, places[AUTHORIZATION])
    return [
        (DATE, _span_of(headers, positions, places[DATE]), places[DATE]),
        (AUTHORIZATION, (stop - len(signature), stop), places[AUTHORIZATION]),
    ]


def _spans_in_query(
    head: bytes, query_span: tuple[int, int], query: bytes
) -> list[tuple[bytes, tuple[int, int], int]] | None:
    """Return name, place and IN_QUERY of the time and the signature of a presigned URL; None if one
    of them is absent, doubled or has another form, or the query is not where it should be."""
    start, stop = query_span
    if head[start:stop] != query or head.find(VERSION) != stop:
        return None
    spans: dict[bytes, tuple[int, int]] = {}
    for part in query.split(b"&"):
        name, _, value = part.partition(b"=")
        if name in (TIME_IN_QUERY, SIGNATURE_IN_QUERY):
            pattern = _DATE_VALUE if name == TIME_IN_QUERY else _SIGNATURE_VALUE
            if name in spans or not pattern.fullmatch(value):
                return None
            spans[name] = (start + len(name) + 1, start + len(part))
        start += len(part) + 1
    if len(spans) != 2:
        return None
    return [(name, spans[name], IN_QUERY) for name in (TIME_IN_QUERY, SIGNATURE_IN_QUERY)]


def _with_key(head: bytes, path: bytes, key: bytes, template: Template) -> Template | None:
    """Return the template of a head whose key differs, from that of one whose key does not."""
    method, space, target = head.partition(VERSION)[0].partition(b" ")
    if not space or target.partition(b"?")[0] != path or not is_key(path):
        return None
    first = len(method) + 1
    searched_from = 0 if path == b"/" + key else first + 1
    size_bytes = len(head)
    tail_bytes = bytes_behind_key(head)
    keyed = Template(
        (*template.names, KEY),
        tuple([(start - size_bytes, stop - size_bytes) for start, stop in template.spans]),
        template.indexes,
        query_span=None
        if template.query_span is None
        else (template.query_span[0] - size_bytes, template.query_span[1] - size_bytes),
        searched_from=searched_from,
        tail_bytes=tail_bytes,
    )
    parts = keyed.parts(head)
    if parts is None or parts[-1] != key or keyed.before_key(path) + key != path:
        return None
    return keyed


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

"""rule: an incremental decoder of the multipart/form-data body of a browser's POST.

The decoder turns bytes into events: the fields before the file, the start of the file, and its
bytes, of which it holds back at most the length of a delimiter. The fields before the file are
bounded; fields after it are ignored, as S3 does. Reads no socket and interprets no field. Sources:
RFC 7578, and RFC 2046, section 5.1.1.
"""

from __future__ import annotations

import re
from typing import Final, Literal, NamedTuple, TypeAlias

from server import limits
from server.s3 import errors

FILE: Final = "file"
"""The name of the field whose bytes become the object."""

_CRLF: Final = b"\r\n"
_HEADERS_END: Final = b"\r\n\r\n"
_CONTENT_TYPE: Final = "multipart/form-data"
_BOUNDARY: Final = re.compile(r"[0-9A-Za-z'()+_,./:=? -]{0,69}[0-9A-Za-z'()+_,./:=?-]")
_PARAMETER: Final = re.compile(
    r"[ \t]*;[ \t]*([!#$%&'*+.^_`|~0-9A-Za-z-]+)=(?:\"((?:[^\"\\]|\\.)*)\"|([^\s;\"]+))", re.DOTALL
)
_ESCAPED: Final = re.compile(r"\\([\"\\])")
_PLAIN_ENCODINGS: Final = frozenset({"7bit", "8bit", "binary"})
"""Values of Content-Transfer-Encoding that leave the bytes as they are."""

_State: TypeAlias = Literal["preamble", "delimited", "headers", "value", "file", "ended"]


class Field(NamedTuple):
    """A field before the file. name: in lower case."""

    name: str
    value: str


class File(NamedTuple):
    """The start of the file. filename: without folders; "" if the client sent none."""

    filename: str


Event: TypeAlias = Field | File | bytes


class Decoder:
    """Decodes one body: `feed` it, then `finish`. Mutable.

    _buffer: the bytes that are in no event yet. _searched: how many of them do not contain the mark
    that the current state searches. _taken_bytes: the bytes decoded before the file.
    """

    def __init__(self, boundary: str) -> None:
        self._delimiter = b"\r\n--" + boundary.encode("ascii")
        # The first delimiter may stand at the very start, without its line break.
        self._buffer = bytearray(_CRLF)
        self._searched = 0
        self._taken_bytes = 0
        self._parts = 0
        self._rest_bytes = 0
        self._name = ""
        self._has_file = False
        self._state: _State = "preamble"

    def feed(self, data: bytes) -> list[Event]:
        """Return the events of further bytes of the body. Raises MalformedForm, FormTooLarge."""
        events: list[Event] = []
        self._buffer += data
        while self._step(events):
            pass
        if not self._has_file:
            self._check_size(self._taken_bytes + len(self._buffer))
        return events

    def finish(self) -> None:
        """Raise FileMissing or MalformedForm if the body ended without a file or too early."""
        if self._state != "ended":
            raise _malformed("it ends before its last delimiter")
        if not self._has_file:
            raise errors.FileMissing("POST requires exactly one file upload per request.")

    def _step(self, events: list[Event]) -> bool:
        """Decode one item of the buffer; return whether there may be another."""
        match self._state:
            case "preamble":
                return self._take_to(self._delimiter, then="delimited") is not None
            case "delimited":
                return self._take_delimiter_end()
            case "headers":
                return self._take_headers(events)
            case "value":
                value = self._take_to(self._delimiter, then="delimited")
                if value is None:
                    return False
                events.append(Field(self._name, _text(value)))
                return True
            case "file":
                return self._take_file(events)
            case "ended":
                self._rest_bytes += len(self._buffer)
                self._buffer.clear()
                if self._rest_bytes > limits.POST_FORM_BYTES_MAX:
                    raise _malformed("too many bytes follow the file")
                return False

    def _take_delimiter_end(self) -> bool:
        """Take the bytes after a delimiter: a line break, or two hyphens after the last one."""
        if len(self._buffer) < len(_CRLF):
            return False
        mark = self._take(len(_CRLF))
        if mark == b"--" or self._has_file:
            self._state = "ended"
        elif mark == _CRLF:
            self._parts += 1
            if self._parts > limits.POST_FORM_PARTS_MAX:
                raise _too_large(f"there are more than {limits.POST_FORM_PARTS_MAX}")
            self._state = "headers"
        if mark not in (b"--", _CRLF):
            raise _malformed("a delimiter is followed by neither a line break nor two hyphens")
        return True

    def _take_headers(self, events: list[Event]) -> bool:
        block = self._take_to(_HEADERS_END, then="value")
        if block is None:
            return False
        self._name, filename = _parse_headers(_text(block))
        if self._name == FILE:
            self._check_size(self._taken_bytes)
            self._state = "file"
            self._has_file = True
            events.append(File(filename))
        return True

    def _take_file(self, events: list[Event]) -> bool:
        end = self._buffer.find(self._delimiter)
        # Without a delimiter the last bytes are kept: one may have begun there.
        size_bytes = len(self._buffer) - len(self._delimiter) + 1 if end < 0 else end
        if size_bytes > 0:
            events.append(self._take(size_bytes))
        if end < 0:
            return False
        self._take(len(self._delimiter))
        self._state = "delimited"
        return True

    def _take_to(self, mark: bytes, *, then: _State) -> bytes | None:
        """Take the bytes before a mark, and the mark; return None if it is not there yet."""
        end = self._buffer.find(mark, max(0, self._searched - len(mark) + 1))
        if end < 0:
            self._searched = len(self._buffer)
            return None
        taken = self._take(end)
        self._take(len(mark))
        self._state = then
        return taken

    def _take(self, size_bytes: int) -> bytes:
        taken = bytes(self._buffer[:size_bytes])
        del self._buffer[:size_bytes]
        self._searched = 0
        if not self._has_file:
            self._taken_bytes += size_bytes
        return taken

    def _check_size(self, size_bytes: int) -> None:
        if size_bytes > limits.POST_FORM_BYTES_MAX:
            raise _too_large(f"they have more than {limits.POST_FORM_BYTES_MAX} bytes")


def parse_boundary(content_type: str | None) -> str:
    """Return the boundary that a Content-Type header names. Raises NotAForm, MalformedForm."""
    text = content_type or ""
    media_type = text.partition(";")[0]
    if media_type.strip().lower() != _CONTENT_TYPE:
        raise errors.NotAForm(
            "At least one of the pre-conditions you specified did not hold",
            Condition=f"Bucket POST must be of the enclosure-type {_CONTENT_TYPE}",
        )
    boundary = _parse_parameters(text[len(media_type) :]).get("boundary", "")
    if not _BOUNDARY.fullmatch(boundary):
        raise _malformed("its Content-Type names no boundary")
    return boundary


def _parse_headers(block: str) -> tuple[str, str]:
    """Return a part's name, in lower case, and its file's name."""
    headers: dict[str, str] = {}
    for line in block.split("\r\n"):
        header, colon, value = line.partition(":")
        header = header.lower()
        if not colon or header != header.strip() or header in headers:
            raise _malformed("a part has a header that cannot be read")
        headers[header] = value.strip(" \t")
    if headers.get("content-transfer-encoding", "binary").lower() not in _PLAIN_ENCODINGS:
        raise _malformed("a part has a Content-Transfer-Encoding that changes its bytes")
    disposition, semicolon, _ = headers.get("content-disposition", "").partition(";")
    if disposition.strip().lower() != "form-data" or not semicolon:
        raise _malformed("a part has no Content-Disposition: form-data")
    parameters = _parse_parameters(headers["content-disposition"][len(disposition) :])
    if "filename*" in parameters:
        raise _malformed("a part has the parameter filename*, which forms must not have")
    name = parameters.get("name", "").lower()
    if not name:
        raise _malformed("a part has no name")
    return name, re.split(r"[/\\]", parameters.get("filename", ""))[-1]


def _parse_parameters(text: str) -> dict[str, str]:
    """Return the parameters of a header's value. Browsers escape quotes alone."""
    parameters: dict[str, str] = {}
    position = 0
    while position < len(text):
        match = _PARAMETER.match(text, position)
        if match is None:
            if text[position:].strip(" \t;"):
                raise _malformed("a header has a parameter that cannot be read")
            break
        name, quoted, plain = match[1].lower(), match[2], match[3]
        if name in parameters:
            raise _malformed("a header has a parameter twice")
        parameters[name] = plain if quoted is None else _ESCAPED.sub(r"\1", quoted)
        position = match.end()
    return parameters


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise _malformed("a field is not UTF-8 text") from None


def _malformed(why: str) -> errors.MalformedForm:
    return errors.MalformedForm(
        f"The body of your POST request is not well-formed multipart/form-data: {why}."
    )


def _too_large(why: str) -> errors.FormTooLarge:
    return errors.FormTooLarge(
        f"Your POST request fields preceding the upload file were too large: {why}."
    )

"""rule: bodies whose integrity the request signs: a plain hash, or aws-chunked framing.

x-amz-content-sha256 names one of six forms; Content-Encoding is ignored, because clients omit
`aws-chunked` from it. The framed forms are decoded without I/O: `feed` takes pieces of any size and
returns the object's bytes, and `finish` checks the rest. `feed` returns bytes before their chunk's
signature is verified, so an object must not become visible before `finish` has returned.

Wire form: `LENGTH[;chunk-signature=SIGNATURE] CRLF data CRLF`, repeated, the last with length 0
and no data; then trailer lines `name:value`, with `x-amz-trailer-signature` if they are signed;
then an empty line. The reference ends a trailer line by LF CRLF, as minio-go does, and in its other
parts by CRLF. Source: Amazon S3 API reference, "Signature calculations ... chunked upload".
"""

from __future__ import annotations

import hashlib
import hmac
import re
from dataclasses import dataclass
from typing import Final, Literal, Protocol, TypeAlias

from server import limits
from server.auth import errors

Mode: TypeAlias = Literal["unsigned", "hash", "chunks", "chunks-trailer", "unsigned-trailer"]

UNSIGNED: Final = "UNSIGNED-PAYLOAD"
STREAMING_PREFIX: Final = "STREAMING-"
MODE_OF: Final[dict[str, Mode]] = {
    "STREAMING-AWS4-HMAC-SHA256-PAYLOAD": "chunks",
    "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER": "chunks-trailer",
    "STREAMING-UNSIGNED-PAYLOAD-TRAILER": "unsigned-trailer",
}
ELLIPTIC: Final = frozenset(
    {
        "STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD",
        "STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD-TRAILER",
    }
)
TRAILER_SIGNATURE: Final = "x-amz-trailer-signature"
EMPTY_SHA256: Final = hashlib.sha256().hexdigest()
AFTER_THE_END: Final = "bytes follow the end of the aws-chunked body"

_HEX_SHA256: Final = re.compile(r"[0-9a-fA-F]{64}")
_SIZE: Final = re.compile(rb"[0-9a-fA-F]{1,16}")
_SIGNATURE: Final = re.compile(rb"chunk-signature=([0-9a-f]{64})")
_TRAILER_NAME: Final = re.compile(r"[a-z0-9!#$%&'*+.^_`|~-]+")


@dataclass(frozen=True, kw_only=True, slots=True)
class Seed:
    """The start of the chain of chunk signatures: the request's signature and its key."""

    signing_key: bytes
    timestamp: str
    scope: str
    signature: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Payload:
    """The checks of a request's body.

    sha256: the signed hash in hexadecimal, for mode `hash`. decoded_length: the announced size of
    the object, for a framed body. seed: None if chunk signatures are not checked, because no
    signature is required (`--no-auth`). trailers: the announced trailer names, lower case.
    """

    mode: Mode = "unsigned"
    sha256: str | None = None
    decoded_length: int | None = None
    seed: Seed | None = None
    trailers: tuple[str, ...] = ()

    @property
    def framed(self) -> bool:
        """Whether the body on the wire has framing around the object's bytes."""
        return self.mode not in ("unsigned", "hash")

    def decoder(self, *, verify_hash: bool = True) -> PayloadDecoder:
        """Return a fresh decoder for the body.

        verify_hash: whether the decoder computes the hash of mode `hash`. False for a caller that
        computes it off the event loop and calls `check_sha256`.
        """
        if self.framed:
            return ChunkDecoder(self)
        return PlainDecoder(self.sha256 if verify_hash else None)

    def check_sha256(self, digest: bytes) -> None:
        """Raise PayloadHashMismatch if this SHA-256 of a body differs from the signed one."""
        if self.sha256 is not None and not hmac.compare_digest(self.sha256, digest.hex()):
            raise errors.PayloadHashMismatch(
                "the body's SHA-256 is not the signed x-amz-content-sha256",
                expected=self.sha256,
                computed=digest.hex(),
            )


class PayloadDecoder(Protocol):
    """Decodes the bytes on the wire into the object's bytes."""

    def feed(self, data: bytes) -> bytes:
        """Return the object's bytes in data. Raises PayloadError."""

    def finish(self) -> dict[str, str]:
        """Return the trailers, by lower-case name, after all checks. Raises PayloadError."""


def parse_payload(
    content_sha256: str | None,
    *,
    decoded_length: str | None,
    trailer: str | None,
    seed: Seed | None,
) -> Payload:
    """Return the payload checks that an S3 request's headers announce.

    content_sha256, decoded_length, trailer: x-amz-content-sha256, x-amz-decoded-content-length
    and x-amz-trailer, None where absent. seed: None where no signature is checked.
    Raises MalformedPayloadHash, UnsupportedPayload, MissingDecodedLength.
    """
    if content_sha256 is None or content_sha256 == UNSIGNED:
        return UNSIGNED_PAYLOAD
    if content_sha256 == EMPTY_SHA256:
        return EMPTY_PAYLOAD
    if _HEX_SHA256.fullmatch(content_sha256):
        return Payload(mode="hash", sha256=content_sha256.lower())
    mode = MODE_OF.get(content_sha256)
    if mode is None:
        if content_sha256 in ELLIPTIC:
            raise errors.UnsupportedPayload(f"{content_sha256} is not supported")
        raise malformed_hash(content_sha256)
    if decoded_length is None or not (decoded_length.isascii() and decoded_length.isdecimal()):
        raise errors.MissingDecodedLength(
            "a streaming body needs x-amz-decoded-content-length, a whole number"
        )
    names: tuple[str, ...] = ()
    if trailer and mode != "chunks":
        names = tuple(name for part in trailer.split(",") if (name := part.strip().lower()))
    return Payload(
        mode=mode,
        decoded_length=int(decoded_length[:20]),
        seed=None if mode == "unsigned-trailer" else seed,
        trailers=names,
    )


def malformed_hash(content_sha256: str) -> errors.MalformedPayloadHash:
    """Return the error for a malformed x-amz-content-sha256."""
    return errors.MalformedPayloadHash(
        "x-amz-content-sha256 must be UNSIGNED-PAYLOAD, a STREAMING- form, or a SHA-256 in "
        "hexadecimal",
        actual=content_sha256,
    )


UNSIGNED_PAYLOAD: Final = Payload()
"""A body without a signature."""

EMPTY_PAYLOAD: Final = Payload(mode="hash", sha256=EMPTY_SHA256)
"""An empty body, whose hash is signed."""


class PlainDecoder:
    """Decodes a body without framing; computes its hash if one was signed."""

    __slots__ = ("_expected", "_hash")

    def __init__(self, expected: str | None) -> None:
        self._expected = expected
        self._hash = None if expected is None else hashlib.sha256()

    def feed(self, data: bytes) -> bytes:
        """Return data as it is."""
        if self._hash is not None:
            self._hash.update(data)
        return data

    def finish(self) -> dict[str, str]:
        """Return no trailers. Raises PayloadHashMismatch."""
        if self._hash is not None:
            Payload(sha256=self._expected).check_sha256(self._hash.digest())
        return {}


State: TypeAlias = Literal["size", "data", "data-end", "end", "trailers", "empty-line", "done"]


class ChunkDecoder:
    """Decodes an aws-chunked body. The size of the pieces does not affect errors."""

    __slots__ = (
        "_bare_newline",
        "_buffer",
        "_chunk",
        "_decoded_bytes",
        "_expected",
        "_hash",
        "_left",
        "_payload",
        "_previous",
        "_raw_trailers",
        "_seed",
        "_signed_trailers",
        "_state",
        "_trailer_bytes",
        "_trailer_signature",
    )

    def __init__(self, payload: Payload) -> None:
        assert payload.framed
        assert payload.decoded_length is not None
        self._payload = payload
        self._seed = payload.seed
        # The signature is there also if it is not checked, for want of a seed.
        self._signed_trailers = payload.mode == "chunks-trailer"
        self._previous = payload.seed.signature if payload.seed else ""
        self._state: State = "size"
        self._buffer = bytearray()  # an unfinished line; never chunk data
        self._left = 0
        self._chunk = 0
        self._expected = ""
        self._decoded_bytes = 0
        self._hash = hashlib.sha256()
        self._raw_trailers: list[tuple[str, str]] = []
        self._trailer_bytes = 0
        self._trailer_signature: str | None = None
        self._bare_newline = False  # whether the last line of an unsigned trailer ends by LF alone

    def feed(self, data: bytes) -> bytes:
        """Return the object's bytes in data. Raises PayloadError."""
        out = []
        position = 0
        size = len(data)
        while position < size:
            match self._state:
                case "data":
                    taken = data[position : position + self._left]
                    position += len(taken)
                    self._left -= len(taken)
                    if self._seed is not None:
                        self._hash.update(taken)
                    out.append(taken)
                    if self._left == 0:
                        self._check_chunk()
                        self._state = "data-end"
                case "done":
                    raise errors.MalformedChunk(AFTER_THE_END)
                case _:
                    position = self._take_line(data, position)
        return out[0] if len(out) == 1 else b"".join(out)

    def finish(self) -> dict[str, str]:
        """Return the trailers after all checks. Raises PayloadError."""
        if self._state != "done" and (self._state != "empty-line" or self._buffer):
            raise errors.IncompletePayload("the aws-chunked body ends before its last chunk")
        if self._decoded_bytes != self._payload.decoded_length:
            raise errors.IncompletePayload(
                f"the body has {self._decoded_bytes} bytes, but x-amz-decoded-content-length says "
                f"{self._payload.decoded_length}"
            )
        return dict(self._raw_trailers)

    def _take_line(self, data: bytes, position: int) -> int:
        """Take bytes up to the end of a line, process a whole line, and return the new position."""
        newline = data.find(b"\n", position)
        stop = len(data) if newline < 0 else newline + 1
        is_break = self._state in ("data-end", "end", "empty-line")
        room = (2 if is_break else limits.CHUNK_HEADER_BYTES_MAX) - len(self._buffer)
        if stop - position > room:
            if is_break:
                raise self._no_line_break()
            raise errors.MalformedChunk(
                f"a line of the aws-chunked framing is longer than {limits.CHUNK_HEADER_BYTES_MAX} "
                "bytes"
            )
        self._buffer += data[position:stop]
        if newline >= 0:
            line = bytes(self._buffer)
            self._buffer.clear()
            self._take_whole_line(line)
        elif is_break and self._buffer != b"\r":
            raise self._no_line_break()
        return stop

    def _take_whole_line(self, line: bytes) -> None:
        if self._state == "trailers":
            text = line.removesuffix(b"\n").removesuffix(b"\r")
            self._take_trailer_line(text)
            if text:
                self._bare_newline = not self._signed_trailers and line[-2:] != b"\r\n"
            return
        if not line.endswith(b"\r\n"):
            raise self._no_line_break()
        text = line[:-2]
        if self._state == "size":
            self._take_size(text)
        elif text:
            raise self._no_line_break()
        elif self._state == "data-end":
            self._chunk += 1
            self._state = "size"
        else:
            self._state = "done"

    def _take_size(self, text: bytes) -> None:
        size, _, extension = text.partition(b";")
        if not _SIZE.fullmatch(size):
            raise errors.MalformedChunk(f"chunk {self._chunk} has no length")
        self._left = int(size, 16)
        if self._seed is not None:
            signature = _SIGNATURE.fullmatch(extension)
            if signature is None:
                raise errors.MalformedChunk(f"chunk {self._chunk} has no signature")
            self._expected = signature[1].decode()
        self._decoded_bytes += self._left
        assert self._payload.decoded_length is not None
        if self._decoded_bytes > self._payload.decoded_length:
            raise errors.IncompletePayload(
                "the body is longer than x-amz-decoded-content-length "
                f"({self._payload.decoded_length})"
            )
        if self._left:
            self._state = "data"
        else:
            self._check_chunk()
            self._state = "end" if self._payload.mode == "chunks" else "trailers"

    def _check_chunk(self) -> None:
        if self._seed is None:
            return
        text = "\n".join(
            (
                "AWS4-HMAC-SHA256-PAYLOAD",
                self._seed.timestamp,
                self._seed.scope,
                self._previous,
                EMPTY_SHA256,
                self._hash.hexdigest(),
            )
        )
        self._check_signature(text, self._expected)
        self._previous = self._expected
        self._hash = hashlib.sha256()

    def _take_trailer_line(self, line: bytes) -> None:
        if not line:
            # A published form of the signed trailer has an empty line before the signature.
            if self._signed_trailers and self._trailer_signature is None:
                self._count_trailer_bytes(2)
                return
            self._check_trailers()
            # Such a line ends by LF CRLF in minio-go's requests, where this line belongs to it.
            self._state = "empty-line" if self._bare_newline else "done"
            return
        self._count_trailer_bytes(len(line) + 2)
        if self._trailer_signature is not None:
            raise errors.MalformedTrailer("a trailer follows the trailer's signature")
        try:
            name, colon, value = line.decode("ascii").partition(":")
        except UnicodeDecodeError:
            raise errors.MalformedTrailer("a trailer is not ASCII text") from None
        name, value = name.strip().lower(), value.strip()
        if not colon or not _TRAILER_NAME.fullmatch(name):
            raise errors.MalformedTrailer("a trailer line has no name and value")
        if name == TRAILER_SIGNATURE:
            self._trailer_signature = value
            return
        if name not in self._payload.trailers:
            raise errors.MalformedTrailer(f"the trailer {name} was not announced by x-amz-trailer")
        if any(name == other for other, _ in self._raw_trailers):
            raise errors.MalformedTrailer(f"the trailer {name} comes twice")
        self._raw_trailers.append((name, value))

    def _count_trailer_bytes(self, count: int) -> None:
        self._trailer_bytes += count
        if self._trailer_bytes > limits.TRAILERS_BYTES_MAX:
            raise errors.MalformedTrailer("the trailers are too long")

    def _check_trailers(self) -> None:
        names = {name for name, _ in self._raw_trailers}
        for name in self._payload.trailers:
            if name not in names:
                raise errors.MalformedTrailer(f"the announced trailer {name} is missing")
        if self._seed is None:
            return
        canonical = "".join(f"{name}:{value}\n" for name, value in sorted(self._raw_trailers))
        text = "\n".join(
            (
                "AWS4-HMAC-SHA256-TRAILER",
                self._seed.timestamp,
                self._seed.scope,
                self._previous,
                hashlib.sha256(canonical.encode()).hexdigest(),
            )
        )
        assert self._trailer_signature is not None
        self._check_signature(text, self._trailer_signature)

    def _check_signature(self, string_to_sign: str, signature: str) -> None:
        assert self._seed is not None
        key = self._seed.signing_key
        computed = hmac.digest(key, string_to_sign.encode(), "sha256").hex()
        if not hmac.compare_digest(computed.encode(), signature.encode()):
            raise errors.ChunkSignatureMismatch(
                f"the signature of chunk {self._chunk} does not match", chunk=self._chunk
            )

    def _no_line_break(self) -> errors.MalformedChunk:
        if self._state == "empty-line":
            return errors.MalformedChunk(AFTER_THE_END)
        return errors.MalformedChunk(f"chunk {self._chunk} does not end where its length says")

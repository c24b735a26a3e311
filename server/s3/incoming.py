"""face: receives the body of a request into storage, and checks every digest of the client.

The payload's decoder removes aws-chunked framing and checks signatures. Storage computes each
digest once, off the event loop. A body that fails a check has no row in the index, and its file is
removed.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Final, Protocol, TypeVar

from server import asgi, calls, limits, receiving
from server import errors as kit_errors
from server.auth import callers, chunked
from server.s3 import errors, fields
from storage import blobs, checksums, model

OBJECT_BYTES_MAX: Final = 5 * 1024**3
"""The largest body of one PutObject or UploadPart; larger objects are uploaded in parts."""

EMPTY_BODY_BYTES_MAX: Final = 4 * 1024
"""The framing and the trailers around an empty body."""
LINES_AT_ONCE_MAX: Final = 256
FRAMED_STEP_BYTES: Final = 8 * 1024

Document = TypeVar("Document")


def check_size(size_bytes: int | None, request: asgi.Request, *, beside_bytes: int = 0) -> None:
    """Raise EntityTooLarge if the announced size is too large, and MissingContentLength without
    one.

    A body in chunked transfer coding needs none. beside_bytes: allowed in addition to an object.
    """
    if size_bytes is None:
        if b"transfer-encoding" not in request.headers.joined:
            raise errors.MissingContentLength("You must provide the Content-Length HTTP header.")
    elif size_bytes > OBJECT_BYTES_MAX + beside_bytes:
        raise _too_large(size_bytes)


class BodySource(Protocol):
    """The source of a body: a request, or the file of a form."""

    def chunks(self) -> AsyncIterator[bytes]: ...

    async def take_over(self, *, size_bytes: int) -> blobs.Intake | None: ...

    def note_taken(self, count: int) -> None: ...


async def receive(
    store: blobs.Blobs,
    source: BodySource,
    caller: callers.Caller,
    *,
    size_bytes: int | None,
    integrity: fields.Integrity,
    also: str | None = None,
) -> tuple[model.Received, Mapping[str, str]]:
    """Return the durable body, and the checksum in base64 that the client sent for it, or None.

    size_bytes: the announced size, or None. also: a further digest algorithm.
    Raises BadDigest, IncompleteBody, EntityTooLarge, and what the payload and storage raise.
    """
    payload = caller.payload
    wanted = _digests_of(payload, integrity)
    if also is not None:
        wanted.add(also)
    decoder = payload.decoder(verify_hash=False)
    limit_bytes = OBJECT_BYTES_MAX if size_bytes is None else size_bytes
    receiver = store.receive(size_hint=size_bytes, digests=frozenset(wanted))
    may_pass = not payload.framed and size_bytes is not None
    try:
        if may_pass:
            await _pass_on(source, receiver, limit_bytes)
        async for data in source.chunks():
            for step in _steps(payload, data):
                plain = decoder.feed(step)
                if plain:
                    if receiver.size_bytes + len(plain) > limit_bytes:
                        if size_bytes is None:
                            raise _too_large(receiver.size_bytes + len(plain))
                        raise _incomplete(size_bytes)
                    await receiver.write(plain)
                if step is not data:
                    await asyncio.sleep(0)
            if may_pass and receiver.is_new:
                data = step = plain = b""  # not kept while another process receives the rest
                await _pass_on(source, receiver, limit_bytes)
        trailers = decoder.finish()
        if size_bytes is not None and receiver.size_bytes != size_bytes:
            raise _incomplete(size_bytes)
        received = await receiver.finish()
        if payload.sha256 is not None:
            payload.check_sha256(received.digests["sha256"])
        return received, check_integrity(integrity, trailers, received.digests)
    except BaseException:
        await receiver.abort()
        raise


async def _pass_on(source: BodySource, receiver: blobs.Receiver, size_bytes: int) -> None:
    """Let another process receive what is left of a large body, if it can.

    Raises ClientDisconnected if that process is lost: then the connection is cut off.
    """
    intake = await source.take_over(size_bytes=size_bytes)
    if intake is None:
        return
    try:
        source.note_taken(await receiver.write_from(intake))
    except receiving.ProcessLost as error:
        raise kit_errors.ClientDisconnected(str(error)) from error


def arriving(request: asgi.Request, *, size_bytes: int | None) -> asyncio.Future[None] | None:
    """Return a future that is done when `receive_arrived` can receive a small body.

    None if it can now, or if the body is not small."""
    if size_bytes is None or size_bytes > blobs.INLINE_BYTES_MAX or request.arrived() is not None:
        return None
    return request.arriving(limit_bytes=blobs.INLINE_BYTES_MAX)


def receive_arrived(
    request: asgi.Request,
    caller: callers.Caller,
    *,
    size_bytes: int | None,
    integrity: fields.Integrity,
) -> tuple[model.Received, Mapping[str, str]] | None:
    """Do what `receive` does for a small body that has arrived, without a wait; else return None.

    A PUT of 4 KiB takes a quarter less CPU in process than through `receive`.
    """
    if size_bytes is None or size_bytes > blobs.INLINE_BYTES_MAX:
        return None
    data = request.arrived()
    if data is None:
        return None
    payload = caller.payload
    trailers: Mapping[str, str] = {}
    if payload.framed:
        if data.count(b"\r\n") > LINES_AT_ONCE_MAX:
            return None
        decoder = payload.decoder()
        data = decoder.feed(data)
        trailers = decoder.finish()
    if len(data) != size_bytes:
        raise _incomplete(size_bytes)
    digests = checksums.digest(data, _digests_of(payload, integrity))
    if payload.sha256 is not None:
        payload.check_sha256(digests["sha256"])
    received = model.Received(
        body=model.InlineBody(data=data), size_bytes=size_bytes, digests=digests
    )
    return received, check_integrity(integrity, trailers, digests)


def _digests_of(payload: chunked.Payload, integrity: fields.Integrity) -> set[str]:
    """Return the digest algorithms for a body's ETag, its signature and the client's checksum."""
    wanted = {checksums.MD5}
    if payload.sha256 is not None:
        wanted.add("sha256")
    sent = integrity.trailer if integrity.checksum is None else integrity.checksum[0]
    if sent is not None:
        wanted.add(sent)
    return wanted


async def parsed(parse: Callable[[bytes], Document], data: bytes) -> Document:
    """Return the result of parsing a body. A large one is parsed in a thread."""
    if len(data) <= limits.PARSED_HERE_BYTES_MAX:
        return parse(data)
    return await asyncio.to_thread(parse, data)


async def read_configuration(
    call: calls.Call, *, limit_bytes: int = limits.CONFIGURATION_BYTES_MAX
) -> bytes:
    """Return the document that configures a bucket or an object, checked as `read_document` does.

    The call's value has the digests of the body.
    """
    return await read_document(
        call.request,
        call.caller,
        integrity=call.value.integrity,
        limit_bytes=limit_bytes,
    )


async def read_document(
    request: asgi.Request,
    caller: callers.Caller,
    *,
    integrity: fields.Integrity = fields.NO_INTEGRITY,
    limit_bytes: int = limits.XML_BYTES_MAX,
) -> bytes:
    """Return a small body, an XML document, after the check of its signature and digests."""
    decoder = caller.payload.decoder()
    wire_bytes = await request.read(limit_bytes=limit_bytes)
    data = decoder.feed(wire_bytes) if wire_bytes else b""
    trailers = decoder.finish()
    sent = integrity.trailer if integrity.checksum is None else integrity.checksum[0]
    wanted = {checksums.MD5} if sent is None else {checksums.MD5, sent}
    check_integrity(integrity, trailers, checksums.digest(data, wanted))
    return data


async def refuse_body(request: asgi.Request, caller: callers.Caller) -> None:
    """Raise InvalidRequest for a body that is not empty, in a request that has none.

    The framing of a streaming upload may surround an empty body.
    """
    try:
        data = await read_document(request, caller, limit_bytes=EMPTY_BODY_BYTES_MAX)
    except kit_errors.BodyTooLarge:
        data = b"too large"
    if not data:
        return
    raise errors.InvalidRequest(
        "The request included a body. Requests of this type must not include a non-empty body."
    )


def check_integrity(
    integrity: fields.Integrity, trailers: Mapping[str, str], digests: Mapping[str, bytes]
) -> Mapping[str, str]:
    """Return the checksum that the client sent, with its algorithm. Raises BadDigest."""
    if integrity is fields.NO_INTEGRITY:
        return {}
    if integrity.content_md5 is not None and not hmac.compare_digest(
        integrity.content_md5, digests[checksums.MD5]
    ):
        raise errors.BadDigest(
            "The Content-MD5 you specified did not match what we received.",
            ExpectedDigest=checksums.to_text(integrity.content_md5),
            CalculatedDigest=checksums.to_text(digests[checksums.MD5]),
        )
    if integrity.checksum is not None:
        name, value = integrity.checksum
    elif integrity.trailer is not None:
        name = integrity.trailer
        value = fields.parse_checksum(name, trailers.get(fields.CHECKSUM_PREFIX + name, ""))
    else:
        return {}
    if checksums.to_text(digests[name]) != value:
        raise errors.BadDigest(
            f"The {name.upper()} you specified did not match the calculated checksum."
        )
    return {name: value}


def _steps(payload: chunked.Payload, data: bytes) -> Iterable[bytes]:
    """Yield data, in small pieces if its chunks are so small that decoding takes long."""
    if not payload.framed or data.count(b"\r\n") <= LINES_AT_ONCE_MAX:
        return (data,)
    return (
        data[start : start + FRAMED_STEP_BYTES] for start in range(0, len(data), FRAMED_STEP_BYTES)
    )


def _too_large(size_bytes: int) -> errors.EntityTooLarge:
    return errors.EntityTooLarge(
        "Your proposed upload exceeds the maximum allowed size",
        ProposedSize=str(size_bytes),
        MaxSizeAllowed=str(OBJECT_BYTES_MAX),
    )


def _incomplete(size_bytes: int) -> errors.IncompleteBody:
    return errors.IncompleteBody(
        "You did not provide the number of bytes specified by the Content-Length HTTP header",
        NumberBytesExpected=str(size_bytes),
    )

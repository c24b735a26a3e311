"""face: PostObject: stores the file of a browser's form as an object.

The fields before the file have the signature, the policy, and the attributes of the object. The
face checks them before it reads the file, which then streams into storage like the body of a PUT.
The policy's limits on the size are checked while the file arrives.
"""

from __future__ import annotations

import urllib.parse
from collections.abc import AsyncIterator, Mapping
from typing import Final

import msgspec

from server import asgi, calls, limits
from server.auth import postpolicy, presign
from server.s3 import acls, encryption, engines, errors, forms, incoming, objects, operations, wire
from storage import model

FILENAME: Final = "${filename}"
OWNER: Final = "x-amz-expected-bucket-owner"
STATUSES: Final = (200, 201, 204)
STATUS: Final = 204
"""The status of a response to a form that names none of STATUSES."""


class Form:
    """The body of a request: first its fields, then its file. Mutable."""

    def __init__(self, request: asgi.Request, boundary: str) -> None:
        self._decoder = forms.Decoder(boundary)
        self._chunks = request.chunks()
        self._waiting: list[forms.Event] = []
        self.policy: postpolicy.PostPolicy | None = None
        self.filename = ""

    async def read_fields(self) -> dict[str, str]:
        """Return the fields before the file, by lower-case names, and set the file's name.

        Raises MalformedForm, FormTooLarge, FileMissing; InvalidArgument for a field that comes
        twice, because the policy would be compared with only one of the two.
        """
        values: dict[str, str] = {}
        async for data in self._chunks:
            events = self._decoder.feed(data)
            for position, event in enumerate(events):
                if isinstance(event, forms.File):
                    self.filename = event.filename
                    self._waiting = events[position + 1 :]
                    return values
                assert isinstance(event, forms.Field), "bytes follow the start of the file"
                if event.name in values:
                    raise errors.InvalidArgument(
                        "The form has a field twice; each may occur once", ArgumentName=event.name
                    )
                values[event.name] = event.value
        self._decoder.finish()
        raise AssertionError("a body without a file does not finish")

    async def take_over(self, *, size_bytes: int) -> None:
        """Return None: the end of a file in a form has to be searched for."""

    def note_taken(self, count: int) -> None:
        """Never called, because no process takes the file over."""

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the file. Raises PostBodyTooLarge, PostBodyTooSmall by the policy's range."""
        size_bytes = 0
        events = self._waiting
        while True:
            for event in events:
                if isinstance(event, bytes):
                    size_bytes += len(event)
                    if self.policy is not None:
                        postpolicy.check_largest(self.policy, size_bytes)
                    yield event
            data = await anext(self._chunks, None)
            if data is None:
                break
            events = self._decoder.feed(data)
        self._decoder.finish()
        if self.policy is not None:
            postpolicy.check_size(self.policy, size_bytes)


async def post_object(services: engines.S3Services, call: calls.Call) -> asgi.Response:
    form_operation: operations.PostObject = call.value
    request = call.request
    _check_unsigned(request)
    _check_encryption_is_field(request)
    incoming.check_size(
        request.content_length, request, beside_bytes=2 * limits.POST_FORM_BYTES_MAX
    )
    form = Form(request, form_operation.boundary)
    async with request.holding(limits.POST_FORM_BYTES_MAX):
        values = await form.read_fields()
    # The policy's conditions are about the fields with the file's name in them.
    values = _with_filename(values, form.filename)
    caller, form.policy = services.verifier.verify_post(
        request, {**values, "bucket": form_operation.bucket}
    )
    wanted = encryption.without(values) if services.encrypted_disk else values
    operation = operations.parse_form(form_operation, wanted)
    if encryption.HEADER not in wanted:
        operation = msgspec.structs.replace(
            operation, form_encryption=values.get(encryption.HEADER)
        )
    call.value = operation
    call.admit(caller)
    for owner in (form_operation.owner, values.get(OWNER) or None):
        if owner is not None:
            engines.check_owner(services, operation.bucket, owner)
    acls.of_new(services, call, engines.ruling(call, operation.bucket, operation.key))
    engines.check_writable(call, operation.bucket, operation.key, None)
    engines.check_precondition(
        services, call, operation.bucket, operation.key, operation.conditions
    )
    received, sent = await incoming.receive(
        services.blobs, form, caller, size_bytes=None, integrity=operation.integrity
    )
    info = await objects.store(services, call, received, sent)
    further = engines.headers_of_write(services, call, info)
    return _answer(info, values, location=_location(request, info), further=further)


def _with_filename(values: Mapping[str, str], filename: str) -> dict[str, str]:
    """Return fields with the file's name in place of FILENAME. Raises FormTooLarge."""
    size = sum(len(text) + text.count(FILENAME) * len(filename) for text in values.values())
    if size > limits.POST_FORM_BYTES_MAX:
        raise errors.FormTooLarge(
            "Your POST request fields preceding the upload file were too large: with the file's "
            f"name in them they have more than {limits.POST_FORM_BYTES_MAX} characters."
        )
    return {name: text.replace(FILENAME, filename) for name, text in values.items()}


def _answer(
    info: model.ObjectInfo,
    values: dict[str, str],
    *,
    location: str,
    further: asgi.ResponseHeaders,
) -> asgi.Response:
    """Return the response that the form names: a redirect, a status, or 204."""
    headers = (
        ("etag", f'"{info.etag}"'),
        ("location", location),
        *wire.checksum_headers(info),
        *wire.written_version(info),
        *further,
    )
    redirect = _redirect(info, values.get("success_action_redirect") or values.get("redirect"))
    if redirect is not None:
        return asgi.Response(303, (*headers[:1], ("location", redirect), *headers[2:]))
    wanted = values.get("success_action_status", "")
    status = int(wanted) if wanted in map(str, STATUSES) else STATUS
    if status == 201:
        return asgi.Response(
            201, (*wire.XML_HEADERS, *headers), wire.post_response(info, location=location)
        )
    return asgi.Response(status, headers)


def _redirect(info: model.ObjectInfo, url: str | None) -> str | None:
    """Return the URL of the redirect of a form; None if a browser could not follow it."""
    if not url or not url.isascii() or not url.isprintable() or " " in url:
        return None
    try:
        parts = urllib.parse.urlsplit(url)
    except ValueError:
        return None
    if parts.scheme not in ("http", "https") or not parts.netloc:
        return None
    about = urllib.parse.urlencode(
        {"bucket": info.bucket, "key": info.key, "etag": f'"{info.etag}"'},
        quote_via=urllib.parse.quote,
    )
    query = f"{parts.query}&{about}" if parts.query else about
    return urllib.parse.urlunsplit(parts._replace(query=query))


def _location(request: asgi.Request, info: model.ObjectInfo) -> str:
    path = request.raw_path.decode("latin-1").rstrip("/")
    return f"{request.origin}{path}/{urllib.parse.quote(info.key)}"


def _check_unsigned(request: asgi.Request) -> None:
    """Raise InvalidArgument for a signature outside the form, because it is not checked."""
    signed = b"authorization" in request.headers.joined or (
        request.query and (presign.is_v4(request.query) or presign.is_v2(request.query))
    )
    if signed:
        raise errors.InvalidArgument(
            "Only one auth mechanism allowed; a POST form has its signature among its fields",
            ArgumentName="Authorization",
        )


def _check_encryption_is_field(request: asgi.Request) -> None:
    """Raise InvalidArgument for encryption in the head, which the signature does not cover.

    On an encrypted disk the head's other checks no longer see it.
    """
    beside = (name.lower() for name, _ in request.pairs)
    if encryption.HEADER.encode() in request.headers.joined or encryption.HEADER in beside:
        raise errors.InvalidArgument(
            f"A POST form has {encryption.HEADER} as a field, not as a header",
            ArgumentName=encryption.HEADER,
        )

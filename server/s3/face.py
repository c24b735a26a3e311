"""face: S3: identifies the row of each request, and encodes errors.

The operations are the rows of `server.s3.rows`. Handlers and engines decide; this module does not.
"""

from __future__ import annotations

import dataclasses
import functools
import urllib.parse
from collections.abc import Awaitable, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from server import asgi, calls, dispatch
from server.access import decide, principals
from server.accesslogs import delivery
from server.auth import callers, verify
from server.s3 import (
    control,
    cors,
    encryption,
    engines,
    errors,
    fields,
    guard,
    operations,
    routes,
    rows,
    wire,
    wire_errors,
)
from storage import errors as storage_errors
from storage import expiry, opening

READS_REMEMBERED: Final = 4096
READ_BYTES_REMEMBERED_MAX: Final = 1024
QUERY_BYTES_REMEMBERED_MAX: Final = 64
"""The number of GETs and HEADs whose parsed form is cached, and the most bytes of path, query and
S3 headers of one: clients read the same objects repeatedly, with the same headers. A longer query
has a signature or a token, and comes once."""
OWNER: Final = "x-amz-expected-bucket-owner"
SOURCE_OWNER: Final = "x-amz-source-expected-bucket-owner"

Owners: TypeAlias = tuple[str | None, str | None]
"""The expected owners of a request's bucket and of its source's, None where none is expected."""


class S3Face:
    """The S3 face.

    principals: root and the configured users. guard: knows the tables. domain: the configured one
    for virtual-hosted buckets, besides `localhost`. hide_table_buckets: ListBuckets leaves table
    buckets out. encrypted_disk: SSE-S3 holds for every object. host_id: of this server's answers.
    """

    name: str = dispatch.S3

    def __init__(
        self,
        *,
        storage: opening.Storage,
        guard: guard.Guard,
        authoriser: decide.Authoriser,
        verifier: verify.Verifier,
        principals: principals.Principals,
        expiry: expiry.Expiry,
        access_logs: delivery.AccessLogs,
        region: str,
        domain: str | None = None,
        hide_table_buckets: bool = False,
        encrypted_disk: bool = False,
        host_id: str = "",
    ) -> None:
        self.services = engines.S3Services(
            buckets=storage.buckets,
            objects=storage.objects,
            uploads=storage.uploads,
            blobs=storage.blobs,
            expiry=expiry,
            access_logs=access_logs,
            authoriser=authoriser,
            verifier=verifier,
            principals=principals,
            region=region,
            hide_table_buckets=hide_table_buckets,
            encrypted_disk=encrypted_disk,
        )
        self._guard = guard
        self._host_id = host_id
        self._domain = domain
        self._host: tuple[bytes | None, str | None] = (b"", None)
        """The Host of the last request, and the bucket that it names."""

    def identify(self, request: asgi.Request) -> calls.Call:
        """Return the operation of a request, with its parsed value and its own Rulings.

        A request of which a parameter is wrong is an operation that refuses it: a wrong signature
        is refused before. Raises InvalidUri, ResourceMethodNotAllowed.
        """
        try:
            return self._identify(request)
        except (errors.InvalidUri, errors.ResourceMethodNotAllowed):
            raise
        except (errors.S3Error, storage_errors.StorageError) as error:
            return calls.Call(_refusal(error), operations.Target(), request)

    def _identify(self, request: asgi.Request) -> calls.Call:
        host, host_bucket = self._host
        if request.headers.joined.get(b"host") != host:
            host_bucket = dispatch.bucket_of_host(request.host, self._domain)
            self._host = (request.headers.joined.get(b"host"), host_bucket)
        headers = fields.select_headers(request.headers.raw)
        if request.method in ("GET", "HEAD") and _is_remembered(request, headers):
            row, value, owners = _identify_read(
                request.method, request.raw_path, host_bucket, request.query, *headers.items()
            )
        else:
            pairs = request.pairs if request.query else ()
            if pairs:
                writes = request.method not in ("GET", "HEAD")
                fields.take_headers_of_query(headers, pairs, writes=writes)
            if self.services.encrypted_disk and request.method in ("PUT", "POST"):
                encryption.take(headers)
            row, value, owners = _identify(
                request.method, request.raw_path, host_bucket, pairs, headers
            )
        operation = row.operation if owners is None else self._expecting(row, *owners)
        if b"origin" in request.headers.joined:
            operation = self._crossing(operation)
        return calls.Call(operation, value, request, guard.Rulings(self._guard))

    def refuse_unimplemented(self, operation: calls.Operation) -> Exception:
        """Return the error of an operation that has no handler."""
        return errors.S3FeatureNotImplemented(
            f"The operation {operation.name} is not implemented.", Operation=operation.name
        )

    def encode_error(self, error: Exception, request: asgi.Request) -> asgi.Response:
        """Return S3's answer to an error."""
        response = wire_errors.encode(
            error,
            method=request.method,
            resource=urllib.parse.unquote(request.raw_path, errors="replace"),
            request_id=request.request_id,
            host_id=self._host_id,
        )
        if control.is_request(request.raw_path, request.headers):
            assert isinstance(response.body, bytes), "an error's document is in memory"
            body = wire.control_error(response.body)
            response = msgspec.structs.replace(response, body=body)
        if b"origin" in request.headers.joined:
            return self._allow_origin(response, request)
        return response

    def _crossing(self, operation: calls.Operation) -> calls.Operation:
        """Return an operation that adds the CORS headers of the bucket to its response."""
        handler = operation.handler
        if handler is None:
            return operation

        async def wait(outcome: Awaitable[asgi.Response], request: asgi.Request) -> asgi.Response:
            return self._allow_origin(await outcome, request)

        def handle(
            services: engines.S3Services, call: calls.Call
        ) -> asgi.Response | Awaitable[asgi.Response]:
            outcome = handler(services, call)
            if isinstance(outcome, asgi.Response):
                return self._allow_origin(outcome, call.request)
            return wait(outcome, call.request)

        return dataclasses.replace(operation, handler=handle)

    def _allow_origin(self, response: asgi.Response, request: asgi.Request) -> asgi.Response:
        """Return a response with the headers that follow from the bucket's CORS rules."""
        if request.method == "OPTIONS":
            return response  # its handler has checked the origin
        wanted = cors.parse_wanted(request.headers.joined, request.method)
        if wanted is None:
            return response
        try:
            host_bucket = dispatch.bucket_of_host(request.host, self._domain)
            name, _ = operations.locate(request.raw_path, host_bucket)
            bucket = self.services.buckets.get(name)
        except (errors.InvalidUri, storage_errors.NoSuchBucket):
            return response
        headers = cors.allow(cors.rules_of(bucket.settings.get(cors.SETTING)), wanted)
        if headers is None:
            return response
        return msgspec.structs.replace(response, headers=(*response.headers, *headers))

    def _expecting(
        self, row: routes.S3Row, owner: str | None, source_owner: str | None
    ) -> calls.Operation:
        """Return an operation that first checks the bucket owners that the client expects."""
        operation = row.operation

        async def check_and_handle(services: engines.S3Services, call: calls.Call) -> asgi.Response:
            if owner is not None and row.owner_checked:
                engines.check_owner(services, call.value.bucket, owner)
            source = getattr(call.value, "source", None)
            if source_owner is not None and source is not None:
                engines.check_owner(services, source.bucket, source_owner)
            if operation.handler is None:
                raise self.refuse_unimplemented(operation)
            outcome = operation.handler(services, call)
            return outcome if isinstance(outcome, asgi.Response) else await outcome

        return dataclasses.replace(operation, handler=check_and_handle)


def _refusal(error: Exception) -> calls.Operation:
    """Return the operation of a request whose parameters raise an error."""

    def refuse(services: engines.S3Services, call: calls.Call) -> asgi.Response:
        raise error.with_traceback(None)

    return calls.Operation(
        name="Refused",
        handler=refuse,
        authentication=callers.Authentication.SIGNED_OR_ANONYMOUS,
    )


def _is_remembered(request: asgi.Request, headers: Mapping[str, str]) -> bool:
    """Return whether the parsed form of a GET or HEAD is cached. A range is seldom read twice."""
    if "range" in headers:
        return False
    if len(request.query) > QUERY_BYTES_REMEMBERED_MAX:
        return False
    size_bytes = len(request.raw_path)
    if headers:
        size_bytes += sum(map(len, headers)) + sum(map(len, headers.values()))
    return size_bytes <= READ_BYTES_REMEMBERED_MAX


@functools.lru_cache(READS_REMEMBERED)
def _identify_read(
    method: str, raw_path: bytes, host_bucket: str | None, query: bytes, *headers: tuple[str, str]
) -> tuple[routes.S3Row, Any, Owners | None]:
    """Do what `_identify` does for a request without a body."""
    selected, pairs = dict(headers), asgi.parse_pairs(query)
    if pairs:
        fields.take_headers_of_query(selected, pairs)
    return _identify(method, raw_path, host_bucket, pairs, selected)


def _identify(
    method: str,
    raw_path: bytes,
    host_bucket: str | None,
    pairs: routes.Pairs,
    headers: Mapping[str, str],
) -> tuple[routes.S3Row, Any, Owners | None]:
    """Return the row of a request, its value, and the bucket owners that the client expects.

    headers: with those of the query.
    """
    row, value = rows.TABLE.identify(
        method=method, raw_path=raw_path, host_bucket=host_bucket, pairs=pairs, headers=headers
    )
    owners = headers.get(OWNER), headers.get(SOURCE_OWNER)
    return row, value, None if owners == (None, None) else owners

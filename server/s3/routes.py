"""rule: the row of an S3 operation, and the lookup of the row for a request.

The lookup compares the scope (service, bucket or object), then the sub-resource in the query, then
the method, then a row's own condition; the first row that matches wins. In the scope of S3 Control,
the first segment of the path stands for the sub-resource. The rows are in `server.s3.rows`. Reads
no body and no index.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias

from server import calls
from server.s3 import control, errors, fields, operations
from storage import names

Scope: TypeAlias = Literal["service", "bucket", "object", "control"]
Status: TypeAlias = Literal["yes", "partly", "no"]
Pairs: TypeAlias = Sequence[tuple[str, str]]
Parse: TypeAlias = Callable[[str, str, operations.Query, operations.Headers], Any]
"""Returns the operation's value for bucket, key, query and headers. Raises S3Error."""
Condition: TypeAlias = Callable[[str, operations.Query, operations.Headers], bool]
"""Returns whether a row matches bucket, query and headers, beyond scope and method."""

_NO_QUERY: Final[operations.Query] = MappingProxyType({})
_READS: Final = frozenset({"GET", "HEAD"})
_OF_VERSIONS: Final = frozenset({"partNumber", "versionId"})
"""Parameters that no bucket has. They select a part or a version of an object, beside a
sub-resource or without one."""
_BUCKET_READS_OF_KEYS: Final = frozenset({
    "accelerate",
    "cors",
    "inventory",
    "lifecycle",
    "location",
    "logging",
    "notification",
    "policy",
    "replication",
    "requestPayment",
    "versioning",
    "versions",
    "website",
})  # fmt: skip
"""Sub-resources of buckets that count in a read of a key. Others, such as `session`, are parameters
without a meaning there, as on AWS, for pages whose links have parameters of their own."""


@dataclass(frozen=True, kw_only=True, slots=True)
class S3Row:
    """One operation of S3.

    operation: its name, handler and demands; without a handler it is not implemented.
    subresource: the query parameter that names it, "" for none. when: None if scope, sub-resource
    and method are enough. status: its status in COMPATIBILITY.md; None if S3 has no name for the
    operation. on_tables: AWS offers it on the storage of tables. owner_checked: its bucket exists,
    so the request may name the expected owner of the bucket.
    """

    operation: calls.Operation
    methods: tuple[str, ...]
    scope: Scope
    subresource: str = ""
    when: Condition | None = None
    parse: Parse
    status: Status | None
    on_tables: bool = True
    owner_checked: bool = True

    @property
    def name(self) -> str:
        """The operation's name in S3's API."""
        return self.operation.name


class RouteTable:
    """The rows, looked up by request."""

    def __init__(self, rows: Sequence[S3Row]) -> None:
        by_place: dict[tuple[Scope, str, str], list[S3Row]] = {}
        for row in rows:
            for method in row.methods:
                by_place.setdefault((row.scope, row.subresource, method), []).append(row)
        self._rows: Mapping[tuple[Scope, str, str], Sequence[S3Row]] = by_place
        names: dict[Scope, set[str]] = {
            "service": set(),
            "bucket": set(),
            "object": {"uploadId"},
            "control": set(),
        }
        for row in rows:
            names[row.scope].add(row.subresource)
        self._of_bucket = frozenset(names["bucket"] - {""})
        self._of_object = frozenset(names["object"] - {""})
        self._selecting = self._of_bucket | self._of_object | _OF_VERSIONS

    def identify(
        self,
        *,
        method: str,
        raw_path: bytes,
        host_bucket: str | None,
        pairs: Pairs,
        headers: operations.Headers,
    ) -> tuple[S3Row, Any]:
        """Return the row of a request, and its parsed value.

        raw_path: percent-encoded, without the query. host_bucket: the bucket that the Host names,
        or None for path style. pairs: the query, decoded, in order. Raises S3Error, and InvalidKey.
        """
        if control.is_request(raw_path, headers):
            return self._identify_control(method, raw_path, headers)
        bucket, key = operations.locate(raw_path, host_bucket)
        scope: Scope = "object" if key else "bucket" if bucket else "service"
        query = fields.plain_parameters(pairs) if pairs else _NO_QUERY
        subresource = ""
        # A browser sends OPTIONS to the URL of its intended request, whose method is not yet known.
        if query and bucket and method != "OPTIONS" and not self._selecting.isdisjoint(query):
            subresource = self._select(method, scope, query)
        for row in self._rows.get((scope, subresource, method), ()):
            if row.when is None or row.when(bucket, query, headers):
                names.check_key_length(key)
                return row, row.parse(bucket, key, query, headers)
        raise _not_allowed(method, subresource or scope)

    def _identify_control(
        self, method: str, raw_path: bytes, headers: operations.Headers
    ) -> tuple[S3Row, Any]:
        """Return the row of a request of S3 Control, and its parsed value."""
        collection, resource = control.split_path(raw_path)
        for row in self._rows.get(("control", collection, method), ()):
            return row, row.parse("", resource, _NO_QUERY, headers)
        raise errors.S3FeatureNotImplemented(
            f"Of S3 Control, the operations on tags of buckets are implemented, and not "
            f"{method} {collection}",
            Operation=f"{method} {collection}",
        )

    def _select(self, method: str, scope: Scope, query: operations.Query) -> str:
        """Return the sub-resource of a request to a bucket or a key, "" for none.

        A request whose query names two of them, or one that its path does not have, is refused: it
        would change something else than the client means. Raises ResourceMethodNotAllowed,
        InvalidArgument and InvalidRequest.
        """
        own, foreign = self._of_object, self._of_bucket - self._of_object
        if scope == "bucket":
            own, foreign = self._of_bucket, self._of_object - self._of_bucket
        elif method in _READS:
            foreign &= _BUCKET_READS_OF_KEYS
        selected = sorted(name for name in query if name in own or name in foreign)
        if "partNumber" in query and selected:
            if selected != ["uploadId"]:
                selected = sorted([*selected, "partNumber"])
            elif method != "PUT":
                raise _not_allowed(method, "part")
        elif selected == ["uploadId"] and method == "PUT" and scope == "object":
            raise _not_allowed(method, "upload")
        if len(selected) > 1:
            raise errors.InvalidArgument(
                f"Conflicting query string parameters: {', '.join(selected)}",
                ArgumentName="ResourceType",
                ArgumentValue=selected[0],
            )
        if scope == "bucket":
            _check_keyless(query)
        elif not selected and "partNumber" in query and method in ("POST", "DELETE"):
            raise fields.part_without_upload()
        if not selected:
            return ""
        if selected[0] in foreign or method == "HEAD":
            raise _not_allowed(method, selected[0])
        return "" if selected[0] == "uploadId" else selected[0]


def _check_keyless(query: operations.Query) -> None:
    """Raise InvalidRequest or InvalidArgument for what selects a part of an object in a query of a
    bucket."""
    if "uploadId" in query:
        raise errors.InvalidRequest("A key must be specified")
    if "partNumber" in query:
        raise errors.InvalidRequest("Object must have a valid key name.")
    fields.refuse_version_id(query)


def _not_allowed(method: str, resource: str) -> errors.ResourceMethodNotAllowed:
    return errors.ResourceMethodNotAllowed(
        "The specified method is not allowed against this resource.",
        Method=method,
        ResourceType=resource.upper(),
    )

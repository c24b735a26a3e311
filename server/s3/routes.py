"""rule: the row of an S3 operation, and the lookup of the row for a request.

The lookup compares the scope (service, bucket or object), then the sub-resource in the query, then
the method, then a row's own condition; the first row that matches wins. The rows are in
`server.s3.rows`. Reads no body and no index.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias

from server import calls
from server.s3 import errors, fields, operations
from storage import names

Scope: TypeAlias = Literal["service", "bucket", "object"]
Status: TypeAlias = Literal["yes", "partly", "no"]
Pairs: TypeAlias = Sequence[tuple[str, str]]
Parse: TypeAlias = Callable[[str, str, operations.Query, operations.Headers], Any]
"""Returns the operation's value for bucket, key, query and headers. Raises S3Error."""
Condition: TypeAlias = Callable[[str, operations.Query, operations.Headers], bool]
"""Returns whether a row matches bucket, query and headers, beyond scope and method."""

_WITHOUT_SUBRESOURCE: Final = frozenset({"HEAD", "OPTIONS"})
"""Methods that ignore the sub-resource in the query. A browser sends OPTIONS to the URL of its
intended request."""
_NO_QUERY: Final[operations.Query] = MappingProxyType({})
_READS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_OF_OBJECTS: Final = frozenset({"partNumber", "uploadId", "versionId"})
"""Parameters that select a row or a version of an object, and that no bucket has."""


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

    def __init__(self, rows: Iterable[S3Row]) -> None:
        by_place: dict[tuple[Scope, str, str], list[S3Row]] = {}
        for row in rows:
            for method in row.methods:
                by_place.setdefault((row.scope, row.subresource, method), []).append(row)
        self._rows: Mapping[tuple[Scope, str, str], Sequence[S3Row]] = by_place
        self._subresources = {(scope, name) for scope, name, _ in by_place if name}
        self._misplaced: Mapping[Scope, frozenset[str]] = {
            "service": frozenset(),
            "bucket": self._names_of("object") - self._names_of("bucket") | _OF_OBJECTS,
            "object": self._names_of("bucket") - self._names_of("object"),
        }

    def _names_of(self, scope: Scope) -> frozenset[str]:
        """Return the sub-resources of a scope."""
        return frozenset(name for place, name in self._subresources if place == scope)

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
        bucket, key = operations.locate(raw_path, host_bucket)
        scope: Scope = "object" if key else "bucket" if bucket else "service"
        query = fields.plain_parameters(pairs) if pairs else _NO_QUERY
        subresource = ""
        if query and method not in _WITHOUT_SUBRESOURCE:
            for name in query:
                if (scope, name) in self._subresources:
                    subresource = name
                    break
            else:
                if method not in _READS:
                    self._check_placed(method, scope, query)
        for row in self._rows.get((scope, subresource, method), ()):
            if row.when is None or row.when(bucket, query, headers):
                names.check_key_length(key)
                return row, row.parse(bucket, key, query, headers)
        raise errors.ResourceMethodNotAllowed(
            "The specified method is not allowed against this resource.",
            Method=method,
            ResourceType=(subresource or scope).upper(),
        )

    def _check_placed(self, method: str, scope: Scope, query: operations.Query) -> None:
        """Raise ResourceMethodNotAllowed for a write with the sub-resource of another scope.

        Without it, the abort of an upload of an empty key would delete the bucket, and a
        bucket's configuration put to a key would replace an object.
        """
        misplaced = self._misplaced[scope]
        for name in query:
            if name in misplaced:
                raise errors.ResourceMethodNotAllowed(
                    "The specified method is not allowed against this resource.",
                    Method=method,
                    ResourceType=name.upper(),
                )

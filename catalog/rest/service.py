"""engine: what every handler of the REST catalog needs, and what they share.

Resolves a warehouse to its table bucket, and says what one request asks, of what and as whom.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from catalog import errors, idents, owners, records
from catalog.namespaces import Namespaces
from catalog.rest import access, credentials, idempotency, routes
from catalog.store import CatalogStore
from catalog.tables import Tables
from server import asgi, exchange

_ARN = re.compile(r"arn:aws[-a-z0-9]*:s3tables:[^:]*:[^:]*:bucket/(?P<name>[^/]+)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Service:
    """The engines below the face. default_warehouse: what a request without prefix means.

    endpoints: what is built, as the configuration advertises it.
    """

    store: CatalogStore
    namespaces: Namespaces
    tables: Tables
    access: access.Access
    credentials: credentials.Credentials
    idempotency: idempotency.Idempotency
    default_warehouse: str
    region: str
    endpoints: tuple[str, ...]

    def table_bucket(self, operation: routes.Operation) -> str:
        """Return the table bucket an operation is about, whether it exists or not."""
        return self.default_warehouse if operation.prefix is None else operation.prefix

    def ident(self, operation: routes.Operation) -> idents.TableIdent:
        """Return the table or view an operation is about."""
        return idents.TableIdent(
            table_bucket=self.table_bucket(operation),
            namespace=operation.namespace,
            name=operation.name,
        )

    def permit(self, asked: Asked) -> owners.Permit:
        """Return the check of locations that a request may take."""
        return self.access.permit(asked.caller.principal, self.table_bucket(asked.operation))

    def warehouse_name(self, text: str | None) -> str:
        """Return the table bucket that a warehouse's name means, there or not.

        text: NAME, s3://NAME or its ARN.
        """
        if not text:
            return self.default_warehouse
        match = _ARN.fullmatch(text)
        name = match["name"] if match is not None else text.removeprefix("s3://").rstrip("/")
        return name.removesuffix("@" + records.MAIN_BRANCH)

    def warehouse(self, text: str | None) -> str:
        """Return the table bucket of a warehouse's name. Raises NoSuchWarehouse."""
        try:
            return self.store.bucket(self.warehouse_name(text)).name
        except errors.NoSuchWarehouse:
            raise errors.NoSuchWarehouse(
                f"Warehouse does not exist: {text or self.default_warehouse}; a warehouse is a"
                " table bucket, by its name, as s3://NAME or by its ARN"
            ) from None


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """One request in a handler's hands. body: read, still JSON text; empty if it has none."""

    operation: routes.Operation
    request: asgi.Request
    caller: exchange.Caller
    body: bytes = b""
    values: Mapping[str, Any] = {}

    @property
    def by(self) -> str:
        """Who asks, as the log remembers it."""
        return self.caller.principal.arn

    @property
    def idempotency_key(self) -> str | None:
        """The key that the client gave the request."""
        return self.request.headers.get(idempotency.HEADER)

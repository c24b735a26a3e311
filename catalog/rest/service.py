"""engine: what every handler of the REST catalog needs, and what they share.

Resolves a warehouse to its table bucket, and a call to the table that it names.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from catalog import access, errors, idents, owners, records
from catalog.namespaces import Namespaces
from catalog.rest import credentials, idempotency, oauth
from catalog.store import CatalogStore
from catalog.tables import Tables
from server import calls

_ARN = re.compile(r"arn:aws[-a-z0-9]*:s3tables:[^:]*:[^:]*:bucket/(?P<name>[^/]+)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Service:
    """The engines below the face. default_warehouse: what a request without prefix means.

    endpoints: what the configuration advertises.
    """

    store: CatalogStore
    namespaces: Namespaces
    tables: Tables
    access: access.Access
    credentials: credentials.Credentials
    idempotency: idempotency.Idempotency
    tokens: oauth.TokenEndpoint
    default_warehouse: str
    region: str
    endpoints: tuple[str, ...]

    def table_bucket(self, call: calls.Call) -> str:
        """Return the table bucket that a call names, whether it exists or not."""
        prefix: str | None = call.value.prefix
        return self.default_warehouse if prefix is None else prefix

    def ident(self, call: calls.Call) -> idents.TableIdent:
        """Return the table or view that a call names."""
        return idents.TableIdent(
            table_bucket=self.table_bucket(call),
            namespace=call.value.namespace,
            name=call.value.name,
        )

    def permit(self, call: calls.Call) -> owners.Permit:
        """Return the check of locations that a call may take."""
        return self.access.permit(call.principal, self.table_bucket(call))

    def judge(self, call: calls.Call, *actions: str) -> owners.Judge:
        """Return the check of the tables that a call may change by these actions."""
        return self.access.judge(call.principal, actions)

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

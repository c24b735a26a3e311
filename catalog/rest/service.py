"""engine: the services of the REST catalog's handlers.

Resolves a warehouse to its table bucket, and a call to the table that it names.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from catalog import access, errors, idents, owners, readers, records, scan_pages, scans
from catalog.metadata import json_values
from catalog.mounts import mounted
from catalog.namespaces import Namespaces
from catalog.rest import credentials, idempotency
from catalog.rest.idempotency import Replay, Work
from catalog.store import CatalogStore
from catalog.tables import Tables
from catalog.views import Views
from server import calls
from server.access import model
from storage import names as storage_names

if TYPE_CHECKING:
    from catalog.rest import oauth
    from server import asgi

_ARN = re.compile(r"arn:aws[-a-z0-9]*:s3tables:[^:]*:[^:]*:bucket/(?P<name>[^/]+)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Service:
    """The engines below the face. default_warehouse: for requests without a prefix.

    endpoints: as the configuration advertises them. plan_key: signs plan tasks. separator: between
    the levels of a namespace in URLs.
    """

    store: CatalogStore
    namespaces: Namespaces
    tables: Tables
    views: Views
    access: access.Access
    readers: readers.Readers
    scans: scans.Scans
    scan_pages: scan_pages.ScanPages
    plan_key: bytes
    credentials: credentials.CredentialVending
    idempotency: idempotency.Idempotency
    tokens: oauth.TokenEndpoint
    default_warehouse: str
    region: str
    endpoints: tuple[str, ...]
    separator: str

    def table_bucket(self, call: calls.Call) -> str:
        """Return the table bucket that a call names, whether it exists or not."""
        prefix: str | None = call.value.prefix
        return self.default_warehouse if prefix is None else check_shown(prefix)

    def mount(self, call: calls.Call) -> mounted.MountedCatalog | None:
        """Return the mount that a call's path names; None for most calls."""
        mounts = self.store.mounts
        prefix = None if mounts is None else getattr(call.value, "prefix", None)
        return None if mounts is None or prefix is None else mounts.find(prefix)

    async def after_listing(
        self, mount: mounted.MountedCatalog, handler: calls.Handler, call: calls.Call
    ) -> asgi.Response:
        """Answer a call once the mount that it names is listed. Raises MountUnavailable."""
        await mount.refresh()
        outcome = handler(self, call)
        return await outcome if inspect.isawaitable(outcome) else outcome

    def ident(self, call: calls.Call) -> idents.TableIdent:
        """Return the table or view that a call names."""
        return idents.TableIdent(
            table_bucket=self.table_bucket(call),
            namespace=call.value.namespace,
            name=call.value.name,
        )

    def new_ident(self, call: calls.Call, values: Mapping[str, Any]) -> idents.TableIdent:
        """Return the table or view that a body names in the call's namespace. Raises BadUpdate."""
        return idents.TableIdent(
            table_bucket=self.table_bucket(call),
            namespace=call.value.namespace,
            name=json_values.get_text(values, "name"),
        )

    def check_separable(self, namespace: idents.Namespace) -> None:
        """Raise InvalidName for a namespace that no URL could name."""
        if self.separator != idents.SEPARATOR and any(self.separator in each for each in namespace):
            raise errors.InvalidName(
                f"Invalid namespace {idents.dotted(namespace)!r}: {self.separator!r} separates the"
                " levels of a namespace in URLs of this server (namespace_separator)"
            )

    def judge(
        self,
        call: calls.Call,
        *actions: str,
        allowed: Mapping[idents.TableIdent, tuple[model.Demand, ...]] | None = None,
        only_names: bool = False,
    ) -> owners.Judge:
        """Return the check of a call's right to change tables by these actions.

        allowed, only_names: see `Access.judge`.
        """
        return self.access.judge(call.principal, actions, allowed=allowed, only_names=only_names)

    async def once(self, call: calls.Call, work: Work, replay: Replay) -> asgi.Response:
        """Do a call's work, once per idempotency key if it has one."""
        key = idempotency.key_of(call.request)
        if key is None:
            return await work(None)
        parameters = call.value
        return await self.idempotency.run(
            key,
            table_bucket=self.table_bucket(call),
            principal=idempotency.owner_of(call.principal),
            operation=" ".join(
                (
                    call.operation.name,
                    idents.format_namespace(parameters.namespace),
                    parameters.name,
                    parameters.query.get("purgeRequested", ""),
                )
            ),
            body=call.body,
            work=work,
            replay=replay,
        )

    def warehouse_name(self, text: str | None) -> str:
        """Return the table bucket of a warehouse's name, whether it exists or not.

        text: NAME, s3://NAME or its ARN.
        """
        if not text:
            return self.default_warehouse
        match = _ARN.fullmatch(text)
        name = match["name"] if match is not None else text.removeprefix("s3://").rstrip("/")
        return check_shown(name.removesuffix("@" + records.MAIN_BRANCH))

    def warehouse(self, text: str | None) -> str:
        """Return the table bucket of a warehouse's name. Raises NoSuchWarehouse."""
        try:
            return self.store.bucket(self.warehouse_name(text)).name
        except errors.NoSuchWarehouse:
            raise errors.NoSuchWarehouse(
                f"Warehouse does not exist: {text or self.default_warehouse}; a warehouse is a"
                " table bucket, by its name, as s3://NAME or by its ARN"
            ) from None


def check_shown(name: str) -> str:
    """Return a warehouse's name. Raises NoSuchWarehouse for a hidden table bucket."""
    if storage_names.is_hidden(name):
        raise errors.NoSuchWarehouse(f"Warehouse does not exist: {name}")
    return name

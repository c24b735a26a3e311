"""engine: what must be allowed for an operation of the REST catalog.

`rows` says what each operation demands as far as its path and query tell; what stands in a body
(new names, targets, the tables of a transaction) the handler demands before it changes anything. A
table that does not exist is "not found" only to callers that may list its namespace; to all others
it looks like a table they may not touch. Actions and resources are those of S3 Tables, so one
policy holds at every door.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from catalog import errors, guard, idents, locations, owners, properties, records
from catalog.store import CatalogStore
from server.access import arns, decide, model
from server.access import errors as access_errors
from server.s3 import demands as s3_demands

BRANCH: Final = records.MAIN_BRANCH

COMMIT_ACTIONS: Final = ("UpdateTableMetadataLocation", "GetTableData", "PutTableData")
FILE_ACTIONS: Final = ("GetTableData", "PutTableData")
LOAD_ACTIONS: Final = ("GetTable", "GetTableMetadataLocation")


@dataclass(frozen=True, kw_only=True, slots=True)
class Access:
    """What to ask for, and asking for it. account_id: of buckets that name no owner."""

    store: CatalogStore
    authoriser: decide.Authoriser
    region: str
    account_id: str

    def check(self, principal: model.Principal, demands: Sequence[model.Demand]) -> None:
        """Raise AccessDenied unless everything is allowed."""
        for demand in demands:
            self.authoriser.check(principal, demand)

    def permits(self, principal: model.Principal, demands: Sequence[model.Demand]) -> bool:
        """Say whether everything is allowed; nothing is recorded."""
        return all(self.authoriser.permits(principal, demand) for demand in demands)

    def on_bucket(self, table_bucket: str, action: str) -> model.Demand:
        """Return the demand for an action on a table bucket, there or not."""
        return self._on_bucket(table_bucket, action, {})

    def on_namespace(
        self, table_bucket: str, namespace: idents.Namespace, action: str
    ) -> model.Demand:
        """Return the demand for an action on a namespace, which is its bucket's resource."""
        return self._on_bucket(table_bucket, action, _namespace_context(namespace))

    def on_table(
        self,
        ident: idents.TableIdent,
        actions: Sequence[str],
        *,
        kind: records.Kind = "table",
    ) -> tuple[model.Demand, ...]:
        """Return the demands for actions on a table or view; listing, if it does not exist."""
        place, pointer = self._find(ident, kind)
        if place is None or pointer is None:
            return (self._listing(ident, f"s3tables:{actions[0]}"),)
        return self._on_object(place.bucket.owner, ident, pointer.object_uuid, actions)

    def on_commit(
        self, ident: idents.TableIdent, *, creates: bool
    ) -> tuple[tuple[model.Demand, ...], records.Pointer | None]:
        """Return the demands of a commit, and the table's pointer if it is there.

        creates: the commit makes the table, if there is none.
        """
        place, pointer = self._find(ident, "table")
        action = f"s3tables:{COMMIT_ACTIONS[0]}"
        if creates:
            action = f"s3tables:CreateTable or {action}"
        if place is not None and pointer is not None:
            account, object_uuid = place.bucket.owner, pointer.object_uuid
            first, *others = self._on_object(account, ident, object_uuid, COMMIT_ACTIONS)
            shown = self._shown(ident, action)
            return (dataclasses.replace(first, shown=shown), *others), pointer
        if creates:
            first, *others = self.on_new_table(ident)
            shown = self._shown(ident, action)
            return (dataclasses.replace(first, shown=shown), *others), None
        return (self._listing(ident, action),), None

    def on_object(
        self, ident: idents.TableIdent, object_uuid: str, actions: Sequence[str]
    ) -> tuple[model.Demand, ...]:
        """Return the demands for actions on the table with this uuid."""
        return self._on_object(self._account_of(ident.table_bucket), ident, object_uuid, actions)

    def _on_object(
        self, account: str, ident: idents.TableIdent, object_uuid: str, actions: Sequence[str]
    ) -> tuple[model.Demand, ...]:
        account = account or self.account_id
        arn = arns.table_arn(self.region, account, ident.table_bucket, object_uuid)
        context = {
            "lake:branch": BRANCH,
            **_namespace_context(ident.namespace),
            "s3tables:tableName": ident.name,
        }
        return tuple(
            [
                model.Demand(
                    action=f"s3tables:{action}",
                    resource=arn,
                    shown=self._shown(ident, f"s3tables:{action}"),
                    context=context,
                )
                for action in actions
            ]
        )

    def on_new_table(self, ident: idents.TableIdent) -> tuple[model.Demand, ...]:
        """Return the demands for making a table and writing to it. It has no uuid yet."""
        bucket_arn = self.bucket_arn(ident.table_bucket)
        context = {**_namespace_context(ident.namespace), "s3tables:tableName": ident.name}
        shown_arn = self._shown_arn(ident.table_bucket)
        return (
            _demand("CreateTable", bucket_arn, context, shown=shown_arn),
            _demand("PutTableData", f"{bucket_arn}/table/*", context, shown=f"{shown_arn}/table/*"),
        )

    def on_file(self, uri: str) -> tuple[model.Demand, ...]:
        """Return the demand for reading a file: what the S3 face demands for GetObject."""
        scheme, separator, path = uri.partition("://")
        if not separator or scheme not in properties.SCHEMES:
            path = uri
        bucket, _, key = path.partition("/")
        answers = guard.TableGuard(store=self.store, region=self.region, account_id=self.account_id)
        return (s3_demands.key(answers, bucket, key, "s3:GetObject", "read"),)

    def check_file(self, principal: model.Principal, uri: str, *, table: idents.TableIdent) -> None:
        """Raise ForeignFileRefused unless principal may read a file that a table names."""
        try:
            self.check(principal, self.on_file(uri))
        except access_errors.AccessDenied:
            raise errors.ForeignFileRefused(
                f"{principal.arn} is not authorized to read {uri}, which does not belong to table"
                f" {table.dotted()}"
            ) from None

    def on_owner(
        self, place: records.Place, owner: owners.Owner, actions: Sequence[str]
    ) -> tuple[model.Demand, ...]:
        """Return the demands for actions on the files of a table that may be gone."""
        context = {"lake:branch": BRANCH}
        if owner.namespace_id:
            with self.store.index.view() as view:
                namespace = self.store.namespace_of(view, place, owner.namespace_id)
            context |= {**_namespace_context(namespace), "s3tables:tableName": owner.name}
        account = place.bucket.owner or self.account_id
        arn = arns.table_arn(self.region, account, place.table_bucket, owner.object_uuid)
        return tuple(_demand(action, arn, context, shown=arn) for action in actions)

    def permit(self, principal: model.Principal, table_bucket: str) -> owners.Permit:
        """Return the check that principal may have a location of a table bucket.

        Its files will be read and written as the new table's, so the principal needs both rights
        now: on the table that owns the location, or on the bucket if the files have no owner.
        """

        def check(path: str, owner: owners.Owner | None) -> None:
            if owner is None:
                demands = tuple(self.on_bucket(table_bucket, action) for action in FILE_ACTIONS)
            else:
                demands = self.on_owner(self.store.place(table_bucket), owner, FILE_ACTIONS)
            where = f"location {locations.format_uri(table_bucket, path)}"
            self.check(
                principal,
                tuple(
                    dataclasses.replace(demand, shown=f"{demand.action} on {where}")
                    for demand in demands
                ),
            )

        return check

    def judge(self, principal: model.Principal, actions: Sequence[str]) -> owners.Judge:
        """Return the check that principal may do actions with a table, or make one."""

        def check(
            place: records.Place, ident: idents.TableIdent, pointer: records.Pointer | None
        ) -> None:
            if pointer is None:
                demands = self.on_new_table(ident)
            else:
                owner = place.bucket.owner
                demands = self._on_object(owner, ident, pointer.object_uuid, actions)
            self.check(principal, demands)

        return check

    def bucket_arn(self, table_bucket: str) -> str:
        """Return the ARN of a table bucket."""
        return arns.table_bucket_arn(self.region, self._account_of(table_bucket), table_bucket)

    def _find(
        self, ident: idents.TableIdent, kind: records.Kind
    ) -> tuple[records.Place | None, records.Pointer | None]:
        with self.store.index.view() as view:
            try:
                place = self.store.place(ident.table_bucket, view)
            except errors.NoSuchWarehouse:
                return None, None
            entry = self.store.find_pointer(view, place, kind, ident)
        return place, None if entry is None else entry.pointer

    def _on_bucket(self, table_bucket: str, action: str, context: dict[str, str]) -> model.Demand:
        shown = self._shown_arn(table_bucket)
        return _demand(action, self.bucket_arn(table_bucket), context, shown=shown)

    def _listing(self, ident: idents.TableIdent, action: str) -> model.Demand:
        """Return the demand for learning that a table does not exist. action: what was asked."""
        demand = self.on_namespace(ident.table_bucket, ident.namespace, "ListTables")
        return dataclasses.replace(demand, shown=self._shown(ident, action))

    def _shown(self, ident: idents.TableIdent, action: str) -> str:
        """Return an action on a table as refusals show it, by names, whether it exists or not."""
        arn = self._shown_arn(ident.table_bucket)
        return f"{action} on resource {arn}, table {ident.dotted()}"

    def _shown_arn(self, table_bucket: str) -> str:
        """Return a table bucket's ARN with the server's account, whoever owns it, if it exists."""
        return arns.table_bucket_arn(self.region, self.account_id, table_bucket)

    def _account_of(self, table_bucket: str) -> str:
        try:
            return self.store.bucket(table_bucket).owner or self.account_id
        except errors.NoSuchWarehouse:
            return self.account_id


def _demand(action: str, resource: str, context: dict[str, str], *, shown: str) -> model.Demand:
    """Return a demand. shown: the resource as a refusal shows it."""
    return model.Demand(
        action=f"s3tables:{action}",
        resource=resource,
        shown=f"s3tables:{action} on resource {shown}",
        context={"lake:branch": BRANCH, **context},
    )


def _namespace_context(namespace: idents.Namespace) -> dict[str, str]:
    return {"s3tables:namespace": idents.dotted(namespace)} if namespace else {}

"""engine: what must be allowed for an operation on a table bucket, at every door.

Looks a table up and demands what `rights` says of it. The faces say which actions an operation
takes. A table that does not exist is "not found" only to callers that may list its namespace; to
all others it looks like a table they may not touch.
"""

from __future__ import annotations

import functools
import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from catalog import errors, guard, idents, locations, owners, properties, records, rights
from catalog.store import CatalogStore
from server.access import arns, decide, model
from server.access import errors as access_errors
from server.s3 import demands as s3_demands

DEMANDS_REMEMBERED: Final = 1024
"""Tables whose demands are kept, for each set of actions."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Access:
    """What to ask for, and asking for it. account_id: of buckets that name no owner."""

    store: CatalogStore
    authoriser: decide.Authoriser
    region: str
    account_id: str

    def check(self, principal: model.Principal, demands: Sequence[model.Demand]) -> None:
        """Raise AccessDenied unless everything is allowed, MountReadOnly for a write to a mount."""
        for demand in demands:
            self.authoriser.check(principal, demand)
        if self.store.mounts is not None:
            self.store.mounts.check_reads(demands)

    def recheck(self, principal: model.Principal, demands: Sequence[model.Demand]) -> None:
        """Raise AccessDenied unless everything that was allowed before still is.

        The audit log has the first decision; a refusal is recorded.
        """
        for demand in demands:
            if not self.authoriser.permits(principal, demand):
                self.authoriser.check(principal, demand)

    def rechecking(
        self, principal: model.Principal, demands: Sequence[model.Demand]
    ) -> owners.Recheck:
        """Return the check that demands, which were allowed before, still are."""

        def check() -> None:
            self.recheck(principal, demands)

        return check

    def permits(self, principal: model.Principal, demands: Sequence[model.Demand]) -> bool:
        """Say whether everything is allowed; nothing is recorded."""
        return all(self.authoriser.permits(principal, demand) for demand in demands)

    def on_bucket(self, table_bucket: str, action: str) -> model.Demand:
        """Return the demand for an action on a table bucket, there or not."""
        return self._on_bucket(
            action, rights.of_bucket(self.bucket_arn(table_bucket)), table_bucket
        )

    def on_namespace(
        self, table_bucket: str, namespace: idents.Namespace, action: str
    ) -> model.Demand:
        """Return the demand for an action on a namespace, which is its bucket's resource."""
        return _demand_on_namespace(
            self.bucket_arn(table_bucket), namespace, action, self._shown_arn(table_bucket)
        )

    def on_table(
        self,
        ident: idents.TableIdent,
        actions: Sequence[str],
        *,
        object_type: records.ObjectType = "table",
    ) -> tuple[model.Demand, ...]:
        """Return the demands for actions on a table or view; listing, if it does not exist."""
        place, pointer = self._find(ident, object_type)
        if place is None or pointer is None:
            return (self._listing(ident, actions[0]),)
        account = rights.account_of(place.bucket, self.account_id)
        return self._on_object(account, ident, pointer.object_uuid, actions)

    def on_commit(
        self, ident: idents.TableIdent, *, creates: bool
    ) -> tuple[tuple[model.Demand, ...], records.Pointer | None]:
        """Return the demands of a commit, and the table's pointer if it is there.

        creates: the commit makes the table, if there is none.
        """
        place, pointer = self._find(ident, "table")
        action = rights.COMMIT_ACTIONS[0]
        if creates:
            action = f"CreateTable or {rights.action_of(action)}"
        if place is not None and pointer is not None:
            account = rights.account_of(place.bucket, self.account_id)
            demands = self._on_object(account, ident, pointer.object_uuid, rights.COMMIT_ACTIONS)
            if creates:
                first, *others = demands
                shown = self._shown(ident, action)
                demands = (msgspec.structs.replace(first, shown=shown), *others)
            return demands, pointer
        if creates:
            first, *others = self.on_new_table(ident)
            shown = self._shown(ident, action)
            return (msgspec.structs.replace(first, shown=shown), *others), None
        return (self._listing(ident, action),), None

    def on_object(
        self, ident: idents.TableIdent, object_uuid: str, actions: Sequence[str]
    ) -> tuple[model.Demand, ...]:
        """Return the demands for actions on the table with this uuid."""
        return self._on_object(self._account_of(ident.table_bucket), ident, object_uuid, actions)

    def _on_object(
        self, account: str, ident: idents.TableIdent, object_uuid: str, actions: Sequence[str]
    ) -> tuple[model.Demand, ...]:
        arn = arns.table_arn(self.region, account, ident.table_bucket, object_uuid)
        return _demands_on_table(arn, ident, tuple(actions), self._shown_table(ident))

    def on_new_table(self, ident: idents.TableIdent) -> tuple[model.Demand, ...]:
        """Return the demands for making a table and writing to it. It has no uuid yet."""
        return self._on_new_table(self._account_of(ident.table_bucket), ident)

    def _on_new_table(self, account: str, ident: idents.TableIdent) -> tuple[model.Demand, ...]:
        bucket_arn = arns.table_bucket_arn(self.region, account, ident.table_bucket)
        return _demands_on_new_table(bucket_arn, ident, self._shown_arn(ident.table_bucket))

    def on_sequence(self, ident: idents.TableIdent, action: str) -> tuple[model.Demand, ...]:
        """Return the demands for an action on a sequence: a table of its name without a uuid."""
        bucket_arn = arns.table_bucket_arn(
            self.region, self._account_of(ident.table_bucket), ident.table_bucket
        )
        subject = rights.of_any_table(bucket_arn, ident.namespace, ident.name)
        shown = f"{self._shown_arn(ident.table_bucket)}, sequence {ident.dotted()}"
        return rights.demands((action,), subject, resource=shown)

    def on_file(self, principal: model.Principal, uri: str) -> tuple[model.Demand, ...]:
        """Return the demand for reading a file: what the S3 face demands for GetObject.

        It has the tags of the object, if a policy that binds principal asks for them.
        """
        scheme, separator, path = uri.partition("://")
        if not separator or scheme not in properties.SCHEMES:
            path = uri
        bucket, _, key = path.partition("/")
        answers = guard.TableGuard(store=self.store, region=self.region, account_id=self.account_id)
        demand = s3_demands.with_object_tags(
            s3_demands.key(answers, bucket, key, "s3:GetObject", "read"),
            principal,
            authoriser=self.authoriser,
            buckets=self.store.buckets,
            objects=self.store.objects,
        )
        return (demand,)

    def check_file(self, principal: model.Principal, uri: str, *, table: idents.TableIdent) -> None:
        """Raise ForeignFileRefused unless principal may read a file that a table names.

        That is the file of each reading of the URI: with `.` and `..` as names, and without them.
        """
        scheme, separator, path = uri.partition("://")
        readings = dict.fromkeys((uri, f"{scheme}{separator}{_without_dots(path)}"))
        try:
            for reading in readings:
                self.check(principal, self.on_file(principal, reading))
        except access_errors.AccessDenied:
            raise errors.ForeignFileRefused(
                f"{principal.arn} is not authorized to read {uri}, which does not belong to table"
                f" {table.dotted()}"
            ) from None

    def file_check(self, principal: model.Principal, table: idents.TableIdent) -> owners.FileCheck:
        """Return the check that principal may read what a table's new metadata names."""

        def check(uri: str) -> None:
            self.check_file(principal, uri, table=table)

        return check

    def on_owner(
        self, place: records.Place, owner: owners.LocationOwner, actions: Sequence[str]
    ) -> tuple[model.Demand, ...]:
        """Return the demands for actions on the files of a table that may be gone."""
        account = rights.account_of(place.bucket, self.account_id)
        arn = arns.table_arn(self.region, account, place.table_bucket, owner.object_uuid)
        subject = rights.of_bucket(arn)
        if owner.namespace_id:
            with self.store.index.view() as view:
                namespace = self.store.namespace_of(view, place, owner.namespace_id)
            subject = rights.of_table(arn, namespace, owner.name)
        return rights.demands(actions, subject, resource=arn)

    def permit(self, principal: model.Principal, table_bucket: str) -> owners.Permit:
        """Return the check that principal may have a location of a table bucket.

        Its files will be read and written as the new table's, so the principal needs both rights
        now: on the table that owns the location, or on the bucket if the files have no owner.
        """

        def check(path: str, owner: owners.LocationOwner | None) -> None:
            if owner is None:
                demands = tuple(
                    self.on_bucket(table_bucket, action) for action in rights.FILE_ACTIONS
                )
            else:
                demands = self.on_owner(self.store.place(table_bucket), owner, rights.FILE_ACTIONS)
            where = f"location {locations.format_uri(table_bucket, path)}"
            self.check(
                principal,
                tuple(
                    msgspec.structs.replace(demand, shown=f"{demand.action} on {where}")
                    for demand in demands
                ),
            )

        return check

    def judge(
        self,
        principal: model.Principal,
        actions: Sequence[str],
        *,
        allowed: Mapping[idents.TableIdent, tuple[model.Demand, ...]] | None = None,
        only_names: bool = False,
    ) -> owners.Judge:
        """Return the check that principal may do actions with a table, or make one.

        allowed: demands of tables that this request was allowed before; those are not recorded
        again. A table that was replaced meanwhile has another ARN, and so other demands.
        only_names: a new table gets a name and nothing is written below its location.
        """

        def check(
            place: records.Place, ident: idents.TableIdent, pointer: records.Pointer | None
        ) -> None:
            account = rights.account_of(place.bucket, self.account_id)
            if pointer is None:
                demands = self._on_new_table(account, ident)[: 1 if only_names else None]
            else:
                demands = self._on_object(account, ident, pointer.object_uuid, actions)
            if allowed is not None and allowed.get(ident) == demands:
                self.recheck(principal, demands)
            else:
                self.check(principal, demands)

        return check

    def judge_undrop(self, principal: model.Principal) -> owners.Undrop:
        """Return the check that principal may restore a dropped table or view."""

        def check(
            place: records.Place,
            ident: idents.TableIdent,
            target: idents.TableIdent,
            pointer: records.Pointer,
        ) -> None:
            account = rights.account_of(place.bucket, self.account_id)
            self.check(
                principal,
                (
                    *self._on_object(account, ident, pointer.object_uuid, (rights.UNDROP,)),
                    *self._on_new_table(account, target)[:1],
                ),
            )

        return check

    def bucket_arn(self, table_bucket: str) -> str:
        """Return the ARN of a table bucket."""
        return arns.table_bucket_arn(self.region, self._account_of(table_bucket), table_bucket)

    def _find(
        self, ident: idents.TableIdent, object_type: records.ObjectType
    ) -> tuple[records.Place | None, records.Pointer | None]:
        try:
            place = self.store.place(ident.table_bucket)
        except errors.NoSuchWarehouse:
            return None, None
        entry = self.store.newest_pointer(place, object_type, ident)
        return place, None if entry is None else entry.pointer

    def _on_bucket(self, action: str, subject: rights.Subject, table_bucket: str) -> model.Demand:
        shown = rights.show(action, self._shown_arn(table_bucket))
        return rights.demand(action, subject, shown=shown)

    def _listing(self, ident: idents.TableIdent, action: str) -> model.Demand:
        """Return the demand for learning that a table does not exist. action: what was asked."""
        demand = self.on_namespace(ident.table_bucket, ident.namespace, "ListTables")
        return msgspec.structs.replace(demand, shown=self._shown(ident, action))

    def _shown(self, ident: idents.TableIdent, action: str) -> str:
        """Return an action on a table as refusals show it, by names, whether it exists or not."""
        return rights.show(action, self._shown_table(ident))

    def _shown_table(self, ident: idents.TableIdent) -> str:
        return f"{self._shown_arn(ident.table_bucket)}, table {ident.dotted()}"

    def _shown_arn(self, table_bucket: str) -> str:
        """Return a table bucket's ARN with the server's account, though another may own it."""
        return arns.table_bucket_arn(self.region, self.account_id, table_bucket)

    def _account_of(self, table_bucket: str) -> str:
        try:
            return rights.account_of(self.store.bucket(table_bucket), self.account_id)
        except errors.NoSuchWarehouse:
            return self.account_id


def _without_dots(path: str) -> str:
    """Return a path as clients open it that resolve the segments `.` and `..`."""
    if {".", ".."}.isdisjoint(path.split("/")):
        return path
    return posixpath.normpath(path)


@functools.lru_cache(DEMANDS_REMEMBERED)
def _demands_on_table(
    arn: str, ident: idents.TableIdent, actions: tuple[str, ...], shown: str
) -> tuple[model.Demand, ...]:
    """Return the demands for actions on a table or view, whose resource refusals show as `shown`.

    Clients ask for the same few tables again and again; without this, a loadTable that answers 304
    takes a sixth longer.
    """
    target = rights.of_table(arn, ident.namespace, ident.name)
    return rights.demands(actions, target, resource=shown)


@functools.lru_cache(DEMANDS_REMEMBERED)
def _demands_on_new_table(
    bucket_arn: str, ident: idents.TableIdent, shown_arn: str
) -> tuple[model.Demand, ...]:
    """Return the demands for making a table. A creation asks twice: before it, and within it."""
    new_table = rights.of_table(bucket_arn, ident.namespace, ident.name)
    written = rights.of_any_table(bucket_arn, ident.namespace, ident.name)
    return (
        *rights.demands(("CreateTable",), new_table, resource=shown_arn),
        *rights.demands((rights.WRITE_DATA,), written, resource=f"{shown_arn}/table/*"),
    )


@functools.lru_cache(DEMANDS_REMEMBERED)
def _demand_on_namespace(
    bucket_arn: str, namespace: idents.Namespace, action: str, shown_arn: str
) -> model.Demand:
    """Return the demand for an action on a namespace. A request with a body asks twice."""
    subject = rights.of_namespace(bucket_arn, namespace)
    return rights.demand(action, subject, shown=rights.show(action, shown_arn))

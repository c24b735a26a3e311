"""engine: resolves names and ARNs to table buckets, namespaces and tables, and formats ARNs.

An ARN of another region, account or service resolves to nothing. Everything is read for each
request; nothing is cached.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from catalog import access as catalog_access
from catalog import commit, idents, owners, records, rights
from catalog import errors as catalog_errors
from catalog.namespaces import Namespace, Namespaces
from catalog.sweep import sweeping
from catalog.sweep.referrers import Referrers
from catalog.table_buckets import TableBuckets
from catalog.tables import Tables
from s3tables import errors, names
from s3tables.labels import Labels, TableKey
from server import calls
from server.access import arns, decide, model
from server.accesslogs import delivery
from storage import batch, settings
from storage import errors as storage_errors
from storage import model as storage_model
from storage import names as storage_names
from storage.buckets import Buckets
from storage.index import Index

ATTEMPTS_MAX: Final = 100
"""How often a change is tried while policies or tags of its table bucket change.

Of several clients that change them at once one succeeds each time."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TableResource:
    """A table with its current pointer."""

    bucket: storage_model.BucketInfo
    ident: idents.TableIdent
    pointer: records.Pointer

    @property
    def label_key(self) -> TableKey:
        """The key of its tags."""
        return TableKey(bucket_id=self.bucket.bucket_id, object_uuid=self.pointer.object_uuid)


@dataclass(frozen=True, kw_only=True, slots=True)
class Resources:
    """The engines below, and the region and account of the ARNs.

    referrers: what looks for files of a table bucket that other buckets need. seeds: the settings
    with which a table bucket of that name is created. encrypted_disk: every body is encrypted by
    AES256.
    """

    buckets: Buckets
    namespaces: Namespaces
    tables: Tables
    labels: Labels
    index: Index
    authoriser: decide.Authoriser
    access: catalog_access.Access
    sweep: sweeping.TableSweep
    referrers: Referrers
    access_logs: delivery.AccessLogs
    region: str
    account_id: str
    seeds: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    encrypted_disk: bool = False

    @property
    def table_buckets(self) -> TableBuckets:
        """The engine of table buckets, which holds no state."""
        return TableBuckets(
            store=self.access.store,
            namespaces=self.namespaces,
            referrers=self.referrers,
            region=self.region,
            seeds=self.seeds,
        )

    def bucket(self, arn: str) -> storage_model.BucketInfo:
        """Return the table bucket with this ARN. Raises NoSuchTableBucket."""
        name = names.parse_arn(arn)
        if name is None or name.object_uuid is not None:
            raise errors.NoSuchTableBucket
        return self._bucket_of(name)

    def table(self, arn: str, namespace: str, name: str) -> TableResource:
        """Return a table by bucket and names. Raises NoSuchTableBucket, NoSuchTable.

        A missing namespace raises the catalog's NoSuchNamespace.
        """
        bucket = self.bucket(arn)
        ident = idents.TableIdent(table_bucket=bucket.name, namespace=(namespace,), name=name)
        self.namespaces.load(bucket.name, ident.namespace)
        return TableResource(bucket=bucket, ident=ident, pointer=self.tables.pointer(ident))

    def table_by_arn(self, arn: str) -> TableResource:
        """Return the table with this ARN. Raises NoSuchTableBucket, NoSuchTable."""
        name = names.parse_arn(arn)
        if name is None or name.object_uuid is None:
            raise errors.NoSuchTableResource
        bucket = self._bucket_of(name)
        ident, pointer = self.tables.by_object_uuid(bucket.name, name.object_uuid)
        return TableResource(bucket=bucket, ident=ident, pointer=pointer)

    def bucket_arn(self, bucket: storage_model.BucketInfo) -> str:
        """Return the ARN of a table bucket."""
        return arns.table_bucket_arn(self.region, self.account_of(bucket), bucket.name)

    def table_arn(self, table: TableResource) -> str:
        """Return the ARN of a table. A rename does not change it."""
        account = self.account_of(table.bucket)
        return arns.table_arn(self.region, account, table.bucket.name, table.pointer.object_uuid)

    def account_of(self, bucket: storage_model.BucketInfo) -> str:
        """Return the account that owns a table bucket."""
        return rights.account_of(bucket, self.account_id)

    def account_of_principal(self, arn: str) -> str:
        """Return the account in a principal's ARN that the catalog recorded."""
        parts = arn.split(":")
        return parts[4] if len(parts) > 4 and parts[4] else self.account_id

    def check(self, principal: model.Principal, action: str, subject: rights.Subject) -> None:
        """Raise AccessDenied unless principal may do an action of this API on a resource."""
        self.authoriser.check(principal, rights.demand(action, subject))

    def recheck(self, principal: model.Principal, action: str, subject: rights.Subject) -> None:
        """Raise AccessDenied unless an action that was allowed before still is."""
        self.access.recheck(principal, (rights.demand(action, subject),))

    async def change_judged(
        self,
        call: calls.Call,
        bucket: storage_model.BucketInfo,
        change: Callable[[batch.Expect], Awaitable[None]],
        *,
        demands: Callable[[], Sequence[model.Demand]] | None = None,
    ) -> None:
        """Make a change while the policies of a table bucket are those that allow the call.

        change: commits with the expectation, and is called again if a policy changed. demands:
        returns those of the call, if its row has none. Raises AccessDenied if a newer policy
        refuses the call.
        """
        for _ in range(ATTEMPTS_MAX):
            policies = settings.expect_policies(self.index, bucket.bucket_id)
            needed = call.operation.demands(self, call) if demands is None else demands()
            self.access.recheck(call.principal, needed)
            try:
                await change(policies)
            except storage_errors.ExpectationFailed:
                continue
            return
        raise errors.Conflict(
            "Policies or tags of the bucket changed during the request. Try again."
        )

    async def change_bucket_settings(
        self,
        call: calls.Call,
        bucket: storage_model.BucketInfo,
        change: Callable[[Mapping[str, Any]], Mapping[str, Any]],
    ) -> None:
        """Change a table bucket's settings, as `change_judged` does."""

        async def put(policies: batch.Expect) -> None:
            await self.buckets.change(
                bucket.name, change, bucket_id=bucket.bucket_id, expects=(policies,)
            )

        await self.change_judged(call, bucket, put)

    async def change_table_settings(
        self,
        call: calls.Call,
        table: TableResource,
        change: Callable[[Mapping[str, Any]], Mapping[str, Any]],
    ) -> None:
        """Change a table's settings, as `change_judged` does. Raises NoSuchTable if it goes."""
        key = settings.table_key(table.bucket.bucket_id, table.pointer.object_uuid)

        async def put(policies: batch.Expect) -> None:
            held = commit.hold_thing(
                records.Place(bucket=table.bucket),
                table.pointer.object_uuid,
                missing=catalog_errors.NoSuchTable(f"Table does not exist: {table.ident.dotted()}"),
            )
            expected = batch.Batch(expects=(policies,))
            planned = settings.plan_change(key, change)
            await self.index.commit(batch.merge((expected, held, planned)))

        await self.change_judged(call, table.bucket, put)

    def rechecking(
        self, principal: model.Principal, action: str, subject: rights.Subject
    ) -> owners.Recheck:
        """Return the check that an action which was allowed before still is."""
        return self.access.rechecking(principal, (rights.demand(action, subject),))

    def judge(self, principal: model.Principal, *actions: str) -> owners.Judge:
        """Return the check that principal may do actions with an existing table."""

        def check(
            place: records.Place, ident: idents.TableIdent, pointer: records.Pointer | None
        ) -> None:
            assert pointer is not None, "judge is for existing tables"
            arn = self.table_arn(TableResource(bucket=place.bucket, ident=ident, pointer=pointer))
            for action in actions:
                self.check(principal, action, subject_of(arn, ident))

        return check

    def permits(self, principal: model.Principal, action: str, subject: rights.Subject) -> bool:
        """Return whether principal may do an action; listings leave out what it does not permit."""
        return self.authoriser.permits(principal, rights.demand(action, subject))

    def _bucket_of(self, name: names.ResourceName) -> storage_model.BucketInfo:
        try:
            bucket = self.buckets.get(storage_names.check_shown(name.bucket))
        except (storage_errors.NoSuchBucket, storage_errors.InvalidBucketName):
            raise errors.NoSuchTableBucket from None
        if (
            bucket.type != "table"
            or name.region != self.region
            or name.account_id != self.account_of(bucket)
        ):
            raise errors.NoSuchTableBucket
        return bucket


def subject_of(arn: str, ident: idents.TableIdent) -> rights.Subject:
    """Return a table as the subject of a right. arn: its own, or its bucket's for a new table."""
    return rights.of_table(arn, ident.namespace, ident.name)


def describe_namespace(
    resources: Resources, bucket: storage_model.BucketInfo, namespace: Namespace
) -> dict[str, Any]:
    """Return a namespace as GetNamespace and ListNamespaces show it."""
    return {
        "namespace": list(namespace.namespace),
        "createdAt": namespace.created_at_ms,
        "createdBy": resources.account_of_principal(namespace.created_by),
        "ownerAccountId": resources.account_of(bucket),
        "namespaceId": namespace.object_uuid,
        "tableBucketId": format_bucket_id(bucket),
    }


def format_bucket_id(bucket: storage_model.BucketInfo) -> str:
    """Return a bucket's id as this API shows it; it is never reused."""
    digits = f"{bucket.bucket_id:032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))

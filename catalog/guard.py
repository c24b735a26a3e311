"""engine: the rules for S3 requests in table buckets: layout, write-once, tombstones, ownership.

A ruling comes from one view of the index, with a few point reads per key: the bucket, the locations
above the key, the name of the location's owner. So a table created a moment ago has its rules, and
a renamed one still owns its files. A ruling expects every row that it read: the index refuses a
write if since then a table was created, renamed or dropped there, or the bucket's settings or a
policy in it changed.
General buckets have no rules here. Reads are not checked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, Literal, NoReturn

import msgspec

from catalog import claims, content, idents, layout, locations, owners, records, rights
from catalog.store import CatalogStore
from server.access import arns
from server.s3 import errors, guard
from storage import batch, settings
from storage import errors as storage_errors
from storage import model as storage_model

LAYOUT: Final = "layout"
REQUIRE_REGISTERED: Final = "require_registered"
AWS_STRICT: Final = "aws_strict"

Layout = Literal["off", "names", "strict"]


class TableGuard:
    """The rulings of general buckets and table buckets.

    account_id: of buckets that name no owner.
    """

    def __init__(self, *, store: CatalogStore, region: str, account_id: str) -> None:
        self._store = store
        self._region = region
        self._account_id = account_id

    def at(self, bucket: str, key: str, reading: batch.Reading | None = None) -> guard.Ruling:
        """Return the current ruling for a key; a bucket that does not exist has no rules.

        That of a general bucket says what its record says, which is in memory until it changes.
        """
        if reading is not None:
            return self._at(bucket, key, reading)
        try:
            info, value = self._store.buckets.read_newest(bucket)
        except storage_errors.NoSuchBucket:
            return guard.PlainRuling(bucket=None)
        if info.type != "table":
            return guard.PlainRuling(bucket=info, record=value)
        with self._store.index.view() as view:
            return self._at(bucket, key, view)

    def _at(self, bucket: str, key: str, view: batch.Reading) -> guard.Ruling:
        try:
            info, value = self._store.buckets.read(bucket, view)
        except storage_errors.NoSuchBucket:
            return guard.PlainRuling(bucket=None)
        if info.type != "table":
            return guard.PlainRuling(bucket=info, record=value)
        noting = _Noting(view)
        noting.note(batch.Store.BUCKETS, bucket.encode(), value)
        noting.expects.append(settings.expect_policies(view, info.bucket_id))
        place = records.Place(bucket=info)
        account = rights.account_of(info, self._account_id)
        at_bucket = rights.of_bucket(arns.table_bucket_arn(self._region, account, bucket))
        holding = claims.find_location(noting, info.bucket_id, key)
        if holding is None:
            return TableRuling(
                key=key, bucket=info, expects=tuple(noting.expects), at_bucket=at_bucket
            )
        location, row = holding
        holder = owners.owner_of(noting, place, row)
        owner = None
        if info.settings.get(LAYOUT) == "strict":
            name = self._store.name_of_object(view, place, row.object_uuid)
            owner = self._owner(view, place, location, name)
        table_arn = arns.table_arn(self._region, account, bucket, row.object_uuid)
        at_table = rights.of_bucket(table_arn)
        if holder.namespace_id:
            namespace = self._store.namespace_of(view, place, holder.namespace_id)
            at_table = rights.of_table(table_arn, namespace, holder.name)
        return TableRuling(
            key=key,
            bucket=info,
            expects=tuple(noting.expects),
            at_bucket=at_bucket,
            at_table=at_table,
            location=location,
            owner=owner,
        )

    def _owner(
        self,
        reading: batch.Reading,
        place: records.Place,
        location: layout.Location,
        name: records.Name | None,
    ) -> content.MetadataOwner:
        """Return the owner of metadata below a location, with its current uuid, if it has one."""
        uuid = None
        if name is not None:
            ident = idents.TableIdent(
                table_bucket=place.table_bucket,
                namespace=self._store.namespace_of(reading, place, name.namespace_id),
                name=name.name,
            )
            pointer = self._store.find_pointer(reading, place, name.object_type, ident)
            uuid = None if pointer is None else pointer.pointer.table_uuid
        return content.MetadataOwner(
            object_type=location.object_type,
            uuid=uuid,
            location=locations.format_uri(place.table_bucket, location.path),
        )


class TableRuling(msgspec.Struct, frozen=True, kw_only=True):
    """The ruling for a key of a table bucket.

    at_bucket, at_table: the resources to which access is checked; at_table, location and owner are
    None below no registered location. owner: of metadata there, set in strict buckets only.
    """

    key: str
    bucket: storage_model.BucketInfo
    expects: tuple[batch.Expect, ...]
    at_bucket: rights.Subject
    at_table: rights.Subject | None = None
    location: layout.Location | None = None
    owner: content.MetadataOwner | None = None

    @property
    def table_path(self) -> str | None:
        """The path of the table at or above the key."""
        return None if self.location is None else self.location.path

    @property
    def is_aws_strict(self) -> bool:
        """Whether the bucket allows on objects only what AWS allows on tables' storage."""
        return self.bucket.settings.get(AWS_STRICT) is True

    @property
    def is_write_once(self) -> bool:
        """Whether the key is a file of a table, which is never changed."""
        if self.location is None:
            return False
        try:
            verdict = layout.judge(self.key, location=self.location)
        except guard.LayoutRefused:
            # Where names are not checked, every file there may be the table's. Elsewhere no such
            # name can be written; an object from before the table may be deleted.
            return self.bucket.settings.get(LAYOUT) == "off" and not self.key.endswith("/")
        return not layout.is_mutable(self.key, verdict.role)

    @property
    def on_delete(self) -> guard.OnDelete:
        """The effect of a DELETE: files of tables are hidden, and the sweep frees them."""
        if self.is_aws_strict:
            return "refuse"
        return "tombstone" if self.is_write_once else "remove"

    @property
    def content_check(self) -> guard.ContentCheck | None:
        """The check of a body at the key in a strict bucket."""
        if layout_mode(self.bucket) != "strict":
            return None
        role = layout.judge(self.key, location=self.location).role
        if role in ("marker", "scratch"):
            return None

        def judge(seen: guard.BodyEnds) -> None:
            content.check_content(
                self.key,
                role=role,
                size_bytes=seen.size_bytes,
                head=seen.head,
                tail=seen.tail,
                whole=seen.whole,
                owner=self.owner,
            )

        return guard.ContentCheck(
            edge_bytes=content.EDGE_BYTES,
            whole_bytes_max=content.whole_bytes_max(self.key),
            judge=judge,
        )

    def resource(self, access: guard.Access) -> guard.Resource:
        """Return the table whose data the key is, and the action for an access to it.

        Below no table's location the resource is the bucket; listing it whole is for
        administrators, because it shows names of all tables.
        """
        # A prefix that ends within a table's name also lists the tables that share it.
        is_above = self.location is None or (access == "list" and self.key == self.location.path)
        if self.at_table is None or is_above:
            action = rights.LIST_KEYS if access == "list" else _ACTIONS[access]
            subject = self.at_bucket
        else:
            action, subject = _ACTIONS[access], self.at_table
        return guard.Resource(action=action, arn=subject.arn, context=subject.context)

    def check_write(self) -> None:
        """Raise LayoutRefused if the key cannot be written."""
        if layout_mode(self.bucket) != "off":
            layout.judge(
                self.key,
                location=self.location,
                require_registered=self.bucket.settings.get(REQUIRE_REGISTERED) is True,
            )

    def check_body(self, size_bytes: int) -> None:
        """Raise LayoutRefused if the key is a directory marker and the body is not empty."""
        if layout_mode(self.bucket) != "off":
            layout.check_body(self.key, size_bytes=size_bytes)

    def refuse_overwrite(self) -> NoReturn:
        """Raise the error for an overwrite of a table's file with other bytes."""
        layout.refuse_write_once(self.key)


class _Noting:
    """A view that notes every row it reads, as an expectation of the later commit."""

    __slots__ = ("_reading", "expects")

    def __init__(self, reading: batch.Reading) -> None:
        self._reading = reading
        self.expects: list[batch.Expect] = []

    @property
    def is_committed(self) -> bool:
        return self._reading.is_committed

    def get(self, store: batch.Store, key: bytes) -> bytes | None:
        value = self._reading.get(store, key)
        self.note(store, key, value)
        return value

    def note(self, store: batch.Store, key: bytes, value: bytes | None) -> None:
        """Note a row that was read elsewhere."""
        self.expects.append(batch.Expect(store=store, key=key, value=value))

    def scan(
        self, store: batch.Store, start: bytes, stop: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        raise AssertionError("a ruling reads single rows, which can be expected")

    def weigh(self, rows: int) -> None:
        self._reading.weigh(rows)


_ACTIONS: Final[Mapping[guard.Access, str]] = {
    "read": rights.action_of(rights.READ_DATA),
    "list": rights.action_of(rights.READ_DATA),
    "write": rights.action_of(rights.WRITE_DATA),
}


def layout_mode(info: storage_model.BucketInfo) -> Layout:
    """Return how strictly a table bucket checks writes: by names, unless set otherwise.

    Raises S3FeatureNotImplemented for an unknown mode, so that no bucket is checked less than its
    setting says.
    """
    match info.settings.get(LAYOUT, "names"):
        case "off":
            return "off"
        case "names":
            return "names"
        case "strict":
            return "strict"
        case mode:
            raise errors.S3FeatureNotImplemented(
                f"The layout mode {mode} of this table bucket is not implemented.", Layout=str(mode)
            )

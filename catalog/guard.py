"""engine: what the S3 face may do in a table bucket: layout, write-once, tombstones, whose data.

A ruling comes from one view of the index, a few point reads per key: the bucket, the locations
above the key, the name of what owns them. So a table that was created a moment ago is known, and
one that was renamed is still the owner of its files. A ruling expects every row that it was made
of: the index refuses what is written on it once a table was created, renamed or dropped there, or
the bucket's settings changed. General buckets have no rules here. Reads are never judged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, Literal, NoReturn

import msgspec

from catalog import claims, content, idents, layout, locations, owners, records, rights
from catalog.store import CatalogStore
from server.access import arns
from server.s3 import errors, guard
from storage import batch
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

    def at(self, bucket: str, key: str) -> guard.Ruling:
        """Return what holds for a key now; a bucket that does not exist has no rules."""
        with self._store.index.view() as view:
            try:
                info, value = self._store.buckets.read(bucket, view)
            except storage_errors.NoSuchBucket:
                return guard.PlainRuling(bucket=None)
            if info.kind != "table":
                return guard.PlainRuling(bucket=info)
            reading = _Noting(view)
            reading.note(batch.Store.BUCKETS, bucket.encode(), value)
            place = records.Place(bucket=info)
            account = rights.account_of(info, self._account_id)
            at_bucket = rights.of_bucket(arns.table_bucket_arn(self._region, account, bucket))
            holding = claims.find_location(reading, info.bucket_id, key)
            if holding is None:
                return TableRuling(
                    key=key, bucket=info, expects=tuple(reading.expects), at_bucket=at_bucket
                )
            location, row = holding
            holder = owners.owner_of(reading, place, row)
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
            expects=tuple(reading.expects),
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
    ) -> content.Owner:
        """Return whose metadata may lie below a location: with the uuid it has now, if any."""
        uuid = None
        if name is not None:
            ident = idents.TableIdent(
                table_bucket=place.table_bucket,
                namespace=self._store.namespace_of(reading, place, name.namespace_id),
                name=name.name,
            )
            pointer = self._store.find_pointer(reading, place, name.kind, ident)
            uuid = None if pointer is None else pointer.pointer.table_uuid
        return content.Owner(
            kind=location.kind,
            uuid=uuid,
            location=locations.format_uri(place.table_bucket, location.path),
        )


class TableRuling(msgspec.Struct, frozen=True, kw_only=True):
    """What holds for a key of a table bucket.

    at_bucket, at_table: what access to the key is access to; at_table, location and owner are None
    below no known location. owner: whose metadata may lie there, known in strict buckets alone.
    """

    key: str
    bucket: storage_model.BucketInfo
    expects: tuple[batch.Expect, ...]
    at_bucket: rights.Subject
    at_table: rights.Subject | None = None
    location: layout.Location | None = None
    owner: content.Owner | None = None

    @property
    def table_path(self) -> str | None:
        """Where the table begins that the key lies at or below."""
        return None if self.location is None else self.location.path

    @property
    def is_aws_strict(self) -> bool:
        """Whether the bucket offers on objects only what AWS offers on tables' storage."""
        return self.bucket.settings.get(AWS_STRICT) is True

    @property
    def is_write_once(self) -> bool:
        """Whether the key is a file of a table, which never changes."""
        if self.location is None:
            return False
        try:
            verdict = layout.judge(self.key, location=self.location)
        except guard.LayoutRefused:
            # Where no name is judged, every file there may be the table's. Elsewhere nothing can be
            # written under such a name; what lay there before the table did may go.
            return self.bucket.settings.get(LAYOUT) == "off" and not self.key.endswith("/")
        return not layout.is_mutable(self.key, verdict.kind)

    @property
    def on_delete(self) -> guard.OnDelete:
        """What a DELETE does: files of tables are only hidden, for the sweep to free."""
        if self.is_aws_strict:
            return "refuse"
        return "tombstone" if self.is_write_once else "remove"

    @property
    def content_check(self) -> guard.ContentCheck | None:
        """What a body must be at the key in a strict bucket: what its name says."""
        if layout_mode(self.bucket) != "strict":
            return None
        kind = layout.judge(self.key, location=self.location).kind
        if kind in ("marker", "scratch"):
            return None

        def judge(seen: guard.Content) -> None:
            content.check_content(
                self.key,
                kind=kind,
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
        """Return the table whose data a key is, and what access to it is called.

        Below no table's location it is the bucket itself, and listing it whole is for
        administrators: names of tables are not for everybody.
        """
        # A prefix that ends within a table's name lists its neighbours as well.
        is_above = self.location is None or (access == "list" and self.key == self.location.path)
        if self.at_table is None or is_above:
            action = rights.LIST_KEYS if access == "list" else _ACTIONS[access]
            subject = self.at_bucket
        else:
            action, subject = _ACTIONS[access], self.at_table
        return guard.Resource(action=action, arn=subject.arn, context=subject.context)

    def check_write(self) -> None:
        """Raise LayoutRefused if nothing may be written at the key."""
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
        """Raise what a file of a table answers to other bytes."""
        layout.refuse_write_once(self.key)


class _Noting:
    """A reading that notes every row it was asked for, as an expectation of the commit to come."""

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
        raise AssertionError("a ruling is made of single rows, which can be expected")


_ACTIONS: Final[Mapping[guard.Access, str]] = {
    "read": rights.action_of(rights.READ_DATA),
    "list": rights.action_of(rights.READ_DATA),
    "write": rights.action_of(rights.WRITE_DATA),
}


def layout_mode(info: storage_model.BucketInfo) -> Layout:
    """Return how strictly a table bucket judges what is written: names, unless set otherwise.

    Raises NotImplementedHere for a mode that is not done: a bucket must not seem better kept than
    it is.
    """
    match info.settings.get(LAYOUT, "names"):
        case "off":
            return "off"
        case "names":
            return "names"
        case "strict":
            return "strict"
        case mode:
            raise errors.NotImplementedHere(
                f"The layout mode {mode} of this table bucket is not implemented.", Layout=str(mode)
            )

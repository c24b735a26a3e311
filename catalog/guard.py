"""engine: what the S3 face may do in a table bucket: layout, write-once, tombstones, whose data.

Answers come from the location rows of the index, a few point reads per key, so a table that was
created a moment ago is known, and one that was renamed is still the owner of its files. General
buckets have no rules here. Reads are never judged: what is absent is simply not there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, NoReturn

from catalog import claims, content, idents, layout, locations, records
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
    """The answers for table buckets. account_id: of buckets that name no owner."""

    def __init__(self, *, store: CatalogStore, region: str, account_id: str) -> None:
        self._store = store
        self._region = region
        self._account_id = account_id

    def check_write(self, bucket: str, key: str) -> None:
        """Raise LayoutRefused if nothing may ever be written at key."""
        info = self._table_bucket(bucket)
        if info is None or layout_mode(info) == "off":
            return
        with self._store.index.view() as view:
            found = claims.find_location(view, info.bucket_id, key)
        layout.judge(
            key,
            location=None if found is None else found[0],
            require_registered=info.settings.get(REQUIRE_REGISTERED) is True,
        )

    def check_body(self, bucket: str, key: str, size_bytes: int) -> None:
        """Raise LayoutRefused if key is a directory marker and the body is not empty."""
        info = self._table_bucket(bucket)
        if info is not None and layout_mode(info) != "off":
            layout.check_body(key, size_bytes=size_bytes)

    def content_check(self, bucket: str, key: str) -> guard.ContentCheck | None:
        """Return what a body must be at key in a strict bucket: what its name says."""
        info = self._table_bucket(bucket)
        if info is None or layout_mode(info) != "strict":
            return None
        with self._store.index.view() as view:
            found = claims.find_location(view, info.bucket_id, key)
            owner = None if found is None else self._owner(view, records.Place(bucket=info), found)
        kind = layout.judge(key, location=None if found is None else found[0]).kind
        if kind in ("marker", "scratch"):
            return None

        def judge(seen: guard.Content) -> None:
            content.check_content(
                key,
                kind=kind,
                size_bytes=seen.size_bytes,
                head=seen.head,
                tail=seen.tail,
                whole=seen.whole,
                owner=owner,
            )

        return guard.ContentCheck(
            edge_bytes=content.EDGE_BYTES,
            whole_bytes_max=content.whole_bytes_max(key),
            judge=judge,
        )

    def write_once(self, bucket: str, key: str) -> bool:
        """Say whether key is a file of a table, which never changes."""
        info = self._table_bucket(bucket)
        if info is None:
            return False
        with self._store.index.view() as view:
            return self._is_table_file(view, info, key)

    def refuse_overwrite(self, key: str) -> NoReturn:
        """Raise what a file of a table answers to other bytes."""
        layout.refuse_write_once(key)

    def is_aws_strict(self, bucket: str) -> bool:
        """Say whether the bucket offers on objects only what AWS offers on tables' storage."""
        info = self._table_bucket(bucket)
        return info is not None and info.settings.get(AWS_STRICT) is True

    def on_delete(self, bucket: str, key: str) -> guard.OnDelete:
        """Say what a DELETE does: files of tables are only hidden, for the sweep to free."""
        info = self._table_bucket(bucket)
        if info is None:
            return "remove"
        if info.settings.get(AWS_STRICT) is True:
            return "refuse"
        with self._store.index.view() as view:
            return "tombstone" if self._is_table_file(view, info, key) else "remove"

    def resource_of(self, bucket: str, key: str, access: guard.Access) -> guard.Resource | None:
        """Return the table whose data a key is, and what access to it is called.

        Below no table's location it is the bucket itself, and listing it whole is for
        administrators: names of tables are not for everybody.
        """
        info = self._table_bucket(bucket)
        if info is None:
            return None
        account = info.owner or self._account_id
        place = records.Place(bucket=info)
        with self._store.index.view() as view:
            found = claims.find_location(view, info.bucket_id, key)
            # A prefix that ends within a table's name lists its neighbours as well.
            if found is None or (access == "list" and key == found[0].path):
                arn = arns.table_bucket_arn(self._region, account, bucket)
                return guard.Resource(
                    action="lake:Admin" if access == "list" else _ACTIONS[access],
                    arn=arn,
                    context=(("lake:branch", place.branch),),
                )
            context = self._context(view, place, found[1])
        return guard.Resource(
            action=_ACTIONS[access],
            arn=arns.table_arn(self._region, account, bucket, found[1].object_uuid),
            context=context,
        )

    def _owner(
        self,
        reading: batch.Reading,
        place: records.Place,
        found: tuple[layout.Location, records.LocationRow],
    ) -> content.Owner:
        """Return whose metadata may lie below a location: with the uuid it has now, if any."""
        location, row = found
        name = self._store.name_of_object(reading, place, row.object_uuid)
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

    def _context(
        self, reading: batch.Reading, place: records.Place, row: records.LocationRow
    ) -> tuple[tuple[str, str], ...]:
        """Return the condition keys of a location's owner: its name now, or the one it is for."""
        name = self._store.name_of_object(reading, place, row.object_uuid)
        namespace_id = row.namespace_id if name is None else name.namespace_id
        context = [("lake:branch", place.branch)]
        if namespace_id:
            namespace = self._store.namespace_of(reading, place, namespace_id)
            context.append(("s3tables:namespace", idents.dotted(namespace)))
            context.append(("s3tables:tableName", row.name if name is None else name.name))
        return tuple(context)

    def _is_table_file(
        self, reading: batch.Reading, info: storage_model.BucketInfo, key: str
    ) -> bool:
        found = claims.find_location(reading, info.bucket_id, key)
        if found is None:
            return False
        try:
            verdict = layout.judge(key, location=found[0])
        except guard.LayoutRefused:
            # Where no name is judged, every file there may be the table's. Elsewhere nothing can be
            # written under such a name; what lay there before the table did may go.
            return info.settings.get(LAYOUT) == "off" and not key.endswith("/")
        return not layout.is_mutable(key, verdict.kind)

    def _table_bucket(self, name: str) -> storage_model.BucketInfo | None:
        try:
            info = self._store.buckets.get(name)
        except (storage_errors.NoSuchBucket, storage_errors.InvalidBucketName):
            return None
        return info if info.kind == "table" else None


_ACTIONS: Final[Mapping[guard.Access, str]] = {
    "read": "s3tables:GetTableData",
    "list": "s3tables:GetTableData",
    "write": "s3tables:PutTableData",
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

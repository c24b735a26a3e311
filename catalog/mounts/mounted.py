"""engine: the mounts: their names, tables and files, as the catalog reads them.

Names are listed and tables loaded when a statement or request needs them and the last answer of the
other catalog is older than the mount's `refresh_seconds`. All requests to another catalog run in
threads of its mount, so that a catalog that does not answer delays only requests that read it;
after a failure the mount fails at once for some seconds. Nothing is written but copies of files.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

import msgspec

from catalog import errors, idents, records
from catalog.metadata import model as metadata_model
from catalog.mounts import catalogs, mirror, overlay, sources, transport
from server import mounts as settings
from server.access import model as access_model
from storage import disk, model

REQUESTS_MAX: Final = 4
"""Requests to one other catalog at a time."""

DOWNLOADS_MAX: Final = 6
"""Files of one mount that are copied at a time."""

FAILED_SECONDS: Final = 5.0
"""How long a mount that failed is not tried again."""

TABLES_KEPT_MAX: Final = 200
TABLE_BYTES_KEPT_MAX: Final = 64 << 20
"""Bounds of the tables that one mount keeps, by their number and their metadata."""

VIEWS_KEPT_MAX: Final = 50
VIEW_BYTES_KEPT_MAX: Final = 16 << 20
"""Bounds of the views that one mount keeps, by their number and their metadata."""

GRANTS_KEPT_MAX: Final = 10_000
"""Tables of one mount of which it is known how their files are read: more than a statement has."""

GRANTED_SECONDS: Final = 300
"""How long keys that the other catalog gave are used at most, before it is asked for new ones."""

OTHERS_SECONDS: Final = 60.0
"""The age at which names of a mount that a statement does not name are listed again beside it:
views that it reads may name the mount."""

READ_ACTIONS: Final = frozenset(
    {
        "s3tables:GetTableBucket", "s3tables:ListNamespaces", "s3tables:GetNamespace",
        "s3tables:ListTables", "s3tables:GetTable", "s3tables:GetTableMetadataLocation",
        "s3tables:GetTableData",
    }
)  # fmt: skip
"""What may be done with a mount; all else is a write, or about settings that it does not have."""

_ARN: Final = re.compile(r"arn:[^:]*:s3tables:[^:]*:[^:]*:bucket/([^/]+)")

_Result = TypeVar("_Result")


class DecodedMetadata(Protocol):
    """Checked metadata, and the bytes of its JSON."""

    @property
    def table(self) -> metadata_model.TableMetadata: ...

    @property
    def data(self) -> bytes: ...


Decode = Callable[[str, bytes], Awaitable[DecodedMetadata]]
"""Returns metadata that was checked; arguments: its location and the bytes of its file."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LoadedCopy:
    """A table of a mount as it was loaded."""

    pointer: records.Pointer
    metadata: metadata_model.TableMetadata
    data: bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class _Table:
    loaded: LoadedCopy
    at: float


class MountedCatalog:
    """One mount. Mutable: what it knows of the other catalog."""

    def __init__(
        self,
        configured: settings.Mount,
        place: records.Place,
        *,
        copies: mirror.Mirror,
        local: disk.Disk,
        now_ms: model.NowMs,
    ) -> None:
        self.settings = configured
        self.place = place
        self.rows = overlay.MountRows()
        self._copies = copies
        self._other = catalogs.OtherCatalog(configured, now_ms=now_ms) if configured.uri else None
        self._source = sources.FileSource(configured, local=local, now_ms=now_ms)
        self._requests = ThreadPoolExecutor(REQUESTS_MAX, f"mount-{configured.name}")
        self._downloads = ThreadPoolExecutor(DOWNLOADS_MAX, f"files-{configured.name}")
        self._namespace_ids: dict[idents.Namespace, int] = {}
        self._listed_at = float("-inf")
        self._listing: asyncio.Task[None] | None = None
        self._failed: tuple[float, errors.MountUnavailable] | None = None
        self._unlisted: errors.MountUnavailable | None = None
        self._tables: OrderedDict[idents.TableIdent, _Table] = OrderedDict()
        self._tables_bytes = 0
        self._views: OrderedDict[idents.TableIdent, tuple[float, records.Pointer, bytes]] = (
            OrderedDict()
        )
        self._views_bytes = 0
        self._grants: OrderedDict[idents.TableIdent, sources.StorageGrants] = OrderedDict()
        if self._other is None:
            self._show_tables()

    def check_listed(self) -> None:
        """Raise MountUnavailable if the names could not be listed yet."""
        if self._listed_at == float("-inf") and self._unlisted is not None:
            raise errors.MountUnavailable(str(self._unlisted))

    def refresh_beside(self) -> None:
        """Begin to list the names again if they are old, and wait for nothing."""
        age = time.monotonic() - self._listed_at
        if age > max(OTHERS_SECONDS, self.settings.refresh_seconds) and self._listing is None:
            self._begin_listing()

    def _begin_listing(self) -> asyncio.Task[None]:
        self._listing = asyncio.ensure_future(self._list())
        self._listing.add_done_callback(self._end_listing)
        return self._listing

    async def refresh(self) -> None:
        """List the names again if they are older than allowed. Raises MountUnavailable."""
        if time.monotonic() - self._listed_at <= self.settings.refresh_seconds:
            return
        await asyncio.shield(self._listing or self._begin_listing())

    async def load(
        self, ident: idents.TableIdent, pointer: records.Pointer, decode: Decode
    ) -> LoadedCopy:
        """Return a table. Raises MountUnavailable, NoSuchTable, InvalidMetadata."""
        kept = self._tables.get(ident)
        age_max = min(self.settings.refresh_seconds, GRANTED_SECONDS)
        if kept is not None and time.monotonic() - kept.at <= age_max:
            return kept.loaded
        at = time.monotonic()
        answer = await self._run(lambda: self._load(ident))
        data = bytes(answer.metadata)
        location = answer.metadata_location or pointer.location
        if kept is not None and kept.loaded.data == data:
            metadata = kept.loaded.metadata
        else:
            decoded = await decode(location, data)
            metadata, data = decoded.table, decoded.data
        loaded = LoadedCopy(
            pointer=msgspec.structs.replace(
                pointer,
                table_uuid=metadata.table_uuid,
                metadata_location=location,
                location=metadata.location,
                modified_at_ms=metadata.last_updated_ms,
            ),
            metadata=metadata,
            data=data,
        )
        self._grants.pop(ident, None)
        self._grants[ident] = sources.vended(answer.config, answer.storage_credentials)
        while len(self._grants) > GRANTS_KEPT_MAX:
            self._grants.popitem(last=False)
        self._keep(ident, _Table(loaded=loaded, at=at))
        return loaded

    def _keep(self, ident: idents.TableIdent, table: _Table) -> None:
        before = self._tables.pop(ident, None)
        self._tables_bytes -= 0 if before is None else len(before.loaded.data)
        self._tables[ident] = table
        self._tables_bytes += len(table.loaded.data)
        while len(self._tables) > TABLES_KEPT_MAX or self._tables_bytes > TABLE_BYTES_KEPT_MAX:
            _, removed = self._tables.popitem(last=False)
            self._tables_bytes -= len(removed.loaded.data)

    async def load_view(
        self, ident: idents.TableIdent, pointer: records.Pointer, *, bytes_max: int
    ) -> tuple[records.Pointer, bytes]:
        """Return a view's pointer and the JSON of its metadata, as it was sent.

        Raises MountUnavailable, NoSuchView, InvalidMetadataFile if it is larger than bytes_max.
        """
        kept = self._views.get(ident)
        if kept is not None and time.monotonic() - kept[0] <= self.settings.refresh_seconds:
            return kept[1], kept[2]
        at, other = time.monotonic(), self._other
        if other is None:
            raise errors.NoSuchView(f"View does not exist: {ident.dotted()}")
        answer = await self._run(lambda: other.load_view(ident.namespace, ident.name))
        data = bytes(answer.metadata)
        if len(data) > bytes_max:
            raise errors.InvalidMetadataFile(f"{ident.dotted()} is larger than {bytes_max} bytes")
        loaded = msgspec.structs.replace(pointer, metadata_location=answer.metadata_location)
        self._keep_view(ident, (at, loaded, data))
        return loaded, data

    def _keep_view(
        self, ident: idents.TableIdent, view: tuple[float, records.Pointer, bytes]
    ) -> None:
        before = self._views.pop(ident, None)
        self._views_bytes -= 0 if before is None else len(before[2])
        self._views[ident] = view
        self._views_bytes += len(view[2])
        while len(self._views) > VIEWS_KEPT_MAX or self._views_bytes > VIEW_BYTES_KEPT_MAX:
            _, removed = self._views.popitem(last=False)
            self._views_bytes -= len(removed[2])

    @property
    def other_names(self) -> frozenset[str]:
        """The names, in lower case, that the other catalog's views may have for this database: a
        warehouse can be named by an ARN, which ends in its name."""
        warehouse = self.settings.warehouse.lower()
        return frozenset({warehouse, warehouse.rpartition("/")[2]} - {""})

    async def bring(self, ident: idents.TableIdent, uris: Iterable[str]) -> None:
        """Copy the files of a loaded table that are not here. Raises as `Mirror.bring` does."""
        vended = self._grants.get(ident, sources.StorageGrants())

        def copy(uri: str) -> mirror.Copy:
            return lambda write, bytes_max: self._source.read(
                uri, write, vended=vended, bytes_max=bytes_max
            )

        try:
            await self._copies.bring(self.settings.name, uris, copy, self._downloads)
        except errors.MountUnavailable as error:
            self._note_failure(error)
            raise

    def addresses(self, ident: idents.TableIdent, location: str) -> dict[str, str]:
        """Return the settings of a client that reads a loaded table's files. They have no keys."""
        return self._source.addresses(location, self._grants.get(ident, sources.StorageGrants()))

    def close(self) -> None:
        """Give the threads up; those that wait for an answer end with their time-outs."""
        self._requests.shutdown(wait=False, cancel_futures=True)
        self._downloads.shutdown(wait=False, cancel_futures=True)

    def _show_tables(self) -> None:
        listing: catalogs.Listing = {schema: [] for schema in self.settings.schemas}
        for table in self.settings.tables:
            listing.setdefault(table.namespace, []).append(table.name)
        self.rows = overlay.encode(self.place, listing, self._namespace_ids)
        self._listed_at = float("inf")

    async def _list(self) -> None:
        other = self._other
        assert other is not None, "single tables are listed from the start"
        at = time.monotonic()
        try:
            listed = await self._run(other.listing)
        except errors.MountUnavailable as error:
            self._unlisted = error
            raise
        self.rows = await asyncio.to_thread(
            overlay.encode,
            self.place,
            listed.tables,
            self._namespace_ids,
            views=listed.views,
        )
        self._listed_at = at

    def _end_listing(self, listing: asyncio.Task[None]) -> None:
        self._listing = None
        if not listing.cancelled():
            listing.exception()  # each waiter has it; without one it would be logged as lost

    async def _run(self, work: Callable[[], _Result]) -> _Result:
        """Run a request in a thread of the mount. Raises MountUnavailable at once after another."""
        if self._failed is not None and time.monotonic() - self._failed[0] < FAILED_SECONDS:
            raise errors.MountUnavailable(str(self._failed[1]))
        seconds = 8 * self.settings.timeout_seconds
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(seconds):
                result = await asyncio.shield(loop.run_in_executor(self._requests, work))
        except TimeoutError:
            error = errors.MountUnavailable(
                f"The mount {self.settings.name} is not available: no answer within {seconds}"
                " seconds",
                is_away=True,
            )
            self._note_failure(error)
            raise error from None
        except errors.MountUnavailable as error:
            self._note_failure(error)
            raise
        self._failed = None
        return result

    def _note_failure(self, error: errors.MountUnavailable) -> None:
        """Remember a server that does not answer; one that refuses a request is tried again."""
        if error.fields.get("is_away"):
            self._failed = (time.monotonic(), error)

    def _load(self, ident: idents.TableIdent) -> catalogs.LoadAnswer:
        if self._other is not None:
            return self._other.load(ident.namespace, ident.name)
        for table in self.settings.tables:
            if (table.namespace, table.name) == (ident.namespace, ident.name):
                pieces: list[bytes] = []
                self._source.read(
                    table.metadata_location,
                    pieces.append,
                    vended=sources.StorageGrants(),
                    bytes_max=transport.JSON_BYTES_MAX,
                )
                return catalogs.LoadAnswer(
                    metadata=msgspec.Raw(b"".join(pieces)),
                    metadata_location=table.metadata_location,
                )
        raise errors.NoSuchTable(f"Table does not exist: {ident.dotted()}")


class Mounts:
    """All mounts. Mutable through them alone."""

    def __init__(
        self,
        configured: Sequence[settings.Mount],
        *,
        owner: str,
        region: str,
        copies: mirror.Mirror,
        local: disk.Disk,
        now_ms: model.NowMs,
    ) -> None:
        self._copies = copies
        since_ms = now_ms()
        self._mounts = {
            each.name: MountedCatalog(
                each,
                records.Place(
                    bucket=overlay.bucket_info(
                        each.name, owner=owner, region=region, since_ms=since_ms
                    )
                ),
                copies=copies,
                local=local,
                now_ms=now_ms,
            )
            for each in configured
        }
        ids = {mount.place.bucket_id for mount in self._mounts.values()}
        assert len(ids) == len(self._mounts), "two mounts' names have the same hash"

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all mounts."""
        return tuple(self._mounts)

    def find(self, name: str) -> MountedCatalog | None:
        """Return the mount of a name, or None."""
        return self._mounts.get(name)

    def view(self, inner: Any) -> overlay.OverlaidView:
        """Return a view of the index with the rows of all mounts."""
        return overlay.OverlaidView(
            inner, {each.place.prefix[:4]: each.rows for each in self._mounts.values()}
        )

    async def refresh_named(self, text: str, database: str | None) -> None:
        """List the mounts again that an SQL text may name, or that the session is in.

        One that fails keeps the names of before: the text may contain its name by chance.
        """
        lowered = text.lower().replace("_", "-")  # an underscore may stand for a hyphen
        mounts = [
            mount for name, mount in self._mounts.items() if name in lowered or name == database
        ]
        for mount in self._mounts.values():
            if mount not in mounts:
                mount.refresh_beside()
        for result in await asyncio.gather(
            *(mount.refresh() for mount in mounts), return_exceptions=True
        ):
            if isinstance(result, BaseException) and not isinstance(
                result, errors.MountUnavailable
            ):
                raise result

    async def list_all(self) -> None:
        """List the names of every mount until each was listed once."""
        waiting = list(self._mounts.values())
        while waiting:
            results = await asyncio.gather(
                *(mount.refresh() for mount in waiting), return_exceptions=True
            )
            waiting = [
                mount
                for mount, result in zip(waiting, results, strict=True)
                if isinstance(result, errors.CatalogError)
            ]
            await asyncio.sleep(2 * FAILED_SECONDS if waiting else 0)

    def check_reads(self, demands: Iterable[access_model.Demand]) -> None:
        """Raise MountReadOnly for a demand of more than reading from a mount."""
        for demand in demands:
            match = _ARN.match(demand.resource)
            if match and match[1] in self._mounts and demand.action not in READ_ACTIONS:
                raise read_only(match[1])

    def close(self) -> None:
        """Remove the copies, and give all threads up."""
        for mount in self._mounts.values():
            mount.close()
        self._copies.close()


def read_only(name: str) -> errors.MountReadOnly:
    """Return the error of a write to a mount."""
    return errors.MountReadOnly(
        f"{name} is a mount of another catalog and only read here: write through that catalog"
    )

"""engine: when each access key was last used, for which service and region.

A use is a request whose signature or password is right, whether or not it is allowed. Uses are kept
in memory, and a task writes them every KEY_USES_SECONDS and at the end of the server, one row per
key. A server that is killed loses those that are not written yet; AWS reports uses late, too.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from server import limits
from server.access import identityrows as rows
from storage import batch, errors, index
from storage import model as storage_model

NANOSECONDS_PER_MILLISECOND: Final = 1_000_000


class KeyUse(msgspec.Struct, frozen=True, gc=False):
    """A use of an access key. started_ns: of the clock for durations. service, region: empty for
    those of the door and of the server."""

    started_ns: int
    door: str
    service: str
    region: str


class KeyUses:
    """The latest uses of access keys. Mutable; it belongs to the event loop.

    configured: the access keys of root and of mini.toml, which are not stored.
    """

    def __init__(
        self,
        *,
        index: index.Index,
        region: str,
        configured: frozenset[str],
        now_ms: storage_model.NowMs,
        monotonic_ns: Callable[[], int],
    ) -> None:
        self._index = index
        self._region = region
        self._configured = configured
        self._now_ms = now_ms
        self._monotonic_ns = monotonic_ns
        self._log = logging.getLogger("boathouse.keyuses")
        self._writing: asyncio.Task[None] | None = None
        self._turn = asyncio.Lock()
        self.recent: dict[str, KeyUse] = {}
        """The uses that are not written yet, by access key. There are no more than keys, because
        only right credentials are noted."""

    def note(self, access_key: str, door: str) -> None:
        """Note a use of an access key as a password. door: the name of the face."""
        self.recent[access_key] = KeyUse(self._monotonic_ns(), door, "", "")

    def latest(self, access_key: str) -> rows.KeyUseRow | None:
        """Return the latest use of an access key; None if there was none."""
        use = self.recent.get(access_key)
        if use is not None:
            return self._row_of(use)
        value = self._index.get(batch.Store.IDENTITIES, rows.key_use_key(access_key))
        return None if value is None else rows.decode(value, rows.KeyUseRow)

    def start(self) -> None:
        """Start to write uses."""
        self._writing = asyncio.create_task(self._write_for_ever())

    async def stop(self) -> None:
        """Write what is not written, and end."""
        if self._writing is not None:
            self._writing.cancel()
            await asyncio.gather(self._writing, return_exceptions=True)
            self._writing = None
        await self.write()

    async def write(self) -> None:
        """Write the uses that are not written yet. They wait for the next time if that fails."""
        async with self._turn:
            await self._write_all()

    async def _write_all(self) -> None:
        uses = dict(self.recent)
        self.recent.clear()
        names = iter(sorted(uses))
        while keys := list(itertools.islice(names, limits.KEY_USES_AT_ONCE)):
            try:
                await self._write({key: self._row_of(uses[key]) for key in keys})
            except errors.StorageError as error:
                self._log.warning("uses of access keys are not written: %s", error)
                for access_key in keys:
                    self.recent.setdefault(access_key, uses[access_key])

    async def _write(self, uses: Mapping[str, rows.KeyUseRow]) -> None:
        def plan(reading: batch.Reading) -> batch.Decided[None]:
            writes = tuple(
                batch.Put(
                    store=batch.Store.IDENTITIES,
                    key=rows.key_use_key(access_key),
                    value=rows.encode(use),
                )
                for access_key, use in uses.items()
                if access_key in self._configured
                or reading.get(batch.Store.IDENTITIES, rows.access_key_key(access_key)) is not None
            )
            return batch.Decided(result=None, batch=batch.Batch(writes=writes))

        await self._index.decide(plan)

    async def _write_for_ever(self) -> None:
        while True:
            await asyncio.sleep(limits.KEY_USES_SECONDS)
            try:
                await asyncio.shield(self.write())
            except Exception:  # noqa: BLE001 - the task must go on after any error
                self._log.exception("uses of access keys are not written")

    def _row_of(self, use: KeyUse) -> rows.KeyUseRow:
        ago_ms = (self._monotonic_ns() - use.started_ns) // NANOSECONDS_PER_MILLISECOND
        return rows.KeyUseRow(
            used_at_ms=self._now_ms() - ago_ms,
            service=use.service or use.door,
            region=use.region or self._region,
        )

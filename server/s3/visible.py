"""face: filters a listing across tables by what the caller may see.

A listing above the tables of a table bucket demands one action, on the bucket. An explicit Deny on
a table applies there too: the listing omits the keys of a table whose own listing is denied to the
caller, and a common prefix that has only such keys. The next page starts after the omitted keys, so
that neither a page nor its token contains a hidden name.
"""

from __future__ import annotations

import asyncio
from typing import Final

from server import calls
from server.s3 import demands, engines, operations
from storage import model
from storage.pages import PAGE_ENTRIES_MAX

ENTRIES_AT_ONCE: Final = 100
"""Entries that are checked before the event loop serves other requests."""
LAST_CHARACTER: Final = "\U0010ffff"


class Visibility:
    """The decisions on one bucket's keys for the caller of one request."""

    def __init__(self, services: engines.S3Services, call: calls.Call, bucket: str) -> None:
        self._services = services
        self._call = call
        self._bucket = bucket
        self._table_path: str | None = None
        self._is_denied = False
        self._judged = 0

    async def _is_denied_key(self, key: str) -> bool:
        """Return whether the listing of a key's table is denied; False outside tables."""
        if self._table_path is None or not key.startswith(f"{self._table_path}/"):
            self._table_path = engines.ruling(self._call, self._bucket, key).table_path
            self._is_denied = False
            if self._table_path is not None:
                demand = demands.listing(self._call.context, self._bucket, key)
                decision = self._services.authoriser.decide(self._call.principal, demand)
                self._is_denied = decision.reason == "explicit-deny"
            self._call.context.forget(self._bucket, key)
        self._judged += 1
        if self._judged % ENTRIES_AT_ONCE == 0:
            await asyncio.sleep(0)
        return self._is_denied

    def _behind(self, key: str) -> str:
        """Return the position after all keys of the table that contains a denied key."""
        return max(key, f"{self._table_path}/{LAST_CHARACTER}")

    async def _is_empty(self, prefix: str) -> bool:
        """Return whether all keys below a prefix are denied."""
        after = ""
        while True:
            page = await self._services.objects.list_patiently(
                self._bucket, prefix=prefix, start_after=after, max_keys=1
            )
            if not page.objects:
                return True
            key = page.objects[0][0].decode()
            if not await self._is_denied_key(key):
                return False
            after = self._behind(key)

    async def page_of_objects(
        self, operation: operations.ListObjects | operations.ListObjectsV2, *, after: str
    ) -> model.ListedPage:
        """Return a page of the objects and common prefixes that the caller may see."""
        entries_max = min(operation.max_keys, PAGE_ENTRIES_MAX)
        objects: list[tuple[bytes, bytes]] = []
        prefixes: list[str] = []
        while True:
            page = await self._services.objects.list_patiently(
                self._bucket,
                prefix=operation.prefix,
                delimiter=operation.delimiter,
                start_after=after,
                max_keys=entries_max - len(objects) - len(prefixes),
            )
            next_after = page.next_after
            for encoded, record in page.objects:
                key = encoded.decode()
                if not await self._is_denied_key(key):
                    objects.append((encoded, record))
                elif key == next_after:
                    next_after = self._behind(key)
            prefixes += [each for each in page.common_prefixes if not await self._is_empty(each)]
            if next_after is None or len(objects) + len(prefixes) == entries_max:
                return model.ListedPage(
                    objects=tuple(objects), common_prefixes=tuple(prefixes), next_after=next_after
                )
            after = next_after

    async def page_of_uploads(self, operation: operations.ListMultipartUploads) -> model.UploadPage:
        """Return a page of the uploads and common prefixes that the caller may see."""
        entries_max = min(operation.max_uploads, PAGE_ENTRIES_MAX)
        uploads: list[model.UploadInfo] = []
        prefixes: list[str] = []
        after = (operation.key_marker, operation.upload_id_marker)
        while True:
            page = self._services.uploads.list(
                self._bucket,
                prefix=operation.prefix,
                delimiter=operation.delimiter,
                key_marker=after[0],
                upload_id_marker=after[1],
                uploads_max=entries_max - len(uploads) - len(prefixes),
            )
            uploads += [each for each in page.uploads if not await self._is_denied_key(each.key)]
            prefixes += [each for each in page.common_prefixes if await self._shows_uploads(each)]
            if page.next_after is None or len(uploads) + len(prefixes) == entries_max:
                return model.UploadPage(
                    uploads=tuple(uploads),
                    common_prefixes=tuple(prefixes),
                    next_after=page.next_after,
                )
            after = page.next_after

    async def _shows_uploads(self, prefix: str) -> bool:
        """Return whether one of the first uploads below a prefix is not denied."""
        page = self._services.uploads.list(self._bucket, prefix=prefix)
        for upload in page.uploads:
            if not await self._is_denied_key(upload.key):
                return True
        return False


def across_tables(
    services: engines.S3Services, call: calls.Call, bucket: str, prefix: str
) -> Visibility | None:
    """Return the filter for a listing; None if the demand for the listing decides alone.

    None in general buckets, within one table, and for root, to whom no Deny applies.
    """
    held = engines.ruling(call, bucket, prefix)
    is_within = held.table_path is not None and prefix != held.table_path
    if call.principal.type == "root" or is_within or held.resource("list") is None:
        return None
    return Visibility(services, call, bucket)

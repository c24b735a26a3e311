"""rule: cuts a result into chunks, and signs the URLs from which they are fetched.

Drivers send no token when they fetch a chunk, so its URL contains an unguessable signature over
query, number and expiry. This module stores no chunk.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator

import pyarrow as pa

from sql import limits


class Cutter:
    """Groups a stream of batches: a small first group for the answer itself, then chunks.

    A batch that is too large for its group is split. Groups are never empty.
    """

    def __init__(
        self,
        *,
        inline_bytes_max: int = limits.RESULT_INLINE_BYTES_MAX,
        inline_rows_max: int = limits.RESULT_INLINE_ROWS_MAX,
        chunk_bytes_max: int = limits.CHUNK_BYTES_MAX,
        chunk_rows_max: int = limits.CHUNK_ROWS_MAX,
    ) -> None:
        self._bytes_max, self._rows_max = inline_bytes_max, inline_rows_max
        self._later = (chunk_bytes_max, chunk_rows_max)
        self._group: list[pa.RecordBatch] = []
        self._bytes = self._rows = 0

    def add(self, batch: pa.RecordBatch) -> Iterator[list[pa.RecordBatch]]:
        """Take one batch; yield the groups that became full."""
        offset = 0
        while offset < batch.num_rows:
            rest = batch.slice(offset) if offset else batch
            bytes_per_row = max(1, rest.nbytes // rest.num_rows)
            fitting = min(
                self._rows_max - self._rows, (self._bytes_max - self._bytes) // bytes_per_row
            )
            if fitting < 1 and self._group:
                yield self._taken()
                continue
            part = rest if fitting >= rest.num_rows else rest.slice(0, max(1, fitting))
            self._group.append(part)
            self._rows += part.num_rows
            self._bytes += part.num_rows * bytes_per_row
            offset += part.num_rows

    def finish(self) -> Iterator[list[pa.RecordBatch]]:
        """Yield what is left."""
        if self._group:
            yield self._taken()

    def _taken(self) -> list[pa.RecordBatch]:
        group, self._group = self._group, []
        self._bytes = self._rows = 0
        self._bytes_max, self._rows_max = self._later
        return group


def path(key: bytes, query_id: str, index: int, expires_at_ms: int) -> str:
    """Return the path and query of chunk number index of a query's result."""
    signature = _signature(key, query_id, index, expires_at_ms)
    return f"/queries/{query_id}/chunks/{index}?expires={expires_at_ms}&signature={signature}"


def is_genuine(
    key: bytes, query_id: str, index: int, expires_at_ms: int, signature: str, *, now_ms: int
) -> bool:
    """Return whether this is a URL of `path` that has not expired."""
    expected = _signature(key, query_id, index, expires_at_ms)
    return hmac.compare_digest(expected.encode(), signature.encode()) and now_ms < expires_at_ms


def _signature(key: bytes, query_id: str, index: int, expires_at_ms: int) -> str:
    message = f"{query_id}/{index}/{expires_at_ms}".encode()
    return hmac.new(key, message, hashlib.sha256).hexdigest()

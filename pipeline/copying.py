"""engine: the files of a copy: those that the target lacks, and those that it loses meanwhile.

A file of the same name and size is one that an earlier job copied: names have UUIDs, and metadata
that is rewritten again differs in the marks between its blocks alone. A store of tables refuses
other bytes under the name of a file.

Such a file may be about to go: no version of the copy names what a job that died has left, and a
store of tables frees what is unnamed after some days, without a word to its reader. So the files
that were not copied are looked for again before the copy is shown, and once more when its version
names them, from when on the store keeps them.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from pipeline import copies, sources

COPIES_AT_ONCE: Final = 8
STAGED: Final = "file:"


class FileCopies:
    """The files of one job. Mutable: it counts what it copies.

    source: a boto3 client. pairs: from a bucket or a local file, to a bucket. location: of the
    copy. files, size_bytes: what was copied.
    """

    def __init__(
        self,
        source: Any,
        destination: copies.Destination,
        pairs: Sequence[tuple[str, str]],
        location: str,
    ) -> None:
        self.files = 0
        self.size_bytes = 0
        self._source = source
        self._destination = destination
        self._bucket, _, self._prefix = f"{location}/".removeprefix("s3://").partition("/")
        beginning = f"s3://{self._bucket}/"
        self._source_of = {to.removeprefix(beginning): uri for uri, to in pairs}
        self._skipped: list[str] = []

    def copy_missing(self) -> None:
        """Copy the files that the target lacks."""
        present = self._destination.sizes(
            list(self._source_of), bucket=self._bucket, prefix=self._prefix
        )

        def copy(key: str) -> int | None:
            with sources.asking(), self._opened(key) as (body, size_bytes):
                if present.get(key) == size_bytes:
                    return None
                self._destination.put(body, bucket=self._bucket, key=key)
            return size_bytes

        with concurrent.futures.ThreadPoolExecutor(COPIES_AT_ONCE) as pool:
            begun = {key: pool.submit(copy, key) for key in self._source_of}
            try:
                sizes = {key: each.result() for key, each in begun.items()}
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
        for key, size_bytes in sizes.items():
            if size_bytes is None:
                self._skipped.append(key)
            else:
                self._count(size_bytes)

    def copy_lost(self) -> None:
        """Copy the files that the target had and has no longer."""
        if not self._skipped:
            return
        present = self._destination.sizes(self._skipped, bucket=self._bucket, prefix=self._prefix)
        for key in [each for each in self._skipped if each not in present]:
            with sources.asking(), self._opened(key) as (body, size_bytes):
                self._destination.put(body, bucket=self._bucket, key=key)
            self._count(size_bytes)
        self._skipped = [key for key in self._skipped if key in present]

    def _count(self, size_bytes: int) -> None:
        self.files += 1
        self.size_bytes += size_bytes

    @contextlib.contextmanager
    def _opened(self, key: str) -> Iterator[tuple[Any, int]]:
        """Open the source of a file; yield its bytes and their number."""
        uri = self._source_of[key]
        if uri.startswith(STAGED):
            path = Path(uri.removeprefix(STAGED))
            with path.open("rb") as file:
                yield file, path.stat().st_size
            return
        bucket, _, source_key = uri.removeprefix("s3://").partition("/")
        answer = self._source.get_object(Bucket=bucket, Key=source_key)
        with contextlib.closing(answer["Body"]) as body:
            yield body, int(answer["ContentLength"])

"""engine: copies a load's many small objects to this machine before Spark reads them.

Spark asks an object store about ten times for each Parquet file that it reads: it looks whether the
object is there, lists it, looks again, and reads the end of its footer, the footer and the rows,
the footer twice. Each of these requests costs milliseconds of the JVM. Here an object costs one.
A copy has the ETag that was listed. An object may change later, as it may while Spark reads it: the
load compares all ETags before it commits.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from pipeline import errors, jobs, progress, session, sources, workfolders

AT_ONCE: Final = 8
OBJECTS_MIN: Final = 16
MEAN_BYTES_MAX: Final = 4 << 20
"""What Spark reckons that the opening of a file costs (`spark.sql.files.openCostInBytes`)."""
TOTAL_BYTES_MAX: Final = 2 << 30
DISK_SHARE: Final = 4
"""The part of the free disk that copies may take: one in so many."""

# Options that choose files by their names and times, which those of copies are not.
_OF_FILES = frozenset({"pathGlobFilter", "modifiedBefore", "modifiedAfter"})
# Spark's SQL functions and column that say from which file a row comes.
_FILE_NAMES = re.compile(r"\binput_file_|\b_metadata\b", re.IGNORECASE)
# Spark tells from the end of a name how a file is packed.
_ENDINGS = re.compile(r"(\.[A-Za-z0-9]{1,16}){0,2}\Z")


@contextlib.contextmanager
def fetched(
    spark: session.Spark, s3: Any, load: jobs.Load, readable: Sequence[sources.Source]
) -> Iterator[Sequence[sources.Source]]:
    """Yield the files to read, as copies if they are many small objects. The copies end with it.

    Errors of the block name the objects. Raises SourceChanged, NoServer, and BadSource if the disk
    fails.
    """
    if not _is_worthwhile(spark, load, readable):
        yield readable
        return
    with workfolders.opened() as folder:
        copies = _copied(s3, readable, folder)
        names = {source.path: source.place for source in copies}
        # Java writes one slash where others write three.
        names |= {path.replace("file:///", "file:/", 1): name for path, name in names.items()}
        with errors.renaming(names), session.failures():
            yield copies


def _is_worthwhile(
    spark: session.Spark, load: jobs.Load, readable: Sequence[sources.Source]
) -> bool:
    size_bytes = sum(source.size_bytes for source in readable)
    return (
        spark.reads_this_machine
        and len(readable) >= OBJECTS_MIN
        and size_bytes <= MEAN_BYTES_MAX * len(readable)
        and size_bytes <= TOTAL_BYTES_MAX
        and size_bytes <= shutil.disk_usage(tempfile.gettempdir()).free // DISK_SHARE
        and all(source.is_object for source in readable)
        and _OF_FILES.isdisjoint(load.reader.chosen)
        and not any(map(_FILE_NAMES.search, _queries(load)))
    )


def _queries(load: jobs.Load) -> list[str]:
    return [transform.sql for transform in load.transforms] + [check.sql for check in load.checks]


def _copied(s3: Any, listing: Sequence[sources.Source], folder: Path) -> Sequence[sources.Source]:
    """Return the sources with copies, whose names have the order of the objects' names."""
    ranks = {source: rank for rank, source in enumerate(sorted(listing))}
    so_far = progress.ReadCount(len(listing))
    label = f"fetching {progress.counted(len(listing), 'object')}"
    total_bytes = sum(source.size_bytes for source in listing)

    def copy(source: sources.Source) -> sources.Source:
        ending = _ENDINGS.search(source.place)
        path = folder / f"{ranks[source]:06}{ending.group() if ending else ''}"
        sources.download(s3, source, path)
        so_far.add(source.size_bytes)
        so_far.end()
        return dataclasses.replace(source, copy=path)

    with (
        progress.watching(label, so_far.counters, total_bytes=total_bytes),
        concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool,
    ):
        return tuple(pool.map(copy, listing))

"""rule: the pipeline's errors; `pipeline.__main__` prints each as one sentence."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping


class PipelineError(Exception):
    """A job cannot continue; str() is one sentence for the user."""


class BadArgument(PipelineError):
    """A place, a table's name, a transform or another argument cannot be understood."""


class UnfitSource(BadArgument):
    """A source has no data, or by its name another format: a load's other sources may fit."""


class NoServer(PipelineError):
    """No running server was found, or it does not answer."""


class NoBroker(NoServer):
    """No broker of Kafka answers, or it refuses this client."""


class NoJava(PipelineError):
    """No Java runtime that Spark runs on was found."""


class JarsMissing(PipelineError):
    """Spark's jars could not be fetched, or do not match their checksums."""


class SparkFailed(PipelineError):
    """The JVM did not start, or a job in it failed; nothing was committed."""


class SparkJobFailed(SparkFailed):
    """A job failed in a session of Spark that had started; its sources can be the reason."""


class Overtaken(PipelineError):
    """Another job's commit came first and conflicts with this one; nothing was committed."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"{reason}; nothing was loaded, run the same command again to load what is missing"
        )
        self.reason = reason


class OutcomeUnknown(PipelineError):
    """The server's answer to the commit was lost; running the job again is safe."""


class SourceChanged(PipelineError):
    """A source object changed while it was being read; nothing was committed."""


class BadSource(PipelineError):
    """A source cannot be read as the load says; nothing was committed."""


class CheckFailed(PipelineError):
    """A check of a pipeline returned rows; nothing was committed."""


class JobsFailed(PipelineError):
    """Some of a shell's jobs failed; each has said why."""


class NotForArrow(PipelineError):
    """The load needs Spark: Arrow's path would not give the same result."""


# What both engines say alike.


def source_changed(place: str) -> SourceChanged:
    """Return the error of a load one of whose sources has another ETag at its end."""
    return SourceChanged(
        f"{place} changed while it was being read; nothing was loaded, run the same command again"
    )


def target_is_view(table: str) -> BadArgument:
    """Return the error of a load whose target is the name of a view."""
    return BadArgument(f"{table} is a view, and a load writes a table; choose another name")


def overtaken(table: str, message: str, *, is_taken: bool) -> Overtaken:
    """Return the error of a commit that the server refused because another came first.

    is_taken: whether the table has a source of the load. message: the server's.
    """
    if is_taken:
        return Overtaken(f"another job has just loaded some of these objects into {table}")
    return Overtaken(f"another client has just changed {table} ({message})")


def outcome_unknown(table: str) -> OutcomeUnknown:
    """Return the error of a commit whose answer was lost."""
    return OutcomeUnknown(
        f"the answer to the commit was lost, so {table} may or may not have the rows; "
        "run the same command again: it loads only what is missing"
    )


def no_partition_column(column: str, names: Iterable[str]) -> BadArgument:
    """Return the error of a partition transform of a column that a table does not have."""
    return no_column("--partition-by", column, names)


def no_column(option: str, column: str, names: Iterable[str]) -> BadArgument:
    """Return the error of an option that names a column which the sources do not have."""
    return BadArgument(f"{option} names {column!r}, but the columns are: {', '.join(names)}")


def no_flag(column: str, column_type: str) -> BadArgument:
    """Return the error of a delete flag that holds something else than true and false."""
    return BadArgument(
        f"--delete-flag names {column!r}, a column of type {column_type}; "
        "it must hold true and false, or numbers"
    )


def no_plain_column(option: str, column: str) -> BadArgument:
    """Return the error of an option that names a column of structs, lists or maps."""
    return BadArgument(f"{option} names {column!r}, which is no plain column")


def keys_absent(rows: str, key: Iterable[str]) -> BadSource:
    """Return the error of a merge whose sources lack values in the key. rows: how many rows."""
    return BadSource(
        f"the sources have {rows} without a value in the key ({', '.join(key)}); nothing was loaded"
    )


def key_repeated(count: int, key: str) -> BadSource:
    """Return the error of a merge whose sources have several rows with a key, and no order."""
    return BadSource(
        f"the sources have {count} different rows with {key}; --order-by names the "
        "column that says which is the newest"
    )


@contextlib.contextmanager
def renaming(names: Mapping[str, str]) -> Iterator[None]:
    """Replace names in the text of an error of the block. names: each by the one it stands for."""
    try:
        yield
    except PipelineError as error:
        text = str(error)
        for name, meant in names.items():
            text = text.replace(name, meant)
        error.args = (text,)
        raise


def other_partitions(fields: Iterable[str]) -> BadArgument:
    """Return the error of transforms that are not a live table's, which has these fields."""
    return BadArgument(
        f"the table is already partitioned by {', '.join(fields) or 'nothing'}; "
        "leave --partition-by out, or give the same partitioning"
    )


def nothing_readable() -> BadSource:
    """Return the error of a load all of whose rows are rejected, so that nothing names a column."""
    return BadSource("no row can be read; an option may be missing")


def every_file_empty(file_format: str) -> UnfitSource:
    """Return the error of a load without any source that names a column."""
    if file_format == "csv":
        return UnfitSource("every CSV file is empty: there is no header to name columns")
    return UnfitSource(f"every {file_format} file is empty: nothing names a column")

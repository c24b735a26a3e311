"""engine: the raw files that a load reads: objects of a bucket, or files of this machine.

A file is identified by its place and its ETag: a load skips a pair that the table has loaded. The
ETag of a local file is the MD5 of its content.
As in Spark and Hive, directory markers and objects whose name or folder starts with `.` or `_` are
not data, except for folders that the prefix of the load itself names. A file whose name says that
it has another format is refused: leaving it out silently, or reading it, would both be wrong.
"""

from __future__ import annotations

import bz2
import contextlib
import gzip
import hashlib
import io
import os
import re
import shutil
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Literal, TypeAlias

from pipeline import errors, lineage, progress, reading, settings, watermarks

SOURCES_MAX = 100_000
BUFFER_BYTES = 1024 * 1024
# What a packed file begins with, whatever its name is.
MAGICS = {"gzip": b"\x1f\x8b", "bz2": b"BZh", "zstd": b"\x28\xb5\x2f\xfd"}
CONNECT_SECONDS = 5
ANSWER_SECONDS = 30
ATTEMPTS_MAX = 3


@dataclass(frozen=True, kw_only=True, slots=True, order=True)
class Source:
    """One raw file: an object (`s3://...`) or a local file (`file:///...`). etag is bare.

    copy: a file of this machine with the same bytes, which is read in its place.
    """

    place: str
    etag: str
    size_bytes: int
    copy: Path | None = field(default=None, compare=False)

    @property
    def path(self) -> str:
        """The name by which Spark reads it."""
        if self.copy is not None:
            return f"file://{self.copy}"
        return "s3a" + self.place.removeprefix("s3") if self.is_object else self.place

    @property
    def is_object(self) -> bool:
        """Whether it lies in a bucket."""
        return self.place.startswith("s3://")


@dataclass(frozen=True, kw_only=True, slots=True)
class RejectedRow:
    """A row that cannot be read: the line in which it begins, why, and its text."""

    source: str
    line: int
    reason: str
    raw: str


@dataclass(frozen=True, kw_only=True, slots=True)
class WantedSources:
    """The sources to load, and the number of listed sources to skip.

    cleaned: for each source the file to read, without the rows that are rejected; None where no
    row is. rejected: those rows. rows: what is read instead of files, if the sources have none.
    claims: rows of the record of loads beside those of the sources. chain: the ETags that the
    record had of them when they were chosen, if the load continues these. noun: what a source is
    called. remark: what a job prints before it reads them. may_be_empty: whether a load without a
    readable row is one all the same, because its sources do not come again. Such a load adds no
    rows: it has no columns of its sources, which merges and transforms read.
    """

    fresh: Sequence[Source]
    skipped: int
    cleaned: Sequence[Source] | None = None
    rejected: Sequence[RejectedRow] = ()
    rows: lineage.SnapshotRange | watermarks.WatermarkRange | None = None
    claims: Sequence[lineage.Pair] = ()
    chain: frozenset[str] | None = None
    noun: str = "object"
    remark: str = ""
    may_be_empty: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether the load has sources, but none with a row that can be read."""
        return self.may_be_empty and not self.readable

    @property
    def readable(self) -> Sequence[Source]:
        """The files to read."""
        return self.fresh if self.cleaned is None else self.cleaned

    @property
    def size_bytes(self) -> int | None:
        """The bytes of what is loaded, as it is stored; None for sources without a size."""
        size_bytes = sum(source.size_bytes for source in self.fresh)
        return size_bytes if size_bytes or self.noun == "object" else None

    @property
    def sentence(self) -> str:
        """What a job prints when it begins to load."""
        what = progress.counted(len(self.fresh), self.noun)
        size = "" if self.size_bytes is None else f", {progress.sized(self.size_bytes)}"
        return f"loading {what}{size}; {self.skipped} loaded before"


Service: TypeAlias = Literal["s3", "s3tables"]


def client(server: settings.ServerEndpoint, service: Service = "s3") -> Any:
    """Return a boto3 client for the server."""
    return client_at(
        endpoint=server.url,
        region=server.region,
        access_key=server.access_key,
        secret_key=server.secret_key,
        session_token=server.session_token or None,
        service=service,
    )


def client_at(
    *,
    endpoint: str | None,
    region: str | None,
    access_key: str,
    secret_key: str,
    session_token: str | None = None,
    service: Service = "s3",
) -> Any:
    """Return a boto3 client for a store. endpoint: None for AWS's own."""
    # Imported here: a job's `--help` need not load an AWS SDK.
    import boto3
    from botocore.config import Config

    make: Any = boto3.client  # its stubs have one overload for each service
    return make(
        service,
        endpoint_url=endpoint,
        region_name=region,
        aws_access_key_id=access_key,
        aws_secret_access_key=secret_key,
        aws_session_token=session_token,
        config=Config(
            s3={"addressing_style": "path"},
            connect_timeout=CONNECT_SECONDS,
            read_timeout=ANSWER_SECONDS,
            retries={"mode": "standard", "total_max_attempts": ATTEMPTS_MAX},
        ),
    )


@contextlib.contextmanager
def asking() -> Iterator[None]:
    """Turn boto3's errors in the block into the pipeline's own."""
    # Imported here: a job's `--help` need not load an AWS SDK.
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except ClientError as error:
        error_fields = error.response["Error"]
        code = error_fields.get("Code")
        if code == "NoSuchBucket":
            bucket = error_fields.get("BucketName", "")
            raise errors.BadArgument(f"there is no bucket {bucket!r}") from error
        if code in {"NoSuchKey", "404"}:
            raise errors.SourceChanged(
                f"{error_fields.get('Key', 'a source')} was deleted while it was being read; "
                "nothing was loaded, run the same command again"
            ) from error
        raise errors.NoServer(f"the server refused: {error}") from error
    except BotoCoreError as error:
        raise errors.NoServer(f"the server does not answer: {error}") from error


def listed(s3: Any, place: settings.Place) -> tuple[Source, ...]:
    """Return every data file below a place, in order of their names. Raises BadArgument."""
    if isinstance(place, settings.LocalPath):
        return _local_files(place)
    listing: list[Source] = []
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=place.bucket, Prefix=place.prefix)
    with asking():
        for page in pages:
            listing.extend(_data_objects(place, page.get("Contents", ())))
            _check_count(len(listing), place)
    return tuple(listing)


def listed_at(s3: Any, places: Iterable[settings.Place]) -> tuple[Source, ...]:
    """Return the data files below several places, each once. Raises BadArgument."""
    by_place: dict[str, Source] = {}
    for place in places:
        for source in listed(s3, place):
            by_place.setdefault(source.place, source)
            _check_count(len(by_place), place)
    return tuple(by_place.values())


def changed(
    s3: Any, places: Iterable[settings.Place], read: Iterable[Source]
) -> tuple[Source, ...]:
    """Return those of `read` that were deleted or have another ETag now."""
    present = set(listed_at(s3, places))
    return tuple(source for source in read if source not in present)


def check_names(
    listing: Iterable[Source],
    places: Iterable[settings.Place],
    file_format: settings.Format,
) -> None:
    """Raise UnfitSource if a file's name says that it has another format.

    A file that the load names itself is taken as it is.
    """
    named = {str(place) for place in places}
    for source in listing:
        name = source.place.rpartition("/")[2]
        if source.place in named or source.place.removeprefix("file://") in named:
            continue
        if reading.is_stray(name, file_format):
            ending = f".{file_format}"
            raise errors.UnfitSource(
                f"{source.place} does not look like {file_format}; leave it out with a pattern, "
                f"like --from '{source.place.rpartition('/')[0]}/*{ending}', or name its --format"
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceContent:
    """The unpacked bytes of a source. so_far: gains what is read of them."""

    source: Source
    content: bytes
    so_far: progress.ReadCount

    def opened(self) -> IO[bytes]:
        """Return the bytes as a stream that counts them, as parts of the source's own size."""
        return _CountedBytes(self)

    def end(self) -> None:
        """Count the source as read whole."""
        self.so_far.end()


class _CountedBytes(io.BytesIO):
    """A stream of a content. Mutable: it knows how far it was read."""

    def __init__(self, content: SourceContent) -> None:
        super().__init__(content.content)
        self._content = content
        self._counted_bytes = 0

    def read(self, size: int | None = -1, /) -> bytes:
        """Read and count."""
        return self._counted(super().read(size))

    def read1(self, size: int | None = -1, /) -> bytes:
        """Read and count."""
        return self._counted(super().read1(size))

    def _counted(self, part: bytes) -> bytes:
        whole, stored = len(self._content.content), self._content.source.size_bytes
        read_bytes = self.tell() * stored // whole if whole else 0
        self._content.so_far.add(read_bytes - self._counted_bytes)
        self._counted_bytes = read_bytes
        return part


@contextlib.contextmanager
def opened(s3: Any, source: Source) -> Iterator[IO[bytes]]:
    """Open a source for reading, unpacked. Raises SourceChanged, NoServer, BadSource."""
    with asking(), contextlib.ExitStack() as stack:
        if source.is_object and source.copy is None:
            raw = _answered(s3, source)["Body"]
        else:
            raw = _open_local(source)
        stack.callback(raw.close)
        stream = io.BufferedReader(raw, BUFFER_BYTES)
        packed = reading.packed_as(source.place)
        try:
            if packed is not None and stream.peek(4).startswith(MAGICS[packed]):
                yield _unpacked(stream, packed)
            else:
                yield stream
        except (EOFError, OSError, zlib.error) as error:
            raise errors.BadSource(
                f"{source.place} cannot be read: {' '.join(str(error).split())}"
            ) from error


def download(s3: Any, source: Source, path: Path) -> None:
    """Write an object's bytes, as they are stored, to a new file.

    Raises SourceChanged, NoServer, and BadSource if the object cannot be read or the file written.
    """
    with asking():
        answer = _answered(s3, source)
        with contextlib.closing(answer["Body"]) as raw:
            if answer["ETag"].strip('"') != source.etag:
                raise errors.source_changed(source.place)
            try:
                with path.open("xb") as file:
                    shutil.copyfileobj(raw, file, BUFFER_BYTES)
            except OSError as error:
                raise errors.BadSource(f"{source.place} cannot be copied: {error}") from error


def _answered(s3: Any, source: Source) -> Any:
    bucket, _, key = source.place.removeprefix("s3://").partition("/")
    return s3.get_object(Bucket=bucket, Key=key)


def _unpacked(stream: io.BufferedReader, packed: str) -> IO[bytes]:
    if packed == "gzip":
        return io.BufferedReader(gzip.GzipFile(fileobj=stream), BUFFER_BYTES)
    if packed == "bz2":
        return io.BufferedReader(bz2.BZ2File(stream), BUFFER_BYTES)
    # Imported here: a job's `--help` need not load it.
    import pyarrow

    unpacked: Any = pyarrow.CompressedInputStream(pyarrow.PythonFile(stream, mode="r"), "zstd")
    return io.BufferedReader(unpacked, BUFFER_BYTES)


def _open_local(source: Source) -> Any:
    try:
        path = source.copy or Path(source.place.removeprefix("file://"))
        return path.open("rb", buffering=0)
    except FileNotFoundError as error:
        raise errors.SourceChanged(
            f"{source.place} was deleted while it was being read; nothing was loaded, "
            "run the same command again"
        ) from error


def _local_files(place: settings.LocalPath) -> tuple[Source, ...]:
    root = Path(place.path).expanduser()
    if not root.exists():
        raise errors.BadArgument(f"there is no file or folder {place.path}")
    root = root.resolve()
    if root.is_file():
        return (_local_source(root),)
    paths: list[Path] = []
    for folder, folders, names in os.walk(root, onerror=_refuse_folder):
        # A pattern is compared with a path as the user writes it.
        relative = Path(folder).relative_to(root).as_posix()
        above = place.path.removesuffix("/") + ("/" if relative == "." else f"/{relative}/")
        folders[:] = sorted(name for name in folders if _is_data(name, above, place.folders))
        for name in names:
            path = Path(folder) / name
            if _is_data(name, above, place.pattern) and path.is_file():
                paths.append(path)
                _check_count(len(paths), place)
    return tuple(_local_source(path) for path in sorted(paths))


def _is_data(name: str, above: str, pattern: str | None) -> bool:
    """Return whether a file or folder is read, by its name and by a pattern for its path."""
    if name.startswith((".", "_")):
        return False
    return pattern is None or re.fullmatch(pattern, above + name) is not None


def _refuse_folder(error: OSError) -> None:
    """Raise BadArgument: a folder that is passed over would lose its files without a word."""
    raise errors.BadArgument(f"{error.filename} cannot be read: {error.strerror}") from error


def _local_source(path: Path) -> Source:
    """Return a file of this machine as a source. Raises BadSource if it cannot be read."""
    place = f"file://{path}"
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False))
        return Source(place=place, etag=digest.hexdigest(), size_bytes=path.stat().st_size)
    except OSError as error:
        raise errors.BadSource(f"{place} cannot be read: {error.strerror}") from error


def _check_count(count: int, place: settings.Place) -> None:
    if count > SOURCES_MAX:
        raise errors.BadArgument(
            f"more than {SOURCES_MAX:,} objects below {place}; load a narrower prefix"
        )


def _data_objects(
    place: settings.ObjectPrefix, contents: Iterable[Mapping[str, Any]]
) -> Iterable[Source]:
    folder_length = len(place.prefix.rpartition("/")[0])
    for entry in contents:
        names = entry["Key"][folder_length:].removeprefix("/").split("/")
        if place.pattern is not None and not re.fullmatch(place.pattern, entry["Key"]):
            continue
        if names[-1] and not any(name.startswith((".", "_")) for name in names):
            yield Source(
                place=f"s3://{place.bucket}/{entry['Key']}",
                etag=entry["ETag"].strip('"'),
                size_bytes=entry["Size"],
            )

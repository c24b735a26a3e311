"""engine: the raw objects a load reads, as the S3 API lists them.

An object is named by its place and its ETag; that pair is what "already loaded" means. Directory
markers and whatever has a name, or lies in a folder, that starts with `.` or `_` are no data, as
Spark and Hive hold; what the asked prefix itself names is taken.
"""

from __future__ import annotations

import codecs
import concurrent.futures
import contextlib
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline import errors, settings

SOURCES_MAX = 100_000
HEADER_BYTES_MAX = 64 * 1024
HEADERS_AT_ONCE = 16
GZIP_WINDOW = 31
CONNECT_SECONDS = 5
ANSWER_SECONDS = 30
ATTEMPTS_MAX = 3


@dataclass(frozen=True, kw_only=True, slots=True, order=True)
class Source:
    """One raw object. etag is bare."""

    place: str
    etag: str
    size_bytes: int

    @property
    def path(self) -> str:
        """The name by which Spark's S3A reads it."""
        return "s3a" + self.place.removeprefix("s3")


def client(server: settings.Server) -> Any:
    """Return a boto3 S3 client for the server."""
    # Imported here: a job's `--help` need not load an AWS SDK.
    import boto3
    from botocore.config import Config

    return boto3.client(
        "s3",
        endpoint_url=server.url,
        region_name=server.region,
        aws_access_key_id=server.access_key,
        aws_secret_access_key=server.secret_key,
        config=Config(
            s3={"addressing_style": "path"},
            connect_timeout=CONNECT_SECONDS,
            read_timeout=ANSWER_SECONDS,
            retries={"mode": "standard", "total_max_attempts": ATTEMPTS_MAX},
        ),
    )


@contextlib.contextmanager
def asking() -> Iterator[None]:
    """Turn what boto3 raises in the block into the pipeline's own errors."""
    # Imported here: a job's `--help` need not load an AWS SDK.
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except ClientError as error:
        said = error.response["Error"]
        code = said.get("Code")
        if code == "NoSuchBucket":
            bucket = said.get("BucketName", "")
            raise errors.BadArgument(f"there is no bucket {bucket!r}") from error
        if code in {"NoSuchKey", "404"}:
            raise errors.SourceChanged(
                f"{said.get('Key', 'a source')} went away while it was being read; nothing was "
                "loaded, run the same command again"
            ) from error
        raise errors.NoServer(f"the server refused: {error}") from error
    except BotoCoreError as error:
        raise errors.NoServer(f"the server does not answer: {error}") from error


def listed(s3: Any, place: settings.Place) -> tuple[Source, ...]:
    """Return every data object at place, in order of keys. Raises BadArgument."""
    found: list[Source] = []
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=place.bucket, Prefix=place.prefix)
    with asking():
        for page in pages:
            found.extend(_data_objects(place, page.get("Contents", ())))
            if len(found) > SOURCES_MAX:
                raise errors.BadArgument(
                    f"more than {SOURCES_MAX:,} objects below s3://{place.bucket}/{place.prefix}; "
                    "load a narrower prefix"
                )
    return tuple(found)


def changed(s3: Any, place: settings.Place, read: Iterable[Source]) -> tuple[Source, ...]:
    """Return those of `read` that are gone or have another ETag by now."""
    present = set(listed(s3, place))
    return tuple(source for source in read if source not in present)


def by_header(s3: Any, found: Sequence[Source]) -> list[list[Source]]:
    """Return the CSV sources in groups of the same first line, empty files left out."""

    def header(source: Source) -> bytes:
        bucket, _, key = source.place.removeprefix("s3://").partition("/")
        if not source.size_bytes:
            return b""
        body = s3.get_object(Bucket=bucket, Key=key, Range=f"bytes=0-{HEADER_BYTES_MAX - 1}")[
            "Body"
        ]
        begin = body.read()
        # Spark too goes by the name.
        line = (_unpacked(begin) if key.endswith(".gz") else begin).split(b"\n", 1)[0]
        return line.removeprefix(codecs.BOM_UTF8).rstrip(b"\r")

    groups: dict[bytes, list[Source]] = {}
    with asking(), concurrent.futures.ThreadPoolExecutor(HEADERS_AT_ONCE) as pool:
        for source, line in zip(found, pool.map(header, found), strict=True):
            if line:
                groups.setdefault(line, []).append(source)
    if not groups:
        raise errors.BadArgument("every CSV file is empty: there is no header to name columns")
    return list(groups.values())


def _unpacked(begin: bytes) -> bytes:
    """Return the beginning of what gzip packed; where it did not, the same bytes."""
    try:
        return zlib.decompressobj(GZIP_WINDOW).decompress(begin, HEADER_BYTES_MAX)
    except zlib.error:
        return begin


def _data_objects(place: settings.Place, contents: Iterable[Mapping[str, Any]]) -> Iterable[Source]:
    asked = len(place.prefix.rpartition("/")[0])
    for entry in contents:
        names = entry["Key"][asked:].removeprefix("/").split("/")
        if names[-1] and not any(name.startswith((".", "_")) for name in names):
            yield Source(
                place=f"s3://{place.bucket}/{entry['Key']}",
                etag=entry["ETag"].strip('"'),
                size_bytes=entry["Size"],
            )

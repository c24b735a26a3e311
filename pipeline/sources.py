"""engine: the raw objects that a load reads, as the S3 API lists them.

An object is identified by its place and its ETag: a load skips a pair that the table has loaded.
As in Spark and Hive, directory markers and objects whose name or folder starts with `.` or `_` are
not data, except for folders that the prefix of the load itself names.
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


def client(server: settings.ServerEndpoint) -> Any:
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


def listed(s3: Any, place: settings.ObjectPrefix) -> tuple[Source, ...]:
    """Return every data object below a place, in key order. Raises BadArgument."""
    listing: list[Source] = []
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=place.bucket, Prefix=place.prefix)
    with asking():
        for page in pages:
            listing.extend(_data_objects(place, page.get("Contents", ())))
            if len(listing) > SOURCES_MAX:
                raise errors.BadArgument(
                    f"more than {SOURCES_MAX:,} objects below s3://{place.bucket}/{place.prefix}; "
                    "load a narrower prefix"
                )
    return tuple(listing)


def changed(s3: Any, place: settings.ObjectPrefix, read: Iterable[Source]) -> tuple[Source, ...]:
    """Return those of `read` that were deleted or have another ETag now."""
    present = set(listed(s3, place))
    return tuple(source for source in read if source not in present)


def by_header(s3: Any, csv_sources: Sequence[Source]) -> list[list[Source]]:
    """Return the CSV sources in groups with the same first line, without empty files."""

    def header(source: Source) -> bytes:
        bucket, _, key = source.place.removeprefix("s3://").partition("/")
        if not source.size_bytes:
            return b""
        body = s3.get_object(Bucket=bucket, Key=key, Range=f"bytes=0-{HEADER_BYTES_MAX - 1}")[
            "Body"
        ]
        begin = body.read()
        # Spark also recognises compression by the name.
        line = (_unpacked(begin) if key.endswith(".gz") else begin).split(b"\n", 1)[0]
        return line.removeprefix(codecs.BOM_UTF8).rstrip(b"\r")

    groups: dict[bytes, list[Source]] = {}
    with asking(), concurrent.futures.ThreadPoolExecutor(HEADERS_AT_ONCE) as pool:
        for source, line in zip(csv_sources, pool.map(header, csv_sources), strict=True):
            if line:
                groups.setdefault(line, []).append(source)
    if not groups:
        raise errors.BadArgument("every CSV file is empty: there is no header to name columns")
    return list(groups.values())


def _unpacked(begin: bytes) -> bytes:
    """Return the first bytes, decompressed; the same bytes if they are not gzip."""
    try:
        return zlib.decompressobj(GZIP_WINDOW).decompress(begin, HEADER_BYTES_MAX)
    except zlib.error:
        return begin


def _data_objects(
    place: settings.ObjectPrefix, contents: Iterable[Mapping[str, Any]]
) -> Iterable[Source]:
    folder_length = len(place.prefix.rpartition("/")[0])
    for entry in contents:
        names = entry["Key"][folder_length:].removeprefix("/").split("/")
        if names[-1] and not any(name.startswith((".", "_")) for name in names):
            yield Source(
                place=f"s3://{place.bucket}/{entry['Key']}",
                etag=entry["ETag"].strip('"'),
                size_bytes=entry["Size"],
            )

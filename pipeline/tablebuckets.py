"""engine: a copy in a table bucket of S3 Tables: what it has now, and how it gets another version.

CreateTable without a schema gives a table its own location, and no metadata yet. The job writes
files there, and UpdateTableMetadataLocation makes a metadata file, with all its history, the
table's version if its version token is still the one that the job has read. So an empty table is
one that a job began; any other is judged by its metadata file.

S3 Tables rewrites small files and expires snapshots of every table by default. Both would give the
copy a version of its own, so both are turned off before its first version. Objects of S3 Tables are
neither listed nor deleted.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Literal
from urllib.parse import urlsplit

from pipeline import copies, errors, progress, replicas, settings, sources

LOOKS_AT_ONCE = 8
MAINTENANCE = ("icebergCompaction", "icebergSnapshotManagement")
AWS_DOMAINS = (".amazonaws.com", ".amazonaws.com.cn", ".api.aws")
GZIP_MAGIC = b"\x1f\x8b"
CREDENTIAL_ERRORS = frozenset({
    "NoCredentialsError", "PartialCredentialsError", "ProfileNotFound", "CredentialRetrievalError",
})  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class TableBucketDestination:
    """A table bucket and the name of the copy in it. tables, store: boto3 clients."""

    tables: Any
    store: Any
    arn: str
    table: settings.TargetTable

    def find(self) -> copies.Copy | None:
        """Return what the target has; None if it has no table of the name, or no such bucket."""
        try:
            with _asking():
                answer = self.tables.get_table_metadata_location(**self._named)
        except _Absent:
            return None
        copy = copies.Copy(
            location=answer["warehouseLocation"].rstrip("/"),
            metadata_location=answer.get("metadataLocation"),
            version_token=answer["versionToken"],
        )
        if copy.metadata_location is None:
            return copy
        return copies.Copy(
            location=copy.location,
            metadata_location=copy.metadata_location,
            table_uuid=self._table_uuid(copy.metadata_location),
            version_token=copy.version_token,
        )

    def begun(self, own: str) -> copies.Copy:
        """Create the table, and its namespace, where they are missing; turn off its maintenance."""
        if self.find() is None:
            self._create()
        for which in MAINTENANCE:
            with _asking():
                self.tables.put_table_maintenance_configuration(
                    **self._named, type=which, value={"status": "disabled"}
                )
        copy = self.find()
        if copy is None or copy.metadata_location is not None:
            raise errors.PipelineError(
                f"another client has just changed {self.table.dotted} in {self.arn}; "
                "run the same command again"
            )
        return copy

    def sizes(self, keys: Sequence[str], *, bucket: str, prefix: str) -> Mapping[str, int]:
        """Return the sizes of those files that the store has, by key."""

        def size(key: str) -> int | None:
            # Without the right to list, S3 answers 403 for an object that does not exist.
            try:
                with _asking():
                    answer = self.store.head_object(Bucket=bucket, Key=key)
            except (_Absent, _Denied):
                return None
            return int(answer["ContentLength"])

        with concurrent.futures.ThreadPoolExecutor(LOOKS_AT_ONCE) as pool:
            looked = zip(keys, pool.map(size, keys), strict=True)
            return {key: size_bytes for key, size_bytes in looked if size_bytes is not None}

    def put(self, body: Any, *, bucket: str, key: str) -> None:
        """Write a file into the store."""
        with _asking():
            self.store.upload_fileobj(body, bucket, key)

    def show(self, copy: copies.Copy, metadata_location: str, say: progress.Say) -> None:
        """Make a metadata file the table's version, if no other client has changed the table."""
        try:
            with _asking():
                self.tables.update_table_metadata_location(
                    **self._named,
                    versionToken=copy.version_token,
                    metadataLocation=metadata_location,
                )
        except _Conflict as error:
            # boto3 repeats a request whose answer was lost; the second one is a conflict then.
            now = self.find()
            if now is None or now.metadata_location != metadata_location:
                raise errors.PipelineError(
                    f"another client has changed {self.table.dotted} in {self.arn} while this job "
                    "ran: the target has that change, and none of this job's"
                ) from error
        except errors.NoServer as error:
            raise errors.OutcomeUnknown(
                f"the answer to the commit was lost, so {self.table.dotted} in {self.arn} may or "
                "may not have the newest version; run the same command again"
            ) from error

    @property
    def _named(self) -> dict[str, str]:
        return {
            "tableBucketARN": self.arn,
            "namespace": self.table.namespace[0],
            "name": self.table.name,
        }

    def _create(self) -> None:
        """Create the table; first its namespace, if that is what is missing."""
        try:
            self._create_table()
        except _Absent:
            try:
                with contextlib.suppress(_Conflict), _asking():
                    self.tables.create_namespace(
                        tableBucketARN=self.arn, namespace=[self.table.namespace[0]]
                    )
                self._create_table()
            except _Absent as error:
                raise errors.BadArgument(f"there is no table bucket {self.arn}") from error

    def _create_table(self) -> None:
        with contextlib.suppress(_Conflict), _asking():  # another job may have come first
            self.tables.create_table(**self._named, format="ICEBERG")

    def _table_uuid(self, metadata_location: str) -> str:
        """Return the UUID in a metadata file of the target."""
        bucket, _, key = metadata_location.removeprefix("s3://").partition("/")
        try:
            with _asking():
                body = self.store.get_object(Bucket=bucket, Key=key)["Body"].read()
            data = gzip.decompress(body) if body.startswith(GZIP_MAGIC) else body
            return str(json.loads(data)["table-uuid"])
        except (_Absent, OSError, ValueError, KeyError, TypeError) as error:
            raise errors.PipelineError(
                f"the target's metadata file {metadata_location} cannot be read: {error}"
            ) from error


def opened(to: replicas.TableBucketTarget, table: settings.TargetTable) -> TableBucketDestination:
    """Return the destination of a copy, by AWS's configuration where the target says nothing.

    table: its name there. Raises BadArgument.
    """
    # Imported here: a job's `--help` need not load an AWS SDK.
    import boto3

    with _asking():
        make = boto3.session.Session().client
        tables, store = _client(make, to, "s3tables"), _client(make, to, "s3")
        if not (urlsplit(store.meta.endpoint_url).hostname or "").endswith(AWS_DOMAINS):
            # Other stores need not have a host name for each bucket.
            store = _client(make, to, "s3", addressing_style="path")
    return TableBucketDestination(tables=tables, store=store, arn=to.arn, table=table)


def _client(
    make: Any,
    to: replicas.TableBucketTarget,
    service: sources.Service,
    *,
    addressing_style: Literal["auto", "path"] = "auto",
) -> Any:
    """Return a boto3 client. make: of a session."""
    # Imported here: a job's `--help` need not load an AWS SDK.
    from botocore.config import Config

    keys = to.keys
    return make(
        service,
        endpoint_url=to.s3_endpoint if service == "s3" else None,
        region_name=to.region,
        aws_access_key_id=None if keys is None else keys.access_key,
        aws_secret_access_key=None if keys is None else keys.secret_key,
        config=Config(
            s3={"addressing_style": addressing_style},
            connect_timeout=sources.CONNECT_SECONDS,
            read_timeout=sources.ANSWER_SECONDS,
            retries={"mode": "standard", "total_max_attempts": sources.ATTEMPTS_MAX},
        ),
    )


class _Absent(errors.PipelineError):
    """The target has no such bucket, namespace, table or object."""


class _Conflict(errors.PipelineError):
    """Something has the name already, or the version token is another."""


class _Denied(errors.PipelineError):
    """The target's access rules refuse the operation."""


@contextlib.contextmanager
def _asking() -> Iterator[None]:
    """Turn boto3's errors in the block into the pipeline's own, of one sentence each."""
    # Imported here: a job's `--help` need not load an AWS SDK.
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except ClientError as error:
        fields, answer = error.response["Error"], error.response["ResponseMetadata"]
        message = fields.get("Message") or fields.get("Code")
        if answer["HTTPStatusCode"] >= HTTPStatus.INTERNAL_SERVER_ERROR:
            # It may have happened, as with an answer that is lost.
            raise errors.NoServer(f"the target failed {error.operation_name}: {message}") from error
        sentence = f"the target refused {error.operation_name}: {message}"
        by_status = {403: _Denied, 404: _Absent, 409: _Conflict}
        raise by_status.get(answer["HTTPStatusCode"], errors.PipelineError)(sentence) from error
    except BotoCoreError as error:
        if type(error).__name__ in CREDENTIAL_ERRORS:
            raise errors.BadArgument(
                f"there is no key pair of the target: {error}; set {replicas.ACCESS_KEY} and "
                f"{replicas.SECRET_KEY}, or what AWS's own tools take, like AWS_PROFILE"
            ) from error
        raise errors.NoServer(f"the target does not answer: {error}") from error

"""engine: the rows of a view whose text is not Spark's, computed by the server's SQL.

One statement unloads the view into the caller's own stage, as Parquet files: its tables are read at
one snapshot each, and with the caller's rights. The files are downloaded into a temporary folder of
this machine, which Spark reads and which goes with the block, and are removed from the stage. Their
rows and bytes are compared with those that the statement wrote. What a job that died left there, a
load of the view into the table removes a day later: newer files may be those of a running job.
"""

from __future__ import annotations

import contextlib
import datetime
import email.utils
import hashlib
import http.client
import json
import shutil
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pipeline import errors, loads, session, settings, workfolders

APPLICATION: Final = "BoathousePipeline"
ANSWER_SECONDS: Final = 120
PENDING: Final = frozenset({"333333", "333334"})
FILE_BYTES_MAX: Final = 256 * 1024 * 1024
STAGE: Final = "@~/boathouse-pipeline"
STALE_AGE: Final = datetime.timedelta(days=1)
"""The age at which the files of another job are those of one that died."""
SPARK_TYPES: Final[Mapping[str, str]] = {
    "boolean": "boolean",
    "int": "int",
    "long": "bigint",
    "float": "float",
    "double": "double",
    "date": "date",
    "timestamp": "timestamp_ntz",
    "timestamptz": "timestamp",
    "string": "string",
    "binary": "binary",
}
"""Spark's types by Iceberg's, of columns that Parquet files of an unload have; decimals too."""


@contextlib.contextmanager
def rows(
    spark: session.Spark,
    server: settings.ServerEndpoint,
    view: settings.TargetTable,
    target: settings.TargetTable,
) -> Iterator[Any]:
    """Yield a view's rows as a frame, which holds for the time of the block.

    Raises BadArgument if the server's SQL refuses the view, NoServer.
    """
    if not spark.reads_this_machine:
        raise errors.BadArgument(
            f"view:{view.full} has no text in Spark's SQL, and a Spark cluster cannot read its "
            "rows from this machine; use --master 'local[*]'"
        )
    columns = _columns(view, loads.view_metadata(server, view))
    with workfolders.opened() as folder:
        _unload(server, view, target, folder)
        listed = ", ".join(f"`{name}` {spark_type}" for name, spark_type in columns)
        if not any(folder.iterdir()):
            yield spark.session.createDataFrame([], listed)
            return
        frame = spark.session.read.parquet(f"file://{folder}").toDF(*(name for name, _ in columns))
        yield frame.selectExpr(
            *(f"cast(`{name}` as {spark_type}) as `{name}`" for name, spark_type in columns)
        )


def _columns(view: settings.TargetTable, metadata: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the names of a view's columns, and their types in Spark. Raises BadArgument."""
    versions = {each["version-id"]: each for each in metadata["versions"]}
    schema_id = versions[metadata["current-version-id"]]["schema-id"]
    (schema,) = (each for each in metadata["schemas"] if each["schema-id"] == schema_id)
    columns = []
    for field in schema["fields"]:
        column_type, name = field["type"], str(field["name"])
        spark_type = SPARK_TYPES.get(column_type) if isinstance(column_type, str) else None
        if isinstance(column_type, str) and column_type.startswith("decimal("):
            spark_type = column_type
        if spark_type is None or "`" in name:
            raise errors.BadArgument(
                f"view:{view.full} has no text in Spark's SQL, and its column {name!r} of the type "
                f"{column_type if isinstance(column_type, str) else column_type['type']} is in no "
                "file that the server's SQL unloads; name the other columns in another view"
            )
        columns.append((name, spark_type))
    return columns


def _unload(
    server: settings.ServerEndpoint,
    view: settings.TargetTable,
    target: settings.TargetTable,
    folder: Path,
) -> None:
    """Store a view's rows as Parquet files in a folder."""
    digest = hashlib.sha256(f"{view.full} {target.full}".encode()).hexdigest()[:16]
    place = f"{STAGE}/{digest}"
    path = f"{place}/{uuid.uuid4().hex}/"
    quoted = ".".join(
        '"' + part.replace('"', '""') + '"'
        for part in (view.warehouse, ".".join(view.namespace), view.name)
    )
    with _sql(server, view) as sql:
        sql.run("alter session set timezone = 'UTC'")
        _remove_stale(sql, place)
        try:
            ((rows_unloaded, _, output_bytes),) = sql.run(
                f"copy into {path} from (select * from {quoted}) "
                "file_format = (type = parquet) header = true "
                f"max_file_size = {FILE_BYTES_MAX}"
            )["rowset"]
            urls = sql.run(f"get {path} 'file:///tmp'").get("presignedUrls") or ()
            for number, url in enumerate(urls):
                with (
                    _opened(urllib.request.Request(url)) as answer,
                    (folder / f"{number:05d}.parquet").open("wb") as file,
                ):
                    shutil.copyfileobj(answer, file)
        finally:
            with contextlib.suppress(errors.PipelineError):
                sql.run(f"remove {path}")
    _check_whole(view, folder, rows=int(rows_unloaded), size_bytes=int(output_bytes))


def _remove_stale(sql: _Sql, place: str) -> None:
    """Remove the folders of jobs that died: those whose newest file is old."""
    newest: dict[str, datetime.datetime] = {}
    for name, _, _, last_modified in sql.run(f"list {place}/")["rowset"]:
        job = name.split("/")[-2]
        modified = email.utils.parsedate_to_datetime(last_modified)
        newest[job] = max(modified, newest.get(job, modified))
    before = datetime.datetime.now(datetime.UTC) - STALE_AGE
    for job, modified in newest.items():
        if modified < before:
            sql.run(f"remove {place}/{job}/")


def _check_whole(view: settings.TargetTable, folder: Path, *, rows: int, size_bytes: int) -> None:
    """Raise SourceChanged unless the files have as many rows and bytes as the statement wrote."""
    # Imported here: no other module that Spark's jobs need has it.
    import pyarrow

    files = sorted(folder.iterdir())
    got_bytes = sum(file.stat().st_size for file in files)
    try:
        got_rows = sum(_row_count(file) for file in files)
    except (OSError, pyarrow.ArrowException) as error:
        reason = " ".join(str(error).split())
        raise errors.SourceChanged(
            f"the unloaded files of view:{view.full} cannot be read: {reason}; run the job again"
        ) from error
    if (got_rows, got_bytes) != (rows, size_bytes):
        raise errors.SourceChanged(
            f"view:{view.full} was unloaded as {rows} rows in {size_bytes} bytes, of which "
            f"{got_rows} rows in {got_bytes} bytes arrived; run the job again"
        )


def _row_count(file: Path) -> int:
    # Imported here: no other module that Spark's jobs need has it.
    import pyarrow.parquet

    return int(pyarrow.parquet.read_metadata(file).num_rows)


class _Sql:
    """A session of the server's SQL. Mutable: it holds its token."""

    def __init__(self, server: settings.ServerEndpoint, view: settings.TargetTable) -> None:
        self._server = server
        self._view = view
        self._token = ""

    def log_in(self) -> None:
        """Open the session, with the rights of the job."""
        data = {
            "CLIENT_APP_ID": APPLICATION,
            "CLIENT_APP_VERSION": "1",
            "ACCOUNT_NAME": "boathouse",
            "AUTHENTICATOR": "OAUTH",
            "TOKEN": loads.token(self._server),
        }
        answer = self._ask("/session/v1/login-request", {"data": data})
        self._token = str(answer["data"]["token"])

    def run(self, text: str) -> Mapping[str, Any]:
        """Return the answer to one statement. Raises BadArgument if it is refused, NoServer."""
        request_id = uuid.uuid4()
        try:
            answer = self._ask(
                f"/queries/v1/query-request?requestId={request_id}", {"sqlText": text}
            )
            while answer.get("code") in PENDING:
                answer = self._ask(str(answer["data"]["getResultUrl"]), None)
        except KeyboardInterrupt:
            with contextlib.suppress(errors.PipelineError):
                self._ask("/queries/v1/abort-request", {"requestId": str(request_id)})
            raise
        return dict(answer["data"])

    def log_out(self) -> None:
        """Close the session."""
        with contextlib.suppress(errors.PipelineError):
            self._ask("/session?delete=true", {})

    def _ask(self, path: str, body: Mapping[str, Any] | None) -> dict[str, Any]:
        request = urllib.request.Request(
            self._server.url + path,
            data=None if body is None else json.dumps(body).encode(),
            headers={
                "Content-Type": "application/json",
                "Accept": "application/json",
                "Authorization": f'Snowflake Token="{self._token}"',
            },
        )
        with _opened(request) as stream:
            answer = json.load(stream)
        if not answer["success"]:
            raise errors.BadArgument(
                f"view:{self._view.full} has no text in Spark's SQL, and the server's SQL cannot "
                f"unload it: {answer.get('message')}"
            )
        return dict(answer)


@contextlib.contextmanager
def _sql(server: settings.ServerEndpoint, view: settings.TargetTable) -> Iterator[_Sql]:
    sql = _Sql(server, view)
    sql.log_in()
    try:
        yield sql
    finally:
        sql.log_out()


@contextlib.contextmanager
def _opened(request: urllib.request.Request) -> Iterator[Any]:
    """Open the answer to a request. Raises NoServer."""
    try:
        with urllib.request.urlopen(request, timeout=ANSWER_SECONDS) as answer:
            yield answer
    except (
        urllib.error.URLError, TimeoutError, ConnectionError, http.client.HTTPException
    ) as error:  # fmt: skip
        raise errors.NoServer(f"the server does not answer: {error}") from error


def dialects(metadata: Mapping[str, Any]) -> Sequence[str]:
    """Return the dialects, in lower case, of the texts of a view's current version."""
    return sorted(
        one["dialect"].lower()
        for version in metadata["versions"]
        if version["version-id"] == metadata["current-version-id"]
        for one in version["representations"]
    )

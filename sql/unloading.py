"""engine: COPY INTO a stage: the rows of a query become files of the stage.

A worker writes the files, and then each of them is stored under its name. Without OVERWRITE a file
that exists already is an error, and the files of the statement are removed again.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from sql import (
    compiler,
    engine,
    errors,
    fileformats,
    intervals,
    limits,
    outcomes,
    planning,
    stages,
)
from sql.dialect import operations, resolve, sqltypes, staging
from storage import blobs, disk
from storage import model as storage_model

MAX_FILE_SIZE: Final = 5 << 30
SUFFIXES: Final = {"GZIP": ".gz", "BZ2": ".bz2", "ZSTD": ".zst", "BROTLI": ".br", "NONE": ""}
PARQUET_CODECS: Final = {"AUTO": "snappy", "SNAPPY": "snappy", "NONE": "none"}


class _Unloaded(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A file of the answer. key: below its stage."""

    key: str
    size_bytes: int
    rows: int


class Unloading:
    """Runs COPY INTO a stage. Stateless."""

    def __init__(
        self,
        *,
        engine: engine.Engine,
        compiler: compiler.Compiler,
        planning: planning.Planning,
        stages: stages.Stages,
        blobs: blobs.Blobs,
        disk: disk.Disk,
        scratch: Path,
        new_id: storage_model.NewId,
    ) -> None:
        self._engine = engine
        self._compiler = compiler
        self._planning = planning
        self._stages = stages
        self._blobs = blobs
        self._disk = disk
        self._scratch = scratch
        self._new_id = new_id

    async def unload(
        self, execution: planning.Execution, statement: operations.Unload
    ) -> outcomes.Outcome:
        """Write the rows of a query as files of a stage; raises SqlError, EngineFault."""
        session = execution.session
        stage = self._stages.stage(session, statement.location, writes=True)
        file_format = await self._stages.format_in(session, stage, statement.file_format)
        if file_format.type in ("ORC", "AVRO"):
            raise errors.unsupported(f"COPY INTO @stage of {file_format.type}")
        if not 1 <= statement.max_file_size <= MAX_FILE_SIZE:
            raise errors.invalid_parameter("MAX_FILE_SIZE", statement.max_file_size)
        await self._stages.begin_writing(stage)
        receipt = self._stages.receipt(session, execution.query_id)
        answered = self._stages.reply(receipt)
        if answered is not None:  # the client did not get the first request's answer
            return _answer(statement, msgspec.json.decode(answered, type=list[_Unloaded]))
        folder = self._scratch / self._new_id()
        await asyncio.to_thread(self._disk.make_folder, folder)
        try:
            finished = await self._written(execution, statement, file_format, folder)
            keys = _keys(execution, statement, file_format, finished.files)
            paths = [Path(file.path) for file in finished.files]
            await self._stages.store(
                stage,
                dict(zip(keys, paths, strict=True)),
                blob_store=self._blobs,
                owner=execution.by,
                overwrites=statement.overwrite,
                query_id=execution.query_id,
            )
        finally:
            await asyncio.shield(asyncio.to_thread(self._disk.remove_tree, folder))
        unloaded = [
            _Unloaded(key=key, size_bytes=file.size_bytes, rows=file.rows)
            for key, file in zip(keys, finished.files, strict=True)
        ]
        await self._stages.keep_reply(receipt, unloaded)
        return _answer(statement, unloaded)

    async def _written(
        self,
        execution: planning.Execution,
        statement: operations.Unload,
        file_format: fileformats.FileFormat,
        folder: Path,
    ) -> engine.Finished:
        bound, _ = await self._bound(execution, statement.query)
        aliases = ", ".join(f'"c{index}"' for index in range(len(bound.columns)))
        items = _items(bound, file_format)
        source = f"({statement.query}\n) AS q({aliases})"
        if statement.partition:
            column = f'"c{len(bound.columns)}"'
            inner = f"SELECT *, ({statement.partition}\n) FROM ({statement.query}\n)"
            source = f"({inner}) AS q({aliases}, {column}) ORDER BY {column}"
            items.append(column)
        whole, query = await self._bound(execution, f"SELECT {', '.join(items)} FROM {source}")
        if statement.partition and whole.types[-1].name not in ("text", "null"):
            raise errors.invalid_parameter(
                "PARTITION BY", f"an expression of type {sqltypes.shown(whole.types[-1])}"
            )
        names = [column.name for column in bound.columns]
        if file_format.type == "PARQUET" and not statement.header:
            names = [f"_COL_{index}" for index in range(len(names))]
        order = _order(statement, file_format, folder, names, bound)
        results = await self._engine.run(dataclasses.replace(query, unload=order))
        _, finished = await engine.collect(results)
        return finished

    async def _bound(
        self, execution: planning.Execution, text: str
    ) -> tuple[resolve.BoundQuery, engine.EngineQuery]:
        compiled = await self._compiler.compile(text, owner=execution.session.principal.name)
        part = dataclasses.replace(execution, compiled=compiled, bindings={})
        try:
            bound, query_tables = await self._planning.bound(part)
            return bound, await self._planning.query(part, bound, query_tables)
        finally:
            await compiled.close()


def _items(bound: resolve.BoundQuery, file_format: fileformats.FileFormat) -> list[str]:
    """Return the select list that gives a query's values as the files have them."""
    if file_format.type == "JSON":
        if len(bound.types) != 1 or bound.types[0].name not in sqltypes.SEMISTRUCTURED:
            raise errors.copy_of_documents(
                "JSON file format can only unload one column of type variant, object, or array."
            )
        return ['TO_JSON("c0")']
    items = []
    for index, sql_type in enumerate(bound.types):
        column = f'"c{index}"'
        if file_format.type == "CSV":
            column = _text_of(column, sql_type, file_format)
        elif sql_type.name in sqltypes.SEMISTRUCTURED:
            column = f"TO_JSON({column})"
        elif sql_type.name == "timestamp_tz":
            column = f"TO_TIMESTAMP_LTZ({column})"  # an instant; Parquet has no type with an offset
        elif sql_type.name in intervals.NAMES:
            column = f"TO_VARCHAR({column})"
        items.append(column)
    return items


def _text_of(column: str, sql_type: sqltypes.SqlType, file_format: fileformats.FileFormat) -> str:
    if sql_type.structure is not None:
        return f"TO_JSON({column})"
    model = "AUTO"
    if sql_type.name in ("date", "time"):
        model = str(file_format.value(f"{sql_type.name.upper()}_FORMAT"))
    elif sql_type.name.startswith("timestamp"):
        model = str(file_format.value("TIMESTAMP_FORMAT"))
    if sql_type.name == "binary":
        model = str(file_format.value("BINARY_FORMAT"))
    if model == "AUTO":
        return f"TO_VARCHAR({column})"
    literal = "'" + model.replace("\\", "\\\\").replace("'", "\\'") + "'"
    return f"TO_VARCHAR({column}, {literal})"


def _order(
    statement: operations.Unload,
    file_format: fileformats.FileFormat,
    folder: Path,
    names: Sequence[str],
    bound: resolve.BoundQuery,
) -> engine.UnloadOrder:
    common: dict[str, Any] = {
        "directory": str(folder),
        "names": tuple(names),
        "single": statement.single,
        "file_size_bytes": statement.max_file_size,
        "is_partitioned": bool(statement.partition),
    }
    value = file_format.value
    if file_format.type == "PARQUET":
        codec = str(value("COMPRESSION"))
        return engine.UnloadOrder(
            form="parquet", compression=PARQUET_CODECS.get(codec, codec.lower()), **common
        )
    compression = _compression(file_format)
    if file_format.type == "JSON":
        return engine.UnloadOrder(form="json", compression=compression, **common)
    nulls = value("NULL_IF")
    return engine.UnloadOrder(
        form="csv",
        compression=compression,
        header=statement.header,
        field=value("FIELD_DELIMITER") or "",
        record=value("RECORD_DELIMITER") or "",
        quote=value("FIELD_OPTIONALLY_ENCLOSED_BY") or "",
        escape=value("ESCAPE") or value("ESCAPE_UNENCLOSED_FIELD") or "",
        null=nulls[0] if nulls else "",
        quoted=tuple(sql_type.name not in ("fixed", "real", "boolean") for sql_type in bound.types),
        **common,
    )


def _compression(file_format: fileformats.FileFormat) -> str:
    word = str(file_format.value("COMPRESSION"))
    word = "GZIP" if word == "AUTO" else word
    if word not in SUFFIXES:
        raise errors.unsupported(f"COPY INTO @stage with COMPRESSION = {word}")
    return word


def _keys(
    execution: planning.Execution,
    statement: operations.Unload,
    file_format: fileformats.FileFormat,
    files: Sequence[engine.WrittenFile],
) -> list[str]:
    """Return the names of the files below their stage; raises SqlError for a bad partition."""
    path = statement.location.path
    if statement.single:
        return [(path + "data" if not path or path.endswith("/") else path)][: len(files)]
    if statement.partition and path and not path.endswith("/"):
        path += "/"
    name = "data" if not path or path.endswith("/") else ""
    if statement.include_query_id:
        name += f"_{execution.query_id}"
    if file_format.type == "PARQUET":
        extension = ".snappy.parquet" if file_format.value("COMPRESSION") == "AUTO" else ".parquet"
    else:
        own = file_format.value("FILE_EXTENSION")
        extension = "." + (own.lstrip(".") if own else file_format.type.lower())
        extension += SUFFIXES[_compression(file_format)]
    return [
        f"{path}{_folder(file, path)}{name}_0_0_{number}{extension}"
        for number, file in enumerate(files)
    ]


def _folder(file: engine.WrittenFile, path: str) -> str:
    """Return the folder of a file's partition, "" without one; raises SqlError."""
    if file.folder is None:
        return "__NULL__/"
    if not file.folder:
        return ""
    segments = file.folder.removesuffix("/").split("/")
    length = len((path + file.folder).encode(errors="replace"))
    is_path = not any(segment in ("", ".", "..") for segment in segments)
    if not is_path or length > limits.STAGE_PATH_BYTES_MAX or staging.UNSAFE.search(file.folder):
        raise errors.invalid_parameter("PARTITION BY", file.folder[:100])
    return "/".join(segments) + "/"


def columns_of(statement: operations.Unload) -> tuple[outcomes.Column, ...]:
    """Return the columns of an answer."""
    columns = (("rows_unloaded", "fixed"), ("input_bytes", "fixed"), ("output_bytes", "fixed"))
    if statement.detailed_output:
        columns = (("FILE_NAME", "text"), ("FILE_SIZE", "fixed"), ("ROW_COUNT", "fixed"))
    return tuple(
        outcomes.Column(name=name, type="fixed", precision=38, scale=0)
        if type_name == "fixed"
        else outcomes.Column(name=name, type="text")
        for name, type_name in columns
    )


def _answer(statement: operations.Unload, unloaded: Sequence[_Unloaded]) -> outcomes.Outcome:
    size_bytes = sum(file.size_bytes for file in unloaded)
    rows: list[tuple[Any, ...]]
    if statement.detailed_output:
        rows = [(file.key, file.size_bytes, file.rows) for file in unloaded]
    else:
        rows = [(sum(file.rows for file in unloaded), size_bytes, size_bytes)]
    return outcomes.Outcome(
        columns=columns_of(statement),
        rows=rows,
        statement_type_id=outcomes.StatementType.UNLOAD,
    )

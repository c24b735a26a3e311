"""engine: staged files as relations of a query.

A statement's staged files are decoded by a worker into a folder of Parquet files, which the engine
reads as a relation, and which is removed when the statement has ended. The serving process opens no
staged file.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from sql import (
    engine,
    errors,
    faults,
    fileformats,
    ipc,
    limits,
    sessions,
    staged_columns,
    stages,
    tabletypes,
)
from sql.dialect import shapes, sqltypes, staged_texts
from storage import disk, links
from storage import errors as storage_errors
from storage import model as storage_model

COLUMNAR = ("PARQUET", "ORC")
"""Formats whose files have columns of their own."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StagedTable:
    """Staged files as a table: what the binder and the engine need of it."""

    columns: tuple[shapes.ShapeColumn, ...]
    relation: engine.Relation

    def shape(self, relation: str) -> shapes.TableShape:
        """Return the table's shape under the name that the engine gives it."""
        return shapes.TableShape(relation=relation, path=("", "", ""), columns=self.columns)

    def named(self, relation: str) -> engine.Relation:
        """Return the table's relation of that name."""
        return dataclasses.replace(self.relation, name=relation)


@dataclass(frozen=True, kw_only=True, slots=True)
class Decoded:
    """Decoded files. report: what was read of each; table: their rows."""

    files: tuple[storage_model.ObjectInfo, ...]
    report: staged_columns.DecodingReport
    table: StagedTable
    folder: Path


@dataclass(frozen=True, kw_only=True, slots=True)
class Opened:
    """A statement's text, and the tables that stand for its staged files."""

    text: str
    tables: Mapping[str, StagedTable]
    folders: tuple[Path, ...] = ()


class StagedReads:
    """Decodes staged files. Stateless."""

    def __init__(
        self,
        *,
        engine: engine.Engine,
        stages: stages.Stages,
        links: links.Links,
        disk: disk.Disk,
        scratch: Path,
        now_ms: storage_model.NowMs,
        new_id: storage_model.NewId,
    ) -> None:
        self._engine = engine
        self._stages = stages
        self._links = links
        self._disk = disk
        self._scratch = scratch
        self._now_ms = now_ms
        self._new_id = new_id

    async def open(
        self, session: sessions.Session, text: str, *, query_id: str, describe_only: bool = False
    ) -> Opened | None:
        """Return the new text and the tables of a text with staged files; None for any other.

        describe_only: the tables have their columns and no rows; at most the schemas of files are
        read. The caller gives the folders to `close`. Raises SqlError, also for a file that is
        damaged.
        """
        if staged_texts.MENTIONS.search(text) is None:
            return None
        if len(text) > limits.TEXT_HERE_LENGTH_MAX:
            staged = await asyncio.to_thread(staged_texts.find, text)
        else:
            staged = staged_texts.find(text)
        if staged is None:
            return None
        tables: dict[str, StagedTable] = {}
        folders: list[Path] = []
        columnar: set[bool] = set()
        try:
            for use in staged.uses:
                stage = self._stages.stage(session, use.location, writes=False)
                file_format = await self._stages.format_in(session, stage, use.file_format)
                if describe_only and (use.infers or _has_listed_columns(file_format)):
                    columnar |= set() if use.infers else {False}
                    tables[use.name] = _described(session, use, file_format, staged, self._scratch)
                    continue
                infos = await self._stages.files(
                    stage, use.location.path, pattern=use.pattern, listed=use.files
                )
                decoded = await self.decode(
                    session,
                    stage,
                    infos,
                    _with_binary(file_format) if use.infers else file_format,
                    query_id=query_id,
                    width=max(staged.width, 1),
                    members=staged.members,
                    documents=staged.wants_document,
                    purpose="infer" if use.infers or describe_only else "decode",
                )
                folders.append(decoded.folder)
                _check_read(stage, decoded)
                if use.infers:
                    tables[use.name] = _schema_table(use, file_format, decoded, stage)
                    continue
                columnar.add(file_format.type in COLUMNAR)
                table = decoded.table
                if describe_only:
                    listed = _columns_of_schema(
                        decoded,
                        is_columnar=file_format.type in COLUMNAR,
                        documents=staged.wants_document,
                    )
                    table = _table(listed, decoded.folder, _zone(session), is_empty=True)
                tables[use.name] = _without_marks(table)
        except BaseException:
            await self.close(folders)
            raise
        if len(columnar) > 1:
            await self.close(folders)
            raise errors.unsupported("files with and without columns in one statement")
        rewritten = staged.rewritten(columnar=True in columnar, as_variants=True)
        return Opened(text=rewritten, tables=tables, folders=tuple(folders))

    async def close(self, folders: Sequence[Path]) -> None:
        """Remove decoded files."""
        for folder in folders:
            await asyncio.shield(asyncio.to_thread(self._disk.remove_tree, folder))

    async def decode(
        self,
        session: sessions.Session,
        stage: stages.Stage,
        infos: Sequence[storage_model.ObjectInfo],
        file_format: fileformats.FileFormat,
        *,
        query_id: str,
        width: int = 0,
        checks_width: bool = False,
        members: Sequence[str] = (),
        documents: bool = False,
        purpose: engine.DecodePurpose = "decode",
    ) -> Decoded:
        """Return files decoded; raises SqlError, EngineFault. The caller removes the folder."""
        folder = self._scratch / self._new_id()
        await asyncio.to_thread(self._disk.make_folder, folder)
        try:
            paths = await asyncio.to_thread(self._paths, infos)
            order = engine.StagedRead(
                files=tuple(
                    engine.StagedFile(
                        path=str(path),
                        name=info.key.removeprefix(stage.prefix),
                        content_key=info.etag,
                        modified_at_ms=info.modified_at_ms,
                    )
                    for info, path in zip(infos, paths, strict=True)
                ),
                format_type=file_format.type,
                options=dict(file_format.options),
                directory=str(folder),
                width=width,
                checks_width=checks_width,
                members=tuple(members),
                documents=documents,
                purpose=purpose,
                now_ms=self._now_ms(),
                zone=_zone(session),
            )
            query = engine.EngineQuery(
                query_id=query_id,
                owner=session.principal.name,
                warehouse=session.warehouse,
                purpose="staged",
                staged=order,
            )
            rows, _ = await engine.collect(await self._engine.run(query))
            packed = rows["report"][0].as_py()
            report = msgspec.msgpack.decode(packed, type=staged_columns.DecodingReport)
            is_empty = purpose == "infer" or not infos
            table = _table(report.columns, folder, _zone(session), is_empty=is_empty)
        except BaseException:
            await self.close((folder,))
            raise
        return Decoded(files=tuple(infos), report=report, table=table, folder=folder)

    def _paths(self, infos: Sequence[storage_model.ObjectInfo]) -> list[Path]:
        try:
            return [self._links.path_of(info) for info in infos]
        except storage_errors.BodyMissing:
            raise errors.staged_file_missing("of the stage") from None


def _zone(session: sessions.Session) -> str:
    return str(session.parameter("TIMEZONE"))


def _with_binary(file_format: fileformats.FileFormat) -> fileformats.FileFormat:
    """Return the format in which INFER_SCHEMA names bytes BINARY, whatever a query reads them as.

    So it is in Snowflake: write_pandas relies on it.
    """
    if file_format.type != "PARQUET":
        return file_format
    options = {**file_format.options, "BINARY_AS_TEXT": False}
    return dataclasses.replace(file_format, options=options)


def _has_listed_columns(file_format: fileformats.FileFormat) -> bool:
    """Return whether the text of a query tells the columns of its files."""
    if file_format.type == "CSV":
        return not file_format.value("PARSE_HEADER")
    return file_format.type not in COLUMNAR


def _described(
    session: sessions.Session,
    use: staged_texts.StagedUse,
    file_format: fileformats.FileFormat,
    staged: staged_texts.StagedText,
    folder: Path,
) -> StagedTable:
    """Return the columns of staged files, none of which is read."""
    if use.infers:
        return _schema_rows([])
    is_text = file_format.type == "CSV"
    columns = [
        staged_columns.DecodedColumn(name=f"${number}", type="string", is_document=not is_text)
        for number in range(1, (max(staged.width, 1) if is_text else 1) + 1)
    ]
    return _without_marks(_table(columns, folder, _zone(session), is_empty=True))


def _columns_of_schema(
    decoded: Decoded, *, is_columnar: bool, documents: bool
) -> list[staged_columns.DecodedColumn]:
    """Return the columns that decoding would give files of which the schema was read."""
    columns = decoded.report.columns
    if not is_columnar:  # text with a header
        return [
            staged_columns.DecodedColumn(name=f"${number}", type="string")
            for number in range(1, len(columns) + 1)
        ]
    listed = [dataclasses.replace(column, name=f"$1:{column.name}") for column in columns]
    if documents:
        listed.append(staged_columns.DecodedColumn(name="$1", type="string", is_document=True))
    return listed


def _without_marks(table: StagedTable) -> StagedTable:
    """Return the table without the columns by which COPY finds files and lines."""
    columns = tuple(column for column in table.columns if column.name[0] != "#")
    return dataclasses.replace(table, columns=columns)


def _table(
    columns: Sequence[staged_columns.DecodedColumn], folder: Path, zone: str, *, is_empty: bool
) -> StagedTable:
    types = {column.name: column.type for column in columns} | staged_columns.EXTRA
    documents = {column.name for column in columns if column.is_document}
    stored = pa.schema(
        [pa.field(name, staged_columns.stored_type(type_name)) for name, type_name in types.items()]
    )
    fields: list[Any] = []
    projection = []
    for name, type_name in types.items():
        quoted = engine.quoted(name)
        if type_name == "timestamptz":
            fields.append(pa.field(name, pa.timestamp("us", zone)))
            quoted = f"arrow_cast({quoted}, 'Timestamp(Microsecond, Some(\"{zone}\"))')"
        else:
            fields.append(pa.field(name, staged_columns.stored_type(type_name)))
        projection.append((name, quoted))
    group = engine.Group(
        directory=str(folder), schema=ipc.encode_schema(stored), projection=tuple(projection)
    )
    return StagedTable(
        columns=tuple(
            shapes.ShapeColumn(
                name=name,
                type=_column_type(type_name, is_document=name in documents),
            )
            for name, type_name in types.items()
        ),
        relation=engine.Relation(
            name="",
            schema=ipc.encode_schema(pa.schema(fields)),
            groups=() if is_empty else (group,),
        ),
    )


def _column_type(type_name: str, *, is_document: bool) -> sqltypes.SqlType:
    if type_name == staged_columns.CANONICAL:
        # Its texts are read as those of a table's column of Iceberg's `variant` are.
        return sqltypes.PACKED_VARIANT
    return tabletypes.sql_type(type_name, "VARIANT" if is_document else None)


def _check_read(stage: stages.Stage, decoded: Decoded) -> None:
    """Raise the SqlError of the first record that a query could not read."""
    for info, report in zip(decoded.files, decoded.report.files, strict=True):
        if report.faults:
            raise fault_error(report.faults[0], stages.shown_name(stage, info))


def fault_error(
    fault: staged_columns.FileFault, file_name: str, *, column: str = ""
) -> errors.SqlError:
    """Return the error of a record that cannot be read."""
    text = f"{fault.message}\n  File '{file_name}', line {fault.line}, character {fault.character}"
    text += f"\n  Row {fault.row}"
    text += f", column {column}" if column else ""
    return faults.of_data(fault.code, text)


INFERRED: tuple[tuple[str, Any], ...] = (
    ("column_name", "string"),
    ("type", "string"),
    ("nullable", "boolean"),
    ("expression", "string"),
    ("filenames", "string"),
    ("order_id", "long"),
)


def _schema_table(
    use: staged_texts.StagedUse,
    file_format: fileformats.FileFormat,
    decoded: Decoded,
    stage: stages.Stage,
) -> StagedTable:
    """Return INFER_SCHEMA's rows: one for each column of the files."""
    rows = []
    file_names = [info.key.removeprefix(stage.prefix) for info in decoded.files]
    for number, column in enumerate(decoded.report.columns):
        shown = shown_type(column)
        name = column.name.upper() if use.ignores_case else column.name
        if file_format.type == "CSV":
            expression = f"${number + 1}::{shown}"
        else:
            expression = f"$1:{column.name}::{shown}"
        rows.append((name, shown, column.nullable, expression, ", ".join(file_names), number))
    return _schema_rows(rows)


def _schema_rows(rows: Sequence[Sequence[Any]]) -> StagedTable:
    schema = pa.schema(
        [pa.field(name, tabletypes.stored_type(type_name)) for name, type_name in INFERRED]
    )
    table = pa.table(
        [
            pa.array([row[index] for row in rows], arrow_field.type)
            for index, arrow_field in enumerate(schema)
        ],
        schema=schema,
    )
    return StagedTable(
        columns=tuple(
            shapes.ShapeColumn(name=name, type=tabletypes.sql_type(type_name))
            for name, type_name in INFERRED
        ),
        relation=engine.Relation(
            name="", schema=ipc.encode_schema(schema), rows=ipc.encode_rows(table)
        ),
    )


def shown_type(column: staged_columns.DecodedColumn) -> str:
    """Return a decoded column's type as INFER_SCHEMA names it."""
    if column.is_document:
        return "VARIANT"
    sql_type = tabletypes.sql_type(column.type)
    if sql_type.name == "text":
        return "TEXT"
    if sql_type.name == "real":
        return "REAL"
    if sql_type.name in ("timestamp_ntz", "timestamp_ltz", "time", "binary"):
        return sql_type.name.upper()
    return sqltypes.shown(sql_type).replace(",", ", ")

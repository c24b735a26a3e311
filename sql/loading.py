"""engine: COPY INTO a table: staged files become data files of one commit.

The files are decoded by a worker (`sql.staged_reads`), then loaded by a query of our own over them,
so their values become the columns' types as INSERT makes them. The commit records which files it
has loaded, in its own transaction, so no file is loaded twice: not by two COPY at one time, and not
by the pipeline. Under CONTINUE and SKIP_FILE the records that do not fit are infos first, by a
query with TRY_CAST.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from catalog import errors as catalog_errors
from catalog import loads, records, rights, tables
from catalog import store as catalog_store
from catalog.metadata import errors as metadata_errors
from sql import (
    compiler,
    defaults,
    engine,
    errors,
    faults,
    fileformats,
    load_history,
    outcomes,
    pinned,
    places,
    planning,
    staged_columns,
    staged_reads,
    stages,
    tabletypes,
    threads,
    transactions,
    writes,
)
from sql.dialect import names, operations, sqltypes, staged_texts
from storage import batch
from storage import model as storage_model

ANSWERED_FILES_MAX: Final = 1_000
ATTEMPTS_MAX: Final = 5
ERRORS_MAX: Final = 10_000
"""Records that VALIDATION_MODE lists."""
VALUE_CHARACTERS_MAX: Final = 100
"""Characters of a value that an error has."""
ADVICE: Final = (
    "\n  If you would like to continue loading when an error is encountered, use other values such"
    " as 'SKIP_FILE' or 'CONTINUE' for the ON_ERROR option. For more information on loading"
    " options, please run 'info loading_data' in a SQL client."
)
ONE_COLUMN: Final = (
    "{type} file format can produce one and only one column of type variant, object, or array."
    " Load data into separate columns using the MATCH_BY_COLUMN_NAME copy option or copy with"
    " transformation."
)

COLUMNS: Final = (
    ("file", "text"),
    ("status", "text"),
    ("rows_parsed", "fixed"),
    ("rows_loaded", "fixed"),
    ("error_limit", "fixed"),
    ("errors_seen", "fixed"),
    ("first_error", "text"),
    ("first_error_line", "fixed"),
    ("first_error_character", "fixed"),
    ("first_error_column_name", "text"),
)
VALIDATION_COLUMNS: Final = (
    ("ERROR", "text"),
    ("FILE", "text"),
    ("LINE", "fixed"),
    ("CHARACTER", "fixed"),
    ("BYTE_OFFSET", "fixed"),
    ("CATEGORY", "text"),
    ("CODE", "fixed"),
    ("SQL_STATE", "text"),
    ("COLUMN_NAME", "text"),
    ("ROW_NUMBER", "fixed"),
    ("ROW_START_LINE", "fixed"),
    ("REJECTED_RECORD", "text"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Fault:
    """A record of a file that cannot be loaded. column: as messages name it.

    is_parsed: its values do not fit; else it could not be read at all.
    """

    message: str
    code: str
    sqlstate: str
    line: int
    character: int
    row: int
    column: str = ""
    is_parsed: bool = False


@dataclass(kw_only=True, slots=True)
class _File:
    """A file of a COPY while it is loaded. Mutable."""

    info: storage_model.ObjectInfo
    name: str
    report: staged_columns.FileReport
    bad: int = 0
    first: _Fault | None = None
    is_skipped: bool = False

    @property
    def faults(self) -> int:
        return self.report.faults_count + self.bad

    @property
    def loaded(self) -> int:
        return 0 if self.is_skipped else self.report.rows - self.bad

    def row(self, on_error: str) -> tuple[Any, ...]:
        """Return COPY's answer for the file."""
        parsed, seen = max(self.report.parsed, self.report.rows), self.faults
        failed = "PARTIALLY_LOADED" if self.loaded else "LOAD_FAILED"
        status = failed if seen else "LOADED"
        first = self.first
        return (
            self.name,
            status,
            parsed,
            self.loaded,
            _error_limit(on_error, parsed),
            seen,
            *(
                (None,) * 4
                if first is None
                else (first.message, first.line, first.character, first.column or None)
            ),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Column:
    """A column that is loaded. value: its expression, in SQL. attempt: NULL where value fails.

    source: the text that it is made of; "" if there is none that can fail.
    """

    name: str
    value: str
    attempt: str = ""
    source: str = ""
    length: int | None = None
    required: bool = False
    sql_type: sqltypes.SqlType = sqltypes.TEXT


@dataclass(frozen=True, kw_only=True, slots=True)
class _Load:
    """One COPY: its target and its files' place and format. quoted_ids: of the table's columns."""

    statement: operations.CopyInto
    loaded: tables.LoadedTable
    fields: Sequence[Mapping[str, Any]]
    target: writes.WriteTarget
    stage: stages.Stage
    path: str
    file_format: fileformats.FileFormat
    quoted_ids: frozenset[int] = frozenset()
    transform: staged_texts.StagedText | None = None
    pattern: str | None = field(default=None)


class Loading:
    """Runs COPY INTO a table. Stateless."""

    def __init__(
        self,
        *,
        engine: engine.Engine,
        compiler: compiler.Compiler,
        store: catalog_store.CatalogStore,
        places: places.Places,
        planning: planning.Planning,
        defaults: defaults.Defaults,
        stages: stages.Stages,
        reads: staged_reads.StagedReads,
        writes: writes.Writes,
        transactions: transactions.Transactions,
    ) -> None:
        self._engine = engine
        self._compiler = compiler
        self._store = store
        self._places = places
        self._planning = planning
        self._defaults = defaults
        self._stages = stages
        self._reads = reads
        self._writes = writes
        self._transactions = transactions

    async def copy(
        self, execution: planning.Execution, statement: operations.CopyInto
    ) -> outcomes.Outcome:
        """Load staged files into a table; raises SqlError."""
        for attempt in range(1, ATTEMPTS_MAX + 1):
            try:
                return await self._copy(execution, statement)
            except (catalog_errors.LoadAlreadyTaken, metadata_errors.ColumnsDiffer):
                # Another COPY has loaded some of the files meanwhile, or another writer has changed
                # the table's columns: look again.
                if attempt == ATTEMPTS_MAX:
                    raise
        raise AssertionError("the last attempt returns or raises")

    async def _copy(
        self, execution: planning.Execution, statement: operations.CopyInto
    ) -> outcomes.Outcome:
        load = await self._load(execution, statement)
        answered = _answered(load.loaded, execution.query_id)
        if answered is not None:  # the client did not get the first request's answer
            return answered
        if self._transactions.is_kept_as_nothing(execution, load.loaded.ident):
            return _nothing()
        infos = await self._files(load)
        taken = await self._taken(execution, load, infos)
        takes_all = statement.force or statement.validation_mode == "RETURN_ALL_ERRORS"
        wanted = [info for info in infos if takes_all or info.key not in taken]
        wanted = _limited(wanted, statement.size_limit)
        if not wanted:
            await self._transactions.keep_nothing(execution, load.loaded.ident)
            return _nothing()
        if statement.purge:
            self._transactions.check_may_purge(execution, len(wanted))
        decoded = await self._decoded(execution, load, wanted)
        try:
            return await self._loaded(execution, load, decoded, taken)
        finally:
            await self._reads.close((decoded.folder,))

    async def _load(self, execution: planning.Execution, statement: operations.CopyInto) -> _Load:
        session = execution.session
        with self._places.view_of(session) as catalog:
            table = catalog.table(
                statement.name,
                database=session.database,
                schema=session.schema,
                exactly=True,
                actions=rights.COMMIT_ACTIONS,
            )
        loaded = await self._transactions.table(session, table.ident, table.pointer)
        self._transactions.check_may_write(session, table.ident)
        width = len(loaded.metadata.current_schema()["fields"])
        written, fields = await threads.for_columns(
            width, writes.fields_for, loaded, statement.columns
        )
        for column in fields:
            if isinstance(column["type"], dict):
                raise errors.unsupported(f"COPY into column {column['name']} of a nested type")
        transform = None
        location = statement.location
        clause, pattern = statement.file_format, statement.pattern
        if statement.query:
            transform = staged_texts.find(statement.query)
            if transform is None or len(transform.uses) != 1 or transform.uses[0].infers:
                raise errors.unsupported("COPY INTO ... FROM a query of other than one stage")
            use = transform.uses[0]
            location = use.location
            clause = clause if clause.name or clause.options else use.file_format
            pattern = pattern or use.pattern
            if statement.match_by_name:
                raise errors.unsupported("MATCH_BY_COLUMN_NAME with a transformation")
            if statement.validation_mode:
                raise errors.unsupported("VALIDATION_MODE with a query")
        assert location is not None
        stage = self._stages.stage(session, location, writes=statement.purge)
        own_format = fileformats.of_table(loaded.metadata.properties)
        file_format = await self._stages.format_in(session, stage, clause, target=own_format)
        target = writes.WriteTarget(
            loaded=loaded,
            fields=tuple(written),
            judge=self._places.judge(session.principal, rights.COMMIT_ACTIONS),
        )
        return _Load(
            statement=statement,
            loaded=loaded,
            fields=fields,
            target=target,
            stage=stage,
            path=location.path,
            file_format=file_format,
            quoted_ids=tabletypes.quoted_ids(loaded.metadata.properties),
            transform=transform,
            pattern=pattern,
        )

    async def _files(self, load: _Load) -> list[storage_model.ObjectInfo]:
        return await self._stages.files(
            load.stage, load.path, pattern=load.pattern, listed=load.statement.files
        )

    async def _taken(
        self,
        execution: planning.Execution,
        load: _Load,
        infos: Sequence[storage_model.ObjectInfo],
    ) -> set[str]:
        """Return the keys of the files that the table has loaded, in this transaction or before."""
        ident, object_uuid = load.loaded.ident, load.loaded.pointer.object_uuid
        place = self._store.place(ident.table_bucket)
        taken: set[str] = set()
        with self._store.index.view() as view:
            unwritten = loads.unwritten(view, place.bucket_id, object_uuid)
            for info in infos:
                key = records.load_key(place.bucket_id, object_uuid, _source(info), info.etag)
                packed = unwritten is not None and key in unwritten.keys
                # Rows before a load that replaces them are forgotten, though not yet removed.
                forgets = unwritten is not None and unwritten.replacing
                if packed or (not forgets and view.get(batch.Store.LOADS, key) is not None):
                    taken.add(info.key)
        transaction = execution.transaction
        if isinstance(transaction, transactions.Transaction) and ident in transaction.pending:
            held: set[tuple[str, str]] = set()
            for change in transaction.pending[ident].changes:
                if change.summary.get(loads.MODE_KEY) == "replace":
                    taken.clear()
                    held.clear()
                listed = json.loads(change.summary.get(loads.SUMMARY_KEY, "[]"))
                held.update((item["source"], item["etag"]) for item in listed)
            taken |= {info.key for info in infos if (_source(info), info.etag) in held}
        return taken

    async def _decoded(
        self,
        execution: planning.Execution,
        load: _Load,
        wanted: Sequence[storage_model.ObjectInfo],
    ) -> staged_reads.Decoded:
        columnar = load.file_format.type in staged_reads.COLUMNAR
        transform = load.transform
        matches = bool(load.statement.match_by_name)
        is_plain = transform is None and not matches
        return await self._reads.decode(
            execution.session,
            load.stage,
            wanted,
            load.file_format,
            query_id=execution.query_id,
            width=max(transform.width, 1) if transform else len(load.fields) if is_plain else 0,
            checks_width=is_plain,
            members=transform.members if transform else (),
            documents=columnar and (transform.wants_document if transform else is_plain),
        )

    async def _loaded(
        self,
        execution: planning.Execution,
        load: _Load,
        decoded: staged_reads.Decoded,
        taken: set[str],
    ) -> outcomes.Outcome:
        statement = load.statement
        files = [
            _File(info=info, name=stages.shown_name(load.stage, info), report=report)
            for info, report in zip(decoded.files, decoded.report.files, strict=True)
        ]
        for file in files:
            if file.report.faults:
                fault = file.report.faults[0]
                file.first = _fault_of(fault, _column_name(load, fault.column))
        columns = [] if load.transform else _columns(load, decoded)
        is_broken = any(file.first is not None for file in files)
        finds = statement.on_error != "ABORT_STATEMENT" or statement.validation_mode or is_broken
        if finds and columns:
            await self._find_bad(execution, load, decoded, files, columns)
        if statement.validation_mode:
            return await self._validated(execution, load, decoded, files, columns)
        if statement.on_error == "ABORT_STATEMENT":
            for file in files:
                if file.first is not None:
                    raise _abort(file, file.first)
        for file in files:
            file.is_skipped = _is_skipped(file, statement.on_error)
        text = _text(load, decoded, files, columns)
        try:
            staged = await self._staged(execution, load, decoded, text)
        except engine.EngineFault as fault:
            # Otherwise the records that are known to be bad are left out already.
            aborts = statement.on_error == "ABORT_STATEMENT"
            if fault.cause == "value" and columns and aborts:
                await self._find_bad(execution, load, decoded, files, columns)
                first = next((file for file in files if file.first is not None), None)
                if first is not None and first.first is not None:
                    raise _abort(first, first.first) from None
            error = faults.of_engine(fault, query_id=execution.query_id)
            if fault.cause == "value" and load.transform and statement.on_error == "CONTINUE":
                # Which rows of a query fail is not known, so none can be left out.
                raise errors.unsupported(
                    "ON_ERROR = CONTINUE with a query, one of whose values does not fit"
                    f" ({error.message[:200]})"
                ) from fault
            raise error from fault
        answer = _answer(files, statement)
        sources = [
            {"source": _source(file.info), "etag": file.info.etag}
            for file in files
            if not file.is_skipped
            and (file.loaded or not file.faults)
            and file.info.key not in taken
        ]
        summary = {loads.SUMMARY_KEY: json.dumps(sources)} if sources else {}
        if len(files) <= ANSWERED_FILES_MAX:
            summary[load_history.ANSWER] = json.dumps([list(row) for row in answer])
        if staged.files or sources:
            staged = dataclasses.replace(staged, summary=summary)
            await self._transactions.keep(execution, staged)
        purged = [file.info for file in files if statement.purge and not file.faults]
        if purged:
            await self._transactions.purge(
                execution, len(purged), functools.partial(self._stages.purge, load.stage, purged)
            )
        return _outcome(answer, rows=staged.rows)

    async def _staged(
        self,
        execution: planning.Execution,
        load: _Load,
        decoded: staged_reads.Decoded,
        text: str,
    ) -> writes.Staged:
        """Write the rows of a text over the decoded files as files of the table."""
        part = await self._part(execution, decoded, text)
        try:
            _, query_names = await self._planning.look_up(part, lambda _: None)
            fill = self._defaults.filling(part, load.loaded, load.fields)
            _, query = await self._planning.bound_into(
                part, query_names, load.loaded, load.fields, load.target, fill
            )
        finally:
            await part.compiled.close()
        staged = await self._writes.stage(query, load.target, by=execution.by, names_at_commit=True)
        if fill is not None:
            try:
                fill.check_rows(staged.rows)
            except errors.SqlError:
                await self._writes.discard(staged)
                raise
        return staged

    async def _rows(
        self, execution: planning.Execution, decoded: staged_reads.Decoded, text: str
    ) -> list[dict[str, Any]]:
        """Return the rows of a text over the decoded files."""
        part = await self._part(execution, decoded, text)
        try:
            bound, query_tables = await self._planning.bound(part)
            query = await self._planning.query(part, bound, query_tables)
        finally:
            await part.compiled.close()
        table, _ = await engine.collect(await self._engine.run(query))
        columns = [column.to_pylist() for column in table.columns]
        shown = [column.name.lower() for column in bound.columns]
        return [dict(zip(shown, row, strict=True)) for row in zip(*columns, strict=True)]

    async def _part(
        self, execution: planning.Execution, decoded: staged_reads.Decoded, text: str
    ) -> planning.Execution:
        compiled = await self._compiler.compile(text, owner=execution.session.principal.name)
        return dataclasses.replace(
            execution, compiled=compiled, bindings={}, staged={"@0": decoded.table}
        )

    async def _find_bad(
        self,
        execution: planning.Execution,
        load: _Load,
        decoded: staged_reads.Decoded,
        files: Sequence[_File],
        columns: Sequence[_Column],
    ) -> None:
        """Count the records of each file that do not fit, and describe its first one."""
        records = _bad_records(columns)
        if records is None:
            return
        # Aggregates, and no window: memory holds a record of each file, not all bad records.
        firsts = ", ".join(f"MIN_BY({name}, r) AS {name}" for name in ("l", "bad", "v"))
        text = f"SELECT f, COUNT(*) AS n, MIN(r) AS r, {firsts} FROM ({records}) GROUP BY f"
        for row in await self._rows(execution, decoded, text):
            file = files[int(row["f"])]
            file.bad = int(row["n"])
            if file.first is None or int(row["r"]) < file.first.row:
                file.first = _fault_of_row(load, columns, row)

    async def _validated(
        self,
        execution: planning.Execution,
        load: _Load,
        decoded: staged_reads.Decoded,
        files: Sequence[_File],
        columns: Sequence[_Column],
    ) -> outcomes.Outcome:
        """Return VALIDATION_MODE's rows; nothing is loaded."""
        mode = load.statement.validation_mode
        if mode in ("RETURN_ERRORS", "RETURN_ALL_ERRORS"):
            rows = await self._error_rows(execution, load, decoded, files, columns)
            if not rows:
                await self._check_values(execution, decoded, columns)
            return outcomes.Outcome(
                columns=_typed(VALIDATION_COLUMNS),
                rows=rows,
                statement_type_id=outcomes.StatementType.COPY,
            )
        count = int(mode.split("_")[1])
        before = 0
        for file in files:
            if file.first is not None and before + file.first.row <= count:
                raise _abort(file, file.first)
            before += max(file.report.parsed, file.report.rows)
        shown = ", ".join(
            f"CAST(CAST({column.value} AS {sqltypes.cast_name(column.sql_type)}) AS VARCHAR)"
            f" AS {names.quoted(column.name)}"
            for column in columns
        )
        order = 'ORDER BY "#file", metadata$file_row_number'
        first = f'SELECT * FROM "@0" {order} LIMIT {count}'
        rows_found = await self._rows(execution, decoded, f"SELECT {shown} FROM ({first}) {order}")
        return outcomes.Outcome(
            columns=tuple(outcomes.Column(name=column.name, type="text") for column in columns),
            rows=[
                tuple(None if value is None else str(value) for value in row.values())
                for row in rows_found
            ],
            statement_type_id=outcomes.StatementType.COPY,
        )

    async def _check_values(
        self,
        execution: planning.Execution,
        decoded: staged_reads.Decoded,
        columns: Sequence[_Column],
    ) -> None:
        """Compute the values that `_bad_records` does not try; raises what COPY would raise."""
        counts = [
            f"COUNT({column.value}) AS {names.quoted(f'C{number}')}"
            for number, column in enumerate(columns)
            if not column.attempt and column.value != column.source
        ]
        if counts:
            await self._rows(execution, decoded, f'SELECT {", ".join(counts)} FROM "@0"')

    async def _error_rows(
        self,
        execution: planning.Execution,
        load: _Load,
        decoded: staged_reads.Decoded,
        files: Sequence[_File],
        columns: Sequence[_Column],
    ) -> list[tuple[Any, ...]]:
        """Return the records that cannot be loaded, as VALIDATION_MODE lists them."""
        broken = [
            (number, _fault_of(fault, _column_name(load, fault.column)))
            for number, file in enumerate(files)
            for fault in file.report.faults
        ]
        records = _bad_records(columns)
        if records is not None and any(file.bad for file in files):
            text = f"SELECT * FROM ({records}) ORDER BY f, r LIMIT {ERRORS_MAX}"
            broken += [
                (int(row["f"]), _fault_of_row(load, columns, row))
                for row in await self._rows(execution, decoded, text)
            ]
        broken.sort(key=lambda each: (each[0], each[1].row))
        return [
            (
                fault.message,
                files[number].name,
                fault.line,
                fault.character,
                None,
                "conversion" if fault.is_parsed else "parsing",
                int(fault.code),
                fault.sqlstate,
                fault.column or None,
                fault.row,
                fault.line,
                None,
            )
            for number, fault in broken[:ERRORS_MAX]
        ]


# The query of a load


def _text(
    load: _Load,
    decoded: staged_reads.Decoded,
    files: Sequence[_File],
    columns: Sequence[_Column],
) -> str:
    skipped = [str(number) for number, file in enumerate(files) if file.is_skipped]
    if load.transform is not None:
        columnar = load.file_format.type in staged_reads.COLUMNAR
        text = load.transform.rewritten(columnar=columnar, as_variants=False)
        if skipped:
            inner = f'(SELECT * FROM "@0" WHERE "#file" NOT IN ({", ".join(skipped)}))'
            text = text.replace('"@0"', inner, 1)
        return text
    conditions = []
    if skipped:
        conditions.append(f'"#file" NOT IN ({", ".join(skipped)})')
    if any(file.bad and not file.is_skipped for file in files):
        conditions.append(f"{_bad_column(columns)} = 0")
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return f'SELECT {", ".join(column.value for column in columns)} FROM "@0"{where}'


def _bad_records(columns: Sequence[_Column]) -> str | None:
    """Return a query of the records whose values do not fit; None if all values do.

    Of each: f, l and r, its file, line and number; bad, which of the columns it does not fit, from
    1; v, the beginning of the value.
    """
    which = _bad_column(columns)
    if which is None:
        return None
    values = " ".join(
        f"WHEN {number} THEN LEFT({column.source}, {VALUE_CHARACTERS_MAX})"
        for number, column in enumerate(columns, start=1)
        if column.source
    )
    value = f"CASE bad {values} END" if values else "NULL"
    return (
        f'SELECT "#file" AS f, "#line" AS l, r, bad, {value} AS v FROM'
        f' (SELECT *, metadata$file_row_number AS r, {which} AS bad FROM "@0") WHERE bad > 0'
    )


def _bad_column(columns: Sequence[_Column]) -> str | None:
    """Return an expression: the number of the first column whose value does not fit, or 0."""
    cases = []
    for number, column in enumerate(columns, start=1):
        tests = []
        if column.attempt:
            tests.append(f"({column.source} IS NOT NULL AND {column.attempt} IS NULL)")
        if column.length is not None and column.source:
            tests.append(f"LENGTH({column.source}) > {column.length}")
        if column.required:
            tests.append(f"{column.attempt or column.value} IS NULL")
        if tests:
            cases.append(f"WHEN {' OR '.join(tests)} THEN {number}")
    return f"(CASE {' '.join(cases)} ELSE 0 END)" if cases else None


def _columns(load: _Load, decoded: staged_reads.Decoded) -> list[_Column]:
    """Return how each column of the table is made of the files' columns; raises SqlError."""
    declared = tabletypes.declared_types(load.loaded.metadata.properties)
    targets = [
        (each, tabletypes.sql_type(each["type"], declared.get(each["id"]))) for each in load.fields
    ]
    match load.file_format.type:
        case "CSV":
            return _columns_of_text(load, decoded, targets)
        case "PARQUET" | "ORC":
            return _columns_of_files(load, decoded, targets)
    return _columns_of_documents(load, targets)


def _columns_of_text(
    load: _Load,
    decoded: staged_reads.Decoded,
    targets: Sequence[tuple[Mapping[str, Any], sqltypes.SqlType]],
) -> list[_Column]:
    positions: list[int | None] = list(range(len(targets)))
    if load.statement.match_by_name:
        if not load.file_format.value("PARSE_HEADER"):
            raise errors.unsupported("MATCH_BY_COLUMN_NAME for CSV without PARSE_HEADER")
        headers = {tuple(report.header) for report in decoded.report.files if report.header}
        if len(headers) > 1:
            raise errors.unsupported("MATCH_BY_COLUMN_NAME for files of several headers")
        header = list(next(iter(headers), ()))
        positions = [_position(load, each, header) for each, _ in targets]
    columns = []
    for (each, sql_type), position in zip(targets, positions, strict=True):
        if position is None:
            shown, required = _shown(load, each), bool(each["required"])
            columns.append(_Column(name=shown, value="NULL", required=required))
            continue
        source = names.quoted(f"${position + 1}")
        columns.append(_of_text(load, each, sql_type, source))
    return columns


def _of_text(
    load: _Load, target: Mapping[str, Any], sql_type: sqltypes.SqlType, source: str
) -> _Column:
    shown = sqltypes.cast_name(sql_type)
    value, attempt, length = source, f"TRY_CAST({source} AS {shown})", None
    model = None
    if load.file_format.type in ("CSV", "JSON"):
        option = {"date": "DATE_FORMAT", "time": "TIME_FORMAT"}.get(sql_type.name)
        if sql_type.name.startswith("timestamp"):
            option = "TIMESTAMP_FORMAT"
        model = load.file_format.value(option) if option else None
    if model not in (None, "AUTO"):
        word = sql_type.name.upper()
        literal = _quoted(str(model))
        value = f"TO_{word}({source}, {literal})"
        attempt = f"TRY_TO_{word}({source}, {literal})"
    elif sql_type.name == "binary":
        form = "HEX"
        if load.file_format.type in ("CSV", "JSON"):
            form = str(load.file_format.value("BINARY_FORMAT"))
        value = f"TO_BINARY({source}, '{form}')"
        attempt = f"TRY_TO_BINARY({source}, '{form}')"
    elif sql_type.name == "text":
        attempt, length = "", sql_type.length
        if load.statement.truncate_columns and length is not None:
            value, length = f"LEFT({source}, {length})", None
    elif sql_type.is_variant:
        word = {"array": "TO_ARRAY", "object": "PARSE_JSON"}.get(sql_type.name, "TO_VARIANT")
        value, attempt = f"{word}({source})", ""
        if sql_type.name == "object":
            value = f"TO_OBJECT(PARSE_JSON({source}))"
    return _Column(
        name=_shown(load, target),
        value=value,
        attempt=attempt,
        source=source,
        length=length,
        required=bool(target["required"]),
        sql_type=sql_type,
    )


def _columns_of_files(
    load: _Load,
    decoded: staged_reads.Decoded,
    targets: Sequence[tuple[Mapping[str, Any], sqltypes.SqlType]],
) -> list[_Column]:
    if not load.statement.match_by_name:
        return _one_document(load, targets)
    by_name = {
        column.name.removeprefix("$1:"): column
        for column in decoded.report.columns
        if column.name.startswith("$1:")
    }
    listed = list(by_name)
    columns = []
    for each, sql_type in targets:
        position = _position(load, each, listed)
        shown = _shown(load, each)
        if position is None:
            columns.append(_Column(name=shown, value="NULL", required=bool(each["required"])))
            continue
        column = by_name[listed[position]]
        source = names.quoted(column.name)
        if column.type == "string" and not column.is_document:
            columns.append(_of_text(load, each, sql_type, source))
            continue
        value = f"CAST({source} AS {sqltypes.cast_name(sql_type)})"
        columns.append(_Column(name=shown, value=value, required=bool(each["required"])))
    return columns


def _columns_of_documents(
    load: _Load, targets: Sequence[tuple[Mapping[str, Any], sqltypes.SqlType]]
) -> list[_Column]:
    if not load.statement.match_by_name:
        return _one_document(load, targets)
    columns = []
    for each, sql_type in targets:
        name = _shown(load, each).replace("\\", "\\\\").replace("'", "\\'")
        word = "GET" if load.statement.match_by_name == "CASE_SENSITIVE" else "GET_IGNORE_CASE"
        member = f"{word}(\"$1\", '{name}')"
        if sql_type.is_variant:
            shown = _shown(load, each)
            columns.append(_Column(name=shown, value=member, required=bool(each["required"])))
            continue
        columns.append(_of_text(load, each, sql_type, _member_text(load, member)))
    return columns


def _member_text(load: _Load, member: str) -> str:
    """Return a member of a document as a text, by TRIM_SPACE and NULL_IF, in SQL."""
    text = f"CAST({member} AS VARCHAR)"
    if load.file_format.value("TRIM_SPACE"):
        text = f"TRIM({text}, ' \\t\\r\\n')"
    nulls = ", ".join(map(_quoted, load.file_format.value("NULL_IF")))
    return f"CASE WHEN {text} IN ({nulls}) THEN NULL ELSE {text} END" if nulls else text


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _one_document(
    load: _Load, targets: Sequence[tuple[Mapping[str, Any], sqltypes.SqlType]]
) -> list[_Column]:
    if len(targets) != 1 or not targets[0][1].is_variant:
        raise errors.copy_of_documents(ONE_COLUMN.format(type=load.file_format.type))
    each, sql_type = targets[0]
    value = f'CAST("$1" AS {sqltypes.shown(sql_type)})'
    return [_Column(name=_shown(load, each), value=value)]


def _position(load: _Load, column: Mapping[str, Any], listed: Sequence[str]) -> int | None:
    """Return the position of a table's column among a file's; None if the file lacks it."""
    shown = _shown(load, column)
    if load.statement.match_by_name == "CASE_SENSITIVE":
        return listed.index(shown) if shown in listed else None
    folded = [name.upper() for name in listed]
    return folded.index(shown.upper()) if shown.upper() in folded else None


def _shown(load: _Load, column: Mapping[str, Any]) -> str:
    """Return a column's name as listings show it: in lower case if it was declared so in quotes."""
    name = str(column["name"])
    return name if column["id"] in load.quoted_ids else names.shown(name)


# Faults and answers


def _fault_of(fault: staged_columns.FileFault, column: str) -> _Fault:
    error = faults.of_data(fault.code, fault.message)
    return _Fault(
        message=error.message,
        code=error.code,
        sqlstate=error.sqlstate,
        line=fault.line,
        character=fault.character,
        row=fault.row,
        column=column,
    )


def _fault_of_row(load: _Load, columns: Sequence[_Column], row: Mapping[str, Any]) -> _Fault:
    """Return the fault of a record of `_bad_records`."""
    number = int(row["bad"])
    error = _value_error(columns[number - 1], row["v"])
    return _Fault(
        message=error.message,
        code=error.code,
        sqlstate=error.sqlstate,
        line=int(row["l"]),
        character=1,
        row=int(row["r"]),
        column=_column_name(load, number - 1),
        is_parsed=True,
    )


def _column_name(load: _Load, index: int) -> str:
    """Return a column as messages of COPY name it: `"T"["A":1]`."""
    if index >= len(load.fields):
        return ""
    table = names.shown(load.loaded.ident.name)
    column = _shown(load, load.fields[index])
    return f'"{table}"["{column}":{index + 1}]'


def _value_error(column: _Column, value: Any) -> errors.SqlError:
    """Return the error of a text that does not fit a column."""
    text = "" if value is None else str(value)
    if value is None:
        return errors.null_into_not_null(column.name)
    match column.sql_type.name:
        case "text":
            return errors.too_long(text)
        case "fixed" | "real":
            if column.sql_type.name == "fixed" and NUMBER.fullmatch(text.strip()):
                return errors.number_out_of_range(text)
            return errors.bad_number(text)
        case "boolean":
            return errors.SqlError("100037", "22018", f"Boolean value '{text}' is not recognized")
        case "date":
            return errors.bad_timestamp(text, "Date")
        case "time":
            return errors.bad_timestamp(text, "Time")
        case "binary":
            return errors.SqlError(
                "100115",
                "22000",
                f"The following string is not a legal hex-encoded value: '{text}'",
            )
    return errors.bad_timestamp(text)


def _abort(file: _File, fault: _Fault) -> errors.SqlError:
    text = f"{fault.message}\n  File '{file.name}', line {fault.line}, character {fault.character}"
    text += f"\n  Row {fault.row}" + (f", column {fault.column}" if fault.column else "")
    return errors.SqlError(fault.code, fault.sqlstate, text + ADVICE)


def _is_skipped(file: _File, on_error: str) -> bool:
    if not file.faults:
        return False
    if on_error == "CONTINUE":
        return False
    limit = on_error.removeprefix("SKIP_FILE").removeprefix("_")
    if not limit:
        return True
    if limit.endswith("%"):
        return file.faults * 100 >= int(limit[:-1]) * max(file.report.parsed, 1)
    return file.faults >= int(limit)


def _error_limit(on_error: str, parsed: int) -> int:
    if on_error == "CONTINUE":
        return parsed
    limit = on_error.removeprefix("SKIP_FILE").removeprefix("_")
    if limit.isdecimal():
        return int(limit)
    if limit.endswith("%") and limit[:-1].isdecimal():
        return max(1, parsed * int(limit[:-1]) // 100)
    return 1


def _answer(files: Sequence[_File], statement: operations.CopyInto) -> list[tuple[Any, ...]]:
    rows = [file.row(statement.on_error) for file in files]
    if statement.return_failed_only:
        rows = [row for row in rows if row[5]]
    return rows


def columns_of(statement: operations.CopyInto) -> tuple[outcomes.Column, ...]:
    """Return the columns of an answer; raises SqlError if the files say which they are."""
    if statement.validation_mode.endswith("_ROWS"):
        raise errors.unsupported("a describe of COPY with VALIDATION_MODE = RETURN_n_ROWS")
    return _typed(VALIDATION_COLUMNS if statement.validation_mode else COLUMNS)


def _outcome(answer: Sequence[Sequence[Any]], *, rows: int) -> outcomes.Outcome:
    return outcomes.Outcome(
        columns=_typed(COLUMNS),
        rows=[tuple(row) for row in answer],
        statement_type_id=outcomes.StatementType.COPY,
        stats=outcomes.Stats(rows_inserted=rows),
    )


def _typed(columns: Sequence[tuple[str, str]]) -> tuple[outcomes.Column, ...]:
    return tuple(
        outcomes.Column(name=name, type="fixed", precision=38, scale=0)
        if type_name == "fixed"
        else outcomes.Column(name=name, type="text")
        for name, type_name in columns
    )


def _nothing() -> outcomes.Outcome:
    return outcomes.status(
        "Copy executed with 0 files processed.",
        outcomes.StatementType.COPY,
        stats=outcomes.Stats(),
    )


def _answered(loaded: tables.LoadedTable, query_id: str) -> outcomes.Outcome | None:
    """Return the answer of a COPY that is committed already."""
    rows = writes.rows_committed(loaded, query_id)
    if rows is None:
        return None
    for snapshot_id in reversed(tuple(loaded.metadata.snapshots.ids)):
        summary = (loaded.metadata.snapshots.get(snapshot_id) or {}).get("summary") or {}
        if summary.get(pinned.QUERY_ID) == query_id and load_history.ANSWER in summary:
            return _outcome(json.loads(summary[load_history.ANSWER]), rows=rows)
    return _outcome([], rows=rows)


def _limited(
    infos: Sequence[storage_model.ObjectInfo], size_limit: int
) -> list[storage_model.ObjectInfo]:
    """Return files until their sizes exceed SIZE_LIMIT; at least one."""
    if not size_limit:
        return list(infos)
    wanted, total = [], 0
    for info in infos:
        if total >= size_limit:
            break
        wanted.append(info)
        total += info.size_bytes
    return wanted


def _source(info: storage_model.ObjectInfo) -> str:
    return f"s3://{info.bucket}/{info.key}"


NUMBER: Final = re.compile(r"[+-]?[0-9]+(?:\.[0-9]*)?")

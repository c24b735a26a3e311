"""engine: DELETE, UPDATE and MERGE of a table, in one commit.

The statement's SELECT (`sql.dialect.changes`) runs first. Its rows are the changes; the engine
writes them to a file in `tmp/`. A second query counts them by data file. Data files whose rows are
all deleted leave the table unread. A third query writes the other rows of the changed files, joined
with the changes by number of row, and the inserted rows, as new data files. Then one commit removes
the changed files and adds the new ones. Where a property of the table asks for merge-on-read, the
changed files stay: the third query writes only updated and inserted rows, and delete files
(`sql.marks`) name the changed rows.

Changes of one table run one after the other, as Snowflake's lock has them do. Rows that other
writers append meanwhile are not seen, and stay; after any other commit to the table the statement
runs again on the new snapshot, a bounded number of times.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import weakref
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from catalog import commits, manifests, rights, scans, tables
from catalog.metadata import errors as metadata_errors
from sql import (
    column_defaults,
    defaults,
    engine,
    errors,
    filecolumns,
    ipc,
    limits,
    marks,
    offsets,
    outcomes,
    pinned,
    places,
    planning,
    relations,
    tabletypes,
    threads,
    transactions,
    writes,
    zoned_kernels,
)
from sql.dialect import operations, resolve, shapes, sqltypes
from storage import disk
from storage import model as storage_model

CHANGES: Final = "changes"
"""The name of the relation of the changes."""
TARGET: Final = "changed table"
"""The name of the relation of the changed files' rows."""
FILES: Final = "changed files"
"""The name of the relation of the changed files themselves."""
NTH_INSERTED: Final = '"c"."nth inserted"'
"""The number of an inserted row, from 1, where defaults need it."""

STATEMENT_TYPES: Final = {
    "delete": outcomes.StatementType.DELETE,
    "update": outcomes.StatementType.UPDATE,
    "merge": outcomes.StatementType.MERGE,
}

COUNTED: Final = {
    "inserted": "boathouse.rows-inserted",
    "updated": "boathouse.rows-updated",
    "multi_joined": "boathouse.rows-multi-joined",
    "deleted": "boathouse.rows-deleted",
}
"""Keys of a snapshot's summary: the answer of the statement that committed it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Counts:
    """How many rows a statement changed. multi_joined: those that several source rows match."""

    inserted: int = 0
    updated: int = 0
    multi_joined: int = 0
    deleted: int = 0

    @property
    def summary(self) -> Mapping[str, str]:
        """The counts as fields of a snapshot's summary."""
        return {key: str(getattr(self, name)) for name, key in COUNTED.items()}


@dataclass(frozen=True, kw_only=True, slots=True)
class _Plan:
    """A change, bound to one snapshot of its table.

    fields: the table's. assigned: of each clause, by field id, the index of the value; None for the
    column's default. defaults: those that Iceberg cannot hold, with their fields. use: the index of
    the target among the tables.
    """

    statement: operations.ChangeRows
    table: pinned.PinnedTable
    query_tables: planning.QueryTables
    use: int
    fields: tuple[Mapping[str, Any], ...]
    assigned: tuple[Mapping[int, int | None], ...]
    defaults: tuple[tuple[Mapping[str, Any], column_defaults.Default], ...]

    @property
    def loaded(self) -> tables.LoadedTable:
        return self.table.loaded

    @property
    def changed(self) -> list[Mapping[str, Any]]:
        """The fields that some clause gives a value."""
        ids = {
            field_id
            for values in self.assigned
            for field_id, value in values.items()
            if value is not None
        }
        return [field for field in self.fields if field["id"] in ids]

    def clauses(self, action: str) -> list[int]:
        """Return the numbers of the clauses of an action."""
        return [
            number
            for number, clause in enumerate(self.statement.clauses)
            if clause.action == action
        ]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Changed:
    """What the changes are, by the numbers of their files.

    tasks: the files that the statement read. gone: those all of whose rows are deleted. rewritten:
    those of which other rows are changed. repeated: several changes are of one row. conflicts: so
    are several that do not all delete it.
    """

    counts: Counts
    tasks: Mapping[int, scans.FileTask]
    gone: tuple[int, ...] = ()
    rewritten: tuple[int, ...] = ()
    repeated: bool = False
    conflicts: bool = False


class Changes:
    """Runs DELETE, UPDATE and MERGE. Its only state is the locks of the tables in use."""

    def __init__(
        self,
        *,
        engine: engine.Engine,
        places: places.Places,
        relations: relations.Relations,
        planning: planning.Planning,
        writes: writes.Writes,
        transactions: transactions.Transactions,
        defaults: defaults.Defaults,
        disk: disk.Disk,
        scratch: Path,
        new_id: storage_model.NewId,
    ) -> None:
        self._engine = engine
        self._places = places
        self._relations = relations
        self._planning = planning
        self._writes = writes
        self._transactions = transactions
        self._defaults = defaults
        self._disk = disk
        self._scratch = scratch
        self._new_id = new_id
        self._locks: weakref.WeakValueDictionary[str, asyncio.Lock] = weakref.WeakValueDictionary()

    async def change(
        self, execution: planning.Execution, statement: operations.ChangeRows
    ) -> outcomes.Outcome:
        """Run a statement; raises SqlError, EngineFault and the catalog's errors."""
        changed_table, _ = await self._look_up(execution, statement)
        environment = await self._planning.environment(execution)
        bind_count = await execution.compiled.bind_count(environment)
        if execution.describe_only:
            return _answer(statement, Counts(), bind_count, described=True)
        lock = self._locks.setdefault(changed_table.pointer.object_uuid, asyncio.Lock())
        seconds = self._planning.seconds(execution)
        try:
            async with asyncio.timeout(seconds or None), lock:
                counts = await self._changed(execution, statement)
        except TimeoutError:
            raise errors.timed_out(round(seconds)) from None
        return _answer(statement, counts, bind_count)

    async def explained(
        self, execution: planning.Execution, statement: operations.ChangeRows
    ) -> tuple[resolve.BoundQuery, planning.QueryTables, engine.EngineQuery]:
        """Return the query that a statement's changes come from, which may run; raises SqlError."""
        _, query_names = await self._look_up(execution, statement)
        plan = await self._plan(execution, statement, query_names)
        types = () if statement.is_whole else _types(plan)
        environment = await self._planning.environment(execution, plan.query_tables.shapes)
        bound = await execution.compiled.bind_changes(environment, types)
        relation = await threads.for_columns(
            len(plan.fields),
            self._relations.empty,
            plan.table,
            plan.query_tables.shapes[plan.use].relation,
            zone=execution.zone,
            numbered=True,
        )
        query = await self._planning.query(
            execution, bound, _instead(plan, relation), purpose="explain"
        )
        return bound, plan.query_tables, query

    async def _look_up(
        self, execution: planning.Execution, statement: operations.ChangeRows
    ) -> tuple[places.NamedTable, planning.Names]:
        session = execution.session

        def find_target(catalog: places.CatalogView) -> places.NamedTable:
            actions = rights.LOAD_ACTIONS if execution.describe_only else rights.COMMIT_ACTIONS
            return catalog.table(
                statement.name,
                database=session.database,
                schema=session.schema,
                exactly=True,
                actions=actions,
            )

        return await self._planning.look_up(execution, find_target)

    async def _changed(
        self, execution: planning.Execution, statement: operations.ChangeRows
    ) -> Counts:
        """Change the table and return the counts; run again where the table has changed."""
        for attempt in range(1, limits.CHANGE_ATTEMPTS_MAX + 1):
            changed_table, query_names = await self._look_up(execution, statement)
            ident, pointer = changed_table.ident, changed_table.pointer
            loaded = await self._transactions.table(execution.session, ident, pointer)
            summary = await writes.find_summary(loaded, execution.query_id)
            if summary is not None:  # the client did not get the first request's answer
                return Counts(**{name: int(summary.get(key, 0)) for name, key in COUNTED.items()})
            if self._transactions.is_kept_as_nothing(execution, ident):
                return Counts()
            self._transactions.check_may_write(execution.session, ident)
            plan = await self._plan(execution, statement, query_names)
            folder = self._scratch / self._new_id()
            await asyncio.to_thread(self._disk.make_folder, folder)
            try:
                counts, staged = await self._stage(execution, plan, folder)
            finally:
                await asyncio.shield(asyncio.to_thread(self._disk.remove_tree, folder))
            if staged is None:
                await self._transactions.keep_nothing(execution, ident)
                return counts
            try:
                await self._transactions.keep(execution, staged)
            except (metadata_errors.RequirementFailed, metadata_errors.StaleSequenceNumber):
                if attempt == limits.CHANGE_ATTEMPTS_MAX:
                    raise
                continue
            return counts
        raise AssertionError("the last attempt returns or raises")

    # The plan

    async def _plan(
        self,
        execution: planning.Execution,
        statement: operations.ChangeRows,
        query_names: planning.Names,
    ) -> _Plan:
        query_tables = await self._planning.open(execution, query_names)
        use = next(use.index for use in query_names.needs.uses if use.is_target)
        table = query_tables.tables[use]
        if table is None:
            raise errors.unsupported("change of a view of INFORMATION_SCHEMA")
        fields = tuple(table.fields)
        assigned = await threads.for_columns(
            len(fields), _assigned, table.loaded, statement.clauses
        )
        return _Plan(
            statement=statement,
            table=table,
            query_tables=query_tables,
            use=use,
            fields=fields,
            assigned=assigned,
            defaults=_stored_defaults(statement, table.loaded, assigned),
        )

    async def _stage(
        self, execution: planning.Execution, plan: _Plan, folder: Path
    ) -> tuple[Counts, writes.Staged | None]:
        """Return the counts, and the files of the change; None where nothing changes."""
        if plan.statement.is_whole:
            changed = await self._whole(execution, plan)
            query = None
        else:
            query, tasks = await self._write_changes(execution, plan, folder)
            changed = await self._count(query, plan, folder, tasks)
        if changed.conflicts:
            _check_repeated(execution, plan)
        marks_rows = query is not None and self._marks(plan, changed)
        lineage = pinned.lineage_of(plan.table) if changed.rewritten else ()
        target = writes.WriteTarget(
            loaded=plan.loaded,
            fields=(*plan.fields, *lineage),
            judge=self._places.judge(execution.session.principal, rights.COMMIT_ACTIONS),
            checks_lengths=False,
        )
        staged = writes.Staged(target=target, files=(), rows=0)
        if not changed.gone and not changed.rewritten and not changed.counts.inserted:
            return changed.counts, None
        positions: Mapping[int, Sequence[int]] = {}
        if query is not None and marks_rows:
            positions = await self._positions(query, plan, changed, folder)
        has_rows = bool(changed.counts.inserted or changed.counts.updated)
        if query is not None and (has_rows or (changed.rewritten and not marks_rows)):
            rows = await self._rows(
                execution, query, plan, changed, target, folder, only_changed=marks_rows
            )
            staged = await self._writes.stage(rows, target, by=execution.by, names_at_commit=True)
        if marks_rows:
            staged, removed = await self._marked(staged, plan, changed, positions, by=execution.by)
        else:
            removed = await threads.for_columns(
                len(changed.gone) + len(changed.rewritten), _removed, changed
            )
        return changed.counts, dataclasses.replace(
            staged,
            removed=removed,
            based_on=plan.table.snapshot_id,
            summary=changed.counts.summary,
            needs_head=bool(changed.counts.inserted),
        )

    async def _whole(self, execution: planning.Execution, plan: _Plan) -> _Changed:
        """Return the change that deletes every row. Only rows below delete files are read."""
        tasks = await _numbered(await self._relations.tasks(plan.table))
        deleted = await self._relations.count_rows(plan.table)
        if deleted is None:
            environment = await self._planning.environment(execution, plan.query_tables.shapes)
            bound = await execution.compiled.bind_changes(environment, ())
            query = await self._planning.query(
                execution,
                bound,
                await self._with_target(execution, plan, tasks),
                text=f'SELECT count(*) AS "rows" FROM ({bound.sql}) AS "deleted"',
            )
            counted, _ = await engine.collect(await self._engine.run(query))
            deleted = counted["rows"][0].as_py()
        assert deleted is not None
        return _Changed(counts=Counts(deleted=deleted), tasks=tasks, gone=tuple(tasks))

    async def _with_target(
        self, execution: planning.Execution, plan: _Plan, tasks: Mapping[int, scans.FileTask]
    ) -> planning.QueryTables:
        """Return the tables of the statement, the target with numbered rows of some files."""
        relation = await self._relations.numbered(
            plan.table,
            plan.query_tables.shapes[plan.use].relation,
            tasks,
            zone=execution.zone,
            owner=execution.session.principal.name,
            query_id=execution.query_id,
            warehouse=execution.session.warehouse,
        )
        return _instead(plan, relation)

    # The changes

    async def _write_changes(
        self, execution: planning.Execution, plan: _Plan, folder: Path
    ) -> tuple[engine.EngineQuery, Mapping[int, scans.FileTask]]:
        """Write the changes; return the statement's query, and the files that it read."""
        environment = await self._planning.environment(execution, plan.query_tables.shapes)
        bound = await execution.compiled.bind_changes(environment, _types(plan))
        conditions = bound.filters.get(plan.use, ())
        tasks = await _numbered(await self._relations.tasks(plan.table, conditions))
        query = await self._planning.query(
            execution,
            bound,
            await self._with_target(execution, plan, tasks),
            text=_changes_text(plan, bound.sql),
        )
        write = await threads.for_columns(len(plan.fields), _changes_file, plan, folder)
        results = await self._engine.run(dataclasses.replace(query, write=write))
        await engine.collect(results)
        return query, tasks

    async def _count(
        self,
        query: engine.EngineQuery,
        plan: _Plan,
        folder: Path,
        tasks: Mapping[int, scans.FileTask],
    ) -> _Changed:
        """Return what the changes are."""
        counting = dataclasses.replace(
            query,
            text=_count_text(plan),
            relations=(_changes_relation(plan, folder, query.settings.timezone),),
            functions=(),
        )
        table, _ = await engine.collect(await self._engine.run(counting))
        totals = dict.fromkeys(("inserted", "updated", "deleted", "repeated", "conflicts"), 0)
        gone: list[int] = []
        rewritten: list[int] = []
        for batch in table.to_batches(max_chunksize=limits.FILES_AT_ONCE):
            for row in batch.to_pylist():
                for name in totals:
                    totals[name] += row[name]
                if row["file"] is None:
                    continue
                task = tasks[row["file"]]
                is_whole = not task.deletes and row["deleted"] == task.data_file.record_count
                (gone if is_whole else rewritten).append(row["file"])
            await asyncio.sleep(0)
        counts = Counts(
            inserted=totals["inserted"],
            updated=totals["updated"],
            multi_joined=totals["repeated"] if plan.statement.statement == "update" else 0,
            deleted=totals["deleted"],
        )
        return _Changed(
            counts=counts,
            tasks=tasks,
            gone=tuple(gone),
            rewritten=tuple(rewritten),
            repeated=totals["repeated"] > 0,
            conflicts=totals["conflicts"] > 0,
        )

    # Merge-on-read

    def _marks(self, plan: _Plan, changed: _Changed) -> bool:
        """Return whether changed rows are marked as deleted, and their files stay."""
        metadata = plan.loaded.metadata
        return bool(changed.rewritten) and marks.fits(
            [changed.tasks[number] for number in changed.rewritten],
            metadata.properties,
            statement=plan.statement.statement,
            format_version=metadata.format_version,
            rows=changed.counts.updated + changed.counts.deleted,
        )

    async def _positions(
        self, query: engine.EngineQuery, plan: _Plan, changed: _Changed, folder: Path
    ) -> Mapping[int, Sequence[int]]:
        """Return the positions of the changed rows, ascending, by the numbers of their files."""
        files = f'"row" / {engine.ROWS_OF_FILE}'
        listing = dataclasses.replace(
            query,
            text=(
                f'SELECT DISTINCT "row" FROM "{CHANGES}" WHERE "row" IS NOT NULL'
                f" AND {_among(files, changed.rewritten)}"
            ),
            relations=(_changes_relation(plan, folder, query.settings.timezone),),
            functions=(),
        )
        table, _ = await engine.collect(await self._engine.run(listing))

        def split() -> Mapping[int, Sequence[int]]:
            positions: dict[int, list[int]] = {}
            rows: list[Any] = table["row"].to_pylist()
            for row in sorted(rows):
                positions.setdefault(row // engine.ROWS_OF_FILE, []).append(
                    row % engine.ROWS_OF_FILE
                )
            return positions

        return await asyncio.to_thread(split)

    async def _marked(
        self,
        staged: writes.Staged,
        plan: _Plan,
        changed: _Changed,
        positions: Mapping[int, Sequence[int]],
        *,
        by: str,
    ) -> tuple[writes.Staged, tuple[manifests.DataFile, ...]]:
        """Return the change with the delete files of its rows, and the files that it removes."""
        tasks = {number: changed.tasks[number] for number in changed.rewritten}

        def uri_of(data_file: manifests.DataFile, suffix: str) -> str:
            return self._writes.uri_beside(staged.target, data_file, suffix)

        replaced: list[manifests.DataFile] = []
        try:
            if plan.loaded.metadata.format_version < marks.VECTORS_FORMAT_VERSION:
                built = await asyncio.to_thread(marks.position_files, tasks, positions, uri_of)
            else:
                earlier = await self._writes.read_vectors(plan.table.reader, tasks)
                replaced = marks.replaced_vectors(list(tasks.values()))
                built = [
                    await asyncio.to_thread(marks.vector_file, tasks, positions, earlier, uri_of)
                ]
        except BaseException:
            await commits.to_the_end(self._writes.discard(staged))
            raise
        staged = await self._writes.with_deletes(staged, built, by=by)
        needed = tuple(task.data_file for task in tasks.values())
        gone = (changed.tasks[number].data_file for number in changed.gone)
        return dataclasses.replace(staged, needed=needed), (*gone, *replaced)

    # The rows

    async def _rows(
        self,
        execution: planning.Execution,
        query: engine.EngineQuery,
        plan: _Plan,
        changed: _Changed,
        target: writes.WriteTarget,
        folder: Path,
        *,
        only_changed: bool,
    ) -> engine.EngineQuery:
        """Return the query for the rows of the new files. only_changed: others stay as they are."""
        relation = await self._relations.numbered(
            plan.table,
            TARGET,
            {number: changed.tasks[number] for number in changed.rewritten},
            zone=execution.zone,
            owner=execution.session.principal.name,
            query_id=execution.query_id,
            warehouse=execution.session.warehouse,
            packs=True,
        )
        filled, functions = await self._filled(execution, plan, changed.counts.inserted)
        text = await threads.for_columns(
            len(plan.fields),
            functools.partial(
                _rows_text,
                plan,
                target,
                filled,
                repeated=changed.repeated,
                only_changed=only_changed,
            ),
        )
        read = [relation, _changes_relation(plan, folder, query.settings.timezone)]
        if len(target.fields) > len(plan.fields):
            read.append(await asyncio.to_thread(_files_relation, changed))
        return dataclasses.replace(query, text=text, relations=tuple(read), functions=functions)

    async def _filled(
        self, execution: planning.Execution, plan: _Plan, inserted: int
    ) -> tuple[Mapping[int, str], tuple[str, ...]]:
        """Return the texts of the defaults that Iceberg cannot hold, and the functions in them.

        inserted: the number of inserted rows, each of which takes a number of a sequence.
        """
        declared = tabletypes.declared_types(plan.loaded.metadata.properties)
        texts: dict[int, str] = {}
        functions: dict[str, None] = {}
        for field, default in plan.defaults:
            column_type = tabletypes.sql_type(field["type"], declared.get(field["id"]))
            if default.is_counted:
                first, step = await self._defaults.reserve(
                    execution, plan.loaded, field["id"], default, inserted
                )
                text = defaults.numbering(first, step, column_type, nth=NTH_INSERTED)
            else:
                text, more = await self._defaults.text_of(
                    execution, default.expression, column_type
                )
                functions |= dict.fromkeys(more)
            texts[field["id"]] = text
        return texts, tuple(functions)


async def _numbered(tasks: Sequence[scans.FileTask]) -> Mapping[int, scans.FileTask]:
    return await threads.for_columns(len(tasks), lambda: dict(enumerate(tasks)))


def _instead(plan: _Plan, relation: engine.Relation) -> planning.QueryTables:
    """Return the tables of a statement, with a relation for the rows of its target."""
    opened = list(plan.query_tables.tables)
    opened[plan.use] = None
    return dataclasses.replace(
        plan.query_tables,
        tables=tuple(opened),
        ready={**plan.query_tables.ready, plan.use: relation},
    )


def _removed(changed: _Changed) -> tuple[manifests.DataFile, ...]:
    """Return the data files that leave the table."""
    numbers = (*changed.gone, *changed.rewritten)
    return tuple(changed.tasks[number].data_file for number in numbers)


def _stored_defaults(
    statement: operations.ChangeRows,
    loaded: tables.LoadedTable,
    assigned: Sequence[Mapping[int, int | None]],
) -> tuple[tuple[Mapping[str, Any], column_defaults.Default], ...]:
    """Return the defaults that a statement uses and Iceberg cannot hold, with their fields."""
    stored = column_defaults.read(loaded.metadata.properties)
    used = []
    for field in loaded.metadata.current_schema()["fields"] if stored else ():
        if field["id"] not in stored:
            continue
        for clause, values in zip(statement.clauses, assigned, strict=True):
            if values.get(field["id"]) is not None:
                continue
            if clause.action == "insert":
                used.append((field, stored[field["id"]]))
                break
            if field["id"] in values:
                if stored[field["id"]].is_counted:
                    raise errors.unsupported("UPDATE to the DEFAULT of a sequence")
                used.append((field, stored[field["id"]]))
                break
    return tuple(used)


def _assigned(
    loaded: tables.LoadedTable, clauses: Sequence[operations.Clause]
) -> tuple[Mapping[int, int | None], ...]:
    """Return what each clause assigns, by field id; raises SqlError for unknown columns."""
    assigned: list[Mapping[int, int | None]] = []
    values = sum(value is not None for clause in clauses for value in clause.values)
    for clause in clauses:
        if clause.by_name:
            _, fields = writes.fields_for(loaded, ())
            assigned.append({field["id"]: values + at for at, field in enumerate(fields)})
            values += len(fields)
            continue
        if clause.action == "delete":
            assigned.append({})
            continue
        if clause.action == "insert":
            _, fields = writes.fields_for(loaded, clause.columns)
        else:
            own = offsets.columns(loaded.metadata)
            fields = writes.assigned_fields(own, clause.columns, statement="UPDATE of")
        if len(fields) != len(clause.values):
            raise errors.column_count_differs(len(fields), len(clause.values))
        pairs = zip(fields, clause.values, strict=True)
        assigned.append({field["id"]: value for field, value in pairs})
    return tuple(assigned)


def _types(plan: _Plan) -> list[sqltypes.SqlType]:
    """Return the types of the assigned columns, in the order of the statement's values."""
    declared = tabletypes.declared_types(plan.loaded.metadata.properties)
    by_id = {field["id"]: field for field in plan.fields}
    by_value = {
        value: tabletypes.sql_type(by_id[field_id]["type"], declared.get(field_id))
        for values in plan.assigned
        for field_id, value in values.items()
        if value is not None
    }
    return [by_value[value] for value in sorted(by_value)]


def _value(field: Mapping[str, Any]) -> str:
    """Return the name of the changes' column with the new values of a field."""
    return engine.quoted(f"value {field['id']}")


def _changes_text(plan: _Plan, sql: str) -> str:
    """Return the text of the changes: the row's number, the clause's, and a column per field."""
    width = resolve.CHANGE_COLUMNS + len(_types(plan))
    listed = ", ".join(engine.quoted(f"c{index}") for index in range(width))
    items = ['"c0" AS "row"', '"c1" AS "clause"']
    for field in plan.changed:
        branches = [
            f'WHEN {number} THEN "c{resolve.CHANGE_COLUMNS + value}"'
            for number, values in enumerate(plan.assigned)
            if (value := values.get(field["id"])) is not None
        ]
        items.append(f'CASE "c1" {" ".join(branches)} END AS {_value(field)}')
    return f'SELECT {", ".join(items)} FROM ({sql}) AS "rows"({listed}) WHERE "c1" IS NOT NULL'


def _changes_file(plan: _Plan, folder: Path) -> engine.Write:
    """Return the file of the changes. Lengths are checked here: other rows are not changed."""
    declared = tabletypes.declared_types(plan.loaded.metadata.properties)
    fields: list[pa.Field[Any]] = [pa.field("row", pa.int64()), pa.field("clause", pa.int64())]
    checks = [engine.ColumnConstraint(name=field.name) for field in fields]
    zoned = plan.table.zoned
    for field in plan.changed:
        stored = zoned_kernels.PACKED if field["id"] in zoned else _stored_type(field["type"])
        fields.append(pa.field(f"value {field['id']}", stored))
        checks.append(writes.length_check(field, declared.get(field["id"])))
    return engine.Write(
        directory=str(folder),
        schema=ipc.encode_schema(pa.schema(fields)),
        checks=tuple(checks),
        file_size_bytes=writes.FILE_SIZE_DEFAULT,
        compression="lz4",
    )


def _stored_type(iceberg_type: Any) -> pa.DataType:
    """Return the type in which the file of the changes has values: a variant is packed."""
    return pa.binary() if iceberg_type == "variant" else tabletypes.stored_type(iceberg_type)


def _changes_relation(plan: _Plan, folder: Path, zone: str) -> engine.Relation:
    fields: list[pa.Field[Any]] = [pa.field("row", pa.int64()), pa.field("clause", pa.int64())]
    zoned = plan.table.zoned
    for field in plan.changed:
        is_zoned = field["id"] in zoned
        read = zoned_kernels.PACKED if is_zoned else filecolumns.packed_type(field["type"], zone)
        fields.append(pa.field(f"value {field['id']}", read))
    schema = ipc.encode_schema(pa.schema(fields))
    return engine.Relation(
        name=CHANGES, schema=schema, groups=(engine.Group(directory=str(folder), schema=schema),)
    )


def _files_relation(changed: _Changed) -> engine.Relation:
    """Return the rewritten files: what their rows inherit of row lineage from the manifests."""
    tasks = [changed.tasks[number] for number in changed.rewritten]
    columns: list[list[int | None]] = [
        list(changed.rewritten),
        [task.data_file.first_row_id for task in tasks],
        [task.sequence_number for task in tasks],
    ]
    names = ["file", "first", "sequence"]
    rows = pa.table([pa.array(column, pa.int64()) for column in columns], names=names)
    return engine.Relation(
        name=FILES, schema=ipc.encode_schema(rows.schema), rows=ipc.encode_rows(rows)
    )


def _among(column: str, numbers: Sequence[int]) -> str:
    listed = ", ".join(map(str, numbers))
    return f"{column} IN ({listed})" if numbers else "FALSE"


def _count_text(plan: _Plan) -> str:
    """Return the text that counts changes by file: inserted rows are of no file.

    A row with several changes gets the one of the first clause. It is a conflict unless all of them
    delete it.
    """
    updates, deletes = (_among('"clause"', plan.clauses(each)) for each in ("update", "delete"))
    by_row = (
        'SELECT "row", min("clause") AS "clause", count(*) AS "times",'
        f' sum(CASE WHEN {updates} THEN 1 ELSE 0 END) AS "updates"'
        f' FROM "{CHANGES}" WHERE "row" IS NOT NULL GROUP BY "row"'
        if plan.statement.is_joined
        else f'SELECT "row", "clause", 1 AS "times", 0 AS "updates" FROM "{CHANGES}"'
    )

    repeated = '"times" > 1'
    conflicts = f'{repeated} AND "updates" > 0'

    def total(condition: str, name: str) -> str:
        return f'sum(CASE WHEN {condition} THEN 1 ELSE 0 END) AS "{name}"'

    by_file = (
        f'SELECT "row" / {engine.ROWS_OF_FILE} AS "file", 0 AS "inserted",'
        f" {total(updates, 'updated')}, {total(deletes, 'deleted')},"
        f" {total(repeated, 'repeated')}, {total(conflicts, 'conflicts')}"
        f' FROM ({by_row}) AS "rows" GROUP BY "row" / {engine.ROWS_OF_FILE}'
    )
    inserted = (
        'SELECT NULL AS "file", count(*) AS "inserted", 0 AS "updated", 0 AS "deleted",'
        f' 0 AS "repeated", 0 AS "conflicts" FROM "{CHANGES}" WHERE "row" IS NULL'
    )
    return f"{by_file} UNION ALL {inserted}"


def _rows_text(
    plan: _Plan,
    target: writes.WriteTarget,
    filled: Mapping[int, str],
    *,
    repeated: bool,
    only_changed: bool,
) -> str:
    """Return the text of the rows of the new files, in the table's sort order.

    A table without one keeps the order in which its files have their rows. filled: texts of
    defaults, by field id. repeated: some rows have several changes, of which one is made.
    only_changed: rows without a change are left out.
    """
    own = ", ".join(
        f'"r".{engine.quoted(field["name"])} AS "own {field["id"]}"' for field in plan.fields
    )
    changes = f'"{CHANGES}"'
    if filled:
        changes = (
            f'(SELECT *, row_number() OVER (PARTITION BY "row" IS NULL) AS "nth inserted"'
            f' FROM {changes} AS "numbered")'
        )
    if repeated:
        changes = (
            f'(SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY "row" ORDER BY "clause")'
            f' AS "nth" FROM {changes} AS "each") AS "all" WHERE "nth" = 1 OR "row" IS NULL)'
        )
    join = "FULL JOIN" if plan.clauses("insert") else "LEFT JOIN"
    zoned = plan.table.zoned
    items = [
        f'{_new_value(plan, field, filled, zoned)} AS "new {field["id"]}"' for field in plan.fields
    ]
    gone = _among('"c"."clause"', plan.clauses("delete"))
    read = f'{engine.quoted(TARGET)} AS "r"'
    row = f'"r".{engine.quoted(shapes.ROW)}'
    lineage = target.fields[len(plan.fields) :]
    if lineage:
        row_id, updated = (f'"new {field["id"]}"' for field in lineage)
        items.append(f'"t"."row id" AS {row_id}')
        items.append(f'CASE WHEN "c"."clause" IS NULL THEN "t"."updated" END AS {updated}')
        read, own = _with_lineage(read, own, row)
    rows = (
        f'SELECT {", ".join(items)}, "t"."number" FROM'
        f' (SELECT {own}, {row} AS "number" FROM {read}) AS "t"'
        f' {join} {changes} AS "c" ON "t"."number" = "c"."row"'
        f' WHERE "c"."clause" IS {"NOT NULL AND" if only_changed else "NULL OR"} NOT {gone}'
    )
    named = ", ".join(
        f'"new {field["id"]}" AS {engine.quoted(field["name"])}' for field in target.fields
    )
    keys = writes.sort_keys(target)
    if keys:
        return (
            f'SELECT * FROM (SELECT {named} FROM ({rows}) AS "rows") AS "sorted"'
            f" ORDER BY {', '.join(keys)}"
        )
    return f'SELECT {named} FROM ({rows}) AS "rows" ORDER BY "rows"."number" ASC NULLS LAST'


def _with_lineage(read: str, own: str, row: str) -> tuple[str, str]:
    """Return the text of the changed files' rows with what they inherit, and of its columns.

    read, own, row: the texts of the files' rows, of the table's own columns and of a row's number.
    """
    row_id, updated = (f'"r".{engine.quoted(field["name"])}' for field in pinned.LINEAGE)
    file = f"{row} / {engine.ROWS_OF_FILE}"
    read = f'{read} LEFT JOIN {engine.quoted(FILES)} AS "f" ON {file} = "f"."file"'
    position = f"{row} % {engine.ROWS_OF_FILE}"
    columns = (
        f'{own}, coalesce({row_id}, "f"."first" + {position}) AS "row id",'
        f' coalesce({updated}, "f"."sequence") AS "updated"'
    )
    return read, columns


def _new_value(
    plan: _Plan, field: Mapping[str, Any], filled: Mapping[int, str], zoned: Collection[int]
) -> str:
    """Return a field's value after the change: by the row's clause, or as it was."""
    own = f'"t"."own {field["id"]}"'
    is_assignable = tabletypes.is_assignable(field["type"])
    by_value: dict[str, list[int]] = {}
    for number, clause in enumerate(plan.statement.clauses):
        values = plan.assigned[number]
        if values.get(field["id"]) is not None:
            by_value.setdefault(f'"c".{_value(field)}', []).append(number)
        elif is_assignable and (clause.action == "insert" or field["id"] in values):
            default = filled.get(field["id"]) or writes.default_text(field, zoned)
            by_value.setdefault(default, []).append(number)
    if not by_value:
        return own
    clause_number = '"c"."clause"'
    branches = " ".join(
        f"WHEN {_among(clause_number, numbers)} THEN {value}" for value, numbers in by_value.items()
    )
    return f"CASE {branches} ELSE {own} END"


def _check_repeated(execution: planning.Execution, plan: _Plan) -> None:
    """Raise SqlError for changes that depend on which of several source rows comes first."""
    parameter = NONDETERMINISTIC.get(plan.statement.statement)
    if parameter is not None and execution.session.parameter(parameter):
        raise errors.duplicate_row()


NONDETERMINISTIC: Final = {
    "merge": "ERROR_ON_NONDETERMINISTIC_MERGE",
    "update": "ERROR_ON_NONDETERMINISTIC_UPDATE",
}


def _answer(
    statement: operations.ChangeRows, counts: Counts, bind_count: int, *, described: bool = False
) -> outcomes.Outcome:
    """Return the answer: a column for each action of the statement, in Snowflake's order."""
    actions = {clause.action for clause in statement.clauses}
    wanted = {
        "inserted": "insert" in actions,
        "updated": "update" in actions,
        "multi_joined": statement.statement == "update",
        "deleted": "delete" in actions,
    }
    shown = {name: getattr(counts, name) for name, is_wanted in wanted.items() if is_wanted}
    statement_type = STATEMENT_TYPES[statement.statement]
    stats = outcomes.Stats(
        rows_inserted=counts.inserted, rows_updated=counts.updated, rows_deleted=counts.deleted
    )
    answer = outcomes.changed_rows(statement_type, stats, **shown)
    if described:
        return outcomes.Outcome(
            columns=answer.columns, statement_type_id=statement_type, bind_count=bind_count
        )
    return dataclasses.replace(answer, bind_count=bind_count)

"""engine: CREATE SCHEMA and CREATE DATABASE ... CLONE: schemas with what other ones hold.

Each table is cloned as CREATE TABLE ... CLONE does: no byte is copied. Views and sequences come
along; what names a table, a view or a sequence of the source by a stored path (a view's own schema,
a foreign key, a sequence of a default) names that of the clone. One view of the catalog says what
the source holds, and one commit makes all of the clone appear.
"""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import functools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from catalog import (
    appends,
    commits,
    departures,
    files,
    idents,
    namespace_clones,
    namespaces,
    owners,
    properties,
    readers,
    receipts,
    records,
    rights,
    tables,
    views,
)
from catalog import errors as catalog_errors
from catalog.metadata import creation, model
from catalog.metadata import views as view_rules
from sql import (
    clones,
    column_defaults,
    compiler,
    definitions,
    errors,
    keys,
    numbering,
    pinned,
    places,
    planning,
    writes,
)
from sql.dialect import names, operations, shapes

OWN_PROPERTIES: Final = (properties.NAMESPACE_LOCATION, departures.PROTECTED)
"""Properties that belong to one namespace."""
NOT_KEPT: Final = "000707"
"""The code of a table whose state of a moment is not kept any more."""
EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
CHECKED_AT_ONCE: Final = 100
"""Tables, views and sequences whose rights are checked between two turns of the event loop."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ClonedSchema:
    """A schema to clone, as one view of the catalog has it, and the name of its clone.

    sequences: their stored rows, by name.
    """

    source: places.Schema
    database: str
    namespace: idents.Namespace
    properties: Mapping[str, str]
    tables: tuple[places.NamedTable, ...]
    views: tuple[places.NamedTable, ...]
    sequences: Mapping[str, Any]

    def ident(self, name: str) -> idents.TableIdent:
        """Return the name of a table, view or sequence of the clone."""
        return idents.TableIdent(table_bucket=self.database, namespace=self.namespace, name=name)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Written:
    """A cloned table whose files are written. files: those of its snapshot."""

    table: namespace_clones.ClonedTable
    change: writes.Staged
    files: tuple[str, ...]


class SchemaClones:
    """Clones schemas. Stateless."""

    def __init__(
        self,
        *,
        places: places.Places,
        planning: planning.Planning,
        compiler: compiler.Compiler,
        definitions: definitions.Definitions,
        clones: clones.Clones,
        writes: writes.Writes,
        namespace_clones: namespace_clones.NamespaceClones,
        tables: tables.Tables,
        views: views.Views,
        readers: readers.Readers,
        appends: appends.Appends,
        files: files.Files,
    ) -> None:
        self._places = places
        self._planning = planning
        self._compiler = compiler
        self._definitions = definitions
        self._clones = clones
        self._writes = writes
        self._namespace_clones = namespace_clones
        self._tables = tables
        self._views = views
        self._readers = readers
        self._appends = appends
        self._files = files

    async def clone(
        self,
        execution: planning.Execution,
        source: operations.CloneSource,
        schemas: Sequence[ClonedSchema],
        *,
        comment: str | None,
        judge: owners.Recheck,
        receipt: receipts.Receipt,
        replaces: bool = False,
    ) -> None:
        """Create the clones of schemas, parents before their children, in one commit.

        comment: of the clone, None for the source's. judge: checks the rights on the new schemas.
        replaces: the one schema exists and is dropped in the same commit. Raises SqlError, and as
        `NamespaceClones.create` does.
        """
        if any(each.views and self._places.is_mount(each.source.database) for each in schemas):
            raise errors.unsupported("CLONE of a schema with views of a mount")
        moment = await self._moment(execution, source)
        homes = {
            (each.source.database, each.source.name): (
                each.database,
                idents.dotted(each.namespace),
            )
            for each in schemas
        }
        new: list[namespace_clones.ClonedNamespace] = []
        written: list[_Written] = []
        try:  # no commit has begun, so also a cancelled statement removes its files
            if moment is not None and moment.parameter == "statement":
                moment = await self._moment_of_statement(moment, schemas)
            for schema in schemas:
                own = len(written)
                namespace_id = await self._namespace_clones.assign_id(
                    schema.database, schema.namespace
                )
                for table in schema.tables:
                    written += await self._table(
                        execution, schema, table, namespace_id, moment, source, homes
                    )
                new.append(
                    namespace_clones.ClonedNamespace(
                        namespace=schema.namespace,
                        properties=_described(schema.properties, comment),
                        tables=tuple(each.table for each in written[own:]),
                        views=tuple(
                            [await self._view(schema, view, homes) for view in schema.views]
                        ),
                        sequences=schema.sequences,
                    )
                )
        except BaseException:
            await commits.to_the_end(self._discard(written))
            raise
        running = asyncio.ensure_future(
            self._commit(execution, schemas, new, judge=judge, receipt=receipt, replaces=replaces)
        )
        try:
            await commits.outcome_of(running)
        except (catalog_errors.CommitStateUnknown, asyncio.CancelledError):
            raise  # the clone may be committed, so its files stay
        except BaseException:
            await commits.to_the_end(self._discard(written))
            raise

    async def _commit(
        self,
        execution: planning.Execution,
        schemas: Sequence[ClonedSchema],
        new: Sequence[namespace_clones.ClonedNamespace],
        *,
        judge: owners.Recheck,
        receipt: receipts.Receipt,
        replaces: bool,
    ) -> None:
        principal, database = execution.session.principal, schemas[0].database
        judge_sequences = self._places.judge_sequence(
            principal,
            *(
                (schema.ident(name), numbering.CREATE)
                for schema in schemas
                for name in schema.sequences
            ),
        )

        def judge_all() -> None:
            judge()
            judge_sequences()

        judge_item = self._places.judge(principal, rights.COMMIT_ACTIONS)
        if not replaces:
            await self._namespace_clones.create(
                database,
                new,
                by=execution.by,
                via="sql",
                judge=judge_all,
                judge_item=judge_item,
                receipt=receipt,
            )
            return

        def check(ident: idents.TableIdent, pointer: records.Pointer) -> None:
            self._places.check_drop(principal, places.NamedTable(ident=ident, pointer=pointer))

        await self._namespace_clones.replace(
            database,
            new[0],
            check=check,
            by=execution.by,
            via="sql",
            judge=judge_all,
            judge_item=judge_item,
            receipt=receipt,
        )

    async def _discard(self, written: Sequence[_Written]) -> None:
        for each in written:
            await self._writes.discard(each.change)
            bucket = each.table.staged.ident.table_bucket
            for uri in each.files:
                await self._files.remove(uri, table_bucket=bucket)

    # When

    async def _moment(
        self, execution: planning.Execution, source: operations.CloneSource
    ) -> shapes.Moment | None:
        """Return the moment of AT or BEFORE; raises SqlError."""
        if not source.moment:
            return None
        text = f"SELECT * FROM source {source.moment}"
        compiled = await self._compiler.compile(text, owner=execution.session.principal.name)
        try:
            needs = await compiled.needs(await self._planning.environment(execution))
        finally:
            await compiled.close()
        moment = needs.uses[0].moment
        if moment is None or moment.parameter not in ("timestamp", "statement"):
            word = source.moment if moment is None else moment.parameter.upper()
            raise errors.unsupported(f"CLONE of a schema AT ({word} => ...)")
        return moment

    async def _moment_of_statement(
        self, moment: shapes.Moment, schemas: Sequence[ClonedSchema]
    ) -> shapes.Moment:
        """Return the time at which a statement changed a table of the schemas."""
        for table in (table for schema in schemas for table in schema.tables):
            loaded = await self._tables.fetch_at(table.ident, table.pointer)
            committed_ms = await pinned.find_time(loaded, str(moment.value))
            if committed_ms is not None:
                # Half a millisecond more, so that no rounding makes it an earlier one.
                at = EPOCH + datetime.timedelta(milliseconds=committed_ms, microseconds=500)
                return shapes.Moment(parameter="timestamp", value=at, before=moment.before)
        raise errors.SqlError(
            NOT_KEPT,
            "02000",
            f"SQL compilation error:\nStatement {moment.value} did not change a table of"
            f" {schemas[0].source.name}, or its state has expired.",
            phase="COMPILATION",
        )

    # What is cloned

    async def _table(
        self,
        execution: planning.Execution,
        schema: ClonedSchema,
        table: places.NamedTable,
        namespace_id: int,
        moment: shapes.Moment | None,
        source: operations.CloneSource,
        homes: Mapping[tuple[str, str], tuple[str, str]],
    ) -> list[_Written]:
        """Write the files of one table's clone; nothing for one that was not there at a moment."""
        principal = execution.session.principal
        if moment is not None and table.pointer.created_at_ms > _last_ms(moment):
            return []
        loaded = await self._tables.fetch_at(table.ident, table.pointer)
        try:
            pinned_table = await pinned.find_snapshot(self._readers.of(principal, loaded), moment)
        except errors.SqlError as error:
            if source.ignores_expired and error.code == NOT_KEPT:
                return []
            raise
        numbers = self._clones.numbers(pinned_table)
        defined = clones.definition(pinned_table, numbers=numbers)
        judge = self._places.judge(principal, rights.COMMIT_ACTIONS)
        staged = await self._namespace_clones.stage(
            schema.ident(table.ident.name),
            namespace_id,
            schema=defined.table.schema,
            partition_spec=defined.table.partition_spec,
            sort_order=defined.table.sort_order,
            properties=defined.table.properties,
            judge=judge,
            by=execution.by,
        )
        target = writes.WriteTarget(
            loaded=staged, fields=tuple(pinned_table.fields), is_staged=True, judge=judge
        )
        try:
            change = await self._clones.share(pinned_table, target, by=execution.by)
        except clones.Unshared:
            change = await self._rows(execution, table, moment, defined, staged)
        change = await self._writes.name(change)
        try:
            built = await self._appends.build(
                change.target.loaded, change.change(execution.query_id), principal=principal
            )
        except BaseException:
            await commits.to_the_end(self._writes.discard(change))
            raise
        metadata = change.target.loaded.metadata
        redirected = _redirected(metadata.properties, homes)
        updates = [
            *creation.creating_updates(metadata),
            *({"action": "set-properties", "updates": each} for each in (redirected,) if each),
            *({"action": "add-schema", "schema": each} for each in change.target.earlier_schemas),
            *appends.updates_of(model.MAIN_BRANCH, built.snapshot),
        ]
        new_table = namespace_clones.ClonedTable(staged=staged, updates=updates)
        return [_Written(table=new_table, change=change, files=built.files)]

    async def _rows(
        self,
        execution: planning.Execution,
        table: places.NamedTable,
        moment: shapes.Moment | None,
        defined: clones.CopiedTable,
        staged: tables.LoadedTable,
    ) -> writes.Staged:
        """Write the rows of a table whose files cannot be shared."""
        compiled = await self._compiler.compile(
            "CREATE TABLE target CLONE source", owner=execution.session.principal.name
        )
        try:
            inner = dataclasses.replace(execution, compiled=compiled)
            needs = await compiled.needs(await self._planning.environment(inner))
            use = dataclasses.replace(needs.uses[0], moment=moment)
            query_names = planning.Names(
                needs=dataclasses.replace(needs, uses=(use,)), meanings={use.index: table}
            )
            query_tables = await self._planning.open(inner, query_names)
            return await self._definitions.stage_rows(
                inner, query_tables, defined.columns, staged, is_staged=True
            )
        finally:
            await compiled.close()

    async def _view(
        self,
        schema: ClonedSchema,
        view: places.NamedTable,
        homes: Mapping[tuple[str, str], tuple[str, str]],
    ) -> namespace_clones.ClonedView:
        """Return a view's clone: its current version, whose own schema is the clone's."""
        loaded = await self._views.fetch_at(view.ident, view.pointer)
        if len(loaded.data) > views.SMALL_VIEW_BYTES:
            metadata = await asyncio.to_thread(view_rules.decode, loaded.data)
        else:
            metadata = view_rules.decode(loaded.data)
        version = {**metadata.current_version(), "version-id": 1, "schema-id": 0}
        database = version.get("default-catalog") or schema.source.database
        home = homes.get((database, ".".join(version["default-namespace"])))
        if home is not None:
            version["default-namespace"] = [home[1]]
            if version.get("default-catalog"):
                version["default-catalog"] = home[0]
        elif schema.database != schema.source.database:
            version["default-catalog"] = database
        return namespace_clones.ClonedView(
            ident=schema.ident(view.ident.name),
            schema=metadata.current_schema(),
            version=version,
            properties=dict(metadata.properties),
        )

    # Names and rights

    def find(
        self,
        catalog: places.CatalogView,
        source: places.Schema,
        *,
        database: str,
        namespace: idents.Namespace,
    ) -> ClonedSchema:
        """Return what a schema holds, if the caller may list it; `check` checks the other rights.

        Raises SqlError 003001; 000625 for more than one commit drops.
        """
        contents = catalog.whole_schema(source, most=namespaces.TABLES_DROPPED_MAX)
        return ClonedSchema(
            source=source,
            database=database,
            namespace=namespace,
            properties=contents.properties,
            tables=contents.tables,
            views=contents.views,
            sequences=contents.sequences,
        )

    async def check(self, execution: planning.Execution, schemas: Sequence[ClonedSchema]) -> None:
        """Raise SqlError 003001 unless the caller may read what schemas hold, and create its like.

        Other requests get their turn in between.
        """
        checks = [check for schema in schemas for check in self._checks(schema)]
        for start in range(0, len(checks), CHECKED_AT_ONCE):
            with self._places.view(execution.session.principal) as catalog:
                for check in checks[start : start + CHECKED_AT_ONCE]:
                    check(catalog)
            await asyncio.sleep(0)

    def _checks(self, schema: ClonedSchema) -> Iterator[Callable[[places.CatalogView], None]]:
        """Yield a check for each table, view and sequence of a schema."""
        for items, actions in (
            (schema.tables, rights.READ_ACTIONS),
            (schema.views, rights.LOAD_ACTIONS),
        ):
            for item in items:
                yield functools.partial(_check_item, schema, item, actions)
        for name in schema.sequences:
            yield functools.partial(_check_sequence, schema, name)


def _check_item(
    schema: ClonedSchema,
    item: places.NamedTable,
    actions: Sequence[str],
    catalog: places.CatalogView,
) -> None:
    missing = errors.does_not_exist("Object", names.shown(item.ident.name))
    catalog.check_table(item, actions, missing=missing)
    catalog.check_new_table(schema.ident(item.ident.name))


def _check_sequence(schema: ClonedSchema, name: str, catalog: places.CatalogView) -> None:
    source = schema.source
    ident = idents.TableIdent(table_bucket=source.database, namespace=source.namespace, name=name)
    missing = errors.does_not_exist("Sequence", names.shown(name))
    catalog.check_sequence(ident, rights.LOAD_ACTIONS[0], missing=missing)
    catalog.check_new_sequence(schema.ident(name), numbering.CREATE, missing=None)


def _described(stored: Mapping[str, str], comment: str | None) -> dict[str, str]:
    """Return the properties of a schema's clone. comment: None for the source's."""
    kept = {name: text for name, text in stored.items() if name not in OWN_PROPERTIES}
    if comment is not None:
        kept["comment"] = comment
    return {name: text for name, text in kept.items() if name != "comment" or text}


def _last_ms(moment: shapes.Moment) -> int:
    """Return the last millisecond of a time that AT or BEFORE means."""
    assert isinstance(moment.value, datetime.datetime)
    return int(moment.value.timestamp() * 1000) - (1 if moment.before else 0)


def _redirected(
    stored: Mapping[str, str], homes: Mapping[tuple[str, str], tuple[str, str]]
) -> dict[str, str]:
    """Return the properties that name tables or sequences of the source, naming the clone's.

    homes: by database and schema of the source, those of the clone.
    """
    changed: dict[str, str] = {}

    def moved(path: Sequence[str]) -> list[str]:
        home = homes.get((path[0], path[1]))
        return list(path) if home is None else [*home, *path[2:]]

    if keys.PROPERTY in stored:
        listed = json.loads(stored[keys.PROPERTY])
        for item in listed:
            if item.get("referenced"):
                item["referenced"] = moved(item["referenced"])
        changed[keys.PROPERTY] = json.dumps(listed, separators=(",", ":"))
    if column_defaults.PROPERTY in stored:
        defaults = json.loads(stored[column_defaults.PROPERTY])
        for item in defaults.values():
            if "sequence" in item:
                item["sequence"] = moved(item["sequence"])
        changed[column_defaults.PROPERTY] = json.dumps(defaults, separators=(",", ":"))
    return {name: text for name, text in changed.items() if text != stored[name]}

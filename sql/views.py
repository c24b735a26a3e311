"""engine: CREATE, ALTER and DROP of views.

A view is an Iceberg view of the catalog (`sql.stored_views`). Creating one binds its query, so that
the view has the names and types of its columns, and the caller has the right to read what it reads.
A view gives no rights: a query that reads it needs those on the view and those on its tables.
Each statement is one commit of the catalog, with a receipt for repeated requests.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from catalog import commits, idents, receipts, records, rights, views
from catalog import errors as catalog_errors
from catalog.metadata import errors as metadata_errors
from catalog.metadata import views as view_rules
from sql import (
    definitions,
    errors,
    limits,
    outcomes,
    places,
    planning,
    replays,
    sessions,
    staged_reads,
    stored_views,
    tabletypes,
    threads,
    transactions,
    writes,
)
from sql.dialect import names, operations

ATTEMPTS_MAX: Final = 3
"""How often OR REPLACE looks whether there is a view, when others create and drop it meanwhile."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Target:
    """The view that a statement names, as the catalog was in the statement's view.

    existing: a view or table of that name. is_done: an earlier request executed the statement.
    """

    ident: idents.TableIdent
    receipt: receipts.Receipt | None
    existing: places.NamedTable | None = None
    is_done: bool = False


class ViewStatements:
    """Creates, changes and drops views. Stateless."""

    def __init__(
        self,
        *,
        planning: planning.Planning,
        places: places.Places,
        views: views.Views,
        replays: replays.Replays,
    ) -> None:
        self._planning = planning
        self._places = places
        self._views = views
        self._replays = replays

    async def create(
        self, execution: planning.Execution, statement: operations.CreateView
    ) -> outcomes.Outcome:
        """Create or replace a view; raises SqlError."""
        shown = statement.name[-1].folded
        success = outcomes.status(f"View {shown} successfully created.")
        target, query_names = await self._planning.look_up(
            execution, functools.partial(self._look_up, execution, statement)
        )
        if target.is_done:  # the client did not get the first request's answer
            return success
        if target.existing is not None and not statement.is_temporary:
            if statement.if_not_exists:
                return outcomes.status(f"{shown} already exists, statement succeeded.")
            if not statement.replace:
                raise errors.already_exists("Object", shown)
            if target.existing.pointer.object_type == "table":
                raise errors.exists_as(stored_views.shown_name(target.ident), "TABLE")
        session = execution.session
        if statement.is_temporary and target.existing is not None and target.existing.is_temporary:
            raise errors.already_exists("Object", shown)
        if statement.is_temporary and target.ident in session.temporary_views:
            if statement.if_not_exists:
                return outcomes.status(f"{shown} already exists, statement succeeded.")
            if not statement.replace:
                raise errors.already_exists("Object", shown)
        if any(
            isinstance(meaning, staged_reads.StagedTable)
            for meaning in query_names.meanings.values()
        ):
            raise errors.unsupported("a view of staged files")
        inner = [
            meaning
            for meaning in query_names.meanings.values()
            if isinstance(meaning, stored_views.View)
        ]
        if not statement.is_temporary and any(view.is_temporary for view in inner):
            raise errors.unsupported("a view of a temporary view")
        if not statement.is_temporary and any(
            isinstance(meaning, places.NamedTable) and meaning.is_temporary
            for meaning in query_names.meanings.values()
        ):
            raise errors.unsupported("a view of a temporary table")
        if any(
            view.ident == target.ident and view.is_temporary == statement.is_temporary
            for view in inner
        ):
            raise errors.view_of_itself(stored_views.shown_name(target.ident))
        query, _ = await self._planning.bound(execution, query_names)
        columns = await threads.for_columns(
            len(query.columns), definitions.new_columns, statement.columns, query
        )
        content = await threads.for_columns(
            len(columns), _content, execution, statement, columns, target.ident
        )
        if statement.is_temporary:
            _keep_temporary(
                session,
                _temporary(session, statement, target.ident, content, query_id=execution.query_id),
            )
            return success
        try:
            await self._write(execution, statement, target, content)
        except catalog_errors.ViewAlreadyExists:
            if not statement.if_not_exists:
                raise
            return outcomes.status(f"{shown} already exists, statement succeeded.")
        return success

    def _look_up(
        self,
        execution: planning.Execution,
        statement: operations.CreateView,
        catalog: places.CatalogView,
    ) -> _Target:
        """Return the view of a CREATE VIEW as the catalog has it; raises SqlError."""
        session, name = execution.session, statement.name
        schema = catalog.schema_of(
            name, database=session.database, schema=session.schema, exactly=True
        )
        if not schema.namespace:
            raise errors.unsupported("CREATE VIEW in INFORMATION_SCHEMA")
        ident = idents.TableIdent(
            table_bucket=schema.database, namespace=schema.namespace, name=name[-1].stored
        )
        hidden = catalog.no_table(schema, name)
        catalog.check_new_table(ident, missing=hidden if len(name) > 1 else None)
        receipt = self._replays.receipt(schema.database, execution.query_id, by=execution.by)
        if self._replays.is_done(receipt):
            return _Target(ident=ident, receipt=receipt, is_done=True)
        existing = catalog.find_object(schema, name[-1], only_lasting=not statement.is_temporary)
        if existing is not None and statement.replace and not statement.is_temporary:
            already_exists = errors.already_exists("Object", name[-1].folded)
            catalog.check_table(existing, rights.COMMIT_ACTIONS, missing=already_exists)
            ident = existing.ident
        return _Target(ident=ident, receipt=receipt, existing=existing)

    async def _write(
        self,
        execution: planning.Execution,
        statement: operations.CreateView,
        target: _Target,
        content: _Content,
    ) -> None:
        principal = execution.session.principal
        judge = self._places.judge(principal, rights.COMMIT_ACTIONS)
        exists = target.existing is not None
        for number in range(1, ATTEMPTS_MAX + 1):
            try:
                if exists:
                    await self._views.replace(
                        target.ident,
                        (),
                        content.updates(),
                        by=principal.arn,
                        via="sql",
                        judge=judge,
                        receipt=target.receipt,
                    )
                else:
                    await self._views.create(
                        target.ident,
                        schema=content.schema,
                        view_version=content.version,
                        properties=content.properties,
                        by=principal.arn,
                        via="sql",
                        judge=judge,
                        receipt=target.receipt,
                    )
                return
            except catalog_errors.NoSuchView:
                if number == ATTEMPTS_MAX:
                    raise
                exists = False
            except catalog_errors.ViewAlreadyExists:
                if number == ATTEMPTS_MAX or not statement.replace:
                    raise
                exists = True
            except catalog_errors.TableAlreadyExists:
                if not statement.replace:
                    raise
                raise errors.exists_as(stored_views.shown_name(target.ident), "TABLE") from None

    async def drop(
        self, execution: planning.Execution, statement: operations.DropView
    ) -> outcomes.Outcome:
        """Drop a view; raises SqlError."""
        shown = statement.name[-1].folded
        success = outcomes.status(f"{shown} successfully dropped.")
        if self._drop_temporary(execution.session, statement.name):
            return success
        try:
            target = self._find(execution, statement.name, rights.DROP_ACTIONS)
        except errors.SqlError as error:
            if statement.if_exists and error.code == "002003":
                return outcomes.already_dropped(shown)
            raise
        if target.is_done:
            return success
        try:
            await self._views.drop(
                target.ident,
                by=execution.by,
                via="sql",
                judge=self._places.judge(execution.session.principal, rights.DROP_ACTIONS),
                receipt=target.receipt,
            )
        except catalog_errors.NoSuchView:  # another session dropped it meanwhile
            if not statement.if_exists:
                raise
            return outcomes.already_dropped(shown)
        return success

    def _drop_temporary(self, session: sessions.Session, name: names.Name) -> bool:
        """Drop the session's temporary view of that name; return whether there was one."""
        if not session.temporary_views:
            return False
        try:
            with self._places.view(session.principal) as catalog:
                place = catalog.schema_of(
                    name, database=session.database, schema=session.schema, exactly=True
                )
        except errors.SqlError:
            return False
        view = stored_views.find_temporary(session, place, name[-1])
        if view is None:
            return False
        del session.temporary_views[view.ident]
        return True

    async def alter(
        self, execution: planning.Execution, statement: operations.AlterView
    ) -> outcomes.Outcome:
        """Rename a view, or change comments or its SECURE; raises SqlError."""
        if statement.column_comments:
            return await transactions.replaced(lambda: self._comment_columns(execution, statement))
        return await self._alter(execution, statement)

    async def _comment_columns(
        self, execution: planning.Execution, statement: operations.AlterView
    ) -> outcomes.Outcome:
        """Give columns of a view comments. Raises RequirementFailed if another commit came first:
        the new version has the text of the one before."""
        success = outcomes.status("Statement executed successfully.")
        try:
            target = self._find(execution, statement.name, rights.COMMIT_ACTIONS)
        except errors.SqlError as error:
            if statement.if_exists and error.code == "002003":
                return success
            raise
        if target.is_done:
            return success
        assert target.existing is not None
        location = target.existing.pointer.metadata_location
        loaded = await self._views.fetch_at(target.ident, target.existing.pointer)
        updates = await commits.run(
            _commented,
            loaded.data,
            statement.column_comments,
            now_ms=int(execution.now.timestamp() * 1000),
            large=len(loaded.data) > views.SMALL_VIEW_BYTES,
        )
        may_commit = self._places.judge(execution.session.principal, rights.COMMIT_ACTIONS)

        def judge(
            place: records.Place, ident: idents.TableIdent, pointer: records.Pointer | None
        ) -> None:
            may_commit(place, ident, pointer)
            if pointer is None or pointer.metadata_location != location:
                raise metadata_errors.RequirementFailed(
                    f"Requirement failed: the view {ident.dotted()} has changed"
                )

        await self._views.replace(
            target.ident,
            (),
            updates,
            by=execution.by,
            via="sql",
            judge=judge,
            receipt=target.receipt,
        )
        return success

    async def _alter(
        self, execution: planning.Execution, statement: operations.AlterView
    ) -> outcomes.Outcome:
        success = outcomes.status("Statement executed successfully.")
        actions = rights.COMMIT_ACTIONS if statement.new_name is None else ("RenameTable",)
        try:
            target = self._find(execution, statement.name, actions)
        except errors.SqlError as error:
            if statement.if_exists and error.code == "002003":
                return success
            raise
        if target.is_done:
            return success
        if statement.new_name is not None:
            await self._rename(execution, target, statement.new_name)
            return success
        updates: list[dict[str, Any]] = []
        if statement.comment is not None:
            updates += _set_property(stored_views.COMMENT, statement.comment)
        if statement.is_secure is not None:
            updates += _set_property(stored_views.SECURE, "true" if statement.is_secure else "")
        await self._views.replace(
            target.ident,
            (),
            updates,
            by=execution.by,
            via="sql",
            judge=self._places.judge(execution.session.principal, actions),
            receipt=target.receipt,
        )
        return success

    async def _rename(
        self, execution: planning.Execution, target: _Target, name: names.Name
    ) -> None:
        session = execution.session
        with self._places.view(session.principal) as catalog:
            schema = catalog.schema_of(
                name, database=session.database, schema=session.schema, exactly=True
            )
            if schema.database != target.ident.table_bucket or not schema.namespace:
                raise errors.unsupported("ALTER VIEW ... RENAME TO another database")
            new_ident = idents.TableIdent(
                table_bucket=schema.database, namespace=schema.namespace, name=name[-1].stored
            )
            hidden = catalog.no_table(schema, name)
            catalog.check_new_name(new_ident, missing=hidden if len(name) > 1 else None)
        judge_old = self._places.judge(session.principal, ("RenameTable",))
        judge_new = self._places.judge_new_name(session.principal, new_ident)

        def judge(
            place: records.Place, ident: idents.TableIdent, pointer: records.Pointer | None
        ) -> None:
            judge_old(place, ident, pointer)
            judge_new()

        await self._views.rename(
            target.ident,
            new_ident,
            by=execution.by,
            via="sql",
            judge=judge,
            receipt=target.receipt,
        )

    def _find(
        self, execution: planning.Execution, name: names.Name, actions: Sequence[str]
    ) -> _Target:
        """Return the view that DROP or ALTER names. Raises SqlError."""
        session = execution.session
        with self._places.view(session.principal) as catalog:
            schema = catalog.schema_of(
                name, database=session.database, schema=session.schema, exactly=True
            )
            missing = catalog.no_table(schema, name, object_type="View")
            if not schema.namespace:
                raise missing
            receipt = self._replays.receipt(schema.database, execution.query_id, by=execution.by)
            existing = catalog.find_object(schema, name[-1])
            if self._replays.is_done(receipt):
                ident = idents.TableIdent(
                    table_bucket=schema.database, namespace=schema.namespace, name=name[-1].stored
                )
                return _Target(ident=ident, receipt=receipt, is_done=True)
            if existing is None:
                raise missing
            catalog.check_table(existing, actions, missing=missing)
            if existing.pointer.object_type == "table":
                raise errors.of_other_type("TABLE", "VIEW")
        return _Target(ident=existing.ident, receipt=receipt, existing=existing)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Content:
    """What a CREATE VIEW says, as a REST client would send it: decoded JSON."""

    schema: Mapping[str, Any]
    version: Mapping[str, Any]
    properties: Mapping[str, str]

    def updates(self) -> list[dict[str, Any]]:
        """Return the updates that replace a view with this content."""
        updates: list[dict[str, Any]] = [
            {"action": "add-schema", "schema": self.schema},
            {"action": "add-view-version", "view-version": {**self.version, "schema-id": -1}},
            {"action": "set-current-view-version", "view-version-id": -1},
        ]
        for name in (stored_views.COMMENT, stored_views.SECURE):
            updates += _set_property(name, self.properties.get(name, ""))
        return updates


def _commented(
    data: bytes, comments: Sequence[tuple[names.Ident, str]], *, now_ms: int
) -> list[dict[str, Any]]:
    """Return the updates that give columns of a view comments, "" for none; raises SqlError.

    data: the view's metadata file, decompressed.
    """
    metadata = view_rules.decode(data)
    schema, version = metadata.current_schema(), metadata.current_version()
    fields = [dict(field) for field in schema["fields"]]
    for ident, comment in comments:
        positions = names.find(ident, [field["name"] for field in fields])
        if not positions:
            raise errors.invalid_identifier(ident.folded)
        field = fields[positions[0]]
        field.pop("doc", None)
        if comment:
            field["doc"] = comment
    return [
        {"action": "add-schema", "schema": {**schema, "fields": fields}},
        {
            "action": "add-view-version",
            "view-version": {**version, "schema-id": -1, "timestamp-ms": now_ms},
        },
        {"action": "set-current-view-version", "view-version-id": -1},
    ]


def _set_property(name: str, value: str) -> list[dict[str, Any]]:
    """Return the update that sets a property, or removes it for an empty value."""
    if value:
        return [{"action": "set-properties", "updates": {name: value}}]
    return [{"action": "remove-properties", "removals": [name]}]


def _content(
    execution: planning.Execution,
    statement: operations.CreateView,
    columns: Sequence[writes.NewColumn],
    ident: idents.TableIdent,
) -> _Content:
    session = execution.session
    # A view has the schema of a table with its columns.
    table = writes.new_table(operations.CreateTable(name=statement.name, columns=()), columns)
    summary = {"engine-name": "boathouse"}
    for name in (tabletypes.DECLARED, tabletypes.QUOTED):
        if name in table.properties:
            summary[name] = table.properties[name]
    properties = {}
    if statement.comment:
        properties[stored_views.COMMENT] = statement.comment
    if statement.is_secure:
        properties[stored_views.SECURE] = "true"
    return _Content(
        schema=table.schema,
        version={
            "version-id": 1,
            "schema-id": 0,
            "timestamp-ms": int(execution.now.timestamp() * 1000),
            "summary": summary,
            "default-catalog": session.database or ident.table_bucket,
            "default-namespace": [session.schema] if session.schema else [],
            "representations": [
                {"type": "sql", "sql": statement.text, "dialect": stored_views.DIALECT}
            ],
        },
        properties=properties,
    )


def _temporary(
    session: sessions.Session,
    statement: operations.CreateView,
    ident: idents.TableIdent,
    content: _Content,
    *,
    query_id: str,
) -> stored_views.View:
    """Return the view of a CREATE TEMPORARY VIEW, which the catalog does not get."""
    fields = content.schema["fields"]
    pointer = records.Pointer(
        object_type="view",
        object_uuid="",
        table_uuid=None,
        metadata_location=f"temporary:{query_id}",
        location="",
        created_at_ms=content.version["timestamp-ms"],
        created_by=session.principal.arn,
        modified_at_ms=content.version["timestamp-ms"],
        modified_by=session.principal.arn,
    )
    return stored_views.View(
        ident=ident,
        pointer=pointer,
        text=statement.text,
        dialect=stored_views.DIALECT,
        database=session.database or ident.table_bucket,
        schema=session.schema,
        columns=tabletypes.shape_columns(fields, content.version["summary"]),
        comments=tuple(str(field.get("doc", "")) for field in fields),
        comment=statement.comment or "",
        is_secure=statement.is_secure,
        is_temporary=True,
    )


def _keep_temporary(session: sessions.Session, view: stored_views.View) -> None:
    """Add a temporary view to the session. Raises SqlError beyond the bounds of one session."""
    others = [each for ident, each in session.temporary_views.items() if ident != view.ident]
    length = len(view.text) + sum(len(each.text) for each in others)
    if len(others) >= limits.TEMPORARY_VIEWS_MAX or length > limits.TEMPORARY_VIEWS_LENGTH_MAX:
        raise errors.too_complex(
            f"a session has at most {limits.TEMPORARY_VIEWS_MAX} temporary views, with"
            f" {limits.TEMPORARY_VIEWS_LENGTH_MAX:,} characters together"
        )
    session.temporary_views[view.ident] = view

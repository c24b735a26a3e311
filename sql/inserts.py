"""engine: INSERT, INSERT OVERWRITE and TRUNCATE.

The rows of a query become data files; `sql.transactions` takes them as a change of the table. A
change that replaces all rows removes the files of the state that the statement has read.
"""

from __future__ import annotations

from catalog import loads, rights
from sql import defaults, errors, outcomes, places, planning, threads, transactions, writes
from sql.dialect import operations


class Inserts:
    """Adds rows to tables and replaces them. Stateless."""

    def __init__(
        self,
        *,
        planning: planning.Planning,
        places: places.Places,
        writes: writes.Writes,
        transactions: transactions.Transactions,
        defaults: defaults.Defaults,
    ) -> None:
        self._planning = planning
        self._places = places
        self._writes = writes
        self._transactions = transactions
        self._defaults = defaults

    async def insert(
        self, execution: planning.Execution, statement: operations.Insert
    ) -> outcomes.Outcome:
        """Add the rows of a query to a table, or replace its rows by them; raises SqlError."""
        run = transactions.replaced if statement.overwrite else transactions.added
        if execution.describe_only:
            return await self._insert(execution, statement)
        return await run(lambda: self._insert(execution, statement))

    async def _insert(
        self, execution: planning.Execution, statement: operations.Insert
    ) -> outcomes.Outcome:
        session = execution.session

        def find_target(catalog: places.CatalogView) -> places.NamedTable:
            return catalog.table(
                statement.name,
                database=session.database,
                schema=session.schema,
                exactly=True,
                actions=rights.LOAD_ACTIONS if execution.describe_only else rights.COMMIT_ACTIONS,
            )

        table, query_names = await self._planning.look_up(execution, find_target)
        loaded = await self._transactions.table(session, table.ident, table.pointer)
        width = len(loaded.metadata.current_schema()["fields"])
        written, fields = await threads.for_columns(
            width, writes.fields_for, loaded, statement.columns
        )
        if execution.describe_only:
            environment = await self._planning.environment(execution)
            return outcomes.Outcome(
                columns=INSERT_COLUMNS,
                statement_type_id=outcomes.StatementType.INSERT,
                bind_count=await execution.compiled.bind_count(environment),
                array_bind_supported=statement.accepts_rows,
            )
        rows = await writes.find_rows_committed(loaded, execution.query_id)
        if rows is not None:  # the client did not get the first request's answer
            environment = await self._planning.environment(execution)
            return _inserted(rows, await execution.compiled.bind_count(environment))
        self._transactions.check_may_write(session, table.ident)
        target = writes.WriteTarget(
            loaded=loaded,
            fields=tuple(written),
            judge=self._places.judge(session.principal, rights.COMMIT_ACTIONS),
        )
        defaulted = frozenset(statement.defaulted)
        if defaulted and statement.width != len(fields):
            raise errors.column_count_differs(len(fields), statement.width)
        filled = [field for index, field in enumerate(fields) if index not in defaulted]
        fill = self._defaults.filling(execution, loaded, filled)
        bound_query, query = await self._planning.bound_into(
            execution,
            query_names,
            loaded,
            fields,
            target,
            fill,
            defaulted=statement.defaulted,
        )
        staged = await self._writes.stage(query, target, by=execution.by, names_at_commit=True)
        if fill is not None:
            try:
                fill.check_rows(staged.rows)
            except errors.SqlError:
                await self._writes.discard(staged)
                raise
        if statement.overwrite:
            await self._transactions.replace_rows(execution, staged)
        else:
            await self._transactions.keep(execution, staged)
        return _inserted(staged.rows, bound_query.bind_count)

    async def truncate(
        self, execution: planning.Execution, statement: operations.Truncate
    ) -> outcomes.Outcome:
        """Remove all rows of a table; raises SqlError."""
        return await transactions.replaced(lambda: self._truncate(execution, statement))

    async def _truncate(
        self, execution: planning.Execution, statement: operations.Truncate
    ) -> outcomes.Outcome:
        session = execution.session
        success = outcomes.status("Statement executed successfully.")
        try:
            with self._places.view_of(session) as catalog:
                table = catalog.table(
                    statement.name,
                    database=session.database,
                    schema=session.schema,
                    exactly=True,
                    actions=rights.COMMIT_ACTIONS,
                )
        except errors.SqlError as error:
            if statement.if_exists and error.code == "002003":
                return success
            raise
        loaded = await self._transactions.table(session, table.ident, table.pointer)
        if await writes.find_rows_committed(loaded, execution.query_id) is not None:
            return success
        self._transactions.check_may_write(session, table.ident)
        target = writes.WriteTarget(
            loaded=loaded,
            fields=(),
            judge=self._places.judge(session.principal, rights.COMMIT_ACTIONS),
        )
        staged = writes.Staged(target=target, files=(), rows=0, summary=loads.NOTHING_LOADED)
        await self._transactions.replace_rows(execution, staged)
        return success


def _inserted(rows: int, bind_count: int) -> outcomes.Outcome:
    answer = outcomes.changed_rows(
        outcomes.StatementType.INSERT, outcomes.Stats(rows_inserted=rows), inserted=rows
    )
    return outcomes.Outcome(
        columns=answer.columns,
        rows=answer.rows,
        statement_type_id=answer.statement_type_id,
        stats=answer.stats,
        bind_count=bind_count,
        array_bind_supported=True,
    )


INSERT_COLUMNS = _inserted(0, 0).columns

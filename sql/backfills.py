"""engine: the rows of a table get the default of a new column, in files that are written anew.

Format version 3 gives old rows the default without that: `initial-default`. Before it, a column
that a file lacks is NULL, so ADD COLUMN with a default replaces the data files, in the commit that
adds the column.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec

from catalog import commits, owners, readers, receipts, tables
from catalog import errors as catalog_errors
from catalog.metadata import updates
from catalog.metadata.model import MAIN_BRANCH, TableMetadata
from sql import engine, errors, offsets, pinned, planning, relations, replacements, writes
from storage import model as storage_model

ROWS = "rows"


class Backfills:
    """Adds columns to tables and their values to the rows. Stateless."""

    def __init__(
        self,
        *,
        readers: readers.Readers,
        relations: relations.Relations,
        planning: planning.Planning,
        writes: writes.Writes,
        replacements: replacements.Replacements,
        now_ms: storage_model.NowMs,
    ) -> None:
        self._readers = readers
        self._relations = relations
        self._planning = planning
        self._writes = writes
        self._replacements = replacements
        self._now_ms = now_ms

    async def commit(
        self,
        execution: planning.Execution,
        base: tables.LoadedTable,
        changes: Sequence[dict[str, Any]],
        filled: Collection[int],
        *,
        judge: owners.Judge,
        receipt: receipts.Receipt,
    ) -> None:
        """Commit changes of a table's metadata, and its rows with the defaults of new columns.

        filled: the ids of the columns. Raises SqlError for a table with rows on other branches,
        RequirementFailed if the table has changed, and as `Writes.stage` does.
        """
        if set(base.metadata.refs) - {MAIN_BRANCH}:
            raise errors.unsupported(
                "ADD COLUMN with a default to a table with branches or tags of Iceberg format"
                f" version {base.metadata.format_version}: ALTER TABLE ... SET ICEBERG_VERSION = 3"
                " first"
            )
        principal = execution.session.principal
        after = await commits.run(
            _changed,
            base.metadata,
            changes,
            now_ms=self._now_ms(),
            large=len(base.data) > commits.LARGE_METADATA_BYTES,
        )
        replacement = replacements.Replacement(
            base=base, after=msgspec.structs.replace(base, metadata=after), changes=tuple(changes)
        )
        relations.check_read(after.current_schema()["fields"])
        target = writes.WriteTarget(
            loaded=replacement.after,
            fields=tuple(offsets.columns(after)),
            judge=judge,
            checks_lengths=False,
        )
        relation = await self._relations.relation(
            pinned.PinnedTable(
                reader=self._readers.of(principal, base),
                snapshot_id=base.metadata.current_snapshot_id,
                schema=_with_initial_defaults(
                    after.current_schema(), filled, statement=execution.query_id
                ),
            ),
            ROWS,
            owner=principal.name,
            query_id=execution.query_id,
            warehouse=execution.session.warehouse,
        )
        text = f"SELECT * FROM {engine.quoted(ROWS)}"
        keys = writes.sort_keys(target)
        if keys:
            text += f" ORDER BY {', '.join(keys)}"
        query = self._planning.plain(execution, text, (relation,))
        staged = await self._writes.stage(query, target, by=execution.by)
        assert staged.target.columns is None, "old rows need no column that their table lacks"
        try:
            await self._replacements.commit(
                replacement,
                None,
                staged.files,
                principal=principal,
                judge=judge,
                query_id=execution.query_id,
                may_rebase=False,
                receipt=receipt,
                keeps_loads=True,
            )
        except catalog_errors.CommitStateUnknown:
            raise  # the rows may be committed, so their files stay
        except BaseException:
            await commits.to_the_end(self._writes.discard(staged))
            raise


def _changed(
    metadata: TableMetadata, changes: Sequence[dict[str, Any]], *, now_ms: int
) -> TableMetadata:
    part = updates.Part(requirements=(), updates=changes)
    return updates.apply_parts(metadata, [part], now_ms=now_ms, base_location=None)


def _with_initial_defaults(
    schema: Mapping[str, Any], filled: Collection[int], *, statement: str
) -> dict[str, Any]:
    """Return a schema that reads the defaults of some columns from files that lack them.

    Its id is the statement's own: another statement that fails or wins may give the id of this
    schema, which the table does not have yet, to other columns or defaults, and `sql.relations`
    keeps by schema ids how files are read.
    """
    fields = [
        {**field, "initial-default": field["write-default"]} if field["id"] in filled else field
        for field in schema["fields"]
    ]
    return {**schema, "schema-id": f"{schema['schema-id']} of {statement}", "fields": fields}

"""engine: runs the statements about stages, file formats, their files, and COPY."""

from __future__ import annotations

from typing import TypeAlias

from sql import loading, outcomes, planning, stages, unloading
from sql.dialect import operations

StagedOperation: TypeAlias = (
    operations.CreateStage
    | operations.CreateFileFormat
    | operations.AlterStaging
    | operations.DropStaging
    | operations.DescribeStaging
    | operations.PutFiles
    | operations.GetFiles
    | operations.ListFiles
    | operations.RemoveFiles
    | operations.CopyInto
    | operations.Unload
)


class StagedStatements:
    """Runs each statement of the family. Stateless."""

    def __init__(
        self, *, stages: stages.Stages, loading: loading.Loading, unloading: unloading.Unloading
    ) -> None:
        self._stages = stages
        self._loading = loading
        self._unloading = unloading

    def is_temporary(
        self,
        execution: planning.Execution,
        operation: operations.AlterStaging | operations.DropStaging,
    ) -> bool:
        """Return whether a statement changes or drops a temporary object of the session."""
        return self._stages.is_temporary(execution.session, operation)

    async def run(
        self, execution: planning.Execution, operation: StagedOperation
    ) -> outcomes.Outcome:
        """Return a statement's outcome; raises SqlError, EngineFault and the catalog's errors."""
        if execution.describe_only:
            return self._described(execution, operation)
        session, query_id = execution.session, execution.query_id
        match operation:
            case operations.CreateStage():
                return await self._stages.create_stage(session, operation, query_id=query_id)
            case operations.CreateFileFormat():
                return await self._stages.create_format(session, operation, query_id=query_id)
            case operations.AlterStaging():
                return await self._stages.alter(session, operation)
            case operations.DropStaging():
                return await self._stages.drop(session, operation, query_id=query_id)
            case operations.DescribeStaging():
                return self._stages.describe(session, operation)
            case operations.PutFiles():
                return await self._stages.put(session, operation)
            case operations.GetFiles():
                return await self._stages.get(session, operation)
            case operations.ListFiles():
                return await self._stages.list_files(session, operation)
            case operations.RemoveFiles():
                return await self._stages.remove_files(session, operation)
            case operations.CopyInto():
                return await self._loading.copy(execution, operation)
            case operations.Unload():
                return await self._unloading.unload(execution, operation)

    def _described(
        self, execution: planning.Execution, operation: StagedOperation
    ) -> outcomes.Outcome:
        """Return the columns of a statement that answers with rows; nothing is read or changed."""
        types = outcomes.StatementType
        match operation:
            case operations.DescribeStaging():
                return self._stages.describe(execution.session, operation)
            case operations.ListFiles():
                return outcomes.Outcome(columns=stages.LIST_COLUMNS, statement_type_id=types.LIST)
            case operations.RemoveFiles():
                return outcomes.Outcome(
                    columns=stages.REMOVE_COLUMNS, statement_type_id=types.REMOVE
                )
            case operations.CopyInto():
                columns = loading.columns_of(operation)
                return outcomes.Outcome(columns=columns, statement_type_id=types.COPY)
            case operations.Unload():
                columns = unloading.columns_of(operation)
                return outcomes.Outcome(columns=columns, statement_type_id=types.UNLOAD)
        raise AssertionError(f"{type(operation).__name__} answers with a status")

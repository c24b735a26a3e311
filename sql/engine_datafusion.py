"""engine: the only DataFusion: builds contexts, registers relations, plans, streams.

Each query gets contexts of its own, with a memory pool that spills to disk. Text reaches the
planner with DDL, DML and statements switched off, because DataFusion's own INSERT would put a file
into a table's directory behind Iceberg's back. Relations are views over listing tables, so filters
and projections reach the Parquet scan. Nothing here may read a path that the query does not name:
no URL tables, no object stores, no file functions.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import os
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent import futures
from pathlib import Path
from typing import Any

import datafusion
import pyarrow as pa
import pyarrow.parquet as pq
from datafusion import user_defined

from sql import (
    deletes,
    engine,
    ipc,
    kept_plans,
    kernelforms,
    kernels,
    lambda_kernels,
    parquet_files,
    rowforms,
    staged_files,
    streams,
    unload_files,
)

PATHS = re.compile(r"(?:\w+://)?(?:/[\w.@+-]+)+/?|(?:[\w.@+-]+/){2,}[\w.@+-]*")
GROUPS = re.compile(r"\b__(\d+)_(?:\d+|rows)\b")

VOLATILE_CALLS = ("random()", "uuid()")
"""A bound that a sort or join finds while it runs would be compared with another value of these."""

SHARED_EXPRESSIONS = "common_sub_expression_eliminate"
"""The library's rule that computes an expression once which a query writes several times."""

SINGLE_DISTINCT = "single_distinct_aggregation_to_group_by"
"""The library's rule that groups twice for COUNT(DISTINCT a). Beside it SUM of a becomes a sum of
sums, whose type has more digits, and comparing it fails."""

UNORDERED = "SanityCheckPlan"
"""How the library refuses a physical plan that merges partitions which it no longer sorts. It makes
one of an outer join with a UNION of constants, each of which it takes for sorted."""

LOGICAL_RULES = (
    "rewrite_set_comparison",
    "optimize_unions",
    "unions_to_filter",
    "simplify_expressions",
    "replace_distinct_aggregate",
    "eliminate_join",
    "decorrelate_predicate_subquery",
    "scalar_subquery_to_join",
    "decorrelate_lateral_join",
    "extract_equijoin_predicate",
    "eliminate_duplicated_expr",
    "eliminate_filter",
    "eliminate_cross_join",
    "eliminate_limit",
    "propagate_empty_relation",
    "filter_null_join_keys",
    "eliminate_outer_join",
    "push_down_limit",
    "push_down_filter",
    SINGLE_DISTINCT,
    "eliminate_group_by_constant",
    SHARED_EXPRESSIONS,
    "extract_leaf_expressions",
    "push_down_leaf_projections",
    "optimize_projections",
)
"""All of the library's rules that change a logical plan."""

OPTIONS: Mapping[str, str] = {
    "datafusion.sql_parser.enable_ident_normalization": "false",
    "datafusion.sql_parser.parse_float_as_decimal": "true",
    "datafusion.sql_parser.recursion_limit": "500",
    "datafusion.sql_parser.map_string_types_to_utf8view": "false",
    "datafusion.execution.parquet.pushdown_filters": "true",
    # Reordered by the size of their columns, wide conditions would run before those that exclude
    # most rows: half as much CPU again for a range of dates. See TPC-H in tests/bench.
    "datafusion.execution.parquet.reorder_filters": "false",
    # Each file looked at at once takes a thread, and its allocator 32 MiB of address space.
    "datafusion.execution.meta_fetch_concurrency": "4",
    # The library's two readings of CASE disagree about NULL where a condition is never true. The
    # check that they agree failed such queries, and no plan relies on it.
    "datafusion.execution.skip_physical_aggregate_schema_check": "true",
    "datafusion.optimizer.max_passes": "5",
    # Its groups of a LIMIT compare floats otherwise than GROUP BY does: NaN stands in several.
    "datafusion.optimizer.enable_topk_aggregation": "false",
}

FILTERED_AFTER_READING: Mapping[str, str] = {
    "datafusion.execution.parquet.pushdown_filters": "false"
}
"""For results of groups. A reader that filters decodes the conditions' columns first, and of the
others what is left: a third of the CPU time where few rows of many columns remain. Where most rows
remain it takes up to twice as much, in the geometric mean of TPC-H's queries 1.11 of that without
(scale factor 0.3, medians of five runs in turn)."""

EXTREMES = re.compile(r"\b(?:min|max)\(", re.IGNORECASE)
READ_FOR_EACH_EXTREME: Mapping[str, str] = {
    "datafusion.optimizer.enable_aggregate_dynamic_filter_pushdown": "false"
}
"""For several of MIN and MAX. The library skips files that can change no value so far, and leaves
those out of account that are still NULL: it skips the files with their first values."""


class Run:
    """A planned query: its schema, then its batches, then what was done.

    at_end gives the context back; batches() calls it when the query ended well. in_one_sort plans
    the query anew, for one whose physical plan the library makes and then refuses (`UNORDERED`).
    """

    def __init__(
        self,
        query: engine.EngineQuery,
        frame: Any,
        schema: pa.Schema,
        *,
        in_thread: bool,
        at_end: Callable[[], None],
        in_one_sort: Callable[[], Run] | None = None,
    ) -> None:
        self._in_thread = in_thread
        self._in_one_sort = in_one_sort
        self._query = query
        self.at_end = at_end
        self.frame = frame
        self.schema = schema
        self.finished = engine.Finished()
        self._planned: Any = None

    async def prepare(self) -> None:
        """Make the physical plan, where the query wants one; raises EngineFault."""
        steps = {"run": self._start_stream, "explain": self._explain}
        step = steps.get(self._query.purpose)
        if step is None or self._planned is not None:
            return
        try:
            await self._step(step)
        except engine.EngineFault as fault:
            if UNORDERED not in fault.message or self._in_one_sort is None:
                raise
            other = self._in_one_sort()
            self.frame, self.at_end = other.frame, other.at_end
            await self._step(step)

    async def _step(self, step: Callable[[], Any]) -> None:
        with _faults(starting=True):
            self._planned = await asyncio.to_thread(step) if self._in_thread else step()

    def _start_stream(self) -> Any:
        return self.frame.execute_stream()

    def _explain(self) -> pa.RecordBatch:
        return _explain(self.frame, self.schema, self._query.relations)

    async def batches(self) -> AsyncIterator[pa.RecordBatch]:
        """Yield what the query answers; a Write yields nothing, its files are in `finished`."""
        with _faults():
            match self._query.purpose:
                case "footers":
                    yield await asyncio.to_thread(_footers, self._query.paths)
                case "staged":
                    assert self._query.staged is not None
                    yield await asyncio.to_thread(staged_files.decode, self._query.staged)
                case "explain":
                    await self.prepare()
                    yield self._planned
                case "run":
                    async for batch in self._run():
                        yield batch
        self.frame = self._planned = None
        self.at_end()

    async def _run(self) -> AsyncIterator[pa.RecordBatch]:
        await self.prepare()
        read = streams.awaited if self._in_thread else streams.taken
        stream = read(self._planned)
        if self._query.write is not None:
            self.finished = await parquet_files.write(stream, self._query.write)
            return
        if self._query.unload is not None:
            self.finished = await unload_files.write(stream, self.schema, self._query.unload)
            return
        rows = 0
        async for batch in stream:
            rows += batch.num_rows
            self._check_rows(rows)
            yield rowforms.plain(
                batch, self.schema, self._query.variants, indent=self._query.json_indent
            )
        self.finished = engine.Finished(rows=rows)

    def _check_rows(self, rows: int) -> None:
        rows_max = self._query.limits.rows_max
        if rows_max and rows > rows_max:
            raise engine.EngineFault("resources", f"more than {rows_max} rows")


class Planner:
    """Plans queries, each in contexts that no other query uses at that time (`sql.kept_plans`).

    Contexts are used again when their query ended well: they have read the files' footers. Those
    whose query failed or was cancelled are dropped, and what they held with them.

    in_thread: plan off the event loop. A child with one query at a time need not: the server ends
    it if its planning takes too long.
    """

    def __init__(self, *, spill_directory: Path, in_thread: bool) -> None:
        self._spill_directory = spill_directory
        self._in_thread = in_thread
        self._resting = kept_plans.Resting()

    async def start(self, query: engine.EngineQuery) -> Run:
        """Register the query's relations and plan its text; raises EngineFault."""
        with _faults(planning=True):
            if self._in_thread:
                return await asyncio.to_thread(self._plan, query)
            return self._plan(query)

    def _plan(self, query: engine.EngineQuery) -> Run:
        if query.purpose == "footers":
            return Run(query, None, FOOTERS, in_thread=self._in_thread, at_end=lambda: None)
        if query.purpose == "staged":
            report = staged_files.REPORT
            return Run(query, None, report, in_thread=self._in_thread, at_end=lambda: None)
        planned = self._planned(query)
        if query.purpose != "run" or query.settings.partitions == 1 or not _is_large(query):
            return planned
        if not _merges_whole_sorts(planned.frame):
            return planned
        planned.at_end()
        return self._planned(_in_one_sort(query))

    def _planned(self, query: engine.EngineQuery) -> Run:
        key = kept_plans.key_of(query)
        contexts = None if key is None else self._resting.take_planned(key)
        if contexts is not None and key is not None:
            return self._run(query, contexts, key, contexts.plans[key])
        if any(call in query.text for call in VOLATILE_CALLS):
            query = _with_options(
                query, {"datafusion.optimizer.enable_dynamic_filter_pushdown": "false"}
            )
        if query.is_aggregate:
            query = _with_options(query, FILTERED_AFTER_READING)
        if len(EXTREMES.findall(query.text)) > 1:
            query = _with_options(query, READ_FOR_EACH_EXTREME)
        prunes = not _reads_floats(query)
        if not prunes:
            query = _without_statistics(query)
        locates = any(
            _columns_of_files(group) for relation in query.relations for group in relation.groups
        )
        contexts = self._contexts(query, locates=locates)
        return self._run(query, contexts, key, _plan(contexts.planning, query, prunes=prunes))

    def _run(
        self,
        query: engine.EngineQuery,
        contexts: kept_plans.EngineContexts,
        key: bytes | None,
        plan: kept_plans.LogicalPlan,
    ) -> Run:
        """Return the run of a planned query. key: under which its plan is kept; None for not."""
        frame = None
        if plan.logical is not None:
            frame = contexts.computing.create_dataframe_from_logical_plan(plan.logical)

        def rest() -> None:
            if key is not None:
                contexts.keep(key, plan)
            self._resting.put(contexts)

        return Run(
            query,
            frame,
            plan.schema,
            in_thread=self._in_thread,
            at_end=rest,
            in_one_sort=lambda: self._planned(_in_one_sort(query)),
        )

    def _contexts(self, query: engine.EngineQuery, *, locates: bool) -> kept_plans.EngineContexts:
        """Return contexts without tables. locates: the query finds rows by their place in files.

        Such a query computes an expression as often as it is written. The optimizer would compute a
        repeated one in a projection of its own, below the functions of a row's place, which are
        evaluated by the reader of the files alone.
        """
        key = f"{query.settings}{query.limits.memory_bytes}{locates}{query.skipped_rules}"
        resting = self._resting.take(key)
        if resting is not None:
            return resting
        planning, computing = self._context(query), self._context(query)
        if locates:
            planning.remove_optimizer_rule(SHARED_EXPRESSIONS)
        for rule in query.skipped_rules:
            planning.remove_optimizer_rule(rule)
        for rule in LOGICAL_RULES:
            computing.remove_optimizer_rule(rule)
        return kept_plans.EngineContexts(settings=key, planning=planning, computing=computing)

    def _context(self, query: engine.EngineQuery) -> Any:
        runtime = (
            datafusion.RuntimeEnvBuilder()
            .with_disk_manager_specified(self._spill_directory)
            .with_fair_spill_pool(query.limits.memory_bytes)
        )
        return datafusion.SessionContext(_configured(query.settings), runtime)


def _plan(context: Any, query: engine.EngineQuery, *, prunes: bool) -> kept_plans.LogicalPlan:
    """Plan a query's text in a context, which has no table afterwards, as before.

    The logical plan of a query that is only described is None.
    """
    for name in _functions(query):
        _register_function(context, name, query.settings, query.limits)
    names: list[str] = []
    for number, relation in enumerate(query.relations):
        names += _register(context, relation, f"__{number}", prunes=prunes)
    allowed = (
        datafusion.SQLOptions()
        .with_allow_ddl(False)
        .with_allow_dml(False)
        .with_allow_statements(False)
    )
    frame = context.sql_with_options(query.text, allowed)
    logical = None
    if query.purpose != "describe":
        with _faults(starting=True):
            logical = frame.optimized_logical_plan()
    for name in names:
        context.deregister_table(name)
    schema = (
        pa.schema([("part", pa.string()), ("plan", pa.string())])
        if query.purpose == "explain"
        else rowforms.plain_schema(frame.schema(), keeps_nested=query.keeps_nested)
    )
    return kept_plans.LogicalPlan(logical=logical, schema=schema)


async def batches_again(
    planner: Planner, query: engine.EngineQuery, run: Run
) -> AsyncIterator[pa.RecordBatch]:
    """Yield run's batches; where the first try fails before any, try once more.

    Where memory did not suffice, frugally: slower, but with less at a time, that is joins that sort
    and spill instead of hash tables, which never spill; one partition, for the merge of several
    sorted ones never spills either and gets only what the sorts leave; strings that are copied
    instead of shared. Where the library failed by itself, without the files' statistics, whose
    estimates fail for some comparisons of two columns, without its limit of groups, which fails for
    some GROUP BY CUBE without an aggregate, and without SINGLE_DISTINCT. run.finished tells what
    was done.
    """
    started = False
    try:
        async for batch in run.batches():
            started = True
            yield batch
        return
    except engine.EngineFault as fault:
        if fault.cause not in ("resources", "internal") or started:
            raise
        again = _frugal(query) if fault.cause == "resources" else _without_faults(query)
    second = await planner.start(again)
    async for batch in second.batches():
        yield rowforms.plain(batch, run.schema)
    run.finished = second.finished


def _functions(query: engine.EngineQuery) -> Iterator[str]:
    """Yield the names of the functions that a query calls, and that its files are read by."""
    yield from query.functions
    for relation in query.relations:
        for group in relation.groups:
            yield from group.functions


# Files grow when they are read (about fourfold), and a sort holds its rows about twice.
SORT_GROWTH = 8


def _is_large(query: engine.EngineQuery) -> bool:
    """Tell whether a sort of everything that query reads could outgrow its memory."""
    room = query.limits.memory_bytes // SORT_GROWTH
    for relation in query.relations:
        for group in relation.groups:
            with os.scandir(group.directory) as files:
                room -= sum(file.stat().st_size for file in files)
            if room < 0:
                return True
    return False


def _merges_whole_sorts(frame: Any) -> bool:
    """Tell whether the plan sorts partitions apart, all their rows, and merges them.

    That merge cannot spill, and the sorts below leave it what they leave: under pressure it fails
    at a moment that threads decide, also when rows are on their way already. One sort of everything
    spills without fail.
    """
    try:
        plan = frame.execution_plan()
    except Exception as error:
        if UNORDERED not in str(error):
            raise
        return True
    return any(
        line.lstrip().startswith("SortPreservingMergeExec") and "fetch=" not in line
        for line in plan.display_indent().splitlines()
    )


def _in_one_sort(query: engine.EngineQuery) -> engine.EngineQuery:
    """Return a query whose rows are sorted after their partitions are joined, not before."""
    return _with_options(query, {"datafusion.optimizer.repartition_sorts": "false"})


def _frugal(query: engine.EngineQuery) -> engine.EngineQuery:
    options = {**query.settings.options, "datafusion.optimizer.prefer_hash_join": "false"}
    return dataclasses.replace(
        query,
        settings=dataclasses.replace(query.settings, options=options, partitions=1),
        relations=tuple(
            dataclasses.replace(
                relation,
                groups=tuple(
                    dataclasses.replace(group, schema=_without_views(group.schema))
                    for group in relation.groups
                ),
            )
            for relation in query.relations
        ),
    )


def _without_statistics(query: engine.EngineQuery) -> engine.EngineQuery:
    return _with_options(
        query,
        {
            "datafusion.execution.collect_statistics": "false",
            "datafusion.execution.parquet.enable_page_index": "false",
        },
    )


def _without_faults(query: engine.EngineQuery) -> engine.EngineQuery:
    """Return a query without what the library failed in before."""
    again = _with_options(
        _without_statistics(query),
        {"datafusion.optimizer.enable_distinct_aggregation_soft_limit": "false"},
    )
    return dataclasses.replace(again, skipped_rules=(SINGLE_DISTINCT,))


def _with_options(query: engine.EngineQuery, more: Mapping[str, str]) -> engine.EngineQuery:
    options = {**query.settings.options, **more}
    return dataclasses.replace(query, settings=dataclasses.replace(query.settings, options=options))


def _reads_floats(query: engine.EngineQuery) -> bool:
    """Return whether a query may read a column of floats from files.

    Their statistics leave NaN out, and the library trusts them: it would read a column of 1.5 and
    NaN as 1.5 in each row, and skip rows with NaN, which is greater than every other value. A text
    with `SELECT *` names no column and reads all.
    """
    reads_all = "SELECT *" in query.text
    for relation in query.relations:
        if not relation.groups:
            continue
        compared = any(group.equality_deletes for group in relation.groups)
        for column in pa.ipc.read_schema(pa.py_buffer(relation.schema)):
            if not pa.types.is_floating(column.type):
                continue
            if compared or reads_all or engine.quoted(column.name)[1:-1] in query.text:
                return True
    return False


def _without_views(schema: bytes) -> bytes:
    read = pa.ipc.read_schema(pa.py_buffer(schema))
    return ipc.encode_schema(
        pa.schema(
            [
                pa.field(field.name, pa.string()) if pa.types.is_string_view(field.type) else field
                for field in read
            ]
        )
    )


def _configured(settings: engine.Settings) -> Any:
    config = datafusion.SessionConfig().with_target_partitions(
        settings.partitions or os.cpu_count() or 1
    )
    options = {
        **OPTIONS,
        "datafusion.execution.time_zone": settings.timezone,
        "datafusion.execution.batch_size": str(settings.batch_rows),
        **settings.options,
    }
    for name, value in options.items():
        config = config.set(name, value)
    return config


@contextlib.contextmanager
def _faults(*, planning: bool = False, starting: bool = False) -> Iterator[None]:
    """Raise what the library raises as EngineFault, its panics too, which are no Exceptions.

    planning, starting: no row is read yet, so a panic means a form that the library cannot plan.
    """
    try:
        yield
    except engine.EngineFault:
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and not _is_panic(error):
            raise
        planning = planning or (starting and _is_panic(error))
        raise fault_of(error, planning=planning) from error


def _is_panic(error: BaseException) -> bool:
    # The library's class has no module to import it from.
    return type(error).__name__ == "PanicException"


def fault_of(error: BaseException, *, planning: bool = False) -> engine.EngineFault:
    """Return what went wrong, as far as the library's words tell. No path survives."""
    text = str(error)
    coded = kernelforms.coded_in(text)
    if coded is not None:
        code, value = coded
        return engine.EngineFault("value", value, code)
    message = PATHS.sub("...", text).strip()
    lowered = text.lower()
    if "resources exhausted" in lowered or "<class 'memoryerror'>" in lowered:
        return engine.EngineFault("resources", "not enough memory for this query")
    if _is_panic(error) and planning:
        return engine.EngineFault("plan", message[:600])
    if _is_panic(error) or "panicked" in lowered:
        return engine.EngineFault("panicked", message[:600])
    if "no space left on device" in lowered or "disk quota exceeded" in lowered:
        return engine.EngineFault("disk_full", "the disk has no room left")
    if "divide by zero" in lowered or "dividebyzero" in lowered:
        return engine.EngineFault("value", "Division by zero", "100051")
    for pattern, code in VALUE_FAULTS:
        match = pattern.search(text)
        if match is not None:
            return engine.EngineFault("value", match.groupdict().get("value") or "", code)
    if any(pattern.search(text) for pattern in PLAN_FAULTS):
        planning = True  # some of them are only seen when the query starts
    if planning:
        return engine.EngineFault("plan", message[:600])
    return engine.EngineFault("internal", message[:600])


WORD = r"[^\s\"'()]+"
"""A value in the engine's words, which may stand in a structure: `CastError("value of 1 ...")`."""

VALUE_FAULTS = tuple(
    (re.compile(pattern.replace("WORD", WORD), re.DOTALL), code)
    for pattern, code in (
        (r"Cannot cast string '(?P<value>.*?)' to value of (?:Date|Timestamp|Time)", "100035"),
        (r"Error parsing timestamp from '(?P<value>.*?)'", "100035"),
        (r"Cannot cast string '(?P<value>.*?)' to value of (?:U?Int|Float|Decimal)", "100038"),
        (r"Cannot cast value '(?P<value>.*?)' to value of Boolean", "100037"),
        (r"Can't cast value (?P<value>WORD) to type", "100039"),
        (r"(?P<value>WORD) is too (?:large|small) to store in a Decimal", "100039"),
        (r"Overflow (?:happened )?on: (?P<value>[^\"')]+)", "100039"),
        (r"Cannot cast to Decimal\d+\([^)]*\)\. Overflowing on (?P<value>WORD)", "100039"),
        (r"value of (?P<value>WORD) is out of range U?Int\d+", "100039"),
        (r"Unable to parse date from (?P<value>-?\d+, -?\d+, -?\d+)", "100035"),
        (r"OverflowError\('(?P<value>date value) out of range", "100039"),
        (r"invalid Unicode scalar value: (?P<value>WORD)", "100039"),
        (r"Cannot cast \S+ value (?P<value>WORD) to \S+: converted value exceeds", "100039"),
        (r"Timestamp (?P<value>-?\d+) out of range", "100039"),
        (r"Compute error: (?P<value>Timestamp) out of range", "100039"),
        (r"overflow on abs\((?P<value>-?\d+)\)", "100039"),
        (r"(?P<value>Scalar subquery returned more than one row)", "090150"),
        (r"(?P<value>zero raised to a negative power) is undefined", "100058"),
        (r"(?:requested length|but got) (?P<value>\d+)(?: too large|\"|$)", "100078"),
        (r"Regular expression did not compile: Syntax\((?P<value>.*)\)", "100048"),
        (r"(?P<value>regex parse error:.*)", "100048"),
        (r"(?P<value>Compiled regex exceeds size limit|CompiledTooBig)", "100048"),
        (r"Regular expression did not compile: (?P<value>[^\n]*)", "100048"),
    )
)

PLAN_FAULTS = tuple(
    re.compile(pattern)
    for pattern in (
        r"This feature is not implemented",
        r"RecursionLimitExceeded",
        r"Optimizer rule '(?:scalar_subquery_to_join|decorrelate_predicate_subquery)' failed",
        r"\b__(?:correlated|scalar)_sq_\d+\b",
        r"must appear in the GROUP BY clause",
        r"to grouping function is not in grouping columns",
        r"^Error during planning|caused by\s+Error during planning",
    )
)


FOOTERS = pa.schema({"path": pa.string(), "schema": pa.binary()})  # type: ignore[arg-type]  # stubs want one value type


def _footers(paths: Sequence[str]) -> pa.RecordBatch:
    try:
        schemas = [ipc.encode_schema(_without_metadata(pq.read_schema(path))) for path in paths]
    except OSError as error:
        if "too deeply nested" in str(error):  # 100 levels: a shredded variant has two of each
            raise engine.EngineFault(
                "value", "data files of deeply nested columns", "000002"
            ) from None
        raise
    return pa.RecordBatch.from_arrays(
        [pa.array(paths, pa.string()), pa.array(schemas, pa.binary())], schema=FOOTERS
    )


def _without_metadata(schema: pa.Schema) -> pa.Schema:
    # Field ids stay, they are the fields' own; what writers leave beside is large and unread.
    return schema.remove_metadata()


def _register_function(
    context: Any, name: str, settings: engine.Settings, bounds: engine.QueryBounds
) -> None:
    zone = settings.timezone
    computed = lambda_kernels.of_name(name)
    if computed is None:
        kernel = kernels.kernel(name, zone=zone)
    else:
        opened = functools.partial(_opened, settings, bounds)
        kernel = lambda_kernels.kernel(*computed, opened, zone=zone)
    types = (list(kernel.arguments), kernel.result, kernel.volatility)
    if kernel.is_window:
        evaluator = functools.partial(_WholePartition, kernel.function)
        context.register_udwf(datafusion.udwf(evaluator, *types, name=name))
    else:
        engine_name = kernelforms.engine_name(name)
        context.register_udf(datafusion.udf(kernel.function, *types, name=engine_name))


class _WholePartition(user_defined.WindowEvaluator):
    """Computes a window function from all rows of a partition at once."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def evaluate_all(self, values: list[pa.Array[Any]], num_rows: int) -> pa.Array[Any]:
        computed: pa.Array[Any] = self._function(*values)
        return computed


@contextlib.contextmanager
def _opened(
    settings: engine.Settings, bounds: engine.QueryBounds, computed: lambda_kernels.Lambda
) -> Iterator[lambda_kernels.Evaluate]:
    """Open what returns a lambda's values over a batch, in the order of its rows.

    A thread of its own evaluates them: the caller's belongs to the library's runtime, which refuses
    a second query there. One partition needs no other thread of that runtime. The context has a
    pool of the query's size; the library cannot share the query's own.
    """
    with futures.ThreadPoolExecutor(max_workers=1, thread_name_prefix="lambda") as thread:
        context = functools.cache(lambda: _lambda_context(settings, bounds, computed))

        def values(batch: pa.RecordBatch) -> Any:
            return _values(context(), computed.text, batch)

        yield lambda batch: thread.submit(values, batch).result()


def _lambda_context(
    settings: engine.Settings, bounds: engine.QueryBounds, computed: lambda_kernels.Lambda
) -> Any:
    context = datafusion.SessionContext(
        _configured(dataclasses.replace(settings, partitions=1)),
        datafusion.RuntimeEnvBuilder()
        .with_disk_manager_disabled()
        .with_fair_spill_pool(bounds.memory_bytes),
    )
    for name in computed.functions:
        _register_function(context, name, settings, bounds)
    return context


def _values(context: Any, text: str, batch: pa.RecordBatch) -> Any:
    context.register_record_batches("elements", [[batch]])
    frame = context.sql_with_options(
        f"SELECT {text} AS value FROM elements",
        datafusion.SQLOptions()
        .with_allow_ddl(False)
        .with_allow_dml(False)
        .with_allow_statements(False),
    )
    columns = [each.column(0) for each in frame.collect()]
    context.deregister_table("elements")
    return pa.chunked_array(columns).combine_chunks()


def _register(context: Any, relation: engine.Relation, prefix: str, *, prunes: bool) -> list[str]:
    """Make relation known to context; return every name that this took.

    prunes: skip parts of files whose statistics exclude the query's conditions.
    """
    plain = len(relation.groups) == 1 and relation.rows is None
    if plain and _is_as_it_is(relation.groups[0]):
        _register_files(context, relation.name, relation.groups[0], prunes=prunes)
        return [relation.name]
    schema = pa.ipc.read_schema(pa.py_buffer(relation.schema))
    columns = ", ".join(engine.quoted(name) for name in schema.names)
    taken = [relation.name]
    parts = []
    for number, group in enumerate(relation.groups):
        name = f"{prefix}_{number}"
        _register_files(context, name, group, prunes=prunes)
        taken.append(name)
        parts.append(_group_text(context, group, name, columns, taken))
    if relation.rows is not None or not parts:
        rows = ipc.read_rows(relation.rows) if relation.rows is not None else schema.empty_table()
        if not parts:
            context.register_record_batches(relation.name, [_batches(rows)])
            return taken
        context.register_record_batches(f"{prefix}_rows", [_batches(rows)])
        taken.append(f"{prefix}_rows")
        parts.append(f'SELECT {columns} FROM "{prefix}_rows"')
    context.register_view(relation.name, context.sql(" UNION ALL ".join(parts)))
    return taken


def _is_as_it_is(group: engine.Group) -> bool:
    if group.row_column:
        return False
    return not (group.projection or group.position_deletes or group.equality_deletes)


def _batches(table: pa.Table) -> list[pa.RecordBatch]:
    return table.to_batches() or [pa.RecordBatch.from_pylist([], schema=table.schema)]


def _register_files(context: Any, name: str, group: engine.Group, *, prunes: bool) -> None:
    schema = pa.ipc.read_schema(pa.py_buffer(group.schema))
    # A plain path is a glob pattern: a folder called `[x]` would match no file, without an error.
    folder = Path(group.directory).as_uri() + "/"
    if prunes:
        context.register_listing_table(name, folder, schema=schema)
    else:
        context.register_parquet(name, folder, schema=schema, parquet_pruning=False)


def _group_text(
    context: Any, group: engine.Group, name: str, columns: str, taken: list[str]
) -> str:
    projection = ", ".join(
        expression
        if expression == engine.quoted(column)
        else f"{expression} AS {engine.quoted(column)}"
        for column, expression in group.projection
    )
    projection = projection or columns
    hidden = _columns_of_files(group)
    source = engine.quoted(name)
    if hidden:
        # Where no filter stands above the files, the engine may compute a projection apart from
        # them, and it cannot compute these functions there. Each row passes this filter. The
        # group's own projection stands above it: computed expressions would part the two.
        source = (
            '(SELECT *, input_file_name() AS "__path", file_row_index() AS "__at"'
            f' FROM {source}) AS "__read" WHERE "__at" >= 0'
        )
        projection = f"{projection}, {hidden}"
    if not group.position_deletes and not group.equality_deletes:
        text = f"SELECT {projection} FROM {source}"
        return f"SELECT {columns} FROM ({text})" if hidden else text
    text = f'SELECT {columns} FROM (SELECT {projection} FROM {source}) AS "__live"'
    if group.position_deletes:
        gone = f"{name}_positions"
        taken.append(gone)
        rows = deletes.read_positions(group)
        context.register_record_batches(gone, [_batches(rows)])
        text += (
            f' LEFT ANTI JOIN {engine.quoted(gone)} AS "__gone"'
            ' ON "__live"."__file" = "__gone"."file"'
            ' AND "__live"."__position" = "__gone"."position"'
        )
    for number, equality in enumerate(group.equality_deletes):
        gone = f"{name}_equal_{number}"
        taken.append(gone)
        rows = deletes.read_equal_rows(equality)
        context.register_record_batches(gone, [_batches(rows)])
        same = [
            f'("__live".{engine.quoted(ours)} IS NOT DISTINCT FROM "{gone}"."{theirs}")'
            for ours, theirs in equality.columns
        ]
        if equality.compares_list:
            same.append(f'("__live"."__list" IS NOT DISTINCT FROM "{gone}"."list")')
        if equality.compares_age:
            same.append(f'"__live"."__age" < "{gone}"."age"')
        text += f' LEFT ANTI JOIN "{gone}" ON {" AND ".join(same)}'
    return text


def _columns_of_files(group: engine.Group) -> str:
    """Return the columns, beside the group's own, by which its deletes find their rows."""
    # The library spells a folder in ways of its own; a file's name is the same in all of them.
    name = f'right("__path", {engine.NAME_LENGTH})'
    columns = []
    if group.row_column:
        assert group.projection, "the columns of the files, without the number of the row"
        number = f"substr({name}, {engine.NUMBER_FROM}, {engine.NUMBER_LENGTH})"
        columns.append(
            f"(arrow_cast({number}, 'Int64') * {engine.ROWS_OF_FILE} + \"__at\")"
            f" AS {engine.quoted(group.row_column)}"
        )
    if group.position_deletes:
        columns += [f'{name} AS "__file"', '"__at" AS "__position"']
    if any(equality.compares_list for equality in group.equality_deletes):
        columns.append(f'substr({name}, {engine.LIST_FROM}, {engine.NUMBER_LENGTH}) AS "__list"')
    if any(equality.compares_age for equality in group.equality_deletes):
        columns.append(f'substr({name}, {engine.AGE_FROM}, {engine.NUMBER_LENGTH}) AS "__age"')
    return ", ".join(columns)


def _explain(frame: Any, schema: pa.Schema, relations: Sequence[engine.Relation]) -> pa.RecordBatch:
    """Return the lines of a query's plans, without paths. A group has its relation's name."""

    def named(match: re.Match[str]) -> str:
        number = int(match[1])
        return relations[number].name if number < len(relations) else match[0]

    plans = (
        ("logical", frame.optimized_logical_plan().display_indent()),
        ("physical", frame.execution_plan().display_indent()),
    )
    lines = [
        (part, GROUPS.sub(named, PATHS.sub("...", line)))
        for part, text in plans
        for line in text.rstrip().split("\n")
    ]
    arrays = [pa.array(column, pa.string()) for column in zip(*lines, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)

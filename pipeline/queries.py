"""engine: the Spark SQL of a pipeline: transforms of its sources, and checks of its table.

A transform reads the rows of the sources as `source`, and those of earlier transforms by their
names. A check reads them too, and as `target` the table as it will be after the commit: nothing is
committed yet, so the rows that were just written stand beside what the table keeps.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any

from pipeline import errors, jobs, merging, progress, session, shredding, steps

_STATEMENTS = (
    "org.apache.spark.sql.catalyst.plans.logical.Command",
    "org.apache.spark.sql.catalyst.plans.logical.ParsedStatement",
)


@contextlib.contextmanager
def transformed(
    spark: session.Spark, load: jobs.Load, frame: Any, taken: steps.Steps
) -> Iterator[Any]:
    """Return the rows of a load's last transform. Queries may name them inside the block.

    frame: the rows of the sources. Raises BadArgument for a transform that is no SELECT or that
    Spark does not understand.
    """
    if not load.transforms and not load.checks:
        yield frame
        return
    named: list[str] = []
    try:
        frame.createOrReplaceTempView(jobs.SOURCE_VIEW)
        named.append(jobs.SOURCE_VIEW)
        for transform in load.transforms:
            name = f"transform {transform.name}"
            with taken.taking(name, announced=f"planning {name}"):
                frame = _selected(spark, name, transform.sql)
            frame.createOrReplaceTempView(transform.name)
            named.append(transform.name)
        yield frame
    finally:
        for name in named:
            with contextlib.suppress(Exception):
                spark.session.catalog.dropTempView(name)


def checked(
    spark: session.Spark,
    load: jobs.Load,
    frame: Any,
    basis: merging.Basis,
    *,
    say: progress.Say,
    taken: steps.Steps,
) -> tuple[jobs.CheckOutcome, ...]:
    """Return the results of a load's checks. frame: the rows that it writes.

    Raises CheckFailed for the first check with severity stop that returns a row.
    """
    if not load.checks:
        return ()
    results = []
    _target(spark, load, frame, basis).createOrReplaceTempView(jobs.TARGET_VIEW)
    try:
        for check in load.checks:
            name = f"check {check.name}"
            with taken.taking(name, announced=f"checking {check.name}") as counts:
                rows = _selected(spark, name, check.sql)
                first = rows.limit(jobs.ROWS_COUNTED_MAX).collect()
                counts.rows = len(first)
            texts = tuple(
                json.dumps(row.asDict(recursive=True), default=str, ensure_ascii=False)
                for row in first[: jobs.ROWS_SHOWN_MAX]
            )
            result = jobs.CheckOutcome(
                name=check.name, severity=check.severity, count=len(first), rows=texts
            )
            if first and check.severity == "stop":
                raise errors.CheckFailed(_sentence(result))
            if first:
                say(f"warning: {_sentence(result)}")
            results.append(result)
    finally:
        spark.session.catalog.dropTempView(jobs.TARGET_VIEW)
    return tuple(results)


def _sentence(result: jobs.CheckOutcome) -> str:
    more = "at least " if result.count == jobs.ROWS_COUNTED_MAX else ""
    counted = progress.counted(result.count, "row")
    return f"check {result.name} returns {more}{counted}, the first is {result.rows[0]}"


def _selected(spark: session.Spark, what: str, sql: str) -> Any:
    """Return the rows of a SELECT. Raises BadArgument for any other statement, and for a wrong one.

    what: the query's name, for the error.
    """
    try:
        plan = spark.parser().parsePlan(sql)
        if _has_statement(spark, plan) or not _is_query(spark, sql):
            raise errors.BadArgument(f"{what} is no SELECT")
        return spark.session.sql(sql)
    except Exception as error:
        if isinstance(error, errors.PipelineError) or session.thrown(error) is None:
            raise
        raise errors.BadArgument(f"{what}: {session.reason(error)}") from error


def _has_statement(spark: session.Spark, plan: Any) -> bool:
    """Return whether a parsed plan, or a part of it, does anything but return rows."""
    classes = [spark.jvm.java.lang.Class.forName(name) for name in _STATEMENTS]
    rest = [plan]
    while rest:
        node = rest.pop()
        if any(each.isInstance(node) for each in classes):
            return True
        children = node.children()
        rest += [children.apply(number) for number in range(children.size())]
    return False


def _is_query(spark: session.Spark, sql: str) -> bool:
    """Return whether a text that Spark parses is a query: CALL, for one, is not.

    Spark's own parser is asked, since Iceberg's takes any statement for a query.
    """
    try:
        spark.jvm.org.apache.spark.sql.execution.SparkSqlParser().parseQuery(sql.rstrip(" \t\r\n;"))
    except Exception as error:
        if (session.thrown(error) or ("", ""))[0] != "ParseException":
            raise
        return False
    return True


def _target(spark: session.Spark, load: jobs.Load, frame: Any, basis: merging.Basis) -> Any:
    """Return the rows that the table will have."""
    if load.mode == "replace" or basis.snapshot_id is None:
        return frame
    options = shredding.read_options(str(basis.table.schema().toString()))
    stored = spark.session.read.options(**options).table(load.table.quoted)
    stored = merging.without_files(stored, basis.rewritten)
    return stored.unionByName(merging.in_order(frame, stored), allowMissingColumns=True)

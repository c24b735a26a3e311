"""rule: EXPLAIN's answers: the engine's plan as Snowflake's table, text or JSON.

An operation is a node of the engine's logical plan under Snowflake's name where Snowflake has one.
What an operation costs is not in it: EXPLAIN plans a statement and does not run it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson


@dataclass(frozen=True, kw_only=True, slots=True)
class ScannedTable:
    """A table that the plan reads. path: its full name. note: a line of TEXT."""

    path: str
    files_in_all: int | None = None
    files: int | None = None
    size_bytes: int | None = None
    note: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanNode:
    """One operation. number: from 0, in the order of the plan. parent: its number, or None."""

    number: int
    parent: int | None
    depth: int
    operation: str
    objects: tuple[str, ...] = ()
    alias: str = ""
    expressions: tuple[str, ...] = ()
    scan: ScannedTable | None = None


COLUMNS: Final = (
    ("step", "fixed"),
    ("id", "fixed"),
    ("parentOperators", "text"),
    ("operation", "text"),
    ("objects", "text"),
    ("alias", "text"),
    ("expressions", "text"),
    ("partitionsTotal", "fixed"),
    ("partitionsAssigned", "fixed"),
    ("bytesAssigned", "fixed"),
)
"""Of EXPLAIN USING TABULAR."""


def steps(
    lines: Sequence[str],
    scans: Mapping[int, ScannedTable],
    *,
    columns: Sequence[str],
    verb: str = "",
    target: str = "",
) -> list[PlanNode]:
    """Return the operations of a logical plan.

    lines: one for each node, indented by two blanks for each level. scans: the tables by their
    numbers, which begin their names in the plan. columns: of the result. verb: the operation of a
    statement that writes, into target. The files of a table are counted where it is read first.
    """
    left = dict(scans)
    root = PlanNode(
        number=0,
        parent=None,
        depth=0,
        operation=verb or "Result",
        objects=(target,) if target else (),
        expressions=() if verb else tuple(columns),
    )
    listed = [root]
    above: list[tuple[int, PlanNode, str]] = []  # level, the step that stands for it, its alias
    for index, line in enumerate(lines):
        level = (len(line) - len(line.lstrip(" "))) // 2
        name, _, rest = line.strip().partition(":")
        rest = rest.strip()
        while above and above[-1][0] >= level:
            above.pop()
        parent, alias = (above[-1][1], above[-1][2]) if above else (root, "")
        if name == "SubqueryAlias":
            above.append((level, parent, _plain(rest)))
            continue
        if name == "Projection" and index == 0 and not verb:
            above.append((level, root, ""))
            continue
        if name == "Projection" and NAMED_APART.fullmatch(rest):
            above.append((level, parent, alias))
            continue
        if name not in CARRIERS:
            alias = ""
        step = _step(name, rest, number=len(listed), parent=parent, scans=left)
        if step.operation == "TableScan" and alias and alias.upper() != _last(step).upper():
            step = _with_alias(step, alias)
        listed.append(step)
        above.append((level, step, alias))
    return listed


def rows(listed: Sequence[PlanNode]) -> list[tuple[Any, ...]]:
    """Return the rows of EXPLAIN USING TABULAR."""
    total = _totals(listed)
    table: list[tuple[Any, ...]] = [(None, None, None, "GlobalStats", None, None, None, *total)]
    for step in listed:
        counts: tuple[Any, ...] = (None, None, None)
        if step.scan is not None:
            counts = (step.scan.files_in_all, step.scan.files, step.scan.size_bytes)
        table.append(
            (
                1,
                step.number,
                None if step.parent is None else f"[{step.parent}]",
                step.operation,
                ", ".join(step.objects) or None,
                step.alias or None,
                ", ".join(step.expressions) or None,
                *counts,
            )
        )
    return table


def text(listed: Sequence[PlanNode], physical: Sequence[str]) -> str:
    """Return EXPLAIN USING TEXT; physical: the lines of the engine's own plan, which follow."""
    names = ("partitionsTotal", "partitionsAssigned", "bytesAssigned")
    totals = zip(names, _totals(listed), strict=True)
    lines = ["GlobalStats:", *(f"    {name}={value}" for name, value in totals), "Operations:"]
    for step in listed:
        parts = [step.operation, *step.objects]
        parts += [f"as {step.alias}"] if step.alias else []
        parts += [", ".join(step.expressions)] if step.expressions else []
        scan = step.scan
        if scan is not None and scan.files is not None:
            counts = (scan.files_in_all, scan.files, scan.size_bytes)
            shown = ", ".join(f"{name}={n}" for name, n in zip(names, counts, strict=True))
            parts.append(f"{{{shown}}}")
        lines.append(f"1:{step.number}  {'     ' * step.depth}->{'  '.join(parts)}")
    notes = [step.scan.note for step in listed if step.scan is not None and step.scan.note]
    lines += list(dict.fromkeys(notes))
    return "\n".join([*lines, *(["Engine:", *physical] if physical else [])])


def json(listed: Sequence[PlanNode]) -> str:
    """Return EXPLAIN USING JSON."""
    in_all, assigned, size_bytes = _totals(listed)
    operations = []
    for step in listed:
        item: dict[str, Any] = {"id": step.number}
        if step.parent is not None:
            item["parentOperators"] = [step.parent]
        item["operation"] = step.operation
        if step.objects:
            item["objects"] = list(step.objects)
        if step.alias:
            item["alias"] = step.alias
        if step.expressions:
            item["expressions"] = list(step.expressions)
        if step.scan is not None and step.scan.files is not None:
            item["partitionsAssigned"] = step.scan.files
            item["partitionsTotal"] = step.scan.files_in_all
            item["bytesAssigned"] = step.scan.size_bytes
        operations.append(item)
    statistics = {
        "partitionsTotal": in_all,
        "partitionsAssigned": assigned,
        "bytesAssigned": size_bytes,
    }
    document = {"GlobalStats": statistics, "Operations": [operations]}
    return orjson.dumps(document).decode()


def _totals(listed: Sequence[PlanNode]) -> tuple[int, int, int]:
    scans = [step.scan for step in listed if step.scan is not None]
    return (
        sum(scan.files_in_all or 0 for scan in scans),
        sum(scan.files or 0 for scan in scans),
        sum(scan.size_bytes or 0 for scan in scans),
    )


def _step(
    name: str, rest: str, *, number: int, parent: PlanNode, scans: dict[int, ScannedTable]
) -> PlanNode:
    operation, expressions = OPERATIONS.get(name, name.replace(" ", "")), _listed(rest)
    objects: tuple[str, ...] = ()
    scan = None
    scanned = SCANNED.match(rest) if name == "TableScan" else None
    if name == "TableScan":
        read = PROJECTED.search(rest)
        expressions = _listed(read[1]) if read else ()
        if scanned is not None:
            use = int(scanned[1])
            scan = scans.get(use)
            objects = (scan.path if scan else scanned[2],)
            if scan is not None:
                scans[use] = ScannedTable(path=scan.path)
        else:
            operation = "ValuesClause"
    elif name.endswith(" Join") and rest:
        expressions = (f"joinKey: ({_plain(rest)})",)
    elif name == "Sort" and ", fetch=" in rest:
        operation = "SortWithLimit"
    elif name == "EmptyRelation":
        expressions = ()
    return PlanNode(
        number=number,
        parent=parent.number,
        depth=parent.depth + 1,
        operation=operation,
        objects=objects,
        expressions=expressions,
        scan=scan,
    )


def _with_alias(step: PlanNode, alias: str) -> PlanNode:
    return PlanNode(
        number=step.number,
        parent=step.parent,
        depth=step.depth,
        operation=step.operation,
        objects=step.objects,
        alias=alias.upper(),
        expressions=step.expressions,
        scan=step.scan,
    )


def _last(step: PlanNode) -> str:
    return step.objects[0].rpartition(".")[2] if step.objects else ""


def _listed(rest: str) -> tuple[str, ...]:
    """Return a list's members: its commas outside of brackets and quotes part them."""
    members, depth, start, quote = [], 0, 0, ""
    for index, char in enumerate(rest):
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'":
            quote = char
        elif char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
        elif char == "," and not depth:
            members.append(rest[start:index])
            start = index + 1
    members.append(rest[start:])
    return tuple(_plain(member.strip()) for member in members if member.strip())


def _plain(text: str) -> str:
    """Return an expression without the engine's marks of types and of its own names."""
    text = LITERAL.sub(lambda match: _literal(match[1]), text)
    return USE.sub("", NUMBERED.sub("", REPEATED.sub(r"\1.", text)))


def _literal(value: str) -> str:
    return "'" + value[1:-1].replace("'", "''") + "'" if value.startswith('"') else value


SCANNED: Final = re.compile(r"(\d+):(\S+)")
PROJECTED: Final = re.compile(r"projection=\[([^\]]*)\]")
LITERAL: Final = re.compile(
    r"\b(?:U?Int(?:8|16|32|64)|Float(?:32|64)|Boolean|(?:Large)?Utf8(?:View)?|Date32)"
    r"\((\"[^\"]*\"|[^()\"]*)\)"
)
REPEATED: Final = re.compile(r"(\w+#\d+)\.\1\.")
"""The alias before a name that columns of joined tables have apart (`sql.plan.naming`)."""
NAMED_APART: Final = re.compile(
    r"(?=.* AS )(?:(?P<a>[\w.#]+) AS (?P=a)|[\w.#]+)(?:, (?:(?P<b>[\w.#]+) AS (?P=b)|[\w.#]+))*"
)
"""A projection that only names columns so."""
NUMBERED: Final = re.compile(r"(?<=\w)#\d+\b")
"""The number that the dialect gives a name of FROM, to tell two of the same name apart."""
USE: Final = re.compile(r"\b\d+:(?=[A-Za-z_])")
"""The number of a table among those of a statement."""

CARRIERS: Final = frozenset({"Projection", "Filter", "TableScan", "SubqueryAlias"})
"""Nodes below which a name of FROM is still that of the table that is read."""

OPERATIONS: Final[Mapping[str, str]] = {
    "Inner Join": "InnerJoin",
    "Left Join": "LeftOuterJoin",
    "Right Join": "RightOuterJoin",
    "Full Join": "FullOuterJoin",
    "Cross Join": "CartesianJoin",
    "LeftSemi Join": "LeftSemiJoin",
    "RightSemi Join": "RightSemiJoin",
    "LeftAnti Join": "LeftAntiJoin",
    "RightAnti Join": "RightAntiJoin",
    "Union": "UnionAll",
    "WindowAggr": "WindowFunction",
    "Distinct": "Aggregate",
    "EmptyRelation": "ValuesClause",
    "Values": "ValuesClause",
    "Unnest": "Flatten",
}
"""Snowflake's names of operations. Other nodes have the engine's."""

"""What the kit's tests came to, compared with what is written down of them.

The lists are strict: a test that fails without standing in them, one that passes although it does,
and one that is missing are findings. So the score can neither fall nor rise unnoticed.
"""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

Status = Literal["passed", "failed", "skipped"]

REASON_CHARACTERS_MAX: Final = 300

HALVES: Final[Mapping[str, tuple[str, int]]] = {
    "catalog": ("org.apache.iceberg.rest.RESTCompatibilityKitCatalogTests", 106),
    "views": ("org.apache.iceberg.rest.RESTCompatibilityKitViewCatalogTests", 51),
}
"""Each half's class, and how many tests Iceberg 1.11.0 has in it."""

NOT_PASSING: Final[Mapping[tuple[str, str], str]] = {
    ("catalog", "testLoadTableWithMissingMetadataFile(Path)"): (
        "moves the metadata file with the local file system's own calls"
    ),
    ("views", "createViewWithCustomMetadataLocation()"): (
        "wants the metadata file at a path of the local file system that the client names,"
        " whatever the kit's flags say (docs/decisions/0014)"
    ),
}
"""Tests that run and fail, and why."""

_EMPTY: Final = "is for catalogs with a namespace of no levels"
_SLASH: Final = "the kit leaves out names with slashes for every REST catalog"
_NESTED: Final = "the kit leaves out nested namespaces for every REST catalog"
NEVER_RUN: Final[Mapping[tuple[str, str], str]] = {
    ("catalog", "createTableInUniqueLocation()"): "is disabled in the kit",
    ("catalog", "createAndDropEmptyNamespace()"): _EMPTY,
    ("catalog", "listNamespacesWithEmptyNamespace()"): _EMPTY,
    ("catalog", "listTablesInEmptyNamespace()"): _EMPTY,
    ("catalog", "namespacePropertiesOnEmptyNamespace()"): _EMPTY,
    ("views", "listViewsInEmptyNamespace()"): _EMPTY,
    ("catalog", "testDropNamespaceWithNestedNamespace()"): _NESTED,
    ("catalog", "testListNestedNamespaces()"): _NESTED,
    ("catalog", "testNamespaceWithSlash()"): _SLASH,
    ("catalog", "testTableNameWithSlash()"): _SLASH,
}
"""Tests that the kit skips whatever its flags say, and why."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What one test came to. reason: of a failure or a skip, in one line."""

    half: str
    name: str
    status: Status
    reason: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Score:
    """How many tests of a half passed, of those that ran."""

    passed: int
    ran: int


def read(folder: Path, half: str) -> list[Outcome]:
    """Return what JUnit's reports of one half say. A half that died has none, or part of them."""
    outcomes = []
    for path in sorted(folder.glob("TEST-*.xml")):
        for case in ElementTree.parse(path).getroot().iter("testcase"):
            status: Status = "passed"
            reason = ""
            for tag in ("failure", "error", "skipped"):
                node = case.find(tag)
                if node is not None:
                    status = "skipped" if tag == "skipped" else "failed"
                    reason = _in_one_line(node.text or node.get("message") or "")
                    break
            name = case.get("name") or ""
            outcomes.append(Outcome(half=half, name=name, status=status, reason=reason))
    return outcomes


def score(outcomes: Iterable[Outcome], half: str) -> Score:
    """Return the score of one half. A test without an outcome ran and did not pass."""
    statuses = [each.status for each in outcomes if each.half == half]
    size = max(len(statuses), HALVES[half][1])
    return Score(passed=statuses.count("passed"), ran=size - statuses.count("skipped"))


def findings(outcomes: Iterable[Outcome]) -> Iterator[str]:
    """Yield what is not as it is written down, one sentence each."""
    by_test = {(each.half, each.name): each for each in outcomes}
    for half, (_, size) in HALVES.items():
        count = sum(1 for each in by_test if each[0] == half)
        if count != size:
            yield f"{half}: {count} tests have an outcome, not {size}"
    for test, outcome in sorted(by_test.items()):
        shown = f"{outcome.half}: {outcome.name}"
        if outcome.status == "failed" and test not in NOT_PASSING:
            yield f"{shown} fails: {outcome.reason}"
        elif outcome.status == "passed" and test in NOT_PASSING:
            yield f"{shown} passes: take it off the list"
        elif (outcome.status == "skipped") is not (test in NEVER_RUN):
            yield f"{shown} {'is skipped' if outcome.status == 'skipped' else 'runs'}"
    for test in sorted((NOT_PASSING.keys() | NEVER_RUN.keys()) - by_test.keys()):
        yield f"{test[0]}: {test[1]} stands in a list and has no outcome"


def _in_one_line(text: str) -> str:
    lines = (line.strip() for line in text.splitlines())
    return " ".join(line for line in lines if line and not line.startswith("at "))[
        :REASON_CHARACTERS_MAX
    ]

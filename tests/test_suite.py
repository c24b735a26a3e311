"""What the commands run: `make test` leaves out tests whose marks name others that show the same,
and most tests with Spark and of campaigns; `make test-all`, which continuous integration runs,
leaves out none.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

from tests.kit.workers import ROOT, TESTS

MARK = "pytest.mark.further"
LEFT_OUT = ("further", "long", "clients", "cluster")
COSTLY = frozenset({"spark", "campaign"})
SMOKE = "smoke"


def marks_of(test: ast.FunctionDef | ast.AsyncFunctionDef) -> dict[str, ast.expr]:
    """Return the marks that a test itself has, not those of its cases, by their names."""
    decorators = {
        ast.unparse(each.func if isinstance(each, ast.Call) else each): each
        for each in test.decorator_list
    }
    return {
        name.removeprefix("pytest.mark."): each
        for name, each in decorators.items()
        if name.startswith("pytest.mark.")
    }


@functools.cache
def marks_by_test(path: Path) -> dict[str, dict[str, ast.expr]]:
    """Return the marks of each test of a file, its own and the file's, by the test's name."""
    body = ast.parse(path.read_text()).body
    of_file = {
        name: each.value
        for each in body
        if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == "pytestmark"
        for name in re.findall(r"pytest\.mark\.(\w+)", ast.unparse(each.value))
    }
    return {
        each.name: {**of_file, **marks_of(each)}
        for each in body
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
        and each.name.startswith("test_")
    }


def runs_if_costly(marks: dict[str, ast.expr]) -> bool:
    """Return whether `make test` runs a test, as far as its marks of costly ones say."""
    return not COSTLY & set(marks) or SMOKE in marks


def left_out() -> Iterator[tuple[str, list[str]]]:
    """Yield each test with the mark, and the tests that its mark names."""
    for path in sorted(TESTS.rglob("test_*.py")):
        if MARK not in path.read_text():
            continue
        place = path.relative_to(ROOT).as_posix()
        for name, marks in marks_by_test(path).items():
            if "further" in marks:
                mark = marks["further"]
                assert isinstance(mark, ast.Call), f"{place}::{name} does not say what shows it"
                shown_by = [ast.literal_eval(each) for each in mark.args]
                assert shown_by, f"{place}::{name} does not say what shows it"
                yield (
                    f"{place}::{name}",
                    [other if "::" in other else f"{place}::{other}" for other in shown_by],
                )


def test_what_make_test_leaves_out_is_shown_by_tests_that_it_runs() -> None:
    for test, shown_by in left_out():
        for other in shown_by:
            place, _, name = other.partition("::")
            marks = marks_by_test(ROOT / place).get(name)
            assert marks is not None, f"{test} names {other}, which is not there"
            assert not set(LEFT_OUT) & set(marks), f"{test} names {other}, which is left out too"
            assert runs_if_costly(marks), f"{test} names {other}, left out too"


def test_only_costly_tests_are_smoke_and_none_of_them_is_a_further_one() -> None:
    """There is one way to leave a test out of `make test`, and one to keep a costly one in it."""
    for path in sorted(TESTS.rglob("test_*.py")):
        if not re.search(rf"mark\.({'|'.join(COSTLY)}|{SMOKE})", path.read_text()):
            continue
        for name, marks in marks_by_test(path).items():
            test = f"{path.relative_to(ROOT).as_posix()}::{name}"
            if COSTLY & set(marks):
                assert "further" not in marks, f"{test} is left out as a costly one"
            else:
                assert SMOKE not in marks, f"{test} is in `make test` anyway"


def test_make_test_runs_each_client_s_snippet_of_the_readme() -> None:
    for name, marks in marks_by_test(TESTS / "contract" / "test_connect.py").items():
        assert not set(LEFT_OUT) & set(marks), f"{name} is left out"
        assert runs_if_costly(marks), f"{name} is left out"


def test_make_test_all_and_continuous_integration_leave_nothing_out() -> None:
    """Both are one recipe, whose expressions end with what it leaves out without ALL."""
    text = (ROOT / "Makefile").read_text()
    assert re.findall(r"^LESS = (.*)$", text, re.MULTILINE) == [
        "$(if $(ALL),,and not further and (smoke or not (spark or campaign)))"
    ]
    whole = re.search(r"^test-all: .*\n\t(.*)$", text, re.MULTILINE)
    assert whole is not None
    assert whole[1] == "@$(MAKE) --no-print-directory test ALL=1"
    recipe = text.partition("\ntest: ##")[2].partition("\n\n")[0]
    assert re.findall(r'-m "(.*?)"', recipe) == [
        "not clients and not long and not alone $(LESS)",
        "alone and not clients and not long $(LESS)",
    ]
    assert len(re.findall("and not further", text)) == 1
    assert (ROOT / ".ci" / "run").read_text().splitlines()[-1] == "exec make test ALL=1"

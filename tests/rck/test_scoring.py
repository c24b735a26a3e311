"""The kit's score: nothing in it changes unnoticed."""

from __future__ import annotations

import ast
import itertools
from pathlib import Path

import pytest

from tests.rck import __main__ as rck
from tests.rck import groups, scoring

TESTS = Path(__file__).parents[1]

REPORT = """<?xml version="1.0"?>
<testsuite tests="4">
  <testcase name="passes()"/>
  <testcase name="fails()"><failure message="no">
    org.opentest4j.AssertionFailedError: expected 1
    at java.base/java.lang.Thread.run(Thread.java:1)
  </failure></testcase>
  <testcase name="breaks()"><error message="broken"/></testcase>
  <testcase name="waits()"><skipped>is not for us</skipped></testcase>
</testsuite>
"""


def outcomes() -> dict[tuple[str, str], scoring.Outcome]:
    """Every test of the kit as it is written down."""
    statuses: dict[tuple[str, str], scoring.Status] = {
        **dict.fromkeys(scoring.NOT_PASSING, "failed"),
        **dict.fromkeys(scoring.NEVER_RUN, "skipped"),
    }
    for half, (_, size) in scoring.HALVES.items():
        missing = size - sum(1 for test in statuses if test[0] == half)
        statuses |= {(half, f"test{number}()"): "passed" for number in range(missing)}
    return {
        test: scoring.Outcome(half=test[0], name=test[1], status=status, reason="r")
        for test, status in statuses.items()
    }


def test_a_report_of_junit_is_read(tmp_path: Path) -> None:
    (tmp_path / "TEST-junit-jupiter.xml").write_text(REPORT)
    assert scoring.read(tmp_path, "views") == [
        scoring.Outcome(half="views", name="passes()", status="passed"),
        scoring.Outcome(
            half="views",
            name="fails()",
            status="failed",
            reason="org.opentest4j.AssertionFailedError: expected 1",
        ),
        scoring.Outcome(half="views", name="breaks()", status="failed", reason="broken"),
        scoring.Outcome(half="views", name="waits()", status="skipped", reason="is not for us"),
    ]
    assert scoring.read(tmp_path / "nothing", "views") == []


def test_outcomes_as_they_are_written_down_are_no_finding(
    capsys: pytest.CaptureFixture[str],
) -> None:
    all_outcomes = list(outcomes().values())
    assert list(scoring.findings(all_outcomes)) == []
    assert rck.report(all_outcomes) == 0
    ran = 147 - len(scoring.NOT_PASSING)
    assert capsys.readouterr().out.splitlines()[-1].endswith(f"total {ran}/147")


def test_a_test_that_fails_newly_is_a_finding() -> None:
    all_outcomes = outcomes()
    test = ("views", "test0()")
    all_outcomes[test] = scoring.Outcome(
        half="views", name="test0()", status="failed", reason="why"
    )
    assert list(scoring.findings(all_outcomes.values())) == ["views: test0() fails: why"]
    assert rck.report(list(all_outcomes.values())) == 1


def test_a_test_that_passes_against_the_list_is_a_finding() -> None:
    all_outcomes = outcomes()
    test = next(iter(scoring.NOT_PASSING))
    all_outcomes[test] = scoring.Outcome(half=test[0], name=test[1], status="passed")
    assert list(scoring.findings(all_outcomes.values())) == [
        f"{test[0]}: {test[1]} passes: take it off the list"
    ]


def test_a_test_that_is_skipped_or_runs_against_the_list_is_a_finding() -> None:
    all_outcomes = outcomes()
    skipped = next(iter(scoring.NEVER_RUN))
    all_outcomes[skipped] = scoring.Outcome(half=skipped[0], name=skipped[1], status="passed")
    all_outcomes["views", "test1()"] = scoring.Outcome(
        half="views", name="test1()", status="skipped"
    )
    assert sorted(scoring.findings(all_outcomes.values())) == [
        f"{skipped[0]}: {skipped[1]} runs",
        "views: test1() is skipped",
    ]


def test_a_half_that_died_lowers_the_score_and_is_a_finding() -> None:
    of_views = [each for each in outcomes().values() if each.half == "views"]
    assert scoring.score(of_views, "catalog") == scoring.Score(passed=0, ran=106)
    assert "catalog: 0 tests have an outcome, not 106" in set(scoring.findings(of_views))
    assert rck.report(of_views) == 1


def test_without_maven_the_kit_says_what_it_needs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BOATHOUSE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    monkeypatch.setattr(rck.java, "find", lambda _: None)
    assert rck.main([]) == 2
    assert capsys.readouterr().err == (
        "make rck: Maven fetches the kit, and there is no `mvn` on the PATH; install Maven 3\n"
    )


def test_each_test_of_the_kit_has_one_of_ours_or_is_the_clients_own() -> None:
    """101 and 50 are the methods of the two classes of Iceberg 1.11.0."""
    rows = (*groups.CATALOG, *groups.VIEWS, *groups.OF_THE_CLIENT)
    names = [name for row in rows for name in row.split()]
    assert len(names) == len(set(names)) == 101 + 50
    written = {name.partition("(")[0] for _, name in (*scoring.NOT_PASSING, *scoring.NEVER_RUN)}
    assert written <= set(names)


def test_each_of_our_tests_in_the_kits_place_exists() -> None:
    ours = set(itertools.chain(*groups.CATALOG.values(), *groups.VIEWS.values()))
    by_path: dict[str, set[str]] = {}
    for name in ours:
        path, _, function = name.partition("::")
        by_path.setdefault(path, set()).add(function)
    for path, functions in by_path.items():
        tree = ast.parse((TESTS / path).read_text())
        assert functions <= {
            node.name for node in tree.body if isinstance(node, ast.FunctionDef)
        }, path

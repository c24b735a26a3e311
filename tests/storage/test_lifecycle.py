"""What lifecycle rules say, without a store: AWS's days, filters, and the earliest of several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage import lifecycle

DAY_MS = 86_400_000
MIDNIGHT_MS = 20_000 * DAY_MS
HALF_DAY_MS = DAY_MS // 2


def rule(**fields: Any) -> lifecycle.LifecycleRule:
    return lifecycle.LifecycleRule(**{"id": "r", "is_enabled": True, "written": "filter", **fields})


def subject(key: str = "logs/a", **fields: Any) -> lifecycle.JudgedVersion:
    defaults: dict[str, Any] = {"size_bytes": 10, "tags": {}, "modified_at_ms": MIDNIGHT_MS}
    return lifecycle.JudgedVersion(key=key.encode(), **{**defaults, **fields})


def of(*rules: lifecycle.LifecycleRule, day_ms: int = DAY_MS) -> lifecycle.Lifecycle:
    return lifecycle.Lifecycle(rules, day_ms=day_ms)


@pytest.mark.parametrize(
    ("modified_at_ms", "at_ms"),
    [
        (MIDNIGHT_MS, MIDNIGHT_MS + 3 * DAY_MS),
        (MIDNIGHT_MS + 1, MIDNIGHT_MS + 4 * DAY_MS),
        (MIDNIGHT_MS + DAY_MS - 1, MIDNIGHT_MS + 4 * DAY_MS),
    ],
)
def test_days_end_at_the_next_midnight_as_on_aws(modified_at_ms: int, at_ms: int) -> None:
    due = of(rule(expiration_days=3)).expiration(subject(modified_at_ms=modified_at_ms))
    assert due == lifecycle.Due(at_ms=at_ms, rule_id="r")


def test_a_shorter_day_shortens_days_and_their_beginnings_and_no_date() -> None:
    rules = of(rule(expiration_days=3), day_ms=10)
    assert rules.expiration(subject(modified_at_ms=101)) == lifecycle.Due(at_ms=140, rule_id="r")
    dated = of(rule(expiration_at_ms=MIDNIGHT_MS), day_ms=10)
    assert dated.expiration(subject(modified_at_ms=101)) == lifecycle.Due(
        at_ms=MIDNIGHT_MS, rule_id="r"
    )


def test_of_several_rules_the_earliest_counts_whatever_their_order() -> None:
    rules = [
        rule(id="ten", expiration_days=10, prefix="logs/"),
        rule(id="two", expiration_days=2, prefix=""),
        rule(id="date", expiration_at_ms=MIDNIGHT_MS + 5 * DAY_MS, prefix="logs/a"),
        rule(id="off", expiration_days=1, is_enabled=False),
        rule(id="other", expiration_days=1, prefix="tmp/"),
    ]
    for ordered in (rules, rules[::-1]):
        due = of(*ordered).expiration(subject())
        assert due == lifecycle.Due(at_ms=MIDNIGHT_MS + 2 * DAY_MS, rule_id="two")
    assert of(rules[3], rules[4]).expiration(subject()) is None


@pytest.mark.parametrize(
    ("fields", "applies"),
    [
        ({}, True),
        ({"prefix": "logs/"}, True),
        ({"prefix": "logs/a"}, True),
        ({"prefix": "logs/ab"}, False),
        ({"prefix": "Logs/"}, False),
        ({"tags": (("a", "1"),)}, True),
        ({"tags": (("a", "1"), ("b", "2"))}, True),
        ({"tags": (("a", "2"),)}, False),
        ({"tags": (("a", "1"), ("c", "3"))}, False),
        ({"size_greater_than": 9}, True),
        ({"size_greater_than": 10}, False),
        ({"size_less_than": 11}, True),
        ({"size_less_than": 10}, False),
        ({"size_greater_than": 9, "size_less_than": 11}, True),
    ],
)
def test_a_filter_asks_for_prefix_tags_and_sizes_all_of_them(
    fields: dict[str, Any], applies: bool
) -> None:
    due = of(rule(expiration_days=1, **fields)).expiration(subject(tags={"a": "1", "b": "2"}))
    assert (due is not None) is applies


def test_a_noncurrent_version_goes_days_after_the_version_that_followed_it() -> None:
    rules = of(rule(noncurrent_days=2))

    def kept(now_ms: int) -> int | None:
        return rules.noncurrent_kept(
            subject(), noncurrent_since_ms=MIDNIGHT_MS + 1, newer=0, now_ms=now_ms
        )

    assert kept(MIDNIGHT_MS + 3 * DAY_MS - 1) is None
    assert kept(MIDNIGHT_MS + 3 * DAY_MS) == 0
    assert of(rule(expiration_days=1)).noncurrent_kept(
        subject(), noncurrent_since_ms=0, newer=0, now_ms=MIDNIGHT_MS
    ) is None  # fmt: skip


def test_newer_noncurrent_versions_are_kept_whatever_their_age() -> None:
    rules = of(
        rule(noncurrent_days=1, newer_noncurrent=5), rule(noncurrent_days=9, newer_noncurrent=2)
    )

    def kept(newer: int, days: int) -> int | None:
        now_ms = MIDNIGHT_MS + days * DAY_MS
        return rules.noncurrent_kept(
            subject(), noncurrent_since_ms=MIDNIGHT_MS, newer=newer, now_ms=now_ms
        )

    assert [kept(newer, 1) for newer in (4, 5, 6)] == [None, 5, 5]
    assert [kept(newer, 9) for newer in (1, 2, 5)] == [None, 2, 2]


@pytest.mark.parametrize(
    ("fields", "days", "goes"),
    [
        ({"removes_markers": True}, 0, True),
        ({"removes_markers": False}, 9, False),
        ({"expiration_days": 2}, 1, False),
        ({"expiration_days": 2}, 2, True),
        ({"noncurrent_days": 1}, 9, False),
        ({"expiration_days": 1, "tags": (("a", "1"),)}, 9, False),
        ({"expiration_days": 1, "size_less_than": 5}, 9, False),
        ({"removes_markers": True, "prefix": "tmp/"}, 9, False),
    ],
)
def test_a_lone_delete_marker_goes_at_once_or_with_an_expiration(
    fields: dict[str, Any], days: int, goes: bool
) -> None:
    marker = subject(is_marker=True, size_bytes=0)
    now_ms = MIDNIGHT_MS + days * DAY_MS
    assert of(rule(**fields)).removes_marker(marker, now_ms=now_ms) is goes


def test_an_upload_is_aborted_days_after_its_beginning() -> None:
    rules = of(rule(id="a", abort_days=7), rule(id="b", abort_days=2, prefix="logs/"))
    noon_ms = MIDNIGHT_MS + HALF_DAY_MS
    assert rules.abort(b"logs/x", initiated_at_ms=noon_ms) == lifecycle.Due(
        at_ms=MIDNIGHT_MS + 3 * DAY_MS, rule_id="b"
    )
    assert rules.abort(b"x", initiated_at_ms=MIDNIGHT_MS) == lifecycle.Due(
        at_ms=MIDNIGHT_MS + 7 * DAY_MS, rule_id="a"
    )
    assert of(rule(expiration_days=1)).abort(b"x", initiated_at_ms=0) is None


def test_a_walk_enters_each_prefix_once() -> None:
    rules = of(
        rule(prefix="b/c"), rule(prefix="b/"), rule(prefix="a"), rule(prefix="b/"), rule(prefix="c")
    )
    assert rules.prefixes() == (b"a", b"b/", b"c")
    assert of(rule(prefix="a"), rule()).prefixes() == (b"",)
    assert of(rule(is_enabled=False)).prefixes() == ()


CLASSES = ("STANDARD_IA", "INTELLIGENT_TIERING", "ONEZONE_IA", "GLACIER_IR")
classes = st.sampled_from(CLASSES)
fields = st.fixed_dictionaries(
    {
        "is_enabled": st.booleans(),
        "prefix": st.sampled_from([None, "", "l", "logs/", "logs/a", "x"]),
        "tags": st.sampled_from([(), (("a", "1"),), (("b", "2"), ("a", "1")), (("c", "3"),)]),
        "size_greater_than": st.sampled_from([None, 0, 10]),
        "size_less_than": st.sampled_from([None, 10, 11]),
        "expiration_days": st.none() | st.integers(1, 4),
        "expiration_at_ms": st.none() | st.sampled_from([0, 400, 10_000]),
        "removes_markers": st.sampled_from([None, True, False]),
        "noncurrent_days": st.none() | st.integers(1, 4),
        "newer_noncurrent": st.none() | st.integers(1, 3),
        "transitions": st.lists(
            st.builds(lifecycle.Transition, storage_class=classes, days=st.integers(0, 4))
            | st.builds(
                lifecycle.Transition, storage_class=classes, at_ms=st.sampled_from([0, 400])
            ),
            max_size=2,
        ).map(tuple),
        "noncurrent_transitions": st.lists(
            st.builds(
                lifecycle.NoncurrentTransition,
                storage_class=classes,
                days=st.integers(0, 4),
                newer=st.none() | st.integers(1, 3),
            ),
            max_size=2,
        ).map(tuple),
    }
)


AHEAD = {
    "STANDARD_IA": ("INTELLIGENT_TIERING", "ONEZONE_IA", "GLACIER_IR"),
    "INTELLIGENT_TIERING": ("ONEZONE_IA", "GLACIER_IR"),
    "ONEZONE_IA": (),
    "GLACIER_IR": (),
}
"""Where AWS's lifecycle moves objects of a class, archives left out; from others anywhere."""


@given(
    st.lists(fields, max_size=6),
    st.sampled_from(["logs/a", "lo", "x", "q"]),
    st.sampled_from([{}, {"a": "1"}, {"a": "1", "b": "2"}]),
    st.sampled_from([0, 10, 11, 131_071, 131_072]),
    st.integers(0, 4),
    st.booleans(),
    st.sampled_from(["STANDARD", "REDUCED_REDUNDANCY", *CLASSES]),
)
def test_arranged_rules_say_what_the_rules_say_one_by_one(
    listed: list[dict[str, Any]],
    key: str,
    tags: dict[str, str],
    size_bytes: int,
    newer: int,
    is_marker: bool,
    storage_class: str,
) -> None:
    rules = [rule(id=str(number), **each) for number, each in enumerate(listed)]
    version = subject(
        key,
        tags=tags,
        size_bytes=size_bytes,
        modified_at_ms=105,
        is_marker=is_marker,
        storage_class=storage_class,
    )
    applying = [
        each
        for each in rules
        if each.is_enabled
        and key.startswith(each.prefix or "")
        and (not each.tags or (not is_marker and set(each.tags) <= set(tags.items())))
        and (
            each.size_greater_than is None
            or (not is_marker and size_bytes > each.size_greater_than)
        )
        and (each.size_less_than is None or (not is_marker and size_bytes < each.size_less_than))
    ]

    def after(days: int) -> int:
        return (105 + days * 100 + 99) // 100 * 100

    moments = [
        each.expiration_at_ms if each.expiration_days is None else after(each.expiration_days)
        for each in applying
        if each.expiration_days is not None or each.expiration_at_ms is not None
    ]
    arranged = of(*rules, day_ms=100)
    due = arranged.expiration(version)
    assert (None if due is None else due.at_ms) == min(moments, default=None)
    for now_ms in (105, 300, 500, 10_000):
        assert arranged.removes_marker(version, now_ms=now_ms) is (
            any(each.removes_markers for each in applying)
            or any(moment <= now_ms for moment in moments)
        )
        kept = [
            each.newer_noncurrent or 0
            for each in applying
            if each.noncurrent_days
            and after(each.noncurrent_days) <= now_ms
            and (each.newer_noncurrent or 0) <= newer
        ]
        assert arranged.noncurrent_kept(
            version, noncurrent_since_ms=105, newer=newer, now_ms=now_ms
        ) == min(kept, default=None)

    if is_marker:
        return  # the sweep asks for no move of a delete marker
    moving = [
        each
        for each in applying
        if size_bytes >= 131_072
        or each.size_greater_than is not None
        or each.size_less_than is not None
    ]
    ahead = AHEAD.get(storage_class, CLASSES)
    for now_ms in (105, 300, 500, 10_000):
        targets = [
            move.storage_class
            for each in moving
            for move in each.transitions
            if (move.at_ms if move.days is None else after(move.days)) <= now_ms
        ]
        assert arranged.transition(version, now_ms=now_ms) == max(
            (each for each in targets if each in ahead), key=CLASSES.index, default=None
        )
        moves = [
            (CLASSES.index(move.storage_class), -(move.newer or 0))
            for each in moving
            for move in each.noncurrent_transitions
            if move.storage_class in ahead
            and after(move.days) <= now_ms
            and (move.newer or 0) <= newer
        ]
        move = arranged.noncurrent_transition(
            version, noncurrent_since_ms=105, newer=newer, now_ms=now_ms
        )
        assert (None if move is None else (CLASSES.index(move.storage_class), -move.kept)) == max(
            moves, default=None
        )


def test_a_thousand_rules_of_one_selection_cost_what_the_first_of_them_costs() -> None:
    rules = [rule(id=str(number), expiration_days=1 + number) for number in range(1000)]
    assert of(*rules).cost == 2
    tagged = [rule(id=str(n), tags=(("k", str(n)),), expiration_days=1) for n in range(1000)]
    assert of(*tagged).cost == 1 + lifecycle.TAGS_MAX
    apart = [rule(id=str(n), prefix=f"{n:04}/", expiration_days=1) for n in range(1000)]
    assert of(*apart).cost == 2
    moves = tuple(lifecycle.Transition(storage_class=each, days=9) for each in CLASSES)
    assert of(*(rule(id=str(n), transitions=moves) for n in range(1000))).cost == 1 + 1 + 4


def test_a_key_arranges_the_rules_of_its_own_prefixes_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A request that finds a thousand rules not decoded does not arrange all of them."""
    arranged: list[str | None] = []
    group = lifecycle._group

    def count(rules: Sequence[lifecycle.LifecycleRule]) -> lifecycle._Group:
        arranged.extend(each.prefix for each in rules)
        return group(rules)

    monkeypatch.setattr(lifecycle, "_group", count)
    rules = of(*(rule(id=str(n), prefix=f"{n:04}/", expiration_days=1) for n in range(1000)))
    assert (
        rules.expiration(
            lifecycle.JudgedVersion(key=b"0007/a", size_bytes=1, tags={}, modified_at_ms=0)
        )
        is not None
    )
    assert rules.abort(b"0007/b", initiated_at_ms=0) is None
    assert arranged == ["0007/"]

"""Which name may have been meant by one that is unknown."""

from __future__ import annotations

import time

import pytest

from sql.dialect import hints


@pytest.mark.parametrize(
    ("name", "candidates", "expected"),
    [
        ("CUSTMER", ["ID", "CUSTOMER", "AMOUNT"], "CUSTOMER"),
        ("CUSTOMER_ID", ["customer_id"], "customer_id"),
        ("X", ["ID", "CUSTOMER"], None),
        ("TOTAL", [], None),
        ("A" * 81, ["A" * 80], None),
        ("A" * 80, ["A" * 81], None),
    ],
)
def test_near_names_what_differs_in_few_letters(
    name: str, candidates: list[str], expected: str | None
) -> None:
    assert hints.near(name, candidates) == expected


def test_near_looks_at_a_bounded_number_of_names() -> None:
    many = [f"COLUMN_WITH_A_LONG_NAME_THAT_ALL_OF_THEM_SHARE_{index}" for index in range(20_000)]
    started = time.thread_time()

    assert hints.near("CUSTMER", [*many, "CUSTOMER"]) is None
    assert hints.near("COLUMN_WITH_A_LONG_NAME_THAT_ALL_OF_THEM_SHARE_X", many) is not None

    assert time.thread_time() - started < 1

"""Documents of staged files: how values are written as JSON."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import pytest

from sql import staged_documents

NUMBER = decimal.Decimal


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (NUMBER("1234567890123456789.1234567891"), "1234567890123456789.1234567891"),
        (NUMBER("12345678901234567890123456789012345678"), "1234567890" * 3 + "12345678"),
        (NUMBER("1.00"), "1"),
        (NUMBER("1.50"), "1.50"),
        (10**30, "1" + "0" * 30),
        (True, "true"),
        ({"a": [None, 'é"'], "b": b"\x01\xff"}, '{"a":[null,"é\\""],"b":"01FF"}'),
        (datetime.date(2024, 1, 2), '"2024-01-02"'),
    ],
)
def test_values_are_written_with_all_their_digits(value: Any, text: str) -> None:
    assert staged_documents.dumps(value) == text


@pytest.mark.parametrize("text", ["1E+999999999", "1E-999999999", "7" * 10_000])
def test_a_number_is_written_as_it_was_read_whatever_its_size(text: str) -> None:
    assert staged_documents.dumps(staged_documents.loads(text)) == text

"""The Range header: RFC 9110, section 14, and what S3 makes of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage import byteranges, errors
from storage.model import ByteRange


@pytest.mark.parametrize(
    ("header", "size_bytes", "start", "stop"),
    [
        ("bytes=0-0", 10, 0, 1),
        ("bytes=0-9", 10, 0, 10),
        ("bytes=0-99", 10, 0, 10),
        ("bytes=4-", 10, 4, 10),
        ("bytes=9-9", 10, 9, 10),
        ("bytes=-1", 10, 9, 10),
        ("bytes=-10", 10, 0, 10),
        ("bytes=-99", 10, 0, 10),
        ("bytes=-262144", 5, 0, 5),
        ("bytes=5-18446744073709551615", 10, 5, 10),
        (f"bytes=5-{'9' * 4000}", 10, 5, 10),
        (f"bytes=-{2**64 - 1}", 10, 0, 10),
        (f"bytes={'0' * 30}5-6", 10, 5, 7),
        ("Bytes=2-3", 10, 2, 4),
        (" bytes = 2 - 3 ", 10, 2, 4),
    ],
)
def test_parse_a_single_range_gives_its_slice(
    header: str, size_bytes: int, start: int, stop: int
) -> None:
    assert byteranges.parse(header, size_bytes) == ByteRange(start=start, stop=stop)


@pytest.mark.parametrize(
    "header",
    ["bytes=0-1,3-4", "bytes=", "bytes=-", "bytes=a-b", "items=0-1", "0-1", "", "bytes=5-4",
     "bytes=--1", "bytes=1-2-3", "bytes=٣-٤", f"bytes={'9' * 30}-5"],
)  # fmt: skip
def test_parse_what_is_no_single_byte_range_means_the_whole_body(header: str) -> None:
    assert byteranges.parse(header, 10) is None


@pytest.mark.parametrize(
    ("header", "size_bytes"),
    [
        ("bytes=10-", 10),
        ("bytes=10-11", 10),
        ("bytes=-0", 10),
        ("bytes=0-0", 0),
        ("bytes=-5", 0),
        (f"bytes={'9' * 30}-", 10),
        (f"bytes={2**64 - 1}-{2**64 - 1}", 10),
    ],
)
def test_parse_a_range_outside_the_body_is_refused_with_its_size(
    header: str, size_bytes: int
) -> None:
    with pytest.raises(errors.RangeNotSatisfiable) as caught:
        byteranges.parse(header, size_bytes)
    assert caught.value.fields == {"size_bytes": size_bytes, "requested": header}


@given(st.text(max_size=30), st.integers(0, 100))
def test_parse_garbage_gives_a_slice_of_the_body_or_the_one_error(
    header: str, size_bytes: int
) -> None:
    for text in (header, "bytes=" + header):
        try:
            byte_range = byteranges.parse(text, size_bytes)
        except errors.RangeNotSatisfiable:
            continue
        assert byte_range is None or 0 <= byte_range.start < byte_range.stop <= size_bytes

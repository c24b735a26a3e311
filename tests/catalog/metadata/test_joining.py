"""Bytes joined in steps are the bytes joined at once."""

from __future__ import annotations

import pytest

from catalog.metadata import joining


@pytest.mark.parametrize("step_bytes", [1, 2, 3, 7, 100])
@pytest.mark.parametrize(
    "parts",
    [
        [],
        [b""],
        [b"a"],
        [b"abcdefgh"],
        [b"[", b"abcdefghijkl", b"", b",", memoryview(b"mnopq"), b"]"],
        [b"a", b"b", b"c", b"d", b"e", b"f", b"g", b"h", b"ijk"],
    ],
)
def test_parts_joined_in_steps_are_what_joining_at_once_gives(
    monkeypatch: pytest.MonkeyPatch, parts: list[joining.Part], step_bytes: int
) -> None:
    monkeypatch.setattr(joining, "STEP_BYTES", step_bytes)
    assert joining.joined(parts) == b"".join(parts)

"""Digests against published check values, and CRCs that combine."""

from __future__ import annotations

import base64
import hashlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage import checksums

CHECK = b"123456789"
KNOWN = {
    "crc32": "cbf43926",
    "crc32c": "e3069283",
    "crc64nvme": "ae8b14860a799888",
    "md5": "25f9e794323b453885f5181f1b624d0b",
    "sha1": "f7c3bc1d808e04732adf679965ccc34ca7ae3441",
    "sha256": "15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225",
}


@pytest.mark.parametrize("algorithm", sorted(KNOWN))
def test_digest_gives_the_published_check_value(algorithm: str) -> None:
    assert checksums.digest(CHECK, (algorithm,))[algorithm].hex() == KNOWN[algorithm]


def test_every_algorithm_has_a_check_value() -> None:
    assert frozenset(KNOWN) == checksums.ALGORITHMS


def test_crc64nvme_is_always_among_the_digests() -> None:
    assert set(checksums.digest(CHECK)) == {"crc64nvme"}
    assert checksums.crc64nvme(CHECK) == int(KNOWN["crc64nvme"], 16)


def test_an_unknown_algorithm_is_refused() -> None:
    with pytest.raises(ValueError, match="xxhash"):
        checksums.Digester({"xxhash"})


@given(st.lists(st.binary(max_size=50), max_size=6))
@settings(deadline=None)
def test_piece_by_piece_equals_all_at_once_and_crcs_combine(pieces: list[bytes]) -> None:
    whole = b"".join(pieces)
    digester = checksums.Digester(checksums.ALGORITHMS)
    for piece in pieces:
        digester.update(piece)
    once = checksums.digest(whole, checksums.ALGORITHMS)
    assert digester.digests() == once
    for algorithm in checksums.CRC_BYTES:
        each = [
            (int.from_bytes(checksums.digest(piece, (algorithm,))[algorithm], "big"), len(piece))
            for piece in pieces
        ]
        assert checksums.combine(algorithm, each) == int.from_bytes(once[algorithm], "big")
        texts = [
            (checksums.to_text(crc.to_bytes(checksums.CRC_BYTES[algorithm], "big")), length)
            for crc, length in each
        ]
        assert checksums.combine_text(algorithm, texts) == checksums.to_text(once[algorithm])


def test_a_composite_checksum_is_the_digest_of_the_digests_and_their_number() -> None:
    parts = [hashlib.sha256(data).digest() for data in (b"one", b"two")]
    expected = base64.b64encode(hashlib.sha256(b"".join(parts)).digest()).decode() + "-2"
    texts = [base64.b64encode(part).decode() for part in parts]
    assert checksums.composite_text("sha256", texts) == expected

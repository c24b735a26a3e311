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
    "sha512": "d9e6762dd1c8eaf6d61b3c6192fc408d4d6d5f1176d0c29169bc24e71c3f274a"
    "d27fcd5811b313d681f7e55ec02d73d499c95455b6b5bb503acf574fba8ffe85",
    "xxhash64": "8cb841db40e6ae83",
}
KNOWN_OF_NOTHING = {
    "xxhash64": "ef46db3751d8e999",
    "xxhash3": "2d06800538d394c2",
    "xxhash128": "99aa06d3014798d86001c324468d497f",
}
KNOWN_OF_ABC = {"xxhash3": "78af5f94892f3950", "xxhash128": "06b05ab6733a618578af5f94892f3950"}


@pytest.mark.parametrize("algorithm", sorted(KNOWN))
def test_digest_gives_the_published_check_value(algorithm: str) -> None:
    assert checksums.digest(CHECK, (algorithm,))[algorithm].hex() == KNOWN[algorithm]


@pytest.mark.parametrize("algorithm", sorted(KNOWN_OF_NOTHING))
def test_an_xxhash_of_nothing_is_the_published_one(algorithm: str) -> None:
    assert checksums.digest(b"", (algorithm,))[algorithm].hex() == KNOWN_OF_NOTHING[algorithm]
    digester = checksums.Digester((algorithm,))
    assert digester.digests()[algorithm].hex() == KNOWN_OF_NOTHING[algorithm]


@pytest.mark.parametrize("algorithm", sorted(KNOWN_OF_ABC))
def test_an_xxhash_of_three_letters_is_the_published_one(algorithm: str) -> None:
    assert checksums.digest(b"abc", (algorithm,))[algorithm].hex() == KNOWN_OF_ABC[algorithm]


def test_every_algorithm_has_a_check_value() -> None:
    assert frozenset({*KNOWN, *KNOWN_OF_ABC}) == checksums.ALGORITHMS


def test_every_algorithm_takes_views_of_a_buffer() -> None:
    """A thread that reads a body from its socket has it in one buffer."""
    buffer = bytearray(CHECK + b"...")
    view = memoryview(buffer)[: len(CHECK)]
    expected = checksums.digest(CHECK, checksums.ALGORITHMS)
    assert checksums.digest(view, checksums.ALGORITHMS) == expected
    digester = checksums.Digester(checksums.ALGORITHMS)
    digester.update(view)
    assert digester.digests() == expected


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

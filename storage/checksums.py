"""rule: the digests of a body, computed once, while its bytes are in memory.

CRC32 comes from zlib, CRC32C and CRC64NVME from awscrt (ten times faster than any other library),
the XXHashes, with the seed 0, from awscrt too, the rest from hashlib. The CRCs of pieces combine
into the CRC of the whole, so a body of segments is never read again. Raw digests are big-endian
bytes, as S3 shows them in base64.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from awscrt import checksums as crt

from storage import errors

MD5 = "md5"
CRC64NVME = "crc64nvme"
CRC_BYTES = {"crc32": 4, "crc32c": 4, CRC64NVME: 8}
"""Algorithms that combine over pieces, and the length of their digests."""
_HASHES: dict[str, Any] = {
    MD5: hashlib.md5,
    "sha1": hashlib.sha1,
    "sha256": hashlib.sha256,
    "sha512": hashlib.sha512,
}
_XXHASHES: dict[str, tuple[Callable[[], crt.XXHash], Callable[[Any], bytes]]] = {
    "xxhash64": (crt.XXHash.new_xxhash64, crt.XXHash.compute_xxhash64),
    "xxhash3": (crt.XXHash.new_xxhash3_64, crt.XXHash.compute_xxhash3_64),
    "xxhash128": (crt.XXHash.new_xxhash3_128, crt.XXHash.compute_xxhash3_128),
}
"""Functions that begin a digest, and that return the digest of one value. Both take bytes alone."""
ALGORITHMS = frozenset(CRC_BYTES) | frozenset(_HASHES) | frozenset(_XXHASHES)

_CRCS: dict[str, Callable[[Any, int], int]] = {
    "crc32": zlib.crc32,
    "crc32c": crt.crc32c,
    CRC64NVME: crt.crc64nvme,
}
_COMBINERS: dict[str, Callable[[int, int, int], int]] = {
    "crc32": crt.combine_crc32,
    "crc32c": crt.combine_crc32c,
    CRC64NVME: crt.combine_crc64nvme,
}


class Digester:
    """Several digests of one body at once. CRC64NVME is always among them."""

    def __init__(self, algorithms: Iterable[str]) -> None:
        wanted = {*algorithms, CRC64NVME}
        unknown = wanted - ALGORITHMS
        if unknown:
            raise ValueError(f"unknown digest algorithms: {sorted(unknown)}")
        self._crcs = {name: 0 for name in sorted(wanted) if name in CRC_BYTES}
        self._hashes = {
            name: hashlib.new(name, usedforsecurity=False) for name in _HASHES if name in wanted
        }
        self._xxhashes = {name: new() for name, (new, _) in _XXHASHES.items() if name in wanted}

    def update(self, data: bytes | memoryview) -> None:
        """Add the next bytes of the body."""
        for name, crc in self._crcs.items():
            self._crcs[name] = _CRCS[name](data, crc)
        for state in self._hashes.values():
            state.update(data)
        for xxhash in self._xxhashes.values():
            xxhash.update(bytes(data))

    def digests(self) -> dict[str, bytes]:
        """Return the raw digests of the bytes so far."""
        digest_by_algorithm = {
            name: crc.to_bytes(CRC_BYTES[name], "big") for name, crc in self._crcs.items()
        }
        digest_by_algorithm.update((name, state.digest()) for name, state in self._hashes.items())
        for name, xxhash in self._xxhashes.items():
            digest_by_algorithm[name] = xxhash.finalize()
        return digest_by_algorithm


def digest(data: bytes | memoryview, algorithms: Iterable[str] = ()) -> dict[str, bytes]:
    """Return the raw digests of data, CRC64NVME always among them."""
    digests = {CRC64NVME: crt.crc64nvme(data).to_bytes(CRC_BYTES[CRC64NVME], "big")}
    for name in algorithms:
        if name in _HASHES:
            digests[name] = _HASHES[name](data, usedforsecurity=False).digest()
        elif name in CRC_BYTES:
            digests[name] = _CRCS[name](data, 0).to_bytes(CRC_BYTES[name], "big")
        elif name in _XXHASHES:
            digests[name] = _XXHASHES[name][1](bytes(data))
        else:
            raise ValueError(f"unknown digest algorithm: {name}")
    return digests


def check_stored(digests: Mapping[str, bytes], crc: int, key: str) -> None:
    """Raise BodyDamaged if bytes that were read have another CRC64NVME than when they were stored.

    A copy would otherwise get a checksum of its own, and the damage could not be found any more.
    """
    if int.from_bytes(digests[CRC64NVME], "big") != crc:
        raise errors.BodyDamaged(f"the stored bytes of {key!r} differ from its checksum", key=key)


def crc64nvme(data: bytes | memoryview) -> int:
    """Return the CRC64NVME of data."""
    return int(crt.crc64nvme(data))


def combine(algorithm: str, pieces: Sequence[tuple[int, int]]) -> int:
    """Return the CRC of a body from the (crc, length in bytes) of its pieces, in order."""
    combiner = _COMBINERS[algorithm]
    whole = 0
    for crc, length in pieces:
        whole = combiner(whole, crc, length)
    return whole


def combine_text(algorithm: str, pieces: Sequence[tuple[str, int]]) -> str:
    """Return the base64 CRC of a body from the (base64 crc, length) of its pieces."""
    parsed = [(int.from_bytes(base64.b64decode(text), "big"), length) for text, length in pieces]
    return to_text(combine(algorithm, parsed).to_bytes(CRC_BYTES[algorithm], "big"))


def composite_text(algorithm: str, pieces: Sequence[str]) -> str:
    """Return S3's COMPOSITE checksum: the digest of the pieces' digests, a hyphen, their number."""
    joined = b"".join(base64.b64decode(text) for text in pieces)
    return f"{to_text(digest(joined, (algorithm,))[algorithm])}-{len(pieces)}"


def to_text(raw: bytes) -> str:
    """Return a raw digest as S3 shows it."""
    return binascii.b2a_base64(raw, newline=False).decode("ascii")

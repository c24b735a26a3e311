"""Bodies that differ and share their length and CRC64NVME, made as an attacker makes them.

A CRC is linear: `crc(a) ^ crc(b)` for bodies of one length depends on `a ^ b` alone. So some
difference of 16 bytes changes nothing, and Gaussian elimination over its 128 bits finds it.
"""

from __future__ import annotations

from awscrt import checksums

DIFFERENCE_BYTES = 16


def other_body(body: bytes, at: int = 0) -> bytes:
    """Return another body with the length and the CRC64NVME of body, in which 16 bytes differ.

    at: where they begin; all 16 must lie in body.
    """
    stop = at + DIFFERENCE_BYTES
    changed = int.from_bytes(body[at:stop], "big") ^ _difference(len(body) - at)
    other = body[:at] + changed.to_bytes(DIFFERENCE_BYTES, "big") + body[stop:]
    assert other != body
    assert checksums.crc64nvme(other) == checksums.crc64nvme(body)
    return other


def _difference(size_bytes: int) -> int:
    """Return 128 bits that, at the front of size_bytes, leave the CRC as it is."""
    tail = bytes(size_bytes - DIFFERENCE_BYTES)
    zeros = checksums.crc64nvme(bytes(size_bytes))
    reduced: dict[int, tuple[int, int]] = {}  # highest bit of a CRC -> the CRC and its difference
    for bit in range(8 * DIFFERENCE_BYTES):
        difference = 1 << bit
        crc = zeros ^ checksums.crc64nvme(difference.to_bytes(DIFFERENCE_BYTES, "big") + tail)
        while crc and crc.bit_length() in reduced:
            reduced_crc, reduced_difference = reduced[crc.bit_length()]
            crc ^= reduced_crc
            difference ^= reduced_difference
        if not crc:
            return difference
        reduced[crc.bit_length()] = (crc, difference)
    raise AssertionError("128 bits have more dimensions than a CRC of 64")

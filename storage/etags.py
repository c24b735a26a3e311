"""rule: ETags as S3 computes and compares them.

The ETag of a body stored whole is its MD5 in hexadecimal; that of a multipart object is the MD5 of
its parts' MD5s, a hyphen and their number. In the code an ETag is bare; quotes belong to the wire.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

ANY = "*"

_MD5 = re.compile(r"[0-9a-f]{32}")
_MD5_OF_PARTS = re.compile(r"[0-9a-f]{32}-([0-9]{1,5})")
# Elements of a list may be empty (RFC 9110, section 5.6.1.2). Possessive, because around an empty
# element the spaces could be divided in as many ways as their number squared.
_ENTRY = re.compile(r'\s*+(?:(\*)|(?:W/)?"([^"]*)"|([^",\s]+)|)\s*+(?:,|\Z)')


def of_digest(md5: bytes) -> str:
    """Return the ETag of a body stored whole."""
    return md5.hex()


def of_parts(part_etags: Sequence[str]) -> str:
    """Return the ETag of a multipart object; each part's is its MD5 in hexadecimal."""
    joined = b"".join(bytes.fromhex(etag) for etag in part_etags)
    return f"{hashlib.md5(joined, usedforsecurity=False).hexdigest()}-{len(part_etags)}"


def same_bytes(
    etag: str, part_sizes: Sequence[int], other_etag: str, other_part_sizes: Sequence[int]
) -> bool | None:
    """Return whether two bodies of one length are the same; None if their ETags cannot decide it.

    part_sizes: sizes in bytes of a multipart object's parts, empty for a body stored whole. ETags
    decide if both are MD5s of the whole, or both of the same parts. An ETag that only has the form
    of one of parts, without part sizes, does not decide.
    """
    if part_sizes or other_part_sizes:
        tell = tuple(part_sizes) == tuple(other_part_sizes) and all(
            match is not None and int(match[1]) == len(part_sizes)
            for match in map(_MD5_OF_PARTS.fullmatch, (etag, other_etag))
        )
    else:
        tell = all(_MD5.fullmatch(each) for each in (etag, other_etag))
    return etag == other_etag if tell else None


def parse_list(text: str) -> tuple[str, ...] | None:
    """Return the bare ETags of an If-Match or If-None-Match value, or None if it is malformed.

    Both quotes of an ETag may be missing, as some clients omit them; a weak mark is dropped. An
    empty list is one empty ETag, which no object has.
    """
    etags: list[str] = []
    position = 0
    while position < len(text):
        entry = _ENTRY.match(text, position)
        if entry is None:
            return None
        etags.extend(group for group in entry.groups() if group is not None)
        position = entry.end()
    return tuple(etags) or ("",)


def matches(etag: str, wanted: Sequence[str]) -> bool:
    """Return whether an existing object's etag is among wanted; `*` matches any."""
    return ANY in wanted or etag in wanted

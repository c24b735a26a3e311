"""rule: which names a bucket, a table bucket and a key may have.

Sources: S3's bucket naming rules, those of S3 Tables, and one list of the words that other faces
of the port use. Keys are taken as sent; nothing is folded or normalised.
"""

from __future__ import annotations

import re

from storage import errors
from storage.keys import KEY_BYTES_MAX
from storage.model import BucketType

RESERVED_WORDS = frozenset(
    {
        "iceberg",
        "session",
        "queries",
        "monitoring",
        "telemetry",
        "config",
        "oauth",
        "namespaces",
        "tables",
        "views",
        "transactions",
        "aws",
    }
)
"""First path segments of the other faces, and words with a meaning in their addresses."""

UTF8_BYTES_MAX = 4
"""The most bytes of one character."""

NAME_BYTES_MIN = 3
NAME_BYTES_MAX = 63
RESERVED_PREFIXES = ("xn--", "sthree-", "amzn-s3-demo-")
RESERVED_SUFFIXES = {
    "general": ("-s3alias", "--ol-s3", ".mrap", "--x-s3", "--table-s3"),
    "table": ("-s3alias", "--ol-s3", "--x-s3", "--table-s3"),
}
TABLE_RESERVED_PREFIX = "aws"

HIDDEN_PREFIX = "_temporary-"
"""Begins the names of hidden buckets, which no client can create or name: they hold what lives as
long as this process at most, and every start deletes them."""

_ALPHABET = {
    "general": re.compile(r"[a-z0-9.-]*\Z"),
    "table": re.compile(r"[a-z0-9-]*\Z"),
}
_ALLOWED = {
    "general": "lower-case letters, digits, dots and hyphens",
    "table": "lower-case letters, digits and hyphens",
}
_IPV4 = re.compile(r"[0-9]+(\.[0-9]+){3}\Z")
_ALPHANUMERIC = frozenset("abcdefghijklmnopqrstuvwxyz0123456789")


def check_bucket_name(name: str, bucket_type: BucketType) -> None:
    """Raise InvalidBucketName, whose reason names the violated rule."""
    reason = _fault_of(name, bucket_type)
    if reason is not None:
        raise errors.InvalidBucketName(
            f"the bucket name {name!r} {reason}", name=name, reason=reason
        )


def hidden(suffix: str) -> str:
    """Return the name of the hidden bucket that ends with suffix."""
    return f"{HIDDEN_PREFIX}{suffix}"


def is_hidden(name: str) -> bool:
    """Return whether a bucket of this name is hidden."""
    return name.startswith(HIDDEN_PREFIX)


def check_shown(name: str) -> str:
    """Return the name of a bucket as a client has it. Raises NoSuchBucket for a hidden one."""
    if is_hidden(name):
        raise errors.NoSuchBucket(f"the bucket {name!r} does not exist", name=name)
    return name


def check_key(key: str) -> bytes:
    """Return the key's UTF-8 form. Raises InvalidKey if it has none, or a length out of bounds."""
    try:
        encoded = key.encode()
    except UnicodeEncodeError as error:
        raise errors.InvalidKey(
            "the key is not valid Unicode", reason="not valid Unicode", length_bytes=0
        ) from error
    if not encoded:
        raise errors.InvalidKey("the key is empty", reason="empty", length_bytes=0)
    if len(encoded) > KEY_BYTES_MAX:
        check_key_length(key)
    return encoded


def check_key_length(key: str) -> None:
    """Raise InvalidKey for a key that is too long, also for one that is no valid Unicode."""
    if len(key) <= KEY_BYTES_MAX // UTF8_BYTES_MAX:
        return
    length_bytes = len(key.encode("utf-8", "surrogateescape"))
    if length_bytes > KEY_BYTES_MAX:
        raise errors.InvalidKey(
            f"the key has {length_bytes} bytes, allowed are 1 to {KEY_BYTES_MAX}",
            reason="too long",
            length_bytes=length_bytes,
        )


def _fault_of(name: str, bucket_type: BucketType) -> str | None:
    if not NAME_BYTES_MIN <= len(name) <= NAME_BYTES_MAX:
        return f"must have {NAME_BYTES_MIN} to {NAME_BYTES_MAX} characters"
    if not _ALPHABET[bucket_type].match(name):
        return f"may hold only {_ALLOWED[bucket_type]}"
    if name[0] not in _ALPHANUMERIC or name[-1] not in _ALPHANUMERIC:
        return "must begin and end with a letter or digit"
    if ".." in name:
        return "may not hold two dots in a row"
    if _IPV4.match(name):
        return "may not look like an IP address"
    for prefix in RESERVED_PREFIXES:
        if name.startswith(prefix):
            return f"may not begin with {prefix}"
    if bucket_type == "table" and name.startswith(TABLE_RESERVED_PREFIX):
        return f"may not begin with {TABLE_RESERVED_PREFIX}"
    for suffix in RESERVED_SUFFIXES[bucket_type]:
        if name.endswith(suffix):
            return f"may not end with {suffix}"
    if name in RESERVED_WORDS:
        return "is a word this server reserves"
    return None

"""rule: whether a resource's policy grants something to the public.

An Allow for everyone is public unless a condition restricts it to fixed values of a key that a
caller cannot choose. Source: Amazon S3 user guide, "The meaning of public".
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Any, Final

from server.access import decide

OPERATORS: Final = frozenset(
    {"StringEquals", "StringEqualsIgnoreCase", "StringLike", "ArnEquals", "ArnLike", "IpAddress"}
)
"""Operators that restrict: those that an absent key does not meet."""
KEYS: Final = frozenset(
    {
        "aws:principalaccount", "aws:principalarn", "aws:principalorgid", "aws:sourceaccount",
        "aws:sourcearn", "aws:sourceip", "aws:sourcevpc", "aws:sourcevpce",
        "aws:userid", "s3:dataaccesspointaccount", "s3:dataaccesspointarn",
        "s3:x-amz-server-side-encryption-aws-kms-key-id",
    }
)  # fmt: skip
PREFIX_BITS_MIN: Final = {4: 8, 6: 32}
"""The shortest prefix of an address range, by IP version, that is not the public."""


def is_public(document: Mapping[str, Any]) -> bool:
    """Return whether a resource's policy is public. document: decoded, and valid."""
    return any(_is_public(statement) for statement in _several(document["Statement"]))


def _is_public(statement: Mapping[str, Any]) -> bool:
    if statement["Effect"] != "Allow":
        return False
    principal = statement.get("Principal", "*")  # NotPrincipal names all but a few
    listed = principal.get("AWS", ()) if isinstance(principal, Mapping) else principal
    if "*" not in _several(listed):
        return False
    return not any(
        operator in OPERATORS and key.lower() in KEYS and all(map(_is_fixed, _several(values)))
        for operator, keys in statement.get("Condition", {}).items()
        for key, values in keys.items()
    )


def _is_fixed(value: Any) -> bool:
    """Return whether a value names something, rather than a pattern of many things or callers
    without a name."""
    text = str(value)
    if text.lower() == decide.ANONYMOUS:
        return False
    try:
        network = ipaddress.ip_network(text, strict=False)
    except ValueError:
        return not any(sign in text for sign in ("*", "?", "${"))
    return network.prefixlen >= PREFIX_BITS_MIN[network.version] or network.is_private


def _several(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, list | tuple) else (value,)

"""rule: a bucket's CORS rules, and the response headers that follow from them.

The first rule that allows the origin, the method and every header that the browser names applies.
Patterns have at most one `*`. Source: Amazon S3 API reference, CORSRule; Fetch standard, "HTTP
responses".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec

SETTING: Final = "cors"
"""The bucket setting that contains the rules."""
METHODS: Final = frozenset({"GET", "PUT", "HEAD", "POST", "DELETE"})
RULES_MAX: Final = 100
BYTES_MAX: Final = 64 * 1024
"""The largest number of rules in a configuration, as in S3."""
STAR: Final = "*"
VARY: Final = ("vary", "Origin, Access-Control-Request-Headers, Access-Control-Request-Method")

Headers: TypeAlias = tuple[tuple[str, str], ...]


class Rule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One rule, as the bucket's record contains it."""

    id: str = ""
    methods: tuple[str, ...]
    origins: tuple[str, ...]
    headers: tuple[str, ...] = ()
    expose: tuple[str, ...] = ()
    max_age_seconds: int | None = None


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """The cross-origin request that a browser announces. headers: lower-case names."""

    origin: str
    method: str
    headers: tuple[str, ...] = ()


def encode(rules: Iterable[Rule]) -> list[dict[str, Any]]:
    """Return rules in the form of a bucket's record."""
    value: list[dict[str, Any]] = msgspec.to_builtins(list(rules))
    return value


def decode(value: Any) -> tuple[Rule, ...]:
    """Return the rules in a bucket's record."""
    return msgspec.convert(value, tuple[Rule, ...])


def rules_of(value: Any) -> tuple[Rule, ...]:
    """Return the rules in a bucket's settings; an empty tuple if it has none."""
    return () if value is None else decode(value)


def parse_wanted(headers: Mapping[bytes, bytes], method: str = "") -> Wanted | None:
    """Return the cross-origin request of some headers; None if they have no Origin.

    method: the method of the request, or "" for a preflight request, whose header names it.
    """
    origin = headers.get(b"origin")
    stated = headers.get(b"access-control-request-method")
    wanted_method = method if stated is None else stated.decode("latin-1")
    if not origin or not wanted_method:
        return None
    names = headers.get(b"access-control-request-headers", b"").decode("latin-1")
    return Wanted(
        origin=origin.decode("latin-1"),
        method=wanted_method,
        headers=tuple(name.strip().lower() for name in names.split(",") if name.strip()),
    )


def allow(rules: Sequence[Rule], wanted: Wanted) -> Headers | None:
    """Return the CORS headers of the response; None if no rule allows the request."""
    for rule in rules:
        pattern = _allowing(rule, wanted)
        if pattern is not None:
            return tuple(_headers(rule, wanted, pattern))
    return None


def _allowing(rule: Rule, wanted: Wanted) -> str | None:
    """Return the pattern that matches the origin, if the rule allows the request; else None."""
    if wanted.method not in rule.methods:
        return None
    patterns = [name.lower() for name in rule.headers]
    for header in wanted.headers:
        if not any(_fits(pattern, header) for pattern in patterns):
            return None
    return next((each for each in rule.origins if _fits(each, wanted.origin)), None)


def _headers(rule: Rule, wanted: Wanted, pattern: str) -> Iterable[tuple[str, str]]:
    if pattern == STAR:
        yield "access-control-allow-origin", STAR
    else:
        yield "access-control-allow-origin", wanted.origin
        yield "access-control-allow-credentials", "true"
    yield "access-control-allow-methods", ", ".join(rule.methods)
    if wanted.headers:
        yield "access-control-allow-headers", ", ".join(wanted.headers)
    if rule.expose:
        yield "access-control-expose-headers", ", ".join(rule.expose)
    if rule.max_age_seconds is not None:
        yield "access-control-max-age", str(rule.max_age_seconds)
    yield VARY


def _fits(pattern: str, text: str) -> bool:
    head, star, tail = pattern.partition(STAR)
    if not star:
        return pattern == text
    return len(text) >= len(head) + len(tail) and text.startswith(head) and text.endswith(tail)

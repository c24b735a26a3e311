"""rule: the values of access: who asks, what for, and the answer.

A Principal is made anew for every request: beside the identity it carries the connection's
condition keys (source address, transport), so that a check deep inside a catalog needs nothing
but the principal. Nothing here decides; `server.access.decide` does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from server.access import policies

PrincipalKind: TypeAlias = Literal["root", "user", "anonymous"]
ContextValue: TypeAlias = str | tuple[str, ...]
Context: TypeAlias = Mapping[str, ContextValue]
"""Condition keys and their values. Names compare without regard to case."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Scope:
    """What a vended credential may touch: keys below prefix in bucket, to read or to write too.

    prefix ends in a slash, so that `orders/` never opens `orders2/`.
    """

    bucket: str
    prefix: str
    writable: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Principal:
    """Who asks. canonical_id and display_name are S3's Owner; policies are the identity's own.

    scopes: None for a credential that holds all its principal holds; otherwise every request must
    lie inside one of them as well. context: condition keys that hold for the whole request.
    """

    kind: PrincipalKind
    name: str
    arn: str
    account_id: str
    canonical_id: str
    display_name: str
    policies: tuple[policies.CompiledPolicy, ...] = ()
    email: str | None = None
    scopes: tuple[Scope, ...] | None = None
    context: Context = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Demand:
    """One thing that must be allowed: an action on a resource, in a context.

    action: `s3:GetObject`. resource: an ARN, or `*` for actions that have none.
    place: `BUCKET/KEY`, or `BUCKET/PREFIX` for a listing, where the demand is for bytes; vended
    credentials are scoped by it, and may do nothing that has no place.
    shown: what a refusal says instead of action and resource, where these tell whether a thing
    exists: the same for one that does and one that does not.
    only_reads: the request changes nothing, although its action may.
    """

    action: str
    resource: str
    place: str = ""
    shown: str = ""
    context: Context = field(default_factory=dict)
    only_reads: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """The answer. reason: root, allow, explicit-deny, scope or no-allow. statements: Sids or
    numbers of the statements that decided it."""

    allow: bool
    reason: Literal["root", "allow", "explicit-deny", "scope", "no-allow"]
    statements: tuple[str, ...] = ()


def anonymous(*, context: Context | None = None) -> Principal:
    """Return the principal of a request without credentials."""
    return Principal(
        kind="anonymous",
        name="anonymous",
        arn="*",
        account_id="",
        canonical_id="",
        display_name="anonymous",
        context=context or {},
    )

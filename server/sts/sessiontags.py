"""rule: the tags of a role's session: those that its request passes and those that it inherits.

A session's tag replaces the role's tag of the same key, which has no case. Transitive tags go on to
the sessions that begin from this one, where a request cannot change them.
Source: IAM user guide, "Passing session tags in AWS STS"; STS API reference, AssumeRole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from server import limits
from server.access import decide, model
from server.sts import errors

TRANSITIVE_KEYS: Final = "sts:TransitiveTagKeys"
_RESERVED_PREFIX: Final = "aws:"


class SessionTags(msgspec.Struct, frozen=True, kw_only=True):
    """The tags of a new session. passed: by its request. inherited: from the caller's session.

    transitive: the keys of those passed that later sessions inherit.
    """

    passed: Mapping[str, str]
    inherited: Mapping[str, str]
    transitive: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.passed or self.inherited)

    @property
    def claims(self) -> dict[str, Any]:
        """What a token of the session says of them; nothing without tags."""
        if not self:
            return {}
        claims: dict[str, Any] = {"tag": {**self.inherited, **self.passed}}
        transitive = [*self.inherited, *self.transitive]
        return {**claims, "ttk": transitive} if transitive else claims

    @property
    def context(self) -> dict[str, model.ContextValue]:
        """The condition keys of the request, which are about the tags that it passes."""
        context = decide.request_tags(self.passed)
        if self.transitive:
            context[TRANSITIVE_KEYS] = self.transitive
        return context


def inherited_of(claims: Mapping[str, Any]) -> dict[str, str]:
    """Return the tags that sessions inherit from one with these claims."""
    return {key: claims["tag"][key] for key in claims.get("ttk", ())}


def parse(members: Mapping[str, Any], inherited: Mapping[str, str]) -> SessionTags:
    """Return the tags of a request of AssumeRole. inherited: from the caller's session.

    Raises InvalidParameter.
    """
    listed: Sequence[Mapping[str, str]] = members.get("Tags", ())
    passed = {tag["Key"]: tag["Value"] for tag in listed}
    folded = {key.lower() for key in passed}
    if len(folded) != len(listed):
        raise errors.InvalidParameter(
            "Duplicate tag keys found. Please note that Tag keys are case insensitive."
        )
    if any(key.startswith(_RESERVED_PREFIX) for key in folded):
        raise errors.InvalidParameter("The prefix aws: of tag keys is reserved.")
    transitive = tuple(dict.fromkeys(members.get("TransitiveTagKeys", ())))
    if not {key.lower() for key in transitive} <= folded:
        raise errors.InvalidParameter("A transitive tag key must be among the keys of the tags.")
    if folded & {key.lower() for key in inherited}:
        raise errors.InvalidParameter(
            "A tag has the key of a transitive tag of the calling session, which cannot be changed."
        )
    if len(passed) + len(inherited) > limits.IDENTITY_TAGS_MAX:
        raise errors.InvalidParameter(
            f"A session has at most {limits.IDENTITY_TAGS_MAX} tags, with those that it inherits."
        )
    of_keys = {key.lower() for key in transitive}
    return SessionTags(
        passed=passed,
        inherited=dict(inherited),
        transitive=tuple([key for key in passed if key.lower() in of_keys]),
    )

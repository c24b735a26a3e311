"""engine: which account owns what is asked for, and the policy of its bucket, for the one decision
function.

A bucket belongs to the account of who made it, its objects to the bucket's owner. What an ARN of
s3tables names belongs to the account that the ARN itself spells.
"""

from __future__ import annotations

from typing import Any, Final

from server.access import arns, decide, model, policies
from server.access import errors as access_errors
from storage import buckets, errors
from storage import model as storage_model

POLICY: Final = "policy"
PUBLIC_ACCESS_BLOCK: Final = "public_access_block"
RESTRICT: Final = "RestrictPublicBuckets"
"""The settings of a bucket that this module reads, and the member of the second."""
PUBLIC: Final = "policy_is_public"
"""The setting that says whether the policy is public."""

COMPILED_MAX: Final = 1024
COMPILED_CHARACTERS_MAX: Final = 512 * 1024
"""Policies that are kept compiled, and their text, of which each character takes some 40 bytes."""


class Ownership:
    """Answers the authoriser what a resource says for itself. Mutable: it keeps compiled
    policies, by their text."""

    def __init__(self, *, buckets: buckets.Buckets) -> None:
        self._buckets = buckets
        self._compiled: dict[str, policies.CompiledPolicy] = {}
        self._compiled_characters = 0

    def side_of(self, demand: model.Demand) -> decide.ResourceSide:
        """Return the account and policy of a demand's resource; one without an owner is the
        caller's."""
        try:
            named = arns.parse_arn(demand.resource)
        except access_errors.MalformedARN:
            return decide.NO_POLICY
        if named.account:
            return decide.ResourceSide(account=named.account)
        if named.service != "s3":
            return decide.NO_POLICY
        try:
            # Every caller may request any name; it is taken if a bucket has it.
            if demand.action == "s3:CreateBucket":
                return decide.NO_POLICY
            bucket = self._buckets.get(named.resource.partition("/")[0])
        except errors.NoSuchBucket:
            return decide.NO_POLICY
        text = bucket.settings.get(POLICY) if bucket.type == "general" else None
        if text is None:
            return decide.ResourceSide(account=bucket.owner)
        return decide.ResourceSide(
            account=bucket.owner,
            policies=(self._compile(text),),
            restricted=_is_restricted(bucket),
        )

    def _compile(self, text: str) -> policies.CompiledPolicy:
        compiled = self._compiled.get(text)
        if compiled is None:
            compiled = policies.parse_policy(text, policy_type="resource")
            self._compiled_characters += len(text)
            if (
                len(self._compiled) >= COMPILED_MAX
                or self._compiled_characters > COMPILED_CHARACTERS_MAX
            ):
                self._compiled.clear()
                self._compiled_characters = len(text)
            self._compiled[text] = compiled
        return compiled


def _is_restricted(bucket: storage_model.BucketInfo) -> bool:
    block: dict[str, Any] = bucket.settings.get(PUBLIC_ACCESS_BLOCK) or {}
    return bool(block.get(RESTRICT)) and bool(bucket.settings.get(PUBLIC))

"""engine: the owner account and the bucket policy of a resource, for the access decision.

A bucket belongs to the account of its creator, and its objects to the bucket's owner. A resource of
s3tables belongs to the account in its ARN.
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
"""The bucket settings that this module reads, and the member of the second."""
PUBLIC: Final = "policy_is_public"
"""The bucket setting: whether the policy is public."""

COMPILED_MAX: Final = 1024
COMPILED_CHARACTERS_MAX: Final = 512 * 1024
"""The number of compiled policies in the cache, and the size of their texts: a compiled policy
takes some 40 bytes per character."""


class Ownership:
    """Returns the resource side of access decisions. Mutable: it caches compiled policies."""

    def __init__(self, *, buckets: buckets.Buckets) -> None:
        self._buckets = buckets
        self._compiled: dict[str, policies.CompiledPolicy] = {}
        self._compiled_characters = 0

    def side_of(self, demand: model.Demand) -> decide.ResourceSide:
        """Return the account and policy of a demand's resource.

        A resource without an owner belongs to the caller's account."""
        try:
            named = arns.parse_arn(demand.resource)
        except access_errors.MalformedARN:
            return decide.NO_POLICY
        if named.account:
            return decide.ResourceSide(account=named.account)
        if named.service != "s3":
            return decide.NO_POLICY
        try:
            # Every caller may learn whether a bucket's name is taken.
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

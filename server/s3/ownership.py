"""engine: which account owns what is asked for, for the one decision function.

A bucket belongs to the account of who made it, its objects to the bucket's owner. What an ARN of
s3tables names belongs to the account that the ARN itself spells.
"""

from __future__ import annotations

from server.access import arns, decide, model
from server.access import errors as access_errors
from storage import buckets, errors


class Ownership:
    """Answers the authoriser what a resource says for itself."""

    def __init__(self, *, buckets: buckets.Buckets) -> None:
        self._buckets = buckets

    def side_of(self, demand: model.Demand) -> decide.ResourceSide:
        """Return the account of a demand's resource; one without an owner is the caller's."""
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
            owner = self._buckets.get(named.resource.partition("/")[0]).owner
        except errors.NoSuchBucket:
            return decide.NO_POLICY
        return decide.ResourceSide(account=owner)

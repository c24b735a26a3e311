"""rule: why an access decision is as it is: every policy looked at, and what each statement says.

The decision itself is `decide.authorise`'s; this module only shows its parts. A decision for want
of an Allow comes with a statement that would allow exactly the demand. Where none would, on an
object that is not its bucket owner's, a note says what does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from server.access import acls, decide, model, policies

OF_ANOTHER_OWNER: Final = (
    "The object has another owner than its bucket, so that policies alone allow nothing on it to "
    "other accounts than its owner's: its access control list does, or ownership controls of the "
    "bucket with BucketOwnerEnforced, by which every object is the bucket owner's."
)


def explain(
    principal: model.Principal,
    demand: model.Demand,
    decision: model.Decision,
    side: decide.ResourceSide,
    *,
    names: Sequence[str],
    now_ms: int,
    region: str = "",
) -> dict[str, Any]:
    """Return a decision with the policies and statements that were looked at.

    names: of the principal's own policies, in their order.
    """
    values = decide.condition_values(principal, demand, now_ms=now_ms, region=region)
    owner = (side.account or principal.account_id,)
    values["aws:resourceaccount"] = values["s3:resourceaccount"] = owner
    values.update(decide.tags_of(principal, side))
    own = zip(names, principal.policies, strict=True)
    theirs = [("policy of the resource", each) for each in side.policies]
    shown = [
        {"policy": name, "statements": _statements(document, principal, demand, values)}
        for name, document in (*own, *theirs)
    ]
    lacks_allow = decision.reason == "no-allow"
    is_up_to_owner = _is_up_to_the_owner(principal, side)
    return {
        "principal": principal.arn,
        "action": demand.action,
        "resource": demand.resource,
        "context": {key: list(texts) for key, texts in sorted(values.items())},
        "allow": decision.allow,
        "reason": decision.reason,
        "statements": list(decision.statements),
        "policies": shown,
        "missing": _missing(demand) if lacks_allow and not is_up_to_owner else None,
        "note": OF_ANOTHER_OWNER if lacks_allow and is_up_to_owner else None,
    }


def _is_up_to_the_owner(principal: model.Principal, side: decide.ResourceSide) -> bool:
    """Return whether no policy can allow a principal what its owner alone may do or grant: on an
    object that has another owner than its bucket and the principal's account."""
    if not side.only_denies or side.account == principal.account_id:
        return False
    return side.grants is None or not acls.allows(side.grants, principal)


def _statements(
    document: policies.CompiledPolicy,
    principal: model.Principal,
    demand: model.Demand,
    values: policies.Values,
) -> list[dict[str, Any]]:
    return [
        {
            "statement": statement.name,
            "effect": "Allow" if statement.allow else "Deny",
            "applies": statement.names(principal) != "none"
            and statement.applies(demand.action, demand.resource, values),
        }
        for statement in document.statements
    ]


def _missing(demand: model.Demand) -> dict[str, Any]:
    """Return a statement that allows a demand."""
    return {"Effect": "Allow", "Action": demand.action, "Resource": demand.resource}

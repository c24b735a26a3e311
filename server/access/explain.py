"""rule: why an access decision is as it is: every policy looked at, and what each statement says.

The decision itself is `decide.authorise`'s; this module only shows its parts. A decision for want
of an Allow comes with a statement that would allow exactly the demand, if a statement would: on an
object that is not its bucket owner's a note says what does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from server.access import decide, model, policies

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
    return {
        "principal": principal.arn,
        "action": demand.action,
        "resource": demand.resource,
        "context": {key: list(texts) for key, texts in sorted(values.items())},
        "allow": decision.allow,
        "reason": decision.reason,
        "statements": list(decision.statements),
        "policies": shown,
        "missing": (
            _missing(demand) if decision.reason == "no-allow" and not side.only_denies else None
        ),
        "note": OF_ANOTHER_OWNER if side.only_denies else None,
    }


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

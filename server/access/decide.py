"""rule: the one access decision of every face.

Root may do everything. An explicit Deny in any policy that applies overrides every Allow. A demand
outside a vended credential's scope is refused. Otherwise an Allow is needed: within an account
from the identity's policies or the resource's, across accounts from both; for an anonymous caller
and for a service from the resource's policies. A grant of an access control list counts as an Allow
of the resource's side across accounts, for anonymous callers and for services, and within an
account not at all. The order of policies and statements does not matter, and the same inputs give
the same decision for every protocol.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, TypeAlias

from server.access import acls, errors, model, policies
from storage import model as storage_model

READING: Final = ("get", "list", "head", "describe", "query")
"""Prefixes of the names of actions that change nothing."""
ACTIONS_REMEMBERED: Final = 1024
"""More than all faces have."""
ACCESS_WORDS: Final = ("Policy", "Acl", "PublicAccessBlock", "OwnershipControls")
"""Words in the names of actions that change who may do something, besides those of IAM."""
ANONYMOUS: Final = "anonymous"
"""The user id and the account of an anonymous caller (IAM user guide, "AWS global condition context
keys")."""
SIMULATION: Final = "iam:SimulatePrincipalPolicy"
"""The action of questions about decisions, which changes nothing."""
LOCATION: Final = "s3:GetBucketLocation"
_BUCKET_ARN: Final = "arn:aws:s3:::"


ReadTags: TypeAlias = Callable[[], policies.Values]


@dataclass(frozen=True, kw_only=True, slots=True)
class ResourceSide:
    """A resource's own policies. account: the account that owns it, None for the caller's.

    restricted_to: the only account whose callers may use it, that of the bucket's owner; None for
    no such restriction. grants: of its access control list. only_denies: the policies are those of
    a bucket, whose owner does not own the object in it: what they allow does not count.
    is_trust: the policy is a role's, without which no policy of the caller allows anything.
    tags: returns the condition keys of the resource's tags; called if a policy tests them.
    """

    policies: tuple[policies.CompiledPolicy, ...] = ()
    account: str | None = None
    restricted_to: str | None = None
    grants: acls.Grants | None = None
    only_denies: bool = False
    is_trust: bool = False
    tags: ReadTags | None = None


ResourceSides: TypeAlias = Callable[[model.Demand], ResourceSide]
Recorder: TypeAlias = Callable[[model.Principal, model.Demand, model.Decision], None]

NO_POLICY: Final = ResourceSide()


def authorise(
    principal: model.Principal,
    demand: model.Demand,
    resource_policies: Iterable[policies.CompiledPolicy] = (),
    *,
    resource_account: str | None = None,
    restricted_to: str | None = None,
    grants: acls.Grants | None = None,
    only_denies: bool = False,
    is_trust: bool = False,
    tags: policies.Values | None = None,
    now_ms: int | None = None,
    region: str = "",
) -> model.Decision:
    """Return whether principal may do the demanded action, and why.

    resource_account: the resource's owner; None means the principal's own account.
    restricted_to, grants, only_denies, is_trust: as of a ResourceSide. tags: condition keys of the
    resource's tags.
    now_ms: for the keys aws:CurrentTime and aws:EpochTime, which are absent without it. region: for
    aws:RequestedRegion.
    """
    if principal.type == "root":
        if principal.scopes is not None and not in_scope(principal.scopes, demand):
            return model.Decision(allow=False, reason="scope")
        return _ROOT
    resource_policies = tuple(resource_policies)
    values: dict[str, tuple[str, ...]] = {}
    # Made only for policies that test them: they take as long as the rest of the decision.
    if any(each.reads_values for each in (*principal.documents, *resource_policies)):
        values = condition_values(principal, demand, now_ms=now_ms, region=region)
        owner = (resource_account or principal.account_id,)
        values["aws:resourceaccount"] = values["s3:resourceaccount"] = owner
        if tags:
            values.update(tags)
    own = _Verdicts.of(principal.policies, principal, demand, values)
    theirs = _Verdicts.of(resource_policies, principal, demand, values)
    session = _NO_VERDICTS
    if principal.session_policies is not None:
        session = _Verdicts.of(principal.session_policies, principal, demand, values)
    if own.denied or theirs.denied or session.denied:
        return model.Decision(
            allow=False,
            reason="explicit-deny",
            statements=(*own.denied, *theirs.denied, *session.denied),
        )
    if principal.scopes is not None and not in_scope(principal.scopes, demand):
        return model.Decision(allow=False, reason="scope")
    if principal.session_policies is not None and not session.allowed:
        return model.Decision(allow=False, reason="session-policy")
    same_account = resource_account is None or resource_account == principal.account_id
    if only_denies:
        theirs = _NO_VERDICTS
    granted: tuple[str, ...] = ()
    if grants is not None and acls.allows(grants, principal):
        granted = _GRANTED
    if restricted_to is not None and (
        principal.type == "anonymous" or principal.account_id != restricted_to
    ):
        allowed: tuple[str, ...] = ()
    elif principal.type in ("anonymous", "service"):
        allowed = theirs.allowed + granted
    elif same_account and is_trust:
        allowed = theirs.allowed or (theirs.allowed_account if own.allowed else ())
    elif same_account:
        # A grant to a whole account is subject to the account's own policies.
        allowed = own.allowed + theirs.allowed
    elif own.allowed:
        allowed = theirs.allowed + theirs.allowed_account + granted
    else:
        allowed = ()
    if not allowed:
        return model.Decision(allow=False, reason="no-allow")
    return model.Decision(allow=True, reason="allow", statements=allowed)


def is_unbound(principal: model.Principal) -> bool:
    """Return whether every demand of a principal is allowed."""
    return principal.type == "root" and principal.scopes is None


@functools.lru_cache(ACTIONS_REMEMBERED)
def is_write(action: str) -> bool:
    """Return whether an action can change anything; an action not listed as a read is a write."""
    return not action.partition(":")[2].lower().startswith(READING)


@functools.lru_cache(ACTIONS_REMEMBERED)
def changes_access(action: str) -> bool:
    """Return whether an action changes who may do something: policies, grants, users, roles."""
    service, _, name = action.partition(":")
    if action == SIMULATION or not is_write(action):
        return False
    return service == "iam" or any(word in name for word in ACCESS_WORDS)


def in_scope(scopes: Iterable[model.Scope], demand: model.Demand) -> bool:
    """Return whether a vended credential's scopes cover a demand.

    A demand without a place in a bucket is not covered, but for the bucket's location: clients ask
    for the region before they sign requests for its keys.
    """
    if demand.action == LOCATION:
        return any(demand.resource == _BUCKET_ARN + scope.bucket for scope in scopes)
    bucket, _, key = demand.place.partition("/")
    writing = is_write(demand.action)
    return any(
        bool(bucket)
        and scope.bucket == bucket
        and key.startswith(scope.prefix)
        and (scope.writable or not writing)
        for scope in scopes
    )


def condition_values(
    principal: model.Principal,
    demand: model.Demand,
    *,
    now_ms: int | None = None,
    region: str = "",
) -> dict[str, tuple[str, ...]]:
    """Return the condition keys of a demand: of the request, the principal and the demand."""
    values: dict[str, tuple[str, ...]] = {}
    for context in (principal.context, demand.context):
        for key, value in context.items():
            values[key.lower()] = (value,) if isinstance(value, str) else value
    if principal.type == "service":
        values["aws:principalservicename"] = (principal.name,)
        values["aws:principalisawsservice"] = ("true",)
    elif principal.type == "anonymous":
        values["aws:principaltype"] = ("Anonymous",)
        values["aws:userid"] = values["aws:principalaccount"] = (ANONYMOUS,)
    elif principal.type != "web-identity":
        if principal.role_arn:
            values["aws:principalarn"] = (principal.role_arn,)
        else:
            values["aws:username"] = (principal.name,)
            values["aws:principalarn"] = (principal.arn,)
        values["aws:userid"] = (principal.principal_id or principal.name,)
        values["aws:principalaccount"] = (principal.account_id,)
        values["aws:principalisawsservice"] = values["aws:viaawsservice"] = _FALSE
        values["aws:principaltype"] = _ASSUMED_ROLE if principal.role_arn else _USER
    values.update(tag_keys(("aws:PrincipalTag/",), principal.tags))
    if principal.session is not None:
        issued_at = datetime.fromtimestamp(principal.session.issued_at_ms / 1000, tz=UTC)
        values["aws:tokenissuetime"] = (issued_at.isoformat(),)
        source = principal.session.claims.get(model.SOURCE_CLAIM)
        if source is not None:
            values["aws:sourceidentity"] = (source,)
    if now_ms is not None:
        moment = datetime.fromtimestamp(now_ms / 1000, tz=UTC)
        values["aws:currenttime"] = (moment.isoformat(),)
        values["aws:epochtime"] = (str(now_ms // 1000),)
    if region:
        values["aws:requestedregion"] = (region,)
    return values


_FALSE: Final = ("false",)
_USER: Final = ("User",)
_ASSUMED_ROLE: Final = ("AssumedRole",)


def tags_of(principal: model.Principal, side: ResourceSide) -> policies.Values:
    """Return the condition keys of a resource's tags, none if no policy tests them."""
    if side.tags is None:
        return {}
    documents = (*principal.documents, *side.policies)
    return side.tags() if any(each.reads_resource_tags for each in documents) else {}


def tag_keys(prefixes: Iterable[str], tags: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Return the condition keys of tags, one for each prefix such as `aws:ResourceTag/`.

    Condition keys have no case: of tags whose keys differ only in case, one key has every value, so
    that none of them hides another.
    """
    values: dict[str, tuple[str, ...]] = {}
    for name, text in tags.items():
        folded = name.lower()
        values[folded] = tuple(dict.fromkeys((*values.get(folded, ()), text)))
    return {
        f"{prefix.lower()}{name}": texts for prefix in prefixes for name, texts in values.items()
    }


def request_tags(tags: Mapping[str, str]) -> dict[str, model.ContextValue]:
    """Return the condition keys of the tags that a request gives a resource, none without tags."""
    if not tags:
        return {}
    return {**tag_keys(("aws:RequestTag/",), tags), "aws:TagKeys": tuple(tags)}


class Authoriser:
    """`authorise` with the clock and the resources' policies passed in once.

    region: of the server, for aws:RequestedRegion. resource_sides: returns a demand's resource's
    own policies. record: called for every denial and every allowed write. record_read: for every
    allowed read; without one, reads are not recorded.
    """

    def __init__(
        self,
        *,
        now_ms: storage_model.NowMs,
        region: str = "",
        resource_sides: ResourceSides | None = None,
        record: Recorder | None = None,
        record_read: Recorder | None = None,
    ) -> None:
        self._now_ms = now_ms
        self.region = region
        self._resource_sides = resource_sides
        self._record = record
        self._record_read = record_read

    @property
    def records_reads(self) -> bool:
        """Whether allowed reads are recorded."""
        return self._record_read is not None

    def now_ms(self) -> int:
        """Return the time of the decisions."""
        return self._now_ms()

    def decide(self, principal: model.Principal, demand: model.Demand) -> model.Decision:
        """Return the decision without recording it: for filtering lists and for explanations."""
        if is_unbound(principal):
            return _ROOT
        side = self.side_of(demand)
        return authorise(
            principal,
            demand,
            side.policies,
            resource_account=side.account,
            restricted_to=side.restricted_to,
            grants=side.grants,
            only_denies=side.only_denies,
            is_trust=side.is_trust,
            tags=tags_of(principal, side),
            now_ms=self._now_ms(),
            region=self.region,
        )

    def side_of(self, demand: model.Demand) -> ResourceSide:
        """Return the policies of a demand's resource."""
        return NO_POLICY if self._resource_sides is None else self._resource_sides(demand)

    def with_sides(self, resource_sides: ResourceSides) -> Authoriser:
        """Return the same with other policies and tags of resources: those of a transaction."""
        return Authoriser(
            now_ms=self._now_ms,
            region=self.region,
            resource_sides=resource_sides,
            record=self._record,
            record_read=self._record_read,
        )

    def permits(self, principal: model.Principal, demand: model.Demand) -> bool:
        """Return whether it is allowed, without recording it."""
        return self.decide(principal, demand).allow

    def check(self, principal: model.Principal, demand: model.Demand) -> None:
        """Raise AccessDenied unless it is allowed."""
        decision = self.decide(principal, demand)
        writes = is_write(demand.action) and not demand.only_reads
        if self._record is not None and (writes or not decision.allow):
            self._record(principal, demand, decision)
        elif self._record_read is not None:
            self._record_read(principal, demand, decision)
        if not decision.allow:
            shown = demand.shown or f"{demand.action} on resource {demand.resource}"
            raise errors.AccessDenied(
                f"{principal.arn if principal.type != 'anonymous' else 'anonymous'} is not "
                f"authorized to perform {shown}",
                action=demand.action,
                resource=demand.resource,
            )


_ROOT: Final = model.Decision(allow=True, reason="root")
_GRANTED: Final = ("access control list",)
"""The statement that a grant of an access control list counts as."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Verdicts:
    """The applicable statements of some policies, by effect."""

    denied: tuple[str, ...]
    allowed: tuple[str, ...]
    allowed_account: tuple[str, ...]

    @staticmethod
    def of(
        documents: Sequence[policies.CompiledPolicy],
        principal: model.Principal,
        demand: model.Demand,
        values: policies.Values,
    ) -> _Verdicts:
        if not documents:
            return _NO_VERDICTS
        denied, allowed, allowed_account = [], [], []
        for document in documents:
            for statement in document.about(demand.action):
                named = statement.names(principal)
                if named == "none" or not statement.covers(demand.resource, values):
                    continue
                if not statement.allow:
                    denied.append(statement.name)
                elif named == "direct":
                    allowed.append(statement.name)
                else:
                    allowed_account.append(statement.name)
        return _Verdicts(
            denied=tuple(denied), allowed=tuple(allowed), allowed_account=tuple(allowed_account)
        )


_NO_VERDICTS: Final = _Verdicts(denied=(), allowed=(), allowed_account=())

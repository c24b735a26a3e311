"""face: the STS API: who a caller is, and temporary credentials.

The credentials are a token and a key pair derived from it (`server.access.tokens`); nothing is
stored. They end when they expire, and at once with the key pair that they come from.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from server import calls, limits
from server.access import arns, decide, identities, model, policies, principals, tokens
from server.access import errors as access_errors
from server.aws import face, queryface
from server.aws import model as aws_model
from server.aws import wire_errors as aws_wire_errors
from server.oidc import errors as oidc_errors
from server.oidc import federation
from server.sts import errors, sessiontags
from storage import model as storage_model

NAME: Final = "sts"
NAMESPACE: Final = "https://sts.amazonaws.com/doc/2011-06-15/"
ASSUME_ROLE: Final = "sts:AssumeRole"
ASSUME_BY_TOKEN: Final = federation.ASSUME_BY_TOKEN
TAG_SESSION: Final = "sts:TagSession"
SET_SOURCE: Final = "sts:SetSourceIdentity"
ROLE_ACTIONS: Final = frozenset({ASSUME_ROLE, ASSUME_BY_TOKEN, TAG_SESSION, SET_SOURCE})
"""The actions whose resource is a role, with a trust policy."""
NOT_OFFERED: Final = ("SerialNumber", "TokenCode", "ProvidedContexts")
"""Parameters of AssumeRole that would have no effect."""
CHAINED_SECONDS_MAX: Final = 60 * 60
"""The longest life of a role's session that another role's session asked for."""
SESSION_SECONDS_DEFAULT: Final = 60 * 60
SESSION_SECONDS: Final = 12 * 60 * 60
"""The longest life of temporary credentials, and that of GetSessionToken's by default."""

_SESSION_NAME: Final = re.compile(r"[A-Za-z0-9_+=,.@-]+")

WIRE_ERRORS: Final[aws_wire_errors.Table] = {
    oidc_errors.InvalidIdentityToken: aws_wire_errors.WireError(
        status=400, code="InvalidIdentityToken"
    ),
    oidc_errors.ExpiredIdentityToken: aws_wire_errors.WireError(
        status=400, code="ExpiredTokenException"
    ),
    oidc_errors.RejectedClaim: aws_wire_errors.WireError(status=403, code="IDPRejectedClaim"),
    oidc_errors.ProviderUnreachable: aws_wire_errors.WireError(
        status=400, code="IDPCommunicationError"
    ),
    errors.InvalidParameter: aws_wire_errors.WireError(status=400, code="ValidationError"),
    errors.ParameterNotOffered: aws_wire_errors.WireError(status=501, code="NotImplemented"),
    errors.PackedPolicyTooLarge: aws_wire_errors.WireError(status=400, code="PackedPolicyTooLarge"),
    access_errors.MalformedPolicy: aws_wire_errors.WireError(
        status=400, code="MalformedPolicyDocument"
    ),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Services:
    """The services of this face's functions."""

    authoriser: decide.Authoriser
    identities: identities.Identities
    ring: tokens.KeyRing
    federation: federation.Federation
    now_ms: storage_model.NowMs
    new_id: storage_model.NewId


async def get_caller_identity(services: Services, call: calls.Call) -> face.Members:
    """Return who the caller is. Every caller may ask."""
    principal = call.principal
    return {
        "UserId": principal.principal_id or principal.name,
        "Account": principal.account_id,
        "Arn": principal.arn,
    }


async def assume_role(services: Services, call: calls.Call) -> face.Members:
    """Return temporary credentials with the rights of a role, which session policies may bound."""
    members = call.value.members
    for name in NOT_OFFERED:
        if name in members:
            raise errors.ParameterNotOffered(f"{name} is not implemented.")
    principal = call.principal
    _check_session_name(members)
    claims = {} if principal.session is None else principal.session.claims
    tags = sessiontags.parse(members, sessiontags.inherited_of(claims))
    source = _source_identity(members, claims.get(model.SOURCE_CLAIM))
    actions = [ASSUME_ROLE, *([TAG_SESSION] if tags else []), *([SET_SOURCE] if source else [])]
    for action in actions:
        services.authoriser.check(principal, _role_demand(members, action, tags.context))
    role = services.identities.by_role_arn(members["RoleArn"])
    if role is None:  # only for root, which is allowed what does not exist
        raise _denied(call, "AssumeRole", f"The role {members['RoleArn']} does not exist")
    is_chained = principal.role_arn != ""
    seconds = duration_of(
        members,
        SESSION_SECONDS_DEFAULT,
        CHAINED_SECONDS_MAX if is_chained else role.row.max_session_seconds,
    )
    answer = _session(
        services,
        members,
        role,
        subject=principals.subject_of(principal),
        origin={**_origin_of(principal), **({model.SOURCE_CLAIM: source} if source else {})},
        seconds=seconds,
        tags=tags.claims,
    )
    return {**answer, "SourceIdentity": source} if source else answer


async def assume_role_with_web_identity(services: Services, call: calls.Call) -> face.Members:
    """Return temporary credentials with the rights of a role that trusts an identity provider, to
    the bearer of a token of that provider. The request has no signature."""
    members = call.value.members
    if "MinimumSessionTokenSize" in members:
        raise errors.ParameterNotOffered("MinimumSessionTokenSize is not implemented.")
    if "ProviderId" in members:
        raise errors.InvalidParameter("ProviderId is for OAuth 2.0 access tokens, not for OpenID.")
    _check_session_name(members)
    bearer = await services.federation.bearer_of(
        members["WebIdentityToken"], call.principal.context
    )
    services.authoriser.check(bearer.principal, _role_demand(members, ASSUME_BY_TOKEN))
    role = services.identities.by_role_arn(members["RoleArn"])
    assert role is not None, "its trust policy allows the caller"
    answer = _session(
        services,
        members,
        role,
        subject=bearer.provider.entry.principal.name,
        origin=bearer.origin,
        seconds=duration_of(members, SESSION_SECONDS_DEFAULT, role.row.max_session_seconds),
    )
    return {
        **answer,
        "SubjectFromWebIdentityToken": bearer.identity.subject,
        "Provider": bearer.provider.entry.principal.arn,
        "Audience": bearer.identity.audience,
    }


def _session(
    services: Services,
    members: Mapping[str, Any],
    role: identities.StoredRole,
    *,
    subject: str,
    origin: Mapping[str, Any],
    seconds: int,
    tags: Mapping[str, Any] = MappingProxyType({}),
) -> dict[str, Any]:
    """Return the credentials of a role's session. origin: claims that say where it comes from.

    tags: claims of its session tags.
    """
    bounds, session_name = _bounds_of(services, members), members["RoleSessionName"]
    keys = tokens.vend(
        services.ring,
        subject=subject,
        token_id=services.new_id(),
        scopes=None,
        now_ms=services.now_ms(),
        lifetime_seconds=seconds,
        extra={**origin, **tags, **identities.session_claims(role, session_name, **bounds)},
    )
    if len(keys.session_token) > limits.SESSION_TOKEN_BYTES_MAX:
        raise errors.PackedPolicyTooLarge("Session policies and tags are too long for a token.")
    answer: dict[str, Any] = {
        "Credentials": credentials_of(keys),
        "AssumedRoleUser": {
            "AssumedRoleId": f"{role.row.role_id}:{session_name}",
            "Arn": arns.session_arn(services.identities.account, role.row.name, session_name),
        },
    }
    if bounds or tags:
        answer["PackedPolicySize"] = len(keys.session_token) * 100 // limits.SESSION_TOKEN_BYTES_MAX
    return answer


def _origin_of(principal: model.Principal) -> dict[str, Any]:
    """Return the claims by which a role's session ends with the credentials that it comes from."""
    claims = {} if principal.session is None else principal.session.claims
    if principals.JOB_CLAIM in claims:
        return {principals.JOB_CLAIM: claims[principals.JOB_CLAIM]}
    if "idp" in claims:
        return {"idp": claims["idp"], "idc": claims["idc"]}
    return {"key": principal.access_key} if principal.access_key else {}


def _source_identity(members: Mapping[str, Any], inherited: str | None) -> str | None:
    """Return the source identity of a session. inherited: that of the caller's session, which
    cannot be changed. Raises InvalidParameter."""
    requested: str | None = members.get("SourceIdentity")
    if requested is not None and _SESSION_NAME.fullmatch(requested) is None:
        raise errors.InvalidParameter("SourceIdentity has letters, digits and _+=,.@- alone.")
    if requested is not None and inherited is not None and requested != inherited:
        raise errors.InvalidParameter(
            "The calling session has another source identity, which cannot be changed."
        )
    return requested or inherited


def _check_session_name(members: Mapping[str, Any]) -> None:
    if _SESSION_NAME.fullmatch(members["RoleSessionName"]) is None:
        raise errors.InvalidParameter("RoleSessionName has letters, digits and _+=,.@- alone.")


async def get_session_token(services: Services, call: calls.Call) -> face.Members:
    """Return temporary credentials with all rights of the caller."""
    members = call.value.members
    if call.principal.session is not None:
        raise _denied(
            call, "GetSessionToken", "Cannot call GetSessionToken with session credentials"
        )
    if "SerialNumber" in members or "TokenCode" in members:
        raise _denied(
            call,
            "GetSessionToken",
            "MultiFactorAuthentication failed: this server has no MFA devices",
        )
    keys = tokens.vend(
        services.ring,
        subject=principals.subject_of(call.principal),
        token_id=services.new_id(),
        scopes=None,
        now_ms=services.now_ms(),
        lifetime_seconds=duration_of(members, SESSION_SECONDS, SESSION_SECONDS),
        extra=principals.claims_of(call.principal),
    )
    return {"Credentials": credentials_of(keys)}


def duration_of(members: Mapping[str, Any], default_seconds: int, seconds_max: int) -> int:
    """Return how long credentials shall be valid. Raises InvalidParameter."""
    seconds: int = members.get("DurationSeconds", default_seconds)
    if seconds > seconds_max:
        raise errors.InvalidParameter(
            f"The requested DurationSeconds exceeds the maximum of {seconds_max} seconds."
        )
    return seconds


def _role_demand(
    members: Mapping[str, Any],
    action: str,
    tags: Mapping[str, model.ContextValue] = MappingProxyType({}),
) -> model.Demand:
    """Return the demand for assuming a role. tags: the condition keys of session tags."""
    context: dict[str, model.ContextValue] = {
        "sts:RoleSessionName": members["RoleSessionName"],
        **tags,
    }
    if "ExternalId" in members:
        context["sts:ExternalId"] = members["ExternalId"]
    if "DurationSeconds" in members:
        context["sts:DurationSeconds"] = str(members["DurationSeconds"])
    if "SourceIdentity" in members:
        context["sts:SourceIdentity"] = members["SourceIdentity"]
    return model.Demand(action=action, resource=members["RoleArn"], context=context)


def _bounds_of(services: Services, members: Mapping[str, Any]) -> dict[str, Any]:
    """Return the session policies of a request. Raises MalformedPolicy and InvalidParameter."""
    bounds: dict[str, Any] = {}
    if "Policy" in members:
        policies.parse_policy(members["Policy"], policy_type="identity", is_clients=True)
        document = json.loads(members["Policy"])
        bounds["policy"] = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    listed = [each.get("arn", "") for each in members.get("PolicyArns", ())]
    if len(listed) > limits.ATTACHED_POLICIES_MAX:
        raise errors.InvalidParameter(
            f"There are more than {limits.ATTACHED_POLICIES_MAX} PolicyArns."
        )
    for arn in listed:
        if not services.identities.has_policy(arn):
            raise errors.InvalidParameter(f"The policy {arn} does not exist.")
    if listed:
        bounds["references"] = [services.identities.reference_of(arn) for arn in listed]
    return bounds


def credentials_of(keys: tokens.VendedKeys) -> face.Members:
    """Return temporary credentials as the API's structure."""
    return {
        "AccessKeyId": keys.access_key,
        "SecretAccessKey": keys.secret_key,
        "SessionToken": keys.session_token,
        "Expiration": keys.expires_at_ms,
    }


def _denied(call: calls.Call, action: str, message: str) -> access_errors.AccessDenied:
    return access_errors.AccessDenied(message, action=f"sts:{action}", resource="*")


def _missing(name: str) -> face.ServiceRow:
    demand = model.Demand(action=f"sts:{name}", resource="*")
    return face.ServiceRow(name=name, function=None, demands=lambda services, call: (demand,))


def _free_row(name: str, function: face.Function) -> face.ServiceRow:
    """Return the row of an operation that every authenticated caller may use, as on AWS."""
    return face.ServiceRow(name=name, function=function, demands=calls.demand_nothing)


ROWS: Final[Mapping[str, face.ServiceRow]] = {
    row.name: row
    for row in (
        _free_row("AssumeRole", assume_role),  # its function checks the role's trust policy
        face.ServiceRow(
            name="AssumeRoleWithWebIdentity",
            function=assume_role_with_web_identity,
            demands=calls.demand_nothing,
            unsigned=True,
        ),
        _free_row("GetCallerIdentity", get_caller_identity),
        _free_row("GetSessionToken", get_session_token),
    )
}
"""The operations that exist."""


def make_face(services: Services) -> queryface.QueryFace:
    """Return the face of the STS API."""
    return queryface.QueryFace(
        name=NAME,
        namespace=NAMESPACE,
        load=functools.partial(aws_model.load, NAME),
        services=services,
        authoriser=services.authoriser,
        rows=ROWS,
        missing=_missing,
        wire_errors=WIRE_ERRORS,
    )

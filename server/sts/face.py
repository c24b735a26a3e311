"""face: the STS API: who a caller is, and temporary credentials.

The credentials are a token and a key pair derived from it (`server.access.tokens`); nothing is
stored. They end when they expire, and at once with the key pair that they come from.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from server import calls
from server.access import decide, model, principals, tokens
from server.access import errors as access_errors
from server.aws import face, queryface
from server.aws import model as aws_model
from server.aws import wire_errors as aws_wire_errors
from server.sts import errors
from storage import model as storage_model

NAME: Final = "sts"
NAMESPACE: Final = "https://sts.amazonaws.com/doc/2011-06-15/"
SESSION_SECONDS: Final = 12 * 60 * 60
"""The longest life of temporary credentials, and that of GetSessionToken's by default."""

WIRE_ERRORS: Final[aws_wire_errors.Table] = {
    errors.InvalidParameter: aws_wire_errors.WireError(status=400, code="ValidationError"),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Services:
    """The services of this face's functions."""

    authoriser: decide.Authoriser
    ring: tokens.KeyRing
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

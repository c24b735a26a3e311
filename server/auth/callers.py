"""rule: what authentication is asked for and finds out: who calls, by which credential, and how the
body is signed."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Literal, TypeAlias

import msgspec

from server.access import model
from server.auth import chunked

Scheme: TypeAlias = Literal[
    "none", "sigv4", "sigv4-query", "sigv2", "sigv2-query", "bearer", "basic", "open"
]


class Authentication(enum.Enum):
    """What an operation asks of its caller's credentials.

    NONE: nothing is looked at (health, the OAuth token endpoint). SELF: the face authenticates in
    `handle`, by tokens that the kit does not know (Snowflake sessions); demands are not asked.
    IN_BODY: the proof is in the body; the handler reads it and admits the caller (POST forms).
    SIGNED_OR_ANONYMOUS: a credential, if there is one, must be right. REQUIRED: there must be one.
    """

    NONE = "none"
    SELF = "self"
    IN_BODY = "in-body"
    SIGNED_OR_ANONYMOUS = "signed-or-anonymous"
    REQUIRED = "required"


@dataclass(frozen=True, kw_only=True, slots=True)
class Signing:
    """How a request proved itself. region and service are the credential scope's, else empty."""

    scheme: Scheme
    region: str = ""
    service: str = ""
    signed_headers: tuple[str, ...] = ()


class Caller(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The caller. credential_id: the access key or the token's id; empty for an anonymous one.

    payload: the checks of the body, see `chunked.Payload`.
    """

    principal: model.Principal
    payload: chunked.Payload
    credential_id: str
    signing: Signing

"""face: the token endpoint: issues a token for an access key pair or an older token.

OAuth's client credentials and token exchange, by form or by Basic, never in the query string,
because URLs are logged. The scope `PRINCIPAL_ROLE:NAME` asks for a token of a role, which the
client may have if it may assume the role; the exchange of such a token gives one of the same role,
while the client may still assume it. The exchange of an identity provider's token (of the type
`jwt` or `id_token`) gives one of the role that the scope names, if that role trusts the provider.
An expired token can be exchanged together with the key pair, as Iceberg's Java client does.
Refusals have OAuth's own form.
Source: RFC 6749 sections 2.3.1, 4.4, 5; RFC 8693.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import dataclasses
import re
import urllib.parse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from catalog.rest import errors
from server import asgi, calls, limits
from server.access import conditionkeys, decide, identities, model, principals, tokens
from server.access import errors as access_errors
from server.auth import throttle
from server.oidc import errors as oidc_errors
from server.oidc import federation
from storage import model as storage_model

if TYPE_CHECKING:
    from catalog.rest.service import Service

DOOR: Final = "iceberg"
"""The name of the face, for uses of access keys."""
CLIENT_CREDENTIALS: Final = "client_credentials"
TOKEN_EXCHANGE: Final = "urn:ietf:params:oauth:grant-type:token-exchange"
ACCESS_TOKEN_TYPE: Final = "urn:ietf:params:oauth:token-type:access_token"
IDENTITY_TOKEN_TYPES: Final = frozenset(
    {"urn:ietf:params:oauth:token-type:jwt", "urn:ietf:params:oauth:token-type:id_token"}
)
"""Of tokens that identity providers issued."""
SECRETS: Final = frozenset({"client_secret", "subject_token", "actor_token"})
EXCHANGEABLE: Final[tuple[tokens.TokenType, ...]] = ("access",)
ROLE_SCOPE: Final = "PRINCIPAL_ROLE:"
SESSION_NAME_MIN: Final = 2
SESSION_NAME_MAX: Final = 64
_SESSION_NAME_NOT: Final = re.compile(r"[^A-Za-z0-9_+=,.@-]")
"""What the name of a role's session cannot have, and a provider's subject can."""


async def get_token(service: Service, call: calls.Call) -> asgi.Response:
    """Answer with a token."""
    return await service.tokens.issue(call.request, call.body)


class TokenEndpoint:
    """Issues access tokens to authenticated clients."""

    def __init__(
        self,
        *,
        principals: principals.Principals,
        authoriser: decide.Authoriser,
        federation: federation.Federation,
        ring: tokens.KeyRing,
        now_ms: storage_model.NowMs,
        new_id: storage_model.NewId,
    ) -> None:
        self._principals = principals
        self._federation = federation
        self._authoriser = authoriser
        self._ring = ring
        self._throttle = throttle.Throttle(now_ms=now_ms)
        self._now_ms = now_ms
        self._new_id = new_id

    async def issue(self, request: asgi.Request, body: bytes) -> asgi.Response:
        """Answer a token request. Raises TokenRefused and TooManyFailures."""
        if any(name in SECRETS for name, _ in request.pairs):
            raise errors.TokenRefused(
                "invalid_request", "credentials belong in the body, never in the query string"
            )
        form = dict(reversed(asgi.parse_pairs(body)))
        client = self._client(request, form)
        grant = form.get("grant_type")
        context = conditionkeys.of_connection(request.client_ip, request.scheme)
        if grant == TOKEN_EXCHANGE and form.get("subject_token_type") in IDENTITY_TOKEN_TYPES:
            return await self._federate(form, context)
        if grant == CLIENT_CREDENTIALS:
            if client is None:
                raise errors.TokenRefused(
                    "invalid_client", "client_id and client_secret are needed"
                )
            principal, role = client, None
        elif grant == TOKEN_EXCHANGE:
            principal, role = self._exchange(form, client)
        elif grant is None:
            raise errors.TokenRefused("invalid_request", "grant_type is missing")
        else:
            raise errors.TokenRefused(
                "unsupported_grant_type",
                f"grant_type must be {CLIENT_CREDENTIALS} or {TOKEN_EXCHANGE}",
            )
        principal = dataclasses.replace(principal, context=context)
        scope = form.get("scope")
        if role is None:
            role = self._role_of(principal, scope)
        elif not self._may_assume(principal, role["role"], role["ses"]):
            raise errors.TokenRefused(
                "invalid_grant", "the client may no longer assume the token's role"
            )
        return self._answer(principal.name, scope, {**principals.claims_of(principal), **role})

    async def _federate(
        self, form: dict[str, str], context: dict[str, model.ContextValue]
    ) -> asgi.Response:
        """Answer the bearer of an identity provider's token with a token of a role."""
        token, scope = form.get("subject_token"), form.get("scope")
        if not token:
            raise errors.TokenRefused("invalid_request", "subject_token is missing")
        try:
            bearer = await self._federation.bearer_of(token, context)
        except oidc_errors.OidcError as error:
            raise errors.TokenRefused("invalid_grant", str(error)) from None
        names = _roles_of(scope)
        if len(names) != 1:
            raise errors.TokenRefused(
                "invalid_scope", f"the scope names the role of the token: {ROLE_SCOPE}NAME"
            )
        session_name = _SESSION_NAME_NOT.sub("-", bearer.identity.subject)[:SESSION_NAME_MAX]
        session_name = session_name.ljust(SESSION_NAME_MIN, "-")
        role = self._principals.role(names[0])
        if role is None or not self._may(
            bearer.principal, federation.ASSUME_BY_TOKEN, role, session_name
        ):
            raise errors.TokenRefused(
                "invalid_scope", f"there is no role {names[0][:100]!r} that the client may assume"
            )
        claims = {**bearer.origin, **identities.session_claims(role, session_name)}
        return self._answer(bearer.provider.entry.principal.name, scope, claims)

    def _client(self, request: asgi.Request, form: dict[str, str]) -> model.Principal | None:
        """Return the principal of the client's key pair, None if the request has none."""
        scheme, _, rest = (request.headers.get("authorization") or "").partition(" ")
        if scheme.lower() == "basic":
            client_id, secret = _parse_basic(rest.strip())
        elif "client_secret" in form:
            client_id, secret = form.get("client_id", ""), form["client_secret"]
        else:
            return None
        # The RFC requires both parts of Basic to be form-encoded; most clients do not encode them.
        decoded = _decoded(client_id, secret)
        pairs = ((client_id, secret), decoded)
        try:
            # A name has many encoded forms, which share one count.
            with self._throttle.attempt(decoded[0], request.client_ip):
                return self._check_any(pairs)
        except access_errors.WrongPassword:
            raise errors.TokenRefused(
                "invalid_client", "the access key or the secret key is wrong"
            ) from None

    def _check_any(self, pairs: Sequence[tuple[str, str]]) -> model.Principal:
        """Return the principal whose name and secret one of the pairs is. Raises WrongPassword."""
        for user, password in pairs:
            with contextlib.suppress(access_errors.WrongPassword):
                return self._principals.check_password(user, password, door=DOOR)
        raise access_errors.WrongPassword("the access key or the secret key is wrong")

    def _exchange(
        self, form: dict[str, str], client: model.Principal | None
    ) -> tuple[model.Principal, dict[str, Any] | None]:
        """Return the principal of an older token, and the claims of its role if it has one."""
        token = form.get("subject_token")
        if not token:
            raise errors.TokenRefused("invalid_request", "subject_token is missing")
        if form.get("subject_token_type", ACCESS_TOKEN_TYPE) != ACCESS_TOKEN_TYPE:
            raise errors.TokenRefused(
                "invalid_request", f"subject_token_type must be {ACCESS_TOKEN_TYPE}"
            )
        try:
            claims = tokens.verify(self._ring, token, types=EXCHANGEABLE, now_ms=self._now_ms())
        except access_errors.ExpiredJWT:
            if client is not None:
                return client, None
            raise errors.TokenRefused("invalid_grant", "the token has expired") from None
        except access_errors.InvalidJWT as error:
            raise errors.TokenRefused("invalid_grant", str(error)) from None
        issued_to = self._principals.of_claims(claims)
        if issued_to is None or (client is not None and client.name != issued_to.principal.name):
            raise errors.TokenRefused("invalid_grant", "the token belongs to another principal")
        if "role" not in claims.extra:
            return issued_to.principal, None
        if self._principals.assume(claims) is None:
            raise errors.TokenRefused("invalid_grant", "the token's role no longer exists")
        if "idp" in claims.extra:
            raise errors.TokenRefused(
                "invalid_grant",
                "the token comes from an identity provider's: exchange a new one of the provider",
            )
        for name in _roles_of(form.get("scope")):
            if name.lower() != claims.extra["role"].lower():
                raise errors.TokenRefused("invalid_scope", "the token is for another role")
        return issued_to.principal, dict(claims.extra)

    def _role_of(self, principal: model.Principal, scope: str | None) -> dict[str, Any]:
        """Return the claims of the role that a scope names, none for no role."""
        names = _roles_of(scope)
        if not names:
            return {}
        role = self._principals.role(names[0])
        if role is None or len(names) > 1 or not self._may_assume(principal, names[0]):
            raise errors.TokenRefused(
                "invalid_scope", f"there is no role {names[0][:100]!r} that the client may assume"
            )
        return identities.session_claims(role, principal.name)

    def _may_assume(self, principal: model.Principal, name: str, session_name: str = "") -> bool:
        """Return whether a client may assume a role now. session_name: the client's, if empty."""
        role = self._principals.role(name)
        if role is None:
            return False
        return self._may(principal, "sts:AssumeRole", role, session_name or principal.name)

    def _may(
        self,
        principal: model.Principal,
        action: str,
        role: identities.StoredRole,
        session_name: str,
    ) -> bool:
        demand = model.Demand(
            action=action,
            resource=self._principals.role_arn(role),
            context={"sts:RoleSessionName": session_name},
        )
        with contextlib.suppress(access_errors.AccessDenied):
            self._authoriser.check(principal, demand)
            return True
        return False

    def _answer(self, subject: str, scope: str | None, claims: dict[str, Any]) -> asgi.Response:
        token = tokens.issue(
            self._ring,
            typ="access",
            subject=subject,
            token_id=self._new_id(),
            now_ms=self._now_ms(),
            lifetime_seconds=limits.ACCESS_TOKEN_SECONDS,
            extra=claims,
        )
        content = {
            "access_token": token,
            "token_type": "bearer",
            "expires_in": limits.ACCESS_TOKEN_SECONDS,
            "issued_token_type": ACCESS_TOKEN_TYPE,
        }
        if scope:
            content["scope"] = scope
        headers = (("content-type", "application/json"), ("cache-control", "no-store"))
        return asgi.Response(200, headers, msgspec.json.encode(content))


def _roles_of(scope: str | None) -> list[str]:
    """Return the roles that a scope names; `ALL` stands for the rights of the client itself."""
    words = [word for word in (scope or "").split() if word.startswith(ROLE_SCOPE)]
    names = [word.removeprefix(ROLE_SCOPE) for word in words]
    return [name for name in names if name != "ALL"]


def _parse_basic(text: str) -> tuple[str, str]:
    try:
        user, colon, secret = base64.b64decode(text, validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        colon = ""
    if not colon:
        raise errors.TokenRefused("invalid_client", "the Basic credentials are malformed")
    return user, secret


def _decoded(user: str, secret: str) -> tuple[str, str]:
    return urllib.parse.unquote_plus(user), urllib.parse.unquote_plus(secret)

"""face: logins: which authenticator a request uses, and the context in which the session starts.

A user logs in by name and password, by access key and secret key, by a programmatic access token,
by a token of this server's OAuth endpoint, or by a JWT signed with a registered key. Other
authenticators are refused by name. This module chooses the check; the access model does it.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Mapping, Sequence
from typing import Protocol

from server.access import errors as access_errors
from server.access import model as access
from server.auth import errors as auth_errors
from server.auth import throttle
from sql import errors, keypair, parameters, roles, sessions
from sql.dialect import names
from sql.rest import routes, wire
from storage import model

ACCEPTED = (
    "SNOWFLAKE (password, or access key and secret key), SNOWFLAKE_JWT (a registered key pair), "
    "PROGRAMMATIC_ACCESS_TOKEN (a token of ALTER USER ... ADD PROGRAMMATIC ACCESS TOKEN) and "
    "OAUTH (a token of this server's OAuth endpoint)"
)


class CredentialChecker(Protocol):
    """Checks credentials against the access model; implemented by `sql.authentication`."""

    async def check_password(
        self, user: str, password: str, *, client_ip: str = ""
    ) -> access.Principal:
        """Return the principal of a name and password, or of a name or access key and secret key.

        Raises WrongPassword."""

    def check_token(self, token: str) -> access.Principal:
        """Return the principal of an access token. Raises InvalidJWT or ExpiredJWT."""

    def check_programmatic_token(self, token: str) -> access.Principal:
        """Return the principal of a programmatic access token, or of an access token.

        Raises InvalidPAT, ExpiredPAT, InvalidJWT or ExpiredJWT."""

    def role_restriction(self, principal: access.Principal) -> str:
        """Return the only role that a login's sessions may be in; "" for any."""

    def properties_of(self, principal: access.Principal) -> Mapping[str, str]:
        """Return the user's stored properties, such as `default_role`."""

    def keys_of(self, user: str) -> tuple[str, Sequence[str]]:
        """Return a user's stored name and public keys. user: in any letter case."""

    def principal_of(self, name: str, context: access.Context) -> access.Principal | None:
        """Return the current principal of a name in a connection's context, or None."""


class ContextResolver(Protocol):
    """Resolves a login's database and schema; implemented by `sql.contexts`."""

    def resolve(
        self, principal: access.Principal, database: str, schema: str
    ) -> tuple[str | None, str | None]:
        """Return the stored names of a login's database and schema; None for missing ones."""


class Logins:
    """Opens sessions."""

    def __init__(
        self,
        *,
        sessions: sessions.Sessions,
        credentials: CredentialChecker,
        contexts: ContextResolver,
        roles: roles.Roles,
        now_ms: model.NowMs,
    ) -> None:
        self._sessions = sessions
        self._credentials = credentials
        self._contexts = contexts
        self._roles = roles
        self._now_ms = now_ms
        self._throttle = throttle.Throttle(now_ms=now_ms)
        self._attempts: dict[tuple[str, str, str], asyncio.Task[access.Principal]] = {}

    async def open(
        self, operation: routes.Login, request: wire.LoginRequest, *, client_ip: str
    ) -> sessions.SessionGrant:
        """Return a new session's grant. Raises SessionFault, or SqlError for a bad parameter."""
        principal = await self._authenticated(request, client_ip)
        settings = parameters.from_login(request.session_parameters)
        stored = self._credentials.properties_of(principal)
        role = names.parse(operation.role).folded if operation.role else _role_of(principal)
        default_role = names.parse(stored.get("default_role", "")).folded
        if not operation.role and self._roles.in_role(principal, default_role) is not None:
            role = default_role
        restriction = self._credentials.role_restriction(principal)
        if restriction and operation.role and role != restriction:
            raise errors.role_refused(role)
        role = restriction or role
        acting = principal
        if role not in sessions.SYSTEM_ROLES:
            in_role = self._roles.in_role(principal, role)
            if in_role is None:
                raise errors.role_refused(role)
            acting = in_role
        database, schema = self._contexts.resolve(acting, *_namespace_of(operation, stored))
        warehouse_name = operation.warehouse or stored.get("default_warehouse", "")
        warehouse = {"warehouse": names.parse(warehouse_name).folded} if warehouse_name else {}
        return self._sessions.open(
            acting,
            user=principal if acting is not principal else None,
            account_name=request.account_name,
            client_app_id=request.client_app_id,
            client_app_version=request.client_app_version,
            client_ip=client_ip,
            database=database,
            schema=schema,
            role=role,
            parameters=settings,
            **warehouse,
        )

    async def _authenticated(self, request: wire.LoginRequest, client_ip: str) -> access.Principal:
        match request.authenticator:
            case "SNOWFLAKE":
                return await self._by_password(request, client_ip)
            case "OAUTH" | "PROGRAMMATIC_ACCESS_TOKEN":
                return self._by_token(request)
            case "SNOWFLAKE_JWT":
                return self._by_key_pair(request)
            case other:
                raise errors.login_refused(
                    f"The authenticator {other[:60]} is not served here; accepted are {ACCEPTED}."
                )

    async def _by_password(self, request: wire.LoginRequest, client_ip: str) -> access.Principal:
        """Check a password. Equal attempts at once are one: a pool of connections that opens costs
        one hash, and counts as one attempt."""
        if not request.login_name or not request.password:
            raise errors.login_refused()
        attempt = (request.login_name.casefold(), client_ip, request.password)
        task = self._attempts.get(attempt)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._attempt(request, client_ip))
            self._attempts[attempt] = task
            task.add_done_callback(functools.partial(self._attempts.pop, attempt))
        return await asyncio.shield(task)

    async def _attempt(self, request: wire.LoginRequest, client_ip: str) -> access.Principal:
        try:
            with self._throttle.attempt(request.login_name, client_ip):
                return await self._credentials.check_password(
                    request.login_name, request.password, client_ip=client_ip
                )
        except auth_errors.TooManyFailures as error:
            raise errors.login_refused(
                f"The user is locked for {error.retry_after_seconds} s at this address: too many "
                "wrong passwords."
            ) from None
        except access_errors.AccessError:
            raise errors.login_refused() from None

    def _by_token(self, request: wire.LoginRequest) -> access.Principal:
        is_oauth = request.authenticator == "OAUTH"
        try:
            if is_oauth:
                principal = self._credentials.check_token(request.token)
            else:
                principal = self._credentials.check_programmatic_token(request.token)
        except (access_errors.ExpiredJWT, access_errors.ExpiredPAT):
            code = "390318" if is_oauth else "394400"
            raise errors.SessionFault(code, "The access token has expired.", "28000") from None
        except access_errors.AccessError:
            code = "390303" if is_oauth else "394400"
            raise errors.SessionFault(code, "The access token is invalid.", "28000") from None
        name = request.login_name
        if name and name.upper() != principal.name.upper():
            raise errors.SessionFault(
                "390309", "The access token belongs to another user than the login names.", "28000"
            )
        return principal

    def _by_key_pair(self, request: wire.LoginRequest) -> access.Principal:
        name = keypair.check(
            request.token,
            request.login_name,
            keys_of=self._credentials.keys_of,
            now_ms=self._now_ms(),
        )
        principal = self._credentials.principal_of(name, {})
        if principal is None:
            raise errors.login_refused()
        return principal


def _namespace_of(operation: routes.Login, stored: Mapping[str, str]) -> tuple[str, str]:
    """Return the database and the schema that a login asks for, or else the user's defaults."""
    if operation.database:
        return operation.database, operation.schema
    database, _, schema = stored.get("default_namespace", "").partition(".")
    return database, operation.schema or schema


def _role_of(principal: access.Principal) -> str:
    return "ACCOUNTADMIN" if principal.type == "root" else "PUBLIC"

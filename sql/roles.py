"""engine: the roles of sessions. A role is a role of IAM, or one of Snowflake's own names.

A session in a stored role acts with the role's rights alone. The trust policy of the role says who
may be in it, as for AssumeRole. Snowflake's own roles change nothing: in them a session acts with
the rights of its user. A session of a programmatic access token with a role stays in that role.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
from dataclasses import dataclass
from typing import Any, Final

from server.access import arns, decide, identities, model, principals
from server.access import errors as access_errors
from sql import errors, limits, sessions

ASSUME_ROLE: Final = "sts:AssumeRole"


class Roles:
    """Decides who may be in which role. Stateless."""

    def __init__(self, *, principals: principals.Principals, authoriser: decide.Authoriser) -> None:
        self._principals = principals
        self._authoriser = authoriser

    def token_of(self, login: model.Principal) -> identities.StoredToken | None:
        """Return the programmatic access token of a login, None for another login.

        Raises SqlError if the token is not valid any more.
        """
        try:
            return self._principals.token_of(login)
        except access_errors.InvalidPAT as error:
            raise errors.session_ended(str(error)) from None

    def in_role(self, user: model.Principal, role: str) -> model.Principal | None:
        """Return a user as it acts in a stored role; None unless the role's trust allows it."""
        stored = self._principals.role(role)
        if stored is None:
            return None
        if not self._authoriser.permits(user, self._assumption(user, stored)):
            return None
        return self._principals.enter_role(user, role)

    def _assumption(self, user: model.Principal, role: identities.StoredRole) -> model.Demand:
        return model.Demand(
            action=ASSUME_ROLE,
            resource=self._principals.role_arn(role),
            context={"sts:RoleSessionName": user.name},
        )

    def acting_within(
        self,
        session: sessions.Session,
        stored: identities.Identities,
        draft: identities.IdentityDraft,
    ) -> model.Principal | None:
        """Return who a session acts as, as a transaction sees it; None if it may not go on.

        What is remembered of users and roles may be older than the transaction.
        """
        user = self._user_within(session.login, stored, draft)
        if user is None or session.role in sessions.SYSTEM_ROLES:
            return user
        role = stored.role_within(draft, session.role)
        if role is None:
            return None
        authoriser = self._authoriser.with_sides(lambda _: stored.side_of_role(role))
        if not authoriser.permits(user, self._assumption(user, role)):
            return None
        return self._principals.enter_stored_role(user, role)

    def _user_within(
        self,
        login: model.Principal,
        stored: identities.Identities,
        draft: identities.IdentityDraft,
    ) -> model.Principal | None:
        if login.type == "root" or self._principals.is_configured(login.name):
            return login
        user = stored.user_within(draft, login.name)
        if user is None or user.row.user_id != login.principal_id or user.row.disabled:
            return None
        if not login.access_key:
            return dataclasses.replace(
                user.entries[0].principal, access_key="", context=login.context
            )
        entries = {entry.access_key: entry for entry in user.entries}
        token = user.tokens.get(login.access_key)
        if token is not None and token.is_valid(now_ms=stored.now_ms()):
            entries[login.access_key] = token.entry
        entry = entries.get(login.access_key)
        if entry is None:
            return None
        return dataclasses.replace(entry.principal, context=login.context)

    async def available(self, user: model.Principal) -> list[str]:
        """Return the roles that a user may be in, in upper case: stored ones, and PUBLIC."""
        token = self.token_of(user)
        if token is not None and token.row.role:
            is_open = token.row.role in sessions.SYSTEM_ROLES
            return [token.row.role] if is_open or self.in_role(user, token.row.role) else []
        available = []
        for number, name in enumerate(self._principals.role_names()):
            if number % limits.ROLES_AT_ONCE == 0:
                await asyncio.sleep(0)
            if self.in_role(user, name) is not None:
                available.append(name.upper())
        return [*available, "PUBLIC"]

    def enter(self, session: sessions.Session, role: str) -> None:
        """Let a session act in a role from now on. Raises SqlError for one that it may not use."""
        user = session.login
        token = self.token_of(user)
        if token is not None and token.row.role not in ("", role):
            raise errors.does_not_exist("Role", role)
        if role in sessions.SYSTEM_ROLES:
            session.user, session.principal, session.role = None, user, role
            return
        principal = self.in_role(user, role)
        if principal is None:
            raise errors.does_not_exist("Role", role)
        session.user, session.principal, session.role = user, principal, role


GRANTED: Final = "GrantedToUsers"
"""The statement of a trust policy that names the users to whom a role is granted, and their ids: a
new user of the same name does not get the role."""
USER_ID: Final = "aws:userid"


@dataclass(frozen=True, kw_only=True, slots=True)
class GrantedUser:
    """A user to whom a role is granted. user_id: a new user of the same ARN has another one."""

    arn: str
    user_id: str


def first_trust(account: str) -> str:
    """Return the trust policy of a new role: who else may assume it is for policies to say."""
    statement = {
        "Sid": "Account",
        "Effect": "Allow",
        "Principal": {"AWS": arns.root_arn(account)},
        "Action": ASSUME_ROLE,
    }
    return _written({"Version": "2012-10-17", "Statement": [statement]})


def granted_users(trust: str) -> list[GrantedUser]:
    """Return the users to whom a role with this trust policy is granted."""
    return [user for each in _statements(trust) if _is_of_grants(each) for user in _users(each)]


def trust_with(trust: str, user: GrantedUser, *, is_granted: bool) -> str:
    """Return a trust policy with a role granted to a user, or not granted to the user."""
    document = json.loads(trust)
    users = [each for each in granted_users(trust) if each.arn != user.arn]
    if is_granted:
        users.append(user)
    statements = [each for each in _statements(trust) if not _is_of_grants(each)]
    if users:
        granted = {
            "Sid": GRANTED,
            "Effect": "Allow",
            "Principal": {"AWS": [each.arn for each in users]},
            "Action": ASSUME_ROLE,
            "Condition": {"StringEquals": {USER_ID: [each.user_id for each in users]}},
        }
        statements.append(granted)
    return _written({**document, "Statement": statements})


def _is_of_grants(statement: Any) -> bool:
    if (
        statement.get("Sid") != GRANTED
        or statement.get("Effect") != "Allow"
        or statement.get("Action") != ASSUME_ROLE
        or set(statement) != {"Sid", "Effect", "Principal", "Action", "Condition"}
        or list(statement["Principal"]) != ["AWS"]
        or list(statement["Condition"]) != ["StringEquals"]
        or list(statement["Condition"]["StringEquals"]) != [USER_ID]
    ):
        return False
    arns_of, ids = statement["Principal"]["AWS"], statement["Condition"]["StringEquals"][USER_ID]
    return isinstance(arns_of, list) and isinstance(ids, list) and len(arns_of) == len(ids)


def _users(statement: Any) -> list[GrantedUser]:
    ids = statement["Condition"]["StringEquals"][USER_ID]
    return [
        GrantedUser(arn=arn, user_id=user_id)
        for arn, user_id in zip(statement["Principal"]["AWS"], ids, strict=True)
    ]


def _statements(trust: str) -> list[Any]:
    statements = json.loads(trust)["Statement"]
    return statements if isinstance(statements, list) else [statements]


def _written(document: Any) -> str:
    return json.dumps(document, separators=(",", ":"))

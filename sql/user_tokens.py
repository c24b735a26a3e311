"""engine: programmatic access tokens of users: ADD, MODIFY, ROTATE, REMOVE and their listing.

A token is a part of its user's row (`server.access.programmatic`). Each statement needs the IAM
action of service-specific credentials of the same meaning, also for the caller's own tokens, but
that a user lists these without one. The transaction that changes tokens asks for it again. A
session that a token opened changes no token of its user. The text of a token is in the answer of
the statement that creates it and nowhere else: a statement that is repeated after a restart does
not find it again.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import re
from collections.abc import Callable
from typing import Final

import msgspec

from catalog import receipts
from server import limits as server_limits
from server.access import decide, identities, model, programmatic
from server.access import errors as access_errors
from server.access import identityrows as rows
from server.iam import errors as iam_errors
from server.iam import services, users
from sql import errors, listings, outcomes, planning, replays, sessions
from sql import roles as session_roles
from sql.dialect import names, operations

DONE: Final = "Statement executed successfully."
DAYS_DEFAULT: Final = 15
DAYS_MAX: Final = 365
HOURS_DEFAULT: Final = 24
HOUR_MS: Final = 60 * 60 * 1000
COMMENT_CHARS_MAX: Final = 1_000
NAME_CHARS_MAX: Final = 255
NOUN: Final = "Programmatic access token"

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

CREATED: Final = ("token_name", "token_secret")
ROTATED: Final = (*CREATED, "rotated_token_name")

Change = Callable[[rows.UserRow], tuple[rows.TokenRow, ...]]
"""A user's row to the tokens that it has from now on."""


class UserTokens:
    """Creates, changes, removes and lists programmatic access tokens. Stateless."""

    def __init__(
        self,
        *,
        iam: services.IamServices,
        roles: session_roles.Roles,
        replays: replays.Replays,
    ) -> None:
        self._iam = iam
        self._roles = roles
        self._replays = replays

    async def add(
        self, execution: planning.Execution, statement: operations.AddToken
    ) -> outcomes.Outcome:
        """Create a token, and return its text; raises SqlError."""
        user = _user_of(execution.session, statement.user)
        checked = self._checked(execution, "Create", user, if_exists=statement.if_exists)
        name = _new_name(statement.token)
        days = DAYS_DEFAULT if statement.days is None else statement.days
        if not 1 <= days <= DAYS_MAX:
            raise errors.invalid_parameter("DAYS_TO_EXPIRY", days)
        if checked is None:
            return outcomes.status(DONE)
        self._check_role(checked, statement.role)
        token_id, text = self._new_text()
        now_ms = self._iam.identities.now_ms()
        token = rows.TokenRow(
            token_id=token_id,
            name=name,
            digest=programmatic.digest_of(text),
            role=statement.role,
            comment=_comment(statement.comment),
            created_at_ms=now_ms,
            created_by=execution.session.login.name,
            days=days,
            expires_at_ms=now_ms + days * programmatic.DAY_MS,
        )

        def change(row: rows.UserRow) -> tuple[rows.TokenRow, ...]:
            _check_free(row, name)
            return (*row.tokens, token)

        await self._change(execution, "Create", checked, change)
        return _texts(CREATED, (name, text))

    async def rotate(
        self, execution: planning.Execution, statement: operations.RotateToken
    ) -> outcomes.Outcome:
        """Give a token another text, and return it; the text of before goes on for some hours."""
        user = _user_of(execution.session, statement.user)
        checked = self._checked(execution, "Reset", user, if_exists=statement.if_exists)
        if checked is None:
            return outcomes.status(DONE)
        name = statement.token.text.upper()
        token_id, text = self._new_text()
        now_ms = self._iam.identities.now_ms()
        before_name = ""

        def change(row: rows.UserRow) -> tuple[rows.TokenRow, ...]:
            nonlocal before_name
            token = _token_of(row, name)
            _check_not_rotated(token)
            taken = {each.name for each in row.tokens}
            numbers = itertools.count(now_ms)
            before_name = next(
                each for each in (f"{name}_ROTATED_{n}" for n in numbers) if each not in taken
            )
            left_ms = max(token.expires_at_ms - now_ms, 0)
            after_ms = (HOURS_DEFAULT if statement.hours is None else statement.hours) * HOUR_MS
            if statement.hours is not None and not 0 <= after_ms <= left_ms:
                raise errors.invalid_parameter("EXPIRE_ROTATED_TOKEN_AFTER_HOURS", statement.hours)
            before = msgspec.structs.replace(
                token,
                name=before_name,
                expires_at_ms=now_ms + min(after_ms, left_ms),
                rotated_to=name,
            )
            successor = msgspec.structs.replace(
                token,
                token_id=token_id,
                digest=programmatic.digest_of(text),
                created_at_ms=now_ms,
                created_by=execution.session.login.name,
                expires_at_ms=now_ms + token.days * programmatic.DAY_MS,
            )
            others = (each for each in row.tokens if each.token_id != token.token_id)
            return (*others, before, successor)

        await self._change(execution, "Reset", checked, change)
        return _texts(ROTATED, (name, text, before_name))

    async def modify(
        self, execution: planning.Execution, statement: operations.ModifyToken
    ) -> outcomes.Outcome:
        """Change a token's name, comment, or whether it is disabled; raises SqlError."""
        user = _user_of(execution.session, statement.user)
        checked = self._checked(execution, "Update", user, if_exists=statement.if_exists)
        receipt = self._receipt(execution)
        if checked is None or self._replays.is_done(receipt):
            return outcomes.status(DONE)
        name = statement.token.text.upper()
        new_name = name if statement.new_name is None else _new_name(statement.new_name)

        def change(row: rows.UserRow) -> tuple[rows.TokenRow, ...]:
            token = _token_of(row, name)
            if statement.new_name is not None or statement.comment is not None:
                _check_not_rotated(token)
            if new_name != name:
                _check_free(row, new_name)
            comment = token.comment if statement.comment is None else _comment(statement.comment)
            changed = msgspec.structs.replace(
                token,
                name=new_name,
                comment=comment,
                disabled=token.disabled if statement.disabled is None else statement.disabled,
            )
            return tuple(
                changed
                if each is token
                else msgspec.structs.replace(each, rotated_to=new_name)
                if each.rotated_to == name
                else each
                for each in row.tokens
            )

        await self._change(
            execution, "Update", checked, change, receipt, makes_room=statement.disabled is True
        )
        return outcomes.status(DONE)

    async def remove(
        self, execution: planning.Execution, statement: operations.RemoveToken
    ) -> outcomes.Outcome:
        """Remove a token, with which its sessions end; raises SqlError."""
        user = _user_of(execution.session, statement.user)
        checked = self._checked(execution, "Delete", user, if_exists=statement.if_exists)
        receipt = self._receipt(execution)
        name = statement.token.text.upper()
        success = outcomes.status(f"{NOUN} {name} successfully removed.")
        if checked is None:
            return outcomes.status(DONE)
        if self._replays.is_done(receipt):
            return success

        def change(row: rows.UserRow) -> tuple[rows.TokenRow, ...]:
            token = _token_of(row, name)
            return tuple(each for each in row.tokens if each is not token)

        await self._change(execution, "Delete", checked, change, receipt, makes_room=True)
        return success

    async def show(
        self, execution: planning.Execution, statement: operations.ShowTokens
    ) -> outcomes.Outcome:
        """Return the tokens of a user; raises SqlError 002003 for one that is hidden."""
        session = execution.session
        name = _user_of(session, statement.user)
        row = self._iam.user(name)
        is_own = name.casefold() == session.login.name.casefold()
        if not is_own and not self._may(session.principal, "List", self._iam.user_arn(name)):
            raise errors.described_does_not_exist("User", name.upper())
        if row is None and not is_own:
            raise errors.described_does_not_exist("User", name.upper())
        now_ms = self._iam.identities.now_ms()
        tokens = () if row is None else programmatic.kept(row.tokens, now_ms=now_ms)
        columns = _columns(row, now_ms)
        return outcomes.Outcome(
            columns=tuple(map(listings.result_column, columns)),
            rows=[
                listings.row(columns, each) for each in sorted(tokens, key=lambda each: each.name)
            ],
            statement_type_id=outcomes.StatementType.SHOW,
        )

    # Parts

    def _checked(
        self, execution: planning.Execution, verb: str, name: str, *, if_exists: bool
    ) -> rows.UserRow | None:
        """Return the user whose tokens the caller may change, None for none with IF EXISTS.

        verb: of the IAM action. Raises SqlError.
        """
        session = execution.session
        arn = self._iam.user_arn(name)
        demand = model.Demand(action=_action(verb), resource=arn)
        try:
            self._iam.authoriser.check(session.principal, demand)
        except access_errors.AccessDenied as denied:
            raise errors.not_authorized(str(denied)) from None
        try:
            self._iam.check_not_configured(name)
        except iam_errors.UnmodifiableEntity as error:
            raise errors.not_authorized(str(error)) from None
        is_by_token = self._roles.token_of(session.login) is not None
        if is_by_token and name.casefold() == session.login.name.casefold():
            raise errors.not_authorized(
                "A session that a programmatic access token opened cannot change tokens of its"
                " user."
            )
        row = self._iam.user(name)
        if row is None and not if_exists:
            raise errors.does_not_exist("User", name.upper())
        return row

    def _check_role(self, user: rows.UserRow, role: str) -> None:
        """Raise SqlError for a role that a user may not be in."""
        if role in sessions.SYSTEM_ROLES:  # in it a session has all rights of its user
            raise errors.invalid_parameter("ROLE_RESTRICTION", role)
        entry = self._iam.principals.by_name(user.name)
        if not role or entry is None:
            return
        if self._roles.in_role(entry.principal, role) is None:
            raise errors.does_not_exist("Role", role)

    def _recheck(
        self,
        session: sessions.Session,
        verb: str,
        row: rows.UserRow,
        draft: identities.IdentityDraft,
    ) -> None:
        """Raise SqlError unless the caller may still change a user's tokens.

        All is as the transaction sees it: the user, and the caller, its role and its policies. The
        audit log has the first decision; a refusal is recorded.
        """
        principal = self._roles.acting_within(session, self._iam.identities, draft)
        if principal is None:
            raise errors.not_authorized("The session has lost its rights.")
        tags = functools.partial(decide.tag_keys, identities.TAG_KEYS, row.tags)

        def side_of(demand: model.Demand) -> decide.ResourceSide:
            return dataclasses.replace(self._iam.authoriser.side_of(demand), tags=tags)

        authoriser = self._iam.authoriser.with_sides(side_of)
        demand = model.Demand(action=_action(verb), resource=self._iam.arn_of(row))
        if authoriser.permits(principal, demand):
            return
        try:
            authoriser.check(principal, demand)
        except access_errors.AccessDenied as denied:
            raise errors.not_authorized(str(denied)) from None

    async def _change(
        self,
        execution: planning.Execution,
        verb: str,
        checked: rows.UserRow,
        change: Change,
        receipt: receipts.Receipt | None = None,
        *,
        makes_room: bool = False,
    ) -> None:
        """Change the tokens of a user. makes_room: on a full disk too, as what ends access is."""
        now_ms = self._iam.identities.now_ms()

        def plan(draft: identities.IdentityDraft) -> None:
            row = users.same_user(draft, checked.name, checked)
            self._recheck(execution.session, verb, row, draft)
            tokens = programmatic.kept(change(row), now_ms=now_ms)
            live = [each for each in tokens if not programmatic.is_expired(each, now_ms=now_ms)]
            live_before = sum(
                not programmatic.is_expired(each, now_ms=now_ms) for each in row.tokens
            )
            if len(live) > max(server_limits.PROGRAMMATIC_TOKENS_MAX, live_before):
                raise errors.too_complex(
                    f"more than {server_limits.PROGRAMMATIC_TOKENS_MAX} programmatic access tokens"
                    f" of user {row.name.upper()}"
                )
            before = {each.token_id for each in row.tokens}
            after = {each.token_id for each in tokens}
            for token_id in before - after:
                draft.delete(rows.token_key(token_id))
            for token_id in after - before:
                draft.put_value(rows.token_key(token_id), row.name.lower().encode())
            draft.put(rows.key_of(rows.USER, row.name), msgspec.structs.replace(row, tokens=tokens))

        try:
            await self._iam.identities.change(
                plan,
                makes_room=makes_room,
                also=None if receipt is None else receipt.plan(),
            )
        except iam_errors.NoSuchEntity:  # another session dropped it meanwhile
            raise errors.does_not_exist("User", checked.name.upper()) from None

    def _new_text(self) -> tuple[str, str]:
        size = programmatic.ID_BYTES + programmatic.SECRET_BYTES
        return programmatic.new_text(self._iam.identities.random_bytes(size))

    def _receipt(self, execution: planning.Execution) -> receipts.Receipt:
        return self._replays.receipt_in(replays.NO_BUCKET, execution.query_id, by=execution.by)

    def _may(self, principal: model.Principal, verb: str, arn: str) -> bool:
        demand = model.Demand(action=_action(verb), resource=arn)
        return self._iam.authoriser.permits(principal, demand)


def _action(verb: str) -> str:
    plural = "s" if verb == "List" else ""
    return f"iam:{verb}ServiceSpecificCredential{plural}"


def _user_of(session: sessions.Session, user: names.Ident | None) -> str:
    return session.login.name if user is None else user.text


def _new_name(ident: names.Ident) -> str:
    if _NAME.fullmatch(ident.text) is None or len(ident.text) > NAME_CHARS_MAX:
        raise errors.invalid_name(
            NOUN.lower(), ident.text[:100], "it has letters, digits and underscores alone"
        )
    return ident.text.upper()


def _comment(text: str) -> str:
    if len(text) > COMMENT_CHARS_MAX:
        raise errors.too_long(text[:40])
    return text


def _token_of(row: rows.UserRow, name: str) -> rows.TokenRow:
    for token in row.tokens:
        if token.name == name:
            return token
    raise errors.does_not_exist(NOUN, name)


def _check_free(row: rows.UserRow, name: str) -> None:
    if any(token.name == name for token in row.tokens):
        raise errors.already_exists(NOUN, name)


def _check_not_rotated(token: rows.TokenRow) -> None:
    if token.rotated_to:
        raise errors.invalid_option(
            f"{NOUN} {token.name} was rotated to {token.rotated_to}: it can only be disabled or"
            " removed."
        )


def _texts(columns: tuple[str, ...], row: tuple[str, ...]) -> outcomes.Outcome:
    return outcomes.Outcome(
        columns=tuple(outcomes.Column(name=name, type="text") for name in columns),
        rows=[row],
        statement_type_id=outcomes.StatementType.DDL,
        is_secret=True,
    )


def _columns(user: rows.UserRow | None, now_ms: int) -> tuple[listings.ListedColumn, ...]:
    """Return the columns of SHOW, in Snowflake's order. user: whose tokens are listed."""
    shown = "" if user is None else user.name.upper()
    is_user_disabled = user is not None and user.disabled

    def status(token: rows.TokenRow) -> str:
        if programmatic.is_expired(token, now_ms=now_ms):
            return "EXPIRED"
        return "DISABLED" if token.disabled or is_user_disabled else "ACTIVE"

    return (
        listings.text("name", lambda each: each.name),
        listings.text("user_name", shown),
        listings.text("role_restriction", lambda each: each.role or None),
        listings.moment("expires_at", lambda each: each.expires_at_ms),
        listings.text("status", status),
        listings.text("comment", lambda each: each.comment or None),
        listings.moment("created_on", lambda each: each.created_at_ms),
        listings.text("created_by", lambda each: each.created_by.upper()),
        listings.number("mins_to_bypass_network_policy_requirement"),
        listings.text("rotated_to", lambda each: each.rotated_to or None),
    )

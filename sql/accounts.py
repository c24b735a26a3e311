"""engine: users and roles: CREATE, ALTER, DROP, DESCRIBE and their listings.

They are the users and roles of IAM, and each statement needs the IAM action of the same meaning.
Users of the configuration are listed and not changed. A change is one transaction with a receipt
that belongs to no bucket.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from catalog import receipts
from server import limits as server_limits
from server.access import errors as access_errors
from server.access import identities, model, passwords
from server.access import identityrows as rows
from server.iam import errors as iam_errors
from server.iam import roles as iam_roles
from server.iam import services, users
from sql import errors, keypair, limits, outcomes, planning, replays, sessions
from sql import roles as session_roles
from sql.dialect import operations

DONE: Final = "Statement executed successfully."
PROPERTY_CHARS_MAX: Final = 1_000

PROPERTIES: Final = (
    ("COMMENT", "comment", "user comment associated to an object in the dictionary"),
    ("DISPLAY_NAME", "display_name", "Display name of the associated object"),
    ("FIRST_NAME", "first_name", "First name of the user"),
    ("LAST_NAME", "last_name", "Last name of the user"),
    ("EMAIL", "email", "Email address of the user"),
    ("DEFAULT_WAREHOUSE", "default_warehouse", "Default warehouse for this user"),
    ("DEFAULT_NAMESPACE", "default_namespace", "Default database and schema of the user"),
    ("DEFAULT_ROLE", "default_role", "Primary principal of user session will be set to this role"),
)
"""Of DESCRIBE USER: name, key among the stored properties, description."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ListedUser:
    """A user."""

    row: rows.UserRow


@dataclass(frozen=True, kw_only=True, slots=True)
class ListedRole:
    """A role. is_current: the session is in it. users: how many it is granted to."""

    name: str
    created_at_ms: int | None
    is_current: bool
    users: int
    comment: str


class Accounts:
    """Creates, changes, drops and lists users and roles. Stateless."""

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

    # Users

    async def create_user(
        self, execution: planning.Execution, statement: operations.CreateUser
    ) -> outcomes.Outcome:
        """Create a user without rights; raises SqlError."""
        shown, name, changes = statement.name.folded, statement.name.stored, statement.changes
        self._check(execution, "CreateUser", self._iam.user_arn(name))
        receipt = self._receipt(execution)
        success = outcomes.status(f"User {shown} successfully created.")
        if self._replays.is_done(receipt):
            return success
        try:
            services.check_name(name)
        except iam_errors.InvalidMember as error:
            raise errors.invalid_name("user", shown, str(error)) from None
        row = rows.UserRow(
            name=name,
            user_id=self._iam.new_id("AIDA"),
            path="/",
            created_at_ms=self._iam.identities.now_ms(),
            tags={},
            inline={},
            attached=(),
            keys=(),
        )
        row = _changed(row, changes, await self._hash(changes))

        def plan(draft: identities.IdentityDraft) -> None:
            if draft.user(name) is not None or self._iam.principals.is_configured(name):
                raise iam_errors.EntityAlreadyExists
            counts = draft.counts()
            if counts.users >= server_limits.USERS_MAX:
                raise errors.too_complex(f"more than {server_limits.USERS_MAX} users")
            draft.put(rows.COUNTS, msgspec.structs.replace(counts, users=counts.users + 1))
            draft.put(rows.key_of(rows.USER, name), row)

        try:
            await self._iam.identities.change(plan, also=receipt.plan())
        except iam_errors.EntityAlreadyExists:
            if not statement.if_not_exists:
                raise errors.already_exists("Object", shown) from None
            return outcomes.status(f"{shown} already exists, statement succeeded.")
        return success

    async def alter_user(
        self, execution: planning.Execution, statement: operations.AlterUser
    ) -> outcomes.Outcome:
        """Change a user's credentials and properties; raises SqlError."""
        shown, name, changes = statement.name.folded, statement.name.text, statement.changes
        success = outcomes.status(DONE)
        arn = self._iam.user_arn(name)
        if changes.password is not None or changes.public_keys:
            self._check(execution, "UpdateLoginProfile", arn)
        if changes.disabled is not None or changes.properties:
            self._check(execution, "UpdateUser", arn)
        receipt = self._receipt(execution)
        if self._replays.is_done(receipt):
            return success
        hashed = await self._hash(changes)
        checked = self._changeable(name)
        if checked is None:
            if statement.if_exists:
                return success
            raise errors.does_not_exist("User", shown)

        def plan(draft: identities.IdentityDraft) -> None:
            row = users.same_user(draft, name, checked)
            draft.put(rows.key_of(rows.USER, name), _changed(row, changes, hashed))

        await self._change(plan, receipt, "User", shown)
        return success

    async def describe_user(
        self, execution: planning.Execution, statement: operations.DescribeUser
    ) -> outcomes.Outcome:
        """Return the properties of a user; raises SqlError 002003 for one that is hidden."""
        name = statement.name.text
        row = self._iam.user(name)
        login, principal = execution.session.login, execution.session.principal
        is_own = row is not None and row.name.casefold() == login.name.casefold()
        if row is None or not (is_own or self._may(principal, "GetUser", self._iam.arn_of(row))):
            raise errors.described_does_not_exist("User", statement.name.folded)
        keys = [*row.public_keys, "", ""]
        described = [
            ("NAME", row.name.upper(), "null", "Name"),
            *(
                (title, row.properties.get(key) or "null", "null", text)
                for title, key, text in PROPERTIES
            ),
            ("DISABLED", str(row.disabled).lower(), "false", "Whether the user is disabled"),
            ("PASSWORD", "********" if row.password else "null", "null", "Password of the user"),
            (
                "RSA_PUBLIC_KEY_FP",
                _fingerprint(keys[0]),
                "null",
                "Fingerprint of user's public key",
            ),
            ("RSA_PUBLIC_KEY_2_FP", _fingerprint(keys[1]), "null", "Fingerprint of the second key"),
        ]
        return outcomes.Outcome(
            columns=tuple(
                outcomes.Column(name=name, type="text")
                for name in ("property", "value", "default", "description")
            ),
            rows=described,
            statement_type_id=outcomes.StatementType.DESCRIBE,
        )

    # Roles

    async def create_role(
        self, execution: planning.Execution, statement: operations.CreateRole
    ) -> outcomes.Outcome:
        """Create a role without rights, granted to no user; raises SqlError."""
        shown, name = statement.name.folded, statement.name.stored
        self._check(execution, "CreateRole", self._iam.role_arn(name))
        receipt = self._receipt(execution)
        success = outcomes.status(f"Role {shown} successfully created.")
        if self._replays.is_done(receipt):
            return success
        try:
            services.check_name(name)
        except iam_errors.InvalidMember as error:
            raise errors.invalid_name("role", shown, str(error)) from None
        row = rows.RoleRow(
            name=name,
            role_id=self._iam.new_id("AROA"),
            path="/",
            created_at_ms=self._iam.identities.now_ms(),
            tags={},
            inline={},
            attached=(),
            trust=session_roles.first_trust(self._iam.account),
            description=statement.comment[:PROPERTY_CHARS_MAX],
            max_session_seconds=iam_roles.SESSION_SECONDS,
        )

        def plan(draft: identities.IdentityDraft) -> None:
            if draft.role(name) is not None or name.upper() in sessions.SYSTEM_ROLES:
                raise iam_errors.EntityAlreadyExists
            counts = draft.counts()
            if counts.roles >= server_limits.ROLES_MAX:
                raise errors.too_complex(f"more than {server_limits.ROLES_MAX} roles")
            draft.put(rows.COUNTS, msgspec.structs.replace(counts, roles=counts.roles + 1))
            draft.put(rows.key_of(rows.ROLE, name), row)

        try:
            await self._iam.identities.change(plan, also=receipt.plan())
        except iam_errors.EntityAlreadyExists:
            if not statement.if_not_exists:
                raise errors.already_exists("Object", shown) from None
            return outcomes.status(f"{shown} already exists, statement succeeded.")
        return success

    async def alter_role(
        self, execution: planning.Execution, statement: operations.AlterRole
    ) -> outcomes.Outcome:
        """Set or remove a role's comment; raises SqlError."""
        shown, name = statement.name.folded, statement.name.text
        self._check(execution, "UpdateRole", self._iam.role_arn(name))
        receipt = self._receipt(execution)
        checked = self._iam.role(name)
        if checked is None and not statement.if_exists:
            raise errors.does_not_exist("Role", shown)
        if checked is not None and not self._replays.is_done(receipt):
            description = statement.comment[:PROPERTY_CHARS_MAX]

            def plan(draft: identities.IdentityDraft) -> None:
                row = iam_roles.same_role(draft, name, checked)
                changed = msgspec.structs.replace(row, description=description)
                draft.put(rows.key_of(rows.ROLE, name), changed)

            await self._change(plan, receipt, "Role", shown)
        return outcomes.status(DONE)

    # Both

    async def drop(
        self, execution: planning.Execution, statement: operations.DropIdentity
    ) -> outcomes.Outcome:
        """Drop a user or role with its policies and keys; raises SqlError.

        The caller needs the right to remove each of them.
        """
        shown, name, is_user = (
            statement.name.folded,
            statement.name.text,
            statement.object_type == "user",
        )
        noun = statement.object_type.title()
        arn = self._iam.user_arn(name) if is_user else self._iam.role_arn(name)
        self._check(execution, f"Delete{noun}", arn)
        receipt = self._receipt(execution)
        success = outcomes.status(f"{shown} successfully dropped.")
        if self._replays.is_done(receipt):
            return success
        checked = self._changeable(name) if is_user else self._iam.role(name)
        if checked is None:
            if statement.if_exists:
                return outcomes.status(
                    f"Drop statement executed successfully ({shown} already dropped)."
                )
            raise errors.does_not_exist(noun, shown)
        if checked.inline:
            self._check(execution, f"Delete{noun}Policy", arn)
        if checked.attached:
            self._check(execution, f"Detach{noun}Policy", arn)
        if isinstance(checked, rows.UserRow) and checked.keys:
            self._check(execution, "DeleteAccessKey", arn)
        if isinstance(checked, rows.UserRow) and checked.tokens:
            self._check(execution, "DeleteServiceSpecificCredential", arn)

        def plan(draft: identities.IdentityDraft) -> None:
            row: rows.UserRow | rows.RoleRow
            counts = draft.counts()
            if isinstance(checked, rows.UserRow):
                row = users.same_user(draft, name, checked)
                counts = msgspec.structs.replace(counts, users=counts.users - 1)
                for key in row.keys:
                    draft.delete(rows.access_key_key(key.access_key))
                for token in row.tokens:
                    draft.delete(rows.token_key(token.token_id))
            else:
                row = iam_roles.same_role(draft, name, checked)
                counts = msgspec.structs.replace(counts, roles=counts.roles - 1)
            if _parts_of(row) != _parts_of(checked):
                raise iam_errors.DeleteConflict("It has other policies or keys now.")
            row_type = rows.USER if is_user else rows.ROLE
            for reference in row.attached:
                draft.delete(rows.attachment_key(reference, row_type, row.name))
            draft.put(rows.COUNTS, counts)
            draft.delete(rows.key_of(row_type, name))

        await self._change(plan, receipt, noun, shown)
        return success

    async def users(self, session: sessions.Session) -> list[ListedUser]:
        """Return the users that a session may see: all, or its own."""
        login = session.login
        sees_all = self._may(session.principal, "ListUsers", self._iam.users_arn)

        def read() -> list[rows.UserRow]:
            with self._iam.identities.view() as view:
                return list(self._iam.users_after(view, ""))

        return [
            ListedUser(row=row)
            for row in await asyncio.to_thread(read)
            if sees_all or row.name == login.name
        ]

    async def roles(self, session: sessions.Session) -> list[ListedRole]:
        """Return the roles that a session may see: all, or those that its user may be in."""
        users = await asyncio.to_thread(self.users_by_arn)
        sees_all = self._may(session.principal, "ListRoles", self._iam.roles_arn)
        listed = [
            ListedRole(
                name=name, created_at_ms=None, is_current=name == session.role, users=0, comment=""
            )
            for name in sorted({"PUBLIC", session.role} & sessions.SYSTEM_ROLES)
        ]
        for number, row in enumerate(await asyncio.to_thread(self.role_rows)):
            if number % limits.ROLES_AT_ONCE == 0:
                await asyncio.sleep(0)
            if sees_all or self._roles.in_role(session.login, row.name) is not None:
                listed.append(
                    ListedRole(
                        name=row.name.upper(),
                        created_at_ms=row.created_at_ms,
                        is_current=row.name.upper() == session.role,
                        users=sum(
                            users.get(each.arn) == each.user_id
                            for each in session_roles.granted_users(row.trust)
                        ),
                        comment=row.description,
                    )
                )
        return listed

    def users_by_arn(self) -> dict[str, str]:
        """Return the id of every user, by its ARN. For a thread: it remembers nothing."""
        with self._iam.identities.view() as view:
            return {self._iam.arn_of(row): row.user_id for row in self._iam.users_after(view, "")}

    def role_rows(self) -> list[rows.RoleRow]:
        """Return all stored roles. For a thread: it remembers nothing."""
        with self._iam.identities.view() as view:
            return list(services.rows_after(view, rows.ROLE, rows.RoleRow, ""))

    # Parts

    def _changeable(self, name: str) -> rows.UserRow | None:
        """Return a user's row. Raises SqlError 003001 for one of the configuration."""
        try:
            self._iam.check_not_configured(name)
        except iam_errors.UnmodifiableEntity as error:
            raise errors.not_authorized(str(error)) from None
        return self._iam.user(name)

    async def _change(
        self, plan: Any, receipt: receipts.Receipt, object_type: str, shown: str
    ) -> None:
        try:
            await self._iam.identities.change(plan, also=receipt.plan())
        except iam_errors.NoSuchEntity:  # another session dropped it meanwhile
            raise errors.does_not_exist(object_type, shown) from None
        except iam_errors.DeleteConflict as error:
            raise errors.SqlError("000625", "40001", f"{object_type} {shown}: {error}") from None

    async def _hash(self, changes: operations.UserChanges) -> str | None:
        """Return the hash of a new password, "" to remove it, None for no change."""
        if not changes.password:
            return changes.password
        length = len(changes.password)
        if not passwords.LENGTH_MIN <= length <= passwords.LENGTH_MAX:
            raise errors.SqlError(
                "003002",
                "28P01",
                "SQL execution error: Password must have "
                f"{passwords.LENGTH_MIN} to {passwords.LENGTH_MAX} characters.",
            )
        salt = self._iam.identities.random_bytes(passwords.SALT_BYTES)
        return await asyncio.to_thread(passwords.hash_of, changes.password, salt)

    def _receipt(self, execution: planning.Execution) -> receipts.Receipt:
        return self._replays.receipt_in(replays.NO_BUCKET, execution.query_id, by=execution.by)

    def _check(self, execution: planning.Execution, action: str, arn: str) -> None:
        demand = model.Demand(action=f"iam:{action}", resource=arn)
        try:
            self._iam.authoriser.check(execution.session.principal, demand)
        except access_errors.AccessDenied as denied:
            raise errors.not_authorized(str(denied)) from None

    def _may(self, principal: model.Principal, action: str, arn: str) -> bool:
        demand = model.Demand(action=f"iam:{action}", resource=arn)
        return self._iam.authoriser.permits(principal, demand)


def _parts_of(row: rows.UserRow | rows.RoleRow) -> tuple[Any, ...]:
    if isinstance(row, rows.RoleRow):
        return bool(row.inline), row.attached
    credentials = [*(key.access_key for key in row.keys), *(each.token_id for each in row.tokens)]
    return bool(row.inline), row.attached, credentials


def _changed(
    row: rows.UserRow, changes: operations.UserChanges, hashed: str | None
) -> rows.UserRow:
    """Return a user's row with changes. hashed: of the new password. Raises SqlError."""
    public_keys = [*row.public_keys, "", ""][:2]
    for number, text in changes.public_keys:
        if text and not keypair.is_public_key(text):
            raise errors.SqlError(
                "002049",
                "22023",
                "SQL compilation error:\nNew public key rejected by current policy."
                " Reason: 'Invalid public key'",
                phase="COMPILATION",
            )
        public_keys[number] = text
    properties = dict(row.properties)
    for name, value in changes.properties:
        if len(value) > PROPERTY_CHARS_MAX:
            raise errors.too_long(value[:40])
        if value:
            properties[name] = value
        else:
            properties.pop(name, None)
    tokens = row.tokens
    if changes.disabled:  # they stay so when the user is enabled again
        tokens = tuple(msgspec.structs.replace(each, disabled=True) for each in tokens)
    return msgspec.structs.replace(
        row,
        password=row.password if hashed is None else hashed,
        public_keys=tuple(public_keys) if any(public_keys) else (),
        disabled=row.disabled if changes.disabled is None else changes.disabled,
        properties=properties,
        tokens=tokens,
    )


def _fingerprint(text: str) -> str:
    return "null" if not text else f"SHA256:{keypair.fingerprint_of(text)}"

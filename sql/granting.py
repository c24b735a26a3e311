"""engine: GRANT, REVOKE and SHOW GRANTS.

A grant of privileges is a statement in a policy of its user or role (`sql.grants`), a grant of a
role one in the role's trust policy. To grant is to change that policy: it needs iam:PutUserPolicy,
iam:PutRolePolicy or iam:UpdateAssumeRolePolicy, whatever the caller itself may do.
"""

from __future__ import annotations

import asyncio
import datetime
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from catalog import idents, rights
from server import limits as server_limits
from server.access import errors as access_errors
from server.access import identities, model
from server.access import identityrows as rows
from server.iam import errors as iam_errors
from server.iam import roles as iam_roles
from server.iam import services, users
from sql import accounts, errors, grants, limits, outcomes, places, planning, replays, sessions
from sql import roles as session_roles
from sql.dialect import names, operations

DONE: Final = "Statement executed successfully."
OBJECTS_MAX: Final = 1_000
"""Objects of one GRANT ... ON ALL."""

PRIVILEGE_COLUMNS: Final = (
    "created_on", "privilege", "granted_on", "name", "granted_to", "grantee_name", "grant_option",
    "granted_by",
)  # fmt: skip
ROLE_COLUMNS: Final = ("created_on", "role", "granted_to", "grantee_name", "granted_by")

_TABLE_ARN: Final = re.compile(r"arn:aws:s3tables:[^:]*:[0-9]*:bucket/([^/]+)/table/([^/]+)")
_BUCKET_ARN: Final = re.compile(r"arn:aws:s3tables:[^:]*:[0-9]*:bucket/([^/]+)")


@dataclass(frozen=True, kw_only=True, slots=True)
class GrantHolderRow:
    """The user or role of grants."""

    object_type: str
    row: rows.UserRow | rows.RoleRow
    arn: str

    @property
    def shown(self) -> str:
        """Its name, as SHOW has it."""
        return self.row.name.upper()


class Granting:
    """Grants, revokes and lists. Stateless."""

    def __init__(
        self,
        *,
        iam: services.IamServices,
        places: places.Places,
        accounts: accounts.Accounts,
        roles: session_roles.Roles,
        replays: replays.Replays,
    ) -> None:
        self._iam = iam
        self._places = places
        self._accounts = accounts
        self._roles = roles
        self._replays = replays

    async def grant_warehouse(
        self, execution: planning.Execution, statement: operations.GrantWarehouse
    ) -> outcomes.Outcome:
        """Grant the use of a warehouse, which every user and role has already.

        Raises SqlError for a role or user that does not exist, as the other grants do.
        """
        self._changeable(execution, statement.holder)
        return outcomes.status(DONE)

    async def grant_privileges(
        self, execution: planning.Execution, statement: operations.GrantPrivileges
    ) -> outcomes.Outcome:
        """Grant privileges on an object, or on all of a schema, or revoke them."""
        holder = self._changeable(execution, statement.holder)
        noun = holder.object_type.title()
        receipt = self._replays.receipt_in(replays.NO_BUCKET, execution.query_id, by=execution.by)
        if self._replays.is_done(receipt):
            return outcomes.status(DONE)
        changed = await asyncio.to_thread(self._grants, execution, statement)
        gone = await asyncio.to_thread(self._gone, holder)
        is_user = holder.object_type == "user"
        word = "GRANT" if statement.is_grant else "REVOKE"

        def plan(draft: identities.IdentityDraft) -> None:
            name, row = holder.row.name, holder.row
            fresh: rows.UserRow | rows.RoleRow
            if isinstance(row, rows.UserRow):
                fresh = users.same_user(draft, name, row)
            else:
                fresh = iam_roles.same_role(draft, name, row)
            held = _held(fresh)
            after = held | changed if statement.is_grant else held - changed
            for each in changed & after if statement.is_grant else after:
                missing = grants.missing_implied(after, each)
                if missing is not None:
                    raise errors.unsupported(
                        f"{word} that leaves {each.privileges[0]} without {missing[0]}"
                    )
            chars_max = (
                server_limits.USER_POLICIES_CHARS_MAX
                if is_user
                else server_limits.ROLE_POLICIES_CHARS_MAX
            )
            inline = _with_grants(fresh, after)
            if _characters(inline) > chars_max:
                # No statement names a dropped table, so nothing else makes room for the new grant.
                inline = _with_grants(fresh, after - gone)
            if statement.is_grant and _characters(inline) > chars_max:
                raise errors.too_complex(
                    f"the policies of {holder.object_type} {holder.shown} would have more than"
                    f" {chars_max:,} characters: revoke some privileges, or grant roles"
                )
            draft.put(
                rows.key_of(rows.USER if is_user else rows.ROLE, name),
                msgspec.structs.replace(fresh, inline=inline),
            )

        try:
            await self._iam.identities.change(plan, also=receipt.plan())
        except iam_errors.NoSuchEntity:  # another session dropped it meanwhile
            raise errors.does_not_exist(noun, holder.shown) from None
        return outcomes.status(DONE)

    async def grant_role(
        self, execution: planning.Execution, statement: operations.GrantRole
    ) -> outcomes.Outcome:
        """Grant a role to a user, or revoke it; raises SqlError."""
        self._check(execution, "UpdateAssumeRolePolicy", self._iam.role_arn(statement.role.text))
        role = self._holder(operations.GrantHolder(object_type="role", name=statement.role))
        user = self._iam.user(statement.user.text)
        if user is None:
            raise errors.does_not_exist("User", statement.user.folded)
        granted_user = session_roles.GrantedUser(arn=self._iam.arn_of(user), user_id=user.user_id)
        receipt = self._replays.receipt_in(replays.NO_BUCKET, execution.query_id, by=execution.by)
        if self._replays.is_done(receipt):
            return outcomes.status(DONE)
        checked = role.row
        assert isinstance(checked, rows.RoleRow)

        def plan(draft: identities.IdentityDraft) -> None:
            row = iam_roles.same_role(draft, checked.name, checked)
            trust = session_roles.trust_with(row.trust, granted_user, is_granted=statement.is_grant)
            if services.count_characters(trust) > server_limits.TRUST_POLICY_CHARS_MAX:
                raise errors.too_complex(
                    f"the trust policy of role {role.shown} would have more than"
                    f" {server_limits.TRUST_POLICY_CHARS_MAX:,} characters"
                )
            changed = msgspec.structs.replace(row, trust=trust)
            draft.put(rows.key_of(rows.ROLE, row.name), changed)

        try:
            await self._iam.identities.change(plan, also=receipt.plan())
        except iam_errors.NoSuchEntity:  # another session dropped it meanwhile
            raise errors.does_not_exist("Role", role.shown) from None
        return outcomes.status(DONE)

    async def show(
        self, execution: planning.Execution, statement: operations.ShowGrants
    ) -> outcomes.Outcome:
        """Return the grants of a holder, of a role, or on an object; raises SqlError."""
        session = execution.session
        match statement.form:
            case "own":
                available = await self._roles.available(session.login)
                login = session.login.name.upper()
                return _shown(
                    ROLE_COLUMNS,
                    [(None, name, "USER", login, "") for name in available if name != "PUBLIC"],
                )
            case "of":
                assert statement.holder is not None
                return await self._of_role(execution, statement.holder)
            case "to":
                assert statement.holder is not None
                if statement.holder.object_type == "user":
                    return await self._to_user(execution, statement.holder)
                return await self._to_role(execution, statement.holder)
        assert statement.target is not None
        return await self._on(execution, statement.target)

    # Listings

    async def _of_role(
        self, execution: planning.Execution, named: operations.GrantHolder
    ) -> outcomes.Outcome:
        role = self._readable(execution, named)
        assert isinstance(role.row, rows.RoleRow)
        users = await asyncio.to_thread(self._accounts.users_by_arn)
        return _shown(
            ROLE_COLUMNS,
            [
                (_moment(role.row), role.shown, "USER", each.arn.rpartition("/")[2].upper(), "")
                for each in session_roles.granted_users(role.row.trust)
                if users.get(each.arn) == each.user_id
            ],
        )

    async def _to_user(
        self, execution: planning.Execution, named: operations.GrantHolder
    ) -> outcomes.Outcome:
        user = self._readable(execution, named)
        assert isinstance(user.row, rows.UserRow)
        as_granted = session_roles.GrantedUser(arn=user.arn, user_id=user.row.user_id)
        granted = await asyncio.to_thread(
            lambda: [
                role
                for role in self._accounts.role_rows()
                if as_granted in session_roles.granted_users(role.trust)
            ]
        )
        roles = [
            (_moment(role), role.name.upper(), "USER", user.shown, "", "", "", "")
            for role in granted
        ]
        privileges = [
            (row[0], "", "USER", user.shown, "", row[1], row[2], row[3])
            for row in await asyncio.to_thread(lambda: list(self._rows_of(user)))
        ]
        columns = (*ROLE_COLUMNS, "privilege", "granted_on", "name")
        return _shown(columns, [*roles, *privileges])

    async def _to_role(
        self, execution: planning.Execution, named: operations.GrantHolder
    ) -> outcomes.Outcome:
        if named.name.folded.upper() in sessions.SYSTEM_ROLES:
            return _shown(PRIVILEGE_COLUMNS, [])
        role = self._readable(execution, named)
        granted = await asyncio.to_thread(lambda: list(self._rows_of(role)))
        return _shown(PRIVILEGE_COLUMNS, granted)

    async def _on(
        self, execution: planning.Execution, target: operations.GrantTarget
    ) -> outcomes.Outcome:
        objects = {
            (each.arn, each.namespace)
            for each in await asyncio.to_thread(self._targets, execution, target)
        }

        def read() -> list[tuple[Any, ...]]:
            granted: list[tuple[Any, ...]] = []
            for holder in self._holders():
                if grants.POLICY in holder.row.inline and self._may_read(execution, holder):
                    granted += self._rows_of(holder, objects)
            return granted

        return _shown(PRIVILEGE_COLUMNS, await asyncio.to_thread(read))

    def _holders(self) -> Iterator[GrantHolderRow]:
        for role in self._accounts.role_rows():
            yield GrantHolderRow(object_type="role", row=role, arn=self._iam.arn_of(role))
        with self._iam.identities.view() as view:
            for user in self._iam.users_after(view, ""):
                yield GrantHolderRow(object_type="user", row=user, arn=self._iam.arn_of(user))

    def _rows_of(
        self, holder: GrantHolderRow, objects: set[tuple[str, str]] | None = None
    ) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a holder's grants. objects: ARN and namespace of those on which."""
        try:
            held = _held(holder.row)
        except errors.SqlError:
            return
        for grant in sorted(held):
            if objects is not None and (grant.arn, grant.namespace) not in objects:
                continue
            name = self._name_of(grant)
            if name is None:
                continue
            for privilege in grant.privileges:
                yield (
                    _moment(holder.row),
                    privilege,
                    grant.object_type,
                    name,
                    holder.object_type.upper(),
                    holder.shown,
                    "false",
                    "",
                )

    def _gone(self, holder: GrantHolderRow) -> set[grants.GrantedRight]:
        """Return the grants of a holder on tables and views that are dropped."""
        return {each for each in _held(holder.row) if self._name_of(each) is None}

    def _name_of(self, grant: grants.GrantedRight) -> str | None:
        """Return the name of a grant's object; None for one that is gone."""
        if grant.object_type == "ACCOUNT":
            return self._iam.account
        match = _TABLE_ARN.fullmatch(grant.arn)
        if match is not None:
            ident = self._places.ident_of(match[1], match[2])
            if ident is None:
                return None
            return ".".join(
                map(
                    names.written,
                    (
                        names.of_database(ident.table_bucket),
                        idents.dotted(ident.namespace),
                        ident.name,
                    ),
                )
            )
        match = _BUCKET_ARN.fullmatch(grant.arn)
        if match is None:
            return None
        parts = (match[1], grant.namespace) if grant.namespace else (match[1],)
        return ".".join(map(names.written, parts))

    # Objects and holders

    def _grants(
        self, execution: planning.Execution, statement: operations.GrantPrivileges
    ) -> set[grants.GrantedRight]:
        """Return what a GRANT grants, or a REVOKE revokes; raises SqlError."""
        word = "GRANT" if statement.is_grant else "REVOKE"
        meant: dict[str, list[grants.Privileges]] = {}

        def privileges_of(object_type: operations.GrantedType) -> list[grants.Privileges]:
            if object_type not in meant:
                privileges, fault = grants.find_rights(object_type, statement.privileges)
                if fault:
                    raise errors.unsupported(f"{word} {fault} ON {object_type}")
                meant[object_type] = privileges
            return meant[object_type]

        privileges_of(statement.target.object_type)
        targets = self._targets(execution, statement.target)
        return {
            grants.GrantedRight(
                object_type=target.object_type,
                privileges=each,
                arn=target.arn,
                namespace=target.namespace,
            )
            for target in targets
            for each in privileges_of(target.object_type)
        }

    def _targets(
        self, execution: planning.Execution, target: operations.GrantTarget
    ) -> list[grants.GrantedRight]:
        """Return the objects that a clause names, as grants without privileges."""
        if target.object_type == "ACCOUNT":
            return [_on_object("ACCOUNT", grants.ANY_ACCOUNT_RESOURCE)]
        session = execution.session
        with self._places.view(session.principal) as catalog:
            if target.object_type == "DATABASE":
                if len(target.name) != 1:
                    raise errors.invalid_identifier(names.dotted(target.name))
                database = catalog.visible_database(target.name[0])
                return [_on_object("DATABASE", self._places.bucket_arn(database))]
            if target.all_in:
                return list(self._all(catalog, session, target))
            if target.object_type == "SCHEMA":
                schema = catalog.visible_schema(
                    target.name, database=session.database, exactly=True
                )
                if not schema.namespace:
                    raise errors.unsupported("GRANT ... ON SCHEMA INFORMATION_SCHEMA")
                arn = self._places.bucket_arn(schema.database)
                return [_on_object("SCHEMA", arn, idents.dotted(schema.namespace))]
            table = catalog.relation(
                target.name,
                database=session.database,
                schema=session.schema,
                exactly=True,
                actions=rights.LOAD_ACTIONS[:1],
            )
            if target.object_type == "VIEW" and table.pointer.object_type == "table":
                raise errors.of_other_type("TABLE", "VIEW")
            return [self._on_table(table)]

    def _all(
        self,
        catalog: places.CatalogView,
        session: sessions.Session,
        target: operations.GrantTarget,
    ) -> Iterator[grants.GrantedRight]:
        """Yield the objects of GRANT ... ON ALL."""
        namespaces: Sequence[idents.Namespace]
        if target.all_in == "database":
            if len(target.name) != 1:
                raise errors.invalid_identifier(names.dotted(target.name))
            database = catalog.visible_database(target.name[0])
            namespaces = catalog.schemas(database)
        else:
            schema = catalog.visible_schema(target.name, database=session.database, exactly=True)
            database, namespaces = schema.database, [schema.namespace]
        count = 0
        for namespace in namespaces:
            if target.object_type == "SCHEMA":
                each: Iterable[grants.GrantedRight] = [
                    _on_object(
                        "SCHEMA", self._places.bucket_arn(database), idents.dotted(namespace)
                    )
                ]
            else:
                object_type = "view" if target.object_type == "VIEW" else "table"
                listed = catalog.tables(database, namespace, object_type)  # type: ignore[arg-type]  # one of the two above
                if len(listed) > OBJECTS_MAX:
                    raise errors.too_complex(f"more than {OBJECTS_MAX:,} objects in a GRANT")
                tables_of = [catalog.find(ident, object_type) for ident in listed]  # type: ignore[arg-type]  # as above
                each = [self._on_table(table) for table in tables_of if table is not None]
            for grant in each:
                count += 1
                if count > OBJECTS_MAX:
                    raise errors.too_complex(f"more than {OBJECTS_MAX:,} objects in a GRANT")
                yield grant

    def _on_table(self, table: places.NamedTable) -> grants.GrantedRight:
        object_type: operations.GrantedType = (
            "VIEW" if table.pointer.object_type == "view" else "TABLE"
        )
        arn = self._places.bucket_arn(table.ident.table_bucket)
        return _on_object(object_type, f"{arn}/table/{table.pointer.object_uuid}")

    def _changeable(
        self, execution: planning.Execution, named: operations.GrantHolder
    ) -> GrantHolderRow:
        """Return a user or role whose policies the caller may change; raises SqlError.

        The right is asked first: callers without it do not learn which users and roles exist.
        """
        name, is_user = named.name.text, named.object_type == "user"
        arn = self._iam.user_arn(name) if is_user else self._iam.role_arn(name)
        self._check(execution, f"Put{named.object_type.title()}Policy", arn)
        return self._holder(named)

    def _holder(self, named: operations.GrantHolder) -> GrantHolderRow:
        """Return a user or role; raises SqlError."""
        name = named.name.text
        row = self._iam.user(name) if named.object_type == "user" else self._iam.role(name)
        if row is None:
            raise errors.does_not_exist(named.object_type.title(), named.name.folded)
        if isinstance(row, rows.UserRow):
            try:
                self._iam.check_not_configured(name)
            except iam_errors.UnmodifiableEntity as error:
                raise errors.not_authorized(str(error)) from None
        return GrantHolderRow(object_type=named.object_type, row=row, arn=self._iam.arn_of(row))

    def _readable(
        self, execution: planning.Execution, named: operations.GrantHolder
    ) -> GrantHolderRow:
        """Return a user or role whose grants the caller may read; 002003 for any other."""
        missing = errors.does_not_exist(named.object_type.title(), named.name.folded)
        name = named.name.text
        row = self._iam.user(name) if named.object_type == "user" else self._iam.role(name)
        if row is None:
            raise missing
        holder = GrantHolderRow(object_type=named.object_type, row=row, arn=self._iam.arn_of(row))
        if not self._may_read(execution, holder):
            raise missing
        return holder

    def _may_read(self, execution: planning.Execution, holder: GrantHolderRow) -> bool:
        noun = holder.object_type.title()
        return self._is_own(execution, holder) or self._may(
            execution, f"Get{noun}Policy", holder.arn
        )

    def _is_own(self, execution: planning.Execution, holder: GrantHolderRow) -> bool:
        session = execution.session
        if holder.object_type == "role":
            return session.principal.role_arn == holder.arn
        return holder.row.name.casefold() == session.login.name.casefold()

    def _check(self, execution: planning.Execution, action: str, arn: str) -> None:
        demand = model.Demand(action=f"iam:{action}", resource=arn)
        try:
            self._iam.authoriser.check(execution.session.principal, demand)
        except access_errors.AccessDenied as denied:
            raise errors.not_authorized(str(denied)) from None

    def _may(self, execution: planning.Execution, action: str, arn: str) -> bool:
        demand = model.Demand(action=f"iam:{action}", resource=arn)
        return self._iam.authoriser.permits(execution.session.principal, demand)


def _with_grants(
    row: rows.UserRow | rows.RoleRow, granted: set[grants.GrantedRight]
) -> dict[str, str]:
    """Return the inline policies of a user or role with these grants."""
    inline = {key: text for key, text in row.inline.items() if key != grants.POLICY}
    return {**inline, grants.POLICY: grants.document(granted)} if granted else inline


def _characters(inline: Mapping[str, str]) -> int:
    return sum(map(services.count_characters, inline.values()))


def _held(row: rows.UserRow | rows.RoleRow) -> set[grants.GrantedRight]:
    """Return the grants of a user or role; raises SqlError for a policy that is not GRANT's."""
    text = row.inline.get(grants.POLICY)
    if text is None:
        return set()
    try:
        return grants.parse(text)
    except grants.Malformed:
        raise errors.unsupported(
            f"grants of {row.name}, whose policy {grants.POLICY} was changed by other means"
        ) from None


def _on_object(
    object_type: operations.GrantedType, arn: str, namespace: str = ""
) -> grants.GrantedRight:
    return grants.GrantedRight(object_type=object_type, privileges=(), arn=arn, namespace=namespace)


def _moment(row: rows.UserRow | rows.RoleRow) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(row.created_at_ms / 1000, datetime.UTC)


def _shown(columns: Sequence[str], listed: Sequence[tuple[Any, ...]]) -> outcomes.Outcome:
    return outcomes.Outcome(
        columns=tuple(
            outcomes.Column(name=name, type="timestamp_ltz", scale=3)
            if name == "created_on"
            else outcomes.Column(name=name, type="text")
            for name in columns
        ),
        rows=listed[: limits.SHOWN_ROWS_MAX],
        statement_type_id=outcomes.StatementType.SHOW,
    )

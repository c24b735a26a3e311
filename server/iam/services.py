"""engine: what the functions of the IAM API share: identities by name, their ARNs, pages.

Users of mini.toml are shown as rows that cannot be changed: `configured`.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import heapq
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar

from server import calls, config
from server.access import (
    arns,
    canned,
    decide,
    identities,
    keyuses,
    model,
    policies,
    principals,
)
from server.access import identityrows as rows
from server.iam import errors
from storage import batch

Members: TypeAlias = Mapping[str, Any]
"""Members of an answer, by the model's names."""

ROOT: Final = "root"
PAGE_ITEMS: Final = 100
PAGE_CHARACTERS_MAX: Final = 512 * 1024
"""A page ends after the item with which its texts exceed this: the event loop encodes it."""
OWN_ID_PREFIX: Final = "ANPA"

_NAME: Final = re.compile(r"[A-Za-z0-9_+=,.@-]+")
_PATH: Final = re.compile(r"/(?:[!-~]+/)?")

Row = TypeVar("Row", rows.UserRow, rows.RoleRow, rows.PolicyRow)
Holder = TypeVar("Holder", rows.UserRow, rows.RoleRow)
Item = TypeVar("Item")


@dataclass(frozen=True, kw_only=True, slots=True)
class IamServices:
    """The services of the IAM API's functions. configured: users of mini.toml, by lower-case
    name."""

    identities: identities.Identities
    principals: principals.Principals
    authoriser: decide.Authoriser
    key_uses: keyuses.KeyUses
    configured: Mapping[str, rows.UserRow]

    @property
    def account(self) -> str:
        """The account that all identities belong to."""
        return self.identities.account

    def user(self, name: str) -> rows.UserRow | None:
        """Return a user of mini.toml or a stored one."""
        configured = self.configured.get(name.lower())
        if configured is not None:
            return configured
        stored = self.identities.user(name)
        return None if stored is None else stored.row

    def key_owner(self, access_key: str) -> rows.UserRow | None:
        """Return the user that has an access key, which need not be active."""
        for row in self.configured.values():
            if access_key in (key.access_key for key in row.keys):
                return row
        name = self.identities.owner_of_key(access_key)
        return None if name is None else self.user(name)

    def role(self, name: str) -> rows.RoleRow | None:
        """Return a role."""
        stored = self.identities.role(name)
        return None if stored is None else stored.row

    def user_arn(self, name: str) -> str:
        """Return the ARN of a user that may not exist."""
        row = self.user(name)
        return arns.user_arn(self.account, name, "/") if row is None else self.arn_of(row)

    @property
    def users_arn(self) -> str:
        """Return the resource of listing all users."""
        return arns.user_arn(self.account, "", "/")

    @property
    def roles_arn(self) -> str:
        """Return the resource of listing all roles."""
        return arns.role_arn(self.account, "/", "")

    def role_arn(self, name: str) -> str:
        """Return the ARN of a role that may not exist."""
        row = self.role(name)
        return arns.role_arn(self.account, "/", name) if row is None else self.arn_of(row)

    def arn_of(self, row: rows.UserRow | rows.RoleRow | rows.PolicyRow) -> str:
        """Return the ARN of an identity or a policy."""
        match row:
            case rows.UserRow():
                return arns.user_arn(self.account, row.name, row.path)
            case rows.RoleRow():
                return arns.role_arn(self.account, row.path, row.name)
        account = "aws" if is_own_row(row) else self.account
        return arns.policy_arn(account, row.path, row.name)

    def reference_of(self, arn: str) -> str | None:
        """Return the reference of a managed policy's ARN; None for any other text."""
        return self.identities.reference_of(arn)

    def find_policy(self, view: batch.Lookup, arn: str) -> rows.PolicyRow:
        """Return the row of a managed policy, the server's own among them. Raises NoSuchEntity."""
        if is_own_policy(arn):
            return own_row(arn.rpartition("/")[2])
        reference = self.reference_of(arn)
        value = None
        if reference is not None and reference.isascii() and len(reference) <= 128:
            value = view.get(batch.Store.IDENTITIES, rows.key_of(rows.POLICY, reference))
        if value is not None:
            row = rows.decode(value, rows.PolicyRow)
            if self.arn_of(row) == arn:
                return row
        raise errors.NoSuchEntity(f"Policy {arn} does not exist or is not attachable.")

    def check_not_configured(self, name: str) -> None:
        """Raise UnmodifiableEntity for a user that the server's configuration has."""
        if name.lower() in self.configured or name.lower() == ROOT:
            raise errors.UnmodifiableEntity(
                f"The user {name} comes from the server's configuration, not from IAM."
            )

    def new_id(self, prefix: str) -> str:
        """Return a new unique id in AWS's form."""
        digits = base64.b32encode(self.identities.random_bytes(15)).decode()
        return prefix + digits[:17]

    def users_after(self, view: batch.Reading, name: str) -> Iterator[rows.UserRow]:
        """Yield all users behind a lower-case name, in the order of their names."""
        configured = (self.configured[each] for each in sorted(self.configured) if each > name)
        stored = rows_after(view, rows.USER, rows.UserRow, name)
        return heapq.merge(configured, stored, key=lambda row: row.name.lower())


def configured_users(
    users: Iterable[config.User], people: principals.Principals, account: str
) -> dict[str, rows.UserRow]:
    """Return the users of mini.toml that belong to the server's account, as rows."""
    shown = {}
    for user in users:
        entry = people.by_access_key(user.access_key)
        if entry.principal.account_id != account:
            continue
        documents = [each for each in user.policies if isinstance(each, Mapping)]
        names = [each for each in user.policies if isinstance(each, str)]
        shown[user.name.lower()] = rows.UserRow(
            name=user.name,
            user_id=entry.principal.principal_id,
            path="/",
            created_at_ms=0,
            tags={},
            inline={
                f"policy-{number}": json.dumps(document, default=dict)
                for number, document in enumerate(documents, 1)
            },
            attached=tuple(rows.OWN_PREFIX + name for name in names),
            keys=(
                rows.KeyRow(access_key=user.access_key, sealed=b"", active=True, created_at_ms=0),
            ),
        )
    return shown


def rows_after(
    view: batch.Reading, row_type: bytes, row_class: type[Row], name: str
) -> Iterator[Row]:
    """Yield the rows of a type behind a lower-case name, in the order of their names."""
    start = rows.key_of(row_type, name) + b"\x00" if name else row_type
    stop = bytes([row_type[0] + 1])
    for _, value in view.scan(batch.Store.IDENTITIES, start, stop):
        yield rows.decode(value, row_class)


def own_user(call: calls.Call) -> str:
    """Return the user that a request is about: the one it names, or the caller."""
    name: str | None = call.value.members.get("UserName")
    if name is not None:
        return name
    if call.principal.type not in ("user", "root"):
        raise errors.InvalidMember("Must specify userName when calling with non-User credentials")
    return call.principal.name


def check_name(name: str, *, length_max: int = 64) -> str:
    """Return the name of a new identity or policy. Raises InvalidMember."""
    if _NAME.fullmatch(name) is None or len(name) > length_max:
        raise errors.InvalidMember(
            f"The name {name!r} is not 1 to {length_max} letters, digits and _+=,.@-"
        )
    return name


def path_of(members: Mapping[str, Any]) -> str:
    """Return the path of a new identity or policy. Raises InvalidMember."""
    path: str = members.get("Path", "/")
    if _PATH.fullmatch(path) is None:
        raise errors.InvalidMember("The Path must begin and end with a slash.")
    return path


def check_offered(members: Mapping[str, Any], *names: str) -> None:
    """Raise OptionNotOffered for a member that would have no effect."""
    for name in names:
        if name in members:
            raise errors.OptionNotOffered(f"{name} is not implemented.")


def check_policy(text: str, *, policy_type: policies.PolicyType) -> int:
    """Return how many characters of a policy count against its quota. Raises MalformedPolicy."""
    policies.parse_policy(text, policy_type=policy_type, is_clients=True)
    return count_characters(text)


def count_characters(text: str) -> int:
    """Return the number of characters that are not white space."""
    return len("".join(text.split()))


def no_such(what: str, name: str) -> errors.NoSuchEntity:
    """Return the error that AWS has for an absent user, role or policy."""
    return errors.NoSuchEntity(f"The {what} with name {name} cannot be found.")


def page(
    members: Mapping[str, Any],
    items_after: Callable[[str], Iterable[Item]],
    *,
    name_of: Callable[[Item], str],
    encode: Callable[[Item], Any],
    member: str,
) -> dict[str, Any]:
    """Return one page of a listing. items_after: all behind a lower-case name, in order."""
    count_max: int = members.get("MaxItems", PAGE_ITEMS)
    after = _decode_marker(members["Marker"]) if "Marker" in members else ""
    listed: list[Any] = []
    last = ""
    characters = 0
    for item in items_after(after):
        if len(listed) == count_max or characters > PAGE_CHARACTERS_MAX:
            marker = base64.urlsafe_b64encode(last.encode()).decode()
            return {member: listed, "IsTruncated": True, "Marker": marker}
        listed.append(encode(item))
        characters += len(str(listed[-1]))
        last = name_of(item).lower()
    return {member: listed, "IsTruncated": False}


async def identities_page(
    iam: IamServices,
    members: Mapping[str, Any],
    rows_of: Callable[[batch.Reading, str], Iterable[Holder]],
    *,
    encode: Callable[[Holder], Any],
    member: str,
) -> Members:
    """Return one page of users or roles below a request's path prefix, in the order of their names.

    rows_of: all behind a lower-case name, in order.
    """
    prefix = members.get("PathPrefix", "/")

    def read() -> Members:
        with iam.identities.view() as view:
            return page(
                members,
                lambda after: (row for row in rows_of(view, after) if row.path.startswith(prefix)),
                name_of=lambda row: row.name,
                encode=encode,
                member=member,
            )

    return await asyncio.to_thread(read)


def names_after(names: Iterable[str]) -> Callable[[str], Iterable[str]]:
    """Return the `items_after` of a few names."""
    return lambda after: sorted((name for name in names if name.lower() > after), key=str.lower)


def cased_tags_page(members: Mapping[str, Any], tags: Mapping[str, str]) -> Members:
    """Return one page of tags whose keys have case, as those of policies and providers."""
    by_code = {key.encode().hex(): key for key in tags}
    return page(
        members,
        names_after(by_code),
        name_of=str,
        encode=lambda code: {"Key": by_code[code], "Value": tags[by_code[code]]},
        member="Tags",
    )


def _decode_marker(marker: str) -> str:
    try:
        return base64.b64decode(marker, altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        raise errors.InvalidMember("The Marker is not one of this server.") from None


def demand(action: str, resource: str, **context: model.ContextValue) -> tuple[model.Demand, ...]:
    """Return the demand of an operation of IAM."""
    return (model.Demand(action=f"iam:{action}", resource=resource, context=context),)


def own_row(name: str) -> rows.PolicyRow:
    """Return one of the server's own policies as a row."""
    policy = canned.CANNED[name]
    version = rows.VersionRow(number=1, document=policy.document, created_at_ms=0)
    return rows.PolicyRow(
        name=name,
        policy_id=principals.principal_id_of(OWN_ID_PREFIX, name),
        path="/",
        created_at_ms=0,
        updated_at_ms=0,
        tags={},
        description=policy.description,
        default=1,
        last=1,
        versions=(version,),
    )


def is_own_row(row: rows.PolicyRow) -> bool:
    """Return whether a row is one of `own_row`."""
    return row.created_at_ms == 0 and row.name in canned.CANNED


def is_own_policy(arn: str) -> bool:
    """Return whether an ARN is that of one of the server's own policies."""
    prefix = arns.policy_arn("aws", "/", "")
    return arn.startswith(prefix) and arn.removeprefix(prefix) in canned.CANNED

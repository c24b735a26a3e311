"""engine: the operations of IAM on the policies and tags of users and roles, one each for both."""

from __future__ import annotations

import urllib.parse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import msgspec

from server import calls, limits
from server.access import identities
from server.access import identityrows as rows
from server.iam import errors, roles, services, users
from server.iam.services import IamServices

HolderRow: TypeAlias = rows.UserRow | rows.RoleRow
Change: TypeAlias = Callable[[identities.IdentityDraft, Any], HolderRow]


@dataclass(frozen=True, kw_only=True, slots=True)
class IdentityType:
    """What differs between users and roles. chars_max: of all inline policies together."""

    what: str
    row_type: bytes
    member: str
    chars_max: int

    def row(self, iam: IamServices, call: calls.Call) -> HolderRow:
        """Return the identity that a request names. Raises NoSuchEntity."""
        name = call.value.members[self.member]
        row = iam.user(name) if self.row_type == rows.USER else iam.role(name)
        if row is None:
            raise services.no_such(self.what, name)
        return row

    async def change(self, iam: IamServices, call: calls.Call, change: Change) -> None:
        """Replace the row of the identity that a request names."""
        name = call.value.members[self.member]
        if self.row_type == rows.USER:
            iam.check_not_configured(name)
        checked = self.row(iam, call)

        def plan(draft: identities.IdentityDraft) -> None:
            row: HolderRow
            if isinstance(checked, rows.UserRow):
                row = users.same_user(draft, name, checked)
            else:
                row = roles.same_role(draft, name, checked)
            draft.put(rows.key_of(self.row_type, name), change(draft, row))

        await iam.identities.change(plan)


USERS: Final = IdentityType(
    what="user",
    row_type=rows.USER,
    member="UserName",
    chars_max=limits.USER_POLICIES_CHARS_MAX,
)
ROLES: Final = IdentityType(
    what="role",
    row_type=rows.ROLE,
    member="RoleName",
    chars_max=limits.ROLE_POLICIES_CHARS_MAX,
)


async def put_policy(holder: IdentityType, iam: IamServices, call: calls.Call) -> services.Members:
    """Add or replace an inline policy."""
    members = call.value.members
    name = services.check_name(members["PolicyName"], length_max=128)
    document = members["PolicyDocument"]
    services.check_policy(document, policy_type="identity")

    def change(draft: identities.IdentityDraft, row: HolderRow) -> HolderRow:
        inline = {**row.inline, name: document}
        if sum(map(services.count_characters, inline.values())) > holder.chars_max:
            raise errors.LimitExceeded(
                f"Maximum policy size of {holder.chars_max} bytes exceeded for {holder.what} "
                f"{row.name}"
            )
        return msgspec.structs.replace(row, inline=inline)

    await holder.change(iam, call, change)
    return {}


async def get_policy(holder: IdentityType, iam: IamServices, call: calls.Call) -> services.Members:
    """Return an inline policy."""
    name = call.value.members["PolicyName"]
    row = holder.row(iam, call)
    document = row.inline.get(name)
    if document is None:
        raise _no_policy(holder, name)
    return {
        holder.member: row.name,
        "PolicyName": name,
        "PolicyDocument": urllib.parse.quote(document, safe=""),
    }


async def delete_policy(
    holder: IdentityType, iam: IamServices, call: calls.Call
) -> services.Members:
    """Remove an inline policy."""
    name = call.value.members["PolicyName"]

    def change(draft: identities.IdentityDraft, row: HolderRow) -> HolderRow:
        if name not in row.inline:
            raise _no_policy(holder, name)
        inline = {each: text for each, text in row.inline.items() if each != name}
        return msgspec.structs.replace(row, inline=inline)

    await holder.change(iam, call, change)
    return {}


async def list_policies(
    holder: IdentityType, iam: IamServices, call: calls.Call
) -> services.Members:
    """Return the names of the inline policies."""
    return services.page(
        call.value.members,
        services.names_after(holder.row(iam, call).inline),
        name_of=str,
        encode=str,
        member="PolicyNames",
    )


async def attach_policy(
    holder: IdentityType, iam: IamServices, call: calls.Call
) -> services.Members:
    """Attach a managed policy. One that is attached stays so."""
    arn = call.value.members["PolicyArn"]
    reference = iam.reference_of(arn)

    def change(draft: identities.IdentityDraft, row: HolderRow) -> HolderRow:
        iam.find_policy(draft.reading, arn)
        assert reference is not None
        if reference.lower() in map(str.lower, row.attached):
            return row
        if len(row.attached) >= limits.ATTACHED_POLICIES_MAX:
            raise errors.LimitExceeded(
                f"Cannot exceed quota for PoliciesPer{holder.what.capitalize()}: "
                f"{limits.ATTACHED_POLICIES_MAX}"
            )
        draft.put_value(_attachment(holder, reference, row), b"")
        return msgspec.structs.replace(row, attached=(*row.attached, reference))

    await holder.change(iam, call, change)
    return {}


async def detach_policy(
    holder: IdentityType, iam: IamServices, call: calls.Call
) -> services.Members:
    """Detach a managed policy."""
    arn = call.value.members["PolicyArn"]
    reference = iam.reference_of(arn)

    def change(draft: identities.IdentityDraft, row: HolderRow) -> HolderRow:
        attached = tuple(
            each for each in row.attached if reference is None or each.lower() != reference.lower()
        )
        if reference is None or len(attached) == len(row.attached):
            raise errors.NoSuchEntity(f"Policy {arn} was not found.")
        iam.find_policy(draft.reading, arn)
        draft.delete(_attachment(holder, reference, row))
        return msgspec.structs.replace(row, attached=attached)

    await holder.change(iam, call, change)
    return {}


async def list_attached(
    holder: IdentityType, iam: IamServices, call: calls.Call
) -> services.Members:
    """Return the managed policies that are attached."""
    members = call.value.members
    prefix = members.get("PathPrefix", "/")

    arn_by_name = {}
    for reference in holder.row(iam, call).attached:
        arn = iam.identities.arn_of(reference)
        path = arn.partition(":policy")[2].rpartition("/")[0] + "/"
        if path.startswith(prefix):
            arn_by_name[arn.rpartition("/")[2]] = arn
    return services.page(
        members,
        services.names_after(arn_by_name),
        name_of=str,
        encode=lambda name: {"PolicyName": name, "PolicyArn": arn_by_name[name]},
        member="AttachedPolicies",
    )


async def list_nothing(
    holder: IdentityType, member: str, iam: IamServices, call: calls.Call
) -> services.Members:
    """Return the groups of a user or the instance profiles of a role that exists: none.

    There are neither groups nor instance profiles here. Terraform asks before it deletes either.
    """
    holder.row(iam, call)
    return {member: [], "IsTruncated": False}


async def tag(holder: IdentityType, iam: IamServices, call: calls.Call) -> services.Members:
    """Add or replace tags. Keys have no case."""
    tags = users.tags_of(call.value.members, ignore_case=True)

    def change(draft: identities.IdentityDraft, row: HolderRow) -> HolderRow:
        return msgspec.structs.replace(row, tags=users.merge_tags(row.tags, tags))

    await holder.change(iam, call, change)
    return {}


async def untag(holder: IdentityType, iam: IamServices, call: calls.Call) -> services.Members:
    """Remove tags; absent ones are ignored."""
    keys = call.value.members["TagKeys"]

    def change(draft: identities.IdentityDraft, row: HolderRow) -> HolderRow:
        return msgspec.structs.replace(row, tags=users.without_tags(row.tags, keys))

    await holder.change(iam, call, change)
    return {}


async def list_tags(holder: IdentityType, iam: IamServices, call: calls.Call) -> services.Members:
    """Return the tags."""
    tags = holder.row(iam, call).tags
    return services.page(
        call.value.members,
        services.names_after(tags),
        name_of=str,
        encode=lambda key: {"Key": key, "Value": tags[key]},
        member="Tags",
    )


def _attachment(holder: IdentityType, reference: str, row: HolderRow) -> bytes:
    return rows.attachment_key(reference, holder.row_type, row.name)


def _no_policy(holder: IdentityType, name: str) -> errors.NoSuchEntity:
    return errors.NoSuchEntity(f"The {holder.what} policy with name {name} cannot be found.")

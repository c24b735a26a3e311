"""face: the IAM API: users, access keys, roles and policies.

Users of mini.toml and root are shown and cannot be changed; so are the server's own policies.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from server import calls
from server.access import arns, decide, model
from server.access import errors as access_errors
from server.aws import face, queryface
from server.aws import model as aws_model
from server.aws import wire_errors as aws_wire_errors
from server.iam import errors, holders, managed, providers, roles, services, users
from server.iam.services import IamServices

NAME: Final = "iam"
NAMESPACE: Final = "https://iam.amazonaws.com/doc/2010-05-08/"

_WireError: TypeAlias = aws_wire_errors.WireError
WIRE_ERRORS: Final[aws_wire_errors.Table] = {
    errors.NoSuchEntity: _WireError(status=404, code="NoSuchEntity"),
    errors.EntityAlreadyExists: _WireError(status=409, code="EntityAlreadyExists"),
    errors.DeleteConflict: _WireError(status=409, code="DeleteConflict"),
    errors.LimitExceeded: _WireError(status=409, code="LimitExceeded"),
    errors.ConcurrentModification: _WireError(status=409, code="ConcurrentModification"),
    errors.UnmodifiableEntity: _WireError(status=400, code="UnmodifiableEntity"),
    errors.InvalidMember: _WireError(status=400, code="ValidationError"),
    errors.InvalidInput: _WireError(status=400, code="InvalidInput"),
    errors.OptionNotOffered: _WireError(status=501, code="NotImplemented"),
    access_errors.MalformedPolicy: _WireError(status=400, code="MalformedPolicyDocument"),
}

ResourceOf: TypeAlias = Callable[[IamServices, calls.Call], str]


def _of_user(iam: IamServices, call: calls.Call) -> str:
    """Return the ARN of the user that a request names, or of the caller."""
    if "UserName" not in call.value.members and call.principal.type == "root":
        return call.principal.arn
    return iam.user_arn(services.own_user(call))


def _of_key(iam: IamServices, call: calls.Call) -> str:
    """Return the ARN of the user that has an access key; `*` for a key that does not exist."""
    access_key = call.value.members["AccessKeyId"]
    row = iam.key_owner(access_key)
    if row is not None:
        return iam.arn_of(row)
    root = iam.principals.root
    return root.arn if access_key == root.access_key else "*"


def _of_new_user(iam: IamServices, call: calls.Call) -> str:
    members = call.value.members
    return arns.user_arn(iam.account, members["UserName"], services.path_of(members))


def _of_role(iam: IamServices, call: calls.Call) -> str:
    return iam.role_arn(call.value.members["RoleName"])


def _of_new_role(iam: IamServices, call: calls.Call) -> str:
    members = call.value.members
    return arns.role_arn(iam.account, services.path_of(members), members["RoleName"])


def _of_policy(iam: IamServices, call: calls.Call) -> str:
    arn: str = call.value.members["PolicyArn"]
    return arn


def _of_new_policy(iam: IamServices, call: calls.Call) -> str:
    members = call.value.members
    return arns.policy_arn(iam.account, services.path_of(members), members["PolicyName"])


def _of_provider(iam: IamServices, call: calls.Call) -> str:
    arn: str = call.value.members["OpenIDConnectProviderArn"]
    return arn


def _of_new_provider(iam: IamServices, call: calls.Call) -> str:
    return arns.provider_arn(iam.account, call.value.members["Url"].partition("://")[2])


def _of_providers(iam: IamServices, call: calls.Call) -> str:
    return arns.provider_arn(iam.account, "")


def _of_users(iam: IamServices, call: calls.Call) -> str:
    return arns.user_arn(iam.account, "", call.value.members.get("PathPrefix", "/"))


def _of_roles(iam: IamServices, call: calls.Call) -> str:
    return arns.role_arn(iam.account, call.value.members.get("PathPrefix", "/"), "")


def _of_policies(iam: IamServices, call: calls.Call) -> str:
    return arns.policy_arn(iam.account, call.value.members.get("PathPrefix", "/"), "")


def _demands(
    name: str, resource_of: ResourceOf, iam: IamServices, call: calls.Call
) -> tuple[model.Demand, ...]:
    members = call.value.members
    resource = resource_of(iam, call)
    context = decide.request_tags({tag["Key"]: tag["Value"] for tag in members.get("Tags", ())})
    if "TagKeys" in members:
        context["aws:TagKeys"] = tuple(members["TagKeys"])
    arn = members.get("PolicyArn")
    if arn is not None and resource != arn:
        context["iam:PolicyARN"] = arn
    return services.demand(name, resource, **context)


def _demands_of_update(iam: IamServices, call: calls.Call) -> tuple[model.Demand, ...]:
    """Return the demands of UpdateUser: on the user as it is, and as it is to be."""
    members = call.value.members
    before = iam.user_arn(members["UserName"])
    row = iam.user(members["UserName"])
    if row is None:
        return services.demand("UpdateUser", before)
    after = iam.arn_of(users.renamed(row, members))
    both = services.demand("UpdateUser", before)
    return both if after == before else (*both, *services.demand("UpdateUser", after))


def _row(name: str, function: face.Function | None, resource_of: ResourceOf) -> face.ServiceRow:
    """Return the row of an operation that demands its own action on one resource."""
    return face.ServiceRow(
        name=name, function=function, demands=functools.partial(_demands, name, resource_of)
    )


def _rows_of(holder: holders.IdentityType, resource_of: ResourceOf) -> tuple[face.ServiceRow, ...]:
    """Return the rows of the operations that users and roles have alike."""
    noun = holder.what.capitalize()
    functions: Mapping[str, Any] = {
        f"Put{noun}Policy": holders.put_policy,
        f"Get{noun}Policy": holders.get_policy,
        f"Delete{noun}Policy": holders.delete_policy,
        f"List{noun}Policies": holders.list_policies,
        f"Attach{noun}Policy": holders.attach_policy,
        f"Detach{noun}Policy": holders.detach_policy,
        f"ListAttached{noun}Policies": holders.list_attached,
        f"Tag{noun}": holders.tag,
        f"Untag{noun}": holders.untag,
        f"List{noun}Tags": holders.list_tags,
    }
    return tuple(
        _row(name, functools.partial(function, holder), resource_of)
        for name, function in functions.items()
    )


ROWS: Final[Mapping[str, face.ServiceRow]] = {
    row.name: row
    for row in (
        _row("CreateUser", users.create_user, _of_new_user),
        _row("GetUser", users.get_user, _of_user),
        _row("ListUsers", users.list_users, _of_users),
        face.ServiceRow(name="UpdateUser", function=users.update_user, demands=_demands_of_update),
        _row("DeleteUser", users.delete_user, _of_user),
        _row("CreateAccessKey", users.create_access_key, _of_user),
        _row("UpdateAccessKey", users.update_access_key, _of_user),
        _row("DeleteAccessKey", users.delete_access_key, _of_user),
        _row("ListAccessKeys", users.list_access_keys, _of_user),
        _row("GetAccessKeyLastUsed", users.get_access_key_last_used, _of_key),
        _row("CreateRole", roles.create_role, _of_new_role),
        _row("GetRole", roles.get_role, _of_role),
        _row("ListRoles", roles.list_roles, _of_roles),
        _row("DeleteRole", roles.delete_role, _of_role),
        _row("UpdateRole", roles.update_role, _of_role),
        _row("UpdateRoleDescription", roles.update_role_description, _of_role),
        _row("UpdateAssumeRolePolicy", roles.update_assume_role_policy, _of_role),
        _row(
            "ListGroupsForUser",
            functools.partial(holders.list_nothing, holders.USERS, "Groups"),
            _of_user,
        ),
        _row("ListMFADevices", users.list_mfa_devices, _of_user),
        _row(
            "ListInstanceProfilesForRole",
            functools.partial(holders.list_nothing, holders.ROLES, "InstanceProfiles"),
            _of_role,
        ),
        *_rows_of(holders.USERS, _of_user),
        *_rows_of(holders.ROLES, _of_role),
        _row("CreatePolicy", managed.create_policy, _of_new_policy),
        _row("GetPolicy", managed.get_policy, _of_policy),
        _row("ListPolicies", managed.list_policies, _of_policies),
        _row("DeletePolicy", managed.delete_policy, _of_policy),
        _row("CreatePolicyVersion", managed.create_policy_version, _of_policy),
        _row("GetPolicyVersion", managed.get_policy_version, _of_policy),
        _row("ListPolicyVersions", managed.list_policy_versions, _of_policy),
        _row("SetDefaultPolicyVersion", managed.set_default_policy_version, _of_policy),
        _row("DeletePolicyVersion", managed.delete_policy_version, _of_policy),
        _row("ListEntitiesForPolicy", managed.list_entities_for_policy, _of_policy),
        _row("TagPolicy", managed.tag_policy, _of_policy),
        _row("UntagPolicy", managed.untag_policy, _of_policy),
        _row("ListPolicyTags", managed.list_policy_tags, _of_policy),
        _row("CreateOpenIDConnectProvider", providers.create_provider, _of_new_provider),
        _row("GetOpenIDConnectProvider", providers.get_provider, _of_provider),
        _row("ListOpenIDConnectProviders", providers.list_providers, _of_providers),
        _row("DeleteOpenIDConnectProvider", providers.delete_provider, _of_provider),
        _row("AddClientIDToOpenIDConnectProvider", providers.add_client_id, _of_provider),
        _row("RemoveClientIDFromOpenIDConnectProvider", providers.remove_client_id, _of_provider),
        _row("UpdateOpenIDConnectProviderThumbprint", providers.update_thumbprints, _of_provider),
        _row("TagOpenIDConnectProvider", providers.tag_provider, _of_provider),
        _row("UntagOpenIDConnectProvider", providers.untag_provider, _of_provider),
        _row("ListOpenIDConnectProviderTags", providers.list_provider_tags, _of_provider),
    )
}
"""The operations that exist. The model's others demand the action of their name and answer 501."""


def _of_nothing(iam: IamServices, call: calls.Call) -> str:
    return "*"


def make_face(iam: IamServices) -> queryface.QueryFace:
    """Return the face of the IAM API."""
    return queryface.QueryFace(
        name=NAME,
        namespace=NAMESPACE,
        load=functools.partial(aws_model.load, NAME),
        services=iam,
        authoriser=iam.authoriser,
        rows=ROWS,
        missing=lambda name: _row(name, None, _of_nothing),
        wire_errors=WIRE_ERRORS,
    )

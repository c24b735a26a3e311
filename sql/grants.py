"""rule: Snowflake's privileges as the statements of one policy of a user or role.

A GRANT is a statement of the inline policy `snowflake-grants`, which every protocol enforces. Some
privileges are one right of the access model: who may insert rows may also delete them. These stand
together in one row of RIGHTS, and are granted and revoked together. A grant on a table names its
ARN, which it keeps when it is renamed; one on a schema names it in a condition, because schemas
have no ARN.

A document is built from its grants alone, so that reading it back gives the grants. A document that
was written in another way is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from catalog import rights
from sql.dialect import operations

POLICY: Final = "snowflake-grants"
VERSION: Final = "2012-10-17"

Privileges: TypeAlias = tuple[str, ...]

SELECT: Final = ("SELECT",)
WRITE: Final = ("INSERT", "UPDATE", "DELETE", "TRUNCATE")
CREATE: Final = ("CREATE TABLE", "CREATE VIEW", "CREATE SEQUENCE")
MANAGED: Final = (
    "iam:GetRolePolicy", "iam:GetUserPolicy", "iam:PutRolePolicy", "iam:PutUserPolicy",
    "iam:UpdateAssumeRolePolicy",
)  # fmt: skip

RIGHTS: Final[Mapping[tuple[operations.GrantedType, Privileges], tuple[str, ...]]] = {
    ("TABLE", SELECT): tuple(map(rights.action_of, rights.READ_ACTIONS)),
    ("TABLE", WRITE): tuple(
        map(rights.action_of, dict.fromkeys((*rights.READ_ACTIONS, *rights.COMMIT_ACTIONS)))
    ),
    ("VIEW", SELECT): tuple(map(rights.action_of, rights.LOAD_ACTIONS)),
    ("SCHEMA", ("USAGE",)): ("s3tables:GetNamespace", "s3tables:ListTables"),
    ("SCHEMA", CREATE): ("s3tables:CreateTable", "s3tables:PutTableData"),
    ("SCHEMA", ("MODIFY",)): ("s3tables:UpdateNamespace",),
    ("DATABASE", ("USAGE",)): ("s3tables:GetTableBucket", "s3tables:ListNamespaces"),
    ("DATABASE", ("CREATE SCHEMA",)): ("s3tables:CreateNamespace",),
    ("DATABASE", ("MODIFY",)): (rights.ADMINISTER,),
    ("ACCOUNT", ("CREATE DATABASE",)): ("s3tables:CreateTableBucket",),
    ("ACCOUNT", ("CREATE USER",)): ("iam:CreateUser",),
    ("ACCOUNT", ("CREATE ROLE",)): ("iam:CreateRole",),
    ("ACCOUNT", ("MANAGE GRANTS",)): MANAGED,
}
"""The privileges that are one right, and its actions."""

IMPLIED: Final[Mapping[tuple[operations.GrantedType, Privileges], tuple[Privileges, ...]]] = {
    ("TABLE", WRITE): (SELECT,),
}
"""Rights that another contains: they are granted before it, and revoked after it."""

ANY_ACCOUNT_RESOURCE: Final = "*"
NEW_TABLE: Final = "/table/${*}"
"""Behind a table bucket's ARN: a table that does not exist yet, whose ARN ends with an asterisk."""
DOLLAR_BRACE: Final = "${$}{"
"""What stands for `${` of a schema's name, which would begin a variable."""
NAMESPACE_KEY: Final = "s3tables:namespace"

_SID: Final = re.compile(r"([A-Za-z]+)On([A-Z][a-z]+)([0-9]+)")


class Malformed(Exception):
    """The policy `snowflake-grants` was not written by GRANT."""


@dataclass(frozen=True, kw_only=True, slots=True, order=True)
class GrantedRight:
    """One right on one object. arn: of the table, view or table bucket; `*` for the account.

    namespace: of a schema, in the table bucket of arn.
    """

    object_type: operations.GrantedType
    privileges: Privileges
    arn: str
    namespace: str = ""


def find_rights(
    object_type: operations.GrantedType, privileges: Iterable[str] | None
) -> tuple[list[Privileges], str]:
    """Return the rights that a list of privileges means, None for ALL, and a fault's text or "".

    A list that has a part of a right alone, or a privilege that no right expresses, is a fault.
    """
    of_type = [each for each_type, each in RIGHTS if each_type == object_type]
    if privileges is None:
        return of_type, ""
    left = set(privileges)
    meant = []
    for each in of_type:
        if left.issuperset(each):
            meant.append(each)
        elif left.intersection(each):
            wanted = ", ".join(each)
            return [], f"{sorted(left.intersection(each))[0]} without all of {wanted}"
    for each in meant:
        left.difference_update(each)
    if left:
        return [], f"{sorted(left)[0]}"
    return meant, ""


def missing_implied(held: Iterable[GrantedRight], grant: GrantedRight) -> Privileges | None:
    """Return a right on the same object that a grant contains, and that is not held beside it."""
    on_object = {each.privileges for each in held if _object(each) == _object(grant)}
    implied = IMPLIED.get((grant.object_type, grant.privileges), ())
    return next((each for each in implied if each not in on_object), None)


def document(grants: Iterable[GrantedRight]) -> str:
    """Return the policy of grants. An empty policy is not valid: there must be a grant."""
    statements: list[dict[str, Any]] = []
    by_right: dict[tuple[operations.GrantedType, Privileges, str], list[GrantedRight]] = {}
    for grant in sorted(set(grants)):
        bucket = grant.arn if grant.object_type == "SCHEMA" else ""
        by_right.setdefault((grant.object_type, grant.privileges, bucket), []).append(grant)
    for number, ((object_type, privileges, bucket), each) in enumerate(by_right.items(), 1):
        words = privileges[0].title().replace(" ", "")
        statement: dict[str, Any] = {
            "Sid": f"{words}On{object_type.title()}{number}",
            "Effect": "Allow",
            "Action": list(RIGHTS[object_type, privileges]),
        }
        if object_type == "SCHEMA":
            resources = [bucket, bucket + NEW_TABLE] if privileges == CREATE else [bucket]
            namespaces = [grant.namespace.replace("${", DOLLAR_BRACE) for grant in each]
            statement["Resource"] = resources
            statement["Condition"] = {"StringEquals": {NAMESPACE_KEY: namespaces}}
        else:
            statement["Resource"] = [grant.arn for grant in each]
        statements.append(statement)
    return json.dumps({"Version": VERSION, "Statement": statements}, separators=(",", ":"))


def parse(text: str) -> set[GrantedRight]:
    """Return the grants of a policy. Raises Malformed unless GRANT wrote it."""
    grants: set[GrantedRight] = set()
    try:
        for statement in json.loads(text)["Statement"]:
            match = _SID.fullmatch(statement["Sid"])
            if match is None:
                raise Malformed
            object_type, privileges = _right_of(match[1], match[2].upper())
            if object_type == "SCHEMA":
                namespaces = statement["Condition"]["StringEquals"][NAMESPACE_KEY]
                arn = statement["Resource"][0]
                grants.update(
                    GrantedRight(
                        object_type=object_type,
                        privileges=privileges,
                        arn=arn,
                        namespace=namespace.replace(DOLLAR_BRACE, "${"),
                    )
                    for namespace in namespaces
                )
            else:
                grants.update(
                    GrantedRight(object_type=object_type, privileges=privileges, arn=arn)
                    for arn in statement["Resource"]
                )
        rebuilt = document(grants)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError):
        raise Malformed from None
    if rebuilt != text:
        raise Malformed
    return grants


def _right_of(words: str, object_type: str) -> tuple[operations.GrantedType, Privileges]:
    for each_type, privileges in RIGHTS:
        if each_type == object_type and privileges[0].title().replace(" ", "") == words:
            return each_type, privileges
    raise Malformed


def _object(grant: GrantedRight) -> tuple[str, str, str]:
    return grant.object_type, grant.arn, grant.namespace

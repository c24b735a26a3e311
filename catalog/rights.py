"""rule: rights on table buckets: the action, the ARN and the condition keys of every demand.

All faces build their demands here, so that a policy applies to all of them alike: a table has the
same ARN and the same condition keys for S3, s3tables, the REST catalog, the native API and SQL.
Actions and resources are those of S3 Tables. Decides nothing, and reads nothing.
Source: AWS, Actions, resources, and condition keys for Amazon S3 Tables.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from catalog import idents, records
from server.access import model
from storage import model as storage_model

SERVICE: Final = "s3tables"
EVERYTHING: Final = "*"
"""The resource of actions without one."""

READ_DATA: Final = "GetTableData"
WRITE_DATA: Final = "PutTableData"
FILE_ACTIONS: Final = (READ_DATA, WRITE_DATA)
LOAD_ACTIONS: Final = ("GetTable", "GetTableMetadataLocation")
READ_ACTIONS: Final = (*LOAD_ACTIONS, READ_DATA)
COMMIT_ACTIONS: Final = ("UpdateTableMetadataLocation", *FILE_ACTIONS)
DROP_ACTIONS: Final = ("DeleteTable",)
PURGE: Final = "lake:RunMaintenance"
"""The action of having a dropped table's files freed, besides DROP_ACTIONS."""
PURGE_ACTIONS: Final = (*DROP_ACTIONS, PURGE)
UNDROP: Final = "lake:Undrop"

ADMINISTER: Final = "lake:Admin"
"""The action of changing a table bucket's settings and comment."""
LIST_KEYS: Final = ADMINISTER
"""The action of listing a table bucket's keys across tables: the keys contain table names."""


class Subject(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The subject of a right. context: its condition keys."""

    arn: str
    context: tuple[tuple[str, str], ...]


def of_bucket(arn: str) -> Subject:
    """Return a table bucket as a subject, or a resource of which only the ARN is used."""
    return Subject(arn=arn, context=_BRANCH)


def of_namespace(bucket_arn: str, namespace: idents.Namespace) -> Subject:
    """Return a namespace as a subject. It has no ARN of its own: the resource is its bucket."""
    if not namespace:
        return of_bucket(bucket_arn)
    return Subject(
        arn=bucket_arn, context=(*_BRANCH, ("s3tables:namespace", idents.dotted(namespace)))
    )


def of_table(arn: str, namespace: idents.Namespace, name: str) -> Subject:
    """Return a table or view as a subject. arn: its own, or its bucket's for a new one."""
    within = of_namespace(arn, namespace)
    return Subject(arn=arn, context=(*within.context, ("s3tables:tableName", name)))


def of_any_table(bucket_arn: str, namespace: idents.Namespace, name: str) -> Subject:
    """Return a new table as a subject of rights on tables: it has no uuid yet."""
    return of_table(f"{bucket_arn}/table/*", namespace, name)


def action_of(action: str) -> str:
    """Return an action's name in policies. action: without a service it is of S3 Tables."""
    return action if ":" in action else f"{SERVICE}:{action}"


def demand(action: str, subject: Subject, *, shown: str = "") -> model.Demand:
    """Return the demand for an action. shown: see `model.Demand`."""
    return model.Demand(
        action=action_of(action), resource=subject.arn, shown=shown, context=dict(subject.context)
    )


def show(action: str, resource: str) -> str:
    """Return an action on a resource as in a refusal."""
    return f"{action_of(action)} on resource {resource}"


def demands(actions: Iterable[str], subject: Subject, *, resource: str) -> tuple[model.Demand, ...]:
    """Return the demands for actions on one subject. resource: as in a refusal."""
    context = dict(subject.context)
    return tuple(
        [
            model.Demand(
                action=action_of(action),
                resource=subject.arn,
                shown=show(action, resource),
                context=context,
            )
            for action in actions
        ]
    )


def in_request(demand: model.Demand, context: model.Context) -> model.Demand:
    """Return a demand with condition keys of its request."""
    if not context:
        return demand
    return msgspec.structs.replace(demand, context={**demand.context, **context})


def account_of(bucket: storage_model.BucketInfo, account_id: str) -> str:
    """Return the account that owns a bucket. account_id: of buckets that name no owner."""
    return bucket.owner or account_id


_BRANCH: Final = (("lake:branch", records.MAIN_BRANCH),)

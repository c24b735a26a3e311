"""engine: namespaces: one function per operation.

This API has one level of namespaces. Deeper ones, which Iceberg clients create, are listed with all
their levels, but this API cannot name them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from catalog import errors as catalog_errors
from catalog import idents, rights
from s3tables import listings, names, tokens
from s3tables.resources import Resources, describe_namespace
from server import calls
from storage import model as storage_model

Members = Mapping[str, Any]


async def create_namespace(resources: Resources, call: calls.Call) -> Members:
    """CreateNamespace."""
    members, principal = call.value.members, call.principal
    arn = members["tableBucketARN"]
    namespace = tuple(members["namespace"])
    subject = rights.of_namespace(arn, namespace)
    resources.check(principal, "CreateNamespace", subject)
    bucket = resources.bucket(arn)
    names.check_namespace_name(namespace[0])
    await resources.namespaces.create(
        bucket.name,
        namespace,
        by=principal.arn,
        via="s3tables",
        judge=resources.rechecking(principal, "CreateNamespace", subject),
    )
    return {"tableBucketARN": arn, "namespace": list(namespace)}


async def list_namespaces(resources: Resources, call: calls.Call) -> Members:
    """ListNamespaces."""
    members, principal = call.value.members, call.principal
    bucket = resources.bucket(members["tableBucketARN"])
    arn = resources.bucket_arn(bucket)
    prefix = members.get("prefix", "")

    def show(namespace: idents.Namespace) -> Members | None:
        if not namespace[0].startswith(prefix):
            return None
        subject = rights.of_namespace(arn, namespace)
        if not resources.permits(principal, "GetNamespace", subject):
            return None
        try:
            info = resources.namespaces.load(bucket.name, namespace)
        except catalog_errors.NoSuchNamespace:
            return None
        return describe_namespace(resources, bucket, info)

    listing = f"namespaces {bucket.bucket_id} {prefix}"
    token = members.get("continuationToken")
    after: tokens.SortKey = () if token is None else tokens.parse_token(token, listing=listing)
    page = await listings.paginate(
        ((namespace, namespace) for namespace in walk(resources, bucket, after=after)),
        show,
        listing=listing,
        token=token,
        items_max=members.get("maxNamespaces"),
    )
    return page.members("namespaces")


async def get_namespace(resources: Resources, call: calls.Call) -> Members:
    """GetNamespace."""
    members = call.value.members
    bucket = resources.bucket(members["tableBucketARN"])
    info = resources.namespaces.load(bucket.name, (members["namespace"],))
    return describe_namespace(resources, bucket, info)


async def delete_namespace(resources: Resources, call: calls.Call) -> Members:
    """DeleteNamespace: refused while the namespace is not empty."""
    members = call.value.members
    bucket = resources.bucket(members["tableBucketARN"])
    namespace = (members["namespace"],)
    subject = rights.of_namespace(members["tableBucketARN"], namespace)
    await resources.namespaces.drop(
        bucket.name,
        namespace,
        by=call.principal.arn,
        via="s3tables",
        judge=resources.rechecking(call.principal, "DeleteNamespace", subject),
    )
    return {}


def walk(
    resources: Resources,
    bucket: storage_model.BucketInfo,
    parent: idents.Namespace = (),
    *,
    after: idents.Namespace = (),
) -> Iterator[idents.Namespace]:
    """Yield every namespace of a table bucket, parents before children, in order.

    after: levels below parent at which the walk starts; a namespace with these levels is yielded.
    """
    start = after[0] if after else ""
    if start:
        yield (*parent, start)
        yield from walk(resources, bucket, (*parent, start), after=after[1:])
    try:
        for name in resources.namespaces.names(bucket.name, parent, after=start):
            yield (*parent, name)
            yield from walk(resources, bucket, (*parent, name))
    except catalog_errors.NoSuchNamespace:
        return  # dropped while it was listed

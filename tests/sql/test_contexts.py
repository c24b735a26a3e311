"""Where a session starts."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
from collections.abc import Iterator

import pytest

from catalog import access, namespaces, store
from server.access import arns, decide, model, policies
from sql import contexts
from storage import disk as disks
from storage import opening

ACCOUNT = "000000000000"
POWERLESS = model.Principal(
    type="user",
    name="powerless",
    arn=arns.user_arn(ACCOUNT, "powerless"),
    account_id=ACCOUNT,
    canonical_id="",
    display_name="powerless",
)
ROOT = model.Principal(
    type="root",
    name="root",
    arn=arns.root_arn(ACCOUNT),
    account_id=ACCOUNT,
    canonical_id="",
    display_name="root",
)


def reader(bucket: str) -> model.Principal:
    document = {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Action": "s3tables:GetTableBucket",
                "Resource": arns.table_bucket_arn("us-east-1", ACCOUNT, bucket),
            }
        ],
    }
    return model.Principal(
        type="user",
        name="reader",
        arn=arns.user_arn(ACCOUNT, "reader"),
        account_id=ACCOUNT,
        canonical_id="",
        display_name="reader",
        policies=(policies.parse_policy(document, policy_type="identity"),),
    )


@pytest.fixture(scope="module")
def session_contexts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[contexts.Contexts]:
    ids = itertools.count(1)
    clock = itertools.count(1_700_000_000_000)
    storage = opening.open_storage(
        tmp_path_factory.mktemp("contexts") / "data",
        disk=disks.Disk(),
        now_ms=lambda: next(clock),
        new_id=lambda: f"{next(ids):032x}",
        map_size_bytes=1 << 28,
        reserve_bytes=1 << 16,
    )
    catalog = store.CatalogStore(
        index=storage.index,
        buckets=storage.buckets,
        objects=storage.objects,
        blobs=storage.blobs,
        now_ms=lambda: next(clock),
        new_id=lambda: f"{next(ids):032x}",
    )
    spaces = namespaces.Namespaces(store=catalog)

    async def fill() -> None:
        for name, bucket_type in (("lake", "table"), ("other-lake", "table"), ("plain", "general")):
            await storage.buckets.create(
                name, bucket_type=bucket_type, owner=ACCOUNT, region="us-east-1"
            )
        for levels in (("public",), ("nyc",), ("a",), ("a", "b")):
            await spaces.create("lake", levels, by="test")

    asyncio.run(fill())
    yield contexts.Contexts(
        buckets=storage.buckets,
        namespaces=spaces,
        access=access.Access(
            store=catalog,
            authoriser=decide.Authoriser(now_ms=lambda: next(clock)),
            region="us-east-1",
            account_id=ACCOUNT,
        ),
        default_database="lake",
    )
    storage.close()


@pytest.mark.parametrize(
    ("database", "schema", "expected"),
    [
        ("", "", ("lake", "public")),
        ("", "nyc", ("lake", "nyc")),
        ("LAKE", "NYC", ("lake", "nyc")),
        ('"lake"', '"nyc"', ("lake", "nyc")),
        ('"LAKE"', '"NYC"', ("lake", "nyc")),
        ('"Lake"', "", (None, None)),
        ("lake", "absent", ("lake", None)),
        ("lake", "a.b", ("lake", "a.b")),
        ("lake", '"a.b"', ("lake", "a.b")),
        ("lake", "a.c", ("lake", None)),
        ("other-lake", "", ("other-lake", None)),
        ("plain", "", (None, None)),
        ("absent", "public", (None, None)),
    ],
)
def test_a_login_gets_what_there_is(
    session_contexts: contexts.Contexts,
    database: str,
    schema: str,
    expected: tuple[str | None, str | None],
) -> None:
    assert session_contexts.resolve(ROOT, database, schema) == expected


def test_what_a_caller_may_not_see_looks_absent(session_contexts: contexts.Contexts) -> None:
    assert session_contexts.resolve(POWERLESS, "lake", "public") == (None, None)
    assert session_contexts.resolve(reader("lake"), "lake", "public") == ("lake", "public")
    assert session_contexts.resolve(reader("lake"), "other-lake", "") == (None, None)


def test_a_schema_that_a_caller_may_not_see_is_current_there_or_not(
    session_contexts: contexts.Contexts,
) -> None:
    for schema in ("nyc", "NYC", "absent", "ABSENT"):
        assert session_contexts.resolve(reader("lake"), "lake", schema) == ("lake", schema.lower())
    assert session_contexts.resolve(reader("lake"), "lake", "") == ("lake", None)
    assert session_contexts.resolve(reader("lake"), "other-lake", "public") == (None, None)


def test_a_caller_who_may_see_one_schema_alone_may_log_into_it(
    session_contexts: contexts.Contexts,
) -> None:
    only = {"StringEquals": {"s3tables:namespace": "nyc"}}
    statement = {"Effect": "Allow", "Action": "s3tables:*", "Resource": "*", "Condition": only}
    document = {"Version": "2012-10-17", "Statement": [statement]}
    caller = dataclasses.replace(
        POWERLESS, policies=(policies.parse_policy(document, policy_type="identity"),)
    )
    assert session_contexts.resolve(caller, "lake", "NYC") == ("lake", "nyc")
    assert session_contexts.resolve(caller, "lake", "a") == (None, None)
    assert session_contexts.resolve(caller, "lake", "") == (None, None)
    assert session_contexts.resolve(caller, "other-lake", "nyc") == (None, None)
    assert session_contexts.resolve(caller, "absent", "nyc") == (None, None)

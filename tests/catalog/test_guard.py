"""What the S3 face may do in a table bucket."""

from __future__ import annotations

import pytest

from catalog import guard
from server.s3 import errors as s3_errors
from server.s3 import guard as questions
from tests.kit import lakes

BY = lakes.BY
REGION, ACCOUNT = "us-east-1", "000000000000"
BUCKET_ARN = "arn:aws:s3tables:us-east-1:000000000000:bucket/lake"


@pytest.fixture
def answers(lake: lakes.Lake) -> guard.TableGuard:
    lake.run(
        lake.storage.buckets.create("plain", bucket_type="general", owner=ACCOUNT, region=REGION)
    )
    lake.run(lake.namespaces.create("lake", ("ns",), by=BY))
    lake.run(lake.tables.create(lake.ident("ns.t"), schema=lakes.SCHEMA, by=BY))
    return guard.TableGuard(store=lake.store, region=REGION, account_id=ACCOUNT)


def rule_of(answers: guard.TableGuard, key: str, bucket: str = "lake") -> str | None:
    try:
        answers.at(bucket, key).check_write()
    except questions.LayoutRefused as refused:
        return refused.rule
    return None


def test_a_table_bucket_takes_what_the_layout_takes(answers: guard.TableGuard) -> None:
    assert rule_of(answers, "ns/t/data/f.parquet") is None
    assert rule_of(answers, "ns/t/metadata/v1.metadata.json") is None
    assert rule_of(answers, "unknown/t/data/f.parquet") is None
    assert rule_of(answers, "ns/t/x/data/f.parquet") == "no-anchor"
    assert rule_of(answers, "other/t/x/data/f.parquet") is None
    assert rule_of(answers, "f.parquet") == "no-anchor"
    assert rule_of(answers, "ns/t/data/f.csv") == "data-name"


def test_a_general_bucket_takes_everything(answers: guard.TableGuard) -> None:
    for bucket in ("plain", "none"):
        assert rule_of(answers, "f.csv", bucket) is None
        answers.at(bucket, "dir/").check_body(5)
        assert not answers.at(bucket, "ns/t/data/f.parquet").is_write_once
        assert answers.at(bucket, "ns/t/data/f.parquet").on_delete == "remove"
        assert answers.at(bucket, "ns/t/data/f.parquet").resource("read") is None


def test_a_transaction_that_reads_a_general_bucket_gets_its_ruling(
    lake: lakes.Lake, answers: guard.TableGuard
) -> None:
    with lake.storage.index.view() as view:
        for bucket in ("plain", "none"):
            ruling = answers.at(bucket, "ns/t/data/f.parquet", view)
            assert ruling == answers.at(bucket, "ns/t/data/f.parquet")
            assert isinstance(ruling, questions.PlainRuling)
        assert answers.at("lake", "ns/t/data/f.parquet", view).is_write_once


def test_a_refused_name_below_a_table_is_a_file_of_it_where_no_name_is_refused(
    lake: lakes.Lake, answers: guard.TableGuard
) -> None:
    before = answers.at("lake", "ns/t/a b/c")
    assert (before.is_write_once, before.on_delete) == (False, "remove")
    lake.run(lake.storage.buckets.update("lake", {"layout": "off"}))
    after = answers.at("lake", "ns/t/a b/c")
    assert (after.is_write_once, after.on_delete) == (True, "tombstone")
    assert not answers.at("lake", "ns/t/a b/").is_write_once


def test_a_directory_marker_is_empty(answers: guard.TableGuard) -> None:
    answers.at("lake", "ns/t/data/").check_body(0)
    answers.at("lake", "ns/t/data/f.parquet").check_body(5)
    with pytest.raises(questions.LayoutRefused) as refused:
        answers.at("lake", "ns/t/data/").check_body(5)
    assert refused.value.rule == "marker-body"


@pytest.mark.parametrize(
    ("key", "once"),
    [
        ("ns/t/data/f.parquet", True),
        ("ns/t/metadata/x.avro", True),
        ("ns/t/metadata/version-hint.text", False),
        ("ns/t/data/", False),
        ("ns/t/data/trino-tmp-files/sorting-file-writer-1", False),
        ("unknown/t/data/f.parquet", False),
        ("ns/t2/data/f.parquet", False),
    ],
)
def test_a_tables_files_are_written_once_and_deleted_by_the_sweep_alone(
    answers: guard.TableGuard, key: str, once: bool
) -> None:
    assert answers.at("lake", key).is_write_once is once
    assert answers.at("lake", key).on_delete == ("tombstone" if once else "remove")


def test_a_dropped_tables_files_stay_protected(lake: lakes.Lake, answers: guard.TableGuard) -> None:
    lake.run(lake.tables.drop(lake.ident("ns.t"), purge=True, by=BY))
    assert answers.at("lake", "ns/t/data/f.parquet").is_write_once
    assert answers.at("lake", "ns/t/data/f.parquet").on_delete == "tombstone"


def test_a_staged_place_is_known(lake: lakes.Lake, answers: guard.TableGuard) -> None:
    lake.run(lake.tables.create(lake.ident("ns.s"), schema=lakes.SCHEMA, stage=True, by=BY))
    assert answers.at("lake", "ns/s/data/f.parquet").is_write_once
    resource = answers.at("lake", "ns/s/data/f.parquet").resource("write")
    assert resource is not None
    assert dict(resource.context)["s3tables:tableName"] == "s"


def test_a_key_below_a_table_is_its_data_under_its_present_name(
    lake: lakes.Lake, answers: guard.TableGuard
) -> None:
    pointer = lake.tables.pointer(lake.ident("ns.t"))
    arn = f"{BUCKET_ARN}/table/{pointer.object_uuid}"
    for access, action in (
        ("read", "s3tables:GetTableData"),
        ("list", "s3tables:GetTableData"),
        ("write", "s3tables:PutTableData"),
    ):
        assert answers.at("lake", "ns/t/data/f.parquet").resource(access) == questions.Resource(  # type: ignore[arg-type] - a literal in a loop
            action=action,
            arn=arn,
            context=(
                ("lake:branch", "main"),
                ("s3tables:namespace", "ns"),
                ("s3tables:tableName", "t"),
            ),
        )
    lake.run(lake.tables.rename(lake.ident("ns.t"), lake.ident("ns.u"), by=BY))
    resource = answers.at("lake", "ns/t/data/f.parquet").resource("read")
    assert resource is not None
    assert resource.arn == arn
    assert dict(resource.context)["s3tables:tableName"] == "u"


def test_outside_every_table_it_is_the_bucket_and_listing_is_for_administrators(
    answers: guard.TableGuard,
) -> None:
    for key, access, action in (
        ("x/y/data/f.parquet", "read", "s3tables:GetTableData"),
        ("x/y/data/f.parquet", "write", "s3tables:PutTableData"),
        ("", "list", "lake:Admin"),
        ("ns/", "list", "lake:Admin"),
        ("ns/t", "list", "lake:Admin"),
    ):
        resource = answers.at("lake", key).resource(access)  # type: ignore[arg-type] - a literal in a loop
        assert resource is not None
        assert (resource.action, resource.arn) == (action, BUCKET_ARN)
    inside = answers.at("lake", "ns/t/").resource("list")
    assert inside is not None
    assert inside.action == "s3tables:GetTableData"


@pytest.mark.parametrize(
    ("settings", "key", "rule"),
    [
        ({"layout": "off"}, "f.csv", None),
        ({"layout": "names"}, "f.csv", "no-anchor"),
        ({"layout": "strict"}, "f.csv", "no-anchor"),
        ({"require_registered": True}, "x/y/data/f.parquet", "unregistered"),
        ({"require_registered": True}, "ns/t/data/f.parquet", None),
    ],
)
def test_a_buckets_settings_say_how_strict_it_is(
    lake: lakes.Lake,
    answers: guard.TableGuard,
    settings: dict[str, object],
    key: str,
    rule: str | None,
) -> None:
    lake.run(lake.storage.buckets.update("lake", settings))
    assert rule_of(answers, key) == rule


@pytest.mark.parametrize("mode", ["stricter", "nmaes", None])
def test_a_layout_mode_that_is_not_done_takes_no_write(
    lake: lakes.Lake, answers: guard.TableGuard, mode: str | None
) -> None:
    lake.run(lake.storage.buckets.update("lake", {"layout": mode}))
    for refuse in (
        lambda: answers.at("lake", "ns/t/data/f.parquet").check_write(),
        lambda: answers.at("lake", "ns/t/data/f.parquet").check_body(1),
        lambda: answers.at("lake", "ns/t/data/f.parquet").content_check,
    ):
        with pytest.raises(s3_errors.S3FeatureNotImplemented) as caught:
            refuse()
        assert str(mode) in str(caught.value)


def content_rule(answers: guard.TableGuard, key: str, body: bytes) -> str | None:
    """The rule that a body at key breaks; `unseen` where no body is looked at."""
    check = answers.at("lake", key).content_check
    if check is None:
        return "unseen"
    try:
        check.judge(
            questions.BodyEnds(
                size_bytes=len(body),
                head=body[: check.edge_bytes],
                tail=body[-check.edge_bytes :],
                whole=body if len(body) <= check.whole_bytes_max else None,
            )
        )
    except questions.LayoutRefused as refused:
        return refused.rule
    return None


def test_only_a_strict_bucket_looks_at_bodies(lake: lakes.Lake, answers: guard.TableGuard) -> None:
    for settings in ({}, {"layout": "names"}, {"layout": "off"}):
        lake.run(lake.storage.buckets.update("lake", settings))
        assert answers.at("lake", "ns/t/data/f.parquet").content_check is None
    lake.run(lake.storage.buckets.update("lake", {"layout": "strict"}))
    assert answers.at("plain", "ns/t/data/f.parquet").content_check is None
    assert content_rule(answers, "ns/t/data/f.parquet", b"PAR1" + bytes(8) + b"PAR1") is None
    assert content_rule(answers, "ns/t/data/f.parquet", b"a,b,c\n" * 9) == "content-magic"
    assert content_rule(answers, "x/y/data/f.parquet", b"a,b,c\n" * 9) == "content-magic"
    assert content_rule(answers, "ns/t/metadata/version-hint.text", b"7") is None
    assert content_rule(answers, "ns/t/metadata/version-hint.text", b"7" * 65) == "content-magic"
    assert content_rule(answers, "ns/t/data/", b"") == "unseen"
    spill = "ns/t/data/trino-tmp-files/sorting-file-writer-1"
    assert content_rule(answers, spill, b"anything") == "unseen"


def test_a_strict_bucket_knows_whose_metadata_lies_where(
    lake: lakes.Lake, answers: guard.TableGuard
) -> None:
    lake.run(lake.storage.buckets.update("lake", {"layout": "strict"}))
    own = lake.load(lake.ident("ns.t")).data
    lake.run(lake.tables.create(lake.ident("ns.u"), schema=lakes.SCHEMA, by=BY))
    other = lake.load(lake.ident("ns.u")).data
    at = "ns/t/metadata/v9.metadata.json"
    assert content_rule(answers, at, own) is None
    assert content_rule(answers, at, other) == "content-metadata"
    assert content_rule(answers, "un/known/metadata/v9.metadata.json", other) is None
    assert content_rule(answers, at, b"{}") == "content-metadata"
    # The uuid decides where the place in the document is the right one.
    moved = other.replace(b"s3://lake/ns/u", b"s3://lake/ns/t")
    assert moved != other
    assert content_rule(answers, at, moved) == "content-metadata"
    # A renamed table's files stay where they are, and are still its own.
    lake.run(lake.tables.rename(lake.ident("ns.t"), lake.ident("ns.r"), by=BY))
    assert content_rule(answers, at, own) is None
    assert content_rule(answers, at, other) == "content-metadata"
    # Once it is dropped its uuid is not known any more, but its place is.
    lake.run(lake.tables.drop(lake.ident("ns.r"), by=BY))
    assert content_rule(answers, at, own) is None
    assert content_rule(answers, at, other) == "content-metadata"
    # A table that awaits its metadata has a place and no uuid yet.
    lake.run(lake.tables.create_empty(lake.ident("ns.e"), by=BY))
    there = own.replace(b"s3://lake/ns/t", b"s3://lake/ns/e")
    assert content_rule(answers, "ns/e/metadata/v1.metadata.json", there) is None
    assert content_rule(answers, "ns/e/metadata/v1.metadata.json", own) == "content-metadata"


@pytest.mark.parametrize(
    ("key", "protected"),
    [
        ("ns/t/data/f.parquet", True),
        ("ns/t/data/archive/f.parquet", True),
        ("ns/t/data/f.csv", True),
        ("ns/t/README.md", True),
        ("ns/t/data/archive/", False),
        ("ns/t/metadata/version-hint.text", False),
        ("ns/other/data/f.parquet", False),
        ("f.csv", False),
    ],
)
def test_where_no_name_is_judged_every_file_of_a_table_is_protected(
    lake: lakes.Lake, answers: guard.TableGuard, key: str, protected: bool
) -> None:
    lake.run(lake.storage.buckets.update("lake", {"layout": "off"}))
    answers.at("lake", key).check_write()
    assert answers.at("lake", key).is_write_once is protected
    assert answers.at("lake", key).on_delete == ("tombstone" if protected else "remove")


def test_a_strict_bucket_refuses_deletes(lake: lakes.Lake, answers: guard.TableGuard) -> None:
    lake.run(lake.storage.buckets.update("lake", {"aws_strict": True}))
    assert answers.at("lake", "ns/t/data/f.parquet").on_delete == "refuse"
    assert answers.at("plain", "x").on_delete == "remove"
    assert answers.at("lake", "k").is_aws_strict
    assert not answers.at("plain", "k").is_aws_strict
    assert not answers.at("none", "k").is_aws_strict


def test_a_view_has_no_data(lake: lakes.Lake, answers: guard.TableGuard) -> None:
    from catalog import claims

    place = lake.store.place("lake")
    with lake.storage.index.view() as view:
        planned = claims.claim(
            view,
            place,
            "ns/v",
            object_uuid="00000000-0000-0000-0000-00000000000a",
            object_type="view",
            namespace_id=1,
            name="v",
            now_ms=1,
            permit=lakes.permit_all,
        )
    lake.run(lake.storage.index.commit(planned))
    assert rule_of(answers, "ns/v/data/f.parquet") == "view-data"
    assert rule_of(answers, "ns/v/metadata/v1.metadata.json") is None

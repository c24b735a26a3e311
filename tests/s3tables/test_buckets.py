"""Table buckets, by boto3's own client."""

from __future__ import annotations

import datetime
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from catalog import claims, emptiness, idents, receipts, records, table_buckets
from catalog import errors as catalog_errors
from storage import batch, keys, sweep
from storage import model as storage_model
from tests.kit import lakes
from tests.s3tables.tables_service import ACCOUNT, TablesService, bucket_arn, refused

NO_BUCKET = (404, "NotFoundException", "The specified bucket does not exist.")


def test_create_table_bucket_answers_its_arn_and_get_describes_it(client: Any) -> None:
    created = client.create_table_bucket(name="described")
    assert created["arn"] == bucket_arn("described")
    assert created["ResponseMetadata"]["HTTPStatusCode"] == 200
    answer = client.get_table_bucket(tableBucketARN=created["arn"])
    answer.pop("ResponseMetadata")
    bucket_id = answer.pop("tableBucketId")
    assert answer == {
        "arn": created["arn"],
        "name": "described",
        "ownerAccountId": ACCOUNT,
        "createdAt": datetime.datetime.fromtimestamp(lakes.NOW_MS / 1000, datetime.UTC),
        "type": "customer",
    }
    assert len(bucket_id) == 36


def test_a_table_buckets_storage_class_is_standard_and_an_absent_bucket_has_none(
    client: Any,
) -> None:
    arn = client.create_table_bucket(name="classed")["arn"]
    answer = client.get_table_bucket_storage_class(tableBucketARN=arn)
    assert answer["storageClassConfiguration"] == {"storageClass": "STANDARD"}
    absent = bucket_arn("absent")
    assert refused(client.get_table_bucket_storage_class, tableBucketARN=absent) == NO_BUCKET


def test_a_table_bucket_has_no_metrics_configuration(client: Any) -> None:
    arn = client.create_table_bucket(name="unmeasured")["arn"]
    get = client.get_table_bucket_metrics_configuration
    message = "The specified table bucket does not have a metrics configuration."
    assert refused(get, tableBucketARN=arn) == (404, "NotFoundException", message)
    assert refused(get, tableBucketARN=bucket_arn("absent")) == NO_BUCKET


def test_create_table_bucket_twice_conflicts(client: Any) -> None:
    client.create_table_bucket(name="twice")
    assert refused(client.create_table_bucket, name="twice") == (
        409,
        "ConflictException",
        "The bucket that you tried to create already exists, and you own it.",
    )


def test_create_table_bucket_with_the_name_of_a_general_bucket_conflicts(
    service: TablesService, client: Any
) -> None:
    service.run(
        service.lake.storage.buckets.create(
            "general", bucket_type="general", owner=ACCOUNT, region="us-east-1"
        )
    )
    status, code, message = refused(client.create_table_bucket, name="general")
    assert (status, code) == (409, "ConflictException")
    assert message.startswith("The requested bucket name is not available.")
    assert refused(client.get_table_bucket, tableBucketARN=bucket_arn("general")) == NO_BUCKET


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("-ab", "must begin and end with a letter or digit"),
        ("ab-", "must begin and end with a letter or digit"),
        ("aws-x", "may not begin with aws"),
        ("xn--a", "may not begin with xn--"),
        ("sthree-a", "may not begin with sthree-"),
        ("amzn-s3-demo-a", "may not begin with amzn-s3-demo-"),
        ("a--x-s3", "may not end with --x-s3"),
        ("a--table-s3", "may not end with --table-s3"),
        ("a-s3alias", "may not end with -s3alias"),
        ("a--ol-s3", "may not end with --ol-s3"),
        ("iceberg", "is a word this server reserves"),
        ("session", "is a word this server reserves"),
        ("tables", "is a word this server reserves"),
    ],
)
def test_create_table_bucket_with_a_reserved_name_is_refused(
    client: Any, name: str, reason: str
) -> None:
    before = client.list_table_buckets()["tableBuckets"]
    assert refused(client.create_table_bucket, name=name) == (
        400,
        "BadRequestException",
        f"The specified bucket name is not valid: the bucket name '{name}' {reason}",
    )
    assert client.list_table_buckets()["tableBuckets"] == before


@pytest.mark.parametrize("name", ["ab", "A-bucket", "under_score", "dots.dots", "a" * 64])
def test_create_table_bucket_with_a_name_outside_the_model_is_refused(
    client: Any, name: str
) -> None:
    status, code, message = refused(client.create_table_bucket, name=name)
    assert (status, code) == (400, "BadRequestException")
    assert message.startswith(
        f"1 validation error detected: Value '{name}' at 'name' failed to satisfy constraint: "
    )


@pytest.mark.parametrize(
    "arn",
    [
        bucket_arn("unknown"),
        bucket_arn("described").replace("us-east-1", "eu-west-1"),
        bucket_arn("described").replace("000000000000", "123456789012"),
        bucket_arn("described").replace("s3tables", "s3"),
        bucket_arn("described").replace("arn:aws:", "arn:aws-cn:"),
    ],
)
def test_an_arn_of_elsewhere_names_no_bucket(client: Any, arn: str) -> None:
    for call in (client.get_table_bucket, client.delete_table_bucket, client.list_tables):
        assert refused(call, tableBucketARN=arn) == NO_BUCKET


def test_create_table_bucket_takes_what_is_done_by_default_and_refuses_the_rest(
    client: Any,
) -> None:
    client.create_table_bucket(
        name="defaults",
        storageClassConfiguration={"storageClass": "STANDARD"},
    )
    key = "arn:aws:kms:us-east-1:000000000000:key/k"
    for members, status, code in (
        ({"encryptionConfiguration": {"sseAlgorithm": "aws:kms", "kmsKeyArn": key}},
         400, "BadRequestException"),
        ({"encryptionConfiguration": {"sseAlgorithm": "aws:kms"}}, 400, "BadRequestException"),
        ({"encryptionConfiguration": {"sseAlgorithm": "AES256", "kmsKeyArn": key}},
         400, "BadRequestException"),
        ({"storageClassConfiguration": {"storageClass": "INTELLIGENT_TIERING"}},
         400, "BadRequestException"),
    ):  # fmt: skip
        assert refused(client.create_table_bucket, name="other", **members)[:2] == (status, code)
    assert refused(client.get_table_bucket, tableBucketARN=bucket_arn("other")) == NO_BUCKET


def test_list_table_buckets_pages_by_name_and_filters(client: Any) -> None:
    names = [f"paged-{number}" for number in range(5)]
    for name in reversed(names):
        client.create_table_bucket(name=name)
    first = client.list_table_buckets(prefix="paged-", maxBuckets=2)
    assert [answer["name"] for answer in first["tableBuckets"]] == names[:2]
    assert first["tableBuckets"][0]["arn"] == bucket_arn("paged-0")
    pages = client.get_paginator("list_table_buckets").paginate(
        prefix="paged-", PaginationConfig={"PageSize": 2}
    )
    answer = [[bucket["name"] for bucket in page["tableBuckets"]] for page in pages]
    assert answer == [names[:2], names[2:4], names[4:]]
    assert client.list_table_buckets(type="aws")["tableBuckets"] == []
    last = client.list_table_buckets(prefix="paged-", maxBuckets=5)
    assert "continuationToken" not in last


def test_list_table_buckets_with_a_token_of_another_listing_is_refused(client: Any) -> None:
    for name in ("token-a", "token-b"):
        client.create_table_bucket(name=name)
    token = client.list_table_buckets(prefix="token-", maxBuckets=1)["continuationToken"]
    for members in (
        {"prefix": "tok", "continuationToken": token},
        {"prefix": "token-", "continuationToken": token[:-1]},
        {"continuationToken": "x"},
        {"continuationToken": "é"},
    ):
        assert refused(client.list_table_buckets, **members) == (
            400,
            "BadRequestException",
            "The continuation token is not valid.",
        )


def test_delete_table_bucket_needs_it_empty(
    service: TablesService, client: Any, sales: str
) -> None:
    expected = (
        409,
        "ConflictException",
        "The bucket that you tried to delete is not empty.",
    )
    assert refused(client.delete_table_bucket, tableBucketARN=sales) == expected
    client.delete_namespace(tableBucketARN=sales, namespace="sales")
    name = sales.rpartition("/")[2]
    service.put_object(name, "sales/orders/data/f.parquet", b"x")
    assert refused(client.delete_table_bucket, tableBucketARN=sales) == expected
    service.run(service.lake.storage.objects.delete(name, "sales/orders/data/f.parquet"))
    done = client.delete_table_bucket(tableBucketARN=sales)
    assert done["ResponseMetadata"]["HTTPStatusCode"] == 204
    assert refused(client.get_table_bucket, tableBucketARN=sales) == NO_BUCKET


def test_delete_table_bucket_goes_with_the_files_of_deleted_tables_but_of_no_others(
    service: TablesService, client: Any, sales: str
) -> None:
    where = {"tableBucketARN": sales, "namespace": "sales"}
    schema = {"iceberg": {"schema": {"fields": [{"name": "a", "type": "int"}]}}}
    for name in ("deleted", "dropped"):
        client.create_table(**where, name=name, format="ICEBERG", metadata=schema)
    bucket = sales.rpartition("/")[2]
    service.put_object(bucket, "sales/deleted/data/f.parquet", b"x")
    client.delete_table(**where, name="deleted")
    dropped = idents.TableIdent(table_bucket=bucket, namespace=("sales",), name="dropped")
    location = client.get_table(**where, name="dropped")["metadataLocation"]
    service.run(service.lake.tables.drop(dropped, purge=False, by=lakes.BY))
    client.delete_namespace(**where)
    assert refused(client.delete_table_bucket, tableBucketARN=sales)[:2] == (
        409,
        "ConflictException",
    )
    service.read_object(location)
    service.run(service.lake.storage.objects.delete(bucket, location.partition(f"{bucket}/")[2]))
    client.delete_table_bucket(tableBucketARN=sales)
    assert refused(client.get_table_bucket, tableBucketARN=sales) == NO_BUCKET


class Counting:
    """A view of the index that counts the rows of objects which it hands out."""

    def __init__(self, view: Any) -> None:
        self.get = view.get
        self.rows = 0
        self._scan = view.scan

    def scan(self, store: batch.Store, *bounds: Any, **how: Any) -> Iterator[tuple[bytes, bytes]]:
        for row in self._scan(store, *bounds, **how):
            self.rows += store is batch.Store.OBJECTS
            yield row


def test_looking_whether_a_table_bucket_is_empty_passes_over_a_deleted_tables_files(
    service: TablesService, client: Any, sales: str
) -> None:
    where = {"tableBucketARN": sales, "namespace": "sales"}
    for name in ("first", "second"):
        client.create_table(**where, name=name, format="ICEBERG")
    name = sales.rpartition("/")[2]
    storage = service.lake.storage
    for number in range(30):
        for table in ("first", "second"):
            service.put_object(name, f"sales/{table}/data/{number}.parquet", b"x")
    for table in ("first", "second"):
        client.delete_table(**where, name=table)
    client.delete_namespace(**where)
    with storage.index.view() as view:
        reading = Counting(view)
        emptiness.check_empty(reading, storage.buckets.get(name))
        assert reading.rows == 2
    service.put_object(name, "other/table/data/f.parquet", b"x")
    with storage.index.view() as view, pytest.raises(catalog_errors.TableBucketNotEmpty):
        emptiness.check_empty(view, storage.buckets.get(name))


def test_deleting_a_table_bucket_reads_its_log_before_the_writers_transaction(
    service: TablesService, client: Any, sales: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_deleted_tables(service, client, sales)
    decode, threads = records.decode, []
    index = service.lake.storage.index
    bucket_id = service.lake.storage.buckets.get(sales.rpartition("/")[2]).bucket_id
    start, stop = records.bucket_prefix(bucket_id), records.bucket_prefix(bucket_id + 1)
    with index.view() as view:
        own = {bytes(value) for _, value in view.scan(batch.Store.LOG, start, stop)}

    def noting(value: bytes, record_class: Any) -> Any:
        if record_class is records.LogRecord and bytes(value) in own:
            threads.append(threading.current_thread().name)
        return decode(value, record_class)

    monkeypatch.setattr(records, "decode", noting)
    client.delete_table_bucket(tableBucketARN=sales)
    assert len(threads) == 2 * 12, "first to refuse early, then to delete"
    assert "index-writer" not in threads
    assert threading.main_thread().name not in threads


def test_deleting_a_table_bucket_looks_at_no_location_inside_the_writers_transaction(
    service: TablesService, client: Any, sales: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_deleted_tables(service, client, sales)
    find_location, threads = claims.find_location, []

    def noting(*arguments: Any) -> Any:
        threads.append(threading.current_thread().name)
        return find_location(*arguments)

    monkeypatch.setattr(claims, "find_location", noting)
    client.delete_table_bucket(tableBucketARN=sales)
    assert len(threads) == 2 * 5, "first to refuse early, then to delete"
    assert "index-writer" not in threads


@pytest.mark.parametrize("key", ["other/table/data/f.parquet", "sales/t1/data/more.parquet"])
def test_an_object_that_comes_after_the_look_at_a_table_bucket_is_seen_before_its_deletion(
    service: TablesService, client: Any, sales: str, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    leave_deleted_tables(service, client, sales)
    name = sales.rpartition("/")[2]
    look, looks = table_buckets.TableBuckets._look, []

    def look_and_put(*arguments: Any) -> Any:
        seen = look(*arguments)
        looks.append(seen)
        if len(looks) == 1:
            service.lake.storage.index.commit_now(put_row(service, name, key))
        return seen

    monkeypatch.setattr(table_buckets.TableBuckets, "_look", look_and_put)
    if key.startswith("sales/"):
        client.delete_table_bucket(tableBucketARN=sales)
        assert len(looks) == 2
    else:
        assert refused(client.delete_table_bucket, tableBucketARN=sales)[0] == 409
        assert client.get_table_bucket(tableBucketARN=sales)["name"] == name


def leave_deleted_tables(service: TablesService, client: Any, arn: str) -> None:
    """Leave nothing in a table bucket but files of five tables that were deleted with them."""
    where = {"tableBucketARN": arn, "namespace": "sales"}
    for number in range(5):
        client.create_table(**where, name=f"t{number}", format="ICEBERG")
        service.put_object(arn.rpartition("/")[2], f"sales/t{number}/data/f.parquet", b"x")
        client.delete_table(**where, name=f"t{number}")
    client.delete_namespace(**where)


def put_row(service: TablesService, name: str, key: str) -> batch.Batch:
    """The Batch of a PUT of an empty body."""
    storage = service.lake.storage
    return storage.objects.plan_put(
        storage.buckets.get(name),
        key,
        b"",
        attributes=storage_model.ObjectAttributes(etag="e"),
        now_ms=lakes.NOW_MS,
    )


def test_an_object_named_like_a_deleted_table_does_not_hide_its_neighbours(
    service: TablesService, client: Any, sales: str
) -> None:
    where = {"tableBucketARN": sales, "namespace": "sales"}
    client.create_table(**where, name="first", format="ICEBERG")
    client.delete_table(**where, name="first")
    client.delete_namespace(**where)
    name = sales.rpartition("/")[2]
    storage = service.lake.storage
    service.run(storage.buckets.update(name, {"layout": "off"}))
    service.put_object(name, "sales/first", b"x")
    with storage.index.view() as view:
        emptiness.check_empty(view, storage.buckets.get(name))
    service.put_object(name, "sales/first-2", b"x")
    with storage.index.view() as view, pytest.raises(catalog_errors.TableBucketNotEmpty):
        emptiness.check_empty(view, storage.buckets.get(name))


STAYS = {
    # The next id to give: ids are never given twice.
    batch.Store.META: (b"next_bucket", b"next_node"),
    # The list of idempotency rows by their end, until a request after it removes what has ended.
    batch.Store.IDEMPOTENCY: (b"t",),
}
"""What may be in the index of a bucket that is gone: by store, what the keys begin with."""


def whole_index(service: TablesService) -> dict[batch.Store, dict[bytes, bytes]]:
    with service.lake.storage.index.view() as view:
        return {store: dict(view.scan(store, b"")) for store in batch.Store}


def make_everything(service: TablesService, client: Any, name: str) -> str:
    """Make a table bucket with all that can be in one, and delete it all but the bucket."""
    lake, run = service.lake, service.run
    arn = client.create_table_bucket(name=name, tags={"a": "b"})["arn"]
    client.create_namespace(tableBucketARN=arn, namespace=["sales"])
    where = {"tableBucketARN": arn, "namespace": "sales"}
    schema = {"iceberg": {"schema": {"fields": [{"name": "a", "type": "int"}]}}}
    client.create_table(**where, name="t", format="ICEBERG", metadata=schema, tags={"c": "d"})
    client.create_table(**where, name="empty", format="ICEBERG")
    bucket_id = lake.store.place(name).bucket_id
    ident = idents.TableIdent(table_bucket=name, namespace=("sales",), name="t")
    location = run(lake.tables.fetch(ident)).metadata.location
    snapshot = {
        "snapshot-id": 1,
        "sequence-number": 1,
        "timestamp-ms": lakes.NOW_MS,
        "manifest-list": f"{location}/metadata/snap-1.avro",
        "summary": {"operation": "append", "boathouse.loads": '[{"source":"s3://in/a"}]'},
        "schema-id": 0,
    }
    receipt = receipts.Receipt(
        key=records.idempotency_key(bucket_id, "p", "019b1c3e-0000-7000-8000-000000000001"),
        fingerprint=b"f" * 16,
        now_ms=lakes.NOW_MS,
    )
    update = {"action": "add-snapshot", "snapshot": snapshot}
    run(lake.tables.commit(ident, [], [update], by=lakes.BY, receipt=receipt))
    run(lake.tables.report_metrics(ident, b"{}", by=lakes.BY))
    view = idents.TableIdent(table_bucket=name, namespace=("sales",), name="v")
    version = {
        "version-id": 1,
        "timestamp-ms": lakes.NOW_MS,
        "schema-id": 0,
        "summary": {},
        "default-namespace": ["sales"],
        "representations": [{"type": "sql", "sql": "select 1", "dialect": "spark"}],
    }
    fields = {"type": "struct", "schema-id": 0, "fields": []}
    run(
        lake.views.create(
            view, schema=fields, view_version=version, by=lakes.BY, permit=lakes.permit_all
        )
    )
    service.put_object(name, "sales/t/data/f.parquet", b"x" * 100_000)
    service.put_object(name, "sales/t/data/" + "k" * 900 + ".parquet", b"x")
    client.rename_table(**where, name="t", newName="renamed")
    client.delete_table(**where, name="renamed")
    client.delete_table(**where, name="empty")
    run(lake.views.drop(view, by=lakes.BY))
    for info in lake.storage.objects.list(name, prefix="sales/v/").objects:
        run(lake.storage.objects.delete(name, info.key))
    client.delete_namespace(**where)
    return str(arn)


def sweep_all(service: TablesService) -> None:
    while service.run(service.lake.storage.sweep.once(row_grace_ms=-1, file_grace_ms=-1)):
        pass


def test_a_deleted_bucket_leaves_no_row_in_the_index_but_those_that_may_stay(
    service: TablesService, client: Any
) -> None:
    before = whole_index(service)
    arn = make_everything(service, client, "everything")
    filled = {store for store, rows in whole_index(service).items() if rows != before[store]}
    assert filled >= {
        batch.Store.BUCKETS,
        batch.Store.OBJECTS,
        batch.Store.PREFIXES,
        batch.Store.POINTERS,
        batch.Store.NAMESPACES,
        batch.Store.LOG,
        batch.Store.COMMITS,
        batch.Store.REFS,
        batch.Store.LOCATIONS,
        batch.Store.IDEMPOTENCY,
        batch.Store.LOADS,
        batch.Store.METRICS,
        batch.Store.TAGS,
    }
    client.delete_table_bucket(tableBucketARN=arn)
    sweep_all(service)
    after = whole_index(service)
    left = {
        store: keys
        for store in batch.Store
        if (
            keys := [
                key
                for key in after[store].keys() - before[store].keys()
                if not key.startswith(STAYS.get(store, ()))
            ]
        )
    }
    assert left == {}


def test_a_bucket_that_an_older_release_deleted_loses_its_rows_at_the_next_start(
    service: TablesService, client: Any
) -> None:
    storage = service.lake.storage
    before = whole_index(service)
    arn = make_everything(service, client, "everything")
    bucket_id = storage.buckets.get("everything").bucket_id
    client.delete_table_bucket(tableBucketARN=arn)
    start, stop = keys.bucket_range(bucket_id)

    async def forget() -> None:
        """Do what the sweep of that release did."""
        index = whole_index(service)
        rows = [
            batch.Delete(store=store, key=key)
            for store in (*sweep.OBJECT_STORES, batch.Store.RELEASED)
            for key in index[store]
            if store is batch.Store.RELEASED or start <= key < stop
        ]
        await storage.index.commit(batch.Batch(writes=tuple(rows)))

    service.run(forget())
    assert whole_index(service)[batch.Store.LOG].keys() - before[batch.Store.LOG].keys()
    storage.sweep.recover()
    after = whole_index(service)
    for store in (batch.Store.LOG, batch.Store.POINTERS, batch.Store.TAGS, batch.Store.LOCATIONS):
        assert after[store].keys() <= before[store].keys()
    assert after[batch.Store.RELEASED] == {}


def test_a_bucket_made_again_by_another_inherits_nothing(
    service: TablesService, client: Any
) -> None:
    arn = make_everything(service, client, "everything")
    client.delete_table_bucket(tableBucketARN=arn)
    client.create_table_bucket(name="everything")
    where = {"tableBucketARN": arn, "namespace": "sales"}
    assert client.list_namespaces(tableBucketARN=arn)["namespaces"] == []
    client.create_namespace(tableBucketARN=arn, namespace=["sales"])
    schema = {"iceberg": {"schema": {"fields": [{"name": "a", "type": "int"}]}}}
    created = client.create_table(**where, name="t", format="ICEBERG", metadata=schema)
    assert client.list_tags_for_resource(resourceArn=created["tableARN"])["tags"] == {}
    table = client.get_table(**where, name="t")
    assert table["warehouseLocation"] == "s3://everything/sales/t"
    ident = idents.TableIdent(table_bucket="everything", namespace=("sales",), name="t")
    assert service.lake.tables.taken(ident).loads == ()
    listed = service.lake.storage.objects.list("everything", include_tombstoned=True).objects
    assert [info.key for info in listed] == [table["metadataLocation"].split("/", 3)[3]]
    sweep_all(service)
    assert client.get_table(**where, name="t")["metadataLocation"] == table["metadataLocation"]


def test_a_bucket_made_again_starts_empty_with_another_id(client: Any) -> None:
    arn = client.create_table_bucket(name="again", tags={"a": "b"})["arn"]
    first = client.get_table_bucket(tableBucketARN=arn)["tableBucketId"]
    client.delete_table_bucket(tableBucketARN=arn)
    client.create_table_bucket(name="again")
    assert client.get_table_bucket(tableBucketARN=arn)["tableBucketId"] != first
    assert client.list_tags_for_resource(resourceArn=arn)["tags"] == {}

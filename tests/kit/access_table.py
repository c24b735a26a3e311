"""What each operation demands, written down: the table that no change of the code may alter unseen.

A row has the rights that its requests need together, and the requests of each door. The words are
those of the access model: B is the table bucket, N its namespace, T the table. Braces name parts of
the scene that a test sets up (tests/contract/test_access_table.py).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

Door = Literal["s3", "s3tables", "rest", "sql", "native", "iam", "sts"]

DOES: Final = "does it"
"""The verdict of a request that is allowed and succeeds."""
TRANSFERS: Final = "the file was not transferred"
"""What the shell, which is no driver, says of a PUT or GET that the server has allowed."""
HIDES: Final = "leaves it out"
"""The verdict of a listing that succeeds without what the row is about."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """One request. name: the operation's, or of REST and the native API the method.

    what: members, a path, or a statement's text. allowed: the verdict if the rights suffice.
    denials: the verdicts without the n-th right, if they differ from the door's own. lists: what
    the answer must name, if it is a listing.
    """

    door: Door
    name: str
    what: Any
    body: Any = None
    allowed: str = DOES
    denials: tuple[str, ...] = ()
    lists: str = ""


@dataclass(frozen=True, kw_only=True)
class Row:
    """Rights and the requests that need all of them. rights: (action, resource) pairs."""

    name: str
    rights: tuple[tuple[str, str], ...]
    requests: tuple[Request, ...]


RESOURCES: Final[Mapping[str, tuple[str, Mapping[str, str]]]] = {
    "*": ("*", {}),
    "B": ("{B}", {}),
    "new B": ("arn:aws:s3tables:us-east-1:000000000000:bucket/{new_bucket}", {}),
    "N": ("{B}", {"s3tables:namespace": "{n}"}),
    "empty N": ("{B}", {"s3tables:namespace": "{e}"}),
    "new N": ("{B}", {"s3tables:namespace": "{new_n}"}),
    "N, new T": ("{B}", {"s3tables:namespace": "{n}", "s3tables:tableName": "new"}),
    "target N": ("{B}", {"s3tables:namespace": "{e}", "s3tables:tableName": "new"}),
    "new T": ("{B}/table/*", {"s3tables:namespace": "{n}", "s3tables:tableName": "new"}),
    "T": ("{arn}", {}),
    "other T": ("{arn2}", {}),
    "N, T": ("{B}", {"s3tables:namespace": "{n}", "s3tables:tableName": "t"}),
    "name of T": ("{B}/table/*", {"s3tables:namespace": "{n}", "s3tables:tableName": "t"}),
    "gone T": ("{gone_arn}", {}),
    "dropped T": ("{dropped_arn}", {}),
    "N, dropped T": ("{B}", {"s3tables:namespace": "{n}", "s3tables:tableName": "dropped"}),
    "dropped N": ("{B}", {"s3tables:namespace": "{d}"}),
    "T of dropped N": ("{d_arn}", {}),
    "dropped N, its T": ("{B}", {"s3tables:namespace": "{d}", "s3tables:tableName": "t"}),
    "V": ("{view_arn}", {}),
    "gone V": ("{gone_view_arn}", {}),
    "N, reading V": ("{B}", {"s3tables:namespace": "{n}", "s3tables:tableName": "{reading_v}"}),
    "name of reading V": (
        "{B}/table/*",
        {"s3tables:namespace": "{n}", "s3tables:tableName": "{reading_v}"},
    ),
    "reading V": ("{reading_arn}", {}),
    "sequence": ("{B}/table/*", {"s3tables:namespace": "{n}", "s3tables:tableName": "{q}"}),
    "new sequence": ("{B}/table/*", {"s3tables:namespace": "{n}", "s3tables:tableName": "new_q"}),
    "N of new B": (
        "arn:aws:s3tables:us-east-1:000000000000:bucket/{new_bucket}",
        {"s3tables:namespace": "public"},
    ),
    "T of new B": ("{T_of_new_bucket}", {}),
    "every bucket": ("arn:aws:s3:::*", {}),
    "bucket": ("arn:aws:s3:::{b}", {}),
    "new bucket": ("arn:aws:s3:::{new_b}", {}),
    "object": ("arn:aws:s3:::{b}/{k}", {}),
    "copy": ("arn:aws:s3:::{b}/copy", {}),
    "user": ("arn:aws:iam::000000000000:user/{u}", {}),
    "new user": ("arn:aws:iam::000000000000:user/{new_u}", {}),
    "users": ("arn:aws:iam::000000000000:user/", {}),
    "role": ("arn:aws:iam::000000000000:role/{r}", {}),
    "new role": ("arn:aws:iam::000000000000:role/{new_r}", {}),
    "roles": ("arn:aws:iam::000000000000:role/", {}),
    "policy": ("{p}", {}),
    "new policy": ("arn:aws:iam::000000000000:policy/{new_p}", {}),
    "policies": ("arn:aws:iam::000000000000:policy/", {}),
    "provider": ("{idp}", {}),
    "new provider": ("arn:aws:iam::000000000000:oidc-provider/{new_idp}", {}),
    "providers": ("arn:aws:iam::000000000000:oidc-provider/", {}),
    "caller's user": ("arn:aws:iam::000000000000:user/exactly", {}),
}
"""The ARN and the condition keys of each resource of a row."""

SCHEMA: Final = {
    "type": "struct",
    "schema-id": 0,
    "fields": [
        {"id": 1, "name": "id", "required": False, "type": "long"},
        {"id": 2, "name": "word", "required": False, "type": "string"},
    ],
}
VIEW_VERSION: Final = {
    "version-id": 1,
    "schema-id": 0,
    "timestamp-ms": 1_800_000_000_000,
    "summary": {},
    "default-namespace": ["{n}"],
    "representations": [{"type": "sql", "sql": "select 1", "dialect": "spark"}],
}
CREATION: Final = [
    {"action": "assign-uuid", "uuid": "{uuid}"},
    {"action": "upgrade-format-version", "format-version": 2},
    {"action": "add-schema", "schema": SCHEMA},
    {"action": "set-current-schema", "schema-id": -1},
    {"action": "add-spec", "spec": {"spec-id": 0, "fields": []}},
    {"action": "set-default-spec", "spec-id": -1},
    {"action": "add-sort-order", "sort-order": {"order-id": 0, "fields": []}},
    {"action": "set-default-sort-order", "sort-order-id": -1},
]
CHANGE: Final = {
    "requirements": [],
    "updates": [{"action": "set-properties", "updates": {"a": "1"}}],
}
MOVE: Final = {
    "source": {"namespace": ["{n}"], "name": "t"},
    "destination": {"namespace": ["{e}"], "name": "new"},
}
BUCKET: Final = {"tableBucketARN": "{B}"}
NAMESPACE: Final = {**BUCKET, "namespace": "{n}"}
TABLE: Final = {**NAMESPACE, "name": "t"}
BY_ARN: Final = {"tableArn": "{arn}"}
KEY: Final = {"Bucket": "lake", "Key": "{key}"}
REST_TABLE: Final = "lake/namespaces/{n}/tables/t"
REST_VIEW: Final = "lake/namespaces/{n}/views/v"
NO_UPLOAD: Final = "404 NoSuchUpload"
NO_PLAN: Final = "404 NoSuchPlanTaskException"
REST_DENIED: Final = "403 ForbiddenException"
S3TABLES_DENIED: Final = "403 AccessDeniedException"
SQL_DENIED: Final = "003001 (42501)"
SQL_HIDDEN: Final = "002003 (02000)"
DENIED: Final[Mapping[Door, str]] = {
    "s3": "403 AccessDenied",
    "s3tables": S3TABLES_DENIED,
    "rest": REST_DENIED,
    "native": "403 AccessDenied",
    "sql": SQL_DENIED,
    "iam": "403 AccessDenied",
    "sts": "403 AccessDenied",
}
"""What each door answers to a request that is denied."""


def s3(name: str, allowed: str = DOES, /, **members: Any) -> Request:
    return Request(door="s3", name=name, what=members, allowed=allowed)


def s3tables(name: str, allowed: str = DOES, /, **members: Any) -> Request:
    return Request(door="s3tables", name=name, what=members, allowed=allowed)


def iam(name: str, allowed: str = DOES, /, **members: Any) -> Request:
    return Request(door="iam", name=name, what=members, allowed=allowed)


def rest(method: str, path: str, body: Any = None, allowed: str = DOES) -> Request:
    return Request(door="rest", name=method, what=path, body=body, allowed=allowed)


def native(method: str, path: str, body: Any = None, allowed: str = DOES) -> Request:
    return Request(door="native", name=method, what=path, body=body, allowed=allowed)


def sql(text: str, *denials: str, allowed: str = DOES) -> Request:
    return Request(door="sql", name="query", what=text, allowed=allowed, denials=denials)


def listing(request: Request, name: str, *denials: str) -> Request:
    """Return a request whose answer must list name. denials: without each right of the row."""
    return dataclasses.replace(request, lists=name, denials=denials)


def row(name: str, rights: str, *requests: Request) -> Row:
    """rights: `Action on resource`, joined by ` + `; an action without service is of s3tables."""
    pairs = []
    for each in rights.split(" + "):
        action, _, resource = each.partition(" on ")
        pairs.append((action if ":" in action else f"s3tables:{action}", resource))
    return Row(name=name, rights=tuple(pairs), requests=requests)


ROWS: Final = (
    row(
        "a table bucket",
        "GetTableBucket on B",
        rest("GET", "config?warehouse=lake"),
        s3tables("GetTableBucket", **BUCKET),
        native("GET", "warehouses/lake"),
        sql("use database lake", "002003 (42S02)"),
        sql("use lake", "002003 (42S02)"),
    ),
    row(
        "list namespaces",
        "ListNamespaces on B + GetNamespace on N",
        listing(rest("GET", "lake/namespaces"), "{n}", REST_DENIED, HIDES),
        listing(s3tables("ListNamespaces", **BUCKET), "{n}", S3TABLES_DENIED, HIDES),
    ),
    row(
        "show the schemas of a database",
        "GetTableBucket on B + ListNamespaces on B + GetNamespace on N",
        listing(sql("show schemas in database lake"), "{n}", "002043 (02000)", HIDES, HIDES),
    ),
    row(
        "list tables",
        "ListTables on N",
        listing(rest("GET", "lake/namespaces/{n}/tables"), "t", REST_DENIED),
    ),
    row(
        "show the tables of a schema",
        "GetNamespace on N + ListTables on N",
        listing(sql("show tables in schema lake.{n}"), "t", "002043 (02000)", HIDES),
    ),
    row(
        "list tables with their ARNs",
        "ListTables on N + GetTable on T",
        listing(s3tables("ListTables", **NAMESPACE), "t", S3TABLES_DENIED, HIDES),
    ),
    row(
        "list views",
        "ListTables on N",
        listing(rest("GET", "lake/namespaces/{n}/views"), "{v}", REST_DENIED),
    ),
    row(
        "list functions",
        "ListTables on N",
        rest("GET", "lake/namespaces/{n}/functions"),
        rest("GET", "lake/namespaces/{n}/functions/f", allowed="404 NoSuchFunctionException"),
    ),
    row(
        "a namespace",
        "GetNamespace on N",
        rest("GET", "lake/namespaces/{n}"),
        rest("HEAD", "lake/namespaces/{n}"),
        s3tables("GetNamespace", **NAMESPACE),
        sql("use schema lake.{n}", "002003 (42S02)"),
        sql("describe schema lake.{n}", SQL_HIDDEN),
    ),
    row(
        "create a namespace",
        "CreateNamespace on new N",
        rest("POST", "lake/namespaces", {"namespace": ["{new_n}"]}),
        s3tables("CreateNamespace", **BUCKET, namespace=["{new_n}"]),
        sql("create schema lake.{new_n}"),
    ),
    row(
        "drop a namespace",
        "DeleteNamespace on empty N",
        rest("DELETE", "lake/namespaces/{e}"),
        s3tables("DeleteNamespace", **BUCKET, namespace="{e}"),
        sql("drop schema lake.{e}"),
    ),
    row(
        "update a namespace",
        "UpdateNamespace on N",
        rest("POST", "lake/namespaces/{n}/properties", {"updates": {"a": "b"}}),
        sql("alter schema lake.{n} set comment = 'x'"),
        sql("comment on schema lake.{n} is 'x'"),
    ),
    row(
        "a table",
        "GetTable on T",
        rest("HEAD", REST_TABLE),
        rest("POST", f"{REST_TABLE}/metrics", {"report-type": "scan-report"}),
        s3tables("GetTable", **TABLE),
        s3tables("GetTable", **BY_ARN),
        native("GET", "warehouses/lake/loads?table={n}.t"),
        native("GET", "warehouses/lake/metrics?table={n}.t"),
    ),
    row("a view", "GetTable on V", rest("HEAD", REST_VIEW)),
    row(
        "load a table",
        "GetTable on T + GetTableMetadataLocation on T",
        rest("GET", REST_TABLE),
        s3tables("GetTableMetadataLocation", **TABLE),
        sql("describe table lake.{n}.t"),
        sql("show columns in table lake.{n}.t"),
    ),
    row("load a view", "GetTable on V + GetTableMetadataLocation on V", rest("GET", REST_VIEW)),
    row(
        "read a table",
        "GetTable on T + GetTableMetadataLocation on T + GetTableData on T",
        rest("POST", f"{REST_TABLE}/plan", {}),
        rest("GET", f"{REST_TABLE}/plan/x", allowed="404 NoSuchPlanIdException"),
        rest("DELETE", f"{REST_TABLE}/plan/x", allowed="404 NoSuchPlanIdException"),
        rest("POST", f"{REST_TABLE}/tasks", {"plan-task": "x"}, allowed=NO_PLAN),
        rest("GET", f"{REST_TABLE}/credentials"),
        rest(
            "POST",
            f"{REST_TABLE}/sign",
            {"region": "us-east-1", "headers": {}, "method": "GET", "uri": "{url}/lake/{key}"},
        ),
        sql("select count(*) from lake.{n}.t"),
        sql("explain select * from lake.{n}.t"),
        sql("set x = (select count(*) from lake.{n}.t)"),
        sql("execute immediate 'select count(*) from lake.{n}.t'"),
    ),
    row(
        "sign a write",
        "GetTable on T + GetTableMetadataLocation on T + PutTableData on T",
        rest(
            "POST",
            f"{REST_TABLE}/sign",
            {
                "region": "us-east-1",
                "headers": {},
                "method": "PUT",
                "uri": "{url}/lake/{loc}/data/new.parquet",
            },
        ),
    ),
    row(
        "read a table's files",
        "GetTableData on T",
        s3("GetObject", **KEY),
        s3("HeadObject", **KEY),
        s3("GetObjectAttributes", **KEY, ObjectAttributes=["ETag"]),
        s3("GetObjectTagging", **KEY),
        s3("ListObjectsV2", Bucket="lake", Prefix="{loc}/"),
        s3("ListObjects", Bucket="lake", Prefix="{loc}/"),
        s3("ListObjectVersions", "405 MethodNotAllowed", Bucket="lake", Prefix="{loc}/"),
        s3("ListMultipartUploads", Bucket="lake", Prefix="{loc}/"),
    ),
    row(
        "write a table's files",
        "PutTableData on T",
        s3("PutObject", Bucket="lake", Key="{loc}/data/new.parquet", Body=b"x"),
        s3("CreateMultipartUpload", Bucket="lake", Key="{loc}/data/new.parquet"),
        s3("UploadPart", NO_UPLOAD, **KEY, UploadId="none", PartNumber=1, Body=b""),
        s3(
            "CompleteMultipartUpload",
            NO_UPLOAD,
            **KEY,
            UploadId="none",
            MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": "x"}]},
        ),
        s3("PostObject", Bucket="lake", Key="{loc}/data/new.parquet"),
        s3("ListParts", NO_UPLOAD, **KEY, UploadId="none"),
        s3("AbortMultipartUpload", NO_UPLOAD, **KEY, UploadId="none"),
        s3("DeleteObject", **KEY),
        s3("DeleteObjects", Bucket="lake", Delete={"Objects": [{"Key": "{key}"}]}),
        s3("PutObjectTagging", **KEY, Tagging={"TagSet": [{"Key": "a", "Value": "b"}]}),
        s3("DeleteObjectTagging", **KEY),
    ),
    row(
        "copy a table's file",
        "GetTableData on other T + PutTableData on T",
        s3("CopyObject", Bucket="lake", Key="{loc}/data/new.parquet", CopySource="lake/{key2}"),
        s3(
            "UploadPartCopy",
            NO_UPLOAD,
            Bucket="lake",
            Key="{loc}/data/new.parquet",
            UploadId="none",
            PartNumber=1,
            CopySource="lake/{key2}",
        ),
    ),
    row(
        "list a whole table bucket",
        "lake:Admin on B",
        s3("ListObjectsV2", Bucket="lake"),
        s3("ListObjects", Bucket="lake"),
        s3("ListMultipartUploads", Bucket="lake"),
        s3("ListObjectsV2", Bucket="lake", Prefix="{n}/"),
        native("GET", "warehouses/lake/sweep"),
        native("POST", "warehouses/lake/sweep?dry_run=true"),
    ),
    row(
        "create a table or a view",
        "CreateTable on N, new T + PutTableData on new T",
        rest("POST", "lake/namespaces/{n}/tables", {"name": "new", "schema": SCHEMA}),
        rest(
            "POST",
            "lake/namespaces/{n}/tables",
            {"name": "new", "schema": SCHEMA, "stage-create": True},
        ),
        rest(
            "POST",
            "lake/namespaces/{n}/tables/new",
            {"requirements": [{"type": "assert-create"}], "updates": CREATION},
        ),
        rest(
            "POST",
            "lake/namespaces/{n}/views",
            {"name": "new", "schema": SCHEMA, "view-version": VIEW_VERSION},
        ),
        s3tables(
            "CreateTable",
            **NAMESPACE,
            name="new",
            format="ICEBERG",
            metadata={"iceberg": {"schema": {"fields": [{"name": "a", "type": "int"}]}}},
        ),
        sql('create table lake.{n}."new" (id int)'),
        sql('create table lake.{n}."new" as select 1 as x'),
        sql('create view lake.{n}."new" as select 1 as x'),
    ),
    row(
        "register a table",
        "CreateTable on N, new T + GetTableData on gone T + PutTableData on gone T",
        rest(
            "POST", "lake/namespaces/{n}/register", {"name": "new", "metadata-location": "{gone}"}
        ),
    ),
    row(
        "register the file of another table over a table",
        "CreateTable on N, T + UpdateTableMetadataLocation on T + GetTableData on T"
        " + PutTableData on T + DeleteTable on T + GetTableData on gone T + PutTableData on gone T",
        rest(
            "POST",
            "lake/namespaces/{n}/register",
            {"name": "t", "metadata-location": "{gone}", "overwrite": True},
        ),
    ),
    row(
        "register an earlier file of a table over it",
        "CreateTable on N, T + UpdateTableMetadataLocation on T + GetTableData on T"
        " + PutTableData on T",
        rest(
            "POST",
            "lake/namespaces/{n}/register",
            {"name": "t", "metadata-location": "{next_metadata}", "overwrite": True},
        ),
    ),
    row(
        "register a view",
        "CreateTable on N, new T + GetTableData on gone V + PutTableData on gone V",
        rest(
            "POST",
            "lake/namespaces/{n}/register-view",
            {"name": "new", "metadata-location": "{gone_view}"},
        ),
    ),
    row(
        "commit to a table",
        "UpdateTableMetadataLocation on T + GetTableData on T + PutTableData on T",
        rest("POST", REST_TABLE, CHANGE),
        rest(
            "POST",
            "lake/transactions/commit",
            {"table-changes": [{**CHANGE, "identifier": {"namespace": ["{n}"], "name": "t"}}]},
        ),
        s3tables(
            "UpdateTableMetadataLocation",
            **TABLE,
            versionToken="{token}",
            metadataLocation="{next_metadata}",
        ),
        sql("insert into lake.{n}.t (id) values (1)"),
        sql("insert all into lake.{n}.t (id) select 1 as id"),
        sql("update lake.{n}.t set id = 2"),
        sql("delete from lake.{n}.t where id = 1"),
        sql("delete from lake.{n}.t"),
        sql("merge into lake.{n}.t using (select 1 as a) on id = a when matched then delete"),
        sql("truncate table lake.{n}.t"),
        sql("alter table lake.{n}.t add column more int"),
        sql("alter table lake.{n}.t drop column word"),
        sql("alter table lake.{n}.t rename column id to number"),
        sql("alter table lake.{n}.t alter column id comment 'x'"),
        sql("alter table lake.{n}.t add unique (id)"),
        sql("alter table lake.{n}.{keyed} drop unique (word)"),
        sql("alter table lake.{n}.t cluster by (id)"),
        sql("alter table lake.{n}.t set comment = 'x'"),
        sql("comment on table lake.{n}.t is 'x'"),
        sql("comment on column lake.{n}.t.id is 'x'"),
        sql("copy into lake.{n}.t from @~"),
    ),
    row(
        "commit to two tables",
        "UpdateTableMetadataLocation on T + GetTableData on T + PutTableData on T"
        " + UpdateTableMetadataLocation on other T + GetTableData on other T"
        " + PutTableData on other T",
        rest(
            "POST",
            "lake/transactions/commit",
            {
                "table-changes": [
                    {**CHANGE, "identifier": {"namespace": ["{n}"], "name": name}}
                    for name in ("t", "t2")
                ]
            },
        ),
    ),
    row(
        "replace a view",
        "UpdateTableMetadataLocation on V + GetTableData on V + PutTableData on V",
        rest("POST", REST_VIEW, CHANGE),
        sql("alter view lake.{n}.{v} set comment = 'x'"),
        sql("comment on view lake.{n}.{v} is 'x'"),
    ),
    row(
        "insert the rows of another table",
        "UpdateTableMetadataLocation on T + GetTableData on T + PutTableData on T"
        " + GetTable on other T + GetTableMetadataLocation on other T + GetTableData on other T",
        sql("insert into lake.{n}.t (id) select id from lake.{n}.t2"),
    ),
    row(
        "rename a table",
        "RenameTable on T + CreateTable on target N",
        rest("POST", "lake/tables/rename", MOVE),
        s3tables("RenameTable", **TABLE, newNamespaceName="{e}", newName="new"),
        sql('alter table lake.{n}.t rename to lake.{e}."new"'),
    ),
    row(
        "rename a view",
        "RenameTable on V + CreateTable on target N",
        rest("POST", "lake/views/rename", {**MOVE, "source": {"namespace": ["{n}"], "name": "v"}}),
        sql('alter view lake.{n}.{v} rename to lake.{e}."new"'),
    ),
    row(
        "drop a table",
        "DeleteTable on T",
        rest("DELETE", REST_TABLE),
        rest("POST", f"{REST_TABLE}/unregister"),
        s3tables("DeleteTable", **TABLE),
        native("DELETE", "warehouses/lake/tables?table={n}.t"),
        sql("drop table lake.{n}.t"),
    ),
    row(
        "drop a table and its files",
        "DeleteTable on T + lake:RunMaintenance on T",
        rest("DELETE", f"{REST_TABLE}?purgeRequested=true"),
        native("DELETE", "warehouses/lake/tables?table={n}.t&purge=true"),
    ),
    row(
        "drop a view",
        "DeleteTable on V",
        rest("DELETE", REST_VIEW),
        sql("drop view lake.{n}.{v}"),
    ),
    row(
        "drop a namespace with its tables",
        "DeleteNamespace on N + DeleteTable on T",
        native("DELETE", "warehouses/lake/namespaces?namespace={n}"),
        sql("drop schema lake.{n} cascade"),
    ),
    row(
        "restore a dropped table",
        "lake:Undrop on dropped T + CreateTable on N, dropped T",
        native("POST", "warehouses/lake/undrop?table={n}.dropped&object_uuid={dropped}"),
        sql("undrop table lake.{n}.dropped"),
    ),
    row(
        "restore a dropped namespace",
        "CreateNamespace on dropped N + lake:Undrop on T of dropped N"
        " + CreateTable on dropped N, its T",
        native("POST", "warehouses/lake/undrop-namespace?namespace={d}"),
        sql("undrop schema lake.{d}"),
    ),
    row(
        "list dropped namespaces",
        "ListNamespaces on B",
        native("GET", "warehouses/lake/dropped-namespaces"),
    ),
    row(
        "list dropped tables",
        "ListTables on B + GetTable on dropped T",
        listing(native("GET", "warehouses/lake/dropped"), "{dropped}", "403 AccessDenied", HIDES),
    ),
    row(
        "give a dropped table up",
        "DeleteTable on dropped T + lake:RunMaintenance on dropped T",
        native("DELETE", "warehouses/lake/dropped?object_uuid={dropped}"),
    ),
    row(
        "change the settings of a table bucket",
        "lake:Admin on B",
        native("PATCH", "warehouses/lake", {"dropped_table_days": 30}),
        sql("alter database lake set comment = 'x'"),
        sql("comment on database lake is 'x'"),
    ),
    row(
        "administer the server",
        "lake:Admin on *",
        native("GET", "/_metrics"),
        sql("create warehouse {new_w}"),
        sql("alter warehouse {w} set comment = 'x'"),
        sql("drop warehouse {w}"),
        listing(sql("show jobs"), "{job}", HIDES),
        listing(native("GET", "jobs"), "{job}", HIDES),
    ),
    row(
        "explain a decision",
        "iam:SimulatePrincipalPolicy on user + GetTable on T",
        native(
            "GET", "access/explain?principal={u}&action=s3tables%3AGetTable&resource=lake%2F{n}%2Ft"
        ),
    ),
    row(
        "who may do something",
        "iam:SimulatePrincipalPolicy on * + GetTable on T",
        native("GET", "access/allowed?action=s3tables%3AGetTable&resource=lake%2F{n}%2Ft"),
    ),
)
"""The operations of section 7, each with the rights that it needs and no further one."""


def _same_named(resource: str, *requests: Request) -> tuple[Row, ...]:
    """Rows of operations that demand the action of their own name on one resource."""
    return tuple(
        row(each.name, f"{each.door}:{each.name} on {resource}", each) for each in requests
    )


NOT_FOUND: Final = "404 NotFoundException"
NOT_ALLOWED: Final = "405 MethodNotAllowedException"
BAD_REQUEST: Final = "400 BadRequestException"
NOT_EMPTY: Final = "409 ConflictException"
A_ROLE: Final = "arn:aws:iam::000000000000:role/replicator"
TO_ITSELF: Final = {
    "role": A_ROLE,
    "rules": [{"destinations": [{"destinationTableBucketARN": "{B}"}]}],
}

S3TABLES_ROWS: Final = (
    *_same_named("new B", s3tables("CreateTableBucket", name="{new_bucket}")),
    row(
        "create a table bucket with an encryption",
        "s3tables:CreateTableBucket on new B + s3tables:PutTableBucketEncryption on new B",
        s3tables(
            "CreateTableBucket",
            name="{new_bucket}",
            encryptionConfiguration={"sseAlgorithm": "AES256"},
        ),
    ),
    row(
        "create a table bucket with a storage class",
        "s3tables:CreateTableBucket on new B + s3tables:PutTableBucketStorageClass on new B",
        s3tables(
            "CreateTableBucket",
            name="{new_bucket}",
            storageClassConfiguration={"storageClass": "STANDARD"},
        ),
    ),
    *_same_named("*", s3tables("ListTableBuckets")),
    *_same_named(
        "B",
        s3tables("GetTableBucketEncryption", NOT_FOUND, **BUCKET),
        s3tables(
            "PutTableBucketEncryption", **BUCKET, encryptionConfiguration={"sseAlgorithm": "AES256"}
        ),
        s3tables("DeleteTableBucketEncryption", **BUCKET),
        s3tables("GetTableBucketStorageClass", **BUCKET),
        s3tables(
            "PutTableBucketStorageClass",
            **BUCKET,
            storageClassConfiguration={"storageClass": "STANDARD"},
        ),
        s3tables("PutTableBucketLogging", **BUCKET, tableBucketLoggingStatus={}),
        s3tables("GetTableBucketLogging", **BUCKET),
        s3tables("PutTableBucketMetricsConfiguration", **BUCKET),
        s3tables("GetTableBucketMetricsConfiguration", **BUCKET),
        s3tables("DeleteTableBucketMetricsConfiguration", **BUCKET),
        s3tables("PutTableBucketReplication", BAD_REQUEST, **BUCKET, configuration=TO_ITSELF),
        s3tables("GetTableBucketReplication", NOT_FOUND, **BUCKET),
        s3tables("DeleteTableBucketReplication", NOT_FOUND, **BUCKET),
        s3tables("PutTableBucketPolicy", **BUCKET, resourcePolicy="{bucket_policy}"),
        s3tables("GetTableBucketPolicy", **BUCKET),
        s3tables("DeleteTableBucketPolicy", **BUCKET),
        s3tables(
            "PutTableBucketMaintenanceConfiguration",
            **BUCKET,
            type="icebergUnreferencedFileRemoval",
            value={},
        ),
        s3tables("GetTableBucketMaintenanceConfiguration", **BUCKET),
        s3tables("DeleteTableBucket", NOT_EMPTY, **BUCKET),
        s3tables("TagResource", resourceArn="{B}", tags={"a": "b"}),
        s3tables("UntagResource", resourceArn="{B}", tagKeys=["a"]),
        s3tables("ListTagsForResource", resourceArn="{B}"),
    ),
    *_same_named(
        "T",
        s3tables("GetTableEncryption", **TABLE),
        s3tables("GetTableStorageClass", **TABLE),
        s3tables("PutTableReplication", BAD_REQUEST, **BY_ARN, configuration=TO_ITSELF),
        s3tables("GetTableReplication", NOT_FOUND, **BY_ARN),
        s3tables("DeleteTableReplication", NOT_FOUND, **BY_ARN, versionToken="x"),
        s3tables("GetTableReplicationStatus", NOT_FOUND, **BY_ARN),
        s3tables("PutTableRecordExpirationConfiguration", NOT_ALLOWED, **BY_ARN, value={}),
        s3tables("GetTableRecordExpirationConfiguration", NOT_ALLOWED, **BY_ARN),
        s3tables("GetTableRecordExpirationJobStatus", NOT_ALLOWED, **BY_ARN),
        s3tables("PutTablePolicy", **TABLE, resourcePolicy="{table_policy}"),
        s3tables("GetTablePolicy", NOT_FOUND, **TABLE),
        s3tables("DeleteTablePolicy", **TABLE),
        s3tables("PutTableMaintenanceConfiguration", **TABLE, type="icebergCompaction", value={}),
        s3tables("GetTableMaintenanceConfiguration", **TABLE),
        s3tables("GetTableMaintenanceJobStatus", **TABLE),
        s3tables("TagResource", resourceArn="{arn}", tags={"a": "b"}),
        s3tables("UntagResource", resourceArn="{arn}", tagKeys=["a"]),
        s3tables("ListTagsForResource", resourceArn="{arn}"),
    ),
    *_same_named(
        "*",
        s3tables("GetTableMigration", BAD_REQUEST),
        s3tables("ListTableMigrations"),
        s3tables("UpdateTableMigration", BAD_REQUEST, requestedState="x"),
    ),
    *_same_named(
        "T",
        s3tables("CompleteTableMigration", NOT_FOUND, tableARN="{arn}"),
        s3tables(
            "SyncTableMigration",
            NOT_FOUND,
            tableARN="{arn}",
            roleARN=A_ROLE,
            migrationOutput={"bucket": "arn:aws:s3:::reports"},
        ),
    ),
    *_same_named(
        "N, new T",
        s3tables(
            "StartTableMigration",
            roleARN=A_ROLE,
            destinationTable={**NAMESPACE, "name": "new"},
            sourceType="glueTable",
            source={"glueTable": {"catalogId": "c", "databaseName": "d", "tableName": "t"}},
            migrationOutput={"bucket": "arn:aws:s3:::reports"},
        ),
    ),
)
"""The operations of S3 Tables that demand the action of their own name."""

DOCUMENT: Final = "{document}"
TRUST: Final = "{trust}"
USER: Final = {"UserName": "{u}"}
ROLE: Final = {"RoleName": "{r}"}
POLICY: Final = {"PolicyArn": "{p}"}
PROVIDER: Final = {"OpenIDConnectProviderArn": "{idp}"}
NO_ENTITY: Final = "404 NoSuchEntity"

IAM_ROWS: Final = (
    *_same_named("new user", iam("CreateUser", UserName="{new_u}")),
    *_same_named("users", iam("ListUsers")),
    *_same_named(
        "user",
        iam("GetUser", **USER),
        iam("DeleteUser", **USER),
        iam("CreateAccessKey", **USER),
        iam("UpdateAccessKey", NO_ENTITY, **USER, AccessKeyId="AKIA" + "A" * 16, Status="Active"),
        iam("DeleteAccessKey", NO_ENTITY, **USER, AccessKeyId="AKIA" + "A" * 16),
        iam("ListAccessKeys", **USER),
        iam("PutUserPolicy", **USER, PolicyName="p", PolicyDocument=DOCUMENT),
        iam("GetUserPolicy", NO_ENTITY, **USER, PolicyName="p"),
        iam("DeleteUserPolicy", NO_ENTITY, **USER, PolicyName="p"),
        iam("ListUserPolicies", **USER),
        iam("AttachUserPolicy", **USER, **POLICY),
        iam("DetachUserPolicy", NO_ENTITY, **USER, **POLICY),
        iam("ListAttachedUserPolicies", **USER),
        iam("TagUser", **USER, Tags=[{"Key": "a", "Value": "b"}]),
        iam("UntagUser", **USER, TagKeys=["a"]),
        iam("ListUserTags", **USER),
        iam("ListGroupsForUser", **USER),
        iam("ListMFADevices", **USER),
        iam("GetAccessKeyLastUsed", AccessKeyId="{user_key}"),
    ),
    row(
        "UpdateUser",
        "iam:UpdateUser on user + iam:UpdateUser on new user",
        iam("UpdateUser", **USER, NewUserName="{new_u}"),
    ),
    *_same_named("new role", iam("CreateRole", RoleName="{new_r}", AssumeRolePolicyDocument=TRUST)),
    *_same_named("roles", iam("ListRoles")),
    *_same_named(
        "role",
        iam("GetRole", **ROLE),
        iam("DeleteRole", **ROLE),
        iam("UpdateRole", **ROLE),
        iam("UpdateRoleDescription", **ROLE, Description="x"),
        iam("UpdateAssumeRolePolicy", **ROLE, PolicyDocument=TRUST),
        iam("PutRolePolicy", **ROLE, PolicyName="p", PolicyDocument=DOCUMENT),
        iam("GetRolePolicy", NO_ENTITY, **ROLE, PolicyName="p"),
        iam("DeleteRolePolicy", NO_ENTITY, **ROLE, PolicyName="p"),
        iam("ListRolePolicies", **ROLE),
        iam("AttachRolePolicy", **ROLE, **POLICY),
        iam("DetachRolePolicy", NO_ENTITY, **ROLE, **POLICY),
        iam("ListAttachedRolePolicies", **ROLE),
        iam("TagRole", **ROLE, Tags=[{"Key": "a", "Value": "b"}]),
        iam("UntagRole", **ROLE, TagKeys=["a"]),
        iam("ListRoleTags", **ROLE),
        iam("ListInstanceProfilesForRole", **ROLE),
    ),
    *_same_named("new policy", iam("CreatePolicy", PolicyName="{new_p}", PolicyDocument=DOCUMENT)),
    *_same_named("policies", iam("ListPolicies")),
    *_same_named(
        "policy",
        iam("GetPolicy", **POLICY),
        iam("DeletePolicy", **POLICY),
        iam("CreatePolicyVersion", **POLICY, PolicyDocument=DOCUMENT),
        iam("GetPolicyVersion", **POLICY, VersionId="v1"),
        iam("ListPolicyVersions", **POLICY),
        iam("SetDefaultPolicyVersion", **POLICY, VersionId="v1"),
        iam("DeletePolicyVersion", "409 DeleteConflict", **POLICY, VersionId="v1"),
        iam("ListEntitiesForPolicy", **POLICY),
        iam("TagPolicy", **POLICY, Tags=[{"Key": "a", "Value": "b"}]),
        iam("UntagPolicy", **POLICY, TagKeys=["a"]),
        iam("ListPolicyTags", **POLICY),
    ),
    *_same_named("new provider", iam("CreateOpenIDConnectProvider", Url="https://{new_idp}")),
    *_same_named("providers", iam("ListOpenIDConnectProviders")),
    *_same_named(
        "provider",
        iam("GetOpenIDConnectProvider", **PROVIDER),
        iam("DeleteOpenIDConnectProvider", **PROVIDER),
        iam("AddClientIDToOpenIDConnectProvider", **PROVIDER, ClientID="c"),
        iam("RemoveClientIDFromOpenIDConnectProvider", **PROVIDER, ClientID="c"),
        iam("UpdateOpenIDConnectProviderThumbprint", **PROVIDER, ThumbprintList=["a" * 40]),
        iam("TagOpenIDConnectProvider", **PROVIDER, Tags=[{"Key": "a", "Value": "b"}]),
        iam("UntagOpenIDConnectProvider", **PROVIDER, TagKeys=["a"]),
        iam("ListOpenIDConnectProviderTags", **PROVIDER),
    ),
)
"""The operations on identities, each with the action of its own name."""


@dataclass(frozen=True, kw_only=True)
class Situation:
    """Policies that meet in one decision about reading the table T.

    identity, bucket, table, session: statements; a resource policy's apply to the caller unless
    they name a principal. caller: `user`, `root`, `session` of a role that the identity statements
    belong to, or `foreigner` and `stranger` of another account, whose own policies allow everything
    and nothing. tags: of the `table`, its `bucket` and the `caller`.
    """

    name: str
    allows: bool
    identity: tuple[Mapping[str, Any], ...] = ()
    bucket: tuple[Mapping[str, Any], ...] = ()
    table: tuple[Mapping[str, Any], ...] = ()
    session: tuple[Mapping[str, Any], ...] | None = None
    caller: Literal["user", "root", "session", "foreigner", "stranger"] = "user"
    tags: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


def _statement(effect: str, resource: Any, **more: Any) -> Mapping[str, Any]:
    return {"Effect": effect, "Action": "s3tables:*", "Resource": resource, **more}


EVERYTHING: Final = _statement("Allow", "*")
ALLOW_T: Final = _statement("Allow", "{arn}")
DENY_T: Final = _statement("Deny", "{arn}")
SECRET: Final = {"StringEquals": {"aws:ResourceTag/class": "secret"}}
TEST: Final = {"StringEquals": {"s3tables:TableBucketTag/stage": "test"}}
TEAM: Final = {"StringEquals": {"aws:ResourceTag/team": "${{aws:PrincipalTag/team}}"}}
RED: Final = {"StringEquals": {"aws:PrincipalTag/team": "red"}}
ANOTHER: Final = {"Principal": {"AWS": "arn:aws:iam::000000000000:user/all_but"}}

SITUATIONS: Final = (
    Situation(name="no policy", allows=False),
    Situation(name="own policy allows the table", identity=(ALLOW_T,), allows=True),
    Situation(
        name="own policy allows another table",
        identity=(_statement("Allow", "{arn2}"),),
        allows=False,
    ),
    Situation(name="own policy denies the table", identity=(EVERYTHING, DENY_T), allows=False),
    Situation(name="the denial comes first", identity=(DENY_T, EVERYTHING), allows=False),
    Situation(
        name="own policy denies another table",
        identity=(EVERYTHING, _statement("Deny", "{arn2}")),
        allows=True,
    ),
    Situation(
        name="own policy denies the namespace",
        identity=(
            EVERYTHING,
            _statement("Deny", "*", Condition={"StringEquals": {"s3tables:namespace": "{n}"}}),
        ),
        allows=False,
    ),
    Situation(
        name="own policy denies another namespace",
        identity=(
            EVERYTHING,
            _statement("Deny", "*", Condition={"StringEquals": {"s3tables:namespace": "{e}"}}),
        ),
        allows=True,
    ),
    Situation(
        name="own policy denies other regions",
        identity=(
            EVERYTHING,
            _statement(
                "Deny", "*", Condition={"StringNotEquals": {"aws:RequestedRegion": "us-east-1"}}
            ),
        ),
        allows=True,
    ),
    Situation(
        name="own policy denies this region to users and not to services",
        identity=(
            EVERYTHING,
            _statement(
                "Deny",
                "*",
                Condition={
                    "StringEquals": {
                        "aws:RequestedRegion": "us-east-1",
                        "aws:PrincipalType": "User",
                    },
                    "Bool": {"aws:PrincipalIsAWSService": "false", "aws:ViaAWSService": "false"},
                },
            ),
        ),
        allows=False,
    ),
    Situation(
        name="own policy denies tables with the table's tag",
        identity=(EVERYTHING, _statement("Deny", "*", Condition=SECRET)),
        tags={"table": {"Class": "secret"}},
        allows=False,
    ),
    Situation(
        name="own policy denies tables with a tag that the bucket alone has",
        identity=(EVERYTHING, _statement("Deny", "*", Condition=SECRET)),
        tags={"table": {"class": "open"}, "bucket": {"class": "secret"}},
        allows=True,
    ),
    Situation(
        name="own policy allows tables of buckets with the bucket's tag",
        identity=(_statement("Allow", "*", Condition=TEST),),
        tags={"bucket": {"stage": "test"}},
        allows=True,
    ),
    Situation(
        name="own policy allows tables of buckets with another tag",
        identity=(_statement("Allow", "*", Condition=TEST),),
        tags={"bucket": {"stage": "live"}, "table": {"stage": "test"}},
        allows=False,
    ),
    Situation(
        name="own policy allows tables with the user's own tag",
        identity=(_statement("Allow", "*", Condition=TEAM),),
        tags={"table": {"team": "red"}, "caller": {"team": "red"}},
        allows=True,
    ),
    Situation(
        name="own policy allows tables with the user's tag and the user has another",
        identity=(_statement("Allow", "*", Condition=TEAM),),
        tags={"table": {"team": "red"}, "caller": {"team": "blue"}},
        allows=False,
    ),
    Situation(
        name="a session has the tags of its role",
        identity=(_statement("Allow", "*", Condition=TEAM),),
        tags={"table": {"team": "red"}, "caller": {"team": "red"}},
        caller="session",
        allows=True,
    ),
    Situation(
        name="the bucket policy denies callers with the user's tag",
        identity=(EVERYTHING,),
        bucket=({**DENY_T, "Condition": RED},),
        tags={"caller": {"team": "red"}},
        allows=False,
    ),
    Situation(
        name="the table policy allows callers with the role's tag",
        table=({**ALLOW_T, "Condition": RED},),
        tags={"caller": {"team": "red"}},
        caller="session",
        allows=True,
    ),
    Situation(
        name="the bucket policy denies",
        identity=(EVERYTHING,),
        bucket=(DENY_T,),
        allows=False,
    ),
    Situation(
        name="the bucket policy denies another caller",
        identity=(EVERYTHING,),
        bucket=({**DENY_T, **ANOTHER},),
        allows=True,
    ),
    Situation(
        name="the table policy denies", identity=(EVERYTHING,), table=(DENY_T,), allows=False
    ),
    Situation(
        name="the table policy denies another caller",
        identity=(EVERYTHING,),
        table=({**DENY_T, **ANOTHER},),
        allows=True,
    ),
    Situation(name="the bucket policy alone allows", bucket=(ALLOW_T,), allows=True),
    Situation(
        name="the bucket policy allows another caller",
        bucket=({**ALLOW_T, **ANOTHER},),
        allows=False,
    ),
    Situation(name="the table policy alone allows", table=(ALLOW_T,), allows=True),
    Situation(
        name="the table policy denies what the bucket policy allows",
        bucket=(ALLOW_T,),
        table=(DENY_T,),
        allows=False,
    ),
    Situation(name="root is denied by policies", bucket=(DENY_T,), caller="root", allows=True),
    Situation(name="another account, own policy alone allows", caller="foreigner", allows=False),
    Situation(
        name="another account, both policies allow",
        bucket=(ALLOW_T,),
        caller="foreigner",
        allows=True,
    ),
    Situation(
        name="another account, the bucket policy alone allows",
        bucket=(ALLOW_T,),
        caller="stranger",
        allows=False,
    ),
    Situation(
        name="a session without a policy of its own",
        identity=(ALLOW_T,),
        caller="session",
        allows=True,
    ),
    Situation(
        name="a session of a role that is not allowed", identity=(), caller="session", allows=False
    ),
    Situation(
        name="role and session policy allow",
        identity=(EVERYTHING,),
        session=(ALLOW_T,),
        caller="session",
        allows=True,
    ),
    Situation(
        name="the session policy allows another table",
        identity=(EVERYTHING,),
        session=(_statement("Allow", "{arn2}"),),
        caller="session",
        allows=False,
    ),
    Situation(
        name="the session policy alone allows",
        session=(EVERYTHING,),
        caller="session",
        allows=False,
    ),
    Situation(
        name="the session policy denies",
        identity=(EVERYTHING,),
        session=(EVERYTHING, DENY_T),
        caller="session",
        allows=False,
    ),
)
"""The steps of a decision, section 6, each with policies that allow and that do not."""

READS: Final[Mapping[Door, Request]] = {
    "s3": s3("GetObject", **KEY),
    "s3tables": s3tables("GetTable", **TABLE),
    "rest": rest("GET", REST_TABLE),
    "sql": sql("select count(*) from lake.{n}.t"),
    "native": native("GET", "warehouses/lake/loads?table={n}.t"),
}
"""One request of each door that reads the table T."""

ABSENT: Final[Mapping[Door, Request]] = {
    "s3": s3("GetObject", Bucket="lake", Key="{loc}/data/absent.parquet"),
    "s3tables": s3tables("GetTable", **NAMESPACE, name="absent"),
    "rest": rest("GET", "lake/namespaces/{n}/tables/absent"),
    "sql": sql("select count(*) from lake.{n}.absent"),
    "native": native("GET", "warehouses/lake/loads?table={n}.absent"),
}
"""The same of what is not there."""

LISTING: Final = (("s3tables:ListTables", "N"), ("s3tables:GetTableData", "T"))
"""The rights that tell what is absent: a table in its namespace, a file below its table."""

# Denied; absent for a caller who may list the parent; absent for one who may not.
ANSWERS: Final[Mapping[Door, tuple[str, str, str]]] = {
    "s3": ("403 AccessDenied", "404 NoSuchKey", "403 AccessDenied"),
    "s3tables": (
        "403 AccessDeniedException",
        "404 NotFoundException",
        "403 AccessDeniedException",
    ),
    "rest": ("403 ForbiddenException", "404 NoSuchTableException", "403 ForbiddenException"),
    "sql": (SQL_DENIED, "002003 (42S02)", "002003 (42S02)"),
    "native": ("403 AccessDenied", "404 NoSuchTableException", "403 AccessDenied"),
}
"""What each door answers, section 6."""

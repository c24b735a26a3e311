"""What the statements of SQL demand, besides those that stand beside other doors' requests.

The rows of `access_table` have the statements that need exactly what an operation of another door
needs. These have more rights, or rights on what SQL alone has. Every statement of the dialect is in
one of the two tables, or in NEEDS_NOTHING.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tests.kit.access_table import (
    HIDES,
    SQL_DENIED,
    SQL_HIDDEN,
    TRANSFERS,
    Row,
    listing,
    row,
    sql,
)

T: Final = "lake.{n}.t"
OTHER_T: Final = "lake.{n}.t2"
READING_V: Final = "lake.{n}.{reading_v}"
NEW: Final = 'lake.{n}."new"'
LOAD_T: Final = "GetTable on T + GetTableMetadataLocation on T"
READ_T: Final = f"{LOAD_T} + GetTableData on T"
COMMIT_T: Final = "UpdateTableMetadataLocation on T + GetTableData on T + PutTableData on T"
LOAD_V: Final = "GetTable on reading V + GetTableMetadataLocation on reading V"
READ_OTHER: Final = (
    "GetTable on other T + GetTableMetadataLocation on other T + GetTableData on other T"
)
CREATE: Final = "CreateTable on N, new T + PutTableData on new T"
CREATE_T: Final = "CreateTable on N, T + PutTableData on name of T"
NO_SCHEMA: Final = "002043 (02000)"
NO_OBJECT: Final = "002003 (42S02)"
LACKING: Final = "002037 (42601)"
"""What a view reads is missing, or is not the caller's: no rights come with the view."""

SQL_ROWS: Final[tuple[Row, ...]] = (
    Row(
        name="describe a result, which is the session's own",
        rights=(),
        requests=(sql("describe result '{uuid}'", allowed="000709 (02000)"),),
    ),
    # Listings
    row("show databases", "GetTableBucket on B", listing(sql("show databases"), "lake", HIDES)),
    row(
        "show the objects of a schema",
        "GetNamespace on N + ListTables on N",
        *(
            listing(sql(f"show {name} in schema lake.{{n}}"), shown, NO_SCHEMA, HIDES)
            for name, shown in (
                ("objects", "t"),
                ("iceberg tables", "t"),
                ("views", "{v}"),
                ("sequences", "{q}"),
            )
        ),
    ),
    row(
        "show stages and file formats",
        "GetNamespace on N",
        listing(sql("show stages in schema lake.{n}"), "{stage}", NO_SCHEMA),
        listing(sql("show file formats in schema lake.{n}"), "{format}", NO_SCHEMA),
    ),
    row(
        "show the columns of a schema",
        f"GetNamespace on N + ListTables on N + {LOAD_T}",
        listing(sql("show columns in schema lake.{n}"), "id", NO_SCHEMA, HIDES, HIDES, HIDES),
    ),
    row(
        "show the keys of a table",
        LOAD_T,
        *(
            sql(f"show {name} keys in table {T}")
            for name in ("primary", "unique", "imported", "exported")
        ),
    ),
    row("describe a database", "GetTableBucket on B", sql("describe database lake", SQL_HIDDEN)),
    row("describe a view", LOAD_V, sql(f"describe view {READING_V}")),
    row(
        "describe a sequence",
        "ListTables on N",
        sql("describe sequence lake.{n}.{q}", SQL_HIDDEN),
    ),
    # Queries
    row(
        "select from a view",
        f"{LOAD_V} + {READ_T}",
        sql(f"select * from {READING_V}", *(SQL_DENIED,) * 2, *(LACKING,) * 3),
    ),
    row(
        "select from a sequence",
        "PutTableData on sequence",
        sql("select lake.{n}.{q}.nextval"),
    ),
    row("the statement of a view", LOAD_V, sql(f"select get_ddl('view', '{READING_V}')")),
    row("the statement of a table", LOAD_T, sql(f"select get_ddl('table', '{T}')")),
    # Tables
    row(
        "create a table or view from another table",
        f"{CREATE} + {READ_T}",
        sql(f"create table {NEW} as select id from {T}"),
        sql(f"create table {NEW} like {T}"),
        sql(f"create table {NEW} clone {T}"),
        sql(f"create view {NEW} as select id from {T}"),
    ),
    row(
        "replace a table",
        f"{CREATE_T} + {COMMIT_T}",
        sql(f"create or replace table {T} (id int)"),
    ),
    row(
        "change rows by another table",
        f"{COMMIT_T} + {READ_OTHER}",
        sql(f"update {T} set id = s.id from {OTHER_T} s where t.id = s.id"),
        sql(f"delete from {T} using {OTHER_T} s where t.id = s.id"),
        sql(f"merge into {T} using {OTHER_T} s on t.id = s.id when matched then delete"),
    ),
    row(
        "insert into two tables",
        f"{COMMIT_T} + UpdateTableMetadataLocation on other T + GetTableData on other T"
        " + PutTableData on other T",
        sql(f"insert all into {T} (id) into {OTHER_T} (id) select 1 as id"),
    ),
    row(
        "swap two tables",
        "RenameTable on T + RenameTable on other T",
        sql(f"alter table {T} swap with {OTHER_T}"),
    ),
    # Schemas and databases
    row(
        "create a database",
        "CreateTableBucket on new B",
        sql('create database "{new_bucket}"'),
    ),
    row(
        "replace a schema",
        "CreateNamespace on N + DeleteNamespace on N + DeleteTable on T",
        sql("create or replace schema lake.{n}"),
    ),
    row(
        "drop a database",
        "DeleteTableBucket on new B + DeleteNamespace on N of new B",
        sql('drop database "{database}"'),
    ),
    row(
        "replace a database",
        "CreateTableBucket on new B + DeleteTableBucket on new B + DeleteNamespace on N of new B",
        sql('create or replace database "{database}"'),
    ),
    row(
        "drop a database with its tables",
        "DeleteTableBucket on new B + lake:RunMaintenance on new B + DeleteNamespace on N of new B"
        " + DeleteTable on T of new B + lake:RunMaintenance on T of new B",
        sql('drop database "{full_database}" cascade'),
    ),
    # Views
    row(
        "create or replace a view",
        "CreateTable on N, reading V + PutTableData on name of reading V"
        " + UpdateTableMetadataLocation on reading V + GetTableData on reading V"
        " + PutTableData on reading V",
        sql(f"create or replace view {READING_V} as select 1 as x"),
    ),
    # Sequences: tables without a uuid
    row("create a sequence", "CreateTable on new sequence", sql("create sequence lake.{n}.new_q")),
    row(
        "change a sequence",
        "UpdateTableMetadataLocation on sequence",
        sql("alter sequence lake.{n}.{q} set increment = 2"),
        sql("comment on sequence lake.{n}.{q} is 'x'"),
    ),
    row(
        "replace a sequence",
        "CreateTable on sequence + UpdateTableMetadataLocation on sequence",
        sql("create or replace sequence lake.{n}.{q}"),
    ),
    row(
        "rename a sequence",
        "UpdateTableMetadataLocation on sequence + CreateTable on new sequence",
        sql("alter sequence lake.{n}.{q} rename to lake.{n}.new_q"),
    ),
    row("drop a sequence", "DeleteTable on sequence", sql("drop sequence lake.{n}.{q}")),
    # Stages
    row(
        "read a stage",
        "GetNamespace on N",
        sql("list @lake.{n}.{stage}"),
        sql("get @lake.{n}.{stage} file:///tmp/", allowed=TRANSFERS),
        sql("select $1 from @lake.{n}.{stage}"),
        sql("describe stage lake.{n}.{stage}"),
        sql("describe file format lake.{n}.{format}"),
        sql("create temporary stage lake.{n}.new_stage"),
    ),
    row(
        "write a stage",
        "CreateTable on N",
        sql("put file:///tmp/x @lake.{n}.{stage}", allowed=TRANSFERS),
        sql("remove @lake.{n}.{stage}"),
        sql("copy into @lake.{n}.{stage}/g from (select 1 as x)"),
        sql("create stage lake.{n}.new_stage"),
        sql("create file format lake.{n}.new_format type = csv"),
        sql("alter stage lake.{n}.{stage} set comment = 'x'"),
        sql("alter file format lake.{n}.{format} set comment = 'x'"),
        sql("drop stage lake.{n}.{stage}"),
        sql("drop file format lake.{n}.{format}"),
    ),
    row(
        "unload a table",
        f"CreateTable on N + {READ_T}",
        sql(f"copy into @lake.{{n}}.{{stage}}/g from {T}"),
    ),
    row(
        "load a table",
        f"GetNamespace on N + {COMMIT_T}",
        sql(f"copy into {T} (id) from @lake.{{n}}.{{stage}}"),
    ),
    row(
        "read a table's stage",
        READ_T,
        sql("list @lake.{n}.%t"),
        sql("get @lake.{n}.%t file:///tmp/", allowed=TRANSFERS),
    ),
    row(
        "write a table's stage",
        COMMIT_T,
        sql("put file:///tmp/x @lake.{n}.%t", allowed=TRANSFERS),
        sql("remove @lake.{n}.%t"),
    ),
    # Users and roles
    row(
        "grant a privilege to a user",
        "iam:PutUserPolicy on user + GetTable on T",
        sql(f'grant select on table {T} to user "{{u}}"'),
    ),
    row(
        "grant a privilege to a role",
        "iam:PutRolePolicy on role + GetTable on T",
        sql(f'grant select on table {T} to role "{{r}}"'),
        sql(f'revoke select on table {T} from role "{{r}}"'),
    ),
    row(
        "grant a warehouse",
        "iam:PutRolePolicy on role",
        sql('grant usage on warehouse local to role "{r}"'),
    ),
    row(
        "grant a role",
        "iam:UpdateAssumeRolePolicy on role",
        sql('grant role "{r}" to user "{u}"'),
    ),
    row(
        "show grants of a user",
        "iam:GetUserPolicy on user",
        sql('show grants to user "{u}"', NO_OBJECT),
    ),
    row(
        "show grants of a role",
        "iam:GetRolePolicy on role",
        sql('show grants to role "{r}"', NO_OBJECT),
        sql('show grants of role "{r}"', NO_OBJECT),
    ),
    row(
        "show grants on a table",
        "GetTable on T + iam:GetRolePolicy on role",
        listing(sql(f"show grants on table {T}"), "{granted_r}", SQL_DENIED, HIDES),
    ),
    row("show users", "iam:ListUsers on users", listing(sql("show users"), "{u}", HIDES)),
    row("show roles", "iam:ListRoles on roles", listing(sql("show roles"), "{closed_r}", HIDES)),
    row("create a user", "iam:CreateUser on new user", sql('create user "{new_u}"')),
    row("drop a user", "iam:DeleteUser on user", sql('drop user "{u}"')),
    row("describe a user", "iam:GetUser on user", sql('describe user "{u}"', SQL_HIDDEN)),
    row("create a role", "iam:CreateRole on new role", sql('create role "{new_r}"')),
    row("change a role", "iam:UpdateRole on role", sql("alter role \"{r}\" set comment = 'x'")),
    row("drop a role", "iam:DeleteRole on role", sql('drop role "{r}"')),
    row("use a role", "sts:AssumeRole on role", sql('use role "{r}"', NO_OBJECT)),
    row("change a user", "iam:UpdateUser on user", sql("alter user \"{u}\" set comment = 'x'")),
    row(
        "change a user's password",
        "iam:UpdateLoginProfile on user",
        sql("alter user \"{u}\" set password = 'a-long-password'"),
    ),
    row(
        "add a programmatic access token",
        "iam:CreateServiceSpecificCredential on user",
        sql('alter user "{u}" add programmatic access token p'),
    ),
    row(
        "change a programmatic access token",
        "iam:UpdateServiceSpecificCredential on user",
        sql("alter user \"{u}\" modify programmatic access token {u_token} set comment = 'x'"),
    ),
    row(
        "rotate a programmatic access token",
        "iam:ResetServiceSpecificCredential on user",
        sql('alter user "{u}" rotate programmatic access token {u_token}'),
    ),
    row(
        "remove a programmatic access token",
        "iam:DeleteServiceSpecificCredential on user",
        sql('alter user "{u}" remove programmatic access token {u_token}'),
    ),
    row(
        "show the programmatic access tokens of a user",
        "iam:ListServiceSpecificCredentials on user",
        sql('show user programmatic access tokens for user "{u}"', SQL_HIDDEN),
    ),
)
"""Statements with the rights that each needs and no further one."""

NEEDS_NOTHING: Final[Mapping[str, str]] = {
    "set x = 1": "the variables of a session are its own",
    "unset x": "the variables of a session are its own",
    "show variables": "they are the session's own",
    "alter session set timezone = 'UTC'": "the parameters of a session are its own",
    "show parameters": "they are the session's own",
    "begin": "it changes nothing",
    "commit": "each statement of the transaction demands its rights, and again as it is committed",
    "rollback": "it changes nothing",
    "show transactions": "it shows the session's own",
    "use warehouse local": "every user may use every warehouse",
    "show warehouses": "every user may use every warehouse",
    "use secondary roles all": "it changes nothing",
    "show grants": "it shows the caller's own",
    "show functions": "the functions of the dialect belong to no database",
    "show builtin functions": "the functions of the dialect belong to no database",
    **{
        f"show {listing}": "it is always empty"
        for listing in (
            "user functions",
            "procedures",
            "user procedures",
            "indexes",
            "materialized views",
            "external tables",
            "dynamic tables",
            "streams",
            "tasks",
            "pipes",
        )
    },
}
"""Statements that need no right, each with the reason."""

"""rule: the closed set of statements: every text becomes one of these, or is refused.

Trees are sqlglot's. Only `sql.dialect` reads them; other modules pass them on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from sql.dialect import names, sqltypes

Tree: TypeAlias = Any
"""A sqlglot expression; opaque outside `sql.dialect`."""

PlanForm: TypeAlias = Literal["tabular", "text", "json"]
KeyType: TypeAlias = Literal["primary", "unique", "foreign"]
ScopeType: TypeAlias = Literal["", "account", "database", "schema", "table", "session", "name"]
DescribedType: TypeAlias = Literal["table", "view", "schema", "database", "sequence"]
IdentityType: TypeAlias = Literal["user", "role"]
GrantedType: TypeAlias = Literal["TABLE", "VIEW", "SCHEMA", "DATABASE", "ACCOUNT"]
StagingType: TypeAlias = Literal["stage", "file format"]

ELSEWHERE: Final = "elsewhere"
"""Stands for a tree in another process."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Query:
    """SELECT, WITH, VALUES and their set operations."""

    tree: Tree


@dataclass(frozen=True, kw_only=True, slots=True)
class Explain:
    """EXPLAIN [USING TABULAR | TEXT | JSON] of a statement."""

    statement: Operation
    form: PlanForm = "tabular"


@dataclass(frozen=True, kw_only=True, slots=True)
class AutoIncrement:
    """AUTOINCREMENT or IDENTITY of a column."""

    start: int = 1
    increment: int = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class KeyDefinition:
    """A key that is stored and never enforced. referenced, on_update, on_delete: of a foreign key.

    is_reliable: RELY.
    """

    type: KeyType
    columns: tuple[names.Ident, ...]
    name: names.Ident | None = None
    referenced: names.Name = ()
    referenced_columns: tuple[names.Ident, ...] = ()
    on_update: str = "NO ACTION"
    on_delete: str = "NO ACTION"
    is_reliable: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class ColumnDefinition:
    """One column of CREATE TABLE. type None: a CTAS column list with names only.

    default: the text of the DEFAULT expression.
    """

    name: names.Ident
    type: sqltypes.SqlType | None
    required: bool = False
    comment: str | None = None
    default: str | None = None
    identity: AutoIncrement | None = None


ClusterKey: TypeAlias = tuple[str, names.Ident]
"""A transform of Iceberg, and the column that it is of."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ColumnTemplate:
    """USING TEMPLATE (query). before, after: the text of the CREATE TABLE around it."""

    query: str
    before: str
    after: str


@dataclass(frozen=True, kw_only=True, slots=True)
class CreateTable:
    """CREATE [OR REPLACE] [TEMPORARY | TRANSIENT] [ICEBERG] TABLE, with or without AS query.

    partition_by: (transform, column) pairs; cluster_by: what the files are sorted by.
    is_iceberg: with the word ICEBERG. is_transient: with the word TRANSIENT. is_temporary: the
    table is its session's alone. copies: with LIKE or CLONE, whose source the query reads.
    external_volume, base_location: of an ICEBERG table, as they are written. settings: properties
    that its options set; None where an option says the default. template: what the columns come
    from; the statement has nothing else then. stage_format: STAGE_FILE_FORMAT.
    """

    name: names.Name
    columns: tuple[ColumnDefinition, ...]
    query: Tree | None = None
    replace: bool = False
    if_not_exists: bool = False
    comment: str | None = None
    partition_by: tuple[tuple[str, names.Ident], ...] = ()
    cluster_by: tuple[ClusterKey, ...] = ()
    keys: tuple[KeyDefinition, ...] = ()
    is_iceberg: bool = False
    is_temporary: bool = False
    is_transient: bool = False
    copies: Literal["", "like", "clone"] = ""
    external_volume: str | None = None
    base_location: str | None = None
    settings: tuple[tuple[str, str | None], ...] = ()
    template: ColumnTemplate | None = None
    stage_format: FormatClause | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class AddColumns:
    """keys: those that the columns' definitions contain."""

    columns: tuple[ColumnDefinition, ...]
    keys: tuple[KeyDefinition, ...] = ()
    if_not_exists: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class DropColumns:
    columns: tuple[names.Ident, ...]
    if_exists: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class RenameColumn:
    column: names.Ident
    to: names.Ident


@dataclass(frozen=True, kw_only=True, slots=True)
class ColumnChange:
    """One change of one column; members that are None do not change. comment: "" removes it.

    default: the text of the expression; "" removes the default.
    """

    column: names.Ident
    type: sqltypes.SqlType | None = None
    required: bool | None = None
    comment: str | None = None
    default: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ChangeColumns:
    changes: tuple[ColumnChange, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class AddKey:
    key: KeyDefinition


@dataclass(frozen=True, kw_only=True, slots=True)
class DropKey:
    """key_type and columns say which, or else name. Empty columns: the primary key."""

    key_type: Literal["primary", "unique", "foreign", ""] = ""
    columns: tuple[names.Ident, ...] = ()
    name: names.Ident | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterBy:
    """keys empty: DROP CLUSTERING KEY."""

    keys: tuple[ClusterKey, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class SetTableProperties:
    """Properties as Iceberg names them; None removes one. stage_format: STAGE_FILE_FORMAT."""

    properties: tuple[tuple[str, str | None], ...]
    stage_format: FormatClause | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class RenameTable:
    to: names.Name


@dataclass(frozen=True, kw_only=True, slots=True)
class SwapTables:
    """SWAP WITH."""

    other: names.Name


SchemaChange: TypeAlias = (
    AddColumns
    | DropColumns
    | RenameColumn
    | ChangeColumns
    | AddKey
    | DropKey
    | ClusterBy
    | SetTableProperties
)
"""A change of a table's metadata."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AlterTable:
    """ALTER [ICEBERG] TABLE, and COMMENT ON TABLE or COLUMN.

    of_view: what COMMENT ON COLUMN changes where the name is a view's.
    """

    name: names.Name
    change: SchemaChange | RenameTable | SwapTables
    if_exists: bool = False
    of_view: AlterView | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class CreateSequence:
    name: names.Name
    start: int = 1
    increment: int = 1
    comment: str = ""
    if_not_exists: bool = False
    replace: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class AlterSequence:
    """Members that are None stay. to: its new name."""

    name: names.Name
    to: names.Name | None = None
    increment: int | None = None
    comment: str | None = None
    if_exists: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class DropSequence:
    name: names.Name
    if_exists: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class AlterSchema:
    """ALTER SCHEMA and COMMENT ON SCHEMA. comment: "" removes it."""

    name: names.Name
    comment: str
    if_exists: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class CloneSource:
    """The schema or database that CLONE names.

    moment: the text of AT or BEFORE, "" without. ignores_expired: tables whose state of then is not
    kept any more are left out.
    """

    name: names.Name
    moment: str = ""
    ignores_expired: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class CreateDatabase:
    name: names.Ident
    comment: str = ""
    if_not_exists: bool = False
    replace: bool = False
    source: CloneSource | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class AlterDatabase:
    """ALTER DATABASE and COMMENT ON DATABASE. comment: "" removes it."""

    name: names.Ident
    comment: str
    if_exists: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class DropDatabase:
    """cascade: with its tables and views, for good."""

    name: names.Ident
    if_exists: bool = False
    cascade: bool = False


WarehouseOptions: TypeAlias = tuple[tuple[str, str | int | bool], ...]
"""Options of a warehouse, by Snowflake's names in upper case, and their values."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CreateWarehouse:
    name: names.Ident
    options: WarehouseOptions = ()
    if_not_exists: bool = False
    replace: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class AlterWarehouse:
    """ALTER WAREHOUSE. options: that it sets. removed: that it sets back to their defaults."""

    name: names.Ident
    options: WarehouseOptions = ()
    removed: tuple[str, ...] = ()
    if_exists: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class DropWarehouse:
    name: names.Ident
    if_exists: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class CreateSchema:
    name: names.Name
    if_not_exists: bool = False
    comment: str | None = None
    replace: bool = False
    source: CloneSource | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class DropTable:
    name: names.Name
    if_exists: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class UndropTable:
    name: names.Name


@dataclass(frozen=True, kw_only=True, slots=True)
class UndropSchema:
    name: names.Name


@dataclass(frozen=True, kw_only=True, slots=True)
class DropSchema:
    name: names.Name
    if_exists: bool = False
    cascade: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class CreateView:
    """CREATE [OR REPLACE] [SECURE] VIEW. text: the query's own text.

    columns: as listed after the name, each without a type; empty if the query names them.
    """

    name: names.Name
    columns: tuple[ColumnDefinition, ...]
    text: str
    query: Tree
    replace: bool = False
    if_not_exists: bool = False
    is_secure: bool = False
    is_temporary: bool = False
    comment: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class DropView:
    name: names.Name
    if_exists: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class AlterView:
    """ALTER VIEW: one of its changes. comment "" removes the comment.

    column_comments: columns with their new comments.
    """

    name: names.Name
    if_exists: bool = False
    new_name: names.Name | None = None
    comment: str | None = None
    is_secure: bool | None = None
    column_comments: tuple[tuple[names.Ident, str], ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Insert:
    """INSERT [OVERWRITE] INTO. columns empty: all, in order. source: a query, or VALUES rows.

    defaulted: the positions of the columns that are DEFAULT in some row of VALUES. Such a cell is
    NULL in source, and after its columns source has a BOOLEAN for each of these: whether the row
    takes the default. width: the number of columns without these; 0 if there are none.
    accepts_rows: whether its binds may be arrays, see `sql.dialect.bound_rows`.
    """

    name: names.Name
    columns: tuple[names.Ident, ...]
    source: Tree
    overwrite: bool = False
    defaulted: tuple[int, ...] = ()
    width: int = 0
    accepts_rows: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Clause:
    """What a change does with the rows to which it applies.

    columns: those that it assigns; empty for an insert of all columns. values: of each column, the
    index among the values of the tree; None for DEFAULT. by_name: it assigns each column the
    source's column of its name. These values stand after all others, in the table's order.
    """

    action: Literal["delete", "update", "insert"]
    columns: tuple[names.Ident, ...] = ()
    values: tuple[int | None, ...] = ()
    by_name: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class ChangeRows:
    """DELETE, UPDATE or MERGE of a table. See `sql.dialect.changes`.

    tree: a SELECT with a row for each change: the number of the target's row, the number of the
    clause, then the clauses' values. is_joined: it may have several rows for one row of the target.
    is_whole: it deletes every row.
    """

    statement: Literal["delete", "update", "merge"]
    name: names.Name
    clauses: tuple[Clause, ...]
    tree: Tree
    is_joined: bool
    is_whole: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class IntoClause:
    """An INTO clause of a multi-table INSERT. columns empty: all, in order.

    defaults: the positions of its VALUES that are DEFAULT.
    """

    name: names.Name
    columns: tuple[names.Ident, ...] = ()
    defaults: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class InsertAll:
    """INSERT [OVERWRITE] ALL or FIRST. selects: see `sql.dialect.multi_inserts`."""

    clauses: tuple[IntoClause, ...]
    selects: Tree
    source: Tree
    overwrite: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Truncate:
    """TRUNCATE [TABLE] [IF EXISTS] of a table."""

    name: names.Name
    if_exists: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Use:
    object_type: Literal["database", "schema", "warehouse", "role", "secondary roles", ""]
    name: names.Name


@dataclass(frozen=True, kw_only=True, slots=True)
class SetVariables:
    """SET. values: a SELECT of them, in the order of names."""

    names: tuple[names.Ident, ...]
    values: Tree


@dataclass(frozen=True, kw_only=True, slots=True)
class UnsetVariables:
    names: tuple[names.Ident, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class AlterSession:
    """ALTER SESSION SET name = value ..., or UNSET name, ..."""

    set: tuple[tuple[str, str | int | bool], ...] = ()
    unset: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class BeginTransaction:
    """BEGIN. name: "" for none."""

    name: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class CommitTransaction:
    pass


@dataclass(frozen=True, kw_only=True, slots=True)
class RollbackTransaction:
    pass


@dataclass(frozen=True, kw_only=True, slots=True)
class Show:
    """SHOW. listing: its name in upper case, such as "TABLES" or "USER FUNCTIONS".

    scope_type: the type of the object that IN names; "" means no IN clause. scope: the object's
    name, if IN has one.
    """

    listing: str
    terse: bool = False
    history: bool = False
    like: str | None = None
    scope_type: ScopeType = ""
    scope: names.Name = ()
    starts_with: str | None = None
    limit: int | None = None
    limit_from: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Describe:
    object_type: DescribedType
    name: names.Name


@dataclass(frozen=True, kw_only=True, slots=True)
class DescribeResult:
    """query_id: "" for LAST_QUERY_ID(position)."""

    query_id: str = ""
    position: int = -1


@dataclass(frozen=True, kw_only=True, slots=True)
class UserChanges:
    """What CREATE USER and ALTER USER set. Members that are None do not change.

    password: "" removes it. public_keys: pairs of the key's number, 0 or 1, and its text, "" to
    remove it. properties: pairs of name and text, "" to remove one.
    """

    password: str | None = field(default=None, repr=False)
    public_keys: tuple[tuple[int, str], ...] = ()
    disabled: bool | None = None
    properties: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class CreateUser:
    name: names.Ident
    changes: UserChanges
    if_not_exists: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class AlterUser:
    name: names.Ident
    changes: UserChanges
    if_exists: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class AddToken:
    """ALTER USER ... ADD PROGRAMMATIC ACCESS TOKEN. user: None for the caller. role: "" for any."""

    user: names.Ident | None
    token: names.Ident
    role: str = ""
    days: int | None = None
    comment: str = ""
    if_exists: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class ModifyToken:
    """The same with MODIFY. Members that are None do not change."""

    user: names.Ident | None
    token: names.Ident
    new_name: names.Ident | None = None
    disabled: bool | None = None
    comment: str | None = None
    if_exists: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class RotateToken:
    """The same with ROTATE. hours: how long the text of before stays valid; None: not said."""

    user: names.Ident | None
    token: names.Ident
    hours: int | None = None
    if_exists: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class RemoveToken:
    """The same with REMOVE."""

    user: names.Ident | None
    token: names.Ident
    if_exists: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class ShowTokens:
    """SHOW USER PROGRAMMATIC ACCESS TOKENS. user: None for the caller."""

    user: names.Ident | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class CreateRole:
    name: names.Ident
    comment: str = ""
    if_not_exists: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class AlterRole:
    """comment: "" removes it."""

    name: names.Ident
    comment: str
    if_exists: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class DropIdentity:
    """DROP USER or DROP ROLE."""

    object_type: IdentityType
    name: names.Ident
    if_exists: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class DescribeUser:
    name: names.Ident


@dataclass(frozen=True, kw_only=True, slots=True)
class GrantTarget:
    """The object of a grant. all_in: name is of the schema or database that has the objects."""

    object_type: GrantedType
    name: names.Name = ()
    all_in: Literal["", "schema", "database"] = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class GrantHolder:
    """The role or user that has a grant."""

    object_type: IdentityType
    name: names.Ident


@dataclass(frozen=True, kw_only=True, slots=True)
class GrantPrivileges:
    """GRANT or REVOKE of privileges, None for ALL."""

    privileges: tuple[str, ...] | None
    target: GrantTarget
    holder: GrantHolder
    is_grant: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class GrantWarehouse:
    """GRANT USAGE ON WAREHOUSE, which every user and role has."""

    name: names.Ident
    holder: GrantHolder


@dataclass(frozen=True, kw_only=True, slots=True)
class GrantRole:
    """GRANT ROLE to a user, or REVOKE of it."""

    role: names.Ident
    user: names.Ident
    is_grant: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class ShowGrants:
    """SHOW GRANTS: of the caller, or TO or OF a holder, or ON an object."""

    form: Literal["own", "to", "of", "on"]
    holder: GrantHolder | None = None
    target: GrantTarget | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ExecuteImmediate:
    """EXECUTE IMMEDIATE. text: the statement, or else variable is the session variable that has it.

    using: the values of its binds: session variables, or literals as Python values.
    """

    text: str = ""
    variable: names.Ident | None = None
    using: tuple[names.Ident | str | int, ...] = ()


FormatValue: TypeAlias = str | int | bool | tuple[str, ...] | None
"""An option's value as it is written; None is NONE."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FormatClause:
    """FILE_FORMAT = (...). name: of a stored format; empty for options alone."""

    name: names.Name = ()
    options: Mapping[str, FormatValue] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class StageLocation:
    """`@name/path`, `@~/path` or `@%table/path`. name: of the stage or the table."""

    owner: Literal["named", "user", "table"]
    name: names.Name = ()
    path: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class CreateStage:
    name: names.Name
    replace: bool = False
    if_not_exists: bool = False
    temporary: bool = False
    comment: str = ""
    file_format: FormatClause = FormatClause()


@dataclass(frozen=True, kw_only=True, slots=True)
class CreateFileFormat:
    name: names.Name
    replace: bool = False
    if_not_exists: bool = False
    temporary: bool = False
    comment: str = ""
    options: Mapping[str, FormatValue] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class AlterStaging:
    """ALTER STAGE or ALTER FILE FORMAT.

    comment: the new one; None leaves it. file_format: a stage's new format. options: those of a
    file format that change.
    """

    object_type: StagingType
    name: names.Name
    if_exists: bool = False
    comment: str | None = None
    file_format: FormatClause | None = None
    options: Mapping[str, FormatValue] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class DropStaging:
    """DROP STAGE or DROP FILE FORMAT."""

    object_type: StagingType
    name: names.Name
    if_exists: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class DescribeStaging:
    """DESCRIBE STAGE or DESCRIBE FILE FORMAT."""

    object_type: StagingType
    name: names.Name


@dataclass(frozen=True, kw_only=True, slots=True)
class PutFiles:
    """PUT. local: the path on the client, without `file://`. source_compression: upper case."""

    local: str
    location: StageLocation
    parallel: int = 4
    auto_compress: bool = True
    source_compression: str = "AUTO_DETECT"
    overwrite: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class GetFiles:
    """GET. local: the folder on the client, without `file://`."""

    location: StageLocation
    local: str
    parallel: int = 10
    pattern: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ListFiles:
    location: StageLocation
    pattern: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class RemoveFiles:
    location: StageLocation
    pattern: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class CopyInto:
    """COPY INTO a table. query: the text of FROM (SELECT ...), instead of a location.

    on_error: ABORT_STATEMENT, CONTINUE, SKIP_FILE, SKIP_FILE_<n> or SKIP_FILE_<n>%.
    match_by_name: CASE_SENSITIVE or CASE_INSENSITIVE; "" for columns by position. validation_mode:
    "" or as written, in upper case.
    """

    name: names.Name
    columns: tuple[names.Ident, ...] = ()
    location: StageLocation | None = None
    query: str = ""
    files: tuple[str, ...] | None = None
    pattern: str | None = None
    file_format: FormatClause = FormatClause()
    on_error: str = "ABORT_STATEMENT"
    size_limit: int = 0
    purge: bool = False
    return_failed_only: bool = False
    match_by_name: str = ""
    truncate_columns: bool = False
    force: bool = False
    validation_mode: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Unload:
    """COPY INTO a stage. query: the text of the rows' query.

    partition: the expression of PARTITION BY, "" without one. returns_rows: VALIDATION_MODE wants
    the rows alone.
    """

    location: StageLocation
    query: str
    partition: str = ""
    file_format: FormatClause = FormatClause()
    overwrite: bool = False
    single: bool = False
    header: bool = False
    max_file_size: int = 16 << 20
    include_query_id: bool = False
    detailed_output: bool = False
    returns_rows: bool = False


Operation: TypeAlias = (
    Query
    | Explain
    | CreateTable
    | AlterTable
    | AlterSchema
    | CreateUser
    | AlterUser
    | AddToken
    | ModifyToken
    | RotateToken
    | RemoveToken
    | ShowTokens
    | CreateRole
    | AlterRole
    | DropIdentity
    | DescribeUser
    | GrantPrivileges
    | GrantWarehouse
    | GrantRole
    | ShowGrants
    | DescribeResult
    | ExecuteImmediate
    | CreateDatabase
    | AlterDatabase
    | DropDatabase
    | CreateWarehouse
    | AlterWarehouse
    | DropWarehouse
    | CreateSequence
    | AlterSequence
    | DropSequence
    | CreateSchema
    | DropTable
    | UndropTable
    | UndropSchema
    | DropSchema
    | CreateView
    | DropView
    | AlterView
    | Insert
    | ChangeRows
    | InsertAll
    | Truncate
    | Use
    | SetVariables
    | UnsetVariables
    | AlterSession
    | BeginTransaction
    | CommitTransaction
    | RollbackTransaction
    | Show
    | Describe
    | CreateStage
    | CreateFileFormat
    | AlterStaging
    | DropStaging
    | DescribeStaging
    | PutFiles
    | GetFiles
    | ListFiles
    | RemoveFiles
    | CopyInto
    | Unload
)

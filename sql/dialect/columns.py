"""rule: plain values of sqlglot's trees of CREATE TABLE, INSERT and data types.

Other parts of a tree are refused by name: a default, a key or a policy must not be accepted and
ignored.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from sqlglot import exp

from sql import errors, outcomes
from sql.dialect import clustering, names, operations, sqltypes, table_options

INTEGERS = {"TINYINT", "SMALLINT", "MEDIUMINT", "INT", "BIGINT", "INT128"}
TEXTS = {"VARCHAR", "TEXT", "NVARCHAR", "NAME"}
CHARACTERS = {"CHAR", "NCHAR"}
SEMISTRUCTURED = {
    "VARIANT": sqltypes.VARIANT,
    "OBJECT": sqltypes.OBJECT,
    "ARRAY": sqltypes.ARRAY,
}
MOMENTS = {
    "TIMESTAMPNTZ": "timestamp_ntz",
    "DATETIME": "timestamp_ntz",
    "TIMESTAMPLTZ": "timestamp_ltz",
    "TIMESTAMPTZ": "timestamp_tz",
}

OWN_CATALOG = "SNOWFLAKE"
ICEBERG_OPTIONS = ("EXTERNAL_VOLUME", "CATALOG", "BASE_LOCATION")


def ident(node: Any) -> names.Ident:
    """Return the identifier of an Identifier, or of a Column or Table of one part."""
    if isinstance(node, exp.Identifier):
        return names.Ident(text=node.name, quoted=bool(node.args.get("quoted")))
    if isinstance(node, exp.Column | exp.Table) and isinstance(node.this, exp.Identifier):
        return ident(node.this)
    if isinstance(node, exp.Var):
        return names.Ident(text=node.name)
    raise errors.unsupported(_name_of(node))


def table_name(node: exp.Table) -> names.Name:
    """Return the parts of a table's name. Between two dots stands the schema PUBLIC."""
    database, schema = node.args.get("catalog"), node.args.get("db")
    if database and not schema:
        return ident(database), names.PUBLIC, ident(node.this)
    return tuple(ident(part) for part in (database, schema, node.this) if part)


def data_type(node: Any, *, timestamp: str = "TIMESTAMP_NTZ") -> sqltypes.SqlType:
    """Return the type that a DataType means; INT and its like are 64-bit integers.

    timestamp: what TIMESTAMP without a suffix means. Raises SqlError 000002 for a type that
    Boathouse does not have.
    """
    if isinstance(node, exp.DataType) and not node.expressions:
        semistructured = SEMISTRUCTURED.get(getattr(node.this, "name", ""))
        if semistructured is not None:
            return semistructured
    if isinstance(node, exp.DataType) and isinstance(node.this, exp.Interval):
        return _interval_type(node)
    if not isinstance(node, exp.DataType) or node.args.get("nested"):
        raise errors.unsupported(f"data type {_sql(node)}")
    type_name = node.this.name if hasattr(node.this, "name") else str(node.this)
    parameters = [_parameter(item) for item in node.expressions]
    if type_name in INTEGERS and not parameters:
        return sqltypes.integer(sqltypes.PRECISION_MAX)
    if type_name == "DECIMAL":
        precision, scale = (*parameters, 38, 0)[:2] if parameters else (38, 0)
        if len(parameters) == 1:
            scale = 0
        if not (1 <= precision <= sqltypes.PRECISION_MAX and 0 <= scale <= min(precision, 37)):
            raise errors.unsupported(f"data type {_sql(node)}")
        return sqltypes.number(precision, scale)
    if type_name in ("DOUBLE", "FLOAT"):
        return sqltypes.REAL
    if type_name in TEXTS:
        return sqltypes.text(parameters[0] if parameters else None)
    if type_name in CHARACTERS:
        return sqltypes.text(parameters[0] if parameters else 1)
    if type_name in ("BINARY", "VARBINARY"):
        return sqltypes.SqlType(name="binary", length=parameters[0] if parameters else None)
    if type_name == "BOOLEAN":
        return sqltypes.BOOLEAN
    if type_name == "DATE":
        return sqltypes.DATE
    scale = _fraction(parameters)
    if type_name == "TIME":
        return sqltypes.SqlType(name="time", scale=scale)
    name = {"TIMESTAMP": timestamp.lower()}.get(type_name) or MOMENTS.get(type_name)
    if name in ("timestamp_ntz", "timestamp_ltz", "timestamp_tz"):
        return sqltypes.SqlType(name=name, scale=scale)  # type: ignore[arg-type]  # one of the three
    raise errors.unsupported(f"data type {_sql(node)}")


def _interval_type(node: exp.DataType) -> sqltypes.SqlType:
    unit = node.this.args.get("unit")
    spelled = f"INTERVAL {'' if unit is None else unit.name}"
    named = sqltypes.interval_of(spelled)
    if named is None:
        raise errors.unsupported(f"data type {spelled}")
    return named


def cast_type(node: Any, *, timestamp: str = "TIMESTAMP_NTZ") -> sqltypes.SqlType:
    """Return the type that a DataType after CAST means, which may be structured."""
    if not isinstance(node, exp.DataType) or not node.args.get("nested") or not node.expressions:
        return data_type(node, timestamp=timestamp)

    def inner(part: Any) -> sqltypes.SqlType:
        of_part = cast_type(part, timestamp=timestamp)
        if of_part.structure is not None:
            return of_part
        cuts = of_part.name in sqltypes.CLOCKS and fraction_digits(part) not in (None, 6, 9)
        longest = {"text": outcomes.TEXT_LENGTH_MAX, "binary": outcomes.BINARY_LENGTH_MAX}
        if of_part.length == longest.get(of_part.name):
            of_part = dataclasses.replace(of_part, length=None)
        if of_part.name not in PARTS_OF_STRUCTURES or of_part.length is not None or cuts:
            raise errors.unsupported(f"{_sql(part)} inside a structured type")
        return of_part

    members = node.expressions
    match getattr(node.this, "name", ""):
        case "ARRAY" if len(members) == 1:
            return sqltypes.structured("list", {"element": inner(members[0])})
        case "MAP" if len(members) == 2:
            key = inner(members[0])
            if key.name == "text" or (key.name == "fixed" and not key.scale):
                return sqltypes.structured("map", {"key": key, "value": inner(members[1])})
        case "OBJECT":
            fields = {}
            for member in members:
                if not isinstance(member, exp.ColumnDef) or member.args.get("constraints"):
                    raise errors.unsupported(f"{_sql(member)} inside a structured type")
                fields[member.name] = inner(member.args["kind"])
            if len(fields) == len(members):
                return sqltypes.structured("struct", fields)
    raise errors.unsupported(f"data type {_sql(node)}")


PARTS_OF_STRUCTURES = frozenset(
    {"text", "fixed", "real", "boolean", "date", "time", "timestamp_ntz", "binary"}
)
"""Types that casts give the parts of structured values."""


def column_type(node: Any) -> sqltypes.SqlType:
    """Return the type that a DataType means of a column, with the digits of a second it names.

    It may be structured.
    """
    declared = cast_type(node)
    digits = fraction_digits(node) if declared.name in sqltypes.CLOCKS else None
    if digits is None:
        return declared
    return sqltypes.declared_digits(declared, digits)


def _fraction(parameters: list[int]) -> int:
    # Iceberg stores microseconds; TIMESTAMP(9), Snowflake's default, becomes that.
    if parameters and parameters[0] > 9:
        raise errors.unsupported(f"fractional seconds of {parameters[0]} digits")
    return 6


def fraction_digits(node: Any) -> int | None:
    """Return how many digits of a second a DataType names; None if it names none."""
    if not isinstance(node, exp.DataType) or len(node.expressions) != 1:
        return None
    return _parameter(node.expressions[0])


def _parameter(node: Any) -> int:
    value = node.this if isinstance(node, exp.DataTypeParam) else node
    if not isinstance(value, exp.Literal) or not value.name.isdecimal() or len(value.name) > 9:
        raise errors.unsupported(f"type parameter {_sql(node)}")
    return int(value.name)


def create_table(
    tree: Any,
    definitions: tuple[operations.ColumnDefinition, ...] = (),
    keys: tuple[operations.KeyDefinition, ...] = (),
) -> operations.CreateTable:
    """Return the operation of a Create tree without a column list; refuse everything else in it.

    definitions, keys: the column list (`sql.dialect.elements`).
    """
    if not isinstance(tree, exp.Create) or tree.kind != "TABLE":
        raise errors.unsupported(f"CREATE {getattr(tree, 'kind', '')}".strip())
    refuse_arguments(
        tree,
        "CREATE TABLE",
        {"this", "kind", "replace", "exists", "properties", "expression"},
    )
    comment, partition_by, cluster_by = _properties(tree.args.get("properties"))
    is_iceberg = _names_iceberg(tree.args.get("properties"))
    options = _iceberg_options(tree.args.get("properties")) if is_iceberg else {}
    query = tree.expression
    if query is not None and not isinstance(query, exp.Query):
        raise errors.unsupported("CREATE TABLE ... AS")
    if query is None and (not definitions or any(item.type is None for item in definitions)):
        raise errors.unsupported("CREATE TABLE without columns")
    if query is not None and any(item.default or item.identity for item in definitions):
        raise errors.unsupported("CREATE TABLE ... AS with a default")
    return operations.CreateTable(
        name=table_name(tree.this),
        columns=definitions,
        query=query,
        replace=bool(tree.args.get("replace")),
        if_not_exists=bool(tree.args.get("exists")),
        comment=comment,
        partition_by=partition_by,
        cluster_by=cluster_by,
        keys=keys,
        is_iceberg=is_iceberg,
        external_volume=options.get("EXTERNAL_VOLUME"),
        base_location=options.get("BASE_LOCATION"),
        settings=_settings(tree.args.get("properties"), is_iceberg=is_iceberg),
    )


def _names_iceberg(node: Any) -> bool:
    listed = () if node is None else node.expressions
    return any(isinstance(item, exp.IcebergProperty) for item in listed)


def _iceberg_options(node: Any) -> dict[str, str]:
    """Return the texts of the options that ICEBERG tables alone have; refuse another catalog."""
    options: dict[str, str] = {}
    for item in node.expressions:
        name = _property_name(item)
        if type(item) is not exp.Property or name not in ICEBERG_OPTIONS:
            continue
        if name in options:
            raise errors.unsupported(f"CREATE ICEBERG TABLE with {name} twice")
        value = item.args.get("value")
        if not isinstance(value, exp.Literal | exp.Var | exp.Identifier | exp.Column):
            raise errors.unsupported(f"CREATE ICEBERG TABLE ... {name} = {_sql(value)}")
        options[name] = value.name
    catalog = options.get("CATALOG", OWN_CATALOG)
    if catalog.upper() != OWN_CATALOG:
        raise errors.unsupported(f"CREATE ICEBERG TABLE ... CATALOG = '{catalog}'")
    return options


def _settings(node: Any, *, is_iceberg: bool) -> table_options.Properties:
    """Return the table's properties that options of CREATE TABLE set."""
    settings: dict[str, str | None] = {}
    for item in () if node is None else node.expressions:
        name = _property_name(item)
        if type(item) is not exp.Property or name not in _option_names(is_iceberg=is_iceberg):
            continue
        value = item.args.get("value")
        if isinstance(value, exp.Boolean):
            settings |= table_options.properties(name, value.this)
        elif isinstance(value, exp.Literal):
            is_number = not value.is_string and value.name.isdecimal()
            settings |= table_options.properties(name, int(value.name) if is_number else value.name)
        else:
            raise errors.unsupported(f"CREATE TABLE ... {name} = {_sql(value)}")
    return tuple(settings.items())


def _option_names(*, is_iceberg: bool) -> tuple[str, ...]:
    return (*table_options.NAMES_OF_ALL, *(table_options.NAMES if is_iceberg else ()))


def _properties(
    node: Any,
) -> tuple[str | None, tuple[tuple[str, names.Ident], ...], tuple[operations.ClusterKey, ...]]:
    comment = None
    partition_by: tuple[tuple[str, names.Ident], ...] = ()
    cluster_by: tuple[operations.ClusterKey, ...] = ()
    is_iceberg = _names_iceberg(node)
    for item in node.expressions if node is not None else ():
        match item:
            case exp.TransientProperty() | exp.IcebergProperty():
                pass  # `parse` reads these words
            case exp.CopyGrantsProperty():
                pass  # grants are for a table's name, and hold for what replaces it
            case exp.SchemaCommentProperty():
                comment = item.this.name
            case exp.PartitionedByProperty():
                partition_by = tuple(_transform(part) for part in item.this.expressions)
            case exp.ClusterProperty() | exp.Cluster():
                cluster_by = tuple(clustering.key(part, _sql(part)) for part in item.expressions)
            case exp.Property() if is_iceberg and _property_name(item) in ICEBERG_OPTIONS:
                pass  # `_iceberg_options` reads them
            case exp.Property() if _property_name(item) in _option_names(is_iceberg=is_iceberg):
                pass  # `_settings` reads them
            case _:
                raise errors.unsupported(f"CREATE TABLE ... {_property_name(item)}")
    return comment, partition_by, cluster_by


def _transform(node: Any) -> tuple[str, names.Ident]:
    match node:
        case exp.Identifier() | exp.Column():
            return "identity", ident(node)
        case exp.PartitionedByBucket():
            return f"bucket[{_parameter(node.expression)}]", ident(node.this)
        case exp.PartitionByTruncate():
            return f"truncate[{_parameter(node.expression)}]", ident(node.this)
        case exp.Anonymous() if len(node.expressions) in (1, 2):
            return _called_transform(node)
    raise errors.unsupported(f"PARTITION BY {_sql(node)}")


def _called_transform(node: exp.Anonymous) -> tuple[str, names.Ident]:
    name = str(node.this).lower()
    if name in ("year", "month", "day", "hour") and len(node.expressions) == 1:
        return name, ident(node.expressions[0])
    if name in ("bucket", "truncate") and len(node.expressions) == 2:
        return f"{name}[{_parameter(node.expressions[0])}]", ident(node.expressions[1])
    raise errors.unsupported(f"PARTITION BY {_sql(node)}")


def insert(tree: exp.Insert) -> operations.Insert:
    """Return the operation of an Insert tree; refuse everything else in it."""
    refuse_arguments(tree, "INSERT", {"this", "expression", "overwrite", "with_"})
    target = tree.this
    table = target.this if isinstance(target, exp.Schema) else target
    listed = target.expressions if isinstance(target, exp.Schema) else []
    source = tree.expression
    if not isinstance(table, exp.Table) or not isinstance(source, exp.Query | exp.Values):
        raise errors.unsupported("INSERT of this form")
    if tree.args.get("with_") is not None:
        raise errors.unsupported("WITH before INSERT")
    if table.args.get("partition") is not None:
        raise errors.unsupported("INSERT ... PARTITION")
    defaulted, width = _take_defaults(source)
    return operations.Insert(
        name=table_name(table),
        columns=tuple(ident(item) for item in listed),
        source=source,
        overwrite=bool(tree.args.get("overwrite")),
        defaulted=defaulted,
        width=width,
    )


def is_default(node: Any) -> bool:
    """Return whether a cell of VALUES is the word DEFAULT."""
    return isinstance(node, exp.Var) and node.name.upper() == "DEFAULT"


def _take_defaults(source: Any) -> tuple[tuple[int, ...], int]:
    """Replace DEFAULT in rows of VALUES as `operations.Insert` says; return defaulted and width."""
    if not isinstance(source, exp.Values):
        return (), 0
    rows = [
        list(row.expressions) if isinstance(row, exp.Tuple) else [row] for row in source.expressions
    ]
    defaulted = sorted(
        {index for row in rows for index, cell in enumerate(row) if is_default(cell)}
    )
    if not defaulted:
        return (), 0
    width = len(rows[0])
    for row in rows:
        if len(row) != width:
            raise errors.column_count_differs(width, len(row))
    source.set(
        "expressions",
        [
            exp.Tuple(
                expressions=[
                    *(exp.Null() if is_default(cell) else cell for cell in row),
                    *(exp.Boolean(this=is_default(row[index])) for index in defaulted),
                ]
            )
            for row in rows
        ],
    )
    return tuple(defaulted), width


def refuse_arguments(tree: Any, statement: str, allowed: set[str]) -> None:
    """Raise SqlError for an argument of a statement's tree that is not allowed."""
    for name, value in tree.args.items():
        if name not in allowed and value:
            raise errors.unsupported(f"{statement} ... {name.rstrip('_').upper()}")


def _property_name(node: Any) -> str:
    if isinstance(node, exp.Property) and type(node) is exp.Property:
        return str(node.this.name).upper()
    return _name_of(node).removesuffix("PROPERTY")


def _name_of(node: Any) -> str:
    return type(node).__name__.upper()


def _sql(node: Any) -> str:
    return str(node.sql("snowflake")) if isinstance(node, exp.Expression) else str(node)

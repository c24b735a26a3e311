"""engine: reads raw files as one Spark data frame, with the column types that the load needs.

For CSV, `reading` says from the classes of the values which type a column has, and Spark reads with
these types. The classes come from the bytes (`valueclasses`) or, where these do not tell them, from
Spark, which then reads the files as text first. For JSON, Spark's own inference is merged with the
table's types. A column that the table has is read as the table's type, or as one that Iceberg can
widen it to.
"""

from __future__ import annotations

import contextlib
import functools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline import (
    avrofiles,
    errors,
    inspection,
    jobs,
    progress,
    reading,
    session,
    settings,
    sources,
    valueclasses,
    widening,
)

SPARK_TYPES = b"org.apache.spark.sql.parquet.row.metadata"
"""The key under which Spark writes a Parquet file's columns as its own types."""


def read(
    spark: session.Spark,
    s3: Any,
    reader: reading.SourceReader,
    fresh: Sequence[sources.Source],
    live: Mapping[str, Any],
    schema: Mapping[str, str],
) -> Any:
    """Return the rows of the sources. live: the table's columns, as Spark types.

    schema: Iceberg types of columns that stand first, whether or not a source has them; the live
    table's types have precedence. Raises BadSource, BadArgument, SourceChanged.
    """
    # Imported here: PySpark is only there once Spark's half is installed.
    from pyspark.sql import functions

    jobs.check_schema(schema, {name: _iceberg_name(one) for name, one in live.items()})
    own = {name.lower(): name for name in (*schema, *live)}
    fixed = {
        name.lower(): _spark_type(one, None)
        for name, one in schema.items()
        if name.lower() not in {column.lower() for column in live}
    }
    read_format = {
        "csv": _csv, "json": _json, "parquet": _typed, "orc": _typed, "avro": _avro,
    }[reader.format]  # fmt: skip
    load = _Load(spark=spark, s3=s3, reader=reader, fresh=fresh, columns=live, fixed=fixed)
    frame = spelled(read_format(load), own)
    if not schema:
        return frame
    absent = {
        name: fixed[name.lower()]
        for name in jobs.in_order(schema, frame.columns)
        if name.lower() in fixed and name not in frame.columns
    }
    for name, column_type in absent.items():
        frame = frame.withColumn(name, functions.lit(None).cast(column_type))
    # A column that the live table has, and no source, is left out: Iceberg writes it as absent.
    names = [name for name in jobs.in_order(schema, frame.columns) if name in frame.columns]
    return frame.select(*(functions.col(_quoted(name)) for name in names))


def without_rows(spark: session.Spark, load: jobs.Load) -> Any:
    """Return the table's columns without a row: of sources all of whose rows are rejected.

    Raises BadSource if the table does not exist.
    """
    if not live_columns(spark, load.table):
        raise errors.nothing_readable()
    return spark.session.read.table(load.table.quoted).limit(0)


def live_columns(spark: session.Spark, table: settings.TargetTable) -> Mapping[str, Any]:
    """Return the live table's columns as Spark types; none if the table does not exist."""
    catalog, identifier = spark.catalog(table.warehouse), spark.identifier(table)
    if not catalog.tableExists(identifier):
        return {}
    # Imported here: PySpark is only there once Spark's half is installed.
    from pyspark.sql import types

    schema = catalog.loadTable(identifier).schema()
    converted = spark.jvm.org.apache.iceberg.spark.SparkSchemaUtil.convert(schema)
    columns = types.StructType.fromJson(json.loads(converted.json()))
    return {column.name: column.dataType for column in columns}


def iceberg_schema(spark: session.Spark, frame: Any, table: Any | None) -> Any:
    """Return a frame's columns as a Java schema; one that the table requires is required.

    Every column of a frame may be NULL. Iceberg would make a table's required column optional for
    that, and fail at one that identifies rows. Spark checks the rows when it writes them. table: a
    Java table; None for one that does not exist.
    """
    spark_types = spark.jvm.org.apache.spark.sql.types.DataType.fromJson(frame.schema.json())
    schema = spark.jvm.org.apache.iceberg.spark.SparkSchemaUtil.convert(spark_types)
    if table is None:
        return schema
    struct = _as_required(spark, schema.asStruct(), table.schema().asStruct())
    return spark.jvm.org.apache.iceberg.Schema(struct.fields())


def _as_required(spark: session.Spark, own: Any, stored: Any) -> Any:
    """Return a Java type with the fields, elements and values required that `stored` requires."""
    types = spark.jvm.org.apache.iceberg.types.Types
    if own.isStructType() and stored.isStructType():
        fields = spark.jvm.java.util.ArrayList()
        for field in session.each(own.fields()):
            stored_field = stored.field(field.name())
            if stored_field is not None:
                inner = _as_required(spark, field.type(), stored_field.type())
                required = stored_field.isRequired()
                make = types.NestedField.required if required else types.NestedField.optional
                field = make(field.fieldId(), field.name(), inner)
            fields.add(field)
        return types.StructType.of(fields)
    if own.isListType() and stored.isListType():
        inner = _as_required(spark, own.elementType(), stored.elementType())
        make = (
            types.ListType.ofRequired if stored.isElementRequired() else types.ListType.ofOptional
        )
        return make(own.elementId(), inner)
    if own.isMapType() and stored.isMapType():
        inner = _as_required(spark, own.valueType(), stored.valueType())
        make = types.MapType.ofRequired if stored.isValueRequired() else types.MapType.ofOptional
        return make(own.keyId(), own.valueId(), own.keyType(), inner)
    return own


@contextlib.contextmanager
def located(
    s3: Any, reader: reading.SourceReader, fresh: Sequence[sources.Source]
) -> Iterator[None]:
    """Replace Spark's error in the block by one that names file, line and column, if one does."""
    try:
        yield
    except Exception as error:
        if session.thrown(error) is None or reader.format not in {"csv", "json"}:
            raise
        try:
            if reader.format == "json":
                inspection.locate_in_json(s3, fresh, reader)
            else:
                inspection.locate_in_csv(s3, fresh, reader, {})
        except errors.BadSource as bad:
            raise bad from error
        raise


@dataclass(frozen=True, kw_only=True, slots=True)
class _Load:
    """What one load reads. columns: the live table's, as Spark types.

    fixed: the types that the load's schema gives to columns that the live table does not have.
    """

    spark: session.Spark
    s3: Any
    reader: reading.SourceReader
    fresh: Sequence[sources.Source]
    columns: Mapping[str, Any]
    fixed: Mapping[str, Any]

    @property
    def objects(self) -> str:
        """How many files there are, in words."""
        return progress.counted(len(self.fresh), "object")

    @property
    def size_bytes(self) -> int:
        """The bytes of all files as they are stored."""
        return sum(source.size_bytes for source in self.fresh)


def _groups(
    load: _Load,
    listener: Callable[[sources.Source], Callable[[bytes], None]] | None = None,
) -> Mapping[inspection.TextShape, Sequence[sources.Source]]:
    """Return the load's text files by their shape. listener: as for `inspection.grouped`."""
    so_far = progress.ReadCount(len(load.fresh))
    with progress.watching(
        f"looking through {load.objects}", so_far.counters, total_bytes=load.size_bytes
    ):
        return inspection.grouped(load.s3, load.fresh, load.reader, so_far, listener)


def _inferring(
    load: _Load, listing: Sequence[sources.Source]
) -> contextlib.AbstractContextManager[None]:
    """Show how far Spark's look at these files is, for the types of their columns."""
    counting = load.spark.counting(is_writing=False)
    label = f"inferring types of {progress.counted(len(listing), 'object')}"
    total_bytes = sum(source.size_bytes for source in listing)
    return progress.watching(label, counting, total_bytes=total_bytes)


def _typed(load: _Load) -> Any:
    """Read files that have types of their own."""
    paths = [load.spark.path(source) for source in load.fresh if source.size_bytes]
    file_format = load.reader.format
    if not paths:
        raise errors.every_file_empty(file_format)
    options = dict(load.reader.options)
    if file_format == "parquet":
        # Spark does not count bytes that are read in several ranges at once; a load reads all.
        options["parquet.hadoop.vectored.io.enabled"] = "false"
        if options.get("mergeSchema") == "true" and _have_one_schema(load.fresh):
            options["mergeSchema"] = "false"
    return load.spark.session.read.format(file_format).options(**options).load(paths)


def _have_one_schema(fresh: Sequence[sources.Source]) -> bool:
    """Return whether Parquet files are copies on this machine, and all have the same columns.

    Spark, which merges them, starts a reader for each footer. False for a file that is no Parquet.
    """
    # Imported here: a job's `--help` need not load it.
    import pyarrow.parquet

    first = None
    for source in fresh:
        if source.copy is None:
            return False
        if not source.size_bytes:
            continue
        try:
            footer = pyarrow.parquet.read_metadata(source.copy)
        except (pyarrow.ArrowException, OSError):
            return False
        spark_types = (footer.metadata or {}).get(SPARK_TYPES)
        if first is None:
            first = (footer.schema, spark_types)
        elif not footer.schema.equals(first[0]) or spark_types != first[1]:
            return False
    return first is not None


def _avro(load: _Load) -> Any:
    """Read Avro files, whose schemas may differ: Spark would read all of them by one of these."""
    groups = avrofiles.grouped(load.s3, load.fresh)
    frames = [
        load.spark.session.read.format("avro")
        .options(**load.reader.options)
        .load([load.spark.path(source) for source in group])
        for group in groups
    ]
    types = frames[0].schema
    for frame, group in zip(frames[1:], groups[1:], strict=True):
        types = widening.widened(types, frame.schema, group[0].place)
    return functools.reduce(
        lambda whole, frame: whole.unionByName(frame), (frame.to(types) for frame in frames)
    )


def _json(load: _Load) -> Any:
    reader = load.reader

    def source_reader(shape: inspection.TextShape) -> Any:
        options = {"multiLine": str(shape.spans_lines).lower(), **reader.options}
        if not shape.spans_lines and not reader.is_utf8:
            # Spark finds the ends of lines by itself in UTF-8 alone.
            options.setdefault("lineSep", "\n")
        return load.spark.session.read.format("json").options(**options)

    groups = {
        shape: [load.spark.path(source) for source in group]
        for shape, group in _groups(load).items()
    }
    with located(load.s3, reader, load.fresh), _inferring(load, load.fresh):
        inferred = [source_reader(shape).load(paths).schema for shape, paths in groups.items()]
        types = functools.reduce(_merged, inferred)
        types = _into_table(types, load.columns, load.fixed)
        frames = [source_reader(shape).schema(types).load(paths) for shape, paths in groups.items()]
    return functools.reduce(lambda whole, frame: whole.unionByName(frame), frames)


def _csv(load: _Load) -> Any:
    # Imported here: PySpark is only there once Spark's half is installed.
    from pyspark.sql import types

    reader, columns, fixed = load.reader, load.columns, load.fixed
    decide_types = bool(reader.infers or columns or fixed)
    of_files: dict[sources.Source, valueclasses.FileClasses] = {}

    def listener(source: sources.Source) -> Callable[[bytes], None]:
        of_files[source] = valueclasses.FileClasses(reader)
        return of_files[source].feed

    # A cluster's machines tell the classes at the same time.
    is_for_arrow = load.spark.reads_this_machine and valueclasses.applies_to(reader)
    groups = _groups(load, listener if decide_types and is_for_arrow else None)

    def read_group(shape: inspection.TextShape, **more: Any) -> Any:
        options = {"multiLine": str(shape.spans_lines).lower(), **reader.options, **more}
        return load.spark.session.read.format("csv").options(**options)

    texts = [
        read_group(shape, inferSchema="false").load([load.spark.path(source) for source in group])
        for shape, group in groups.items()
    ]
    classes = _classes(load, texts, groups.values(), of_files) if decide_types else {}
    dates = (
        _dates_in_forms(load, read_group, groups) if reader.forms_dates and reader.infers else {}
    )
    by_name = {name.lower(): column_type for name, column_type in columns.items()}

    def type_of(name: str) -> Any:
        present = classes.get(name.lower(), frozenset())
        if name.lower() in fixed:
            return fixed[name.lower()]
        table_type = by_name.get(name.lower())
        if table_type is not None:
            return _spark_type(reading.type_into(_iceberg_name(table_type), present), table_type)
        if not reader.infers:
            return types.StringType()
        inferred = reading.type_of(present)
        if inferred == "string" and name.lower() in dates:
            return dates[name.lower()]
        return _spark_type(inferred, types.StringType())

    wanted = {name.lower(): _iceberg_name(type_of(name)) for text in texts for name in text.columns}
    if reader.forms_dates:
        wanted = {
            name: column_type
            for name, column_type in wanted.items()
            if column_type not in {"date", "timestamp", "timestamptz"}
        }
    misfits = {
        name: column_type
        for name, column_type in wanted.items()
        if not reading.holds(column_type, classes.get(name, ()))
    }
    if misfits and reader.for_spark_alone is None:
        inspection.locate_in_csv(load.s3, load.fresh, reader, misfits)
    frames = []
    for text, (shape, group) in zip(texts, groups.items(), strict=True):
        schema = types.StructType([types.StructField(n, type_of(n)) for n in text.columns])
        frames.append(
            text
            if schema == text.schema
            else read_group(shape, inferSchema="false")
            .schema(schema)
            .load([load.spark.path(source) for source in group])
        )
    return functools.reduce(
        lambda whole, frame: whole.unionByName(frame, allowMissingColumns=True), frames
    )


def _classes(
    load: _Load,
    texts: Iterable[Any],
    groups: Iterable[Sequence[sources.Source]],
    of_files: Mapping[sources.Source, valueclasses.FileClasses],
) -> Mapping[str, frozenset[str]]:
    """Return which classes of values each column of text has, by its name in lower case.

    texts: a frame of each group. of_files: what is known from the files' bytes; Spark is asked
    about groups with other files.
    """
    pairs = list(zip(texts, groups, strict=True))
    from_bytes = [
        valueclasses.together(
            [of_files[source].end() if source in of_files else None for source in group],
            len(text.columns),
        )
        for text, group in pairs
    ]
    for_spark = [
        source
        for (_, group), classes in zip(pairs, from_bytes, strict=True)
        if not classes
        for source in group
    ]
    present: dict[str, frozenset[str]] = {}
    with contextlib.ExitStack() as block:
        if for_spark:
            block.enter_context(located(load.s3, load.reader, load.fresh))
            block.enter_context(_inferring(load, for_spark))
        for (text, _), classes in zip(pairs, from_bytes, strict=True):
            each_classes = classes or _classes_by_spark(text)
            for name, classes_here in zip(text.columns, each_classes, strict=True):
                present[name.lower()] = present.get(name.lower(), frozenset()) | classes_here
    return present


def _classes_by_spark(text: Any) -> valueclasses.ColumnClasses:
    # Imported here: PySpark is only there once Spark's half is installed.
    from pyspark.sql import functions

    bits = [functions.bit_or(_class_bit(functions.col(_quoted(name)))) for name in text.columns]
    return [
        frozenset(
            value_class
            for position, value_class in enumerate(reading.CLASSES)
            if (code or 0) >> position & 1
        )
        for code in text.select(*bits).collect()[0]
    ]


def _class_bit(column: Any) -> Any:
    """Return the bit of a text's class, the position of the class in `reading.CLASSES`; 0 of NULL.

    `reading.PATTERNS` decide. Those that a value's beginning or length rules out are not tried, and
    common forms of numbers are told by patterns that take less time.
    """
    # Imported here: PySpark is only there once Spark's half is installed.
    from pyspark.sql import functions

    bits = {name: 1 << position for position, name in enumerate(reading.CLASSES)}

    def matches(name: str) -> Any:
        return column.rlike(reading.anchored(reading.PATTERNS[name]))

    first, length = functions.substring(column, 1, 1), functions.length(column)
    digits = length - (first == "-").cast("int")
    is_plain = column.rlike(r"^(?:0|-?[1-9]\d*)\z")
    may_be_day = functions.substring(column, 5, 1) == "-"
    bit = functions.when(column.isNull(), 0)
    bit = bit.when(~first.isin(*reading.FIRST_LETTERS), bits[reading.TEXT])
    bit = bit.when(may_be_day & (length == reading.DAY_LENGTH) & matches("date"), bits["date"])
    bit = bit.when(may_be_day & (length > reading.DAY_LENGTH) & matches("time"), bits["time"])
    # None of the classes before "real" has a point.
    bit = bit.when(column.contains(".") & matches("real"), bits["real"])
    bit = bit.when((digits < len(reading.INT_MAX)) & is_plain, bits["int"])
    is_long = digits.between(len(reading.INT_MAX) + 1, len(reading.LONG_MAX) - 1)
    bit = bit.when(is_long & is_plain, bits["long"])
    for name in reading.PATTERNS:
        bit = bit.when(matches(name), bits[name])
    return bit.otherwise(bits[reading.TEXT])


def _dates_in_forms(load: _Load, read_group: Any, groups: Any) -> Mapping[str, Any]:
    """Return the columns that are dates in the forms that the options name, as Spark infers."""
    # Imported here: PySpark is only there once Spark's half is installed.
    from pyspark.sql import types

    dates: dict[str, Any] = {}
    others: set[str] = set()
    for shape, group in groups.items():
        paths = [load.spark.path(source) for source in group]
        for field in read_group(shape, inferSchema="true").load(paths).schema:
            if isinstance(field.dataType, types.DateType | types.TimestampType):
                dates[field.name.lower()] = field.dataType
            else:
                others.add(field.name.lower())
    return {name: column_type for name, column_type in dates.items() if name not in others}


def _iceberg_name(spark_type: Any) -> str:
    """Return Iceberg's name of a primitive type, as `reading` uses it; Spark's for others."""
    name = str(spark_type.simpleString())
    return {
        "bigint": "long",
        "timestamp": "timestamptz",
        "timestamp_ntz": "timestamp",
    }.get(name, name)


def _spark_type(name: str, otherwise: Any) -> Any:
    """Return Spark's type for the name of an Iceberg type; otherwise: for any other name."""
    # Imported here: PySpark is only there once Spark's half is installed.
    from pyspark.sql import types

    if name.startswith("decimal("):
        precision, scale = name.removeprefix("decimal(").removesuffix(")").split(",")
        return types.DecimalType(int(precision), int(scale))
    return {
        "boolean": types.BooleanType(),
        "int": types.IntegerType(),
        "long": types.LongType(),
        "float": types.FloatType(),
        "double": types.DoubleType(),
        "date": types.DateType(),
        "timestamp": types.TimestampNTZType(),
        "timestamptz": types.TimestampType(),
        "string": types.StringType(),
    }.get(name, otherwise)


def spelled(frame: Any, own: Mapping[str, str]) -> Any:
    """Return the frame with the table's own spelling of names. own: it, by name in lower case.

    To Spark, `ID` and `id` are one name; it could not write a table that has both.
    """
    for name in frame.columns:
        frame = frame.withColumnRenamed(name, own.get(name.lower(), name))
    return frame


def _merged(one: Any, other: Any) -> Any:
    """Return the type that holds the values of two inferred types; text if there is no other."""
    # Imported here: PySpark is only there once Spark's half is installed.
    from pyspark.sql import types

    if one == other:
        return one
    if isinstance(one, types.StructType) and isinstance(other, types.StructType):
        fields = {field.name: field.dataType for field in one}
        for field in other:
            present = fields.get(field.name)
            fields[field.name] = (
                field.dataType if present is None else _merged(present, field.dataType)
            )
        return types.StructType([types.StructField(name, fields[name]) for name in sorted(fields)])
    if isinstance(one, types.ArrayType) and isinstance(other, types.ArrayType):
        return types.ArrayType(_merged(one.elementType, other.elementType))
    numbers = (types.LongType, types.DoubleType, types.DecimalType)
    if isinstance(one, numbers) and isinstance(other, numbers):
        return types.DoubleType()
    return types.StringType()


def _into_table(inferred: Any, columns: Mapping[str, Any], fixed: Mapping[str, Any]) -> Any:
    """Return the types to read JSON with: the table's own where it has the column."""
    # Imported here: PySpark is only there once Spark's half is installed.
    from pyspark.sql import types

    by_name = {name.lower(): column_type for name, column_type in columns.items()}
    return types.StructType(
        [
            types.StructField(
                field.name,
                _json_type_into(by_name[field.name.lower()], field.dataType)
                if field.name.lower() in by_name
                else fixed.get(field.name.lower(), field.dataType),
            )
            for field in inferred
        ]
    )


def _json_type_into(table_type: Any, inferred: Any) -> Any:
    """Return the type to read a JSON value with whose column has table_type.

    Whole numbers are read as the table's fractions, at any depth. What Iceberg can widen is
    widened.
    """
    # Imported here: PySpark is only there once Spark's half is installed.
    from pyspark.sql import types

    if isinstance(table_type, types.StructType):
        if not isinstance(inferred, types.StructType):
            return table_type
        own = {field.name: field.dataType for field in table_type}
        present = {field.name.lower() for field in inferred}
        return types.StructType(
            [
                types.StructField(
                    field.name,
                    _json_type_into(own[field.name], field.dataType)
                    if field.name in own
                    else field.dataType,
                )
                for field in inferred
            ]
            # Spark writes no struct without all of the table's fields; those are NULL then.
            + [
                types.StructField(field.name, field.dataType)
                for field in table_type
                if field.name.lower() not in present
            ]
        )
    if isinstance(table_type, types.ArrayType):
        if not isinstance(inferred, types.ArrayType):
            return table_type
        return types.ArrayType(_json_type_into(table_type.elementType, inferred.elementType))
    if isinstance(table_type, types.MapType):
        return table_type
    widens = (
        (isinstance(table_type, types.IntegerType) and isinstance(inferred, types.LongType))
        or (isinstance(table_type, types.FloatType) and isinstance(inferred, types.DoubleType))
        or (isinstance(table_type, types.DecimalType) and isinstance(inferred, types.DecimalType))
    )
    return inferred if widens or isinstance(table_type, types.BinaryType) else table_type


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"

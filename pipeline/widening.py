"""rule: the types that hold the values of files whose own types differ, as Iceberg widens them.

Iceberg Specification, "Schema Evolution": int to long, float to double, a decimal to a greater
precision of the same scale.
"""

from __future__ import annotations

from typing import Any

from pipeline import errors


def widened(one: Any, other: Any, place: str, path: str = "") -> Any:
    """Return the Spark type that holds the values of both types.

    place: a file of the other type; path: of the column, with dots, for the error. Raises BadSource
    if there is no such type.
    """
    # Imported here: PySpark is only there once Spark's half is installed.
    from pyspark.sql import types

    if one == other:
        return one
    if isinstance(one, types.StructType) and isinstance(other, types.StructType):
        return _widened_struct(one, other, place, path)
    if isinstance(one, types.ArrayType) and isinstance(other, types.ArrayType):
        element = widened(one.elementType, other.elementType, place, f"{path}.element")
        return types.ArrayType(element, one.containsNull or other.containsNull)
    if isinstance(one, types.MapType) and isinstance(other, types.MapType):
        key = widened(one.keyType, other.keyType, place, f"{path}.key")
        value = widened(one.valueType, other.valueType, place, f"{path}.value")
        return types.MapType(key, value, one.valueContainsNull or other.valueContainsNull)
    for narrow, wide in (
        (types.IntegerType(), types.LongType()),
        (types.FloatType(), types.DoubleType()),
    ):
        if {type(one), type(other)} == {type(narrow), type(wide)}:
            return wide
    if (
        isinstance(one, types.DecimalType)
        and isinstance(other, types.DecimalType)
        and one.scale == other.scale
    ):
        return max(one, other, key=lambda each: each.precision)
    raise errors.BadSource(
        f"{place}: column {path!r} has the type {other.simpleString()}, and in files before it"
        f" {one.simpleString()}; no type of Iceberg holds both without a change of values"
    )


def _widened_struct(one: Any, other: Any, place: str, path: str) -> Any:
    """Return the fields of both, those of the first one first; all of them may be NULL.

    To Spark, `ID` and `id` are one name: it stays as the first one spells it.
    """
    # Imported here: PySpark is only there once Spark's half is installed.
    from pyspark.sql import types

    fields = {field.name.lower(): (field.name, field.dataType) for field in one}
    for field in other:
        name, before = fields.get(field.name.lower(), (field.name, field.dataType))
        inner = f"{path}.{name}" if path else name
        fields[field.name.lower()] = name, widened(before, field.dataType, place, inner)
    return types.StructType([types.StructField(name, each) for name, each in fields.values()])

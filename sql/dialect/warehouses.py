"""rule: the grammar of CREATE, ALTER and DROP WAREHOUSE.

Options that describe machines (size, clusters, suspension) are kept and shown: every query runs on
the server's own machine. STATEMENT_TIMEOUT_IN_SECONDS ends queries. Other options are refused.
Source: Snowflake's page CREATE WAREHOUSE.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sql import errors
from sql.dialect import names, operations, reading

SIZES: Final[Mapping[str, str]] = {
    "XSMALL": "X-Small",
    "SMALL": "Small",
    "MEDIUM": "Medium",
    "LARGE": "Large",
    "XLARGE": "X-Large",
    "XXLARGE": "2X-Large",
    "X2LARGE": "2X-Large",
    "2XLARGE": "2X-Large",
    "XXXLARGE": "3X-Large",
    "X3LARGE": "3X-Large",
    "3XLARGE": "3X-Large",
    "X4LARGE": "4X-Large",
    "4XLARGE": "4X-Large",
    "X5LARGE": "5X-Large",
    "5XLARGE": "5X-Large",
    "X6LARGE": "6X-Large",
    "6XLARGE": "6X-Large",
}
"""WAREHOUSE_SIZE without hyphens -> as SHOW WAREHOUSES shows it."""
TIMEOUT: Final = "STATEMENT_TIMEOUT_IN_SECONDS"
TIMEOUT_SECONDS_MAX: Final = 604_800
NUMBERS: Final[Mapping[str, range]] = {
    "MIN_CLUSTER_COUNT": range(1, 11),
    "MAX_CLUSTER_COUNT": range(1, 11),
    "AUTO_SUSPEND": range(2**31),
    TIMEOUT: range(TIMEOUT_SECONDS_MAX + 1),
}
"""Options that are whole numbers, and which."""
FLAGS: Final = ("AUTO_RESUME", "INITIALLY_SUSPENDED")
WORDS: Final[Mapping[str, tuple[str, ...]]] = {
    "WAREHOUSE_TYPE": ("STANDARD",),
    "SCALING_POLICY": ("STANDARD", "ECONOMY"),
}
"""Options that are one of some words."""
UNSETTABLE: Final = ("AUTO_SUSPEND", "COMMENT", TIMEOUT)


def read_create(reader: reading.TokenReader, *, replace: bool) -> operations.CreateWarehouse:
    """Return the CREATE WAREHOUSE whose name comes next."""
    if_not_exists = reader.accept("IF", "NOT", "EXISTS")
    name = _read_name(reader)
    reader.accept("WITH")
    options = _read_options(reader, "CREATE WAREHOUSE")
    return operations.CreateWarehouse(
        name=name, options=options, if_not_exists=if_not_exists, replace=replace
    )


def read_alter(reader: reading.TokenReader) -> operations.AlterWarehouse:
    """Return the ALTER WAREHOUSE whose name comes next."""
    if_exists = reader.accept("IF", "EXISTS")
    name = _read_name(reader)
    removed: tuple[str, ...] = ()
    options: operations.WarehouseOptions = ()
    if reader.accept("SET"):
        options = _read_options(reader, "ALTER WAREHOUSE ... SET")
        if not options:
            raise reader.unexpected_end()
    elif reader.accept("UNSET"):
        words = [reader.next_word()]
        while reader.accept(","):
            words.append(reader.next_word())
        for word in words:
            if word not in UNSETTABLE:
                raise errors.unsupported(f"ALTER WAREHOUSE ... UNSET {word}")
        removed = tuple(words)
    elif reader.accept("RESUME"):
        reader.accept("IF", "SUSPENDED")
    elif not reader.accept("SUSPEND"):
        raise errors.unsupported(f"ALTER WAREHOUSE ... {reader.peek_word()}")
    reader.finish()
    return operations.AlterWarehouse(
        name=name, options=options, removed=removed, if_exists=if_exists
    )


def read_drop(reader: reading.TokenReader) -> operations.DropWarehouse:
    """Return the DROP WAREHOUSE whose name comes next."""
    if_exists = reader.accept("IF", "EXISTS")
    name = _read_name(reader)
    reader.finish()
    return operations.DropWarehouse(name=name, if_exists=if_exists)


def _read_name(reader: reading.TokenReader) -> names.Ident:
    name = reader.name()
    if len(name) != 1:
        raise errors.invalid_identifier(names.dotted(name))
    return name[0]


def _read_options(reader: reading.TokenReader, statement: str) -> operations.WarehouseOptions:
    options: dict[str, str | int | bool] = {}
    while not reader.is_finished:
        word = reader.next_word()
        if word not in ("WAREHOUSE_SIZE", "COMMENT", *NUMBERS, *FLAGS, *WORDS):
            raise errors.unsupported(f"{statement} ... {word}")
        reader.expect("=")
        options[word] = _checked(word, reader.value())
        reader.accept(",")
    return tuple(options.items())


def _checked(name: str, value: str | int | bool) -> str | int | bool:
    """Return the value that is kept. Raises SqlError 001008 for one that the option cannot have."""
    text = str(value).upper()
    if name == "COMMENT" and isinstance(value, str):
        return value
    if name == "WAREHOUSE_SIZE" and text.replace("-", "") in SIZES:
        return SIZES[text.replace("-", "")]
    if name in NUMBERS:
        number = 0 if text == "NULL" else value
        if type(number) is int and number in NUMBERS[name]:
            return number
    if name in FLAGS and text in ("TRUE", "FALSE"):
        return text == "TRUE"
    if text in WORDS.get(name, ()):
        return text
    raise errors.invalid_parameter(name, value)

"""rule: file formats: their types, their options, and what each option may be.

A format is its type and the options that were set; every other option has Snowflake's default.
Options that Boathouse does not honour are refused by name where they are set to anything but their
default.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import msgspec

from sql import errors

Value: TypeAlias = str | int | bool | tuple[str, ...] | None
"""An option's value; None is NONE."""

PROPERTY: Final = "boathouse.sql.stage-file-format"
"""The property of a table that holds STAGE_FILE_FORMAT."""

TYPES: Final = ("CSV", "JSON", "PARQUET", "ORC", "AVRO")
COMPRESSIONS: Final = (
    "AUTO",
    "NONE",
    "GZIP",
    "BZ2",
    "ZSTD",
    "BROTLI",
    "DEFLATE",
    "RAW_DEFLATE",
)
DELIMITER_LENGTH_MAX: Final = 20
NULL_IF_MAX: Final = 100
SKIP_HEADER_MAX: Final = 1 << 31
TEXT_LENGTH_MAX: Final = 1000


@dataclass(frozen=True, kw_only=True, slots=True)
class FileFormat:
    """A file format. options: those that were set, by name."""

    type: str = "CSV"
    options: Mapping[str, Value] = field(default_factory=dict)

    def value(self, name: str) -> Any:
        """Return an option of the format's type: as it was set, or its default."""
        option = OPTIONS[self.type][name]
        return self.options.get(name, option.default)


@dataclass(frozen=True, kw_only=True, slots=True)
class Option:
    """One option of a type. shown: its type as DESCRIBE FILE FORMAT names it."""

    default: Value
    parse: Callable[[str, Value], Value]
    shown: str = "String"


def parse(listed: Mapping[str, Value], *, base: FileFormat | None = None) -> FileFormat:
    """Return the format of options as they are written; raises SqlError.

    listed: by name in upper case; TYPE is the format's type. base: the format that they refine,
    unless they name another type.
    """
    named = listed.get("TYPE")
    type_name = str(named).upper() if named is not None else (base.type if base else "CSV")
    if type_name not in TYPES:
        raise errors.unsupported(f"FILE FORMAT TYPE = {type_name[:40]}")
    options: dict[str, Value] = {}
    if base is not None and base.type == type_name:
        options.update(base.options)
    for name, value in listed.items():
        if name == "TYPE":
            continue
        option = OPTIONS[type_name].get(name)
        if option is None:
            raise errors.invalid_parameter(name, f"no option of a file format of {type_name}")
        options[name] = option.parse(name, value)
    parsed = FileFormat(type=type_name, options=options)
    if type_name == "CSV":
        _check_csv(parsed)
    return parsed


class _Stored(msgspec.Struct, frozen=True, kw_only=True):
    type: str
    options: Mapping[str, Value]


def stored_text(file_format: FileFormat) -> str:
    """Return a format as the value of a table's property."""
    stored = _Stored(type=file_format.type, options=file_format.options)
    return msgspec.json.encode(stored).decode()


def of_table(properties: Mapping[str, str]) -> FileFormat | None:
    """Return STAGE_FILE_FORMAT of a table's properties, None if it has none.

    Raises SqlError 000002 for a text that another client has written and that is no format.
    """
    text = properties.get(PROPERTY)
    if text is None:
        return None
    try:
        stored = msgspec.json.decode(text, type=_Stored)
        return parse({**stored.options, "TYPE": stored.type})
    except (msgspec.MsgspecError, RecursionError, errors.SqlError):
        raise errors.unsupported(f"{PROPERTY} = {text[:100]}") from None


def _check_csv(parsed: FileFormat) -> None:
    if parsed.value("PARSE_HEADER") and parsed.value("SKIP_HEADER"):
        raise errors.invalid_parameter("SKIP_HEADER", "SKIP_HEADER together with PARSE_HEADER")
    field_delimiter, record_delimiter = (
        parsed.value("FIELD_DELIMITER"),
        parsed.value("RECORD_DELIMITER"),
    )
    if field_delimiter and record_delimiter and field_delimiter == record_delimiter:
        raise errors.invalid_parameter("FIELD_DELIMITER", field_delimiter)


def describe(file_format: FileFormat) -> list[tuple[str, str, str, str]]:
    """Return DESCRIBE's rows: property, type, value, default."""
    rows = [("TYPE", "String", file_format.type, "CSV")]
    for name, option in OPTIONS[file_format.type].items():
        rows.append((name, option.shown, shown(file_format.value(name)), shown(option.default)))
    return rows


def shown(value: Value) -> str:
    """Return a value as listings show it."""
    match value:
        case None:
            return "NONE"
        case bool():
            return "true" if value else "false"
        case tuple():
            return "[" + ", ".join(each.replace("\\", "\\\\") for each in value) + "]"
        case str():
            return value.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t")
    return str(value)


def _flag(name: str, value: Value) -> Value:
    if isinstance(value, str) and value.upper() in ("TRUE", "FALSE"):
        return value.upper() == "TRUE"
    if not isinstance(value, bool):
        raise errors.invalid_parameter(name, value)
    return value


def _only(allowed: Value) -> Callable[[str, Value], Value]:
    """Return the parser of an option that Boathouse accepts with one value alone."""

    def parse_only(name: str, value: Value) -> Value:
        if isinstance(allowed, bool):
            value = _flag(name, value)
        if isinstance(value, str) and isinstance(allowed, str):
            value = value.upper()
        if value != allowed:
            raise errors.unsupported(f"FILE FORMAT {name} = {shown(value)[:40]}")
        return value

    return parse_only


def _count(name: str, value: Value) -> Value:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < SKIP_HEADER_MAX:
        raise errors.invalid_parameter(name, value)
    return value


def _compression(name: str, value: Value) -> Value:
    word = "NONE" if value is None else str(value).upper()
    if word == "LZO":
        raise errors.unsupported(f"FILE FORMAT COMPRESSION = {word}")
    if word not in (*COMPRESSIONS, "SNAPPY"):
        raise errors.invalid_parameter(name, value)
    return word


def _parquet_compression(name: str, value: Value) -> Value:
    word = "NONE" if value is None else str(value).upper()
    if word == "LZO":
        raise errors.unsupported("FILE FORMAT COMPRESSION = LZO")
    if word not in ("AUTO", "NONE", "SNAPPY", "GZIP", "ZSTD", "BROTLI", "LZ4"):
        raise errors.invalid_parameter(name, value)
    return word


def _delimiter(name: str, value: Value) -> Value:
    if value is None:
        return None
    if isinstance(value, bool | tuple):
        raise errors.invalid_parameter(name, shown(value))
    text = _unescaped(str(value))
    if text.upper() == "NONE":
        return None
    if not text or len(text) > DELIMITER_LENGTH_MAX:
        raise errors.invalid_parameter(name, value)
    return text


def _character(name: str, value: Value) -> Value:
    text = _delimiter(name, value)
    if text is not None and len(str(text)) != 1:
        raise errors.invalid_parameter(name, value)
    return text


def _quote(name: str, value: Value) -> Value:
    text = _character(name, value)
    if text not in (None, "'", '"'):
        raise errors.invalid_parameter(name, value)
    return text


def _texts(name: str, value: Value) -> Value:
    listed = value if isinstance(value, tuple) else () if value is None else (str(value),)
    if len(listed) > NULL_IF_MAX or any(len(text) > TEXT_LENGTH_MAX for text in listed):
        raise errors.invalid_parameter(name, "too many or too long texts")
    return listed


def _text(name: str, value: Value) -> Value:
    if not isinstance(value, str) or len(value) > TEXT_LENGTH_MAX:
        raise errors.invalid_parameter(name, shown(value))
    return value


def _model(name: str, value: Value) -> Value:
    """Parse a format of dates or times. AUTO is upper case."""
    text = str(_text(name, value))
    return "AUTO" if text.upper() == "AUTO" else text


def _binary_format(name: str, value: Value) -> Value:
    word = str(value).upper()
    if word not in ("HEX", "BASE64", "UTF8", "UTF-8"):
        raise errors.invalid_parameter(name, value)
    return word


def _encoding(name: str, value: Value) -> Value:
    word = str(value).upper()
    python_name = ENCODINGS.get(word)
    if python_name is None:
        raise errors.invalid_parameter(name, value)
    codecs.lookup(python_name)
    return word


def _extension(name: str, value: Value) -> Value:
    if value is None:
        return None
    text = str(_text(name, value))
    if "/" in text or ".." in text:
        raise errors.invalid_parameter(name, value)
    return text


def _unescaped(text: str) -> str:
    """Return a delimiter without its notation in octal or hexadecimal: `0x2c`, `\\054`."""
    if text.lower().startswith(("0x", "\\x")) and len(text) > 2:
        try:
            return bytes.fromhex(text[2:]).decode("latin-1")
        except ValueError:
            return text
    if text.startswith("\\") and text[1:].isdecimal():
        try:
            return chr(int(text[1:], 8))
        except ValueError:
            return text
    return {"\\n": "\n", "\\t": "\t", "\\r": "\r", "\\r\\n": "\r\n", "\\\\": "\\"}.get(text, text)


ENCODINGS: Final[Mapping[str, str]] = {
    "UTF8": "utf-8",
    "UTF-8": "utf-8",
    "UTF16": "utf-16",
    "UTF-16": "utf-16",
    "UTF16LE": "utf-16-le",
    "UTF-16LE": "utf-16-le",
    "UTF16BE": "utf-16-be",
    "UTF-16BE": "utf-16-be",
    "UTF32": "utf-32",
    "UTF-32": "utf-32",
    "UTF32LE": "utf-32-le",
    "UTF-32LE": "utf-32-le",
    "UTF32BE": "utf-32-be",
    "UTF-32BE": "utf-32-be",
    "ISO-8859-1": "iso8859-1",
    "ISO88591": "iso8859-1",
    "ISO-8859-2": "iso8859-2",
    "ISO88592": "iso8859-2",
    "ISO-8859-5": "iso8859-5",
    "ISO-8859-7": "iso8859-7",
    "ISO-8859-9": "iso8859-9",
    "ISO-8859-15": "iso8859-15",
    "ISO885915": "iso8859-15",
    "WINDOWS-1250": "cp1250",
    "WINDOWS1250": "cp1250",
    "WINDOWS-1251": "cp1251",
    "WINDOWS1251": "cp1251",
    "WINDOWS-1252": "cp1252",
    "WINDOWS1252": "cp1252",
    "WINDOWS-1254": "cp1254",
    "BIG5": "big5",
    "EUC-JP": "euc_jp",
    "EUCJP": "euc_jp",
    "EUC-KR": "euc_kr",
    "EUCKR": "euc_kr",
    "GB18030": "gb18030",
    "IBM420": "cp864",
    "KOI8-R": "koi8-r",
    "KOI8R": "koi8-r",
    "SHIFTJIS": "shift_jis",
    "SHIFT_JIS": "shift_jis",
}
"""Python's codecs by Snowflake's names."""

_COMPRESSED = Option(default="AUTO", parse=_compression)
_TRIM = Option(default=False, parse=_flag, shown="Boolean")
_REPLACE = Option(default=False, parse=_flag, shown="Boolean")
_BOM = Option(default=True, parse=_flag, shown="Boolean")

_MOMENTS: Final = {
    "DATE_FORMAT": Option(default="AUTO", parse=_model),
    "TIME_FORMAT": Option(default="AUTO", parse=_model),
    "TIMESTAMP_FORMAT": Option(default="AUTO", parse=_model),
}
OPTIONS: Final[Mapping[str, Mapping[str, Option]]] = {
    "CSV": {
        "RECORD_DELIMITER": Option(default="\n", parse=_delimiter),
        "FIELD_DELIMITER": Option(default=",", parse=_delimiter),
        "MULTI_LINE": Option(default=True, parse=_only(True), shown="Boolean"),
        "FILE_EXTENSION": Option(default=None, parse=_extension),
        "PARSE_HEADER": Option(default=False, parse=_flag, shown="Boolean"),
        "SKIP_HEADER": Option(default=0, parse=_count, shown="Integer"),
        "SKIP_BLANK_LINES": Option(default=False, parse=_flag, shown="Boolean"),
        **_MOMENTS,
        "BINARY_FORMAT": Option(default="HEX", parse=_binary_format),
        "ESCAPE": Option(default=None, parse=_character),
        "ESCAPE_UNENCLOSED_FIELD": Option(default="\\", parse=_character),
        "TRIM_SPACE": _TRIM,
        "FIELD_OPTIONALLY_ENCLOSED_BY": Option(default=None, parse=_quote),
        "NULL_IF": Option(default=("\\N",), parse=_texts, shown="List"),
        "COMPRESSION": _COMPRESSED,
        "ERROR_ON_COLUMN_COUNT_MISMATCH": Option(default=True, parse=_flag, shown="Boolean"),
        "VALIDATE_UTF8": Option(default=True, parse=_only(True), shown="Boolean"),
        "SKIP_BYTE_ORDER_MARK": _BOM,
        "REPLACE_INVALID_CHARACTERS": _REPLACE,
        "EMPTY_FIELD_AS_NULL": Option(default=True, parse=_flag, shown="Boolean"),
        "ENCODING": Option(default="UTF8", parse=_encoding),
    },
    "JSON": {
        "FILE_EXTENSION": Option(default=None, parse=_extension),
        **_MOMENTS,
        "BINARY_FORMAT": Option(default="HEX", parse=_binary_format),
        "TRIM_SPACE": _TRIM,
        "MULTI_LINE": Option(default=True, parse=_only(True), shown="Boolean"),
        "NULL_IF": Option(default=(), parse=_texts, shown="List"),
        "COMPRESSION": _COMPRESSED,
        "ENABLE_OCTAL": Option(default=False, parse=_only(False), shown="Boolean"),
        "ALLOW_DUPLICATE": Option(default=False, parse=_flag, shown="Boolean"),
        "STRIP_OUTER_ARRAY": Option(default=False, parse=_flag, shown="Boolean"),
        "STRIP_NULL_VALUES": Option(default=False, parse=_flag, shown="Boolean"),
        "IGNORE_UTF8_ERRORS": _REPLACE,
        "REPLACE_INVALID_CHARACTERS": _REPLACE,
        "SKIP_BYTE_ORDER_MARK": _BOM,
    },
    "PARQUET": {
        "TRIM_SPACE": _TRIM,
        "SNAPPY_COMPRESSION": Option(default=True, parse=_flag, shown="Boolean"),
        "BINARY_AS_TEXT": Option(default=True, parse=_flag, shown="Boolean"),
        "USE_LOGICAL_TYPE": Option(default=False, parse=_flag, shown="Boolean"),
        "USE_VECTORIZED_SCANNER": Option(default=False, parse=_flag, shown="Boolean"),
        "REPLACE_INVALID_CHARACTERS": _REPLACE,
        "NULL_IF": Option(default=(), parse=_texts, shown="List"),
        "COMPRESSION": Option(default="AUTO", parse=_parquet_compression),
    },
    "ORC": {
        "TRIM_SPACE": _TRIM,
        "REPLACE_INVALID_CHARACTERS": _REPLACE,
        "NULL_IF": Option(default=(), parse=_texts, shown="List"),
    },
    "AVRO": {
        "TRIM_SPACE": _TRIM,
        "REPLACE_INVALID_CHARACTERS": Option(default=False, parse=_only(False), shown="Boolean"),
        "NULL_IF": Option(default=(), parse=_texts, shown="List"),
        "COMPRESSION": _COMPRESSED,
    },
}

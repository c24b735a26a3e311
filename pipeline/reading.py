"""rule: how the text of raw files becomes typed columns, whichever engine reads it.

A text value belongs to one class: a whole number, a date, free text. The classes of a column's
values decide the column's type. Both engines classify with the same patterns (Java's and RE2's
syntax agree on them) and apply the same rule, so that a load's result depends on its sources alone.

A value is a number only if it is written as a number writes itself: `007` and `+49` are text, so
that no digit and no sign is lost. A date exists in the calendar.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from pipeline import errors, settings

ColumnType: TypeAlias = Literal[
    "boolean", "int", "long", "decimal(38,0)", "double", "date", "timestamptz", "string"
]

INT_MAX: Final = "2147483647"
LONG_MAX: Final = "9223372036854775807"
WIDEST_DIGITS: Final = 38


def _at_most(limit: str) -> str:
    """Return a pattern of the whole numbers, written without leading zeros, up to a limit."""
    shorter = rf"[1-9]\d{{0,{len(limit) - 2}}}"
    equal_length = [
        rf"{limit[:position]}[{'1' if position == 0 else '0'}-{int(digit) - 1}]"
        rf"\d{{{len(limit) - position - 1}}}"
        for position, digit in enumerate(limit)
        if int(digit) > (1 if position == 0 else 0)
    ]
    return "(?:0|" + "|".join([shorter, *equal_length, limit]) + ")"


_YEAR = r"(?:\d{3}[1-9]|\d{2}[1-9]0|\d[1-9]00|[1-9]000)"
_LEAP_YEAR = r"(?:\d\d(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)"
_DAY = (
    rf"(?:{_YEAR}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])"
    rf"|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)|02-(?:0[1-9]|1\d|2[0-8]))"
    rf"|{_LEAP_YEAR}-02-29)"
)
_TIME = r"(?:[01]\d|2[0-3]):[0-5]\d(?::[0-5]\d(?:\.\d{1,9})?)?"
_ZONE = r"(?:Z|[+-](?:(?:0\d|1[0-3]):[0-5]\d|14:00))"
_NUMBER = r"(?:0|[1-9]\d*)"

# The class of a value is the first whose pattern is the whole value. RE2 and Java end it by `\z`:
# Java's `$` would let a line end follow.
PATTERNS: Final[Mapping[str, str]] = {
    "int": f"-?{_at_most(INT_MAX)}",
    "long": f"-?{_at_most(LONG_MAX)}",
    "integer": rf"-?[1-9]\d{{0,{WIDEST_DIGITS - 1}}}",
    "real": rf"-?(?:{_NUMBER}(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?|NaN|-?Inf|-?Infinity",
    "date": _DAY,
    "time": f"{_DAY}[T ]{_TIME}{_ZONE}?",
    "boolean": r"[Tt][Rr][Uu][Ee]|[Ff][Aa][Ll][Ss][Ee]",
}
FIRST_LETTERS: Final = "-.0123456789NITtFf"
"""The characters with one of which each value begins that has a pattern."""
DAY_LENGTH: Final = 10
TEXT: Final = "text"
CLASSES: Final = (*PATTERNS, TEXT)

_WHOLE = ("int", "long", "integer")
# Which classes a column of each type can take without loss.
_HOLDS: Final[Mapping[str, frozenset[str]]] = {
    "boolean": frozenset({"boolean"}),
    "int": frozenset({"int"}),
    "long": frozenset({"int", "long"}),
    "decimal(38,0)": frozenset(_WHOLE),
    "float": frozenset({*_WHOLE, "real"}),
    "double": frozenset({*_WHOLE, "real"}),
    "decimal": frozenset({*_WHOLE, "real"}),
    "date": frozenset({"date"}),
    "timestamp": frozenset({"date", "time"}),
    "timestamptz": frozenset({"date", "time"}),
    "string": frozenset(CLASSES),
}
INFERRED: Final[tuple[ColumnType, ...]] = (
    "boolean", "int", "long", "decimal(38,0)", "double", "date", "timestamptz",
)  # fmt: skip
_NOUNS: Final[Mapping[str, str]] = {
    "boolean": "true or false",
    "int": "a whole number",
    "long": "a whole number",
    "decimal(38,0)": "a whole number",
    "float": "a number",
    "double": "a number",
    "decimal": "a number",
    "date": "a date like 2026-01-31",
    "timestamp": "a time like 2026-01-31T10:00:00",
    "timestamptz": "a time like 2026-01-31T10:00:00Z",
}


def anchored(pattern: str) -> str:
    """Return the pattern of a whole value, for Java and RE2."""
    return rf"^(?:{pattern})\z"


def class_of(value: str) -> str:
    """Return the class of one value."""
    for name, pattern in PATTERNS.items():
        if re.fullmatch(pattern, value, re.ASCII):
            return name
    return TEXT


def type_of(classes: Iterable[str]) -> ColumnType:
    """Return the type of a new column whose values have these classes; text if it has no value."""
    present = frozenset(classes)
    if present:
        for column_type in INFERRED:
            if present <= _HOLDS[column_type]:
                return column_type
    return "string"


def type_into(table_type: str, classes: Iterable[str]) -> str:
    """Return the type to read a column with whose table has table_type.

    It is the table's, unless Iceberg can widen that to what the values need.
    """
    present = frozenset(classes)
    if table_type == "int" and not present <= _HOLDS["int"] and present <= _HOLDS["long"]:
        return "long"
    if table_type == "float" and not present <= {"int"}:
        return "double"
    return table_type


def holds(table_type: str, classes: Iterable[str]) -> bool:
    """Return whether a column of table_type takes values of these classes. Others take any."""
    name = table_type if table_type in _HOLDS else table_type.partition("(")[0]
    return name not in _HOLDS or frozenset(classes) <= _HOLDS[name]


def noun_of(table_type: str) -> str:
    """Return what a value of the type is called in an error."""
    name = table_type if table_type in _NOUNS else table_type.partition("(")[0]
    return _NOUNS.get(name, f"a value of type {table_type}")


# Schemas.

_COLUMN: Final = re.compile(r"""\s*(?:"([^"]+)"|(\S+))\s+(\w+(?:\s*\([\d\s,]+\))?)\s*,?\s*\Z""")
_DECIMAL: Final = re.compile(r"decimal\((\d{1,2}),(\d{1,2})\)")
SCHEMA_TYPES: Final = (
    "boolean", "int", "long", "float", "double", "date", "timestamp", "timestamptz", "string",
)  # fmt: skip


def parse_schema(text: str) -> dict[str, str]:
    """Parse a schema: in each line a column's name and its Iceberg type; `#` begins a comment.

    Raises BadArgument.
    """
    types: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _COLUMN.match(line)
        if match is None:
            raise errors.BadArgument(f"--schema: line {number} is not a name and a type: {line!r}")
        name = match.group(1) or match.group(2)
        if name.lower() in {other.lower() for other in types}:
            raise errors.BadArgument(f"--schema: line {number} names {name!r} again")
        types[name] = schema_type(name, match.group(3))
    if not types:
        raise errors.BadArgument("--schema names no column")
    return types


def schema_type(name: str, text: str) -> str:
    """Return the type of a column in a schema. Raises BadArgument if text has no such values."""
    column_type = re.sub(r"\s", "", text.lower())
    decimal = _DECIMAL.fullmatch(column_type)
    if decimal and int(decimal.group(2)) <= int(decimal.group(1)) <= WIDEST_DIGITS:
        return column_type
    if column_type in SCHEMA_TYPES:
        return column_type
    raise errors.BadArgument(
        f"--schema: {text!r}, of column {name!r}, is not one of the types "
        + ", ".join((*SCHEMA_TYPES, "decimal(p,s)"))
    )


# Options of readers.

_EVERY_FORMAT = (
    "pathGlobFilter", "recursiveFileLookup", "modifiedBefore", "modifiedAfter",
    "ignoreCorruptFiles", "ignoreMissingFiles",
)  # fmt: skip
_TEXT_FORMATS = (
    "mode", "columnNameOfCorruptRecord", "multiLine", "samplingRatio", "locale", "lineSep",
    "encoding", "charset", "compression", "dateFormat", "timestampFormat", "timestampNTZFormat",
    "enableDateTimeParsingFallback", "singleVariantColumn",
)  # fmt: skip
TYPED_BY_LOAD: Final = frozenset({"csv", "json"})
"""Formats whose files have no types of their own, so that a load's schema gives them."""
OPTIONS: Final[Mapping[settings.Format, tuple[str, ...]]] = {
    "csv": (
        *_EVERY_FORMAT, *_TEXT_FORMATS, "sep", "delimiter", "quote", "escape", "header",
        "charToEscapeQuoteEscaping", "comment", "inferSchema", "preferDate", "enforceSchema",
        "ignoreLeadingWhiteSpace", "ignoreTrailingWhiteSpace", "nullValue", "nanValue",
        "positiveInf", "negativeInf", "maxColumns", "maxCharsPerColumn", "emptyValue",
        "inputBufferSize", "unescapedQuoteHandling",
    ),
    "json": (
        *_EVERY_FORMAT, *_TEXT_FORMATS, "primitivesAsString", "prefersDecimal", "allowComments",
        "allowUnquotedFieldNames", "allowSingleQuotes", "allowNumericLeadingZeros",
        "allowNonNumericNumbers", "allowBackslashEscapingAnyCharacter",
        "allowUnquotedControlChars", "dropFieldIfAllNull", "inferTimestamp", "timeZone",
        "maxNestingDepth", "maxNumLen", "maxStringLen",
    ),
    "parquet": (*_EVERY_FORMAT, "mergeSchema", "datetimeRebaseMode", "int96RebaseMode"),
    "orc": (*_EVERY_FORMAT, "mergeSchema"),
    "avro": (
        *_EVERY_FORMAT, "datetimeRebaseMode", "enableStableIdentifiersForUnionType",
        "stableIdentifierPrefixForUnionType", "recursiveFieldMaxDepth",
    ),
}  # fmt: skip
DEFAULTS: Final[Mapping[settings.Format, Mapping[str, str]]] = {
    # RFC 4180: a quote inside quotes is written twice.
    "csv": {"header": "true", "quote": '"', "escape": '"', "mode": "FAILFAST"},
    "json": {"mode": "FAILFAST"},
    "parquet": {"mergeSchema": "true"},
    "orc": {"mergeSchema": "true"},
    "avro": {},
}
_ALIASES: Final = {"delimiter": "sep", "charset": "encoding"}
# Options that both engines apply alike; any other one takes a load to Spark.
_BOTH_ENGINES: Final[Mapping[settings.Format, frozenset[str]]] = {
    "csv": frozenset(
        {"sep", "quote", "escape", "header", "mode", "nullValue", "encoding", "inferSchema"}
    ),
    "json": frozenset({"mode", "encoding"}),
    "parquet": frozenset({"mergeSchema"}),
    "orc": frozenset(),
    "avro": frozenset(),
}
# Options that name the form of dates: with one of them Spark's own inference finds dates.
_DATE_FORMS: Final = frozenset(
    {"dateFormat", "timestampFormat", "timestampNTZFormat", "locale", "preferDate"}
)


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceReader:
    """A reader's options under their canonical names. chosen: those that the user set."""

    format: settings.Format
    options: Mapping[str, str]
    chosen: frozenset[str]

    @property
    def separator(self) -> str:
        """What stands between two columns of CSV."""
        return {r"\t": "\t"}.get(self.options.get("sep", ","), self.options.get("sep", ","))

    @property
    def quote(self) -> str:
        """The character around a value that has separators or line ends inside."""
        return self.options.get("quote", '"')

    @property
    def has_header(self) -> bool:
        """Whether the first line of a CSV file names its columns."""
        return self.options.get("header", "true").lower() == "true"

    @property
    def infers(self) -> bool:
        """Whether the values of CSV decide the types of new columns; otherwise they are text."""
        return self.options.get("inferSchema", "true").lower() == "true"

    @property
    def null_value(self) -> str:
        """The text that stands for an absent value, beside an empty one."""
        return self.options.get("nullValue", "")

    @property
    def encoding(self) -> str:
        """The encoding of text, as Java and Python both name it."""
        return self.options.get("encoding", "UTF-8")

    @property
    def is_utf8(self) -> bool:
        """Whether the text must be UTF-8."""
        return self.encoding.lower().replace("-", "").replace("_", "") == "utf8"

    @property
    def is_wide(self) -> bool:
        """Whether a character takes several bytes even in ASCII's range."""
        return (
            self.encoding.lower().replace("-", "").replace("_", "").startswith(("utf16", "utf32"))
        )

    @property
    def forms_dates(self) -> bool:
        """Whether an option says how dates are written."""
        return bool(self.chosen & _DATE_FORMS)

    @property
    def for_spark_alone(self) -> str | None:
        """Return the first option that only Spark's reader applies, if there is one."""
        foreign = sorted(self.chosen - _BOTH_ENGINES[self.format])
        if foreign:
            return f"--option {foreign[0]}"
        for name, usual in (("mode", "FAILFAST"), ("escape", self.quote)):
            if name in self.chosen and self.options[name].upper() != usual.upper():
                return f"--option {name}={self.options[name]}"
        if self.is_wide:
            return f"--option encoding={self.encoding}"
        if self.format == "csv" and (len(self.separator) != 1 or len(self.quote) != 1):
            return "a separator or a quote that is not one character"
        return None


_OF_ONE_CHARACTER: Final = frozenset({
    "quote", "escape", "comment", "charToEscapeQuoteEscaping"
})  # fmt: skip


def reader(file_format: settings.Format, options: Mapping[str, str]) -> SourceReader:
    """Return the reader of a load. Raises BadArgument if its format has no such option, or not with
    this value."""
    canonical = {name.lower(): name for name in OPTIONS[file_format]}
    chosen: dict[str, str] = {}
    for name, value in options.items():
        if name.lower() not in canonical:
            raise errors.BadArgument(
                f"--option {name}: {file_format} has no such option; it has "
                + ", ".join(sorted(OPTIONS[file_format], key=str.lower))
            )
        known_as = canonical[name.lower()]
        if file_format == "csv" and known_as in _OF_ONE_CHARACTER and len(value) > 1:
            raise errors.BadArgument(f"--option {name}={value}: it must be one character")
        chosen[_ALIASES.get(known_as, known_as)] = value
    merged = {**DEFAULTS[file_format], **chosen}
    if file_format == "csv" and "quote" in chosen and "escape" not in chosen:
        merged["escape"] = chosen["quote"]
    if file_format == "csv" and "nullValue" in chosen and "emptyValue" not in chosen:
        # A quoted empty value is as absent as a bare one, also where NA means absent.
        merged["emptyValue"] = chosen["nullValue"]
    return SourceReader(format=file_format, options=merged, chosen=frozenset(chosen))


def of_rows() -> SourceReader:
    """Return the reader of sources that have rows instead of files."""
    return reader("parquet", {})


_NOT_OF_RECORDS: Final = frozenset(
    {*_EVERY_FORMAT, "multiLine", "lineSep", "encoding", "charset", "compression", "header"}
)
"""Options that say how records lie in a file; a topic has none."""


def of_records(record_format: settings.RecordFormat, options: Mapping[str, str]) -> SourceReader:
    """Return the reader of a topic's values. Raises BadArgument."""
    if record_format == "raw":
        if options:
            raise errors.BadArgument(f"--option {next(iter(options))}: raw records have no options")
        return of_rows()
    for name in options:
        if name.lower() in {one.lower() for one in _NOT_OF_RECORDS}:
            raise errors.BadArgument(f"--option {name} is for files, and a topic has none")
    return reader(record_format, options)


def check_rejectable(source_reader: SourceReader) -> None:
    """Raise BadArgument if rows of such sources cannot be rejected singly."""
    if source_reader.format not in TYPED_BY_LOAD:
        raise errors.BadArgument(
            f"--on-error reject is for csv and json: {source_reader.format} files are read whole "
            "or not at all"
        )
    if source_reader.for_spark_alone is not None:
        raise errors.BadArgument(
            f"--on-error reject does not go with {source_reader.for_spark_alone}"
        )


# Names of files.

PACKED: Final[Mapping[str, str]] = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
_OWN_ENDINGS: Final[Mapping[settings.Format, tuple[str, ...]]] = {
    "csv": (".csv", ".tsv", ".psv", ".txt", ".dat", ".tbl"),
    "json": (".json", ".jsonl", ".ndjson", ".jsonlines", ".geojson"),
    "parquet": (".parquet", ".pq", ".parq"),
    "orc": (".orc",),
    "avro": (".avro",),
}
_OTHER_ENDINGS: Final = (
    ".md", ".rst", ".pdf", ".doc", ".docx", ".xls", ".xlsx", ".zip", ".7z", ".tar", ".tgz",
    ".rar", ".html", ".htm", ".xml", ".yaml", ".yml", ".toml", ".ini", ".sql", ".py", ".sh", ".log",
    ".png", ".jpg", ".jpeg", ".gif", ".svg", ".crc", ".md5", ".sha256", ".bak", ".tmp",
)  # fmt: skip


def packed_as(name: str) -> str | None:
    """Return the compression that a file's name says: gzip, bz2 or zstd."""
    return next((how for ending, how in PACKED.items() if name.endswith(ending)), None)


def format_by_name(name: str) -> settings.Format | None:
    """Return the format that a file's ending stands for; None if for none, or for several."""
    bare = name.lower()
    for ending in PACKED:
        bare = bare.removesuffix(ending)
    formats = [each for each, endings in _OWN_ENDINGS.items() if bare.endswith(endings)]
    return formats[0] if len(formats) == 1 else None


def is_stray(name: str, file_format: settings.Format) -> bool:
    """Return whether a file's name says that it has another format than the load's."""
    bare = name.lower()
    for ending in PACKED:
        bare = bare.removesuffix(ending)
    foreign = [
        ending
        for other, endings in _OWN_ENDINGS.items()
        if other != file_format
        for ending in endings
        if ending not in _OWN_ENDINGS[file_format]
    ]
    if file_format != "csv":
        # Lines of JSON are often kept in a file that is called text.
        foreign = [ending for ending in foreign if ending != ".txt"]
    return bare.endswith((*foreign, *_OTHER_ENDINGS))


SEPARATORS: Final = {";": ";", "\t": r"\t", "|": "|", ",": ","}


def other_separator(header: str, separator: str) -> tuple[str, int] | None:
    """Return the separator that a header seems to have instead of the load's, and its count."""
    if separator in header:
        return None
    counts = [(header.count(one), one) for one in SEPARATORS if one != separator]
    count, most = max(counts)
    return (SEPARATORS[most], count) if count else None

"""rule: the grammar of stages, file formats, their files, and COPY.

A stage's location and a client's path are read from the statement's text, because neither is made
of the tokens of SQL: `@~/2024-01-01/a.csv.gz`, `file:///tmp/x`. An option that Boathouse does not
have is refused by its name.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from sqlglot.tokenizer_core import TokenType

from sql import errors, limits
from sql.dialect import names, operations, reading

LOCATION: Final = re.compile(
    rf"@(?:(?P<user>~)|(?P<name>(?:(?:{reading.NAME_PART.pattern})\.)*%?"
    rf"(?:{reading.NAME_PART.pattern})))(?P<path>/[^\s'(),;]*)?"
)
NAME: Final = re.compile(reading.NAME_PART.pattern)
EXTERNAL: Final = re.compile(r"[A-Za-z][A-Za-z0-9]{0,20}://")
UNSAFE: Final = re.compile(r"[\x00-\x1f\x7f]")
ON_ERROR: Final = re.compile(
    r"ABORT_STATEMENT|CONTINUE|SKIP_FILE(?:_(?:[1-9][0-9]{0,8}|100%|[1-9][0-9]?%))?"
)
QUOTED: Final = re.compile(r"'((?:[^'\\]|\\.|'')*)'", re.DOTALL)
HEAD: Final = re.compile(r"(?:\s|/\*.*?\*/|--[^\n]*(?:\n|$))*", re.DOTALL)
PUT_PATH: Final = re.compile(r"PUT\s+(?P<path>file://[^\s;]*)", re.IGNORECASE)
SENT_PATH: Final = re.compile(
    r"(?P<quote>'?)(?P<path>file://[^\n]{1,4096}?)(?P=quote)\s{1,9}(?='?@)"
)
"""A path up to the stage. A driver that gets presigned URLs sends PUT again for each file, with its
name as it is in the place of the path: `file://a b.csv`, `'file://it's.csv'`."""
PUT_SENT_PATH: Final = re.compile(rf"PUT\s+{SENT_PATH.pattern}", re.IGNORECASE)
OPTION: Final = re.compile(
    r"(?P<name>[A-Za-z_]+)\s*=\s*(?:'(?P<text>(?:[^'\\]|\\.|'')*)'|(?P<word>[^\s;']+))", re.DOTALL
)


# Locations


def parse_location(text: str) -> operations.StageLocation:
    """Return the location that a text spells, `@s/path`; raises SqlError."""
    if not text.startswith("@"):
        external = EXTERNAL.match(text)
        raise errors.unsupported(
            f"an external location, {external[0]}" if external else "a location that is no stage"
        )
    match = LOCATION.match(text)
    if match is None or (match.end() != len(text) and not (match["path"] or text.endswith("/"))):
        raise errors.invalid_identifier(text[:100])
    # In quotes a path may contain blanks and brackets.
    return _location(match, text[match.start("path") :] if match["path"] else "")


def _location(match: re.Match[str], path: str) -> operations.StageLocation:
    path = path.removeprefix("/")
    segments = path.split("/")
    if any(segment in (".", "..") for segment in segments) or UNSAFE.search(path):
        raise errors.invalid_stage_path(path)
    if "" in segments[:-1] or len(path.encode(errors="replace")) > limits.STAGE_PATH_BYTES_MAX:
        raise errors.invalid_stage_path(path)
    if match["user"]:
        return operations.StageLocation(owner="user", path=path)
    spelled = match["name"]
    parts = NAME.findall(spelled)
    if len(parts) > 3:
        raise errors.invalid_identifier(spelled[:100])
    is_table = spelled[: -len(parts[-1])].endswith("%")
    return operations.StageLocation(
        owner="table" if is_table else "named",
        name=tuple(names.parse(part) for part in parts),
        path=path,
    )


def read_location(reader: reading.TokenReader) -> operations.StageLocation:
    """Read a location, in quotes or not, at the reader's place; raises SqlError."""
    rest = reader.rest()
    if rest and rest[0].token_type in reading.STRINGS:
        return parse_location(reader.string())
    if not rest or rest[0].text != "@":
        raise reader.unexpected()
    match = LOCATION.match(reader.text, rest[0].start)
    if match is None:
        raise reader.unexpected()
    skip_to(reader, match.end())
    return _location(match, match["path"] or "")


def skip_to(reader: reading.TokenReader, end: int) -> None:
    """Skip the tokens that begin before an offset of the text."""
    mark = reader.mark()
    count = sum(1 for token in reader.rest() if token.start < end)
    reader.reset(mark + count)


# Values of options


def read_value(reader: reading.TokenReader) -> operations.FormatValue:
    """Read an option's value: text, number, flag, word, NONE, or a list of texts."""
    if reader.accept("("):
        texts: list[str] = []
        while not reader.accept(")"):
            texts.append(reader.string())
            reader.accept(",")
        return tuple(texts)
    if reader.accept("NONE") or reader.accept("NULL"):
        return None
    return reader.value()


def read_options(reader: reading.TokenReader) -> dict[str, operations.FormatValue]:
    """Read `(NAME = value ...)`; names in upper case."""
    options: dict[str, operations.FormatValue] = {}
    reader.expect("(")
    while not reader.accept(")"):
        name = reader.ident().folded
        reader.expect("=")
        options[name] = read_value(reader)
        reader.accept(",")
    return options


def read_format(reader: reading.TokenReader) -> operations.FormatClause:
    """Read what follows `FILE_FORMAT =`; raises SqlError."""
    rest = reader.rest()
    if rest and rest[0].token_type in reading.STRINGS:
        return operations.FormatClause(name=spelled_name(reader.string()))
    if reader.peek_text() != "(":
        return operations.FormatClause(name=reader.name())
    mark = reader.mark()
    reader.accept("(")
    if reader.accept("FORMAT_NAME"):
        reader.expect("=")
        is_text = reader.rest() and reader.rest()[0].token_type in reading.STRINGS
        name = spelled_name(reader.string()) if is_text else reader.name()
        reader.expect(")")
        return operations.FormatClause(name=name)
    reader.reset(mark)
    return operations.FormatClause(options=read_options(reader))


def spelled_name(text: str) -> names.Name:
    """Return the name that a text spells: `db.schema."Format"`; raises SqlError."""
    if not reading.SPELLED_NAME.fullmatch(text):
        raise errors.invalid_identifier(text[:100])
    return tuple(names.parse(part) for part in NAME.findall(text))


def _flag(reader: reading.TokenReader, name: str) -> bool:
    value = reader.value()
    if isinstance(value, str) and value.upper() in ("TRUE", "FALSE"):
        return value.upper() == "TRUE"
    if not isinstance(value, bool):
        raise errors.invalid_parameter(name, value)
    return value


def _count(reader: reading.TokenReader, name: str) -> int:
    value = reader.value()
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise errors.invalid_parameter(name, value)
    return value


# CREATE, DROP and DESCRIBE


def read_create(reader: reading.TokenReader) -> operations.Operation | None:
    """Read CREATE STAGE or CREATE FILE FORMAT; None if the text is another CREATE."""
    start = reader.mark()
    reader.expect("CREATE")
    replace = reader.accept("OR", "REPLACE")
    temporary = False
    while True:
        if reader.accept("TEMP") or reader.accept("TEMPORARY") or reader.accept("VOLATILE"):
            temporary = True
        elif reader.accept("SCOPED") or reader.accept("LOCAL"):
            pass
        else:
            break
    if reader.accept("STAGE"):
        return _create_stage(reader, replace=replace, temporary=temporary)
    if reader.accept("FILE", "FORMAT"):
        return _create_format(reader, replace=replace, temporary=temporary)
    reader.reset(start)
    return None


def _create_stage(
    reader: reading.TokenReader, *, replace: bool, temporary: bool
) -> operations.CreateStage:
    if_not_exists = reader.accept("IF", "NOT", "EXISTS")
    name = reader.name()
    comment = ""
    file_format = operations.FormatClause()
    while not reader.is_finished:
        if reader.accept("FILE_FORMAT"):
            reader.expect("=")
            file_format = read_format(reader)
        elif reader.accept("COMMENT"):
            reader.expect("=")
            comment = reader.string()
        elif reader.accept("ENCRYPTION"):
            _check_encryption(reader)
        elif reader.accept("DIRECTORY"):
            _check_directory(reader)
        else:
            raise errors.unsupported(f"CREATE STAGE ... {reader.peek_word()[:40]}")
    reader.finish()
    return operations.CreateStage(
        name=name,
        replace=replace,
        if_not_exists=if_not_exists,
        temporary=temporary,
        comment=comment,
        file_format=file_format,
    )


def _check_encryption(reader: reading.TokenReader) -> None:
    reader.expect("=")
    options = read_options(reader)
    if options != {"TYPE": "SNOWFLAKE_SSE"}:
        raise errors.unsupported("CREATE STAGE ENCRYPTION of another type than SNOWFLAKE_SSE")


def _check_directory(reader: reading.TokenReader) -> None:
    reader.expect("=")
    if read_options(reader) != {"ENABLE": False}:
        raise errors.unsupported("CREATE STAGE DIRECTORY")


def _create_format(
    reader: reading.TokenReader, *, replace: bool, temporary: bool
) -> operations.CreateFileFormat:
    if_not_exists = reader.accept("IF", "NOT", "EXISTS")
    name = reader.name()
    comment = ""
    options: dict[str, operations.FormatValue] = {}
    while not reader.is_finished:
        if reader.accept("COMMENT"):
            reader.expect("=")
            comment = reader.string()
            continue
        option = reader.ident().folded
        reader.expect("=")
        options[option] = read_value(reader)
        reader.accept(",")
    reader.finish()
    return operations.CreateFileFormat(
        name=name,
        replace=replace,
        if_not_exists=if_not_exists,
        temporary=temporary,
        comment=comment,
        options=options,
    )


def read_alter(reader: reading.TokenReader) -> operations.AlterStaging | None:
    """Read ALTER STAGE or ALTER FILE FORMAT; None if the text is another ALTER."""
    start = reader.mark()
    reader.expect("ALTER")
    is_stage = reader.accept("STAGE")
    if not is_stage and not reader.accept("FILE", "FORMAT"):
        reader.reset(start)
        return None
    if_exists = reader.accept("IF", "EXISTS")
    name = reader.name()
    comment: str | None = None
    file_format: operations.FormatClause | None = None
    options: dict[str, operations.FormatValue] = {}
    what = "ALTER STAGE" if is_stage else "ALTER FILE FORMAT"
    if reader.accept("UNSET", "COMMENT"):
        comment = ""
    elif not reader.accept("SET") or reader.is_finished:
        raise errors.unsupported(f"{what} ... {reader.peek_word()}".rstrip(" ."))
    while not reader.is_finished:
        if reader.accept("COMMENT"):
            reader.expect("=")
            comment = reader.string()
        elif is_stage and reader.accept("FILE_FORMAT"):
            reader.expect("=")
            file_format = read_format(reader)
        elif is_stage:
            raise errors.unsupported(f"{what} ... SET {reader.peek_word()[:40]}")
        else:
            option = reader.ident().folded
            reader.expect("=")
            options[option] = read_value(reader)
        reader.accept(",")
    reader.finish()
    return operations.AlterStaging(
        object_type="stage" if is_stage else "file format",
        name=name,
        if_exists=if_exists,
        comment=comment,
        file_format=file_format,
        options=options,
    )


def read_drop(reader: reading.TokenReader) -> operations.Operation | None:
    """Read DROP STAGE or DROP FILE FORMAT; None if the text is another DROP."""
    start = reader.mark()
    reader.expect("DROP")
    is_stage = reader.accept("STAGE")
    if not is_stage and not reader.accept("FILE", "FORMAT") and not reader.accept("FILE_FORMAT"):
        reader.reset(start)
        return None
    if_exists = reader.accept("IF", "EXISTS")
    name = reader.name()
    reader.finish()
    return operations.DropStaging(
        object_type="stage" if is_stage else "file format", name=name, if_exists=if_exists
    )


def read_describe(reader: reading.TokenReader) -> operations.Operation | None:
    """Read DESCRIBE STAGE or DESCRIBE FILE FORMAT; None if the text is another DESCRIBE."""
    start = reader.mark()
    _ = reader.accept("DESCRIBE") or reader.accept("DESC")
    is_stage = reader.accept("STAGE")
    if not is_stage and not reader.accept("FILE", "FORMAT"):
        reader.reset(start)
        return None
    name = reader.name()
    reader.finish()
    return operations.DescribeStaging(object_type="stage" if is_stage else "file format", name=name)


# Files of a stage


class _Words:
    """The words of a statement whose paths are no tokens: strings, and runs without blanks."""

    def __init__(self, reader: reading.TokenReader) -> None:
        self.text = reader.text
        self._reader = reader
        self.at = 0
        self._skip()

    def word(self) -> str:
        """Return the next word, or the text of a string."""
        quoted = QUOTED.match(self.text, self.at)
        if quoted is not None:
            self.at = quoted.end()
            self._skip()
            return unquoted(quoted[1])
        end = self.at
        while end < len(self.text) and not self.text[end].isspace() and self.text[end] != ";":
            end += 1
        if end == self.at:
            raise self._reader.unexpected_end()
        start, self.at = self.at, end
        self._skip()
        return self.text[start:end]

    def path(self) -> str:
        """Return the path that stands here, before a location; see SENT_PATH."""
        start = self.at
        word = self.word()
        if self.text.startswith(("@", "'@"), self.at):
            return word
        match = SENT_PATH.match(self.text, start)
        if match is None:
            return word
        self.at = match.end()
        return match["path"]

    def location(self) -> operations.StageLocation:
        """Return the location that stands here."""
        if self.text.startswith("'", self.at):
            return parse_location(self.word())
        match = LOCATION.match(self.text, self.at)
        if match is None:
            raise errors.invalid_identifier(self.text[self.at : self.at + 40])
        self.at = match.end()
        self._skip()
        return _location(match, match["path"] or "")

    def options(self) -> dict[str, str]:
        """Return `NAME = value ...` up to the end; names in upper case."""
        options: dict[str, str] = {}
        while self.at < len(self.text):
            match = OPTION.match(self.text, self.at)
            if match is None:
                line, position = reading.place_of(self.text, self.at)
                raise errors.syntax_error(line, position, self.text[self.at : self.at + 20])
            quoted = match["text"]
            options[match["name"].upper()] = match["word"] if quoted is None else unquoted(quoted)
            self.at = match.end()
            self._skip()
        return options

    def _skip(self) -> None:
        match = HEAD.match(self.text, self.at)
        self.at = self.at if match is None else match.end()
        while self.text.startswith(";", self.at):
            self.at += 1
            match = HEAD.match(self.text, self.at)
            self.at = self.at if match is None else match.end()


def unquoted(text: str) -> str:
    """Return the text of a string literal without its quotes' and backslashes' doubling."""
    return re.sub(r"\\(.)|''", lambda match: match[1] or "'", text, flags=re.DOTALL)


def _local(word: str) -> str:
    if not word.startswith("file://"):
        raise errors.invalid_parameter("file", word[:100])
    local = word.removeprefix("file://")
    if not local or UNSAFE.search(local):
        raise errors.invalid_parameter("file", word[:100])
    return local


def _taken(options: dict[str, str], verb: str, readers: Mapping[str, Callable[[str], Any]]) -> Any:
    taken: dict[str, Any] = {}
    for name, text in options.items():
        if name not in readers:
            raise errors.unsupported(f"{verb} ... {name}")
        try:
            taken[name.lower()] = readers[name](text)
        except (ValueError, KeyError):
            raise errors.invalid_parameter(name, text) from None
    return taken


def _parallel(text: str) -> int:
    count = int(text)
    if not 1 <= count <= PARALLEL_MAX:
        raise ValueError(text)
    return count


def _boolean(text: str) -> bool:
    return {"TRUE": True, "FALSE": False}[text.upper()]


def _source_compression(text: str) -> str:
    word = text.upper()
    if word not in SOURCE_COMPRESSIONS:
        raise ValueError(text)
    return word


PARALLEL_MAX: Final = 99
SOURCE_COMPRESSIONS: Final = reading.words(
    "AUTO_DETECT GZIP BZ2 BROTLI ZSTD DEFLATE RAW_DEFLATE NONE"
)


def read_put(reader: reading.TokenReader) -> operations.Operation:
    """Read PUT 'file://...' @stage; raises SqlError."""
    words = _Words(reader)
    words.word()
    local = _local(words.path())
    location = words.location()
    options = _taken(
        words.options(),
        "PUT",
        {
            "PARALLEL": _parallel,
            "AUTO_COMPRESS": _boolean,
            "SOURCE_COMPRESSION": _source_compression,
            "OVERWRITE": _boolean,
        },
    )
    return operations.PutFiles(local=local, location=location, **options)


def read_get(reader: reading.TokenReader) -> operations.Operation:
    """Read GET @stage 'file://...'; raises SqlError."""
    words = _Words(reader)
    words.word()
    location = words.location()
    local = _local(words.word())
    options = _taken(words.options(), "GET", {"PARALLEL": _parallel, "PATTERN": str})
    return operations.GetFiles(location=location, local=local, **options)


def read_list(reader: reading.TokenReader) -> operations.Operation:
    """Read LIST @stage; raises SqlError."""
    words = _Words(reader)
    words.word()
    location = words.location()
    return operations.ListFiles(
        location=location, **_taken(words.options(), "LIST", {"PATTERN": str})
    )


def read_remove(reader: reading.TokenReader) -> operations.Operation:
    """Read REMOVE @stage; raises SqlError."""
    words = _Words(reader)
    words.word()
    location = words.location()
    return operations.RemoveFiles(
        location=location, **_taken(words.options(), "REMOVE", {"PATTERN": str})
    )


# COPY


def read_copy(reader: reading.TokenReader) -> operations.Operation:
    """Read COPY INTO a table or a stage; raises SqlError."""
    reader.expect("COPY")
    if reader.accept("FILES"):
        raise errors.unsupported("COPY FILES")
    reader.expect("INTO")
    rest = reader.rest()
    if rest and (rest[0].text == "@" or rest[0].token_type in reading.STRINGS):
        return _read_unload(reader)
    name = reader.name()
    columns = reader.ident_list() if reader.peek_text() == "(" else ()
    query, location = "", None
    if reader.accept("FROM"):
        if reader.peek_text() == "(":
            query = _read_brackets(reader)
        else:
            location = read_location(reader)
    else:
        location = operations.StageLocation(owner="table", name=name)
    options = _read_copy_options(reader, COPY_OPTIONS, "COPY INTO")
    reader.finish()
    return operations.CopyInto(
        name=name, columns=columns, query=query, location=location, **options
    )


def _read_unload(reader: reading.TokenReader) -> operations.Unload:
    location = read_location(reader)
    reader.expect("FROM")
    if reader.peek_text() == "(":
        query = _read_brackets(reader)
    else:
        rest = reader.rest()
        start = rest[0].start if rest else len(reader.text)
        reader.name()
        following = reader.rest()
        end = following[0].start if following else len(reader.text)
        query = f"SELECT * FROM {reader.text[start:end]}"
    partition = _read_partition(reader) if reader.accept("PARTITION", "BY") else ""
    options = _read_copy_options(reader, UNLOAD_OPTIONS, "COPY INTO @stage")
    reader.finish()
    if partition:
        for field in ("single", "overwrite", "returns_rows"):
            if options.get(field):
                name = {"returns_rows": "VALIDATION_MODE"}.get(field, field.upper())
                raise errors.incompatible_options("PARTITION BY", name)
        if not options.setdefault("include_query_id", True):
            raise errors.incompatible_options("PARTITION BY", "INCLUDE_QUERY_ID = FALSE")
    return operations.Unload(location=location, query=query, partition=partition, **options)


def _read_partition(reader: reading.TokenReader) -> str:
    """Return the text of the expression that ends before an option or the end."""
    tokens = [token for token in reader.rest() if token.token_type is not TokenType.SEMICOLON]
    depth = count = 0
    for token, following in itertools.zip_longest(tokens, tokens[1:]):
        is_option = following is not None and following.token_type is TokenType.EQ
        if not depth and is_option and token.text.upper() in UNLOAD_OPTIONS:
            break
        depth += (token.token_type is TokenType.L_PAREN) - (token.token_type is TokenType.R_PAREN)
        count += 1
    if not count:
        raise reader.unexpected_end() if not tokens else reader.unexpected(tokens[0])
    reader.reset(reader.mark() + count)
    return reader.text[tokens[0].start : tokens[count - 1].end + 1]


def _read_brackets(reader: reading.TokenReader) -> str:
    """Return the text between brackets that start here."""
    tokens = reader.rest()
    depth = 0
    for count, token in enumerate(tokens):
        if token.token_type is TokenType.L_PAREN:
            depth += 1
        elif token.token_type is TokenType.R_PAREN:
            depth -= 1
            if not depth:
                reader.reset(reader.mark() + count + 1)
                return reader.text[tokens[0].end + 1 : token.start].strip()
    raise reader.unexpected_end()


def _read_copy_options(
    reader: reading.TokenReader,
    readers: Mapping[str, Callable[[reading.TokenReader, str], tuple[str, Any]]],
    verb: str,
) -> dict[str, Any]:
    options: dict[str, Any] = {}
    while not reader.is_finished:
        if reader.accept("PARTITION", "BY"):
            raise errors.unsupported(f"{verb} ... PARTITION BY")
        name = reader.ident().folded
        read = readers.get(name)
        if read is None:
            raise errors.unsupported(f"{verb} ... {name[:40]}")
        reader.expect("=")
        field, value = read(reader, name)
        if field:
            options[field] = value
        reader.accept(",")
    return options


def _read_files(reader: reading.TokenReader, name: str) -> tuple[str, Any]:
    files = read_value(reader)
    if not isinstance(files, tuple) or not 1 <= len(files) <= limits.STAGED_FILES_LISTED_MAX:
        raise errors.invalid_parameter(name, f"a list of 1 to {limits.STAGED_FILES_LISTED_MAX}")
    return "files", files


def _read_on_error(reader: reading.TokenReader, name: str) -> tuple[str, Any]:
    text = str(reader.value()).upper()
    if reader.accept("%"):
        text += "%"
    text = text.strip("'")
    if not ON_ERROR.fullmatch(text):
        raise errors.invalid_parameter(name, text)
    return "on_error", text


def _read_match(reader: reading.TokenReader, name: str) -> tuple[str, Any]:
    text = str(read_value(reader) or "NONE").upper()
    if text not in ("CASE_SENSITIVE", "CASE_INSENSITIVE", "NONE"):
        raise errors.invalid_parameter(name, text)
    return "match_by_name", "" if text == "NONE" else text


def _read_validation(reader: reading.TokenReader, name: str) -> tuple[str, Any]:
    text = str(reader.value()).upper()
    if not re.fullmatch(r"RETURN_(?:[1-9][0-9]{0,5}_ROWS|ERRORS|ALL_ERRORS)", text):
        raise errors.invalid_parameter(name, text)
    return "validation_mode", text


def _read_return_rows(reader: reading.TokenReader, name: str) -> tuple[str, Any]:
    text = str(reader.value()).upper()
    if text != "RETURN_ROWS":
        raise errors.invalid_parameter(name, text)
    return "returns_rows", True


def _read_enforce(reader: reading.TokenReader, name: str) -> tuple[str, Any]:
    return "truncate_columns", not _flag(reader, name)


def _of_flag(field: str) -> Callable[[reading.TokenReader, str], tuple[str, Any]]:
    def read(reader: reading.TokenReader, name: str) -> tuple[str, Any]:
        return field, _flag(reader, name)

    return read


def _of_count(field: str) -> Callable[[reading.TokenReader, str], tuple[str, Any]]:
    def read(reader: reading.TokenReader, name: str) -> tuple[str, Any]:
        return field, _count(reader, name)

    return read


def _read_pattern(reader: reading.TokenReader, name: str) -> tuple[str, Any]:
    return "pattern", reader.string()


def _read_file_format(reader: reading.TokenReader, name: str) -> tuple[str, Any]:
    return "file_format", read_format(reader)


def _refuse_true(reader: reading.TokenReader, name: str) -> tuple[str, Any]:
    if _flag(reader, name):
        raise errors.unsupported(f"COPY INTO ... {name} = TRUE")
    return "", None


COPY_OPTIONS: Final[Mapping[str, Callable[[reading.TokenReader, str], tuple[str, Any]]]] = {
    "FILES": _read_files,
    "PATTERN": _read_pattern,
    "FILE_FORMAT": _read_file_format,
    "ON_ERROR": _read_on_error,
    "SIZE_LIMIT": _of_count("size_limit"),
    "PURGE": _of_flag("purge"),
    "RETURN_FAILED_ONLY": _of_flag("return_failed_only"),
    "MATCH_BY_COLUMN_NAME": _read_match,
    "ENFORCE_LENGTH": _read_enforce,
    "TRUNCATECOLUMNS": _of_flag("truncate_columns"),
    "FORCE": _of_flag("force"),
    "LOAD_UNCERTAIN_FILES": _refuse_true,
    "VALIDATION_MODE": _read_validation,
}
UNLOAD_OPTIONS: Final[Mapping[str, Callable[[reading.TokenReader, str], tuple[str, Any]]]] = {
    "FILE_FORMAT": _read_file_format,
    "OVERWRITE": _of_flag("overwrite"),
    "SINGLE": _of_flag("single"),
    "HEADER": _of_flag("header"),
    "MAX_FILE_SIZE": _of_count("max_file_size"),
    "INCLUDE_QUERY_ID": _of_flag("include_query_id"),
    "DETAILED_OUTPUT": _of_flag("detailed_output"),
    "VALIDATION_MODE": _read_return_rows,
}

READERS: Final[Mapping[str, Callable[[reading.TokenReader], operations.Operation]]] = {
    "PUT": read_put,
    "GET": read_get,
    "LIST": read_list,
    "LS": read_list,
    "REMOVE": read_remove,
    "RM": read_remove,
    "COPY": read_copy,
}

"""rule: the errors of statements, as Snowflake has them: code, SQLSTATE, message.

One class, because drivers distinguish errors by number, not by our types; one constructor per
error, so that each number is written once. A message never contains a path of this machine. Line
counts from 1 and position from 0, as in Snowflake. Errors of login and of tokens are
`SessionFault`, which has no query.
"""

from __future__ import annotations

from typing import Any, Final, Literal

from sql import refusals

Phase = Literal["COMPILATION", "RUNTIME"]


TOO_SHORT: Final = "001008"
"""Code of a fault: `value|column|length`, where a column takes exactly so many bytes."""

BETWEEN: Final = "|^|"
"""Parts the text of a fault from the format model by which it is no number."""


class SqlError(Exception):
    """A fault of one statement. code is six digits, sqlstate five characters."""

    def __init__(
        self,
        code: str,
        sqlstate: str,
        message: str,
        line: int | None = None,
        position: int | None = None,
        *,
        phase: Phase = "RUNTIME",
    ) -> None:
        super().__init__(message)
        self.code = code
        self.sqlstate = sqlstate
        self.message = message
        self.line = line
        self.position = position
        self.phase = phase

    @property
    def parts(self) -> tuple[Any, ...]:
        """What `of_parts` makes an equal fault of, in another process."""
        return (
            self.code,
            self.sqlstate,
            self.message,
            self.line,
            self.position,
            self.phase,
        )

    def within_view(self, name: str) -> SqlError:
        """Return the fault of a query that reads a view, whose own query has this fault.

        A limit of Boathouse is no fault of the view, and stays as it is.
        """
        return self if self.code in ("000002", "000625") else view_failed(name, self.message)

    @classmethod
    def of_parts(cls, parts: tuple[Any, ...]) -> SqlError:
        """Return the fault of these parts."""
        *plain, phase = parts
        return cls(*plain, phase=phase)


class RepeatedVolatile(SqlError):
    """A volatile operand where the engine would compute it more than once. A WITH expression that
    causes it may be computed ahead of the query (`sql.dialect.resolve`)."""


def _compilation(
    code: str, sqlstate: str, message: str, line: int | None = None, position: int | None = None
) -> SqlError:
    text = f"SQL compilation error:\n{message}"
    return SqlError(code, sqlstate, text, line, position, phase="COMPILATION")


def _at(line: int | None, position: int | None) -> str:
    return "" if line is None else f"error line {line} at position {position or 0}\n"


# The text itself


def syntax_error(line: int, position: int, unexpected: str) -> SqlError:
    """The text is not SQL; unexpected is the token where reading stopped."""
    return _compilation(
        "001003",
        "42000",
        f"syntax error line {line} at position {position} unexpected '{unexpected}'.",
        line,
        position,
    )


def empty_select_list() -> SqlError:
    """SELECT without a select list."""
    return _compilation("001003", "42000", "syntax error: a SELECT has no select list")


def empty_statement() -> SqlError:
    """Nothing to run: blanks and comments only. dbt looks for this text."""
    return SqlError("000900", "42601", "Empty SQL statement", phase="COMPILATION")


def unsupported(feature: str, line: int | None = None, position: int | None = None) -> SqlError:
    """Boathouse does not do this; feature is the construct's name.

    A second line says what to use instead, where there is something (`sql.refusals`).
    """
    text = f"Unsupported feature '{feature}'."
    sentence = refusals.instead(feature)
    if sentence:
        text = f"{text}\n{sentence}"
    return _compilation("000002", "0A000", text, line, position)


def repeated_volatile() -> RepeatedVolatile:
    """Return the refusal of a volatile operand where the engine would compute it more than once."""
    plain = unsupported("RANDOM or UUID_STRING where its value is used more than once")
    return RepeatedVolatile(plain.code, plain.sqlstate, plain.message, phase=plain.phase)


def too_complex(detail: str) -> SqlError:
    """The statement exceeds a bound; detail names it. 54001 is the SQL standard's."""
    return _compilation("000625", "54001", f"The statement is too complex: {detail}.")


def list_too_long(count: int, most: int) -> SqlError:
    """An IN list or VALUES with more members than a list may have."""
    return _compilation(
        "001795",
        "42601",
        f"maximum number of expressions in a list exceeded, expected at most {most:,}, "
        f"got {count:,}",
    )


def statement_count_differs(actual: int, desired: int) -> SqlError:
    """MULTI_STATEMENT_COUNT (1 when absent) is not how many statements the text has."""
    return SqlError(
        "000008",
        "0A000",
        f"Actual statement count {actual} did not match the desired statement count {desired}.",
        phase="COMPILATION",
    )


def several_statements() -> SqlError:
    """Several statements of a client that could not read their answers."""
    return SqlError(
        "000006",
        "0A000",
        "Multiple SQL statements in a single API call are not supported; use one API call per"
        " statement instead.",
        phase="COMPILATION",
    )


# Names


DOES_NOT_EXIST = "002003"


def does_not_exist(
    object_type: str, name: str, *, line: int | None = None, position: int | None = None
) -> SqlError:
    """A table, schema or database is absent or hidden. object_type: as in messages, `Table`."""
    return _compilation(
        DOES_NOT_EXIST,
        "42S02",
        f"{object_type} '{name}' does not exist or not authorized.",
        line,
        position,
    )


def described_does_not_exist(object_type: str, name: str) -> SqlError:
    """The same for SHOW and DESCRIBE, whose SQLSTATE is no-data."""
    return _compilation(
        "002003", "02000", f"{object_type} '{name}' does not exist or not authorized."
    )


def show_in_missing_schema() -> SqlError:
    """SHOW ... IN a schema that is not there; dbt looks for `002043 (02000)`."""
    return _compilation(
        "002043", "02000", "Object does not exist, or operation cannot be performed."
    )


def already_exists(object_type: str, name: str) -> SqlError:
    """CREATE of a name that is taken."""
    return _compilation("002002", "42710", f"{object_type} '{name}' already exists.")


def exists_as(name: str, object_type: str) -> SqlError:
    """CREATE OR REPLACE of a table that is a view, or the reverse. object_type: what it is."""
    return _compilation("001998", "0A000", f"Object '{name}' already exists as {object_type}")


def of_other_type(actual: str, specified: str) -> SqlError:
    """A statement for a table names a view, or the reverse."""
    return _compilation(
        "002203",
        "02000",
        f"Object found is of type '{actual}', not specified type '{specified}'.",
    )


def view_failed(name: str, message: str) -> SqlError:
    """The query of a view cannot be bound: the message of its own error."""
    return _compilation("002037", "42601", f"Failure during expansion of view '{name}': {message}")


def view_of_itself(name: str) -> SqlError:
    """A view whose query names the view, directly or through others."""
    return _compilation("002037", "42601", f"View '{name}' refers to itself")


def view_of_other_columns(name: str, declared: int, produced: int) -> SqlError:
    """A view's query gives another number of columns than when the view was created."""
    return _compilation(
        "002057",
        "42601",
        f"View definition for '{name}' declared {declared} column(s), but view query produces "
        f"{produced} column(s).",
    )


def view_column_differs(name: str, column: str) -> SqlError:
    """A column of a view's query has another type than when the view was created."""
    return _compilation(
        "002056",
        "42601",
        f"View columns mismatch with view definition for view '{name}', at column '{column}'",
    )


def invalid_identifier(
    name: str, *, line: int | None = None, position: int | None = None, hint: str = ""
) -> SqlError:
    """A column (or alias) that nothing in scope has. hint: what may have been meant."""
    return _compilation(
        "000904",
        "42000",
        f"{_at(line, position)}invalid identifier '{name}'{hint and f'; {hint}'}",
        line,
        position,
    )


def no_session_variable(name: str) -> SqlError:
    """A session variable that is not set."""
    return _compilation("000904", "42000", f"Session variable '${name.upper()}' does not exist")


def invalid_name(object_type: str, name: str, reason: str) -> SqlError:
    """CREATE of an object whose name the catalog cannot hold."""
    return _compilation("001008", "22023", f"invalid {object_type} name '{name}': {reason}")


def invalid_option(message: str) -> SqlError:
    """An option of CREATE with a value that cannot be true here; message says which."""
    return _compilation("001008", "22023", message)


def not_empty(message: str) -> SqlError:
    """DROP or REPLACE of an object that holds others."""
    return SqlError("002030", "2BP01", f"SQL execution error:\n{message}")


def ambiguous_column(
    name: str, *, line: int | None = None, position: int | None = None
) -> SqlError:
    """A column name that more than one relation in scope has."""
    return _compilation(
        "002028",
        "42601",
        f"{_at(line, position)}ambiguous column name '{name}'",
        line,
        position,
    )


def unknown_function(
    name: str, *, line: int | None = None, position: int | None = None, near: str | None = None
) -> SqlError:
    """A function outside the allow-list. near: a function with a similar name."""
    hint = f"; did you mean {near}?" if near else ""
    return _compilation("002140", "42601", f"Unknown function {name}{hint}", line, position)


def unread_column(name: str, type_name: str) -> SqlError:
    return unsupported(f"column {name} of Iceberg type {type_name}")


def not_grouped(name: str) -> SqlError:
    """A select item that is neither an aggregate nor a key of GROUP BY."""
    return _compilation(
        "000979",
        "42601",
        f"[{name}] is not a valid group by expression: it is neither an aggregate nor in the "
        "GROUP BY clause",
    )


def subquery_unsupported() -> SqlError:
    """A correlated subquery of a form that cannot be turned into a join."""
    return _compilation("002031", "42601", "Unsupported subquery type cannot be evaluated")


def subquery_of_many_rows() -> SqlError:
    """A scalar subquery that had more than one row."""
    return SqlError("090150", "22000", "Single-row subquery returns more than one row.")


def no_current_database() -> SqlError:
    """A name needs a database and neither it nor the session has one. dbt looks for this text."""
    return SqlError(
        "090105",
        "22000",
        "Cannot perform operation. This session does not have a current database. "
        "Call 'USE DATABASE', or use a qualified name.",
        phase="COMPILATION",
    )


def no_current_schema() -> SqlError:
    """A name needs a schema and neither it nor the session has one."""
    return SqlError(
        "090106",
        "22000",
        "Cannot perform operation. This session does not have a current schema. "
        "Call 'USE SCHEMA', or use a qualified name.",
        phase="COMPILATION",
    )


def information_schema_too_large() -> SqlError:
    """An information_schema query would return too much; SQLAlchemy falls back to DESCRIBE."""
    return SqlError(
        "090030",
        "22000",
        "Information schema query returned too much data. "
        "Please repeat query with more selective predicates.",
    )


def not_authorized(message: str) -> SqlError:
    """Access denied; message names the missing action and resource."""
    return SqlError("003001", "42501", f"SQL access control error:\n{message}")


def session_ended(reason: str) -> SqlError:
    """A session may not go on, which shows while one of its statements runs."""
    return SqlError("390111", "08001", f"Session no longer exists: {reason}.")


def invalid_parameter(name: str, value: object) -> SqlError:
    """A session parameter that exists, with a value that it cannot have."""
    return _compilation("001008", "22023", f"invalid value [{value!s}] for parameter '{name}'")


def unknown_parameter(name: str) -> SqlError:
    """A session parameter that Boathouse does not know."""
    return _compilation("001006", "42601", f"invalid property '{name}' for 'SESSION'")


def invalid_stage_path(path: str) -> SqlError:
    """A path of a stage with a segment that is empty, `.` or `..`, or beyond its bounds."""
    return _compilation("001008", "22023", f"invalid value [{path[:100]}] for parameter 'path'")


def copy_of_documents(message: str) -> SqlError:
    """COPY of files of documents into other than one VARIANT column."""
    return _compilation("002238", "0A000", message)


def unload_exists(name: str) -> SqlError:
    """COPY INTO a stage would overwrite a file."""
    return SqlError(
        "001030",
        "22000",
        f"Files already existing at the unload destination: {name}. Use overwrite option to force"
        " unloading.",
    )


def staged_file_missing(name: str) -> SqlError:
    """A file that FILES = (...) names is not there."""
    return SqlError(
        "091016",
        "22000",
        f"Remote file '{name}' was not found. There are several potential causes. The file might "
        "not exist. The required credentials may be missing or invalid. If you are running a copy "
        "command, please make sure files are not deleted when they are being loaded or files are "
        "not being loaded into two different tables concurrently with auto purge option.",
    )


# Values


def bad_number(text: str) -> SqlError:
    """Text that is no number."""
    return SqlError("100038", "22018", f"Numeric value '{text}' is not recognized")


def bad_timestamp(text: str, type_name: str = "Timestamp") -> SqlError:
    """Text that is no date, time or timestamp; type_name is `Date`, `Time` or `Timestamp`."""
    code = {"Date": "100040", "Time": "100108"}.get(type_name, "100035")
    return SqlError(code, "22007", f"{type_name} '{text}' is not recognized")


def number_out_of_range(text: str) -> SqlError:
    """A number that its type cannot hold."""
    return SqlError("100039", "22003", f"Numeric value '{text}' is out of range")


def not_of_format(text: str, model: str) -> SqlError:
    """Text that is no number by a format model."""
    return SqlError("100140", "22007", f"Can't parse '{text}' as number with format '{model}'")


def bad_format_model(model: str, direction: str, type_name: str, reason: str) -> SqlError:
    """A numeric format model that is none; direction is `input` or `output`."""
    return SqlError(
        "100140", "22007", f"Bad {direction} format model '{model}' for {type_name}: {reason}"
    )


def division_by_zero() -> SqlError:
    """x / 0, for floats too."""
    return SqlError("100051", "22012", "Division by zero")


def bad_pattern(pattern: str, reason: str) -> SqlError:
    """A regular expression that is none."""
    return SqlError("100048", "2201B", f"Invalid regular expression: '{pattern}', {reason}")


def too_long(text: str) -> SqlError:
    """Text longer than its column."""
    return SqlError("100078", "22001", f"String '{text}' is too long and would be truncated")


def incompatible_options(first: str, second: str) -> SqlError:
    """Two options of one statement exclude each other."""
    return _compilation("001003", "42000", f"options {second} and {first} are incompatible")


def column_count_differs(expected: int, actual: int) -> SqlError:
    return _compilation(
        "002020",
        "21S01",
        f"Insert value list does not match column list expecting {expected} but got {actual}",
    )


def duplicate_row() -> SqlError:
    """Several rows of a source match one row of the table that MERGE or UPDATE changes."""
    return SqlError("100090", "42P18", "Duplicate row detected during DML action")


def null_into_not_null(column: str) -> SqlError:
    """NULL for a NOT NULL column; py4 makes it an IntegrityError."""
    return SqlError("100072", "22000", f"NULL result in a non-nullable column '{column}'")


def bad_binding(name: str, reason: str) -> SqlError:
    """A bind value that is absent or cannot be read as its own type."""
    return _compilation("002049", "42601", f"Bind variable {name} {reason}.")


# A statement's life


def internal_error(reference: str) -> SqlError:
    """An internal error. reference: identifies it in the log, and contains nothing else."""
    return SqlError("000603", "XX000", f"SQL execution internal error ({reference})")


FALSE_STATISTICS = "091366"


def false_statistics() -> SqlError:
    """A table has values or rows beyond what its metadata states, and the statement relied on that.

    A statement that has not answered yet is run again without.
    """
    return SqlError(
        FALSE_STATISTICS,
        "58030",
        "The metadata of a table states bounds or a number of rows that its files exceed. Run the"
        " statement again: it does not rely on them then",
    )


def canceled() -> SqlError:
    """The statement was cancelled by a client."""
    return SqlError("000604", "57014", "SQL execution canceled")


def transaction_lost() -> SqlError:
    """A transaction was open when the server ended, or when its session was idle for too long."""
    return SqlError(
        "000625",
        "40000",
        "The transaction was rolled back, since the server was restarted or the session was idle "
        "for too long. Begin it again.",
    )


def transaction_over() -> SqlError:
    """The transaction that a statement began in was committed or rolled back while it ran."""
    return SqlError(
        "000625", "40000", "The statement's transaction ended before it, so it has changed nothing."
    )


def timed_out(seconds: int) -> SqlError:
    """The statement ran longer than STATEMENT_TIMEOUT_IN_SECONDS."""
    return SqlError(
        "000630",
        "57014",
        f"Statement reached its statement or warehouse timeout of {seconds} second(s) "
        "and was canceled.",
    )


def resources_exhausted(detail: str) -> SqlError:
    """The engine's memory or result limits do not suffice for the statement."""
    return SqlError("000625", "53200", f"The statement exceeded its resource limits: {detail}")


def disk_full() -> SqlError:
    """The disk has no room for what the statement writes, or for what its computation spills."""
    return SqlError(
        "000625",
        "53100",
        "The server's disk is full: make room on it, or delete or drop something, and try again",
    )


def disk_read_only() -> SqlError:
    """The disk takes no writes; queries that write nothing still run."""
    return SqlError("000625", "58030", "The server's disk takes no writes; queries go on")


def not_running(query_id: str) -> SqlError:
    """An abort of something that is not running; no error to the client."""
    return SqlError(
        "000605", "02000", f"Identified SQL statement is not currently executing: {query_id}"
    )


def result_unknown(query_id: str) -> SqlError:
    """The result of an unknown query, or of one that is no longer kept."""
    return SqlError("000612", "02000", f"Result for query {query_id} not found")


def result_scan_unknown(query_id: str) -> SqlError:
    """RESULT_SCAN of an unknown query."""
    return SqlError("000709", "02000", f"Statement {query_id} not found")


def request_id_reused(request_id: str) -> SqlError:
    """The same requestId with another text: answering either would be wrong."""
    return SqlError(
        "000607", "22000", f"Request {request_id} was already used for another statement"
    )


def malformed_request(reason: str) -> SqlError:
    """A request that is not of the protocol, or beyond its bounds."""
    return SqlError("391902", "08P01", f"Bad request: {reason}.")


def no_such_path(method: str, path: str) -> SqlError:
    """A path under the protocol's prefixes where there is nothing."""
    return SqlError("390404", "08P01", f"Not found: {method} {path}")


class SessionFault(Exception):
    """A login or a token is refused. code is six digits; the body has no query in it."""

    def __init__(self, code: str, message: str, sqlstate: str = "08001") -> None:
        super().__init__(message)
        self.code = code
        self.sqlstate = sqlstate
        self.message = message


def login_refused(message: str = "Incorrect username or password was specified.") -> SessionFault:
    """Unknown user, wrong secret, or a login method that is not supported."""
    return SessionFault("390100", message, "28000")


def role_refused(role: str) -> SessionFault:
    """The login names a role that the caller does not have."""
    return SessionFault(
        "390189",
        f"Role '{role}' specified in the connect string does not exist or not authorized. "
        "Contact your local system administrator, or attempt to login with another role.",
        "28000",
    )


def token_missing() -> SessionFault:
    """No Authorization header where one is needed."""
    return SessionFault("390103", "Session token not found in the request data.")


def token_invalid() -> SessionFault:
    """A session token that Boathouse never signed."""
    return SessionFault("390104", "Session token is invalid.")


def session_gone() -> SessionFault:
    """The session was closed."""
    return SessionFault(
        "390111", "Session no longer exists. New login required to access the service."
    )


def session_token_expired() -> SessionFault:
    """The session token is too old, or the session was idle too long: renew it."""
    return SessionFault("390112", "Session token has expired.")


def master_token_missing() -> SessionFault:
    """A renewal without the master token."""
    return SessionFault("390113", "Master token is not found in the request data.")


def master_token_expired() -> SessionFault:
    """The master token is too old: log in again."""
    return SessionFault(
        "390114", "Authentication token has expired. The user must authenticate again."
    )


def master_token_invalid() -> SessionFault:
    """A master token that Boathouse never signed, or a session token in its place."""
    return SessionFault("390115", "Authentication token is invalid.")


class MalformedBody(Exception):
    """A body is not what the protocol has; str() says why."""


class BodyTooLong(MalformedBody):
    """A body inflates to more than its bound."""

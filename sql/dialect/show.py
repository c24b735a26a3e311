"""rule: the grammar of SHOW and DESCRIBE.

Comments are allowed anywhere (the tokenizer drops them); TERSE, HISTORY, LIKE, IN, STARTS WITH and
LIMIT ... FROM come in Snowflake's order. Any words may name the listing: `sql.show` has the table
of Boathouse's listings, and refuses others by name.
"""

from __future__ import annotations

from typing import Literal

from sql import errors
from sql.dialect import accounts, names, operations, reading

LISTING_WORDS_MAX = 4
CLAUSES = reading.words("HISTORY LIKE IN FOR STARTS LIMIT ON OF TO")
"""Words that end the name of the listing."""
TOKENS = (("USER", "PROGRAMMATIC", "ACCESS", "TOKENS"), ("USER", "PATS"))

SCOPES: tuple[Literal["database", "schema", "table"], ...] = ("database", "schema", "table")


def read_show(
    reader: reading.TokenReader,
) -> operations.Show | operations.ShowGrants | operations.ShowTokens:
    """Return the SHOW statement that starts here."""
    reader.expect("SHOW")
    if reader.accept("GRANTS"):
        return accounts.read_show_grants(reader)
    for words in TOKENS:
        if reader.accept(*words):
            return accounts.read_show_tokens(reader)
    terse = reader.accept("TERSE")
    listing = _read_listing(reader)
    history = reader.accept("HISTORY")
    like = reader.string() if reader.accept("LIKE") else None
    scope_type, scope = _read_scope(reader)
    if like is None and reader.accept("LIKE"):
        like = reader.string()
    starts_with = reader.string() if reader.accept("STARTS", "WITH") else None
    limit = limit_from = None
    if reader.accept("LIMIT"):
        limit = reader.number()
        limit_from = reader.string() if reader.accept("FROM") else None
    if not reader.is_finished and reading.is_word(reader.peek_text()):
        raise errors.unsupported(f"SHOW {listing} ... {reader.peek_word()}")
    reader.finish()
    return operations.Show(
        listing=listing,
        terse=terse,
        history=history,
        like=like,
        scope_type=scope_type,
        scope=scope,
        starts_with=starts_with,
        limit=limit,
        limit_from=limit_from,
    )


def _read_listing(reader: reading.TokenReader) -> str:
    """Return the words that name the listing: `PRIMARY KEYS`."""
    words: list[str] = []
    while len(words) < LISTING_WORDS_MAX and _is_of_listing(reader.peek_word()):
        words += reader.next_word().split()
    if not words:
        raise errors.unsupported("SHOW")
    return " ".join(words)


def _is_of_listing(text: str) -> bool:
    # sqlglot joins some pairs of words into one token.
    words = text.split()
    return bool(words) and words[0] not in CLAUSES and all(map(reading.is_word, words))


def _read_scope(
    reader: reading.TokenReader,
) -> tuple[operations.ScopeType, names.Name]:
    if not (reader.accept("IN") or reader.accept("FOR")):
        return "", ()
    if reader.accept("ACCOUNT"):
        return "account", ()
    if reader.accept("SESSION"):
        return "session", ()
    for word in SCOPES:
        if reader.accept(word) or (word == "table" and reader.accept("VIEW")):
            bare = reader.is_finished or reader.peek_word() in ("STARTS", "LIMIT", "LIKE")
            return word, () if bare else reader.name()
    return "name", reader.name()


def read_describe(
    reader: reading.TokenReader,
) -> operations.Describe | operations.DescribeUser | operations.DescribeResult:
    """Return the DESCRIBE statement that starts here."""
    _ = reader.accept("DESCRIBE") or reader.accept("DESC")
    if reader.accept("USER"):
        user = reader.ident()
        reader.finish()
        return operations.DescribeUser(name=user)
    if reader.accept("RESULT"):
        return _read_described_result(reader)
    reader.accept("ICEBERG")
    for word, object_type in DESCRIBED:
        if reader.accept(word):
            name = reader.name()
            if reader.accept("TYPE"):
                reader.expect("=")
                if not reader.accept("COLUMNS"):
                    raise errors.unsupported(f"DESCRIBE ... TYPE = {reader.peek_word()}")
            reader.finish()
            return operations.Describe(object_type=object_type, name=name)
    start = reader.mark()
    words = []
    while reader.peek_word() and set(reader.peek_word().split()) <= REFUSED:
        words.append(reader.next_word())
    if words and reader.peek_text() != "." and not reader.is_finished:
        raise errors.unsupported(f"DESCRIBE {' '.join(words)}")
    reader.reset(start)  # a table may have such a name
    name = reader.name()
    reader.finish()
    return operations.Describe(object_type="table", name=name)


def _read_described_result(reader: reading.TokenReader) -> operations.DescribeResult:
    if not reader.accept("LAST_QUERY_ID"):
        query_id = reader.string()
        reader.finish()
        return operations.DescribeResult(query_id=query_id)
    reader.expect("(")
    position = -1
    if not reader.accept(")"):
        is_negative = reader.accept("-")
        number = reader.number()
        position = -number if is_negative else number
        reader.expect(")")
    reader.finish()
    return operations.DescribeResult(position=position)


DESCRIBED: tuple[tuple[str, operations.DescribedType], ...] = (
    ("TABLE", "table"),
    ("VIEW", "view"),
    ("SCHEMA", "schema"),
    ("DATABASE", "database"),
    ("SEQUENCE", "sequence"),
)

REFUSED = frozenset(
    reading.words(
        """
        ACCESS AGGREGATION ALERT API APPLICATION APPLICATIONS AUTHENTICATION CATALOG COMPUTE DYNAMIC
        EVENT EXTERNAL FUNCTION GIT INTEGRATION MASKING MATERIALIZED MODEL NETWORK NOTEBOOK
        NOTIFICATION ORGANIZATION PACKAGE PACKAGES PASSWORD PIPE POLICY POOL PROCEDURE PROJECTION
        REPOSITORY ROLE ROW RULE SECRET SECURITY SERVICE SESSION SHARE STORAGE STREAM STREAMLIT TAG
        TASK TRANSACTION VOLUME WAREHOUSE
        """
    )
)
"""Words of the objects that Snowflake describes and Boathouse does not have."""

"""rule: every bound that a SQL client can meet, in one table.

Sizes are bytes, lengths are characters, times are what the name's last word says. A setting may
choose some of them (docs/CONFIG.md); the formulas that make a process's bound of it stand here too.
"""

from __future__ import annotations

from typing import Final

# Queries in worker processes.
PLANNING_SECONDS_MAX: Final = 30.0
"""From a query's arrival in a worker until its physical plan is ready. The statement's own time
limit covers planning as well."""
WORKER_UNTRACKED_BYTES: Final = 512 << 20
"""What a worker may use beside its memory pool: plans, Arrow buffers in flight, Parquet pages."""
ADDRESS_SPACE_SPARE_BYTES: Final = 1 << 30
"""Address space beside memory: thread stacks, and what allocators reserve before they use it."""
QUERIES_WAITING_MAX: Final = 200
"""Queries that may wait for a worker; more are refused."""
QUERIES_WAITING_OF_ONE_MAX: Final = 100
"""Of these, queries of one principal."""
RELATIONS_MAX: Final = 1_000
"""Relations that a query reads once every common table expression stands where it is named. The
engine's planner copies them so, and 16 expressions that name the one before twice make 65,536."""
JOINS_MAX: Final = 200
"""Joins in one SELECT. The planner's stack grows with them, and ends at about 300."""

COLUMNS_MAX: Final = 20_000
"""Columns of a statement's tables and of every SELECT in it, together."""
LIST_MEMBERS_MAX: Final = 16_384
"""Members of an IN list, and rows of VALUES: Snowflake's own bound."""

# Reading a statement: its text to tokens, tree and bound query.
TEXT_LENGTH_MAX: Final = 1 << 20
TOKENS_MAX: Final = 250_000
STATEMENTS_MAX: Final = 10_000
"""Statements in one request."""
TEXT_HERE_LENGTH_MAX: Final = 4096
TOKENS_HERE_MAX: Final = 400
COLUMNS_HERE_MAX: Final = 400
BINDS_HERE_MAX: Final = 400
"""A statement beyond one of these four is read in a child; others take some 20 ms at most."""
READERS_MAX: Final = 2
READING_SECONDS_MAX: Final = 30.0
"""Of each step in a child. The statement's own time limit covers reading as well."""
READING_BYTES_MAX: Final = 1 << 30
"""By how much such a child may grow."""
READER_KEPT_BYTES_MAX: Final = 256 << 20
"""A child that is larger after a statement is not kept for the next."""

# Requests and what is kept of them.
QUERY_BODY_BYTES_MAX: Final = 16 << 20
"""A request to run a statement, inflated: its text, and some hundred thousand bound values."""
QUERY_BODY_HERE_BYTES_MAX: Final = 32 << 10
"""A larger body is decoded in a thread, bind by bind, and takes one of the turns below."""
BINDS_THREAD_BYTES_MAX: Final = 1 << 20
"""Larger binds are decoded in a child that reads statements: what decodes or frees a million values
keeps the interpreter from the event loop, also in a thread."""
QUERY_PARAMETERS_BYTES_MAX: Final = 64 << 10
"""The parameters of one request, as JSON."""
LARGE_BODIES_MAX: Final = 4
"""Larger bodies that are read and decoded at one time; one principal has at most all but one."""
BINDS_MAX: Final = 16_384
"""Bind names in one request."""
ARRAY_VALUES_MAX: Final = 2_000_000
"""Values of all array binds of one request together, a single value once for each row."""
BOUND_VALUES_AT_ONCE: Final = 50_000
STATEMENTS_RUNNING_MAX: Final = 1_000
"""Statements that run or wait at one time, over all sessions."""
STATEMENTS_RUNNING_OF_ONE_MAX: Final = 500
"""Of these, statements of one principal."""
PENDING_BYTES_MAX: Final = 512 << 20
PENDING_OF_ONE_BYTES_MAX: Final = 256 << 20
"""What texts and binds of running statements may take in memory, of all and of one principal."""
BOUND_VALUE_BYTES: Final = 100
"""What a bound value takes in memory, about."""
TEXT_KEPT_LENGTH_MAX: Final = 4096
"""How much of a finished statement's text is kept, for monitoring. A repeated request is known by a
digest of its text."""


def worker_bytes_max(memory_bytes: int) -> int:
    """Return how much a worker may grow beyond its size at start. memory_bytes: of its pool."""
    return memory_bytes + memory_bytes // 2 + WORKER_UNTRACKED_BYTES

"""rule: the bounds of SQL, in one table.

Sizes are bytes, lengths are characters, and a time's unit is the last word of its name. Settings
may change some of them (docs/CONFIG.md); the formulas that derive a process's bounds are here too.
"""

from __future__ import annotations

from typing import Final

# Queries in worker processes.
PLANNING_SECONDS_MAX: Final = 30.0
"""From a query's arrival in a worker until its physical plan is ready. The statement's own time
limit covers planning as well."""
WORKER_UNTRACKED_BYTES: Final = 512 << 20
"""Memory of a worker beside its pool: plans, Arrow buffers in flight, Parquet pages."""
ADDRESS_SPACE_SPARE_BYTES: Final = 1 << 30
"""Address space beside memory: thread stacks, and what allocators reserve but do not use."""
QUERIES_WAITING_MAX: Final = 200
"""Queries that may wait for a worker; more are refused."""
QUERIES_WAITING_OF_ONE_MAX: Final = 100
"""Of these, queries of one principal."""
RELATIONS_MAX: Final = 1_000
"""Relations that a query reads once each common table expression is copied to every reference, as
the engine's planner does: 16 expressions, each naming the one before twice, make 65,536."""
JOINS_MAX: Final = 200
"""Joins in one SELECT. The planner's stack grows with them, and ends at about 300."""
CONTEXTS_RESTING_MAX: Final = 4
"""Contexts of different settings that a worker keeps between queries."""
PLANS_KEPT_BYTES_MAX: Final = 1 << 20
"""Texts and schemas of the queries whose plans each of these keeps, and texts of these plans. In
memory a plan takes up to some thirty times its text."""
PLAN_KEPT_BYTES_MAX: Final = 64 << 10
"""Text and schemas of a query whose plan is kept, and the plan's text."""
STOP_GRACE_SECONDS: Final = 1.0
"""How long a worker that was asked to stop may go on before it is killed."""
DEATH_SECONDS_MAX: Final = 5.0
"""How long a worker whose socket closed may take to end, so that its exit code can be read.
On a busy machine the end of a large process takes more than a second."""
ONE_THREAD_ROWS_MAX: Final = 10_000
"""Rows of all tables of a query that one thread computes."""
ONE_THREAD_GENERATED_MAX: Final = 1_000_000
"""Rows of GENERATOR, in a query without tables, that one thread computes."""
GATHERED_BYTES: Final = 32 << 20
"""Bytes of rows that are buffered before they are split by partition and written."""
OPEN_FILES_MAX: Final = 64
"""Files of partitions that are written at one time; the one used longest ago is finished first."""

VARIANT_DEPTH_MAX: Final = 200
"""How deeply a lenient JSON text may nest, and the steps of a path. JSON that is written nests 254
deep at most."""
VARIANT_ELEMENTS_MAX: Final = 1_000_000
"""Elements of an array that ARRAY_GENERATE_RANGE or ARRAY_INSERT makes."""
PIVOTED_MAX: Final = 500
"""Values that a PIVOT or UNPIVOT lists."""
GENERATED_PER_SECOND: Final = 1_000_000
"""Rows of GENERATOR for each second of its TIMELIMIT."""
FLATTENED_MAX: Final = 1_000_000
"""Rows that FLATTEN makes of one value."""
REPEATED_BYTES_MAX: Final = 1 << 30
"""Bytes of all texts that a function such as REPEAT returns for one batch of rows."""
COLUMNS_MAX: Final = 20_000
"""Columns of a statement's tables and of every SELECT in it, together."""
TERMS_MAX: Final = 1_000
"""Terms of one sum or product, branches of one UNION, operands of one AND: the engine takes seconds
for so many, and outgrows its stack with some thousands."""
JOINED_MAX: Final = 10_000
"""Operands of one OR or ||, which are nested evenly."""
PRUNING_TERMS_MAX: Final = 200
PRUNING_DEPTH_MAX: Final = 50
"""Comparisons of one conjunct of WHERE that files are pruned by, and how deeply AND and OR nest."""
REPEATED_TEXT_MAX: Final = 1 << 10
"""Length of an operand's text from which on a kernel is called rather than the operand repeated."""
EXPANDED_MAX: Final = 128 << 10
"""Length of an expression in the engine's text from which on GROWTH_MAX applies."""
GROWTH_MAX: Final = 512
"""Characters that each node of such an expression may add to its text, without its constants."""
LATERAL_TEXT_MAX: Final = 32 << 10
"""Length of the columns of LATERAL of an aggregate, beside GROWTH_MAX for each of their nodes."""
PATTERN_LENGTH_MAX: Final = 32_768
"""Characters of a constant pattern whose groups are counted on the event loop."""
PATTERN_BYTES_MAX: Final = 2 << 20
"""Memory of one compiled pattern with the states of its automaton. A worker keeps 128 of them."""
USES_MAX: Final = 500
"""Tables and views that one statement names, with those that its views name."""
VIEW_DEPTH_MAX: Final = 32
"""Views of views: how deeply they nest."""
VIEW_READINGS_MAX: Final = 100
"""Views of the index that one statement opens to read its views: one for each level of them, and
again from the first level when one of them is replaced meanwhile."""
TEMPORARY_TABLES_MAX: Final = 1_000
"""Temporary tables of one session in one schema."""
TEMPORARY_VIEWS_MAX: Final = 100
TEMPORARY_VIEWS_LENGTH_MAX: Final = 1 << 20
"""Temporary views of one session, and characters of all their texts."""
NAMES_HERE_MAX: Final = 50
"""Tables and views of a statement that are looked up on the event loop; more in a thread."""
MERGE_CLAUSES_MAX: Final = 32
"""WHEN clauses of one MERGE: each of its values names the conditions of all."""
HIERARCHIES_MAX: Final = 16
"""CONNECT BY in one statement, and further columns of one."""
CHANGE_ATTEMPTS_MAX: Final = 5
"""How often DELETE, UPDATE or MERGE runs when other writers change its table meanwhile."""
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
READINGS_KEPT_BYTES_MAX: Final = 16 << 20
"""About how many bytes the kept results of reading statements take."""
READINGS_OF_STEP_MAX: Final = 8
"""Kept results of one text, for tables and sessions that differ; the newest ones."""
READERS_MAX: Final = 2
READING_SECONDS_MAX: Final = 30.0
"""Of each step in a child. The statement's own time limit covers reading as well."""
READING_BYTES_MAX: Final = 1 << 30
"""Bytes by which such a child may grow."""
ANSWER_HERE_BYTES_MAX: Final = 64 << 10
"""A larger answer of such a child is unpacked in a thread."""
READER_KEPT_BYTES_MAX: Final = 256 << 20
"""A child that is larger after a statement is ended."""

# Names and listings.
NAMES_COMPARED_MAX: Final = 10_000
"""Stored names of one level that are compared with an unquoted name that is stored in neither lower
nor upper case. With more stored names, such a name must be quoted."""
SCANNED_RESULT_BYTES_MAX: Final = 256 << 20
"""The encoded bytes of all results that one statement reads by RESULT_SCAN, each use counted."""

SIMILARITY_CELLS_MAX: Final = 1_000_000
"""The product of the lengths of two texts that JAROWINKLER_SIMILARITY compares."""

FLOW_STATEMENTS_MAX: Final = 100
"""Statements joined by `->>`."""

SHOWN_ROWS_MAX: Final = 10_000
"""Rows of SHOW."""
DESCRIBED_TABLES_MAX: Final = 10_000
DESCRIBED_COLUMNS_MAX: Final = 100_000
"""Tables and columns of one database that INFORMATION_SCHEMA describes; a query is refused beyond
them."""
LOADS_LISTED_MAX: Final = 100_000
"""Loads of a database's tables from which LOAD_HISTORY takes the newest; a query is refused beyond.
"""
ROWS_HERE_MAX: Final = 250
"""A listing of more rows is built and encoded in a thread."""
ROWS_AT_ONCE: Final = 10_000
"""Rows of INFORMATION_SCHEMA that are Python values at one time."""

# Caches of tables.
FILES_AT_ONCE: Final = 50
"""Files of a table that are opened or grouped in one step, which takes up to 7 ms; the event loop
serves other requests between steps."""
HISTORY_HERE_BYTES_MAX: Final = 256 << 10
"""A table's snapshots and snapshot log, as JSON; larger ones are searched in a thread."""
FOOTERS_KEPT_MAX: Final = 50_000
WAYS_KEPT_MAX: Final = 5_000
BOUNDS_KEPT_MAX: Final = 500
TABLE_COLUMNS_KEPT_MAX: Final = 500
"""Tables whose columns are kept as the binder and the engine see them."""
DISTRUSTED_MAX: Final = 10_000
BOUNDED_FILES_MAX: Final = 5_000
BOUNDED_VALUES_MAX: Final = 250_000
"""Files of a table, and bounds of their whole-number columns, that are read to prove that
arithmetic cannot overflow. With more of either, the bounds of the types are used."""
BOUNDS_AT_ONCE: Final = 2_500
"""Of these, bounds that are read in one step."""
FILE_GROUPS_MAX: Final = 1_000
"""Groups of a table's files: those of one group have the same columns, and each has deletes of the
same forms or none."""
EQUALITY_READS_MAX: Final = 100_000
"""Equality delete files that a query reads, each once for every group that it applies to."""
EQUALITY_KEYS_MAX: Final = 50
"""Sets of columns that they compare. Each is a join."""

# Requests, and what is stored of them.
ANSWER_WITHIN_SECONDS: Final = 40.0
"""Longest wait before the client must poll again: a driver's socket gives up at 60."""
BODY_THREAD_BYTES_MIN: Final = 256 << 10
"""From this size on bodies are read and answers compressed in a thread."""
GZIP_BYTES_MIN: Final = 4096
"""Smaller answers are not compressed."""
CONTROL_LENGTH_MAX: Final = 200
"""A longer text is not checked for RESULT_SCAN and SYSTEM$CANCEL_QUERY."""
KEYPAIR_TOKEN_LENGTH_MAX: Final = 8192
KEYPAIR_SECONDS_MAX: Final = 3600
KEYPAIR_LEEWAY_SECONDS: Final = 60
"""How long a token signed with a user's key may be valid, and how far clocks may differ."""
LOGIN_BYTES_MAX: Final = 1 << 20
TELEMETRY_BYTES_MAX: Final = 4 << 20
QUERY_BODY_BYTES_MAX: Final = 16 << 20
"""A request to run a statement, inflated: its text, and some hundred thousand bound values."""
QUERY_BODY_HERE_BYTES_MAX: Final = 32 << 10
"""A larger body is decoded in a thread, bind by bind, and takes one of the turns below."""
BINDS_THREAD_BYTES_MAX: Final = 1 << 20
"""Larger binds are decoded in a child of `sql.compiler`: decoding or freeing a million values in a
thread would keep the interpreter from the event loop."""
QUERY_PARAMETERS_BYTES_MAX: Final = 64 << 10
"""The parameters of one request, as JSON."""
LARGE_BODIES_MAX: Final = 4
"""Such bodies that are read and decoded at one time; one principal has at most all but one."""
BINDS_MAX: Final = 16_384
"""Bind names in one request."""
ARRAY_VALUES_MAX: Final = 2_000_000
"""Values of all array binds of one request; a single value counts once for each row."""
BOUND_VALUES_AT_ONCE: Final = 50_000
STATEMENTS_RUNNING_MAX: Final = 1_000
"""Statements that run or wait at one time, over all sessions."""
STATEMENTS_RUNNING_OF_ONE_MAX: Final = 500
"""Of these, statements of one principal."""
PENDING_BYTES_MAX: Final = 512 << 20
PENDING_OF_ONE_BYTES_MAX: Final = 256 << 20
"""Memory of the texts and binds of running statements, of all and of one principal."""
BOUND_VALUE_BYTES: Final = 100
"""About the memory of one bound value."""
RECORDED_STATEMENTS_MAX: Final = 10_000
"""Statements that INFORMATION_SCHEMA.QUERY_HISTORY lists at most, of all users together."""
TEXT_KEPT_LENGTH_MAX: Final = 4096
"""Characters of a finished statement's text that are stored for monitoring. A repeated request is
recognised by the text's digest."""
TEXT_SEARCHED_LENGTH_MAX: Final = 64 << 10
"""Of a longer text no error's message is recorded: it is not searched for passwords."""

REQUEST_IDS_MAX: Final = 4_096
"""requestIds that a session remembers; a driver repeats one within minutes."""

# Sessions.
SESSIONS_MAX: Final = 20_000
"""Sessions in memory; a login beyond it is refused."""
SESSIONS_OF_ONE_MAX: Final = 10_000
"""Of these, sessions of one principal."""
PUBLIC_KEY_LENGTH_MAX: Final = 4_096
"""Characters of a user's public key."""
ROLES_AT_ONCE: Final = 100
"""Roles whose trust policies are evaluated between two turns of the event loop."""
PASSWORDS_WAITING_MAX: Final = 64
"""Logins that wait for their passwords to be hashed; a login beyond it is refused."""
PASSWORDS_OF_ONE_NAME_MAX: Final = 16
PASSWORDS_OF_ONE_ADDRESS_MAX: Final = 32
"""Of these, logins of one user's name, and from one address; equal ones count once."""
PASSWORDS_AT_ONCE: Final = 2
"""Passwords that are hashed at one time: each takes a thread and 19 MiB."""
QUERY_IDS_MAX: Final = 64
"""Query ids that a session remembers for LAST_QUERY_ID."""
VERIFIED_TOKENS_MAX: Final = 4_096
"""Cached tokens: checking a signature costs more CPU than the rest of a request."""
SWEEP_SECONDS: Final = 60
DETACHED_SECONDS: Final = 300
"""After so long without a request ABORT_DETACHED_QUERY cancels a session's statements."""
SWEPT_RECORDS_MAX: Final = 10_000
"""Stored sessions that one sweep looks at."""
DISK_FULL_LINE_SECONDS: Final = 60
"""Least time between two log lines about session records that a full disk refuses."""
VARIABLE_LENGTH_MAX: Final = 256
NUMBERS_MAX: Final = 10_000
"""Uses of NEXTVAL in one statement; each reserves its numbers."""

VARIABLES_MAX: Final = 256
"""Variables of one session, and characters of each."""

# Transactions.
TRANSACTION_STATEMENTS_MAX: Final = 1_000
"""DML statements; each becomes a snapshot of the tables that it changes."""
TRANSACTION_TABLES_MAX: Final = 100
TRANSACTION_FILES_MAX: Final = 20_000
TRANSACTION_BYTES_MAX: Final = 1 << 40
"""What one transaction may change and hold back. Files are described in memory until COMMIT."""

INTO_CLAUSES_MAX: Final = 32
"""INTO clauses of a multi-table INSERT."""
INTO_SOURCE_BYTES_MAX: Final = 256 << 20
"""Memory of the rows that its subquery returns. They are computed once for all clauses."""
DRAWN_BYTES_MAX: Final = 256 << 20
"""Memory of the rows of a statement's volatile WITH expressions that it reads more than once."""
REPLACE_ATTEMPTS_MAX: Final = 10
"""How often a statement that replaces all rows of a table looks for them after a conflict."""

REMOVED_HERE_MAX: Final = 10_000
"""Removed files of a change that are listed on the event loop; more are in a thread."""

# Results.
RESULTS_MAX: Final = 10_000
"""Finished statements whose results are stored. Beyond this or one of the next two bounds, the
oldest result of the principal with the most is dropped."""
RESULTS_INLINE_BYTES_MAX: Final = 256 << 20
"""Results and texts in memory. The setting `sql_results_mib` bounds chunks."""
RESULT_SECONDS: Final = 24 * 3600
"""How long a result with chunks is stored."""
RESULT_READ_SECONDS: Final = 300
"""How long it is stored after the last fetch, once each chunk was fetched or its session ended."""
RESULT_INLINE_BYTES_MAX: Final = 1 << 20
RESULT_INLINE_ROWS_MAX: Final = 50_000
"""Bytes and rows in the answer itself; further rows are in chunks."""
WAREHOUSES_MAX: Final = 1_000
CHUNK_BYTES_MAX: Final = 8 << 20
CHUNK_ROWS_MAX: Final = 200_000
CHUNK_URL_SECONDS: Final = 6 * 3600
RESULTS_MEMORY_BYTES_MAX: Final = 256 << 20
"""Chunks in memory; further ones are in files."""
RESULTS_FREE_BYTES_MAX: Final = RESULTS_MEMORY_BYTES_MAX // 4
"""Memory that chunks have left, for the next ones."""
ENCODED_ROWS_MIN: Final = 1_000
"""A worker that has sent more rows of a result is told how to encode those beyond the answer."""
RESULT_THREAD_BYTES_MIN: Final = 64 << 10
"""From this size on rows are encoded in a thread, so that the event loop is not blocked."""


def worker_bytes_max(memory_bytes: int) -> int:
    """Return the bytes by which a worker may grow after its start. memory_bytes: of its pool."""
    return memory_bytes + memory_bytes // 2 + WORKER_UNTRACKED_BYTES


# Stages and their files.
STAGES_MAX: Final = 1_000
"""Stages of a schema, and temporary ones of a session in it; file formats as well."""
STAGE_PATH_BYTES_MAX: Final = 700
"""Bytes of a path below a stage; with the stage's own prefix it fits into a key."""
STAGED_FILES_LISTED_MAX: Final = 1_000
"""Files that FILES = (...) may name."""
STAGED_FILES_MAX: Final = 10_000
"""Files that one statement reads, gets, lists or removes."""
STAGED_FILES_LISTED_IN_ALL_MAX: Final = 100_000
"""Files below a path before PATTERN selects some of them."""
UNLOADED_FILES_MAX: Final = 10_000
"""Files that one COPY INTO a stage writes."""
STAGE_PATTERN_LENGTH_MAX: Final = 1_000
STAGED_USES_MAX: Final = 20
"""Stages that one statement reads."""
STAGED_COLUMNS_MAX: Final = 10_000
"""The highest number of a column `$1` of staged files."""

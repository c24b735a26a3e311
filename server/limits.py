"""rule: every bound that a client of the HTTP kit can meet, in one table.

Sizes are bytes, times are what the name's last word says. Floors above have bounds of their own;
none of them is looser than the one here that it lies under.
"""

from __future__ import annotations

from typing import Final

# The request line and the headers.
PATH_BYTES_MAX: Final = 16 * 1024
QUERY_BYTES_MAX: Final = 32 * 1024
QUERY_PAIRS_MAX: Final = 1_000
HEADERS_MAX: Final = 256
HEADERS_RECEIVED_MAX: Final = 1_024
"""Beyond HEADERS_MAX a request is answered by its face; beyond this it is not even read."""
HEADERS_BYTES_MAX: Final = 64 * 1024
HEAD_BYTES_MAX: Final = 256 * 1024
"""Before the bounds above can be told apart: what a connection may send that is no body."""
HEAD_SECONDS_MAX: Final = 30.0
HEAD_UNCOUNTED_BYTES_MAX: Final = 16 * 1024
"""A head up to this size is not counted among what connections hold."""
CONNECTIONS_BYTES_MAX: Final = 48 * 1024 * 1024
"""What all connections together hold of heads and of answers; `server.held.Holdings`."""
HELD_BACK_BYTES_MIN: Final = 64 * 1024
"""From this size on an answer that is sent whole is counted among what connections hold."""
CROWDED_ANSWER_SECONDS_MAX: Final = 2.0
"""How long an answer may go out while connections hold more than that."""
KEEP_ALIVE_SECONDS: Final = 5.0
"""How long a connection stays open on which no request is under way."""
PIPELINED_MAX: Final = 64
"""Requests that a connection may send before the first of them is answered."""
DRAIN_IDLE_SECONDS_MAX: Final = 5.0
"""How long a draining server waits for a client that makes no progress; before, it is a setting."""
DRAIN_SECONDS_MAX: Final = 25.0
"""How long it waits for one that does."""

# The event loop.
LOOP_HELD_SECONDS_MAX: Final = 0.1
"""Whatever holds it for longer is named in the log; `server.looplag`."""
LOGGED_PATH_BYTES_MAX: Final = 200

# Bodies. S3 object bodies are bounded by the S3 face; everything signed for another service is
# hashed in memory before it is believed, so it has this bound.
SIGNED_BODY_BYTES_MAX: Final = 32 * 1024 * 1024
MODEL_BODY_BYTES_MAX: Final = 1024 * 1024
"""What the faces that AWS's service models drive take: documents of settings, no data."""
PARSED_HERE_BYTES_MAX: Final = 64 * 1024
HASHED_HERE_BYTES_MAX: Final = 1024 * 1024
"""What takes a few milliseconds; more is done in a thread, so that nobody else waits for it."""
JSON_VALUES_MAX: Final = 150_000
"""Values of one JSON document: decoding that many takes 30 milliseconds."""
SMALL_BODY_BYTES_MAX: Final = 64 * 1024
HELD_SMALL_BYTES_MAX: Final = 32 * 1024 * 1024
"""What all requests together hold of bodies up to SMALL_BODY_BYTES_MAX; `server.held`."""
HELD_UNPROVEN_BYTES_MAX: Final = 32 * 1024 * 1024
"""What they hold of larger bodies whose sender has not proven an identity yet."""
HELD_PROVEN_BYTES_MAX: Final = 128 * 1024 * 1024
"""What they hold of larger bodies of everybody else."""
HELD_WAIT_SECONDS_MAX: Final = 10.0
"""How long a request waits for its share of these."""
HELD_WAITING_MAX: Final = 256
NATIVE_BODY_BYTES_MAX: Final = 1024 * 1024
FORM_BODY_BYTES_MAX: Final = 64 * 1024
UNREAD_BODY_BYTES_MAX: Final = 64 * 1024 * 1024
"""What is received and dropped of a refused request's body, so that the client reads its answer
instead of a reset; beyond it the connection ends after the answer."""
UNREAD_BODY_SECONDS_MAX: Final = 30.0
"""How long the rest of a body is received and dropped before a connection that ends after its
answer is closed: closed at once, the client would read a reset instead of the answer."""
UNREAD_HEAD_SECONDS_MAX: Final = 5.0
UNREAD_HEAD_BYTES_MAX: Final = 8 * 1024 * 1024
"""How long, and how many bytes, a connection receives and drops behind a head that was refused by
431, 400 or 503, for the same reason."""

# XML bodies. CompleteMultipartUpload with 10,000 parts and checksums stays under 4 MiB.
XML_BYTES_MAX: Final = 4 * 1024 * 1024
XML_DEPTH_MAX: Final = 32
XML_TAG_BYTES_MAX: Final = 16 * 1024
"""About what one tag, comment or reference may have; text between them is not so bound."""
XML_ELEMENTS_MAX: Final = 100_000

# Bodies and answers on their way through memory.
BUFFERED_BODY_BYTES_MAX: Final = 64 * 1024
"""Of a request's body; beyond it nothing is read before the application has taken some."""
JOINED_BODY_BYTES_MAX: Final = 16 * 1024
"""An answer's body up to here is copied behind its head; a larger one is handed on beside it."""

# Answers streamed from files.
READ_BYTES: Final = 256 * 1024
"""One read and one write of a streamed body, after which other requests get their turn."""
WATCHED_BODY_BYTES_MIN: Final = 1024 * 1024
"""From this size on a body is streamed beside a look-out for the client's going away."""

# Signatures.
CLOCK_SKEW_MS_MAX: Final = 15 * 60 * 1000
PRESIGN_SECONDS_MAX: Final = 7 * 24 * 60 * 60
SIGNED_HEADERS_MAX: Final = 256
SIGNING_KEYS_MAX: Final = 1_024
SIGNED_CLAIMS_MAX: Final = 1_024
VERDICTS_MAX: Final = 1_024
"""Requests whose right signatures are remembered, and presigned queries that are."""
VERDICT_BYTES_MAX: Final = 4_096
"""Path, query and signed headers of a request whose signature is remembered."""
QUERIES_REMEMBERED_MAX: Final = 256
QUERY_REMEMBERED_BYTES_MAX: Final = 2_048
"""Queries whose names and values are remembered: presigned requests come again and again."""
CHUNK_HEADER_BYTES_MAX: Final = 1_024
TRAILERS_BYTES_MAX: Final = 16 * 1024
POST_POLICY_BYTES_MAX: Final = 64 * 1024
POST_POLICY_CONDITIONS_MAX: Final = 1_000

# Tokens.
TOKEN_BYTES_MAX: Final = 8 * 1024
VERIFIED_TOKENS_MAX: Final = 4_096
CONNECTED_PRINCIPALS_MAX: Final = 1_024
ACCESS_TOKEN_SECONDS: Final = 60 * 60

# Wrong passwords, for one name from one address.
FAILURES_FREE: Final = 5
FAILURE_DOUBLINGS_MAX: Final = 5
FAILURE_WAIT_SECONDS_MAX: Final = 30
FAILURES_KEPT_SECONDS: Final = 15 * 60
FAILURES_KEPT_MAX: Final = 4_096

# Policies.
POLICY_BYTES_MAX: Final = 20_480
POLICY_STATEMENTS_MAX: Final = 500
POLICY_VALUES_MAX: Final = 5_000

# The audit log.
AUDIT_WAITING_MAX: Final = 10_000
AUDIT_FILE_BYTES_MAX: Final = 16 * 1024 * 1024
AUDIT_FILES_MAX: Final = 8
AUDIT_RECORD_BYTES_MAX: Final = 2048
AUDIT_ANONYMOUS_FILE_BYTES_MAX: Final = 4 * 1024 * 1024
AUDIT_ANONYMOUS_FILES_MAX: Final = 4
AUDIT_ANONYMOUS_LINES_PER_SECOND: Final = 100
AUDIT_ANONYMOUS_BURST: Final = 1_000
"""Lines about clients without a proven identity, beyond which they are counted alone."""

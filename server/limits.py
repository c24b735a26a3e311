"""rule: every bound that a client of the HTTP kit can meet, in one table.

Sizes are bytes; the last word of a name is the unit of a time. Floors above have their own bounds,
none of which exceeds the bound here that contains it.
"""

from __future__ import annotations

from typing import Final

# The request line and the headers.
PATH_BYTES_MAX: Final = 16 * 1024
QUERY_BYTES_MAX: Final = 32 * 1024
QUERY_PAIRS_MAX: Final = 1_000
HEADERS_MAX: Final = 256
HEADERS_RECEIVED_MAX: Final = 1_024
"""Beyond HEADERS_MAX a face answers the request; beyond this the request is not read."""
HEADERS_BYTES_MAX: Final = 64 * 1024
HEAD_BYTES_MAX: Final = 256 * 1024
"""Bytes of a connection outside bodies, before the bounds above can be applied."""
HEAD_SECONDS_MAX: Final = 30.0
HEAD_UNCOUNTED_BYTES_MAX: Final = 4 * 1024
HEADERS_UNCOUNTED_MAX: Final = 32
"""A head up to this size, with so many headers, does not count as held by a connection, unless it
waits for the answers to requests before it."""
HEADER_OVERHEAD_BYTES: Final = 192
"""Memory of one header beside its text: two bytes objects, a pair, its place in a list."""
CONNECTIONS_BYTES_MAX: Final = 48 * 1024 * 1024
"""Heads and responses that all connections together may hold; `server.held.Holdings`."""
HELD_BACK_BYTES_MIN: Final = 64 * 1024
"""From this size on a response that is sent whole counts as held by its connection."""
CROWDED_ANSWER_SECONDS_MAX: Final = 2.0
"""How long a response may be sent while connections hold more than that."""
KEEP_ALIVE_SECONDS: Final = 5.0
"""How long an idle connection stays open."""
PIPELINED_MAX: Final = 64
"""Requests that a connection may send before the first of them is answered."""
DRAIN_IDLE_SECONDS_MAX: Final = 5.0
"""How long a draining server waits for a client without progress; a setting while it serves."""
DRAIN_SECONDS_MAX: Final = 25.0
"""How long it waits for a client that makes progress."""

# The event loop.
LOOP_HELD_SECONDS_MAX: Final = 0.1
"""An operation that holds it for longer is named in the log; `server.looplag`."""
LOGGED_PATH_BYTES_MAX: Final = 200

# Bodies. S3 object bodies are bounded by the S3 face; bodies signed for another service are
# hashed in memory before they are used, so they have this bound.
SIGNED_BODY_BYTES_MAX: Final = 32 * 1024 * 1024
MODEL_BODY_BYTES_MAX: Final = 1024 * 1024
"""Body of a face that an AWS service model drives: documents of settings, no data."""
PARSED_HERE_BYTES_MAX: Final = 64 * 1024
HASHED_HERE_BYTES_MAX: Final = 1024 * 1024
"""Takes a few milliseconds; larger bodies are processed in a thread, off the event loop."""
JSON_VALUES_MAX: Final = 150_000
"""Values of one JSON document: decoding that many takes 30 milliseconds."""
SMALL_BODY_BYTES_MAX: Final = 64 * 1024
HELD_SMALL_BYTES_MAX: Final = 32 * 1024 * 1024
"""All bodies up to SMALL_BODY_BYTES_MAX that requests hold together; `server.held`."""
HELD_UNPROVEN_BYTES_MAX: Final = 32 * 1024 * 1024
"""All larger bodies whose senders have not proven an identity yet."""
HELD_PROVEN_BYTES_MAX: Final = 128 * 1024 * 1024
"""All larger bodies of other senders."""
HELD_WAIT_SECONDS_MAX: Final = 10.0
"""How long a request waits for its share of these."""
HELD_WAITING_MAX: Final = 256
FORM_BODY_BYTES_MAX: Final = 64 * 1024
UNREAD_BODY_BYTES_MAX: Final = 64 * 1024 * 1024
"""Bytes of a refused request's body that are received and dropped, so that the client reads the
response, not a reset; beyond it the connection ends after the response."""
UNREAD_BODY_SECONDS_MAX: Final = 30.0
"""How long the rest of a body is received and dropped before the connection closes after its
response: if it closed at once, the client would read a reset, not the response."""
UNREAD_HEAD_SECONDS_MAX: Final = 5.0
UNREAD_HEAD_BYTES_MAX: Final = 8 * 1024 * 1024
"""How long, and how many bytes, a connection receives and drops after a head that was refused by
431, 400, 429 or 503, for the same reason."""

# XML bodies. CompleteMultipartUpload with 10,000 parts and checksums stays under 4 MiB.
XML_BYTES_MAX: Final = 4 * 1024 * 1024
CONFIGURATION_BYTES_MAX: Final = 256 * 1024
"""Body of a request that configures a bucket or an object: more than 50 tags, 100 grants or 64 KiB
of CORS rules take."""
LIFECYCLE_BYTES_MAX: Final = 1024 * 1024
"""A document of a thousand lifecycle rules, each with an ID, a prefix and some tags."""
XML_DEPTH_MAX: Final = 32
XML_TAG_BYTES_MAX: Final = 16 * 1024
"""One tag, comment or reference, approximately; text between them has no such bound."""
XML_ELEMENTS_MAX: Final = 100_000

# Bodies and responses in memory.
BUFFERED_BODY_BYTES_MAX: Final = 64 * 1024
"""Of a request's body; beyond it the socket is not read until the application takes some."""
JOINED_BODY_BYTES_MAX: Final = 16 * 1024
"""A response body up to this size is copied after its head; a larger one is sent separately."""
WHOLE_BODY_BYTES_MAX: Final = 1024 * 1024
"""Pieces of a response body that are in memory are sent in one step up to this size together."""

# Responses streamed from files.
INTAKE_BYTES_MIN: Final = 256 * 1024
"""From this size on another process receives the rest of a body, if its connection has no TLS."""
HEAD_READ_BYTES: Final = 72 * 1024
"""Read at a time where a head may come: with it comes a body up to SMALL_BODY_BYTES_MAX."""
READ_BYTES: Final = 256 * 1024
"""One read and one write of a streamed body, after which other requests get a turn."""
COPIED_BYTES: Final = 32 * 1024
"""The same where the bytes pass through the process: with TLS, and behind another response."""
COPIES_PER_TURN_MAX: Final = 32
"""Such steps in one turn of the event loop: each takes some 100 us."""
TLS_HELD_BACK_BYTES_MAX: Final = 64 * 1024
"""Of a response with TLS, what waits for the client beside the piece that is being sent."""
WATCHED_BODY_BYTES_MIN: Final = 1024 * 1024
"""From this size on the client's disconnect is watched for while a body is streamed."""

# Signatures.
CLOCK_SKEW_MS_MAX: Final = 15 * 60 * 1000
PRESIGN_SECONDS_MAX: Final = 7 * 24 * 60 * 60
SIGNED_HEADERS_MAX: Final = 256
SIGNING_KEYS_MAX: Final = 1_024
SIGNED_CLAIMS_MAX: Final = 1_024
VERDICTS_MAX: Final = 1_024
"""Requests whose valid signatures are cached, and cached presigned queries."""
VERDICT_BYTES_MAX: Final = 4_096
"""Path, query and signed headers of a request whose signature is cached."""
REPEATS_MAX: Final = 1_024
"""Heads whose meaning and proof are remembered; `server.repeats`."""
REPEAT_BYTES_MAX: Final = 4_096
"""The longest of them; its parsed form takes about as much again."""
URLS_NOTED_MAX: Final = 256
"""Presigned URLs that came lately, of which one that comes again is remembered by its bytes."""
TEMPLATE_KEY_BYTES_MAX: Final = 512
"""The longest path whose key may differ from that of the first request."""
TEMPLATES_OF_LENGTH_MAX: Final = 4
"""Templates of signed heads of one length: clients whose heads are as long put their headers in
other places."""
QUERIES_REMEMBERED_MAX: Final = 256
QUERY_REMEMBERED_BYTES_MAX: Final = 2_048
"""Cached parsed queries: presigned requests repeat."""
CHUNK_HEADER_BYTES_MAX: Final = 1_024
TRAILERS_BYTES_MAX: Final = 16 * 1024
POST_POLICY_BYTES_MAX: Final = 64 * 1024
POST_POLICY_CONDITIONS_MAX: Final = 1_000
POST_FORM_BYTES_MAX: Final = 96 * 1024
"""Of a POST form: what precedes its file, the policy among it, and what follows its file."""
POST_FORM_PARTS_MAX: Final = 256

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
POLICY_VARIABLES_MAX: Final = 32
"""Of one resource's policy."""
POLICY_PATTERNS_MAX: Final = 100
"""Actions with a wildcard that is no star at the end: each is compared with all actions."""
POLICY_MATCHED_CHARS_MAX: Final = 4_096
"""The longest value that patterns are matched with: a copy source, percent-encoded, is shorter."""
POLICY_VARIABLE_CHARS_MAX: Final = 1_024
"""The longest value that takes a variable's place in a pattern: as long as an object's key."""

# Identities of the IAM API: AWS's own quotas.
USERS_MAX: Final = 5_000
ROLES_MAX: Final = 1_000
MANAGED_POLICIES_MAX: Final = 1_500
POLICY_VERSIONS_MAX: Final = 5
ACCESS_KEYS_MAX: Final = 2
PROGRAMMATIC_TOKENS_MAX: Final = 15
"""Programmatic access tokens of one user that have not expired, and as many that have."""
PROGRAMMATIC_TOKEN_CHARS_MAX: Final = 256
ATTACHED_POLICIES_MAX: Final = 10
USER_POLICIES_CHARS_MAX: Final = 2_048
ROLE_POLICIES_CHARS_MAX: Final = 10_240
MANAGED_POLICY_CHARS_MAX: Final = 6_144
TRUST_POLICY_CHARS_MAX: Final = 2_048
"""Characters of policies are counted without white space; those of a user or role together."""
SESSION_TOKEN_BYTES_MAX: Final = 6 * 1024
"""Of a role's session: a token that is derived from it contains a location too."""
IDENTITY_TAGS_MAX: Final = 50
IDENTITY_PROVIDERS_MAX: Final = 100
CLIENT_IDS_MAX: Final = 100
THUMBPRINTS_MAX: Final = 5
"""OpenID Connect providers, and their audiences and certificates; AWS's quotas."""
IDENTITIES_REMEMBERED_MAX: Final = 2_048
"""Stored users and roles whose policies are kept compiled."""
COMPILED_CHARS_MAX: Final = 512 * 1024
"""Of all texts of policies that are kept compiled; some 40 bytes for each character."""

# The audit log.
AUDIT_WAITING_MAX: Final = 10_000
AUDIT_DENIALS_MAX: Final = 1_000
"""Pairs of principal and action whose denials are counted apart; all others are one count."""
AUDIT_LATEST_MAX: Final = 1_000
"""Lines of each topic that the native API can show: at most 2 MiB."""
AUDIT_FILE_BYTES_MAX: Final = 16 * 1024 * 1024
AUDIT_FILES_MAX: Final = 8
AUDIT_RECORD_BYTES_MAX: Final = 2048
AUDIT_ANONYMOUS_FILE_BYTES_MAX: Final = 4 * 1024 * 1024
AUDIT_ANONYMOUS_FILES_MAX: Final = 4
AUDIT_ANONYMOUS_LINES_PER_SECOND: Final = 100
AUDIT_ANONYMOUS_BURST: Final = 1_000
"""Lines about clients without a proven identity, beyond which they are only counted."""

# Uses of access keys.
KEY_USES_SECONDS: Final = 300.0
"""How long a use waits to be written."""
KEY_USES_AT_ONCE: Final = 500
"""Rows of one transaction."""

# Access records.
ACCESS_RECORDS_SECONDS: Final = 60.0
"""How long a record waits for the delivery of its object."""
ACCESS_RECORDS_EARLY_BYTES: Final = 1024 * 1024
"""So many bytes that wait are delivered at once."""
ACCESS_RECORDS_BYTES_MAX: Final = 16 * 1024 * 1024
"""All records in memory; further ones are lost, and counted."""
ACCESS_RECORDS_KEY_BYTES_MAX: Final = 1024
"""The longest key of an object, which bounds a target's prefix."""

"""rule: how many things one commit may change, and how many one table's metadata may hold.

Each bound keeps a request's cost in proportion to its size, and what a table accumulates within
what a commit can read and write again. All are far above what engines send: an expiry of 20,000
snapshots, one update each, is the largest commit that is known of.
"""

from __future__ import annotations

from typing import Final

UPDATES_MAX: Final = 25_000
"""Updates of one commit, over all its tables."""

REQUIREMENTS_MAX: Final = 1_000
"""Requirements of one table's part of a commit."""

SCHEMAS_MAX: Final = 1_000
FIELDS_MAX: Final = 10_000
"""Fields of one schema, nested ones included."""

SPECS_MAX: Final = 1_000
ORDERS_MAX: Final = 1_000
PARTITION_FIELDS_MAX: Final = 1_000
"""Fields of one partition spec or sort order."""

PROPERTIES_MAX: Final = 10_000
PROPERTY_NAME_CHARACTERS_MAX: Final = 1_024
PROPERTY_CHARACTERS_MAX: Final = 8 * 1024 * 1024
"""Names and values of all properties of one table or view together."""

REFS_MAX: Final = 10_000
REF_NAME_CHARACTERS_MAX: Final = 255
UUID_CHARACTERS_MAX: Final = 255
ENCRYPTION_KEYS_MAX: Final = 1_000
STATISTICS_MAX: Final = 100_000
"""Statistics files of one table, and as many partition statistics files."""

VIEW_UPDATES_MAX: Final = 1_000
"""Updates of one replacement of a view."""
VIEW_VERSIONS_MAX: Final = 1_000
"""Versions of one view, whatever its history size says; older ones are forgotten."""
VIEW_SCHEMAS_MAX: Final = 1_000
VIEW_LOG_ENTRIES_MAX: Final = 1_000
"""Entries of one view's log; older ones are forgotten."""
REPRESENTATIONS_MAX: Final = 100
"""Dialects of one view version."""

PIECE_VALUES_MAX: Final = 200_000
"""JSON values of one schema, one snapshot, or any other part of a metadata file that is decoded at
once. A commit adds no part that holds more."""
HEAD_VALUES_MAX: Final = 5_000_000
"""JSON values of all schemas, specs, orders and statistics of a metadata file that is read."""
SNAPSHOTS_MAX: Final = 500_000
"""Snapshots of a metadata file that is read."""

"""Blobs and index on disk: all bytes and names that Boathouse stores.

This floor contains no HTTP and no Iceberg. It stores bodies (inline in the index, or as segments of
immutable blobs), names them in one LMDB index, and makes a change durable before it is
acknowledged. docs/ARCHITECTURE.md lists the invariants, docs/ON_DISK.md the records.
"""

"""Blobs and index on disk: every byte and every name Boathouse keeps.

This floor knows no HTTP and no Iceberg. It stores bodies (inline in the index, or as segments of
immutable blobs), names them in one LMDB index, and makes a change durable before it is
acknowledged. Its nine invariants are listed in docs/ARCHITECTURE.md, its records in
docs/ON_DISK.md.
"""

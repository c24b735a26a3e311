"""rule: the catalog's errors. They have no HTTP status; each face has its own table of codes.

Identifiers in messages are dot-joined, in the words that Iceberg's clients look for. The errors of
the metadata rules (a failed requirement, a bad update) are in `catalog.metadata.errors`.
"""

from __future__ import annotations

from typing import Final


class CatalogError(Exception):
    """A condition of the catalog and its fields. `str()` is one sentence for the user."""

    def __init__(self, message: str, /, **fields: object) -> None:
        super().__init__(message)
        self.fields = fields


class InvalidCatalogRequest(CatalogError):
    """A request is invalid whatever the state of the catalog."""


class InvalidName(InvalidCatalogRequest):
    """A name of a namespace, table or view is empty, too long, or has forbidden characters."""


class InvalidLocation(InvalidCatalogRequest):
    """A location is outside its table bucket, violates the layout, or overlaps another one."""


class InvalidProperty(InvalidCatalogRequest):
    """A property's value is not supported."""


class InvalidMetadataFile(InvalidCatalogRequest):
    """The metadata file for a pointer is not table or view metadata of this location."""


class MisplacedDeletes(InvalidCatalogRequest):
    """A new delete file has another partition spec than the data file that it names."""


class InvalidPageToken(InvalidCatalogRequest):
    """A page token is malformed, or belongs to another listing."""


class NoSuchSnapshot(InvalidCatalogRequest):
    """The table has no snapshot with this id, or it has expired."""


class IdempotencyKeyReused(InvalidCatalogRequest):
    """An idempotency key was sent again with another operation or body."""


class NoSuchWarehouse(CatalogError):
    """No table bucket has the name of the warehouse."""


class NoSuchNamespace(CatalogError):
    """The namespace does not exist."""


class NamespaceAlreadyExists(CatalogError):
    """A namespace has this name already."""


class NamespaceNotEmpty(CatalogError):
    """The namespace still has tables, views or namespaces."""


class PropertiesOverlap(CatalogError):
    """One request both sets and removes a property."""


class NoSuchTable(CatalogError):
    """The table does not exist."""


class TableWithoutMetadata(NoSuchTable):
    """The table was created without metadata and has none yet."""


class TableAlreadyExists(CatalogError):
    """A table has this name."""


class NotRestorable(NoSuchTable):
    """No dropped table or view of this name is kept."""


class NamespaceNotRestorable(NoSuchNamespace):
    """No dropped namespace of this path is kept."""


class Protected(CatalogError):
    """A table, view, namespace or table bucket is protected from being dropped."""


class TableBucketNotEmpty(CatalogError):
    """A table bucket has namespaces or files that its deletion would lose."""


class DroppedTablesKept(TableBucketNotEmpty):
    """A table bucket has dropped tables that can still be restored."""


class FilesReferenced(TableBucketNotEmpty):
    """A table of another table bucket references a file of a table bucket."""


class ForeignFileRefused(CatalogError):
    """A table's metadata names a file of another table, which the caller may not read."""


class NoSuchView(CatalogError):
    """The view does not exist."""


class ViewAlreadyExists(CatalogError):
    """A view has this name."""


class MetadataFileMissing(CatalogError):
    """The metadata file that a pointer or a caller names does not exist."""


class CommitFailed(CatalogError):
    """Another writer committed first, and this commit conflicts with it."""


class LoadAlreadyTaken(CommitFailed):
    """The table has loaded one of the sources before."""


class DecodingInterrupted(CatalogError):
    """The process that decodes large files ended, or took too long; the same request may succeed.

    Nothing was written.
    """


class StaleVersionToken(CatalogError):
    """The caller's version token is no longer the table's."""


class CommitStateUnknown(CatalogError):
    """Whether a commit became durable is unknown; nothing was removed."""


class MountUnavailable(CatalogError):
    """Another catalog that is mounted, or its storage, does not answer as it should."""


class MountReadOnly(CatalogError):
    """A write to a mounted catalog: it is only read."""


class IntegrityBroken(CatalogError):
    """A stored record names something that does not exist; a fault of the server."""


NOTHING_WRITTEN: Final = "The write was still being planned: nothing was handed to the index."
"""A note on an exception that ended a write before its transaction. It also stands in the log."""


def is_certain(error: BaseException) -> bool:
    """Return whether an exception proves that the write did not happen."""
    return NOTHING_WRITTEN in getattr(error, "__notes__", ())

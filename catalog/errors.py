"""rule: the facts that the catalog raises. No HTTP word here; each face has its own table of codes.

Identifiers inside messages are dot-joined, in the words that Iceberg's clients look for. The facts
of the metadata rules (a failed requirement, a bad update) stand in `catalog.metadata.errors`.
"""

from __future__ import annotations

from typing import Final


class CatalogError(Exception):
    """A condition of the catalog and its fields. `str()` is one sentence for people."""

    def __init__(self, message: str, /, **fields: object) -> None:
        super().__init__(message)
        self.fields = fields


class InvalidArgument(CatalogError):
    """A request says something that no state of the catalog could make right."""


class InvalidName(InvalidArgument):
    """A name of a namespace, table or view is empty, too long, or not to be stored."""


class InvalidLocation(InvalidArgument):
    """A location leaves its table bucket, breaks the layout, or meets another thing's."""


class InvalidProperty(InvalidArgument):
    """A property's value cannot be honoured."""


class InvalidMetadataFile(InvalidArgument):
    """The file a pointer should go to is no table or view metadata of this place."""


class InvalidPageToken(InvalidArgument):
    """A page token was not made here, or for another listing."""


class NoSuchSnapshot(InvalidArgument):
    """The table has no snapshot of this id, or has it no more."""


class IdempotencyKeyReused(InvalidArgument):
    """An idempotency key came again with another operation or body."""


class NoSuchWarehouse(CatalogError):
    """No table bucket answers to the name of a warehouse."""


class NoSuchNamespace(CatalogError):
    """The namespace does not exist."""


class NamespaceAlreadyExists(CatalogError):
    """The namespace's name is taken."""


class NamespaceNotEmpty(CatalogError):
    """The namespace still holds tables, views or namespaces."""


class PropertiesOverlap(CatalogError):
    """One request both sets and removes a property."""


class NoSuchTable(CatalogError):
    """The table does not exist."""


class TableWithoutMetadata(NoSuchTable):
    """The table was made without metadata and has not been given any yet."""


class TableAlreadyExists(CatalogError):
    """A table has this name."""


class ForeignFileRefused(CatalogError):
    """A table's metadata names a file of another table, which the caller may not read."""


class NoSuchView(CatalogError):
    """The view does not exist."""


class ViewAlreadyExists(CatalogError):
    """A view has this name."""


class MetadataFileMissing(CatalogError):
    """The metadata file that a pointer or a caller names is not there."""


class CommitFailed(CatalogError):
    """Another writer came first, and the commit cannot be applied on top of it."""


class LoadAlreadyTaken(CommitFailed):
    """The table has taken in one of the sources before."""


class StaleVersionToken(CatalogError):
    """The caller's version token is not the table's any more."""


class CommitStateUnknown(CatalogError):
    """Whether a commit became durable is not known; nothing was removed."""


class IntegrityBroken(CatalogError):
    """A stored record names something that is not there; never a caller's fault."""


NOTHING_WRITTEN: Final = "The write was still being planned: nothing was handed to the index."
"""A note on an exception that ended a write before its transaction. It also stands in the log."""


def is_certain(error: BaseException) -> bool:
    """Say whether an exception, foreseen or not, ended a write that has certainly not happened."""
    return NOTHING_WRITTEN in getattr(error, "__notes__", ())

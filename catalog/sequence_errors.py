"""rule: the errors of sequences and counters, which SQL alone has."""

from __future__ import annotations

from catalog import errors


class NoSuchSequence(errors.CatalogError):
    """The namespace has no sequence of this name."""


class SequenceAlreadyExists(errors.CatalogError):
    """The namespace has a sequence of this name."""


class CounterExhausted(errors.CatalogError):
    """The numbers of a counter would leave the range of 64-bit integers."""

"""Every fact has a code; a client can tell what happened."""

from __future__ import annotations

import inspect
import json
from types import ModuleType

import pytest

from catalog import errors
from catalog.metadata import errors as metadata_errors
from catalog.rest import errors as rest_errors
from catalog.rest import wire, wire_errors


def classes(module: ModuleType) -> list[type[Exception]]:
    return [
        each
        for _, each in inspect.getmembers(module, inspect.isclass)
        if issubclass(each, Exception) and each.__module__ == module.__name__
    ]


BASES = {errors.CatalogError, metadata_errors.MetadataError, rest_errors.RestError,
         rest_errors.TokenRefused}  # fmt: skip


@pytest.mark.parametrize(
    "error_class",
    [
        each
        for module in (errors, metadata_errors, rest_errors)
        for each in classes(module)
        if each not in BASES
    ],
)
def test_every_fact_of_the_catalog_has_a_status_and_a_type(error_class: type[Exception]) -> None:
    assert error_class in wire_errors.WIRE_ERRORS
    status, name = wire_errors.WIRE_ERRORS[error_class]
    assert 400 <= status < 600
    assert name.isidentifier()


def test_an_unknown_error_tells_nothing_of_itself() -> None:
    status, name, message = wire_errors.describe(ValueError("secret"))
    assert (status, name) == (500, "InternalServerError")
    assert "secret" not in message


def test_a_subclass_speaks_as_its_nearest_kin() -> None:
    class Special(errors.NoSuchTable):
        pass

    assert wire_errors.describe(Special("gone")) == (404, "NoSuchTableException", "gone")


def test_the_form_is_the_specifications() -> None:
    answer = wire.encode_error(409, "CommitFailedException", "no")
    assert json.loads(answer.body) == {  # type: ignore[arg-type] - bytes
        "error": {"message": "no", "type": "CommitFailedException", "code": 409}
    }
    assert ("www-authenticate", "Bearer") in wire.encode_error(401, "x", "y").headers


def test_what_may_have_happened_is_never_a_client_error() -> None:
    assert wire_errors.WIRE_ERRORS[errors.CommitStateUnknown][0] == 500


UNKNOWN_TO_JAVA = {500, 502, 503, 504}
"""Statuses of a commit after which Iceberg's Java client takes its outcome for unknown."""
NO_COMMIT = {errors.MountUnavailable}
"""Errors of requests that never commit: a mounted catalog is only read."""


def test_only_an_unknown_outcome_of_a_commit_has_a_status_that_says_so() -> None:
    statuses = {
        error_class: status
        for error_class, (status, _) in wire_errors.WIRE_ERRORS.items()
        if status in UNKNOWN_TO_JAVA and error_class not in NO_COMMIT
    }
    assert statuses == {errors.CommitStateUnknown: 500, errors.IntegrityBroken: 500}


def test_a_429_says_when_the_client_may_come_again() -> None:
    answer = wire.encode_error(429, "TooManyRequestsException", "later")
    assert ("retry-after", "1") in answer.headers
    assert not [name for name, _ in wire.encode_error(507, "x", "y").headers if "retry" in name]

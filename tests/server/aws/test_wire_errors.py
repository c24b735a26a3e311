"""Every error of the floors below has an answer in the forms that AWS's clients read."""

from __future__ import annotations

import inspect
import xml.etree.ElementTree as ET
from collections.abc import Iterator

import pytest

from server import errors as kit_errors
from server import unserved
from server.access import errors as access_errors
from server.auth import errors as auth_errors
from server.aws import errors, wire_errors
from tests.server.requesting import request

ELSEWHERE = {
    kit_errors.KitError, kit_errors.ClientDisconnected, kit_errors.MalformedXML,
    kit_errors.FaceNotServed, kit_errors.NoSuchRoute, kit_errors.MethodNotAllowed,
    access_errors.AccessError, access_errors.MalformedPolicy, access_errors.MalformedARN,
    access_errors.NoSuchAccessKey, access_errors.WrongPassword, access_errors.InvalidJWT,
    access_errors.ExpiredJWT, access_errors.InvalidPAT, access_errors.ExpiredPAT,
    access_errors.CorruptKeys, errors.AwsError,
}  # fmt: skip
"""What is no answer, or is another's: a face with a table of its own, or the door's."""

OF_A_MODEL = {
    each for _, each in inspect.getmembers(errors, inspect.isclass) if issubclass(each, Exception)
}
"""What only a face that has a service model raises."""


def every_error() -> Iterator[type[Exception]]:
    for module in (kit_errors, access_errors, auth_errors, errors):
        for _, each in inspect.getmembers(module, inspect.isclass):
            if (
                issubclass(each, Exception)
                and each.__module__ == module.__name__
                and each not in ELSEWHERE
            ):
                yield each


def unserved_answer(error: Exception) -> tuple[int, str | None]:
    answer = unserved.Unserved("sts").encode_error(error, request())
    assert isinstance(answer.body, bytes)
    return answer.status, ET.fromstring(answer.body).findtext("Error/Code")


@pytest.mark.parametrize(
    "error_class",
    list(every_error()),
    ids=lambda error_class: f"{error_class.__module__}.{error_class.__name__}",
)
def test_every_error_has_an_answer_that_is_no_fault_of_ours(error_class: type[Exception]) -> None:
    error = error_class.__new__(error_class)
    assert wire_errors.wire_error(error, (wire_errors.COMMON,)) is not wire_errors.INTERNAL
    assert wire_errors.wire_error(error, (wire_errors.QUERY,)) is not wire_errors.INTERNAL
    if error_class not in OF_A_MODEL:
        assert unserved_answer(error)[1] != "InternalFailure"


@pytest.mark.parametrize(
    ("error_class", "common", "query"),
    [
        (kit_errors.BodyStalled, (408, "RequestTimeoutException"), (408, "RequestTimeout")),
        (auth_errors.TooManyFailures, (429, "ThrottlingException"), (429, "Throttling")),
        (
            auth_errors.SignatureDoesNotMatch,
            (403, "InvalidSignatureException"),
            (403, "SignatureDoesNotMatch"),
        ),
    ],
)
def test_errors_that_allow_a_retry_have_another_status(
    error_class: type[Exception], common: tuple[int, str], query: tuple[int, str]
) -> None:
    error = error_class.__new__(error_class)
    answer = wire_errors.wire_error(error, (wire_errors.COMMON,))
    assert (answer.status, answer.code) == common
    assert unserved_answer(error) == query

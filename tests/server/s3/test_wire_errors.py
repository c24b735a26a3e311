"""Every error class of this floor and those below has its answer."""

from __future__ import annotations

import inspect
import xml.etree.ElementTree as ET
from types import ModuleType

import pytest

from server import errors as kit_errors
from server.access import errors as access_errors
from server.access import principals
from server.auth import errors as auth_errors
from server.s3 import errors, guard, wire_errors
from storage import errors as storage_errors

MODULES = (errors, storage_errors, auth_errors, access_errors, kit_errors)
ROOTS = {
    errors.S3Error,
    storage_errors.StorageError,
    auth_errors.AuthError,
    auth_errors.PayloadError,
    access_errors.AccessError,
    kit_errors.KitError,
}


def classes_of(module: ModuleType) -> list[type[Exception]]:
    return [
        each
        for _, each in inspect.getmembers(module, inspect.isclass)
        if issubclass(each, Exception) and each.__module__ == module.__name__
    ]


ALL = [each for module in MODULES for each in classes_of(module) if each not in ROOTS]
ALL += [guard.LayoutRefused]


@pytest.mark.parametrize(
    "error_class", ALL, ids=lambda error_class: f"{error_class.__module__}.{error_class.__name__}"
)
def test_every_error_class_has_a_row_of_its_own(error_class: type[Exception]) -> None:
    assert error_class in wire_errors.WIRE_ERRORS
    row = wire_errors.WIRE_ERRORS[error_class]
    assert 300 <= row.status <= 599
    assert row.code.isalnum()


def test_no_row_is_for_a_class_that_is_gone() -> None:
    assert set(wire_errors.WIRE_ERRORS) <= set(ALL)


def test_an_unexpected_error_is_an_internal_error_without_details() -> None:
    answer = wire_errors.encode(
        RuntimeError("secret detail"), method="GET", resource="/b/k", request_id="1234", host_id="h"
    )
    assert answer.status == 500
    assert isinstance(answer.body, bytes)
    assert b"<Code>InternalError</Code>" in answer.body
    assert b"secret" not in answer.body


def test_a_start_up_error_is_an_internal_error_too() -> None:
    row, _ = wire_errors.find(principals.DuplicatePrincipal("two"))
    assert row.status == 500


def test_an_error_document_has_aws_form_and_is_always_readable() -> None:
    error = errors.InvalidArgument(
        "odd \x00 <message> & \ufffe", ArgumentName="n", ArgumentValue="\x1b[31m"
    )
    answer = wire_errors.encode(
        error, method="GET", resource="/b/\x01<k>", request_id="1234", host_id="h"
    )
    assert isinstance(answer.body, bytes)
    root = ET.fromstring(answer.body)
    assert [(child.tag, child.text) for child in root] == [
        ("Code", "InvalidArgument"),
        ("Message", "odd \ufffd <message> & \ufffd"),
        ("ArgumentName", "n"),
        ("ArgumentValue", "\ufffd[31m"),
        ("Resource", "/b/\ufffd<k>"),
        ("RequestId", "1234"),
        ("HostId", "h"),
    ]
    assert dict(answer.headers) == {"content-type": "application/xml"}


def test_the_quotes_of_a_message_stand_as_they_are() -> None:
    # minio-go's tests look for the text of a failed condition in the bytes of AWS's answer.
    error = errors.InvalidArgument('failed: ["eq", "$key", "<a>&quot;"]')
    answer = wire_errors.encode(
        error, resource='/b/"k"', method="GET", request_id="1234", host_id="h"
    )
    assert isinstance(answer.body, bytes)
    assert b'<Message>failed: ["eq", "$key", "&lt;a&gt;&amp;quot;"]</Message>' in answer.body
    assert ET.fromstring(answer.body).findtext("Message") == 'failed: ["eq", "$key", "<a>&quot;"]'
    assert ET.fromstring(answer.body).findtext("Resource") == '/b/"k"'


@pytest.mark.parametrize("canonical", ["GET\n/b/\xe9\n\nhost:a\n", ""])
def test_the_answer_to_a_wrong_signature_shows_in_bytes_what_should_be_signed(
    canonical: str,
) -> None:
    error = auth_errors.SignatureDoesNotMatch(
        "no match",
        access_key="A",
        signature_provided="ff",
        string_to_sign="AWS4\n\xe9",
        canonical_request=canonical,
    )
    answer = wire_errors.encode(error, method="GET", resource="/b", request_id="1234", host_id="h")
    assert isinstance(answer.body, bytes)
    root = ET.fromstring(answer.body)
    assert root.findtext("StringToSignBytes") == "41 57 53 34 0a e9"
    shown = root.findtext("CanonicalRequestBytes")
    assert shown == (canonical.encode("latin-1").hex(" ") or None)
    assert root.findtext("CanonicalRequest") == (canonical or None)


@pytest.mark.parametrize(
    ("error_class", "status", "code"),
    [
        # The codes of Amazon S3 for signatures without a valid time, and of version 2.
        (auth_errors.InvalidDate, 403, "AccessDenied"),
        (auth_errors.ExpiresOutOfRange, 403, "AccessDenied"),
        (auth_errors.MalformedV2Authorization, 400, "InvalidArgument"),
    ],
)
def test_a_malformed_proof_has_the_code_of_its_fault(
    error_class: type[Exception], status: int, code: str
) -> None:
    row, _ = wire_errors.find(error_class("bad", in_query=True))
    assert (row.status, row.code) == (status, code)


def test_a_malformed_presigned_request_has_a_code_of_its_own() -> None:
    header = auth_errors.MalformedAuthorization("bad")
    query = auth_errors.MalformedAuthorization("bad", in_query=True)
    assert wire_errors.find(header)[0].code == "AuthorizationHeaderMalformed"
    assert wire_errors.find(query)[0].code == "AuthorizationQueryParametersError"

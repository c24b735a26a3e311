"""The token endpoint."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from server.access import tokens
from tests.catalog.rest import rest_server as kit

EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
ACCESS = "urn:ietf:params:oauth:token-type:access_token"
ID, SECRET = kit.ROOT


def ask(rest: kit.RestServer, **form: str) -> kit.Answer:
    return rest.run(rest.token_answer(**form))


def basic(user: str, password: str) -> dict[str, str]:
    return {"authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


def test_an_access_key_pair_becomes_a_token_that_opens_the_catalog(rest: kit.RestServer) -> None:
    answer = ask(
        rest, grant_type="client_credentials", client_id=ID, client_secret=SECRET, scope="catalog"
    )
    assert answer.status == 200
    assert answer.headers["cache-control"] == "no-store"
    content = answer.json
    token = content.pop("access_token")
    assert content == {
        "token_type": "bearer",
        "expires_in": 3600,
        "issued_token_type": ACCESS,
        "scope": "catalog",
    }
    config = rest.send("GET", "/iceberg/v1/config", headers={"authorization": f"Bearer {token}"})
    assert config.status == 200


def test_the_pair_may_come_as_basic(rest: kit.RestServer) -> None:
    answer = rest.run(rest.token_answer(headers=basic(ID, SECRET), grant_type="client_credentials"))
    assert answer.status == 200
    encoded = rest.run(
        rest.token_answer(headers=basic(ID, "root%2Dsecret"), grant_type="client_credentials")
    )
    assert encoded.status == 200


@pytest.mark.parametrize(
    ("form", "status", "error"),
    [
        ({"grant_type": "client_credentials"}, 401, "invalid_client"),
        (
            {"grant_type": "client_credentials", "client_id": ID, "client_secret": "no"},
            401,
            "invalid_client",
        ),
        (
            {"grant_type": "client_credentials", "client_id": "no", "client_secret": SECRET},
            401,
            "invalid_client",
        ),
        ({"client_id": ID, "client_secret": SECRET}, 400, "invalid_request"),
        (
            {"grant_type": "password", "client_id": ID, "client_secret": SECRET},
            400,
            "unsupported_grant_type",
        ),
        (
            {
                "grant_type": "client_credentials",
                "client_id": ID,
                "client_secret": SECRET,
                "scope": "PRINCIPAL_ROLE:etl",
            },
            400,
            "invalid_scope",
        ),
        ({"grant_type": EXCHANGE}, 400, "invalid_request"),
        ({"grant_type": EXCHANGE, "subject_token": "x"}, 400, "invalid_grant"),
        (
            {"grant_type": EXCHANGE, "subject_token": "x", "subject_token_type": "other"},
            400,
            "invalid_request",
        ),
    ],
)
def test_a_refusal_has_oauths_form(
    rest: kit.RestServer, form: dict[str, str], status: int, error: str
) -> None:
    answer = ask(rest, **form)
    assert answer.status == status
    assert answer.json.keys() == {"error", "error_description"}
    assert answer.json["error"] == error
    assert ("www-authenticate" in answer.headers) == (status == 401)
    assert SECRET not in answer.body.decode()


def test_wrong_secrets_are_slowed_down_and_the_catalog_is_not(rest: kit.RestServer) -> None:
    token = rest.run(rest.token("root"))
    wrong = {"grant_type": "client_credentials", "client_id": ID, "client_secret": "no"}
    for _ in range(5):
        assert ask(rest, **wrong).json["error"] == "invalid_client"
    for form in (wrong, {**wrong, "client_secret": SECRET}):
        answer = ask(rest, **form)
        assert (answer.status, answer.headers["retry-after"]) == (429, "1")
        assert answer.json["error"] == "slow_down"
    other = ask(rest, **{**wrong, "client_id": "somebody else"})
    assert (other.status, other.json["error"]) == (401, "invalid_client")
    config = rest.send("GET", "/iceberg/v1/config", headers={"authorization": f"Bearer {token}"})
    assert config.status == 200
    rest.lake.clock.now_ms += 1000
    assert ask(rest, **{**wrong, "client_secret": SECRET}).status == 200
    assert ask(rest, **wrong).json["error"] == "invalid_client"


def test_encoded_forms_of_a_name_share_one_count_of_wrong_secrets(rest: kit.RestServer) -> None:
    wrong = {"grant_type": "client_credentials", "client_secret": "no"}
    forms = [ID, *(f"{ID[:at]}%{ord(ID[at]):02x}{ID[at + 1 :]}" for at in range(5))]
    answers = [ask(rest, **wrong, client_id=form).status for form in forms]
    assert answers == [401] * 5 + [429]


def test_secrets_in_the_address_are_refused(rest: kit.RestServer) -> None:
    answer = rest.send(
        "POST",
        f"/iceberg/v1/oauth/tokens?grant_type=client_credentials&client_id={ID}&client_secret={SECRET}",
        b"",
    )
    assert (answer.status, answer.json["error"]) == (400, "invalid_request")


def test_a_token_is_exchanged_for_a_newer_one(rest: kit.RestServer) -> None:
    first = rest.run(rest.token("root"))
    rest.lake.clock.now_ms += 3_000_000
    answer = ask(rest, grant_type=EXCHANGE, subject_token=first, subject_token_type=ACCESS)
    assert answer.status == 200
    second = answer.json["access_token"]
    rest.lake.clock.now_ms += 3_000_000
    old = rest.send("GET", "/iceberg/v1/config", headers={"authorization": f"Bearer {first}"})
    assert old.error[:2] == (401, "NotAuthorizedException")
    new = rest.send("GET", "/iceberg/v1/config", headers={"authorization": f"Bearer {second}"})
    assert new.status == 200


def test_a_token_that_has_ended_is_exchanged_by_who_has_the_pair(rest: kit.RestServer) -> None:
    old = rest.run(rest.token("root"))
    rest.lake.clock.now_ms += 3_700_000
    form = {"grant_type": EXCHANGE, "subject_token": old, "subject_token_type": ACCESS}
    assert ask(rest, **form).json["error"] == "invalid_grant"
    answer = rest.run(rest.token_answer(headers=basic(ID, SECRET), **form))
    assert answer.status == 200


def test_token_exchange_refuses_a_token_of_another_subject_or_use(tmp_path: Any) -> None:
    with kit.opened(tmp_path / "d", users={"alice": []}) as rest:
        theirs = rest.run(rest.token("alice"))
        form = {"grant_type": EXCHANGE, "subject_token": theirs}
        refused = rest.run(rest.token_answer(headers=basic(ID, SECRET), **form))
        assert refused.json["error"] == "invalid_grant"
        session = tokens.issue(
            rest.ring,
            typ="sf",
            subject="root",
            token_id="x" * 32,
            now_ms=rest.lake.clock(),
            lifetime_seconds=60,
        )
        wrong = ask(rest, grant_type=EXCHANGE, subject_token=session)
        assert wrong.json["error"] == "invalid_grant"


def test_a_body_beyond_its_bound_is_refused_in_oauths_form(rest: kit.RestServer) -> None:
    answer = rest.send("POST", "/iceberg/v1/oauth/tokens", b"x" * 100_000)
    assert answer.status in (400, 413)
    assert answer.json.keys() == {"error", "error_description"}

"""The actions that policies may name: AWS's own, and none that is misspelt."""

from __future__ import annotations

import inspect
import re

import botocore.session
import pytest

from server import calls
from server.access import actions, errors, policies
from server.s3 import demands, operations, rows
from tests.server import requesting


def policy(action):
    return {"Statement": [{"Effect": "Allow", "Action": action, "Resource": "*"}]}


@pytest.mark.parametrize(
    ("action", "hint"),
    [
        ("s3:GetObjects", "did you mean s3:GetObject?"),
        ("s3tables:CreateTabel", "did you mean s3tables:CreateTable?"),
        ("s3tables:getnamespaces", "did you mean s3tables:GetNamespace?"),
        ("s3:Frobnicate*", "no action of s3 fits 'Frobnicate*'"),
        ("lake:Adnin", "did you mean lake:Admin?"),
        ("sts:AssumeRoles", "did you mean sts:AssumeRole?"),
    ],
)
def test_a_misspelt_action_is_refused_with_the_one_that_was_meant(action, hint):
    with pytest.raises(errors.MalformedPolicy) as caught:
        policies.parse_policy(policy([action, "s3:GetObject"]), policy_type="identity")
    assert hint in str(caught.value)
    assert "Statement[0].Action" in str(caught.value)


@pytest.mark.parametrize(
    "action",
    ["*", "s3:*", "S3:getOBJECT", "s3:Get*", "s3:?etObject", "iam:PassRole", "sts:TagSession",
     "s3tables:*Table*", "lake:Admin"],
)  # fmt: skip
def test_actions_and_patterns_that_fit_one_are_taken(action):
    policies.parse_policy(policy(action), policy_type="identity")


@pytest.mark.parametrize("service", ["s3tables", "sts", "iam"])
def test_every_operation_of_awss_model_is_an_action(service):
    model = botocore.session.get_session().get_service_model(service)
    assert set(model.operation_names) <= set(actions.ACTIONS[service])


def test_every_action_that_an_answer_of_s3_demands_is_one():
    source = inspect.getsource(demands) + inspect.getsource(rows)
    literals = set(re.findall(r'"s3:([A-Za-z]+)"', source))
    for row in rows.ROWS:
        if row.status == "partly" and row.scope == "bucket":
            call = calls.Call(row.operation, operations.Target(bucket="b"), None)
            call.caller = requesting.root_caller()
            (demand,) = row.operation.demands(None, call)
            literals.add(demand.action.removeprefix("s3:"))
    assert len(literals) > 15
    keys = {
        "prefix",
        "delimiter",
        "VersionId",
        "RequestObjectTagKeys",
        "authType",
        "signatureversion",
        "signatureAge",
        "locationconstraint",
        "TlsVersion",
        "ObjectCreationOperation",
    }
    assert literals - set(actions.ACTIONS["s3"]) - keys == set()

"""The policy language: what a document may say, and what each operator makes of each value."""

from __future__ import annotations

import fnmatch
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server import limits
from server.access import errors, model, policies
from tests.kit import examples


def statement(**more):
    return {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*", **more}


def document(*statements, version="2012-10-17", **more):
    return {"Version": version, "Statement": list(statements), **more}


def parse(*statements, policy_type="identity", **more):
    return policies.parse_policy(document(*statements, **more), policy_type=policy_type)


def applies(said, action="s3:GetObject", resource="arn:aws:s3:::b/k", **values):
    named = {key.replace("__", ":").lower(): value for key, value in values.items()}
    return parse(statement(**said)).statements[0].applies(action, resource, named)


@pytest.mark.parametrize(
    ("said", "path"),
    [
        ([], ""),
        ("text", ""),
        ("{", ""),
        (b"\xff", ""),
        ('{"Version": "2012-10-17", "Version": "2012-10-17"}', ""),
        ("[" * 100_00, ""),
        ({}, "Statement"),
        ({"Statement": []}, "Statement"),
        ({"Statement": "x"}, "Statement"),
        ({"Statement": statement(), "Extra": 1}, "Extra"),
        ({"Statement": statement(), "Version": "2020-01-01"}, "Version"),
        ({"Statement": statement(), "Id": 5}, "Id"),
        (document("x"), "Statement[0]"),
        (document(statement(), statement(Effect="Maybe")), "Statement[1].Effect"),
        (document(statement(Effect="allow")), "Statement[0].Effect"),
        (document({"Action": "*", "Resource": "*"}), "Statement[0].Effect"),
        (document(statement(Sid=5)), "Statement[0].Sid"),
        (document(statement(Sid="a"), statement(Sid="a")), "Statement[1].Sid"),
        (document(statement(Actions="s3:*")), "Statement[0].Actions"),
        (document(statement(NotAction="s3:*")), "Statement[0]"),
        (document({"Effect": "Allow", "Resource": "*"}), "Statement[0]"),
        (document(statement(NotResource="*")), "Statement[0]"),
        (document({"Effect": "Allow", "Action": "*"}), "Statement[0]"),
        (document(statement(Action=[])), "Statement[0].Action"),
        (document(statement(Action="")), "Statement[0].Action"),
        (document(statement(Action=5)), "Statement[0].Action"),
        (document(statement(Action=["s3:*", 5])), "Statement[0].Action[1]"),
        (document(statement(Action="GetObject")), "Statement[0].Action"),
        (document(statement(Action="ec2:RunInstances")), "Statement[0].Action"),
        (document(statement(Action="s3:Get Object")), "Statement[0].Action"),
        (document(statement(Action="s*:GetObject")), "Statement[0].Action"),
        (document(statement(Resource="b/k")), "Statement[0].Resource"),
        (document(statement(Resource="arn:aws:s3")), "Statement[0].Resource"),
        (document(statement(Resource="arn:aws:s3:::")), "Statement[0].Resource"),
        (document(statement(Resource="arn:aws:ec2:::x")), "Statement[0].Resource"),
        (document(statement(Resource="arn:moon:s3:::x")), "Statement[0].Resource"),
        (document(statement(Resource=["*", "x"])), "Statement[0].Resource[1]"),
        (document(statement(Principal="*")), "Statement[0].Principal"),
        (document(statement(NotPrincipal="*")), "Statement[0].NotPrincipal"),
        (document(statement(Condition=[])), "Statement[0].Condition"),
        (
            document(statement(Condition={"StringEquals": "x"})),
            "Statement[0].Condition.StringEquals",
        ),
        (
            document(statement(Condition={"StringSame": {"aws:username": "x"}})),
            "Statement[0].Condition.StringSame.aws:username",
        ),
        (
            document(statement(Condition={"ForSome:StringEquals": {"aws:username": "x"}})),
            "Statement[0].Condition.ForSome:StringEquals",
        ),
        (
            document(statement(Condition={"NullIfExists": {"aws:username": "true"}})),
            "Statement[0].Condition.NullIfExists.aws:username",
        ),
        (
            document(statement(Condition={"StringEquals": {"username": "x"}})),
            "Statement[0].Condition.StringEquals.username",
        ),
        (
            document(statement(Condition={"StringEquals": {"ec2:Region": "x"}})),
            "Statement[0].Condition.StringEquals.ec2:Region",
        ),
        (
            document(statement(Condition={"IpAddress": {"aws:SourceIp": ["10.0.0.0/8", "x"]}})),
            "Statement[0].Condition.IpAddress.aws:SourceIp[1]",
        ),
        (
            document(statement(Condition={"NumericEquals": {"s3:max-keys": "ten"}})),
            "Statement[0].Condition.NumericEquals.s3:max-keys",
        ),
        (
            document(statement(Condition={"NumericEquals": {"s3:max-keys": "NaN"}})),
            "Statement[0].Condition.NumericEquals.s3:max-keys",
        ),
        (
            document(statement(Condition={"DateLessThan": {"aws:CurrentTime": "soon"}})),
            "Statement[0].Condition.DateLessThan.aws:CurrentTime",
        ),
        (
            document(statement(Condition={"Bool": {"aws:SecureTransport": "yes"}})),
            "Statement[0].Condition.Bool.aws:SecureTransport",
        ),
        (
            document(statement(Condition={"ArnLike": {"aws:PrincipalArn": "alice"}})),
            "Statement[0].Condition.ArnLike.aws:PrincipalArn",
        ),
        (
            document(statement(Condition={"Null": {"aws:username": "maybe"}})),
            "Statement[0].Condition.Null.aws:username",
        ),
        (
            document(statement(Condition={"BinaryEquals": {"s3:prefix": "***"}})),
            "Statement[0].Condition.BinaryEquals.s3:prefix",
        ),
        (
            document(statement(Condition={"StringEquals": {"aws:username": [{}]}})),
            "Statement[0].Condition.StringEquals.aws:username[0]",
        ),
        ({"Statement": statement(Effect="x")}, "Statement.Effect"),
    ],
)
def test_faulty_document_is_refused_with_the_path_to_its_fault(said, path):
    with pytest.raises(errors.MalformedPolicy) as caught:
        policies.parse_policy(said, policy_type="identity")
    assert caught.value.path == path


@pytest.mark.parametrize(
    ("said", "path"),
    [
        (statement(), "Statement[0]"),
        (statement(Principal="alice"), "Statement[0].Principal"),
        (statement(Principal={}), "Statement[0].Principal"),
        (statement(Principal={"User": "*"}), "Statement[0].Principal.User"),
        (statement(Principal={"AWS": "alice"}), "Statement[0].Principal.AWS"),
        (statement(Principal={"AWS": ["*", "arn:aws:s3:::b"]}), "Statement[0].Principal.AWS[1]"),
        (statement(Principal={"AWS": "12345"}), "Statement[0].Principal.AWS"),
        (statement(Principal={"AWS": "arn:aws:iam::12345:root"}), "Statement[0].Principal.AWS"),
        (statement(Principal="*", NotPrincipal="*"), "Statement[0]"),
    ],
)
def test_faulty_principal_of_a_resource_policy_is_refused(said, path):
    with pytest.raises(errors.MalformedPolicy) as caught:
        parse(said, policy_type="resource")
    assert caught.value.path == path


def test_document_may_be_text_and_is_bounded():
    text = json.dumps(document(statement()))
    assert len(policies.parse_policy(text, policy_type="identity").statements) == 1
    assert len(policies.parse_policy(text.encode(), policy_type="identity").statements) == 1
    with pytest.raises(errors.MalformedPolicy):
        policies.parse_policy(text + " " * 20_480, policy_type="identity")
    with pytest.raises(errors.MalformedPolicy):
        parse(*[statement()] * 501)


def test_a_policys_size_is_that_of_its_text_in_utf_8():
    def text_of(size_bytes):
        text = json.dumps(document(statement(Sid="é")), ensure_ascii=False)
        return text + " " * (size_bytes - len(text.encode()))

    fitting, longer = text_of(limits.POLICY_BYTES_MAX), text_of(limits.POLICY_BYTES_MAX + 1)
    for text in (fitting, fitting.encode()):
        assert policies.decode(text)["Statement"][0]["Sid"] == "é"
    for text in (longer, longer.encode()):
        with pytest.raises(errors.MalformedPolicy, match="bytes long"):
            policies.decode(text)
    assert policies.decode('{"Sid": "\ud800"}') == {"Sid": "\ud800"}


@pytest.mark.parametrize("policy_type", ["identity", "resource"])
def test_a_clients_policy_has_few_patterns_that_are_compared_with_all_actions(policy_type):
    principal = {"Principal": "*"} if policy_type == "resource" else {}

    def patterns(count):
        cheap = ["s3:Get*", "s3:ListBucket", "*"] * 100
        actions = [*cheap, *["s3:*t"] * (count - 1)]
        entry = {"Effect": "Allow", "Action": actions, "Resource": "*", **principal}
        other = {"Effect": "Deny", "NotAction": "s3:?*", "Resource": "*", **principal}
        return {"Version": "2012-10-17", "Statement": [entry, other]}

    policies.parse_policy(patterns(100), policy_type=policy_type, is_clients=True)
    with pytest.raises(errors.MalformedPolicy, match="100 actions"):
        policies.parse_policy(patterns(101), policy_type=policy_type, is_clients=True)
    policies.parse_policy(patterns(101), policy_type=policy_type)  # a configured one
    policies.parse_policy(patterns(101), policy_type=policy_type, is_stored=True)


def test_a_stored_policy_binds_whether_or_not_its_actions_are_known():
    """They were looked up when it was written, maybe by another release."""
    denied = document(statement(Effect="Deny", Action=["s3:GetNothing", "s3:*G?t*Object"]))
    with pytest.raises(errors.MalformedPolicy, match="GetNothing"):
        policies.parse_policy(denied, policy_type="identity")
    stored = policies.parse_policy(denied, policy_type="identity", is_stored=True)
    for action in ("s3:GetNothing", "s3:GetObject"):
        assert stored.statements[0].applies(action, "arn:aws:s3:::b/k", {})
    assert not stored.statements[0].applies("s3:PutObject", "arn:aws:s3:::b/k", {})


def test_a_resources_policy_has_few_variables():
    def variables(count):
        patterns = ["${aws:Referer}" + str(number) for number in range(count)]
        condition = {"StringLike": {"aws:UserAgent": patterns}}
        text = json.dumps(document(statement(Principal="*", Condition=condition)))
        return text.replace("$", "\\u0024")

    policies.parse_policy(variables(32), policy_type="resource")
    with pytest.raises(errors.MalformedPolicy):
        policies.parse_policy(variables(33), policy_type="resource")


def test_statements_are_named_by_their_sid_or_number():
    said = parse(statement(), statement(Sid="Readers"))
    assert [entry.name for entry in said.statements] == ["0", "Readers"]


@pytest.mark.parametrize(
    ("pattern", "action", "expected"),
    [
        ("*", "s3tables:GetTable", True),
        ("s3:GetObject", "s3:GetObject", True),
        ("S3:getobject", "s3:GetObject", True),
        ("s3:Get*", "s3:GetObjectTagging", True),
        ("s3:Get*", "s3:PutObject", False),
        ("s3:*", "s3tables:GetTable", False),
        ("s3:?etObject", "s3:GetObject", True),
        ("s3:?etObject", "s3:etObject", False),
        (["s3:PutObject", "s3:GetObject"], "s3:GetObject", True),
    ],
)
def test_actions_match_without_regard_to_case(pattern, action, expected):
    assert applies({"Action": pattern}, action=action) is expected
    negated = {"Effect": "Allow", "NotAction": pattern, "Resource": "*"}
    parsed = policies.parse_policy(document(negated), policy_type="identity").statements[0]
    assert parsed.applies(action, "arn:aws:s3:::b", {}) is not expected


@pytest.mark.parametrize(
    ("pattern", "resource", "expected"),
    [
        ("*", "arn:aws:s3:::b/k", True),
        ("arn:aws:s3:::b/*", "arn:aws:s3:::b/a/b", True),
        ("arn:aws:s3:::b/*", "arn:aws:s3:::b", False),
        ("arn:aws:s3:::b", "arn:aws:s3:::b/k", False),
        ("arn:aws:s3:::B/*", "arn:aws:s3:::b/k", False),
        ("arn:aws:s3:::b/?", "arn:aws:s3:::b/kk", False),
        ("arn:aws:s3:::b*", "arn:aws:s3:::bc/k", True),
        ("arn:aws:s3:::b/k.", "arn:aws:s3:::b/kx", False),
        ("arn:aws:s3:::b/*", "arn:aws:s3:::b/line\nbreak", True),
        ("arn:*:s3:::b/*", "arn:aws:s3:::b/k", True),
        (
            "arn:aws:s3tables:*:*:bucket/lake/table/*",
            "arn:aws:s3tables:us-east-1:000000000000:bucket/lake/table/u",
            True,
        ),
    ],
)
def test_resources_match_with_regard_to_case(pattern, resource, expected):
    assert applies({"Resource": pattern}, resource=resource) is expected
    negated = {"Effect": "Allow", "Action": "*", "NotResource": pattern}
    parsed = policies.parse_policy(document(negated), policy_type="identity").statements[0]
    assert parsed.applies("s3:GetObject", resource, {}) is not expected


@pytest.mark.parametrize("stars", ["*" * 5000 + "x", "*a" * 200 + "*x", "*?a" * 100 + "x"])
def test_many_stars_cost_no_patience(stars):
    parsed = parse(statement(Resource="arn:aws:s3:::" + stars)).statements[0]
    assert not parsed.applies("s3:GetObject", "arn:aws:s3:::" + "a" * 1000, {})
    assert parsed.applies("s3:GetObject", "arn:aws:s3:::" + "a" * 1000 + "x", {})


@given(st.text(alphabet="ab*?", max_size=10), st.text(alphabet="ab", max_size=10), st.booleans())
@examples.at_most(500)
def test_patterns_match_as_shell_globs_do(pattern, value, variables):
    compiled = policies.compile_pattern(pattern, variables=variables)
    assert compiled.matches(value, {}) == fnmatch.fnmatchcase(value, pattern)


VARIABLE = "arn:aws:s3:::home/${aws:username}/*"


def test_variables_stand_for_the_callers_values():
    mine = "arn:aws:s3:::home/alice/x"
    assert applies({"Resource": VARIABLE}, resource=mine, aws__username=("alice",))
    assert not applies({"Resource": VARIABLE}, resource=mine, aws__username=("bob",))
    assert not applies({"Resource": VARIABLE}, resource=mine)
    assert not applies({"Resource": VARIABLE}, resource=mine, aws__username=("alice", "bob"))
    # A value is never a pattern.
    assert not applies({"Resource": VARIABLE}, resource=mine, aws__username=("*",))


def test_a_very_long_value_stands_for_no_variable():
    pattern = policies.compile_pattern("home/${aws:referer}/*", variables=True)
    for length, matches in ((1024, True), (1025, False)):
        value = "u" * length
        assert pattern.matches(f"home/{value}/x", {"aws:referer": (value,)}) is matches


def test_a_value_longer_than_any_name_is_matched_by_a_star_alone():
    compiled = {text: policies.compile_pattern(text, variables=False) for text in ("*", "a*")}
    for length, patterns in ((4096, {"*", "a*"}), (4097, {"*"})):
        value = "a" * length
        assert {text for text, each in compiled.items() if each.matches(value, {})} == patterns


def test_variable_may_have_a_default():
    said = {"Resource": "arn:aws:s3:::home/${aws:username, 'guest'}/*"}
    assert applies(said, resource="arn:aws:s3:::home/guest/x")


def test_escapes_stand_for_themselves():
    said = {"Resource": "arn:aws:s3:::b/${*}${?}${$}"}
    assert applies(said, resource="arn:aws:s3:::b/*?$")
    assert not applies(said, resource="arn:aws:s3:::b/aaa")


def test_variables_are_text_in_the_old_version():
    said = policies.parse_policy(
        document(statement(Resource=VARIABLE), version="2008-10-17"), policy_type="identity"
    ).statements[0]
    name = {"aws:username": ("alice",)}
    assert not said.applies("s3:GetObject", "arn:aws:s3:::home/alice/x", name)
    assert said.applies("s3:GetObject", "arn:aws:s3:::home/${aws:username}/x", {})


def test_the_arn_of_a_condition_is_text_in_the_old_version():
    condition = {"ArnLike": {"aws:SourceArn": "arn:aws:s3:::${no such key}"}}
    with pytest.raises(errors.MalformedPolicy, match=r"Condition\.ArnLike\.aws:SourceArn"):
        parse(statement(Condition=condition))
    said = parse(statement(Condition=condition), version="2008-10-17").statements[0]
    text = {"aws:sourcearn": ("arn:aws:s3:::${no such key}",)}
    assert said.applies("s3:GetObject", "arn:aws:s3:::b/k", text)


def test_an_element_has_a_bounded_number_of_values():
    actions = ["s3:GetObject"] * limits.POLICY_VALUES_MAX
    assert parse(statement(Action=actions)).statements[0].allow
    with pytest.raises(errors.MalformedPolicy) as caught:
        parse(statement(Action=[*actions, "s3:GetObject"]))
    assert str(caught.value) == "Statement[0].Action: has too many values"
    with pytest.raises(errors.MalformedPolicy) as caught:
        parse(statement(Action=[]))
    assert str(caught.value) == "Statement[0].Action: has no value"


# Operator, written values, a value that fits, one that does not.
POSITIVE = {
    "StringEquals": (["a", "b"], "b", "B"),
    "StringEqualsIgnoreCase": (["a", "straße"], "STRAßE", "STRASSE"),
    "StringLike": (["a*", "x?z"], "xyz", "xz"),
    "NumericEquals": (["5", 7], "5.0", "6"),
    "NumericLessThan": ("10", "9", "10"),
    "NumericLessThanEquals": ("10", "10", "11"),
    "NumericGreaterThan": ("10", "11", "10"),
    "NumericGreaterThanEquals": ("10", "10", "9"),
    "DateEquals": ("2025-11-21T16:00:00Z", "1763740800", "2025-11-21T16:00:01Z"),
    "DateLessThan": ("2025-11-21", "2025-11-20T23:59:59Z", "2025-11-21T00:00:00Z"),
    "DateLessThanEquals": ("2025-11-21", "2025-11-21T00:00:00Z", "2025-11-21T00:00:01Z"),
    "DateGreaterThan": ("2025-11-21", "2025-11-21T00:00:01Z", "2025-11-21T00:00:00Z"),
    "DateGreaterThanEquals": ("2025-11-21", "2025-11-21T00:00:00Z", "2025-11-20T23:00:00Z"),
    "Bool": (True, "true", "false"),
    "BinaryEquals": ("YWJj", "YWJj", "YWJk"),
    "IpAddress": (["10.0.0.0/8", "::1"], "10.255.0.1", "11.0.0.1"),
    "ArnEquals": (
        "arn:aws:iam::*:user/al*",
        "arn:aws:iam::1:user/alice",
        "arn:aws:iam::1:user/bob",
    ),
    "ArnLike": ("arn:aws:iam::1:user/*", "arn:aws:iam::1:user/a", "arn:aws:iam::1:role/a"),
}
NEGATED = {
    "StringNotEquals": "StringEquals",
    "StringNotEqualsIgnoreCase": "StringEqualsIgnoreCase",
    "StringNotLike": "StringLike",
    "NumericNotEquals": "NumericEquals",
    "DateNotEquals": "DateEquals",
    "NotIpAddress": "IpAddress",
    "ArnNotEquals": "ArnEquals",
    "ArnNotLike": "ArnLike",
}


def holds(operator, written, *values):
    said = {"Condition": {operator: {"aws:TagKeys": written}}}
    return applies(said, aws__tagkeys=tuple(values)) if values else applies(said)


def test_every_operator_is_in_the_matrix():
    assert set(POSITIVE) | set(NEGATED) | {"Null"} == set(policies.OPERATORS)


@pytest.mark.parametrize("operator", POSITIVE)
def test_positive_operator_with_missing_one_and_many_values(operator):
    written, fits, differs = POSITIVE[operator]
    assert not holds(operator, written)
    assert holds(operator, written, fits)
    assert not holds(operator, written, differs)
    assert holds(operator, written, differs, fits)
    assert holds(operator + "IfExists", written)
    assert not holds(operator + "IfExists", written, differs)
    assert holds("ForAnyValue:" + operator, written, differs, fits)
    assert not holds("ForAnyValue:" + operator, written, differs)
    assert not holds("ForAnyValue:" + operator, written)
    assert holds("ForAllValues:" + operator, written)
    assert holds("ForAllValues:" + operator, written, fits, fits)
    assert not holds("ForAllValues:" + operator, written, fits, differs)


@pytest.mark.parametrize("operator", NEGATED)
def test_negated_operator_with_missing_one_and_many_values(operator):
    written, fits, differs = POSITIVE[NEGATED[operator]]
    assert holds(operator, written)
    assert not holds(operator, written, fits)
    assert holds(operator, written, differs)
    assert not holds(operator, written, differs, fits)
    assert holds(operator + "IfExists", written)
    assert not holds(operator + "IfExists", written, fits)
    assert holds("ForAnyValue:" + operator, written, differs, fits)
    assert not holds("ForAnyValue:" + operator, written, fits)
    assert not holds("ForAnyValue:" + operator, written)
    assert holds("ForAllValues:" + operator, written)
    assert holds("ForAllValues:" + operator, written, differs)
    assert not holds("ForAllValues:" + operator, written, differs, fits)


@pytest.mark.parametrize(
    ("operator", "value"),
    [
        ("NumericEquals", "five"),
        ("DateLessThan", "never"),
        ("IpAddress", "localhost"),
        ("ArnLike", "alice"),
    ],
)
def test_given_value_of_another_kind_fits_nothing(operator, value):
    written, _, _ = POSITIVE[operator]
    assert not holds(operator, written, value)


def test_null_asks_whether_a_key_is_there():
    assert holds("Null", "true")
    assert not holds("Null", "true", "x")
    assert not holds("Null", False)
    assert holds("Null", False, "x")


def test_operators_and_keys_must_all_hold():
    said = {
        "Condition": {
            "StringEquals": {"aws:Referer": "1", "aws:UserAgent": "2"},
            "NumericLessThan": {"s3:max-keys": "3"},
        }
    }
    good = {"aws__referer": ("1",), "aws__useragent": ("2",), "s3__max-keys": ("2",)}
    assert applies(said, **good)
    for key in good:
        assert not applies(said, **{**good, key: ("9",)})


def test_condition_keys_compare_without_regard_to_case():
    said = {"Condition": {"StringEquals": {"AWS:UserName": "alice"}}}
    assert applies(said, aws__username=("alice",))


def test_condition_values_may_hold_variables():
    said = {"Condition": {"StringLike": {"s3:prefix": "${aws:username}/*"}}}
    assert applies(said, aws__username=("alice",), s3__prefix=("alice/x",))
    assert not applies(said, aws__username=("bob",), s3__prefix=("alice/x",))


ALICE = model.Principal(
    type="user",
    name="alice",
    arn="arn:aws:iam::000000000000:user/alice",
    account_id="000000000000",
    canonical_id="c" * 64,
    display_name="Alice",
)


@pytest.mark.parametrize(
    ("principal", "expected"),
    [
        ("*", "direct"),
        ({"AWS": "*"}, "direct"),
        ({"AWS": ALICE.arn}, "direct"),
        ({"AWS": ["arn:aws:iam::000000000000:user/bob", ALICE.arn]}, "direct"),
        ({"CanonicalUser": "c" * 64}, "direct"),
        ({"AWS": "000000000000"}, "account"),
        ({"AWS": "arn:aws:iam::000000000000:root"}, "account"),
        ({"AWS": "111111111111"}, "none"),
        ({"AWS": "arn:aws:iam::tenant1:root"}, "none"),
        ({"AWS": "arn:aws:iam::tenant1:user/alice"}, "none"),
        ({"AWS": "arn:aws:iam::000000000000:user/bob"}, "none"),
        ({"CanonicalUser": "d" * 64}, "none"),
        ({"Service": "logging.s3.amazonaws.com"}, "none"),
        ({"Federated": "example.com"}, "none"),
    ],
)
def test_principals_are_named_by_themselves_or_by_their_account(principal, expected):
    said = parse(statement(Principal=principal), policy_type="resource").statements[0]
    assert said.names(ALICE) == expected
    said = parse(statement(NotPrincipal=principal), policy_type="resource").statements[0]
    assert said.names(ALICE) == ("none" if expected != "none" else "direct")


def test_anonymous_caller_is_named_by_everyone_alone():
    anonymous = model.anonymous()
    for principal, expected in (("*", "direct"), ({"AWS": "000000000000"}, "none")):
        said = parse(statement(Principal=principal), policy_type="resource").statements[0]
        assert said.names(anonymous) == expected


@pytest.mark.parametrize("variables", ["2012-10-17", "2008-10-17"])
def test_the_longest_hostile_documents_are_read_in_bounded_work(variables):
    """Each took seconds to minutes while expressions and rescans read them."""
    stars = [f"s3:{'*' * (i % 7)}Get{'*' * (i // 7)}x" for i in range(200)]
    with pytest.raises(errors.MalformedPolicy) as caught:
        parse(statement(Action=stars), version=variables)
    assert caught.value.path == "Statement[0].Action[0]"
    stars = [each.removesuffix("x") + "*" for each in stars]
    assert applies({"Action": stars}) is True
    unclosed = "arn:aws:s3:::b/" + "${" * 9_000
    parsed = parse(statement(Resource=unclosed), version=variables).statements[0]
    assert parsed.applies("s3:GetObject", unclosed, {}) is False  # longer than any name
    assert parsed.applies("s3:GetObject", unclosed[:-1], {}) is False


def test_a_policy_names_its_statements_about_each_action_however_often_it_is_asked():
    policy = parse(
        statement(Sid="Reads", Action=["s3:Get*", "s3:List*"]),
        statement(Sid="Writes", Action="S3:PUTOBJECT"),
        {"Sid": "Others", "Effect": "Deny", "NotAction": "s3:*", "Resource": "*"},
    )
    expected = {
        "s3:GetObject": ["Reads"],
        "s3:PutObject": ["Writes"],
        "s3:DeleteObject": [],
        "iam:GetUser": ["Others"],
    }
    for number in range(3 * policies.ACTIONS_ABOUT_MAX):
        for action, names in expected.items():
            assert [each.name for each in policy.about(action)] == names
        assert policy.about(f"s3:List{number}")[0].name == "Reads"
        assert policy.about("s3:" + "x" * 1000 + str(number)) == ()
    assert len(policy._about) <= policies.ACTIONS_ABOUT_MAX
    assert max(map(len, policy._about)) <= policies.ACTION_CHARS_MAX

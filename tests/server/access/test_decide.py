"""The one decision: its order of steps as a table, and the properties that must never break."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server.access import decide, errors, model, policies
from tests.kit import examples

HERE, ELSEWHERE = "000000000000", "111111111111"
READ = model.Demand(action="s3:GetObject", resource="arn:aws:s3:::b/k", place="b/k")
WRITE = model.Demand(action="s3:PutObject", resource="arn:aws:s3:::b/k", place="b/k")


def principal(*documents, account=HERE, **more):
    return model.Principal(
        type="user",
        name="alice",
        arn=f"arn:aws:iam::{account}:user/alice",
        account_id=account,
        canonical_id="c" * 64,
        display_name="alice",
        policies=tuple(
            policies.parse_policy(
                {"Version": "2012-10-17", "Statement": document}, policy_type="identity"
            )
            for document in documents
        ),
        **more,
    )


ROOT = dataclasses.replace(principal(), type="root", name="root")


def says(effect, action="s3:*", resource="*", **more):
    return {"Effect": effect, "Action": action, "Resource": resource, **more}


def resource_policy(effect, who="*", action="s3:*", resource="*", **more):
    return policies.parse_policy(
        {
            "Version": "2012-10-17",
            "Statement": says(effect, action, resource, Principal=who, **more),
        },
        policy_type="resource",
    )


def decision(who, *resource_policies, account=None, demand=READ):
    return decide.authorise(who, demand, resource_policies, resource_account=account)


ALLOW, DENY = says("Allow"), says("Deny")
BY_NAME = {"AWS": f"arn:aws:iam::{HERE}:user/alice"}
BY_ACCOUNT = {"AWS": HERE}


@pytest.mark.parametrize(
    ("own", "theirs", "account", "allowed", "reason"),
    [
        # Nothing allows.
        ([], [], None, False, "no-allow"),
        ([says("Allow", "s3:PutObject")], [], None, False, "no-allow"),
        # Within the account either side allows.
        ([ALLOW], [], None, True, "allow"),
        ([ALLOW], [], HERE, True, "allow"),
        ([], [("Allow", "*")], HERE, True, "allow"),
        ([], [("Allow", BY_NAME)], HERE, True, "allow"),
        ([], [("Allow", BY_ACCOUNT)], HERE, False, "no-allow"),
        ([ALLOW], [("Allow", BY_ACCOUNT)], HERE, True, "allow"),
        # Across accounts both must.
        ([ALLOW], [], ELSEWHERE, False, "no-allow"),
        ([], [("Allow", "*")], ELSEWHERE, False, "no-allow"),
        ([ALLOW], [("Allow", "*")], ELSEWHERE, True, "allow"),
        ([ALLOW], [("Allow", BY_NAME)], ELSEWHERE, True, "allow"),
        ([ALLOW], [("Allow", BY_ACCOUNT)], ELSEWHERE, True, "allow"),
        # An explicit Deny on either side wins.
        ([ALLOW, DENY], [], None, False, "explicit-deny"),
        ([DENY], [("Allow", "*")], None, False, "explicit-deny"),
        ([ALLOW], [("Deny", "*")], None, False, "explicit-deny"),
        ([ALLOW], [("Deny", BY_ACCOUNT)], HERE, False, "explicit-deny"),
        ([ALLOW], [("Allow", "*"), ("Deny", BY_NAME)], HERE, False, "explicit-deny"),
        ([ALLOW, says("Deny", "s3:PutObject")], [], None, True, "allow"),
    ],
)
def test_decision_table(own, theirs, account, allowed, reason):
    decided = decision(
        principal(*own),
        *(resource_policy(effect, who) for effect, who in theirs),
        account=account,
    )
    assert (decided.allow, decided.reason) == (allowed, reason)


def test_root_is_bound_by_no_deny():
    decided = decision(ROOT, resource_policy("Deny"), account=ELSEWHERE)
    assert decided == model.Decision(allow=True, reason="root")


def test_anonymous_caller_is_let_in_by_the_resource_alone():
    anonymous = model.anonymous()
    assert not decision(anonymous).allow
    assert decision(anonymous, resource_policy("Allow")).allow
    assert decision(anonymous, resource_policy("Allow"), account=ELSEWHERE).allow
    assert not decision(anonymous, resource_policy("Allow", BY_ACCOUNT)).allow
    assert not decision(anonymous, resource_policy("Allow"), resource_policy("Deny")).allow


def test_deciding_statements_are_named():
    who = principal(says("Allow", Sid="Readers"), says("Deny", Sid="NotToday"))
    assert decision(who).statements == ("NotToday",)
    assert decision(principal(says("Allow", Sid="Readers"))).statements == ("Readers",)


def test_every_denying_statement_is_named_whichever_side_has_it():
    who = principal(says("Deny", Sid="Own"), session_policies=identity(says("Deny", Sid="Session")))
    decided = decision(who, resource_policy("Deny", Sid="Theirs"))
    assert decided.statements == ("Own", "Theirs", "Session")


def identity(*statements):
    document = {"Version": "2012-10-17", "Statement": list(statements)}
    return (policies.parse_policy(document, policy_type="identity"),)


@pytest.mark.parametrize(
    ("session", "own", "theirs", "allowed", "reason"),
    [
        ((), [ALLOW], [], False, "session-policy"),
        (identity(says("Allow", "s3:PutObject")), [ALLOW], [], False, "session-policy"),
        (identity(ALLOW), [ALLOW], [], True, "allow"),
        (identity(ALLOW), [], [], False, "no-allow"),
        (identity(ALLOW), [], [("Allow", "*")], True, "allow"),
        ((), [], [("Allow", "*")], False, "session-policy"),
        (identity(ALLOW, DENY), [ALLOW], [("Allow", "*")], False, "explicit-deny"),
        (None, [ALLOW], [], True, "allow"),
    ],
)
def test_a_session_may_do_what_its_own_policies_allow_too(session, own, theirs, allowed, reason):
    decided = decision(
        principal(*own, session_policies=session),
        *(resource_policy(effect, who) for effect, who in theirs),
    )
    assert (decided.allow, decided.reason) == (allowed, reason)


@pytest.mark.parametrize(
    ("who", "expected"),
    [
        (principal(ALLOW), True),
        (principal(ALLOW, account=ELSEWHERE), False),
        (model.anonymous(), False),
        (dataclasses.replace(model.anonymous(), account_id=HERE), False),
    ],
)
def test_a_restricted_resource_lets_in_callers_of_its_account_alone(who, expected):
    def decided(restricted_to):
        return decide.authorise(
            who,
            READ,
            [resource_policy("Allow")],
            resource_account=who.account_id,
            restricted_to=restricted_to,
        )

    assert decided(HERE).allow is expected
    assert decided(None).allow


@pytest.mark.parametrize(
    ("demand", "who", "writes", "reads"),
    [
        (READ, principal(ALLOW), [], ["allow"]),
        (WRITE, principal(ALLOW), ["allow"], []),
        (msgspec.structs.replace(WRITE, only_reads=True), principal(ALLOW), [], ["allow"]),
        (READ, principal(), ["no-allow"], []),
        (WRITE, principal(DENY), ["explicit-deny"], []),
        (msgspec.structs.replace(WRITE, only_reads=True), principal(), ["no-allow"], []),
    ],
)
def test_denials_and_writes_are_recorded_as_one_and_allowed_reads_as_the_other(
    demand, who, writes, reads
):
    recorded, read = [], []
    authoriser = decide.Authoriser(
        now_ms=lambda: 0,
        record=lambda by, what, decided: recorded.append((by, what, decided.reason)),
        record_read=lambda by, what, decided: read.append((by, what, decided.reason)),
    )
    assert authoriser.records_reads
    with contextlib.suppress(errors.AccessDenied):
        authoriser.check(who, demand)
    assert recorded == [(who, demand, reason) for reason in writes]
    assert read == [(who, demand, reason) for reason in reads]
    without = decide.Authoriser(now_ms=lambda: 0)
    assert not without.records_reads
    with contextlib.suppress(errors.AccessDenied):
        without.check(who, demand)


SCOPED = (
    model.Scope(bucket="b", prefix="orders/", writable=False),
    model.Scope(bucket="b", prefix="drafts/", writable=True),
)


@pytest.mark.parametrize(
    ("action", "place", "expected"),
    [
        ("s3:GetObject", "b/orders/1", True),
        ("s3:PutObject", "b/orders/1", False),
        ("s3:DeleteObject", "b/orders/1", False),
        ("s3:PutObject", "b/drafts/1", True),
        ("s3:GetObject", "b/orders2/1", False),
        ("s3:GetObject", "b/orders", False),
        ("s3:GetObject", "b/", False),
        ("s3:GetObject", "b", False),
        ("s3:GetObject", "c/orders/1", False),
        ("s3:ListBucket", "b/orders/", True),
        ("s3:ListBucket", "b/orders/2025/", True),
        ("s3:ListBucket", "b/", False),
        ("s3:ListBucket", "b/ord", False),
        ("s3tables:GetTableData", "b/orders/1", True),
        ("s3tables:PutTableData", "b/orders/1", False),
        ("s3tables:GetTable", "", False),
    ],
)
def test_vended_credential_stays_within_its_scopes(action, place, expected):
    demand = model.Demand(action=action, resource="arn:aws:s3:::b", place=place)
    for who in (
        principal(says("Allow", "*"), scopes=SCOPED),
        dataclasses.replace(ROOT, scopes=SCOPED),
    ):
        decided = decision(who, demand=demand)
        assert decided.allow is expected
        if not expected:
            assert decided.reason == "scope"


@pytest.mark.parametrize(
    ("action", "resource", "expected"),
    [
        ("s3:GetBucketLocation", "arn:aws:s3:::b", True),
        ("s3:GetBucketLocation", "arn:aws:s3:::c", False),
        ("s3:GetBucketLocation", "arn:aws:s3:::b2", False),
        ("s3:GetBucketLocation", "*", False),
        ("s3:GetBucketVersioning", "arn:aws:s3:::b", False),
        ("s3:ListBucket", "arn:aws:s3:::b", False),
    ],
)
def test_vended_credential_tells_the_location_of_its_bucket(action, resource, expected):
    demand = model.Demand(action=action, resource=resource)
    assert decision(principal(says("Allow", "*"), scopes=SCOPED), demand=demand).allow is expected
    assert not decision(principal(scopes=SCOPED), demand=demand).allow


def test_a_demand_without_a_place_is_in_no_scope():
    scopes = (model.Scope(bucket="", prefix="", writable=True),)
    assert not decide.in_scope(scopes, model.Demand(action="s3:ListAllMyBuckets", resource="*"))


def test_root_is_unbound_but_in_the_scopes_of_a_vended_credential():
    assert decide.is_unbound(ROOT)
    assert not decide.is_unbound(dataclasses.replace(ROOT, scopes=SCOPED))
    assert not decide.is_unbound(dataclasses.replace(ROOT, scopes=()))
    assert not decide.is_unbound(principal(ALLOW))


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        ("iam:CreateUser", True),
        ("iam:ListUsers", False),
        ("iam:SimulatePrincipalPolicy", False),
        ("s3:PutBucketPolicy", True),
        ("s3:GetBucketPolicy", False),
        ("s3:PutObjectAcl", True),
        ("s3:PutObject", False),
        ("s3tables:PutTablePolicy", True),
    ],
)
def test_what_changes_who_may_do_something_is_marked_in_the_audit_log(action, expected):
    assert decide.changes_access(action) is expected


@pytest.mark.parametrize("account", [None, HERE])
def test_a_resource_without_an_owner_is_of_the_caller_s_account(account):
    for key in ("aws:ResourceAccount", "s3:ResourceAccount"):
        own = says("Allow", Condition={"StringEquals": {key: HERE}})
        assert decision(principal(own), account=account).allow
        other = says("Allow", Condition={"StringEquals": {key: ELSEWHERE}})
        assert not decision(principal(other), account=account).allow


def test_a_request_without_tags_has_no_condition_key_of_tags():
    assert decide.request_tags({}) == {}
    assert decide.request_tags({"Team": "blue"}) == {
        "aws:requesttag/team": ("blue",),
        "aws:TagKeys": ("Team",),
    }


def test_tags_are_read_only_for_a_policy_that_tests_them():
    calls = []

    def read():
        calls.append(1)
        return {"aws:resourcetag/team": ("blue",)}

    side = decide.ResourceSide(tags=read)
    assert decide.tags_of(principal(ALLOW), side) == {}
    assert calls == []
    asks = says("Allow", Condition={"StringEquals": {"aws:ResourceTag/team": "blue"}})
    assert decide.tags_of(principal(asks), side) == {"aws:resourcetag/team": ("blue",)}
    assert decide.tags_of(principal(asks), decide.ResourceSide()) == {}
    theirs = resource_policy("Allow", Condition=asks["Condition"])
    side = dataclasses.replace(side, policies=(theirs,))
    assert decide.tags_of(principal(ALLOW), side) == {"aws:resourcetag/team": ("blue",)}


NAMED = "arn:aws:s3:::b/${aws:username}*"
AGED = {"Condition": {"NumericLessThan": {"s3:signatureAge": "60000"}}}


@pytest.mark.parametrize(
    ("own", "theirs", "is_read"),
    [
        ([ALLOW, says("Deny", "s3:DeleteBucket")], [resource_policy("Allow")], False),
        ([ALLOW], [resource_policy("Deny", **AGED)], True),
        ([says("Allow", **AGED)], [], True),
        ([says("Allow", resource=NAMED)], [], True),
        ([{"Effect": "Allow", "Action": "s3:*", "NotResource": NAMED}], [], True),
    ],
)
def test_condition_keys_are_made_only_for_a_policy_that_tests_them(own, theirs, is_read):
    reads = []

    def make():
        reads.append(1)
        return {"s3:signatureAge": "1"}

    demand = msgspec.structs.replace(READ, context=model.LateContext(make))
    at_once = msgspec.structs.replace(READ, context={"s3:signatureAge": "1"})
    expected = decision(principal(*own), *theirs, demand=at_once)
    assert decision(principal(*own), *theirs, demand=demand) == expected
    assert bool(reads) == is_read
    assert dict(demand.context) == {"s3:signatureAge": "1"}
    assert len(demand.context) == 1
    assert reads == [1], "they are made once"


def test_condition_keys_are_made_for_the_policies_of_a_session():
    demand = msgspec.structs.replace(READ, context={"s3:signatureAge": "60000"})
    bound = principal(says("Allow", **AGED)).policies
    who = principal(ALLOW, session_policies=bound)
    assert decision(who, demand=demand).reason == "session-policy"
    fresh = msgspec.structs.replace(READ, context={"s3:signatureAge": "59999"})
    assert decision(who, demand=fresh).allow


def test_vended_credential_holds_no_more_than_its_principal():
    demand = model.Demand(
        action="s3:GetObject", resource="arn:aws:s3:::b/orders/1", place="b/orders/1"
    )
    assert not decision(principal(scopes=SCOPED), demand=demand).allow
    denied = principal(says("Allow", "*"), DENY, scopes=SCOPED)
    assert decision(denied, demand=demand).reason == "explicit-deny"


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        ("s3:GetObject", False),
        ("s3:ListBucket", False),
        ("s3:HeadBucket", False),
        ("lake:Query", False),
        ("s3:PutObject", True),
        ("s3tables:UpdateTableMetadataLocation", True),
        ("s3:AbortMultipartUpload", True),
        ("lake:Admin", True),
        ("unheard:Of", True),
    ],
)
def test_what_is_not_known_to_read_writes(action, expected):
    assert decide.is_write(action) is expected


def test_condition_values_come_from_connection_principal_demand_and_clock():
    who = principal(context={"aws:SourceIp": "10.0.0.1"})
    demand = msgspec.structs.replace(READ, context={"s3:Prefix": "a", "s3:tags": ("x", "y")})
    assert decide.condition_values(who, demand, now_ms=1_763_740_800_000) == {
        "aws:sourceip": ("10.0.0.1",),
        "s3:prefix": ("a",),
        "s3:tags": ("x", "y"),
        "aws:username": ("alice",),
        "aws:userid": ("alice",),
        "aws:principalarn": (who.arn,),
        "aws:principalaccount": (HERE,),
        "aws:principaltype": ("User",),
        "aws:principalisawsservice": ("false",),
        "aws:viaawsservice": ("false",),
        "aws:currenttime": ("2025-11-21T16:00:00+00:00",),
        "aws:epochtime": ("1763740800",),
    }
    anonymous = decide.condition_values(model.anonymous(), READ)
    assert anonymous == {
        "aws:principaltype": ("Anonymous",),
        "aws:userid": ("anonymous",),
        "aws:principalaccount": ("anonymous",),
    }


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("aws:PrincipalType", "Anonymous"),
        ("aws:userid", "anonymous"),
        ("aws:PrincipalAccount", "anonymous"),
    ],
)
def test_a_deny_of_anonymous_callers_denies_them(key, value):
    denial = resource_policy("Deny", Condition={"StringEquals": {key: value}})
    assert not decision(model.anonymous(), resource_policy("Allow"), denial).allow
    assert decision(principal(ALLOW), denial).allow


EQUAL = {"StringEquals": {"aws:ResourceTag/class": "open"}}
UNEQUAL = {"StringNotEquals": {"aws:ResourceTag/class": "open"}}
OWNER = {"StringEquals": {"aws:Username": "${aws:ResourceTag/class}"}}
NO_OWNER = {"StringNotEquals": {"aws:Username": "${aws:ResourceTag/class}"}}
BY_VARIABLE = "arn:aws:s3:::b/${aws:ResourceTag/class}"


@pytest.mark.parametrize(
    ("document", "tags", "allowed"),
    [
        # Each of the two values must be as an Allow wants it.
        (says("Allow", Condition=EQUAL), {"Class": "secret", "class": "open"}, False),
        (says("Allow", Condition=EQUAL), {"Class": "open", "class": "secret"}, False),
        (says("Allow", Condition=EQUAL), {"Class": "open", "class": "open"}, True),
        (says("Allow", Condition=UNEQUAL), {"Class": "secret", "class": "open"}, False),
        (says("Allow", Condition=UNEQUAL), {"Class": "secret", "class": "shut"}, True),
        (
            says("Allow", Condition={"ForAnyValue:StringEquals": EQUAL["StringEquals"]}),
            {"Class": "secret", "class": "open"},
            False,
        ),
        (
            says("Allow", Condition={"Null": {"aws:ResourceTag/class": "false"}}),
            {"Class": "secret", "class": "open"},
            True,
        ),
        # One of them is enough for a Deny.
        (says("Deny", Condition=EQUAL), {"Class": "secret", "class": "open"}, False),
        (says("Deny", Condition=EQUAL), {"Class": "open", "class": "secret"}, False),
        (says("Deny", Condition=EQUAL), {"Class": "secret", "class": "shut"}, True),
        (says("Deny", Condition=UNEQUAL), {"Class": "secret", "class": "open"}, False),
        (says("Deny", Condition=UNEQUAL), {"Class": "open", "class": "open"}, True),
        # A variable has one value or fails.
        (says("Allow", Condition=OWNER), {"Class": "alice", "class": "bob"}, False),
        (says("Allow", Condition=OWNER), {"Class": "alice", "class": "alice"}, True),
        (says("Allow", Condition=NO_OWNER), {"Class": "alice", "class": "bob"}, False),
        (says("Deny", Condition=OWNER), {"Class": "alice", "class": "bob"}, False),
        (says("Deny", Condition=NO_OWNER), {"Class": "alice", "class": "bob"}, False),
        (says("Allow", resource=BY_VARIABLE), {"Class": "k", "class": "x"}, False),
        (says("Allow", resource=BY_VARIABLE), {"Class": "k"}, True),
        (says("Deny", resource=BY_VARIABLE), {"Class": "k", "class": "x"}, False),
        (says("Deny", resource=BY_VARIABLE), {"Class": "x"}, True),
    ],
)
def test_of_tags_whose_keys_differ_in_case_none_hides_another(document, tags, allowed):
    base = [] if document["Effect"] == "Allow" else [ALLOW]
    who = principal(document, *base)
    for ordered in (tags, dict(reversed(tags.items()))):
        keys = decide.tag_keys(("aws:ResourceTag/",), ordered)
        assert decide.authorise(who, READ, tags=keys).allow is allowed


def test_of_tags_of_a_caller_whose_keys_differ_in_case_none_hides_another():
    red = {"StringEquals": {"aws:PrincipalTag/team": "red"}}
    tags = {"Team": "red", "team": "blue"}
    assert not decision(principal(says("Allow", Condition=red), tags=tags)).allow
    assert not decision(principal(ALLOW, says("Deny", Condition=red), tags=tags)).allow
    assert decision(principal(says("Allow", Condition=red), tags={"TEAM": "red"})).allow


def test_a_request_cannot_set_condition_keys_of_the_principal():
    demand = msgspec.structs.replace(READ, context={"aws:username": "bob", "AWS:PrincipalArn": "x"})
    values = decide.condition_values(principal(), demand)
    assert values["aws:username"] == ("alice",)
    assert values["aws:principalarn"] == (principal().arn,)


def test_source_address_and_time_bind():
    office = says(
        "Allow",
        Condition={
            "IpAddress": {"aws:SourceIp": "10.0.0.0/8"},
            "DateLessThan": {"aws:CurrentTime": "2025-11-22"},
        },
    )
    inside = principal(office, context={"aws:SourceIp": "10.1.1.1"})
    outside = principal(office, context={"aws:SourceIp": "192.0.2.1"})
    today, later = 1_763_740_800_000, 1_764_000_000_000
    assert decide.authorise(inside, READ, now_ms=today).allow
    assert not decide.authorise(inside, READ, now_ms=later).allow
    assert not decide.authorise(outside, READ, now_ms=today).allow


# The properties, over every policy that small parts make up

EFFECTS = ("Allow", "Deny")
ACTIONS = ("*", "s3:*", "s3:Get*", "s3:PutObject")
RESOURCES = ("*", "arn:aws:s3:::b/*", "arn:aws:s3:::other/*")
ENTRIES = [says(*parts) for parts in itertools.product(EFFECTS, ACTIONS, RESOURCES)]
entries = st.lists(st.sampled_from(ENTRIES), max_size=4)
demands = st.sampled_from([READ, WRITE])


def allows(who, demand, theirs=(), account=None):
    return decide.authorise(who, demand, theirs, resource_account=account).allow


@examples.at_most(150)
@given(entries, st.sampled_from(ENTRIES), demands)
def test_adding_a_deny_never_widens_and_an_allow_never_narrows(own, added, demand):
    before = allows(principal(*own), demand)
    after = allows(principal(*own, added), demand)
    assert after <= before if added["Effect"] == "Deny" else before <= after


@examples.at_most(100)
@given(entries, demands, st.randoms(use_true_random=False))
def test_order_of_statements_and_policies_never_matters(own, demand, random):
    shuffled = own[:]
    random.shuffle(shuffled)
    assert allows(principal(*own), demand) == allows(principal(*shuffled), demand)
    as_one = [own] if own else []
    assert allows(principal(*own), demand) == allows(principal(*as_one), demand)


@settings(max_examples=100)
@given(entries, demands)
def test_scope_never_widens(own, demand):
    scoped = principal(*own, scopes=(model.Scope(bucket="b", prefix="", writable=True),))
    assert allows(scoped, demand) <= allows(principal(*own), demand)


@settings(max_examples=100)
@given(entries, st.lists(st.sampled_from(EFFECTS), max_size=2), demands)
def test_another_account_never_gets_more_than_ones_own(own, effects, demand):
    theirs = [resource_policy(effect) for effect in effects]
    who = principal(*own)
    assert allows(who, demand, theirs, ELSEWHERE) <= allows(who, demand, theirs, HERE)


def test_principal_without_policies_can_do_nothing():
    for demand in (READ, WRITE):
        assert not allows(principal(), demand)


# The authoriser


def test_check_raises_with_the_missing_action_and_resource():
    judge = decide.Authoriser(now_ms=lambda: 0)
    judge.check(principal(ALLOW), READ)
    with pytest.raises(errors.AccessDenied) as caught:
        judge.check(principal(), READ)
    assert (caught.value.action, caught.value.resource) == (READ.action, READ.resource)
    assert str(caught.value) == (
        "arn:aws:iam::000000000000:user/alice is not authorized to perform s3:GetObject on "
        "resource arn:aws:s3:::b/k"
    )
    assert not judge.permits(principal(), READ)
    with pytest.raises(errors.AccessDenied, match=r"^anonymous is not"):
        judge.check(model.anonymous(), READ)


def test_authoriser_asks_what_the_resource_says():
    seen_demands = []

    def sides(demand):
        seen_demands.append(demand)
        return decide.ResourceSide(policies=(resource_policy("Allow"),), account=ELSEWHERE)

    judge = decide.Authoriser(now_ms=lambda: 0, resource_sides=sides)
    assert not judge.permits(principal(), READ)
    assert judge.permits(principal(ALLOW), READ)
    assert seen_demands == [READ, READ]
    assert judge.permits(ROOT, READ)
    assert len(seen_demands) == 2


def test_denials_and_writes_are_recorded_and_mere_questions_are_not():
    lines = []
    judge = decide.Authoriser(
        now_ms=lambda: 0, record=lambda *line: lines.append((line[1].action, line[2].allow))
    )
    judge.check(ROOT, READ)
    judge.check(ROOT, WRITE)
    judge.permits(principal(), WRITE)
    for demand in (READ, WRITE):
        with pytest.raises(errors.AccessDenied):
            judge.check(principal(), demand)
    assert lines == [("s3:PutObject", True), ("s3:GetObject", False), ("s3:PutObject", False)]

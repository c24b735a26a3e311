"""Where a setting comes from, and which settings are refused."""

from __future__ import annotations

import base64
import typing

import pytest

from catalog import departures, guard, maintenance, sites
from catalog.sweep import retention
from pipeline import errors as pipeline_errors
from pipeline import resources
from server import config


def test_resolve_without_anything_gives_the_defaults() -> None:
    resolved = config.resolve({}, {}, {})
    assert (resolved.host, resolved.port, resolved.table_buckets) == ("127.0.0.1", 5253, ("lake",))
    assert resolved.account == "000000000000"
    assert resolved.region == "us-east-1"
    assert resolved.users == ()


def test_resolve_a_flag_beats_the_environment_which_beats_the_file() -> None:
    environment = {"BOATHOUSE_PORT": "2"}
    document = {"port": 3, "region": "eu-central-1"}
    assert config.resolve({"port": 1}, environment, document).port == 1
    assert config.resolve({"port": None}, environment, document).port == 2
    assert config.resolve({}, {}, document).port == 3
    assert config.resolve({}, environment, document).region == "eu-central-1"


def test_resolve_reads_lists_and_flags_from_the_environment() -> None:
    environment = {
        "BOATHOUSE_TABLE_BUCKET": "one, two",
        "BOATHOUSE_BUCKET": "raw",
        "BOATHOUSE_NO_AUTH": "true",
        "BOATHOUSE_SAMPLE_DATA": "0",
    }
    resolved = config.resolve({}, environment, {})
    assert resolved.table_buckets == ("one", "two")
    assert resolved.buckets == ("raw",)
    assert (resolved.no_auth, resolved.sample_data) == (True, False)


def test_the_jobs_of_the_server_have_what_the_settings_say_else_what_the_machine_does() -> None:
    resolved = config.resolve({}, {}, {})
    assert (resolved.jobs_memory_mib, resolved.jobs_cores, resolved.jobs_conf) == (None, None, ())
    environment = {"BOATHOUSE_JOBS_CONF": "spark.a=1, spark.b=2", "BOATHOUSE_JOBS_CORES": "3"}
    resolved = config.resolve({}, environment, {"jobs_memory_mib": 2048})
    assert (resolved.jobs_memory_mib, resolved.jobs_cores) == (2048, 3)
    assert resolved.jobs_conf == ("spark.a=1", "spark.b=2")


def test_table_buckets_are_named_by_a_list_or_by_a_table_each() -> None:
    tables = {"curated": {"layout": "strict", "require_registered": True}, "lake": {}}
    resolved = config.resolve({}, {}, {"table_buckets": tables})
    assert resolved.table_buckets == ("curated", "lake")
    assert resolved.bucket_seeds == tables
    resolved = config.resolve({}, {}, {"table_buckets": ["one", "two"]})
    assert (resolved.table_buckets, resolved.bucket_seeds) == (("one", "two"), {})


def test_a_flag_says_which_table_buckets_there_are_and_the_file_how_they_are_made() -> None:
    tables = {"curated": {"layout": "strict"}}
    resolved = config.resolve({"table_buckets": ["lake"]}, {}, {"table_buckets": tables})
    assert (resolved.table_buckets, resolved.bucket_seeds) == (("lake",), tables)


def test_every_setting_of_a_table_bucket_has_an_effect() -> None:
    names = {setting.name: setting.choices for setting in config.BUCKET_SETTINGS}
    assert names == {
        guard.LAYOUT: typing.get_args(guard.Layout),
        guard.REQUIRE_REGISTERED: (),
        guard.AWS_STRICT: (),
        sites.REQUESTED_LOCATION: ("refuse", "override"),
        **dict.fromkeys(retention.DEFAULTS, ()),
        departures.PURGE_ON_DROP: ("asked", "always", "never"),
        **dict.fromkeys(maintenance.BUCKET_DEFAULTS, ()),
        departures.BUCKET_PROTECTED: (),
    }
    default = {
        "layout": "names",
        "require_registered": False,
        "aws_strict": False,
        "requested_location": "refuse",
        **retention.DEFAULTS,
        "purge_on_drop": "asked",
        **maintenance.BUCKET_DEFAULTS,
        "protected": False,
    }
    assert config.bucket_settings_of({}) == default
    other = config.bucket_settings_of({"layout": "other", "tags": {}})
    assert other == {**default, "layout": "other"}


ALICE = {"name": "a", "access_key": "k", "secret_key": "s"}


@pytest.mark.parametrize(
    ("flags", "environment", "document", "said"),
    [
        ({}, {}, {"prot": 1}, "unknown key 'prot'; did you mean port?; the keys are data"),
        ({}, {"BOATHOUSE_PORT": "many"}, {}, "not a whole number"),
        ({}, {}, {"port": "5253x"}, "not a whole number"),
        ({}, {}, {"port": True}, "not a whole number"),
        ({"port": 70000}, {}, {}, "not a port"),
        ({"no_auth": True, "host": "0.0.0.0"}, {}, {}, "--no-auth is refused"),
        ({"account": "12"}, {}, {}, "12 digits"),
        ({}, {"BOATHOUSE_ACCESS_KEY": "a"}, {}, "go together"),
        ({"tls_cert": "c.pem"}, {}, {}, "go together"),
        ({"table_buckets": []}, {}, {}, "at least one --table-bucket"),
        ({}, {}, {"users": [{"name": "a", "access_key": "k"}]}, "secret_key is missing"),
        (
            {},
            {},
            {"users": [{"nam": "a"}]},
            "unknown key 'nam'; did you mean name?; the keys are name, access_key",
        ),
        ({}, {}, {"users": {"name": "a"}}, "not a list"),
        ({}, {}, {"identity_provider_keys": ["k"]}, "[identity_provider_keys]: not a table"),
        ({}, {}, {"identity_provider_keys": {"idp": "k"}}, "'idp' is not the URL of a provider"),
        ({}, {}, {"identity_provider_keys": {"https://x": 5}}, "5 is not the name of a file"),
        ({}, {}, {"users": [{**ALICE, "policies": "{}"}]}, "policies is not a list"),
        ({}, {}, {"users": [{**ALICE, "public_keys": "PEM"}]}, "public_keys is not a list"),
        ({}, {}, {"users": [{**ALICE, "public_keys": [5]}]}, "a public key is not PEM text"),
        ({}, {}, {"users": [{**ALICE, "public_keys": ["x"]}]}, "a public key is not PEM text"),
        ({}, {}, {"users": [{**ALICE, "account": "12"}]}, "account: '12' is not 12 digits"),
        ({}, {}, {"users": [{**ALICE, "name": "a/b"}]}, "name: 'a/b' is not a user's name"),
        ({}, {}, {"users": [{**ALICE, "canonical_id": "F" * 64}]}, "is not 64 hexadecimal digits"),
        ({"region": ""}, {}, {}, "region '' is not a region's name"),
        ({"region": "Mars 1"}, {}, {}, "region 'Mars 1' is not a region's name"),
        ({"domain": "Example.org"}, {}, {}, "is not a domain's name in lower case"),
        ({"domain": "example.org:80"}, {}, {}, "is not a domain's name in lower case"),
        ({"domain": "10.0.0.1"}, {}, {}, "is not a domain's name in lower case"),
        ({"domain": ""}, {}, {}, "is not a domain's name in lower case"),
        ({"account": "\u0661" * 12}, {}, {}, "12 digits"),
        ({}, {}, {"users": [{**ALICE, "account": 5}]}, "account is not text"),
        ({}, {}, {"table_buckets": {}}, "is not a list of names"),
        ({}, {}, {"table_buckets": {"a": {}}}, "[table_buckets.a]: the bucket name 'a' must have"),
        ({}, {}, {"table_buckets": {"lake": []}}, "[table_buckets.lake]: not a table"),
        ({}, {}, {"table_buckets": {"lake": {"no_such": True}}}, "unknown key 'no_such'"),
        ({}, {}, {"table_buckets": {"lake": {"layout": ["off"]}}}, "is not one of off, names"),
        ({}, {}, {"table_buckets": {"lake": {"layout": True}}}, "is not one of off, names"),
        ({}, {}, {"table_buckets": {"lake": {"require_registered": 1}}}, "is not true or false"),
        (
            {},
            {},
            {"users": [{"name": "a", "access_key": "k", "secret_key": "s"}] * 2},
            "two [[users]] have the same name",
        ),
        (
            {},
            {},
            {
                "users": [
                    {"name": "a", "access_key": "k", "secret_key": "s", "policies": ["{not json"]}
                ]
            },
            "not valid JSON",
        ),
        ({"audit": "some"}, {}, {}, "--audit 'some' is none of changes, all"),
        ({"namespace_separator": "/"}, {}, {}, "--namespace-separator '/' is none of . ~ : $"),
        ({}, {"BOATHOUSE_NAMESPACE_SEPARATOR": ".."}, {}, "--namespace-separator '..' is none"),
        ({"jobs_cores": 0}, {}, {}, "--jobs-cores must be at least 1"),
        ({"sql_idle_seconds": 59}, {}, {}, "--sql-idle-seconds must be at least 60"),
        ({}, {"BOATHOUSE_JOBS_MEMORY_MIB": "511"}, {}, "--jobs-memory-mib must be at least 512"),
        ({}, {"BOATHOUSE_JOBS_CONF": "a=1"}, {}, "--jobs-conf 'a=1' is not spark.key=value"),
        ({}, {}, {"jobs_conf": ["spark.a"]}, "--jobs-conf 'spark.a' is not spark.key=value"),
        ({}, {}, {"jobs_conf": ["spark.a=1", "spark.a=2"]}, "--jobs-conf names spark.a twice"),
        (
            {},
            {"BOATHOUSE_JOBS_CONF": "spark.driver.memory=2g"},
            {},
            "--jobs-conf spark.driver.memory: use --jobs-memory-mib",
        ),
    ],
)
def test_resolve_refuses_and_names_the_setting(
    flags: dict[str, object], environment: dict[str, str], document: dict[str, object], said: str
) -> None:
    with pytest.raises(config.InvalidConfig) as caught:
        config.resolve(flags, environment, document)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    "key",
    [
        *sorted(resources._OWN_KEYS | resources._OPTIONS_OF_KEYS.keys()),
        *(f"{beginning}x" for beginning in resources._OWN_BEGINNINGS),
    ],
)
def test_settings_of_spark_that_jobs_refuse_are_refused_at_start(key: str) -> None:
    with pytest.raises(pipeline_errors.BadArgument):
        resources.parse_conf([f"{key}=1"], "--conf")
    with pytest.raises(config.InvalidConfig, match=f"--jobs-conf {key}: "):
        config.resolve({}, {}, {"jobs_conf": [f"{key}=1"]})


@pytest.mark.parametrize("domain", ["s3.example.org", "example", "a-b.c1.internal"])
def test_a_domain_is_a_name_in_lower_case(domain: str) -> None:
    assert config.resolve({"domain": domain}, {}, {}).domain == domain


def test_everything_that_a_user_may_have_is_taken() -> None:
    body = base64.b64encode(bytes(range(200))).decode()
    pem = f"-----BEGIN PUBLIC KEY-----\n{body[:64]}\n{body[64:]}\n-----END PUBLIC KEY-----\n"
    user = {
        **ALICE,
        "name": "Alice+x@example.org",
        "account": "123456789012",
        "canonical_id": "0a" * 32,
        "display_name": "Alice, of Accounting",
        "email": "alice@example.org",
        "public_keys": [pem, body],
    }
    (resolved,) = config.resolve({}, {}, {"users": [user]}).users
    assert resolved.public_keys == (pem, body)
    assert (resolved.name, resolved.account) == (user["name"], user["account"])


def test_a_policy_may_be_pasted_as_json_text() -> None:
    policy = '{"Version": "2012-10-17", "Statement": []}'
    user = {"name": "a", "access_key": "k", "secret_key": "s", "policies": [policy]}
    resolved = config.resolve({}, {}, {"users": [user]})
    assert resolved.users[0].policies == ({"Version": "2012-10-17", "Statement": []},)


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("localhost", True),
     ("0.0.0.0", False), ("192.168.1.2", False), ("example.org", False)],
)  # fmt: skip
def test_is_loopback_knows_addresses_that_reach_only_this_machine(
    host: str, loopback: bool
) -> None:
    assert config.is_loopback(host) is loopback

"""Stages as clients use them: the keys that PUT gives, and Snowpark."""

from __future__ import annotations

import json
import urllib.request
import uuid
from typing import Any

import boto3
import botocore.config
import botocore.exceptions
import pytest

from tests.kit import server as server_kit
from tests.sql.rest import drivers


def client(server: server_kit.Running, service: str, keys: tuple[str, ...]) -> Any:
    key, secret, *token = keys
    return boto3.client(
        service,
        endpoint_url=server.url,
        region_name="us-east-1",
        aws_access_key_id=key,
        aws_secret_access_key=secret,
        aws_session_token=token[0] if token else None,
        config=botocore.config.Config(retries={"total_max_attempts": 1}),
    )


def ask(server: server_kit.Running, path: str, body: Any, token: str = "None") -> Any:
    request = urllib.request.Request(
        server.url + path,
        data=json.dumps(body).encode(),
        headers={"Authorization": f'Snowflake Token="{token}"', "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=60) as response:
        return json.load(response)["data"]


def transfer(server: server_kit.Running, user: tuple[str, str], text: str) -> Any:
    """Return the stage that the Python connector would get for a PUT or GET."""
    login = {
        "CLIENT_APP_ID": "PythonConnector",
        "CLIENT_APP_VERSION": "5.2.0",
        "ACCOUNT_NAME": "x",
        "LOGIN_NAME": user[0],
        "PASSWORD": user[1],
    }
    token = ask(server, "/session/v1/login-request", {"data": login})["token"]
    path = f"/queries/v1/query-request?requestId={uuid.uuid4()}"
    return ask(server, path, {"sqlText": text}, token)["stageInfo"]


def refused(call: Any, **arguments: Any) -> str:
    with pytest.raises(botocore.exceptions.ClientError) as raised:
        call(**arguments)
    return str(raised.value.response["Error"]["Code"])


def test_the_keys_of_a_transfer_open_nothing_but_its_stage(server: server_kit.Running) -> None:
    root = (server.access_key, server.secret_key)
    name = f"stager-{uuid.uuid4().hex[:8]}"
    iam = client(server, "iam", root)
    iam.create_user(UserName=name)
    pair = iam.create_access_key(UserName=name)["AccessKey"]
    user = (pair["AccessKeyId"], pair["SecretAccessKey"])
    stage = transfer(server, user, "PUT file:///tmp/a.csv @~")
    theirs = transfer(server, root, "PUT file:///tmp/a.csv @~")
    bucket, _, prefix = stage["location"].partition("/")
    others = theirs["location"].partition("/")[2]
    assert prefix != others
    root_s3 = client(server, "s3", root)
    root_s3.put_object(Bucket=bucket, Key=others + "secret", Body=b"x")

    keys = tuple(stage["creds"][each] for each in ("AWS_KEY_ID", "AWS_SECRET_KEY", "AWS_TOKEN"))
    s3 = client(server, "s3", keys)
    s3.put_object(Bucket=bucket, Key=prefix + "a.csv", Body=b"1\n")
    assert s3.get_object(Bucket=bucket, Key=prefix + "a.csv")["Body"].read() == b"1\n"
    for key in (others + "secret", prefix + "../../" + others + "secret", "a.csv"):
        assert refused(s3.get_object, Bucket=bucket, Key=key) in ("AccessDenied", "NoSuchKey"), key
        source = {"Bucket": bucket, "Key": key}
        copied = refused(s3.copy_object, Bucket=bucket, Key=prefix + "b", CopySource=source)
        assert copied in ("AccessDenied", "NoSuchKey"), key
    assert refused(s3.put_object, Bucket=bucket, Key=others + "b", Body=b"") == "AccessDenied"
    assert refused(s3.list_objects_v2, Bucket=bucket) == "AccessDenied"
    assert refused(s3.delete_bucket, Bucket=bucket) == "AccessDenied"
    assert refused(s3.list_buckets) == "AccessDenied"
    sts = client(server, "sts", keys)
    assert refused(sts.get_session_token) == "AccessDenied"
    role = "arn:aws:iam::000000000000:role/other"
    assumed = refused(sts.assume_role, RoleArn=role, RoleSessionName="other")
    assert assumed == "AccessDenied"
    own_iam = client(server, "iam", keys)
    assert refused(own_iam.create_user, UserName="other") == "AccessDenied"
    assert refused(own_iam.list_users) == "AccessDenied"
    tables = client(server, "s3tables", keys)
    assert "Denied" in refused(tables.list_table_buckets) or "Forbidden" in refused(
        tables.list_table_buckets
    )

    stage = transfer(server, user, "GET @~ file:///tmp")
    keys = tuple(stage["creds"][each] for each in ("AWS_KEY_ID", "AWS_SECRET_KEY", "AWS_TOKEN"))
    s3 = client(server, "s3", keys)
    assert s3.get_object(Bucket=bucket, Key=prefix + "a.csv")["Body"].read() == b"1\n"
    assert refused(s3.put_object, Bucket=bucket, Key=prefix + "b", Body=b"") == "AccessDenied"
    iam.delete_access_key(UserName=name, AccessKeyId=user[0])
    assert refused(s3.get_object, Bucket=bucket, Key=prefix + "a.csv") == "InvalidToken"
    iam.delete_user(UserName=name)


SNOWPARK = """
import pandas, pathlib, tempfile
from snowflake.snowpark import Session, functions as F
from snowflake.snowpark import types
session = Session.builder.configs({
    "host": "127.0.0.1", "port": PORT, "protocol": "http", "account": "test", "user": USER,
    "password": PASSWORD, "database": "lake",
}).create()
session.sql(f"create schema {SCHEMA}").collect()
session.sql(f"use schema {SCHEMA}").collect()

def rows(frame):
    return [list(row) for row in frame.collect()]

say(rows(session.create_dataframe([[1, "a"], [2, None]], schema=["a", "b"])))
made = session.create_dataframe([[1, "a", 1.5], [2, "b", 2.5]], schema=["k", "v", "f"])
made.write.save_as_table("t", mode="overwrite")
session.create_dataframe([[3, "a", 3.5]], schema=["k", "v", "f"]).write.save_as_table(
    "t", mode="append")
table = session.table("t")
say(rows(table.filter(F.col("k") > 1).select("k", "v").sort("k")))
say(rows(table.group_by("v").agg(F.sum("f").alias("s")).sort("v")))
other = table.select(F.col("k").alias("k2"))
say(rows(table.join(other, F.col("k") == F.col("k2")).select("k2").sort("k2")))
say(rows(session.range(3)), table.sample(n=2).count(), table.count())
say([int(value) for value in table.sort("k").to_pandas()["K"]])
table.limit(1).write.save_as_table("t2", mode="overwrite")
table.write.save_as_table("t2", mode="overwrite")
say(session.table("t2").count())
frame = pandas.DataFrame({"A": [1, 2], "B": ["x", None]})
say(rows(session.write_pandas(frame, "P", auto_create_table=True, overwrite=True).sort("A")))
folder = pathlib.Path(tempfile.mkdtemp())
(folder / "a.csv").write_text("1,one\\n2,two\\n")
session.sql("create stage s").collect()
say(session.file.put(str(folder / "a.csv"), "@s/in", overwrite=True)[0].status)
say(session.file.get("@s/in", str(folder / "out"))[0].file)
columns = types.StructType([
    types.StructField("a", types.IntegerType()), types.StructField("b", types.StringType())])
say(rows(session.read.schema(columns).csv("@s/in").sort("a")))
say(table.write.copy_into_location("@s/un/", file_format_type="parquet", header=True)[0][0])
say(rows(session.read.parquet("@s/un").sort("K").select("K", "V")))
session.sql(f"drop schema {SCHEMA}").collect()
session.close()
"""


@pytest.mark.clients
def test_snowpark_makes_frames_saves_them_and_reads_stages(server: server_kit.Running) -> None:
    schema = f"sp_{uuid.uuid4().hex[:8]}"
    said = drivers.run(
        "snowpark",
        f"SCHEMA = {schema!r}\n" + SNOWPARK,
        port=server.port,
        user=server.access_key,
        password=server.secret_key,
        timeout_seconds=300,
    ).checked()

    assert said[0] == [[["int:1", "a"], ["int:2", None]]]
    assert said[1] == [[["int:2", "b"], ["int:3", "a"]]]
    assert said[2] == [[["a", "float:5.0"], ["b", "float:2.5"]]]
    assert said[3] == [[["int:1"], ["int:2"], ["int:3"]]]
    assert said[4] == [[["int:0"], ["int:1"], ["int:2"]], "int:2", "int:3"]
    assert said[5] == [["int:1", "int:2", "int:3"]]
    assert said[6] == ["int:3"]
    assert said[7] == [[["int:1", "x"], ["int:2", None]]]
    assert said[8] == ["UPLOADED"]
    assert said[9] == ["a.csv.gz"]
    assert said[10] == [[["int:1", "one"], ["int:2", "two"]]]
    assert said[11] == ["int:3"]
    assert said[12] == [[["int:1", "a"], ["int:2", "b"], ["int:3", "a"]]]

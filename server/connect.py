"""rule: ready-to-paste settings, one text per client.

Each snippet is complete: in a file it runs against the server that printed it, with only the client
installed. It contains the root key pair, so it is printed on request only, and never logged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit


@dataclass(frozen=True, kw_only=True, slots=True)
class ClientSettings:
    """A client's settings: the server's URL, a key pair, the default warehouse, the region.

    certificates: a file with the certificate of a server that has one.
    """

    url: str
    access_key: str
    secret_key: str
    warehouse: str
    region: str
    certificates: str | None = None

    @property
    def iceberg(self) -> str:
        """The base URI of the Iceberg REST catalog."""
        return f"{self.url}/iceberg"

    @property
    def host(self) -> str:
        """The host's name, without the port."""
        return urlsplit(self.url).hostname or "127.0.0.1"

    @property
    def port(self) -> int:
        """The port's number."""
        parts = urlsplit(self.url)
        return parts.port or (443 if parts.scheme == "https" else 80)

    @property
    def scheme(self) -> str:
        """http or https."""
        return urlsplit(self.url).scheme


def snippet(client: str, place: ClientSettings) -> str:
    """Return the settings of one of CLIENTS. Raises KeyError for any other name.

    For https a first line says how the client trusts a self-signed certificate.
    """
    text = CLIENTS[client](place).strip() + "\n"
    if place.scheme != "https":
        return text
    mark = "--" if client == "duckdb" else "#"
    how = TRUST[client].replace(ANY_CERTIFICATE, place.certificates or ANY_CERTIFICATE)
    return f"{mark} If the server's certificate is self-signed: {how}\n{text}"


def _pyiceberg(place: ClientSettings) -> str:
    return f'''
# pip install "pyiceberg[pyarrow,pyiceberg-core]"
from pyiceberg.catalog import load_catalog

catalog = load_catalog(
    "{place.warehouse}",
    type="rest",
    uri="{place.iceberg}",
    warehouse="{place.warehouse}",
    credential="{place.access_key}:{place.secret_key}",
)
print(catalog.list_namespaces())
'''


def _boto3(place: ClientSettings) -> str:
    return f'''
# pip install boto3
import boto3

keys = dict(
    endpoint_url="{place.url}",
    region_name="{place.region}",
    aws_access_key_id="{place.access_key}",
    aws_secret_access_key="{place.secret_key}",
)
s3 = boto3.client("s3", **keys)
s3tables = boto3.client("s3tables", **keys)
print([bucket["Name"] for bucket in s3.list_buckets()["Buckets"]])
print([bucket["name"] for bucket in s3tables.list_table_buckets()["tableBuckets"]])
'''


def _awscli(place: ClientSettings) -> str:
    return f"""
# pip install awscli; in the shell:
export AWS_ENDPOINT_URL={place.url}
export AWS_DEFAULT_REGION={place.region}
export AWS_ACCESS_KEY_ID={place.access_key}
export AWS_SECRET_ACCESS_KEY={place.secret_key}
aws s3 ls
aws s3api list-objects-v2 --bucket {place.warehouse} --max-items 10
aws s3tables list-table-buckets
"""


def _duckdb(place: ClientSettings) -> str:
    return f"""
-- duckdb, with its extensions httpfs and iceberg
INSTALL httpfs; LOAD httpfs;
INSTALL iceberg; LOAD iceberg;
CREATE SECRET boathouse (
    TYPE iceberg,
    CLIENT_ID '{place.access_key}',
    CLIENT_SECRET '{place.secret_key}',
    OAUTH2_SERVER_URI '{place.iceberg}/v1/oauth/tokens'
);
ATTACH '{place.warehouse}' AS {_sql_name(place.warehouse)} (
    TYPE iceberg,
    ENDPOINT '{place.iceberg}',
    SECRET boathouse
);
SHOW ALL TABLES;
"""


def _spark(place: ClientSettings) -> str:
    name = _sql_name(place.warehouse)
    return f"""
# spark-sql, spark-shell, pyspark or spark-submit, Spark 4.1
spark-sql \\
  --packages org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0,\
org.apache.iceberg:iceberg-aws-bundle:1.12.0 \\
  --conf spark.sql.extensions=\
org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions \\
  --conf spark.sql.catalog.{name}=org.apache.iceberg.spark.SparkCatalog \\
  --conf spark.sql.catalog.{name}.type=rest \\
  --conf spark.sql.catalog.{name}.uri={place.iceberg} \\
  --conf spark.sql.catalog.{name}.warehouse={place.warehouse} \\
  --conf spark.sql.catalog.{name}.credential={place.access_key}:{place.secret_key} \\
  --conf spark.sql.catalog.{name}.oauth2-server-uri={place.iceberg}/v1/oauth/tokens \\
  --conf spark.sql.catalog.{name}.io-impl=org.apache.iceberg.aws.s3.S3FileIO \\
  -e "SHOW NAMESPACES IN {name}"
"""


def _trino(place: ClientSettings) -> str:
    return f"""
# etc/catalog/{_sql_name(place.warehouse)}.properties
connector.name=iceberg
iceberg.catalog.type=rest
iceberg.rest-catalog.uri={place.iceberg}
iceberg.rest-catalog.warehouse={place.warehouse}
iceberg.rest-catalog.security=OAUTH2
iceberg.rest-catalog.oauth2.credential={place.access_key}:{place.secret_key}
iceberg.rest-catalog.oauth2.server-uri={place.iceberg}/v1/oauth/tokens
iceberg.file-format=PARQUET
fs.hadoop.enabled=false
fs.native-s3.enabled=true
s3.endpoint={place.url}
s3.region={place.region}
s3.path-style-access=true
s3.aws-access-key={place.access_key}
s3.aws-secret-key={place.secret_key}
"""


def _snowflake(place: ClientSettings) -> str:
    return f'''
# pip install snowflake-connector-python
# In the shell: export SNOWFLAKE_DISABLE_PLATFORM_DETECTION=true
import snowflake.connector

connection = snowflake.connector.connect(
    account="boathouse",
    host="{place.host}",
    port={place.port},
    protocol="{place.scheme}",
    user="{place.access_key}",
    password="{place.secret_key}",
    database="{place.warehouse}",
)
print(connection.cursor().execute("select current_version()").fetchall())
'''


def _sqlalchemy(place: ClientSettings) -> str:
    return f'''
# pip install snowflake-sqlalchemy
# In the shell: export SNOWFLAKE_DISABLE_PLATFORM_DETECTION=true
import sqlalchemy
from snowflake.sqlalchemy import URL

engine = sqlalchemy.create_engine(
    URL(
        account="boathouse",
        host="{place.host}",
        port={place.port},
        user="{place.access_key}",
        password="{place.secret_key}",
        database="{place.warehouse}",
        schema="public",
    ),
    connect_args={{"protocol": "{place.scheme}"}},
)
print(sqlalchemy.inspect(engine).get_schema_names())
'''


def _dbt(place: ClientSettings) -> str:
    return f"""
# ~/.dbt/profiles.yml, for dbt-snowflake
boathouse:
  target: dev
  outputs:
    dev:
      type: snowflake
      account: boathouse
      host: {place.host}
      port: {place.port}
      protocol: {place.scheme}
      user: {place.access_key}
      password: {place.secret_key}
      database: {place.warehouse}
      schema: dbt
      warehouse: local
      threads: 4
"""


def _sql_name(warehouse: str) -> str:
    # A bucket's name may be `my-lake` or `2024`; engines need a plain identifier for a catalog.
    word = warehouse.replace("-", "_").replace(".", "_")
    return f"_{word}" if word[:1].isdigit() else word


ANY_CERTIFICATE = "/path/to/cert.pem"
TRUST: Mapping[str, str] = {
    "awscli": "export AWS_CA_BUNDLE=/path/to/cert.pem",
    "boto3": "export AWS_CA_BUNDLE=/path/to/cert.pem",
    "dbt": "export REQUESTS_CA_BUNDLE=/path/to/cert.pem",
    "duckdb": "SET ca_cert_file='/path/to/cert.pem'; after LOAD httpfs",
    "pyiceberg": "export AWS_CA_BUNDLE=/path/to/cert.pem and give load_catalog "
    'ssl={"cabundle": "/path/to/cert.pem"}',
    "snowflake": "export REQUESTS_CA_BUNDLE=/path/to/cert.pem",
    "sqlalchemy": "export REQUESTS_CA_BUNDLE=/path/to/cert.pem",
    "spark": "import it with keytool into a store, and name that in "
    "spark.driver.extraJavaOptions and spark.executor.extraJavaOptions "
    "as -Djavax.net.ssl.trustStore=/path/to/store",
    "trino": "import it with keytool into the trust store of Trino's Java",
}
"""Client -> how it trusts the certificate."""

CLIENTS: Mapping[str, Callable[[ClientSettings], str]] = {
    "awscli": _awscli,
    "boto3": _boto3,
    "dbt": _dbt,
    "duckdb": _duckdb,
    "pyiceberg": _pyiceberg,
    "snowflake": _snowflake,
    "spark": _spark,
    "sqlalchemy": _sqlalchemy,
    "trino": _trino,
}

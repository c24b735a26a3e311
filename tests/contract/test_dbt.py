"""dbt-snowflake, in its own environment, against the process a user starts."""

from __future__ import annotations

import json
import subprocess
import uuid
from pathlib import Path
from typing import Any

import pytest

from tests.kit import environments, lake_client
from tests.kit import server as server_kit

TIMEOUT_SECONDS = 300

FILES = {
    "dbt_project.yml": """
name: shop
version: "1.0"
profile: shop
models:
  shop:
    +persist_docs:
      relation: true
      columns: true
""",
    "profiles.yml": """
shop:
  target: dev
  outputs:
    dev:
      type: snowflake
      account: boathouse
      host: 127.0.0.1
      port: "{{ env_var('LAKE_PORT') | int }}"
      protocol: http
      user: "{{ env_var('LAKE_KEY') }}"
      password: "{{ env_var('LAKE_SECRET') }}"
      database: LAKE
      schema: "{{ env_var('LAKE_SCHEMA') }}"
      warehouse: LOCAL
      threads: 2
""",
    "seeds/raw_orders.csv": """id,customer,amount,ordered_at
1,ann,10.50,2024-01-01
2,bob,20.00,2024-01-02
3,ann,5.25,2024-01-03
""",
    "models/stg_orders.sql": """
select id as order_id, customer, amount, ordered_at from {{ ref('raw_orders') }}
""",
    "models/totals.sql": """
{{ config(materialized='ephemeral') }}
select customer, sum(amount) as total from {{ ref('stg_orders') }} group by customer
""",
    "models/customers.sql": """
{{ config(materialized='table') }}
select customer, total from {{ ref('totals') }}
""",
    "models/regions.sql": """
{{ config(materialized='table', table_format='iceberg', external_volume='lake') }}
select customer, 'north' as region from {{ ref('customers') }}
""",
    "models/appended.sql": """
{{ config(materialized='incremental', incremental_strategy='append') }}
select order_id, customer from {{ ref('stg_orders') }}
{% if is_incremental() %} where order_id <= 1 {% endif %}
""",
    "models/merged.sql": """
{{ config(materialized='incremental', unique_key='order_id') }}
select order_id, amount {% if is_incremental() %} * 2 {% endif %} as amount
from {{ ref('stg_orders') }}
{% if is_incremental() %} where order_id > 1 union all select 9, 9 {% endif %}
""",
    "models/replaced.sql": """
{{ config(
    materialized='incremental', unique_key='order_id', incremental_strategy='delete+insert'
) }}
select order_id, amount {% if is_incremental() %} + 1 {% endif %} as amount
from {{ ref('stg_orders') }}
{% if is_incremental() %} where order_id > 1 {% endif %}
""",
    "snapshots/order_history.sql": """
{% snapshot order_history %}
{{ config(unique_key='order_id', strategy='check', check_cols=['amount'], target_schema=schema) }}
select order_id, amount from {{ ref('replaced') }}
{% endsnapshot %}
""",
    "snapshots/customer_history.sql": """
{% snapshot customer_history %}
{{ config(
    unique_key='customer', strategy='timestamp', updated_at='seen_at', target_schema=schema,
    invalidate_hard_deletes=True
) }}
select customer, max(ordered_at)::timestamp_ntz as seen_at
from {{ ref('raw_orders') }}
{% if var('forget', false) %} where customer != 'bob' {% endif %}
group by customer
{% endsnapshot %}
""",
    "models/schema.yml": """
version: 2
models:
  - name: customers
    description: "one row for each customer, with the customer's total"
    columns:
      - name: customer
        description: "the name"
  - name: stg_orders
    description: "orders as they came"
    columns:
      - name: order_id
        description: "the key"
        data_tests: [unique, not_null]
      - name: customer
        data_tests:
          - accepted_values:
              arguments: {values: ['ann', 'bob']}
          - relationships:
              arguments: {to: ref('customers'), field: customer}
""",
}

PROGRAM = """
import json, sys
from dbt.cli.main import dbtRunner
runner = dbtRunner()
answers = []
for command in json.loads(sys.argv[1]):
    done = runner.invoke([*command, "--quiet", "--no-use-colors"])
    results = [
        each
        for each in getattr(done.result, "results", None) or []
        if getattr(each, "node", None) is not None and hasattr(each, "message")
    ]
    answers.append(
        {
            "success": done.success,
            "fault": str(done.exception or ""),
            "results": {each.node.name: [str(each.status), each.message] for each in results},
        }
    )
print("ANSWERS" + json.dumps(answers))
"""


def run(
    server: server_kit.Running, folder: Path, schema: str, commands: list[list[str]]
) -> list[dict[str, Any]]:
    """Run commands of dbt one after the other, in one process; return what each came to."""
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    program = folder / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run(
        [str(environments.python("dbt")), str(program), json.dumps(commands)],
        cwd=folder,
        env={
            **server_kit.client_environment(),
            "DBT_SEND_ANONYMOUS_USAGE_STATS": "false",
            "DO_NOT_TRACK": "1",
            "DBT_PROFILES_DIR": str(folder),
            "LAKE_PORT": str(server.port),
            "LAKE_KEY": server.access_key,
            "LAKE_SECRET": server.secret_key,
            "LAKE_SCHEMA": schema.upper(),
        },
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    _, mark, answers = done.stdout.rpartition("ANSWERS")
    assert mark, done.stdout[-4000:] + done.stderr[-4000:]
    result: list[dict[str, Any]] = json.loads(answers)
    return result


def test_dbt_builds_a_project_twice_and_documents_it(
    server: server_kit.Running, tmp_path: Path
) -> None:
    schema = f"dbt_{uuid.uuid4().hex[:8]}"
    first, second, docs = run(
        server,
        tmp_path,
        schema,
        [["build"], ["build", "--vars", "{forget: true}"], ["docs", "generate"]],
    )
    assert (first["success"], first["fault"]) == (True, ""), first
    assert (second["success"], second["fault"]) == (True, ""), second
    assert {name: result[0] for name, result in second["results"].items()} == {
        "raw_orders": "success",
        "stg_orders": "success",
        "customers": "success",
        "regions": "success",
        "appended": "success",
        "merged": "success",
        "replaced": "success",
        "order_history": "success",
        "customer_history": "success",
        "unique_stg_orders_order_id": "pass",
        "not_null_stg_orders_order_id": "pass",
        "accepted_values_stg_orders_customer__ann__bob": "pass",
        "relationships_stg_orders_customer__customer__ref_customers_": "pass",
    }
    assert docs["success"], docs
    catalog_json = json.loads((tmp_path / "target" / "catalog.json").read_text())
    documented = {key.rpartition(".")[2]: node for key, node in catalog_json["nodes"].items()}
    assert documented["stg_orders"]["metadata"]["type"] == "VIEW"
    assert documented["customers"]["metadata"]["type"] == "BASE TABLE"
    comments = {name: node["metadata"]["comment"] for name, node in documented.items()}
    assert comments["stg_orders"] == "orders as they came"
    assert comments["customers"] == "one row for each customer, with the customer's total"
    assert documented["customers"]["columns"]["CUSTOMER"]["comment"] == "the name"
    assert documented["stg_orders"]["columns"]["ORDER_ID"]["comment"] == "the key"
    assert [*documented["customers"]["columns"]] == ["CUSTOMER", "TOTAL"]
    # Every byte that dbt wrote is Iceberg's: another client reads it.
    lake = lake_client.catalog(server)
    assert lake.list_views(schema) == [(schema, "stg_orders")]

    def rows(name: str) -> list[tuple[Any, ...]]:
        table = lake.load_table((schema, name)).scan().to_arrow()
        return sorted(zip(*(column.to_pylist() for column in table.columns), strict=True))

    assert rows("appended") == [(1, "ann"), (1, "ann"), (2, "bob"), (3, "ann")]
    assert [(order, float(amount)) for order, amount in rows("merged")] == [
        (1, 10.5),
        (2, 40.0),
        (3, 10.5),
        (9, 9.0),
    ]
    assert [(order, float(amount)) for order, amount in rows("replaced")] == [
        (1, 10.5),
        (2, 21.0),
        (3, 6.25),
    ]

    def history(name: str) -> list[tuple[Any, ...]]:
        table = lake.load_table((schema, name)).scan().to_arrow()
        ended = [each is not None for each in table["dbt_valid_to"].to_pylist()]
        return sorted(zip(table.column(0).to_pylist(), ended, strict=True))

    regions = lake.load_table((schema, "regions"))
    assert regions.location() == f"s3://lake/_dbt/{schema.upper()}/regions"
    assert rows("regions") == [("ann", "north"), ("bob", "north")]

    # A changed row ends and begins anew; a row that is gone from the source ends.
    assert history("order_history") == [(1, False), (2, False), (2, True), (3, False), (3, True)]
    assert history("customer_history") == [("ann", False), ("bob", True)]
    assert [(name, float(total)) for name, total in rows("customers")] == [
        ("ann", 15.75),
        ("bob", 20.0),
    ]


@pytest.mark.clients
def test_dbt_connects_and_rebuilds_from_nothing(server: server_kit.Running, tmp_path: Path) -> None:
    schema = f"dbt_{uuid.uuid4().hex[:8]}"
    debug, built, again, ran = run(
        server,
        tmp_path,
        schema,
        [["debug"], ["build"], ["build", "--full-refresh"], ["run", "--select", "customers"]],
    )
    for answer in (debug, built, again, ran):
        assert (answer["success"], answer["fault"]) == (True, ""), answer

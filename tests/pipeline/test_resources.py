"""What Spark gets of a machine or a cluster, and which of its settings are the user's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pipeline import errors, machine, resources, settings
from tests.kit import server as server_kit
from tests.pipeline.lake import Lake

GIB = 1 << 30
LAPTOP = resources.Machine(memory_bytes=16 * GIB, cores=8)
CONNECT = "sc://host:15002"
CLUSTER = "spark://host:7077"


def of(
    environment: dict[str, str] | None = None, *, is_served: bool = False, **wishes: Any
) -> dict[str, str]:
    """Return Spark's settings for what a user says on a laptop of 16 GiB and 8 cores."""
    said = resources.Wishes(**wishes)
    return resources.resolve(said, environment or {}, LAPTOP, is_served=is_served).settings


@pytest.mark.parametrize(
    ("memory_bytes", "driver_mib"),
    [(None, 1024), (GIB, 1024), (4 * GIB, 1024), (6 * GIB, 1536), (16 * GIB, 4096),
     (32 * GIB, 8192), (512 * GIB, 8192)],
)  # fmt: skip
def test_the_driver_has_a_quarter_of_the_machine_from_one_to_eight_gib(
    memory_bytes: int | None, driver_mib: int
) -> None:
    assert resources.Machine(memory_bytes=memory_bytes, cores=2).driver_mib == driver_mib


@pytest.mark.parametrize(("cores", "served"), [(1, 2), (2, 2), (4, 2), (8, 4), (16, 8), (64, 8)])
def test_the_jobs_of_a_server_have_half_of_the_cores_from_two_to_eight(
    cores: int, served: int
) -> None:
    assert resources.Machine(memory_bytes=None, cores=cores).served_cores == served


def test_without_options_a_job_has_all_cores_and_a_servers_job_half() -> None:
    assert of() == {"spark.master": "local[*]", "spark.driver.memory": "4096m"}
    assert of(is_served=True) == {"spark.master": "local[4]", "spark.driver.memory": "4096m"}


def test_an_option_comes_before_its_variable_and_that_before_the_default() -> None:
    variables = {
        "BOATHOUSE_DRIVER_MEMORY": "2g",
        "BOATHOUSE_CORES": "3",
        "BOATHOUSE_CONF": "spark.a=1 spark.b='two words'",
    }
    assert of(variables) == {
        "spark.master": "local[3]",
        "spark.driver.memory": "2048m",
        "spark.a": "1",
        "spark.b": "two words",
    }
    assert of(variables, driver_memory="1536m", cores="5", conf=("spark.a=3=4",)) == {
        "spark.master": "local[5]",
        "spark.driver.memory": "1536m",
        "spark.a": "3=4",
        "spark.b": "two words",
    }
    assert of(variables, master="local[7]")["spark.master"] == "local[7]"


def test_the_whole_memory_of_the_machine_is_not_too_much() -> None:
    assert of(driver_memory="16g")["spark.driver.memory"] == "16384m"
    # Executors are on other machines, and a machine may not say what it has.
    assert of(master=CLUSTER, executor_memory="64g")["spark.executor.memory"] == "65536m"
    unknown = resources.Machine(memory_bytes=None, cores=2)
    wishes = resources.Wishes(driver_memory="64g")
    assert resources.resolve(wishes, {}, unknown).driver_mib == 65_536


def test_a_variable_that_names_too_much_memory_is_refused_by_its_name() -> None:
    with pytest.raises(errors.BadArgument, match="BOATHOUSE_DRIVER_MEMORY 1t is more than the"):
        of({"BOATHOUSE_DRIVER_MEMORY": "1t"})


def test_a_variable_that_is_no_list_of_words_is_refused() -> None:
    with pytest.raises(errors.BadArgument, match="BOATHOUSE_CONF cannot be read"):
        of({"BOATHOUSE_CONF": "spark.a='open"})


def test_a_cluster_gets_cores_and_executors_as_they_are_named() -> None:
    assert of(
        master=CLUSTER, cores="12", executor_memory="2G", executor_cores="4", driver_memory="1g"
    ) == {
        "spark.master": CLUSTER,
        "spark.driver.memory": "1024m",
        "spark.cores.max": "12",
        "spark.executor.memory": "2048m",
        "spark.executor.cores": "4",
    }
    variables = {"BOATHOUSE_EXECUTOR_MEMORY": "3g", "BOATHOUSE_EXECUTOR_CORES": "2"}
    on_yarn = of(variables | {"BOATHOUSE_CORES": "9"}, master="yarn")
    assert on_yarn == {
        "spark.master": "yarn",
        "spark.driver.memory": "4096m",
        "spark.executor.memory": "3072m",
        "spark.executor.cores": "2",
    }
    assert "spark.executor.memory" not in of(variables)


@pytest.mark.parametrize(
    ("wishes", "said"),
    [
        ({"driver_memory": "2"}, "--driver-memory '2' is no size of memory like 2g or 1536m"),
        ({"driver_memory": "256m"}, "--driver-memory 256m is too little: Spark needs 512m"),
        (
            {"driver_memory": "17g"},
            "--driver-memory 17g is more than the 16384m that this machine has",
        ),
        ({"driver_memory": "17g", "master": CLUSTER}, "--driver-memory 17g is more than the"),
        ({"driver_memory": ""}, "--driver-memory '' is no size of memory like 2g or 1536m"),
        ({"executor_memory": "", "master": CLUSTER}, "--executor-memory '' is no size of memory"),
        ({"cores": "", "master": CLUSTER}, "--cores '' is no number of cores"),
        ({"cores": "0"}, "--cores '0' is no number of cores"),
        ({"cores": "two"}, "--cores 'two' is no number of cores"),
        ({"cores": "2", "master": "local[4]"}, "leave one of them out"),
        ({"cores": "2", "master": "yarn"}, "spark.executor.instances"),
        ({"executor_memory": "2g"}, "--executor-memory is for a cluster"),
        ({"executor_cores": "2", "master": "local[2]"}, "--executor-cores is for a cluster"),
        ({"executor_cores": "x", "master": CLUSTER}, "--executor-cores 'x' is no number"),
        ({"driver_memory": "2g", "master": CONNECT}, "--driver-memory is for a Spark that"),
        ({"cores": "2", "master": CONNECT}, "what sc://host:15002 has was said when it"),
        ({"executor_memory": "2g", "master": CONNECT}, "--executor-memory is for a Spark that"),
        ({"executor_cores": "2", "master": CONNECT}, "--executor-cores is for a Spark that"),
        ({"conf": ("spark.sql.extensions=x",), "master": CONNECT}, "a job sets this itself"),
        ({"conf": ("a.b=1",)}, "--conf 'a.b=1' is not spark.key=value"),
        ({"conf": ("spark.a",)}, "is not spark.key=value"),
        ({"conf": ("spark.a b=1",)}, "is not spark.key=value"),
        ({"conf": ("spark.a=1", "spark.a=2")}, "--conf names spark.a twice"),
        ({"conf": ("spark.driver.memory=2g",)}, "use --driver-memory"),
        ({"conf": ("spark.cores.max=2",)}, "use --cores"),
        ({"conf": ("spark.jars=x.jar",)}, "--conf spark.jars: a job sets this itself"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_name(wishes: dict[str, Any], said: str) -> None:
    with pytest.raises(errors.BadArgument) as refusal:
        of(**wishes)
    assert said in str(refusal.value)


@pytest.mark.parametrize("master", ["local[*]", CLUSTER])
@pytest.mark.parametrize("token", ["", "token"])
def test_no_setting_that_a_job_makes_can_be_given(tmp_path: Path, master: str, token: str) -> None:
    (tmp_path / "a.jar").touch()
    server = settings.ServerEndpoint(
        url="http://127.0.0.1:1", access_key="A", secret_key="s", region="r", session_token=token
    )
    own = settings.spark_settings(
        server, "lake", gets=of_cluster(master), jars=tmp_path, java_options=("-Da=b",), ui=True
    )
    tunable = {"spark.sql.shuffle.partitions", "spark.python.sql.dataFrameDebugging.enabled"}
    for key in set(own) - tunable:
        with pytest.raises(errors.BadArgument):
            resources.parse_conf([f"{key}=1"], "--conf")
    assert resources.parse_conf([f"{key}=1" for key in tunable], "--conf")


def of_cluster(master: str) -> resources.SparkResources:
    cores = None if master.startswith("local") else 2
    return resources.SparkResources(
        master=master,
        cores=cores,
        executor_memory=None if cores is None else "1024m",
        executor_cores=cores,
    )


def test_the_users_settings_replace_those_that_only_tune() -> None:
    server = settings.ServerEndpoint(url="http://h:1", access_key="A", secret_key="s", region="r")
    gets = resources.SparkResources(
        master="local[2]", conf={"spark.sql.shuffle.partitions": "3", "spark.x": "y"}
    )
    wanted = settings.spark_settings(server, "lake", gets=gets, jars=Path("/j"), java_options=())
    assert (wanted["spark.sql.shuffle.partitions"], wanted["spark.x"]) == ("3", "y")


def test_a_containers_limit_is_its_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(machine, "CGROUP_LIMITS", (limit, tmp_path / "absent"))
    whole = machine.this()
    assert whole.memory_bytes is not None
    assert whole.cores >= 1
    limit.write_text("max\n")
    assert machine.this() == whole
    limit.write_text("536870912\n")
    assert machine.this().memory_bytes == 512 << 20


def test_a_job_with_wrong_resources_says_so_before_it_asks_the_server() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pipeline", "compact", "--table", "lake.a.b", "--conf", "x=1"],
        capture_output=True, text=True, check=False, cwd=server_kit.ROOT,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (
        2,
        "pipeline: compact failed: --conf 'x=1' is not spark.key=value\n",
    )


@pytest.mark.spark
@pytest.mark.smoke
def test_the_session_of_the_tests_has_what_it_was_given(lake: Lake) -> None:
    context = lake.spark.session.sparkContext
    assert context.master == "local[2]"
    assert context.getConf().get("spark.driver.memory") == "1024m"
    heap_bytes = int(lake.spark.jvm.java.lang.Runtime.getRuntime().maxMemory())
    assert 0.9 * GIB < heap_bytes <= GIB

"""What starts Kafka's brokers fits the controllers: config/broker-*.properties and docker-compose.kafka.yml.

The brokers themselves run in tests/brokers; the containers are run by hand (docs/brokers.md).
"""

import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

import javaproperties
import pytest
import yaml

from kraftd.runtime.config import load_config, parse_config
from kraftd.types import Endpoint
from scripts import kafka

ROOT = Path(__file__).parents[1]
CONTROLLERS = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))["services"]
COMPOSE = yaml.safe_load((ROOT / "docker-compose.kafka.yml").read_text(encoding="utf-8"))
ENVIRONMENTS = {name: service["environment"] for name, service in COMPOSE["services"].items()}
LOCAL = load_config(ROOT / "config" / "local-1.properties", {})
IN_CONTAINERS = load_config(ROOT / "config" / "compose-1.properties", {})


@pytest.mark.parametrize("name", kafka.TOOLS)
def test_each_tool_of_kafkas_is_in_its_jars(name: str) -> None:
    if not kafka.JARS.is_dir():
        pytest.skip("Kafka's jars are not here; make kafka fetches them")
    path = f"{kafka.TOOLS[name].replace('.', '/')}.class"
    found = [jar.name for jar in kafka.JARS.glob("kafka*.jar") if path in zipfile.ZipFile(jar).namelist()]
    assert len(found) == 1


def test_the_tools_are_told_whole_in_80_columns() -> None:
    text = kafka.USAGE
    assert max(map(len, text.splitlines())) <= 80
    assert {*kafka.TOOLS} <= {*text.replace(",", " ").split()}
    for name in ("acls", "delegation-tokens", "reassign-partitions", "leader-election"):
        assert f"kafka-{name}" in kafka.TOOLS


STAYS = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(60)"
)
LEAVES = "import time; print(flush=True); time.sleep(60)"


def process_of(code: str) -> subprocess.Popen[bytes]:
    """A process that has begun with what it is told to do."""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    return process


def test_brokers_stop_at_once_then_controllers_and_who_does_not_is_killed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    codes = {
        "controller-1": STAYS,
        "controller-2": LEAVES,
        "broker-1": STAYS,
        "broker-2": LEAVES,
        "broker-3": STAYS,
    }
    running = [(name, process_of(code)) for name, code in codes.items()]
    begun = time.monotonic()
    kafka.stop(running, 0.5)
    assert time.monotonic() - begun >= 1.0, "one deadline for the brokers, one for the controllers"
    ended = {name: process.returncode for name, process in running}
    assert ended == {name: -9 if code == STAYS else -15 for name, code in codes.items()}
    lines = capsys.readouterr().err.splitlines()
    late = ("broker-1", "broker-3", "controller-1")
    assert lines == [f"kafka: {name} did not stop within 0.5 s: killed" for name in late]


def test_a_command_for_the_brokers_containers_names_both_files() -> None:
    text = (ROOT / "docker-compose.kafka.yml").read_text(encoding="utf-8")
    commands = [line for line in text.replace("\\\n#", "").splitlines() if "  docker compose " in line]
    assert len(commands) == 3
    for command in commands:
        assert "--file docker-compose.yml --file docker-compose.kafka.yml" in command


def properties(number: int) -> dict[str, str]:
    text = (ROOT / "config" / f"broker-{number}.properties").read_text(encoding="utf-8")
    return dict(javaproperties.loads(text))


def voters_of(text: str) -> dict[int, Endpoint]:
    """Read as kraftd reads the key of this name."""
    node = text.partition("@")[0]
    values = {
        "process.roles": "controller",
        "node.id": node,
        "controller.quorum.voters": text,
        "controller.listener.names": "CONTROLLER",
        "listeners": "CONTROLLER://127.0.0.1:1",
        "log.dirs": "data",
    }
    return dict(parse_config(values, {}).voters)


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_broker_on_this_machine_knows_the_local_controllers(number: int) -> None:
    values = properties(number)
    assert voters_of(values["controller.quorum.voters"]) == dict(LOCAL.voters)
    assert values["controller.listener.names"] == LOCAL.bind.listener
    assert int(values["node.id"]) not in LOCAL.voters
    assert "controller.quorum.bootstrap.servers" not in values


def test_brokers_on_this_machine_share_nothing() -> None:
    brokers = [properties(number) for number in (1, 2, 3)]
    for key in ("node.id", "listeners", "log.dirs", "broker.rack"):
        assert len({values[key] for values in brokers}) == len(brokers), key


@pytest.mark.parametrize("broker", list(ENVIRONMENTS))
def test_a_broker_in_a_container_knows_the_controllers_there(broker: str) -> None:
    values = ENVIRONMENTS[broker]
    assert voters_of(values["KAFKA_CONTROLLER_QUORUM_VOTERS"]) == dict(IN_CONTAINERS.voters)
    assert values["KAFKA_NODE_ID"] not in IN_CONTAINERS.voters
    assert values["CLUSTER_ID"] in {each["environment"]["CLUSTER_ID"] for each in CONTROLLERS.values()}
    service = COMPOSE["services"][broker]
    assert f"PLAINTEXT://{service['hostname']}:9092" in values["KAFKA_ADVERTISED_LISTENERS"]
    (port,) = service["ports"]
    host, outside, inside = port.split(":")
    assert f"OUTSIDE://{host}:{outside}" in values["KAFKA_ADVERTISED_LISTENERS"]
    assert f"OUTSIDE://:{inside}" in values["KAFKA_LISTENERS"]
    assert host == "127.0.0.1"


def test_brokers_in_containers_share_nothing() -> None:
    services: list[dict[str, Any]] = list(COMPOSE["services"].values())
    assert len({each["environment"]["KAFKA_NODE_ID"] for each in services}) == len(services)
    assert len({each["volumes"][0] for each in services}) == len(services)
    assert {each["volumes"][0].partition(":")[0] for each in services} == set(COMPOSE["volumes"])

"""The container files fit the configurations that they start: names, ports, directories.

The containers themselves are run by hand (`docker compose up`, see README.md): no engine is asked for here.
"""

from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
import yaml

from kraftd.protocol import limits
from kraftd.runtime.config import Config, load_config
from kraftd.types import parse_uuid

ROOT = Path(__file__).parents[1]
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
SERVICES = COMPOSE["services"]


@pytest.fixture(params=list(SERVICES))
def service(request: pytest.FixtureRequest) -> dict[str, Any]:
    return SERVICES[request.param]


def config_of(service: dict[str, Any]) -> Config:
    return load_config(ROOT / "config" / Path(service["command"][0]).name, {})


def test_every_controller_is_one_of_the_voters_under_its_host_name(service: dict[str, Any]) -> None:
    config = config_of(service)
    assert config.voters[config.node_id] == config.advertised
    assert config.advertised.host == service["hostname"]
    assert {endpoint.host for endpoint in config.voters.values()} == set(SERVICES)


def test_the_volume_is_where_the_log_is(service: dict[str, Any]) -> None:
    (volume,) = service["volumes"]
    name, _, mount = volume.partition(":")
    assert name in COMPOSE["volumes"]
    assert [str(path) for path in config_of(service).log_dirs] == [mount]
    assert f"VOLUME {mount}" in DOCKERFILE


def test_the_probes_ask_where_the_node_listens(service: dict[str, Any]) -> None:
    config = config_of(service)
    assert f"127.0.0.1:{config.bind.port}" in DOCKERFILE
    assert config.http is not None
    assert ip_address(config.http.host).is_unspecified, "on loopback, a published port would lead nowhere"
    assert all(port.startswith("127.0.0.1:") for port in service["ports"])
    assert all(port.endswith(f":{config.http.port}") for port in service["ports"])
    named = service["environment"]["KRAFTD_BOOTSTRAP"].split(",")
    assert named == [f"{endpoint.host}:{endpoint.port}" for endpoint in config.voters.values()]


def test_all_share_one_cluster_and_no_volume() -> None:
    (cluster_id,) = {one["environment"]["CLUSTER_ID"] for one in SERVICES.values()}
    assert len(parse_uuid(cluster_id)) == 16
    assert len({one["volumes"][0] for one in SERVICES.values()}) == len(SERVICES)


def test_a_stopping_leader_has_time_to_hand_over_and_for_who_reads_slowly(service: dict[str, Any]) -> None:
    grace_ms = int(service["stop_grace_period"].removesuffix("s")) * 1000
    assert grace_ms > config_of(service).shutdown_timeout_ms + limits.STOP_TIMEOUT_MS


def test_the_image_is_not_root_and_holds_no_spark() -> None:
    final = DOCKERFILE.rpartition("\nFROM ")[2]
    assert "\nUSER 10001\n" in final
    assert "pyspark" not in (ROOT / "requirements" / "runtime.lock").read_text(encoding="utf-8")
    assert "dev.lock" not in DOCKERFILE

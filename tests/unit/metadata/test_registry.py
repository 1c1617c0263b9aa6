"""A kind of entity is one module and one line; nothing outside the parts' folder names a part."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kraftd.errors import InvariantError
from kraftd.metadata import registry
from kraftd.metadata.part import RecordKind
from kraftd.metadata.parts import PARTS
from kraftd.records.messages import ConfigRecord
from tests.fixtures import ROOT

WHO_MAY_NAME_PARTS = {
    "kraftd/controller/activation.py": "a leader that begins sets features, configs and its own registration",
    "kraftd/controller/acls": "makes, removes and lists access control entries",
    "kraftd/controller/log_directories.py": "no two brokers have one directory",
    "kraftd/controller/brokers/heartbeats.py": "decides what becomes of brokers",
    "kraftd/controller/brokers/staged_plan.py": "a broker tells of lost directories until none is listed",
    "kraftd/controller/brokers/registration.py": "registers brokers that can run at the finalized features",
    "kraftd/controller/brokers/unregistering.py": "forgets brokers",
    "kraftd/controller/client_quota_control.py": "does not write a quota that is there",
    "kraftd/controller/scram_control.py": "removes no credential that is not there",
    "kraftd/controller/context.py": "a decision may know the registration of its own controller",
    "kraftd/controller/deletions": "follows replicas that records take away from brokers",
    "kraftd/controller/mutation_quotas.py": "looks for the quota of a client",
    "kraftd/metadata/replica_states.py": "tells the state of a replica, by its directory",
    "kraftd/controller/delegation_token_control.py": "renews and ends tokens",
    "kraftd/controller/controller_registration.py": "registers controllers",
    "kraftd/controller/election_counts.py": "counts elections by what records change of partitions",
    "kraftd/controller/feature_control.py": "changes levels that every broker and controller must support",
    "kraftd/controller/producer_ids.py": "gives brokers blocks of producer ids",
    "kraftd/controller/rights.py": "asks the authorizer with the access control entries",
    "kraftd/controller/timers.py": "fences brokers that are silent",
    "kraftd/controller/configs": "what may be set depends on features, topics and what is set",
    "kraftd/controller/topics": "decides about topics, by brokers, features and configs",
    "kraftd/controller/brokers/listing.py": "answers with brokers",
    "kraftd/controller/cluster_summary.py": "counts brokers and topics",
    "kraftd/runtime/controller_metrics.py": "tells the state of each broker",
    "kraftd/runtime/unregistered_brokers.py": "names brokers that follow and are not registered",
    "kraftd/controller/partitions": "decides about partitions, by brokers, features and configs",
    "kraftd/controller/quorum_controller.py": "is given its own registration",
    "kraftd/controller/sessions.py": "begins with the brokers of the image",
    "kraftd/metadata/image.py": "metadata.version decides how every part is written",
    "kraftd/metadata/image_builder.py": "the same, of an image in the making",
    "kraftd/logtools/history.py": "tells why leaders changed, by what became of brokers",
    "kraftd/metadata/partition_states.py": "tells the state of a partition",
    "kraftd/runtime/controller_server.py": "is given its own registration",
    "kraftd/runtime/registration_manager.py": "registers this controller with the active one",
    "kraftd/runtime/kafka_apis.py": "tells clients the features, and where the controllers listen",
    "kraftd/replay/image/fold.py": "the report's headline counts brokers, topics, configs and controllers",
    "kraftd/replay/image/entity_history.py": "tells what happened to partitions, by their directories too",
    "kraftd/replay/image/shards.py": "ClearElr names a topic, and goes to the shard of its id",
}
"""What is about certain entities by its very purpose, a module or all in a folder, and why."""


@pytest.fixture(scope="module")
def toys(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a program shows of a kind of entity that it has learned of in two lines."""
    home = tmp_path_factory.mktemp("toys") / "node"
    command = [sys.executable, "-m", "tests.unit.metadata.with_toys", str(home)]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "200"}
    shown = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=False)
    assert shown.returncode == 0, shown.stderr.decode()
    return json.loads(shown.stdout)


def test_a_toy_is_in_the_state_in_its_hash_and_in_a_snapshot(toys: dict[str, Any]) -> None:
    assert toys["records"][-1] == "ToyRecord(name='ball', size=4, unknown_tags=())"
    whole, rebuilt, empty = toys["hash"]
    assert whole == rebuilt != empty
    assert toys["levels"] == [False, True]


def test_a_toy_is_in_the_results_about_a_state(toys: dict[str, Any]) -> None:
    assert toys["state"]["toys"] == {"ball": {"name": "ball", "size": 4}}
    assert ["/toys", "1"] in [line.split() for line in toys["overview"].splitlines()]
    assert [line.split() for line in toys["table"].splitlines()] == [["Toy", "Size"], ["ball", "4"]]
    assert toys["file"].split() == ["ball", "{", '"name":', '"ball",', '"size":', "4", "}"]


def test_a_toy_is_in_differences_and_has_a_history(toys: dict[str, Any]) -> None:
    changes = [line.split() for line in toys["diff"].splitlines() if line.startswith("toy")]
    assert changes == [["toy", "ball", "bought"]]
    kinds = [line.split()[-1] for line in toys["history"].splitlines()[1:]]
    assert kinds == ["bought", "lost"]
    assert "did you mean ball?" in toys["near"]


def test_a_toy_is_a_table_of_a_replay(toys: dict[str, Any]) -> None:
    assert toys["rows"] == [{"name": "ball", "size": 4}]
    columns = [["cluster_id", "string"], ["end_offset", "int64"], ["name", "string"], ["size", "int32"]]
    assert toys["schema"] == columns


def test_two_parts_cannot_claim_a_kind_of_record() -> None:
    kinds = [RecordKind(ConfigRecord, lambda *_: None, (1,))] * 2
    with pytest.raises(InvariantError, match="two parts of the image claim the record"):
        registry._flat("record", ((kind.record, kind) for kind in kinds))


def test_every_part_is_listed() -> None:
    """A module in the folder whose part is not in the list would be known to nobody."""
    folder = ROOT / "kraftd" / "metadata" / "parts"
    modules = {path.stem for path in folder.iterdir() if path.name not in ("__init__.py", "__pycache__")}
    listed = {type(part).__module__.removeprefix("kraftd.metadata.parts.").split(".")[0] for part in PARTS}
    assert modules == listed


def test_nothing_but_what_is_about_certain_entities_names_a_part() -> None:
    named = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "kraftd").rglob("*.py")
        if "metadata/parts" not in str(path) and any(map(is_of_a_part, imported(path)))
    }
    folders = {place for place in WHO_MAY_NAME_PARTS if not place.endswith(".py")}
    places = {next((folder for folder in folders if name.startswith(f"{folder}/")), name) for name in named}
    assert places == set(WHO_MAY_NAME_PARTS)


def imported(path: Path) -> set[str]:
    """The modules and names that a module imports, each with its whole path."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def is_of_a_part(name: str) -> bool:
    return name.startswith("kraftd.metadata.parts.") and name != "kraftd.metadata.parts.PARTS"

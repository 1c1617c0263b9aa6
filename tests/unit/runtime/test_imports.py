"""When generated codecs are imported: all that are served at the start of a daemon, few by a command."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
FOLDERS = ("protocol/kafka", "protocol/msgpack", "protocol/messages", "records/bodies", "records/messages")
EVERY = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for folder in FOLDERS
    for path in (ROOT / "kraftd" / folder).glob("*.py")
    if path.name != "__init__.py"
}


def imported_by(code: str) -> set[str]:
    printed = f"{code}; import sys; print(*sys.modules)"
    found = subprocess.run(
        [sys.executable, "-c", printed], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return EVERY.intersection(found.stdout.split())


def test_a_running_node_reads_no_code_from_disk() -> None:
    found = imported_by("from kraftd.runtime import daemon; daemon.import_codecs({18, 44})")
    served = {f"kraftd.protocol.kafka.{name}" for name in ("api_versions", "incremental_alter_configs")}
    assert {name for name in found if ".kafka." in name} == served
    unserved = {name.replace(".kafka.", ".messages.") for name in EVERY - served if ".kafka." in name}
    assert found | unserved >= {name for name in EVERY if ".kafka." not in name}


def test_what_is_not_served_costs_a_daemon_nothing() -> None:
    found = imported_by("from kraftd.runtime import daemon; daemon.import_codecs({18})")
    assert "kraftd.protocol.messages.add_raft_voter" not in found


def test_a_command_imports_the_codecs_that_it_needs() -> None:
    found = imported_by("import kraftd.cli.main, kraftd.cli.quorum")
    assert not [name for name in found if ".messages." not in name]

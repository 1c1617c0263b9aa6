"""A `quorum-state` that a power cut tore while it was overwritten, read by Kafka's own class."""

from pathlib import Path

import pytest

from kraftd.records import quorum_state
from kraftd.types import Election, ReplicaKey
from tests.crash.promises import read_like_kafka
from tests.interop.conftest import HERE
from tests.interop.peer import Kafka

OLD, NEW = Election(15, 1, ReplicaKey(2)), Election(16, -1, ReplicaKey(3))
NINE = tuple(range(1, 10))


@pytest.mark.covers("D-41")
@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("release", ["kafka", "older_kafka"])
def test_a_tear_at_any_byte_is_refused_or_read_as_the_new_election(
    version: int, release: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    kafka: Kafka = request.getfixturevalue(release)
    old, new = (quorum_state.encode(each, version=version, voter_ids=NINE) for each in (OLD, NEW))
    files: dict[str, bytes] = {}
    for place in (0, 1):
        before, after = quorum_state.in_place(old, place), quorum_state.in_place(new, 1 - place)
        for written in range(len(after) + 1):
            files[f"{place}-{written}"] = after[:written] + before[written:]
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    told = kafka.run(HERE / "QuorumState.java", *(tmp_path / name for name in files)).splitlines()
    said = dict(zip(files, told, strict=True))
    for name, data in files.items():
        read = read_like_kafka(data)
        assert said[name] == ("refused" if read is None else _text(read)), name
        assert said[name] in {"refused", _text(NEW)} or data.strip() == old, name
    assert said["0-0"] == said["1-0"] == _text(OLD)
    assert said["0-512"] == said["1-512"] == _text(NEW)


def _text(election: Election) -> str:
    return f"{election.epoch} {election.leader_id} {election.voted.id if election.voted else -1}"

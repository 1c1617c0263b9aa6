"""Whatever the bytes, a replay goes on: damage is a problem with its file and byte, never an exception."""

import random
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from kraftd.logtools.finding import find_fleet
from kraftd.logtools.node_files import by_cluster
from kraftd.logtools.problem import ProblemKind
from kraftd.replay.cluster_scan import ClusterSurvey, survey_clusters
from kraftd.replay.image.fold_plan import plan_fold
from kraftd.replay.source.columns import SCHEMA
from kraftd.replay.source.decode import Decoder
from kraftd.replay.source.pieces import plan_node
from tests.fixtures import klog

SEGMENT = "00000000000000000736.log"


def surveyed(home: Path) -> ClusterSurvey:
    ((key, nodes),) = by_cluster(find_fleet([home])[0]).items()
    return survey_clusters(key, nodes)[0]


@pytest.fixture
def node(tmp_path: Path) -> Path:
    shutil.copytree(klog("generated-kafka-4.3-dynamic-voters") / "node-2", tmp_path / "node-2")
    return tmp_path / "node-2"


def rows_of(survey: ClusterSurvey) -> pa.Table:
    (found,) = survey.judged
    return pa.Table.from_batches(Decoder().rows(plan_node(found[0].node, found[1], 10_000)), SCHEMA)


@pytest.mark.parametrize("seed", range(12))
def test_damage_is_told_and_the_rest_is_read(node: Path, seed: int) -> None:
    rng = random.Random(seed)
    path = node / "__cluster_metadata-0" / SEGMENT
    data = bytearray(path.read_bytes())
    match seed % 4:
        case 0:
            at = rng.randrange(len(data))
            data[at] ^= 1 << rng.randrange(8)
        case 1:
            at = rng.randrange(len(data))
            del data[at:]
        case 2:
            at = rng.randrange(len(data) - 300)
            data[at : at + 300] = rng.randbytes(300)
        case _:
            at = rng.randrange(len(data))
            data[at:at] = bytes(rng.randrange(1, 200))
    path.write_bytes(data)
    survey = surveyed(node)
    told = [problem for problem in survey.problems if problem.offset >= 736]
    assert told, "the damage is told"
    assert all(problem.kind is not ProblemKind.NOTE for problem in told)
    assert min(problem.position_bytes for problem in told if problem.file == SEGMENT) <= at or any(
        problem.kind is ProblemKind.INCOMPLETE for problem in told
    )
    assert survey.reference.end_offset <= 1119
    rows = rows_of(survey)
    after = [row for row in rows.to_pylist() if row["segment_base_offset"] > 736 and not row["is_snapshot"]]
    assert sum(row["crc_ok"] for row in after) == 1690 - 1119
    plan = plan_fold(survey, None)
    assert plan.end_offset <= survey.reference.end_offset


@pytest.mark.parametrize("content", [b"", b"\0" * 5000, b"x" * 5000, b"\xff" * 61])
def test_a_file_that_is_no_segment_is_a_problem_of_its_own(node: Path, content: bytes) -> None:
    for path in node.rglob("*"):
        if path.suffix in {".log", ".checkpoint"}:
            path.write_bytes(content)
    survey = surveyed(node)
    assert rows_of(survey).num_rows == 0
    assert SEGMENT in {problem.file for problem in survey.problems}
    assert plan_fold(survey, None).end_offset == 0

"""The tables are those that docs/replay.md lists, column by column."""

import re

from kraftd.replay.image.entity_history import PartitionChange, Registration
from kraftd.replay.image.state_history import ElectionRow, PartitionStateRow, ReplicaStateRow
from kraftd.replay.schemas import TABLES
from tests.fixtures import ROOT


def test_the_page_lists_every_column_of_every_table() -> None:
    text = (ROOT / "docs" / "replay.md").read_text()
    listed = dict(re.findall(r"^### (\w+)\n\n(.*?)(?=\n###|\Z)", text, re.MULTILINE | re.DOTALL))
    assert list(listed) == list(TABLES)
    for name, table in TABLES.items():
        said, columns = listed[name].strip().split("\n\n")
        assert " ".join(said.split()).lower() == f"{table.row}.".lower()
        found = re.findall(r"`(\w+)` ([\w ]+)", " ".join(columns.split()))
        assert [column for column, _ in found] == table.schema.names, name
        for (_, kind), field in zip(found, table.schema, strict=True):
            assert kind == shown(str(field.type)), (name, field.name)


def test_rows_that_are_tuples_have_the_columns_of_their_tables() -> None:
    assert list(PartitionChange._fields) == TABLES["partition_changes"].schema.names
    assert list(Registration._fields) == TABLES["registrations"].schema.names
    assert list(PartitionStateRow._fields) == TABLES["partition_states"].schema.names
    assert list(ReplicaStateRow._fields) == TABLES["replica_states"].schema.names
    assert list(ElectionRow._fields) == TABLES["elections"].schema.names


def shown(kind: str) -> str:
    """A type as the page writes it."""
    if kind.startswith("timestamp"):
        return "time"
    inner = re.fullmatch(r"list<\w+: (\w+)>", kind)
    return f"list of {inner[1]}" if inner else kind

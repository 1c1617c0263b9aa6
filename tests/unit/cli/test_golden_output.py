"""All that the commands and the tables of a replay show of one small cluster, byte for byte.

The cluster has every kind of entity, and something happens to each. `golden_output.txt` holds what each
command printed; `python -m tests.unit.cli.test_golden_output` writes it anew, in the repository's root.
"""

import contextlib
import difflib
import io
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from kraftd.cli.main import run
from kraftd.logtools.finding import find_log
from kraftd.logtools.state import State, state_at
from kraftd.metadata.part import ImageView
from kraftd.metadata.registry import TABLES as IMAGE_TABLES
from kraftd.records import messages as m
from kraftd.records.frame import RawRecord
from kraftd.replay.schemas import TABLES
from tests.unit.logtools.logs import ORDERS, LogMaker, broker, config, moved, partition

GOLDEN = Path(__file__).with_name("golden_output.txt")
PAYMENTS = b"payments".ljust(16, b"\2")
LATER = ((99, b"later"),)
DIRECTORY = bytes(15) + b"\7"


def cluster(home: Path) -> LogMaker:
    """0-1 leader and features, 5 brokers, 9 topics, then one change of each kind a batch."""
    made = LogMaker(home).lead(1, 1)
    made.batch(m.FeatureLevelRecord("metadata.version", 30), m.FeatureLevelRecord("later.version", 2, LATER))
    made.batch(m.FeatureLevelRecord("eligible.leader.replicas.version", 1))
    made.batch(broker(1), registered(2), broker(3))
    made.batch(controller(1), controller(2, tags=LATER))
    made.batch(m.TopicRecord("orders", ORDERS), partition(0), partition(1), partition(2, leader=-1))
    made.batch(m.TopicRecord("payments", PAYMENTS), m.TopicRecord("empty", b"empty".ljust(16, b"\3")))
    made.batch(
        m.PartitionRecord(
            0, PAYMENTS, (1, 2), (1,), leader=1, directories=(DIRECTORY,) * 2, eligible_leader_replicas=(2,)
        )
    )
    made.batch(
        config("1000"), config("5", "flush.ms", "payments"), broker_config("log.retention.ms", "7", "")
    )
    made.batch(broker_config("ssl.keystore.password", "secret"), broker_config("a/b%c", "may be a secret"))
    made.batch(m.ConfigRecord(16, "watch", "interval.ms", "100", LATER), m.ConfigRecord(77, "x", "y", "z"))
    made.batch(quota(1.5), quota(2e6, user=None), m.ProducerIdsRecord(1, 2, 3000))
    made.batch(acl(1), acl(2, pattern_type=4, permission_type=2), scram(1), scram(2), token(10))
    made.batch(m.ZkMigrationStateRecord(1), RawRecord(200, 3, b"from the future"))
    made.lead(2, 3)
    made.batch(moved(0, leader=2, isr=(2, 3)), moved(1, leader_recovery_state=1), moved(2, leader=3))
    made.batch(moved(1, replicas=(1, 2, 3, 4), adding_replicas=(4,), directories=(DIRECTORY,) * 4))
    made.batch(moved(1, last_known_elr=(3,)), m.PartitionChangeRecord(0, PAYMENTS, isr=(2, 1), leader=2))
    made.batch(m.FenceBrokerRecord(1, 1), m.UnfenceBrokerRecord(2, 1))
    made.batch(m.BrokerRegistrationChangeRecord(2, 1, in_controlled_shutdown=1, log_dirs=(DIRECTORY,)))
    made.batch(m.UnregisterBrokerRecord(3, 1), controller(1, port=9094))
    made.batch(config("2000"), broker_config("ssl.keystore.password", "other"), config("1", "segment.ms"))
    made.batch(m.BeginTransactionRecord("t"), config("3"), m.RemoveTopicRecord(ORDERS))
    made.batch(m.AbortTransactionRecord("changed our mind"))
    made.batch(quota(3), quota(0, user=None, remove=True), m.ProducerIdsRecord(1, 2, 4000))
    made.batch(m.RemoveAccessControlEntryRecord(acl(1).id), m.RemoveUserScramCredentialRecord("ann", 2))
    made.batch(token(20), m.ZkMigrationStateRecord(3), m.ClearElrRecord("payments"))
    made.batch(m.FeatureLevelRecord("later.version", 0), m.RemoveTopicRecord(PAYMENTS))
    return made


def registered(node_id: int) -> m.RegisterBrokerRecord:
    return m.RegisterBrokerRecord(
        node_id,
        False,
        b"i" * 16,
        1,
        (m.RegisterBrokerRecordBrokerEndpoint("PLAINTEXT", "host", 9092, 0),),
        (m.RegisterBrokerRecordBrokerFeature("metadata.version", 1, 30),),
        "rack-a",
        fenced=True,
        log_dirs=(b"d" * 16,),
    )


def controller(node_id: int, port: int = 9093, tags: m.UnknownTags = ()) -> m.RegisterControllerRecord:
    return m.RegisterControllerRecord(
        node_id,
        b"c" * 16,
        end_points=(m.RegisterControllerRecordControllerEndpoint("CONTROLLER", "host", port, 0),),
        features=(m.RegisterControllerRecordControllerFeature("kraft.version", 0, 1),),
        unknown_tags=tags,
    )


def broker_config(name: str, value: str | None, resource: str = "2") -> m.ConfigRecord:
    return m.ConfigRecord(4, resource, name, value)


def quota(value: float, *, user: str | None = "ann", remove: bool = False) -> m.ClientQuotaRecord:
    entity = (m.ClientQuotaRecordEntityData("user", user), m.ClientQuotaRecordEntityData("client-id", "c1"))
    return m.ClientQuotaRecord(entity, "producer_byte_rate", value, remove)


def acl(number: int, *, pattern_type: int = 3, permission_type: int = 3) -> m.AccessControlEntryRecord:
    return m.AccessControlEntryRecord(
        bytes([number]) * 16, 2, "ord", pattern_type, "User:ann", "*", 3, permission_type
    )


def scram(mechanism: int) -> m.UserScramCredentialRecord:
    return m.UserScramCredentialRecord("ann", mechanism, b"salt", b"stored", b"server", 4096)


def token(expires_at_ms: int) -> m.DelegationTokenRecord:
    return m.DelegationTokenRecord("User:o", "User:r", ("User:a",), 1, 100, expires_at_ms, "id")


def commands() -> Iterator[list[str]]:
    for path in (
        "brokers", "brokers/2", "controllers", "features", "topics", "topics/orders", "topics/empty",
        "topics/orders/1", "topicIds", "configs", "configs/topic", "configs/broker/<default>",
        "configs/broker/2", "configs/topic/orders/retention.ms", "clientQuotas", "producerIds", "acls",
        "scram", "delegationTokens", "topics/*/0", "configs/*/*",
    ):  # fmt: skip
        yield ["log", "state", "DIR", "--at", "37", "--path", f"/{path}"]
    for output in ("table", "json", "yaml"):
        yield ["log", "state", "DIR", "-o", output]
    yield ["log", "state", "DIR", "--at", "37", "-o", "json", "--show-secrets"]
    for words in (["0", "37"], ["37", "62"], ["62", "37"], ["20", "45"], ["37", "62", "--show-secrets"]):
        yield ["log", "diff", "DIR", *words]
    yield ["log", "diff", "DIR", "37", "62", "-o", "json"]
    for subject, name in (
        ("topic", "orders"), ("topic", "payments"), ("partition", "orders-1"), ("partition", "payments-0"),
        ("broker", "2"), ("broker", "3"), ("config", "retention.ms"),
        ("config", "ssl.keystore.password of broker 2"), ("config", "flush.ms"), ("topic", "ordres"),
        ("broker", "22"), ("config", "retention.m"), ("partition", "orders-9"),
    ):  # fmt: skip
        yield ["log", "history", "DIR", subject, name]
    yield ["log", "history", "DIR", "topic", "payments", "-o", "json"]
    yield ["log", "history", "--help"]
    yield ["shell", "DIR", "--at", "37", "-c", "ls /", "-c", "tree /", "-c", "cat /scram/SCRAM-SHA-256/ann"]


def outputs(home: Path) -> Iterator[str]:
    """What each command prints, and the rows of each table."""
    made = cluster(home)
    for arguments in commands():
        out, errors = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
            code = run([str(home) if word == "DIR" else word for word in arguments])
        text = f"$ kraftctl {' '.join(arguments)}\n{out.getvalue()}{errors.getvalue()}exit {code}\n\n"
        yield text.replace(str(home), "DIR")
    state = state_at(find_log(made.home))
    for name, row in rows(state):
        yield f"{name} {json.dumps(row, default=str)}\n"
    for name, table in TABLES.items():
        yield f"\n{name}: {table.row}\n" + "".join(f"  {f.name} {f.type}\n" for f in table.schema)


def rows(state: State) -> Iterator[tuple[str, dict[str, object]]]:
    for show_secrets in (False, True):
        tables = sorted(IMAGE_TABLES, key=lambda table: table.name)
        for table in [one for one in tables if one.name == "configs"] if show_secrets else tables:
            found = table.rows(ImageView(state.image, show_secrets))
            full = [{"cluster_id": "c", "end_offset": 1, **row} for row in found]
            batch = pa.RecordBatch.from_pylist(full, schema=TABLES[table.name].schema)
            yield from ((table.name, row) for row in batch.to_pylist())


def test_all_output_is_what_it_was(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.delenv("KRAFTD_BOOTSTRAP", raising=False)
    now, golden = "".join(outputs(tmp_path / "node")), GOLDEN.read_text(encoding="utf-8")
    lines = difflib.unified_diff(golden.splitlines(), now.splitlines(), "golden", "now", n=0, lineterm="")
    assert list(lines) == []


if __name__ == "__main__":
    os.environ["COLUMNS"] = "200"
    with tempfile.TemporaryDirectory() as folder:
        GOLDEN.write_text("".join(outputs(Path(folder) / "node")), encoding="utf-8")
    sys.stdout.write(f"{GOLDEN} is written\n")

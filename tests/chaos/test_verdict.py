"""The judge of a run: each way to break a promise is seen, and an honest run is not accused."""

from collections.abc import Sequence

from kraftd.audit.linearizability import Kind, Operation, Outcome
from kraftd.records.batch import BatchView, encode_batch, encode_control_batch, scan
from kraftd.records.frame import encode_record
from kraftd.records.messages import ConfigRecord
from tests.chaos.clients import CONFIG
from tests.chaos.verdict import complaints

Log = Sequence[BatchView]


def operation(
    value: str | None,
    called: int,
    returned: int | None,
    *,
    key: str = "1",
    kind: Kind = "write",
    outcome: Outcome = "ok",
) -> Operation:
    return Operation(1, key, kind, value, called, returned, outcome)


def log_of(*values: str, key: str = "1", epoch: int = 1) -> Log:
    records = [ConfigRecord(resource_type=4, resource_name=key, name=CONFIG, value=value) for value in values]
    batches = [encode_batch(n, epoch, 1_000, [encode_record(record)]) for n, record in enumerate(records)]
    return list(scan(b"".join(batches)))


def judge(history: Sequence[Operation], *logs: Log, committed: int | None = None) -> list[str]:
    by_node = dict(enumerate(logs * 3 if len(logs) == 1 else logs, 1))
    return list(complaints(history, by_node, len(logs[0]) if committed is None else committed))


def test_an_honest_run_is_not_accused() -> None:
    history = [
        operation("a", 1, 2),
        operation("b", 3, None, outcome="unknown"),
        operation("c", 3, None, outcome="unknown"),
        operation("d", 3, None, outcome="failed"),
        operation("b", 5, 6, kind="read"),
        operation("x", 1, 7, key="2"),
    ]
    other = encode_record(ConfigRecord(resource_type=4, resource_name="2", name=CONFIG, value="x"))
    batches = [*log_of("a", "b"), *scan(encode_batch(2, 1, 1_000, [other]))]
    assert judge(history, batches) == []


def test_what_was_acknowledged_and_is_not_in_the_log_is_lost() -> None:
    history = [operation("a", 1, 2), operation("b", 3, 4)]
    (complaint,) = judge(history, log_of("b"))
    assert complaint == "acknowledged and lost: write of 'a' by client 1 (1..2)"


def test_what_was_refused_must_not_be_in_the_log() -> None:
    history = [operation("a", 1, None, outcome="failed")]
    (complaint,) = judge(history, log_of("a"))
    assert complaint.startswith("refused as not appended, and in the log: write of 'a'")


def test_a_write_is_in_the_log_once() -> None:
    (complaint,) = judge([operation("a", 1, 2)], log_of("a", "a"))
    assert complaint.startswith("in the log twice: write of 'a'")


def test_a_write_of_nobody_is_seen() -> None:
    (complaint,) = judge([operation("a", 1, 2)], log_of("a", "b"))
    assert complaint == "in the log, and nobody wrote it: 'b' of key 1"


def test_a_write_under_another_key_is_a_strange_one() -> None:
    (complaint,) = judge([operation("a", 1, 2, key="2")], log_of("a", key="1"))
    assert complaint == "in the log, and nobody wrote it: 'a' of key 1"


def test_the_log_keeps_the_order_that_clients_saw_of_all_keys() -> None:
    history = [operation("a", 1, 2), operation("b", 3, 4)]
    (complaint, *_) = judge(history, log_of("b", "a"))
    assert complaint.startswith("before a write in the log that was acknowledged before it was called")
    touching = [operation("a", 1, 3), operation("b", 3, 4)]
    assert judge(touching, log_of("b", "a")) == []


def test_a_stale_read_is_not_linearizable() -> None:
    history = [operation("a", 1, 2), operation("b", 3, 4), operation("a", 5, 6, kind="read")]
    (complaint,) = judge(history, log_of("a", "b"))
    assert complaint.startswith("not linearizable: key 1: read of 'a'")


def test_logs_agree_below_what_is_committed_and_may_differ_above() -> None:
    history = [operation("a", 1, 2), operation("b", 3, None, outcome="unknown")]
    other = [*log_of("a"), *scan(encode_control_batch(1, 2, 1_000, [(2, b"")]))]
    assert judge(history, log_of("a", "b"), other, log_of("a"), committed=1) == []
    short, differs = judge(history, log_of("a", "b"), other, log_of("a"), committed=2)
    assert short == "the log of node 3 ends at 1, but everything below 2 is committed"
    assert differs.startswith("the logs of nodes 1 and 2 differ")


def test_one_byte_is_a_difference() -> None:
    history = [operation("a", 1, 2)]
    (complaint,) = judge(history, log_of("a"), log_of("a", epoch=2), log_of("a"))
    assert complaint == "the logs of nodes 1 and 2 differ: <data batch 0-0 epoch 1>, <data batch 0-0 epoch 2>"


def test_logs_prove_nothing_where_nobody_knows_what_is_committed() -> None:
    history = [operation("a", 1, 2), operation("b", 3, 4, kind="read")]
    (complaint,) = complaints(history, {1: log_of()}, None)
    assert complaint.startswith("not linearizable: key 1: read of 'b'")

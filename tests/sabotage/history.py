"""Which bug of KRaft, and of other quorums, is played by whom here?

One row a bug that somebody had: its scenario's name, where it was reported, whether it must have a mutant
(`starred`: what it broke is what a quorum is for), and who plays it: mutants of the corpus, tests, or nobody
yet because kraftd does not have the part that it was in (`waits`), or cannot have the bug (`never`). A row
without any of them is an error, and so is a name that does not exist.

Elections, the log, the snapshots and the controller of KRaft are complete; of the other parts, and of other
quorums, the starred rows are here, and some more.
"""

from typing import NamedTuple

STORIES = "tests/stories/test_"
VOTERS = "voters that change at run time"
TOPICS = "topics and brokers"


class Row(NamedTuple):
    """One bug."""

    tag: str
    source: str
    starred: bool = False
    mutants: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    """`path::name`."""
    waits: str = ""
    """What kraftd must have before it can have this bug."""
    never: str = ""
    """Why kraftd cannot have it."""


def row(tag: str, source: str, *mutants: str, **known: object) -> Row:
    """A row that must not wait for a mutant."""
    return Row(tag, source, False, mutants, **known)  # type: ignore[arg-type]


def star(tag: str, source: str, *mutants: str, **known: object) -> Row:
    """A row that must have a mutant."""
    return Row(tag, source, True, mutants, **known)  # type: ignore[arg-type]


def brokers(*names: str) -> tuple[str, ...]:
    """Stories of a small cluster with brokers."""
    return tuple(f"tests/sim/test_broker_scenarios.py::test_{name}" for name in names)


def partitions(*names: str) -> tuple[str, ...]:
    """Stories of the messages of its partitions."""
    return tuple(f"tests/sim/test_partition_scenarios.py::test_{name}" for name in names)


ELECTIONS = (
    star("restart-leader-same-epoch", "KAFKA-10527", "restart-leader-same-epoch"),
    star("exleader-double-vote", "KAFKA-10661", "exleader-double-vote"),
    row("resign-parked-fetch", "KAFKA-10677", "resign-parked-fetch"),
    star("hw-before-own-epoch", "KAFKA-12619", "hw-before-own-epoch"),
    row(
        "controller-renounce-orphans-leader",
        "KAFKA-12631",
        "controller-renounce-orphans-leader",
        "replay-fault-fatal",
    ),
    row("leader-loads-snapshot", "KAFKA-12958", "leader-loads-snapshot"),
    star("isolated-leader-steps-down", "KAFKA-15489", "isolated-leader-steps-down"),
    star("single-voter-check-quorum", "KAFKA-16144", "single-voter-check-quorum"),
    star("self-removed-leader-quorum", "KAFKA-16531", waits=VOTERS),
    star("fetch-no-progress", "KAFKA-15911", "fetch-no-progress"),
    row("lead-before-caught-up", "KAFKA-15345", "lead-before-caught-up"),
    row("late-listener", "KAFKA-16286", "late-listener"),
    star("resigned-notifies", "KAFKA-17333", "resigned-notifies"),
    row("observer-campaigns", "KAFKA-17067", "observer-campaigns"),
    star("epoch-inflation-rejoin", "KAFKA-17641", "epoch-inflation-rejoin"),
    star("prevote-pingpong", "KAFKA-17642", "prevote-pingpong"),
    star("backoff-sync-livelock", "KAFKA-18345", "backoff-sync-livelock"),
    row("restart-no-endpoint", "KAFKA-16536", "restart-no-endpoint"),
    row("leader-endpoint-growth", "KAFKA-16927", "leader-endpoint-growth"),
    row("ghost-voter-stuck", "KAFKA-17030", waits=VOTERS),
    row("observer-bootstrap-sticky", "KAFKA-19354", "observer-bootstrap-sticky"),
    row("config-bounds", "KAFKA-18837", "config-bounds"),
    row("resign-as-observer", "KAFKA-17332", waits=VOTERS),
    row("vote-matrix", "KAFKA-12607", "vote-matrix"),
    row("authz-error-not-fatal", "KAFKA-20109", "authz-error-not-fatal"),
)

LOG = (
    star("flush-before-ack", "KAFKA-10533", "flush-before-ack", "fetch-before-flush"),
    star("promoted-without-flush", "KAFKA-13884", waits=VOTERS),
    row("diskloss-fetch-regress", "KAFKA-12181", "diskloss-fetch-regress"),
    star("truncate-below-hw", "KAFKA-12460", "truncate-below-hw"),
    row("control-batch-offset", "KAFKA-12331", "control-batch-offset"),
    star("atomic-decision", "KAFKA-12376", "atomic-decision"),
    star("hw-reconfig", "KAFKA-16530", waits=VOTERS),
    row("hw-one-behind", "KAFKA-13959", "hw-one-behind"),
    star("read-truncate-race", "KAFKA-18723", "read-truncate-race"),
    star("bitflip-batch", "KAFKA-14104", "bitflip-batch"),
    row("fetch-expiry-race", "KAFKA-15100", "fetch-expiry-race"),
    star("dirsync-new-segment", "KAFKA-3968", "dirsync-new-segment"),
    star("rename-before-fsync", "KAFKA-15312", "rename-before-fsync"),
    row(
        "rename-open-handle",
        "KAFKA-14273",
        tests=(
            (
                "tests/unit/storage/test_election_store.py"
                "::test_the_first_write_replaces_the_file_and_the_next_ones_overwrite_it_after_the_sidecar"
            ),
        ),
    ),
    row("qs-unknown-version", "KAFKA-15412", "qs-unknown-version"),
    star("vote-directory-forgotten", "KAFKA-16526", waits=VOTERS),
    row("double-open", "KAFKA-14557", "double-open"),
    star("retention-hole", "KAFKA-14238", "retention-hole"),
    star("start-without-snapshot", "KAFKA-14240", "start-without-snapshot"),
    row("offset-prediction", "KAFKA-15213", "offset-prediction"),
    star("io-task-death", "KAFKA-14644", "io-task-death"),
    row("linger-wakeup", "KAFKA-10826", "linger-wakeup"),
    row("truncate-order", "KAFKA-12153", "truncate-order"),
    row("hw-checkpoint-missing", "KAFKA-16452", "hw-checkpoint-missing"),
    row("downgrade-state-file", "KAFKA-14371", "downgrade-state-file"),
    star("midlog-bitrot-vote", "Kafka's LogLoader", "midlog-bitrot-vote"),
    star("vote-file-lost", "Kafka's FileQuorumStateStore", "vote-file-lost", "vote-file-bitflip"),
)

SNAPSHOTS = (
    row("refetch-snapshot", "KAFKA-13078", "refetch-snapshot"),
    row("snapshot-delete-race", "KAFKA-13098", "snapshot-gone-at-start", "snapshot-delete-race"),
    star("snapshot-off-by-one", "KAFKA-14618", "snapshot-off-by-one"),
    star("snapshot-batch-align", "KAFKA-14619", "snapshot-batch-align"),
    row("snapshot-large", "KAFKA-14222", "snapshot-large"),
    row("empty-follower", "KAFKA-15076", "empty-follower", "empty-follower-replays-all"),
    star("snapshot-starvation", "KAFKA-14300", "snapshot-starvation"),
    row("snapshot-trigger", "KAFKA-13968", "snapshot-trigger"),
    star("snapshot-over-image", "KAFKA-14894", "snapshot-over-image"),
    row("snapshot-offset-meta", "Kafka 11386", "snapshot-offset-meta", "restore-at-offset-zero"),
    row("fetchsnapshot-validate", "Kafka 23185", "fetchsnapshot-validate"),
    row("snapshot-gc", "KAFKA-12205", "snapshot-gc", "removed-files-are-kept"),
    row("revert-after-control-batch", "KAFKA-13100", "revert-after-control-batch"),
    row(
        "mock-real-parity",
        "KAFKA-13073",
        tests=("tests/crash/test_parity.py::test_both_answer_alike",),
    ),
    row("bootstrap-format", "KAFKA-14183", "bootstrap-format"),
)

CONTROLLER = (
    row(
        "replay-fault-fatal",
        "KAFKA-14275",
        "replay-fault-fatal",
        tests=brokers("a_record_that_cannot_be_applied_ends_the_node"),
    ),
    row("log-line-throws", "KAFKA-14259", tests=brokers("a_name_that_no_line_can_be_made_of_ends_nothing")),
    row("revert-fuzz", "KAFKA-14035", tests=partitions("what_a_deposed_leader_appended_is_undone")),
    star(
        "poison-request",
        "KAFKA-14204",
        "poison-request",
        tests=brokers("a_poisonous_request_costs_itself_only"),
    ),
    star(
        "mass-expiry",
        "KAFKA-13173",
        "mass-expiry",
        tests=brokers("many_sessions_that_end_at_once_are_worked_off_one_by_one"),
    ),
    star(
        "die-during-failover",
        "KAFKA-18138",
        "die-during-failover",
        tests=brokers("who_dies_during_a_failover_is_fenced"),
    ),
    star(
        "fenced-in-isr",
        "KAFKA-13916",
        "fenced-in-isr",
        "stopping-in-isr",
        "elected-while-it-goes",
        tests=brokers("a_fenced_or_stopping_replica_enters_no_isr")
        + partitions("who_shuts_down_enters_no_isr_and_holds_nobody_up"),
    ),
    star(
        "reboot-isr-race",
        "KAFKA-14617",
        "reboot-isr-race",
        "stale-leader-proposes",
        "epochs-of-members-unread",
        tests=partitions("a_reboot_without_the_tail_is_another_start"),
    ),
    row("zombie-controller", "KAFKA-14154", tests=brokers("a_controller_that_is_behind_does_not_judge")),
    row(
        "partition-epoch", "KAFKA-12367", tests=brokers("an_older_proposal_is_refused_and_a_newer_one_taken")
    ),
    row(
        "shutdown-treadmill",
        "KAFKA-14292",
        "shutdown-treadmill",
        "stops-before-anybody-knows",
        tests=brokers("a_shutdown_ends_while_the_log_goes_on"),
    ),
    star(
        "last-replica-standing",
        "KAFKA-15583",
        "last-replica-standing",
        "nobody-is-eligible",
        tests=partitions("the_last_replica_standing_takes_nothing_along"),
    ),
    row(
        "false-clean-marker",
        "KAFKA-18106",
        "false-clean-marker",
        "eligible-without-its-tail",
        tests=partitions("who_was_killed_while_it_stopped_is_not_trusted"),
    ),
    star(
        "elect-fenced-lkl",
        "KAFKA-19522",
        "elect-fenced-lkl",
        "registered-unfenced",
        tests=partitions("the_last_known_leader_leads_once_it_is_unfenced"),
    ),
    row(
        "reassign-two-sided",
        "KAFKA-15665",
        "reassign-two-sided",
        "reassign-held-up",
        "moved-before-it-arrived",
        tests=partitions("a_sick_replica_does_not_hold_a_move_up", "a_move_to_fewer_waits_for_all_that_stay"),
    ),
    row(
        "reregister-same-incarnation",
        "KAFKA-16952",
        "reregister-same-incarnation",
        "registers-again-and-is-fenced",
        tests=brokers("the_same_process_registers_again_and_stays_what_it_is"),
    ),
    row(
        "create-delete-delta", "KAFKA-19383", tests=brokers("a_topic_that_came_and_went_unseen_is_not_there")
    ),
    row("partial-create", "KAFKA-14612", tests=brokers("a_topic_that_fails_leaves_no_configs")),
    row(
        "read-uncommitted",
        "KAFKA-14857",
        "apply-uncommitted",
        "read-of-the-uncommitted",
        tests=brokers("what_is_not_committed_is_neither_published_nor_told"),
    ),
    row(
        "hw-shutting-down",
        "KAFKA-15021",
        "epoch-of-every-shrink",
        "stops-and-stays-in-sync",
        tests=partitions("who_shuts_down_enters_no_isr_and_holds_nobody_up"),
    ),
    row("deadline", "KAFKA-12778", "no-deadline", tests=brokers("a_request_ends_by_its_deadline")),
    row(
        "foreign-broker",
        "KAFKA-13528",
        "foreign-broker",
        tests=brokers("a_broker_of_another_cluster_is_refused"),
    ),
)

KRAFT_ELSEWHERE = (
    row("slow-link-snapshot", "KAFKA-19541", "slow-link-snapshot"),
    star("remove-active", "KAFKA-17608", waits=VOTERS),
    star("voter-history-jump", "KAFKA-17973", waits=VOTERS),
    star("mixed-format", "KAFKA-19489", waits=VOTERS),
    star("autojoin-vs-remove", "KAFKA-19850", waits=VOTERS),
    star("unreachable-endpoint", "KAFKA-20661", waits=VOTERS),
    star("two-leader-reconfig", "the single-server bug of Raft's thesis", waits=VOTERS),
    star("busy-loop", "KAFKA-17751", "busy-loop"),
    star("busy-loop-observer", "KAFKA-19605", "busy-loop-observer"),
    star("foreign-cluster", "KAFKA-12440", "foreign-cluster"),
    star("stale-divergence", "KAFKA-18991", "stale-divergence"),
    star("hw-then-truncate", "KAFKA-14704", "hw-then-truncate"),
    star("fast-failover-chain", "KAFKA-6361", "fast-failover-chain"),
    row("diverging-ack", "KAFKA-13141", "diverging-ack"),
    star("stray-delete-inverted", "KAFKA-13127", waits=TOPICS),
    row("non-replica-fetch", "KAFKA-9672", "non-replica-fetch"),
)

OTHER_QUORUMS = (
    star("readindex-ctx-reuse", "etcd-io/etcd 20418", "readindex-ctx-reuse"),
    star("readindex-new-leader", "etcd-io/etcd 7331", "readindex-new-leader"),
    star("single-node-ack", "etcd-io/etcd 14370", "single-node-ack"),
    star("applied-index-atomic", "etcd-io/etcd 13766", "applied-index-atomic", "restore-at-offset-zero"),
    star("lazyfs-kill", "etcd-io/etcd 14143", "lazyfs-kill"),
    star("apply-pagination", "etcd-io/raft 8ecce32", "apply-pagination"),
    star("prevote-term-echo", "etcd-io/raft d4471b2", "prevote-term-echo"),
    star("observer-campaigns", "etcd-io/raft db54973", "observer-campaigns"),
    star("membership-single-source", "etcd-io/etcd 13196", waits=VOTERS),
    star("vote-two-writes", "hashicorp/raft 661", "vote-two-writes"),
    star(
        "heartbeat-race",
        "hashicorp/raft 695",
        never="one loop owns the epoch: nothing runs between a message and its effects",
    ),
    star("rename-before-fsync", "hashicorp/raft 854cbcb", "rename-before-fsync"),
    row("even-quorum", "hashicorp/raft 163a55f", "even-quorum", "minority-elects"),
    star("malformed-rpc", "hashicorp/raft e59f65d", "malformed-rpc"),
    star("commit-monotone", "PySyncObj 166", "commit-monotone"),
    star("old-epoch-by-count", "PySyncObj 169", "old-epoch-by-count"),
    star("restart-double-vote", "PySyncObj 0.3.14", "restart-double-vote"),
    star("reorder", "RaftOS 25", "reorder"),
    star("snapshot-term", "willemt/raft 118", "snapshot-term"),
    row("compacted-prev-entry", "etcd-io/raft 76f1249", "compacted-prev-entry", "start-of-another-epoch"),
    row("double-snapshot", "etcd-io/etcd 18055", "double-snapshot"),
    row("stale-snapshot-write", "Redpanda 9c024b2", "stale-snapshot-write"),
    row("truncate-keeps-voters", "Redpanda 78c93a4", waits=VOTERS),
    row("snapshot-resume", "LogCabin 174", "snapshot-resume", "part-counts"),
    row("corrupt-is-not-empty", "NATS 4410", "corrupt-is-not-empty"),
    row("snapshot-clears-tail", "scylla 9551", "snapshot-clears-tail"),
    star("stale-vote-response", "Xraft 33", "stale-vote-response"),
    star("vote-erased", "Redpanda 9ff1818", "vote-erased"),
    star("truncate-during-flush", "Redpanda 2327254", "truncate-during-flush"),
    star("ack-after-truncate", "Redpanda c230235", "ack-after-truncate"),
    star("readindex-flush", "Redpanda 20330df", "readindex-flush"),
    star("state-replace-window", "ClickHouse 111454", "state-replace-window"),
)

COMPLETE = (ELECTIONS, LOG, SNAPSHOTS, CONTROLLER)
"""The parts of KRaft's history of which every row is here."""

ROWS = (*ELECTIONS, *LOG, *SNAPSHOTS, *CONTROLLER, *KRAFT_ELSEWHERE, *OTHER_QUORUMS)

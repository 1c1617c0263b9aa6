"""Bugs of what is said about replicas that were taken away, and about what brokers have not read."""

from tests.sabotage.mutant import Mutant, mutant

_TRACKER = "kraftd.controller.deletions.tracker:DeletionTracker"
_REPLICAS = "kraftd.metadata.replica_states"
_REMOVALS = "kraftd.controller.deletions.removals"
_TESTS = "tests/unit/controller/test_deletions.py"
_LOST = "tests/unit/controller/test_offline_deletions.py"
_STATES = "tests/unit/metadata/test_replica_states.py"
_JUDGED = "tests/sim/test_deletion_judge.py"
_PENDING = "tests/unit/cli/test_pending.py"


def of_deletions(name: str, text: str, where: str, *edits: tuple[str, str, str]) -> Mutant:
    """A mutant that the unit tests of one module catch."""
    return mutant(name, "D-14", text, "tests", *edits, where=(where,))


DELETIONS = (
    of_deletions(
        "deleted-before-it-was-read",
        "A broker that has read everything before a deletion is said to have deleted.",
        _STATES,
        (
            "kraftd.metadata.replica_states:removed_state",
            "reported >= removed_at",
            "reported >= removed_at - 1",
        ),
    ),
    of_deletions(
        "deleted-while-it-starts",
        "A broker that is starting is said to have deleted what it has not looked for yet.",
        _JUDGED,
        (f"{_TRACKER}.heard", "if is_starting:", "if False:"),
    ),
    of_deletions(
        "nobody-is-heard-of",
        "What brokers report ends no deletion.",
        _JUDGED,
        (
            f"{_TRACKER}.heard",
            "waiting = self._waiting.get(broker_id, OrderedDict())",
            "waiting = {}",
        ),
    ),
    of_deletions(
        "read-at-its-start-and-removed",
        "What a broker reads while it starts is said to be removed, and lies there as strays.",
        _TESTS,
        (f"{_TRACKER}.heard", "is_anew or entry.is_read_at_start", "is_anew"),
    ),
    of_deletions(
        "unheard-start-and-removed",
        "What a broker read while it started, of which only another leader heard, is said to be removed.",
        _TESTS,
        (f"{_TRACKER}.heard", "entry.was_down and entry.removed.offset <= reported", "False"),
    ),
    of_deletions(
        "every-leader-finds-strays",
        "What a broker deletes that was up all the time may be in -stray, as each new leader says.",
        _TESTS,
        (
            f"{_TRACKER}.heard",
            "entry.was_down and entry.removed.offset <= reported",
            "entry.removed.offset <= reported",
        ),
    ),
    of_deletions(
        "read-late-and-stray",
        "What a broker reads that is ready may be in -stray, since it was fenced when that was deleted.",
        _TESTS,
        (
            f"{_TRACKER}.heard",
            "entry.was_down and entry.removed.offset <= reported",
            "entry.was_down",
        ),
    ),
    of_deletions(
        "clocks-of-all-leaders-are-one",
        "What the clocks of two leaders differ by is taken for time that a broker stayed up.",
        _TESTS,
        (f"{_TRACKER}.applied", "if batch.epoch == epoch and now_ms > last_ms:", "if now_ms > last_ms:"),
    ),
    of_deletions(
        "a-clock-set-forward-is-time",
        "What a clock was set forward by is taken for time that a broker stayed up.",
        _TESTS,
        (f"{_TRACKER}.applied", "min(now_ms - last_ms, PASSED_MAX_MS)", "now_ms - last_ms"),
    ),
    of_deletions(
        "any-move-will-do",
        "A replica moves from any state to any other.",
        _STATES,
        (
            "kraftd.metadata.replica_states:steps",
            "return () if between is None else",
            "return (after,) if between is None else",
        ),
    ),
    of_deletions(
        "fenced-broker-is-online",
        "A replica is online although its broker is fenced.",
        _STATES,
        (
            "kraftd.metadata.replica_states:assigned_state",
            "if broker is None or broker.fenced:",
            "if broker is None:",
        ),
    ),
    of_deletions(
        "refused-move-is-made",
        "A move that no table allows is counted, and made all the same.",
        _TESTS,
        (
            f"{_TRACKER}._move",
            "self._refused(entry, state)\n        return",
            "self._refused(entry, state)",
        ),
    ),
    of_deletions(
        "heard-too-little",
        "A broker that has not read a deletion ends it with its heartbeat.",
        _TESTS,
        (
            "kraftd.controller.deletions.tracker:_read",
            "entry.removed.offset <= reported",
            "entry.removed.offset <= reported + 1",
        ),
    ),
    of_deletions(
        "stray-data-is-gone",
        "Data that a restarted broker has put aside for good is said to be gone after a minute.",
        _TESTS,
        (f"{_TRACKER}.heard", "if not entry.is_set_aside:", "if True:"),
    ),
    of_deletions(
        "every-restart-leaves-strays",
        "A broker that was started anew long after a deletion is said to have put the data aside.",
        _TESTS,
        (
            f"{_TRACKER}.heard",
            "entry.may_be_unread and broker_epoch > entry.removed.offset",
            "broker_epoch > entry.removed.offset",
        ),
    ),
    of_deletions(
        "deleted-from-a-dead-disk",
        "A live broker is said to have deleted what lies in a log directory that failed before.",
        _LOST,
        (
            f"{_REPLICAS}:lost_when_removed",
            "broker is not None and not has_online_directory",
            "False and has_online_directory",
        ),
    ),
    of_deletions(
        "back-without-a-start",
        "What lies in a log directory that failed is deleted again as soon as the broker names that again.",
        _LOST,
        (f"{_REPLICAS}:lost_in", "before is not None and before == broker.broker_epoch", "False"),
    ),
    of_deletions(
        "back-and-not-stray",
        "What comes back with its log directory is said to be removed, and lies there as strays.",
        _LOST,
        (f"{_TRACKER}._add", "may_be_unread=is_lost", "may_be_unread=False"),
    ),
    of_deletions(
        "failed-within-the-minute",
        "What was renamed in a log directory that failed at once is said to be gone after a minute.",
        _LOST,
        (
            f"{_TRACKER}._look_at_directories",
            "lost = {each for each in renamed if lost_in(None, broker, each) is not None}",
            "lost = set()",
        ),
    ),
    of_deletions(
        "read-with-a-dead-disk",
        "A heartbeat that names a failed directory first is taken for what was deleted there.",
        _LOST,
        (
            "kraftd.controller.deletions.tracker:_read",
            "if entry.removed.directory not in failed",
            "if True",
        ),
    ),
    of_deletions(
        "failed-directory-is-not-passed-on",
        "What a heartbeat says of failed directories does not reach what is told of deletions.",
        _LOST,
        (
            "kraftd.controller.quorum_controller:QuorumController._heard",
            "read_to, now, failed,",
            "read_to, now,",
        ),
    ),
    of_deletions(
        "minute-ends-in-a-dead-disk",
        "What was renamed is said to be gone by the heartbeat that names its directory as failed.",
        _LOST,
        (f"{_TRACKER}.heard", "if failed:", "if False:"),
    ),
    of_deletions(
        "nowhere-and-gone",
        "Of what may lie in a failed directory, and was not told where, it is said that it is removed.",
        _LOST,
        (f"{_TRACKER}.heard", "has_lost and entry.removed.directory in _NOWHERE", "False"),
    ),
    of_deletions(
        "nowhere-and-gone-within-the-minute",
        "What was renamed nobody knows where is said to be gone, though a directory failed at once.",
        _LOST,
        (f"{_TRACKER}._look_at_directories", "{*lost, *_NOWHERE} if has_less else lost", "lost"),
    ),
    of_deletions(
        "replaced-and-there",
        "Data is said to be there for certain in a log directory that a broker was started anew without.",
        _LOST,
        (
            f"{_TRACKER}._may_be_replaced",
            "return not lost if removed.directory == LOST else removed.directory not in lost",
            "return False",
        ),
    ),
    of_deletions(
        "lost-by-another-start",
        "What a broker lost before its last start counts as what it has lost since.",
        _LOST,
        (
            "kraftd.controller.deletions.lost_directories:LostDirectories.of",
            "directories if epoch == broker_epoch else _NONE",
            "directories",
        ),
    ),
    of_deletions(
        "down-and-deleting",
        "A deletion goes on at a broker that is down.",
        _TESTS,
        (
            "kraftd.controller.deletions.tracker:_is_up",
            "broker is not None and not broker.fenced",
            "broker is not None",
        ),
    ),
    of_deletions(
        "only-the-newest-looked-at",
        "What waited for a broker stays ineligible when that comes back with the batch that takes more away.",
        _TESTS,
        (
            f"{_TRACKER}._look_at_brokers",
            "if oldest.state is state and newest.state is state:",
            "if newest.state is state:",
        ),
    ),
    of_deletions(
        "back-and-deleted",
        "A replica that is assigned again is still told as being deleted.",
        _TESTS,
        (f"{_TRACKER}._is_back", "self._move(entry, ReplicaState.OFFLINE, now_ms)", "pass"),
    ),
    of_deletions(
        "old-copy-forgotten",
        "A replica that is back in another directory makes forget the copy in the failed one.",
        _LOST,
        (
            f"{_TRACKER}._assigned_again",
            "(entry.lost_in is None or entry.removed.directory == added.directory)",
            "True",
        ),
    ),
    of_deletions(
        "old-copy-is-a-stray",
        "A broker that was started with the disk of an old copy is said to have set that aside.",
        _LOST,
        (
            f"{_TRACKER}._look_at_directories",
            "if is_found and _is_assigned(entry.removed, after):",
            "if False:",
        ),
    ),
    of_deletions(
        "every-old-entry-is-an-old-copy",
        "What lies in a failed directory is told as an old copy, though the replica is not back.",
        _LOST,
        (
            "kraftd.controller.deletions.tracker:_is_assigned",
            "return partition is not None and removed.broker_id in partition.replicas",
            "return True",
        ),
    ),
    of_deletions(
        "dropped-with-the-oldest",
        "An old entry that is dropped takes along that a newer one of the same replica may come back.",
        _TESTS,
        (f"{_TRACKER}._end_waiting", "if self._moved.get(key) is entry:", "if key in self._moved:"),
    ),
    of_deletions(
        "change-before-forgotten",
        "Two changes of a partition in one batch are both compared with what was before the batch.",
        _TESTS,
        (f"{_REMOVALS}:_Search.reassigned", "self._replicas[topic_id, partition_id] = replicas", "pass"),
    ),
    of_deletions(
        "kept-for-ever",
        "Every deletion since the start is kept.",
        _TESTS,
        (
            f"{_TRACKER}._drop_oldest",
            "self._replica_count > REPLICAS_MAX",
            "self._replica_count > 1_000 * REPLICAS_MAX",
        ),
    ),
    of_deletions(
        "counted-what-was-read",
        "The record that a broker has read last is told as one that it has not.",
        _PENDING,
        (
            "kraftd.cli.pending:PendingRecords.add",
            "begin = max(begin, base)",
            "begin = max(begin - 1, base)",
        ),
    ),
    of_deletions(
        "counted-past-the-limit",
        "More records that a broker has not read are counted than were asked for.",
        _PENDING,
        (
            "kraftd.cli.pending:PendingRecords.add",
            "min(batch.end_offset, begin + most)",
            "batch.end_offset",
        ),
    ),
)

"""Bugs of groups: what many requests of one turn have in common, and must not have (D-39)."""

from tests.sabotage.mutant import mutant

_TWINS = "tests/unit/runtime/test_append_groups.py"
_FOLD = "tests/unit/controller/test_uncommitted_writes.py"
_APIS = "kraftd.runtime.controller_apis:ControllerApis"
_GROUP = "kraftd.runtime.append_group:AppendGroup"
_WRITES = "kraftd.controller.uncommitted_writes:UncommittedWrites"

GROUPS = (
    mutant(
        "group-answered-before-its-flush",
        "D-39",
        "All requests of a group are answered as it is appended.",
        "tests",
        (
            f"{_APIS}._end_group",
            "self._appends[token] = group.writes",
            "for write, caller in group.writes:\n"
            "        caller and caller.reply(write.response_when_committed)\n"
            "    self._appends[token] = [(write, None) for write, _ in group.writes]",
        ),
        where=(f"{_TWINS}::test_a_group_is_answered_once_a_majority_has_flushed_it",),
    ),
    mutant(
        "refused-left-in-the-fold",
        "D-14",
        "What could be applied of a request that raised stays in the image that others are decided on.",
        "tests",
        (
            f"{_WRITES}.apply",
            "self._fold = None  # of what was applied in part nothing stays",
            "self._fold = fold",
        ),
        where=(_FOLD,),
    ),
    mutant(
        "group-newest-first",
        "D-39",
        "In a group stands first what came last.",
        "tests",
        (f"{_GROUP}.add", "self.records += write.records", "self.records[:0] = write.records"),
        where=(f"{_TWINS}::test_what_one_connection_writes_stands_and_is_answered_in_its_order",),
    ),
    mutant(
        "group-answered-newest-first",
        "D-39",
        "The requests of a group are answered in the opposite order.",
        "tests",
        (f"{_APIS}.append_done", "in writes:", "in reversed(writes):"),
        where=(f"{_TWINS}::test_what_one_connection_writes_stands_and_is_answered_in_its_order",),
    ),
    mutant(
        "waiter-survives-its-epoch",
        "D-13",
        "When the leadership ends, of each group only the last request is told.",
        "tests",
        (f"{_APIS}.append_done", "in writes:", "in writes if error is ErrorCode.NONE else writes[-1:]:"),
        where=(f"{_TWINS}::test_every_waiter_of_a_group_ends_with_its_epoch",),
    ),
    mutant(
        "group-beyond-its-room",
        "D-16",
        "A write joins a group that the log then refuses for its size, with all others in it.",
        "tests",
        (f"{_GROUP}.takes", "size_bytes <= self.room_bytes", "True"),
        where=(f"{_TWINS}::test_a_group_ends_where_a_batch_a_count_or_the_room_ends",),
    ),
    mutant(
        "group-beyond-its-count",
        "ACC-04",
        "A group holds more records than one append may have, and is refused.",
        "tests",
        (f"{_GROUP}.takes", "len(self.records) + len(write.records) <= OPERATION_RECORDS_MAX", "True"),
        where=(f"{_TWINS}::test_a_group_ends_where_a_batch_a_count_or_the_room_ends",),
    ),
    mutant(
        "group-over-the-end-of-a-batch",
        "D-39",
        "Whether the batch has room for it is not asked: batches end elsewhere.",
        "tests",
        (
            "kraftd.raft.accumulator:Accumulator.add",
            "self._batch_bytes += waiting.size_bytes",
            "pass",
        ),
        where=(f"{_TWINS}::test_a_group_ends_where_a_batch_a_count_or_the_room_ends",),
    ),
    mutant(
        "flood-takes-the-room-of-brokers",
        "D-16",
        "What brokers ask joins the group of what people change, and is refused with it.",
        "tests",
        (f"{_GROUP}.takes", "is_urgent is self.is_urgent", "True"),
        where=(f"{_TWINS}::test_brokers_keep_their_room_beside_a_flood",),
    ),
    mutant(
        "resigned-before-the-group",
        "D-09",
        "What came before a resignation in the same turn is refused.",
        "tests",
        (
            f"{_APIS}._serve_resign",
            "self._end_group(self._driver.now())  # what came before is still appended",
            "pass",
        ),
        where=(f"{_TWINS}::test_what_came_before_a_resignation_is_appended_and_what_comes_after_is_refused",),
    ),
    mutant(
        "group-while-sockets-are-read",
        "D-39",
        "What comes outside of the turn of clients waits for the next.",
        "tests",
        (f"{_APIS}._append", "or not self._is_grouping", ""),
        where=(f"{_TWINS}::test_what_comes_outside_of_the_turn_of_clients_is_appended_at_once",),
    ),
    mutant(
        "batch-that-ends-inside-a-group",
        "D-18",
        "Where a batch ends inside a group, the writes of the group's first part are not in the image.",
        "tests",
        (f"{_WRITES}.commit", "if imaged < position:", "if imaged < position and not self._pending:"),
        where=(_FOLD,),
    ),
)

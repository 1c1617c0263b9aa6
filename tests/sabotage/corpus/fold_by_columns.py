"""Bugs of reading a snapshot a batch at once (see `fold`), which no log of changes reaches, Kafka's included."""

from tests.sabotage.corpus.fold_of_topics import of_fold
from tests.sabotage.mutant import mutant

_RUNS = "test_partition_runs.py::"
_BYTES = _RUNS + "test_no_byte_of_a_record_among_its_like_can_be_another[{}]"
_WRONG = _RUNS + "test_whatever_is_wrong_with_a_snapshot_the_same_is_said_of_the_same_record[0]"
_COLUMNS = "parts.topics.partition_columns:"
_BUILDER = "parts.topics.builder:TopicsBuilder."

FOLD_BY_COLUMNS = (
    mutant(
        "batch-read-at-once-is-believed",
        "D-18",
        "The values of a batch that is read at once are not proved by writing them again.",
        "tests",
        (
            "kraftd.records.data_records:usual_values",
            'return values if b"".join(parts) == data[HEADER_BYTES:] else None',
            "return values",
        ),
        where=("tests/unit/records/test_data_records.py::test_no_byte_around_a_value_can_be_another",),
    ),
    of_fold(
        "columns-without-isr",
        "Partitions by columns are all taken to have the first replicas in sync.",
        _BYTES.format("all-0"),
        (_COLUMNS + "_not_in_order", "if column != other:", "if column != other and width == _INT_BYTES:"),
    ),
    of_fold(
        "columns-without-leader",
        "Partitions by columns are all taken to be led by the first replica.",
        _BYTES.format("all-0"),
        (_COLUMNS + "_not_in_order", "(leader_at, _INT_BYTES)", "(leader_at, 0)"),
    ),
    of_fold(
        "columns-without-tags",
        "That a record has tags is not seen by columns.",
        _BYTES.format("all-1"),
        (_COLUMNS + "_not_in_order", "size - 1: 0,", ""),
    ),
    of_fold(
        "columns-with-negative-brokers",
        "A negative id of a broker is a large one by columns.",
        _RUNS + "test_what_is_no_broker_is_none_by_columns_either",
        (_COLUMNS + "_not_in_order", "if not replicas[at].isascii():", "if False:"),
    ),
    of_fold(
        "columns-of-a-replica-twice",
        "That a partition names a replica twice is not seen by columns.",
        _BYTES.format("some-0"),
        (_COLUMNS + "_read_alike", "*_with_equal_replicas(numbers)", ""),
    ),
    of_fold(
        "columns-lose-old-tags",
        "A record of the oldest version loses its tags when it becomes one of the newest.",
        _BYTES.format("all-0"),
        (_COLUMNS + "_canonical", "(version == _UNNAMED and value[-1])", "False"),
    ),
    of_fold(
        "columns-of-any-topic",
        "A partition behind a topic's record is one of that topic, whatever its own record says.",
        _WRONG,
        (_BUILDER + "_planned", "if not ranges or not has_ids(runs, keys):", "if not ranges:"),
    ),
    of_fold(
        "columns-make-partitions-twice",
        "A partition that is there already is taken for a new one by columns.",
        _RUNS + "test_a_topic_goes_on_in_the_next_records_and_its_partitions_are_not_made_twice",
        (_BUILDER + "_new_keys", "or self._has_any(run)", ""),
    ),
    of_fold(
        "columns-make-topics-twice",
        "Of two topics of a name in one batch, the second one replaces the first.",
        _WRONG,
        (_BUILDER + "_new_keys", "or name in names", ""),
    ),
    of_fold(
        "refused-again-and-again",
        "What follows is read as runs again at each topic of a batch that is none.",
        _RUNS + "test_what_was_refused_once_is_not_read_again_and_again",
        (_BUILDER + "put_runs", "self._refused = values", "pass"),
    ),
    of_fold(
        "few-moves-wait-for-later-ones",
        "Moves of brokers that came first are merged after those that came later.",
        "test_packed.py::test_moves_are_merged_in_the_order_in_which_they_came",
        ("parts.topics.broker_index:BrokerIndexBuilder.make_room", "self._spill()", "pass"),
    ),
)

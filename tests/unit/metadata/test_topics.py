"""How records make, change and remove topics and partitions in the image."""

import pytest
from msgspec.structs import replace

from kraftd.metadata.image import EMPTY, to_records
from kraftd.metadata.image_builder import ImageBuilder, apply, apply_all, is_applied
from kraftd.metadata.impossible import ImpossibleRecordError
from kraftd.metadata.parts.configs import CONFIGS
from kraftd.metadata.parts.topics import TOPICS
from kraftd.metadata.parts.topics.partitions import MIGRATING
from kraftd.records.frame import encode_record
from kraftd.records.messages import (
    ClearElrRecord,
    ConfigRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)

A, B, DIR1, DIR2, DIR3 = (bytes([n]) * 16 for n in range(1, 6))
ELR = "eligible.leader.replicas.version"
DIRECTORIES = FeatureLevelRecord("metadata.version", 17)
TOPIC = TopicRecord("orders", A)
PARTITION = PartitionRecord(
    partition_id=0,
    topic_id=A,
    replicas=(2, 1, 3),
    isr=(2, 1),
    removing_replicas=(3,),
    adding_replicas=(1,),
    leader=2,
    leader_epoch=4,
    partition_epoch=9,
    directories=(DIR1, DIR2, DIR3),
    eligible_leader_replicas=(3,),
    last_known_elr=(1,),
)
OTHER = replace(PARTITION, partition_id=1, eligible_leader_replicas=None, last_known_elr=None)
IMAGE = apply_all(EMPTY, [TOPIC, PARTITION, OTHER], 0)


def change(**what):
    return PartitionChangeRecord(partition_id=0, topic_id=A, **what)


def after(*records, image=IMAGE):
    return apply_all(image, records, 10)


def test_topics_are_found_whose_names_differ_only_in_dot_and_underscore():
    image = after(TopicRecord("a.b_c", B))
    for name in ("a.b_c", "a_b.c", "a.b.c", "a_b_c"):
        assert image[TOPICS].names_alike(name) == ("a.b_c",)
    assert image[TOPICS].names_alike("a.b-c") == image[TOPICS].names_alike("orders") == ()
    assert IMAGE[TOPICS].names_alike("a.b_c") == ()


def test_names_that_an_old_log_holds_in_two_spellings_are_forgotten_one_by_one():
    image = after(TopicRecord("a_b", B), TopicRecord("a.b", DIR1))
    assert image[TOPICS].names_alike("a.b") == ("a.b", "a_b")
    image = after(RemoveTopicRecord(B), image=image)
    assert image[TOPICS].names_alike("a_b") == ("a.b",)
    image = after(RemoveTopicRecord(DIR1), TopicRecord("a_b", DIR2), image=image)
    assert image[TOPICS].names_alike("a.b") == ("a_b",)
    assert after(RemoveTopicRecord(DIR2), image=image)[TOPICS].names_alike("a.b") == ()


def test_topics_and_partitions_are_found_by_id_and_by_name():
    image = after(TopicRecord("accounts", B), PartitionRecord(0, B))
    assert (image[TOPICS].id_of("orders"), image[TOPICS].get(A)) == (A, TOPIC)
    assert (image[TOPICS].id_of("nothing"), image[TOPICS].get(bytes(16))) == (None, None)
    assert [topic.name for topic in image[TOPICS].topics()] == ["accounts", "orders"]
    assert image[TOPICS].partition(A, 0) == PARTITION
    assert image[TOPICS].partition(A, 2) is image[TOPICS].partition(bytes(16), 0) is None
    assert list(image[TOPICS].partitions(A)) == [PARTITION, OTHER]
    assert list(image[TOPICS].partitions(bytes(16))) == []


def test_every_topic_is_written_before_its_partitions():
    image = after(TopicRecord("accounts", B), PartitionRecord(0, B))
    assert list(to_records(image)) == [
        TopicRecord("accounts", B),
        PartitionRecord(0, B),
        TOPIC,
        PARTITION,
        OTHER,
    ]


@pytest.mark.parametrize(
    ("record", "what"),
    [
        (change(), {}),
        (change(isr=(2,)), {"isr": (2,)}),
        (change(leader=1), {"leader": 1, "leader_epoch": 5}),
        (change(leader=2), {"leader": 2, "leader_epoch": 5}),
        (change(leader=-1), {"leader": -1, "leader_epoch": 5}),
        (change(removing_replicas=(), adding_replicas=()), {"removing_replicas": (), "adding_replicas": ()}),
        (change(leader_recovery_state=1), {"leader_recovery_state": 1}),
        (change(directories=(DIR3, DIR2, DIR1)), {"directories": (DIR3, DIR2, DIR1)}),
        (change(directories=()), {"directories": (MIGRATING,) * 3}),
        (change(replicas=(1, 2, 7)), {"replicas": (1, 2, 7)}),
        (change(replicas=(1,), directories=()), {"replicas": (1,), "directories": (MIGRATING,)}),
        (change(replicas=(8,), directories=(DIR3,)), {"replicas": (8,), "directories": (DIR3,)}),
        (change(eligible_leader_replicas=(1, 3)), {"eligible_leader_replicas": (1, 3)}),
        (change(eligible_leader_replicas=()), {"eligible_leader_replicas": None}),
        (change(last_known_elr=()), {"last_known_elr": None}),
    ],
)
def test_a_change_changes_what_it_names_and_raises_the_epoch(record, what):
    image = after(record)
    expected = replace(PARTITION, partition_epoch=10, **what)
    assert image[TOPICS].partition(A, 0) == expected
    assert image[TOPICS].partition(A, 1) == OTHER
    assert image.hash() == apply_all(EMPTY, [TOPIC, OTHER, expected], 0).hash()


def test_the_recovery_ends():
    image = after(change(leader_recovery_state=1), change(leader_recovery_state=0))
    assert image[TOPICS].partition(A, 0).leader_recovery_state == 0


def test_a_partition_may_be_made_anew():
    assert after(replace(PARTITION, leader=3))[TOPICS].partition(A, 0).leader == 3
    assert after(replace(PARTITION, leader=3)).hash() != IMAGE.hash()
    assert after(PARTITION) == IMAGE


def test_without_directories_a_replica_is_migrating_and_written_so_where_directories_have_names():
    bare = replace(OTHER, directories=())
    image = apply_all(EMPTY, [TOPIC, bare], 0)
    full = replace(OTHER, directories=(MIGRATING,) * 3)
    assert image[TOPICS].partition(A, 1) == full
    assert list(to_records(image)) == [TOPIC, bare]
    assert list(to_records(after(DIRECTORIES, image=image))) == [DIRECTORIES, TOPIC, full]
    assert after(full, image=image) == image


def test_a_reassignment_before_directories_have_names_stays_without_them():
    image = apply_all(EMPTY, [TOPIC, replace(OTHER, partition_id=0, directories=())], 0)
    image = apply(image, change(replicas=(1, 2, 3, 4)), 3)
    assert image[TOPICS].partition(A, 0).directories == (MIGRATING,) * 4


def test_a_removed_topic_takes_its_partitions_and_configs_along():
    configs = [ConfigRecord(2, "orders", "a", "1"), ConfigRecord(2, "orders", "b", "1")]
    kept = [ConfigRecord(2, "other", "a", "1"), ConfigRecord(4, "orders", "a", "1")]
    image = after(*configs, *kept)
    gone = apply(image, RemoveTopicRecord(A), 30)
    assert gone == apply_all(EMPTY, kept, 0)
    assert gone.hash() == apply_all(EMPTY, kept, 0).hash()
    again = apply_all(gone, [replace(TOPIC, topic_id=B), configs[0]], 40)
    assert again[TOPICS].id_of("orders") == B
    assert list(again[CONFIGS].of(2, "orders")) == [("a", "1")]
    in_one_go = after(*configs, *kept, RemoveTopicRecord(A), replace(TOPIC, topic_id=B), configs[0])
    assert in_one_go == again
    assert in_one_go.hash() == again.hash()


@pytest.mark.parametrize("name", ["orders", ""])
def test_clearing_the_elr_is_a_change_of_each_partition_that_had_one(name):
    cleared = replace(PARTITION, eligible_leader_replicas=None, last_known_elr=None, partition_epoch=10)
    image = after(ClearElrRecord(name))
    assert list(image[TOPICS].partitions(A)) == [cleared, OTHER]
    assert image.hash() == apply_all(EMPTY, [TOPIC, OTHER, cleared], 0).hash()


def test_clearing_the_elr_of_one_topic_leaves_the_others():
    other = replace(PARTITION, topic_id=B)
    image = after(TopicRecord("t", B), other, ClearElrRecord("orders"))
    assert image[TOPICS].partition(B, 0) == other


def test_elr_is_forgotten_when_the_feature_goes_off():
    image = after(FeatureLevelRecord(ELR, 1), FeatureLevelRecord("group.version", 0))
    assert image[TOPICS].partition(A, 0) == PARTITION
    forgotten = replace(PARTITION, eligible_leader_replicas=None, last_known_elr=None)
    assert apply(image, FeatureLevelRecord(ELR, 0), 9) == apply_all(EMPTY, [TOPIC, forgotten, OTHER], 0)


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (TopicRecord("orders", B), "there is a topic orders already"),
        (TopicRecord("other", A), f"there is a topic with the id {A.hex()} already"),
        (PartitionRecord(0, B), f"there is no topic with the id {B.hex()}"),
        (PartitionChangeRecord(0, B), f"there is no topic with the id {B.hex()}"),
        (PartitionChangeRecord(7, A), f"there is no partition 7 of topic {A.hex()}"),
        (RemoveTopicRecord(B), f"there is no topic with the id {B.hex()}"),
        (ClearElrRecord("other"), "there is no topic other"),
        (replace(PARTITION, directories=(DIR1,)), "has 3 replicas in 1 directories"),
        (change(directories=(DIR1,)), "has 3 replicas in 1 directories"),
        (change(replicas=(1, 2)), "has 2 replicas in 3 directories"),
        (change(replicas=(1,), directories=(DIR1, DIR2)), "has 1 replicas in 2 directories"),
        (replace(PARTITION, leader_recovery_state=-1), "cannot be in recovery state -1"),
        (change(leader_recovery_state=2), "cannot be in recovery state 2"),
    ],
)
def test_a_record_that_cannot_follow_is_one_error_and_changes_nothing(record, reason):
    before = list(to_records(IMAGE))
    with pytest.raises(ImpossibleRecordError, match=f"offset 11 is impossible: .*{reason}"):
        after(change(isr=(1,)), record)
    assert list(to_records(IMAGE)) == before


def test_tags_of_a_partition_stay_and_those_of_a_change_make_the_image_partial():
    tags = ((99, b"later"),)
    tagged = after(replace(PARTITION, unknown_tags=tags))
    assert not tagged.is_partial
    assert apply(tagged, change(isr=(2,)), 1)[TOPICS].partition(A, 0).unknown_tags == tags
    later = change(isr=(2,), unknown_tags=tags)
    assert not is_applied(later)
    assert after(later).is_partial
    assert after(later)[TOPICS].partition(A, 0).isr == (2,)


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("tag", [1, 2])
@pytest.mark.parametrize("data", [b"\x02\x00\x00\x00\x02", b"x"])
def test_a_tag_that_a_version_does_not_know_is_not_what_a_newer_one_means_by_it(version, tag, data):
    directories = (DIR1, DIR2, DIR3) if version else ()
    old = replace(PARTITION, eligible_leader_replicas=None, last_known_elr=None, directories=directories)
    tagged = replace(old, unknown_tags=((tag, data), (7, b"kept")))
    builder = ImageBuilder(IMAGE)
    builder.apply_values([encode_record(tagged, version)], 0)
    image = builder.image()
    plain = after(replace(old, unknown_tags=((7, b"kept"),)))
    assert (image.hash(), list(to_records(image))) == (plain.hash(), list(to_records(plain)))
    assert image[TOPICS].partition(A, 0).eligible_leader_replicas is None
    assert list(apply(image, RemoveTopicRecord(A), 1)[TOPICS].partitions_on(2)) == []


def test_images_share_the_topics_that_did_not_change():
    image = after(TopicRecord("t", B), PartitionRecord(0, B))
    later = apply(image, change(isr=(1,)), 20)
    assert later[TOPICS].shares(image[TOPICS], B)
    assert not later[TOPICS].shares(image[TOPICS], A)


def test_topics_and_partitions_can_be_read_from_any_place_on():
    image = after(*(TopicRecord(name, name.encode() * 8) for name in ("bb", "dd")), TopicRecord("aa", B))
    image = after(RemoveTopicRecord(b"bb" * 8), TopicRecord("bb", b"bc" * 8), image=image)
    image = after(RemoveTopicRecord(b"dd" * 8), image=image)
    topics = image[TOPICS]
    names = [topic.name for topic in topics.topics()]
    assert names == sorted(names)
    assert {"aa", "bb"} <= {*names}
    assert "dd" not in names
    for name in ("", "aa", "ab", "bb", "zz"):
        assert [topic.name for topic in topics.topics_since(name)] == [n for n in names if n >= name]
    records = [PartitionRecord(n, B, (1,), (1,), leader=1, directories=(DIR1,)) for n in range(70)]
    topics = after(*records, image=image)[TOPICS]
    for since in (0, 1, 31, 32, 69, 70, 500):
        found = [partition.partition_id for partition in topics.partitions(B, since)]
        assert found == list(range(since, 70))

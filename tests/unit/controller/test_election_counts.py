"""Which of the elections in the image count: those since the node has caught up, whatever is loaded then."""

from kraftd.controller.election_counts import SeenElections
from kraftd.metadata.image import EMPTY, MetadataImage
from kraftd.metadata.image_builder import apply, apply_all
from kraftd.records.messages import PartitionChangeRecord, PartitionRecord, TopicRecord

A = b"a" * 16
FIRST = apply_all(
    EMPTY, [TopicRecord("t", A), PartitionRecord(0, A, (1, 2), (1, 2), leader=1, directories=(A, A))], 0
)
LEFT = ("in_sync", "leader_left")
PREFERRED = ("in_sync", "preferred")


def moved(image: MetadataImage) -> MetadataImage:
    """Broker 1 goes, and comes back."""
    for record in (
        PartitionChangeRecord(0, A, (2,), 2),
        PartitionChangeRecord(0, A, (2, 1)),
        PartitionChangeRecord(0, A, leader=1),
    ):
        image = apply(image, record, 9)
    return image


def test_what_was_there_at_the_start_does_not_count() -> None:
    seen, image = SeenElections(), moved(FIRST)
    assert seen.counts(image) == {}
    seen.begin(image)
    assert not any(seen.counts(image).values())
    assert seen.counts(moved(image)) == {LEFT: 1, PREFERRED: 1}


def test_counting_begins_once() -> None:
    seen = SeenElections()
    seen.begin(FIRST)
    seen.begin(moved(FIRST))
    assert seen.counts(moved(FIRST)) == {LEFT: 1, PREFERRED: 1}


def test_a_snapshot_in_the_place_of_the_image_takes_no_count_back() -> None:
    seen, image = SeenElections(), moved(FIRST)
    seen.replaced(EMPTY, FIRST)
    assert seen.counts(image) == {}, "that of the start"
    seen.begin(FIRST)
    seen.replaced(image, FIRST)
    assert seen.counts(FIRST) == {LEFT: 1, PREFERRED: 1}
    assert seen.counts(moved(moved(FIRST))) == {LEFT: 3, PREFERRED: 3}

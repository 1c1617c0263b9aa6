"""Damaged variants of a log that Kafka wrote: what is done to it, and what has to be said of it, no more.

Each variant hurts a copy of one node's directory in one way and says which sentences are true of it then.
`Said` names the file, the byte where one is meant, the offset where the log should go on, and words of the
reason. A sentence that is not on the list is a false one, or one too many for a single cause.

The places in the log are those of `DamagedNode`; offset 1000 lies in a batch of 88 records (974 to 1061) in
the middle of the third segment, 1062 is a snapshot's, and the batch after it has one record.
"""

import random
import shutil
import struct
from collections.abc import Callable
from typing import Final, NamedTuple

from crc32c import crc32c

from kraftd.records import names
from tests.damage.damaged_node import END, OTHER_CLUSTER, DamagedNode, Spot, batches_of

LAST: Final = END - 1
"""The offset of the last batch, which has one record."""


class Said(NamedTuple):
    """One sentence that has to be said once."""

    file: str
    words: str
    byte: int = -1
    offset: int = -1


class Truth(NamedTuple):
    """What is true of a variant."""

    problems: tuple[Said, ...] = ()
    notes: tuple[Said, ...] = ()
    state: tuple[int, int] = (0, END)
    """The exit code of `log state` at the end of the log, and the offset of that state."""
    in_segments: bool = True
    """Whether `log dump`, which reads segments only, has to tell the problems, too."""
    replay: tuple[Said, ...] | None = None
    """What a replay says, where it is not the same."""


Damage = Callable[[DamagedNode], Truth]

VARIANTS: dict[str, Damage] = {}


def variant(name: str) -> Callable[[Damage], Damage]:
    """Put a variant on the list."""

    def listed(damage: Damage) -> Damage:
        VARIANTS[name] = damage
        return damage

    return listed


def at_batch(spot: Spot, words: str) -> Said:
    """A sentence about one batch."""
    return Said(spot.path.name, words, spot.byte, spot.offset)


def no_end(spot: Spot, words: str) -> Truth:
    """The last batch is lost: the state is the one before it."""
    return Truth((at_batch(spot, words),), state=(1, spot.offset))


# -- flips: of bytes that the checksum covers, and of those that it does not ---------------------------------


@variant("a bit of a record")
def bit_of_a_record(node: DamagedNode) -> Truth:
    return Truth((at_batch(node.flip(1000, 70), "the checksum is"),))


@variant("a bit of the first batch")
def bit_of_the_first_batch(node: DamagedNode) -> Truth:
    return Truth((at_batch(node.flip(0, 70), "the checksum is"),))


@variant("a bit of the last batch")
def bit_of_the_last_batch(node: DamagedNode) -> Truth:
    return no_end(node.flip(LAST, 70), "the checksum is")


@variant("a bit of the checksum")
def bit_of_the_checksum(node: DamagedNode) -> Truth:
    return Truth((at_batch(node.flip(1000, 18), "the checksum is"),))


@variant("another magic, with a snapshot just before it")
def another_magic(node: DamagedNode) -> Truth:
    return Truth((at_batch(node.set_field(500, "magic", 1), "magic 1 is not"),))


@variant("a length far beyond the file")
def length_beyond_the_file(node: DamagedNode) -> Truth:
    return Truth((at_batch(node.set_field(1000, "length", 1 << 30), "the batch claims 1073741836 bytes"),))


@variant("a length far beyond the file in the last batch")
def last_length_beyond_the_file(node: DamagedNode) -> Truth:
    return no_end(node.set_field(LAST, "length", 1 << 30), "the batch claims 1073741836 bytes")


@variant("a length a little too large in the last batch")
def last_length_a_little_too_large(node: DamagedNode) -> Truth:
    return no_end(
        node.set_field(LAST, "length", node.spot(LAST).size - 12 + 40), "the batch claims 146 bytes"
    )


@variant("a length below that of a header")
def length_below_a_header(node: DamagedNode) -> Truth:
    return Truth((at_batch(node.set_field(1000, "length", 3), "the batch claims 15 bytes"),))


@variant("a length that takes in the next batch")
def length_over_two(node: DamagedNode) -> Truth:
    both = node.spot(1000).size + node.spot(1062).size
    return Truth((at_batch(node.set_field(1000, "length", both - 12), "the checksum is"),))


@variant("a length that is one too large")
def length_one_too_large(node: DamagedNode) -> Truth:
    return Truth((at_batch(node.set_field(1000, "length", node.spot(1000).size - 11), "the checksum is"),))


@variant("a base offset that is too large")
def base_offset_too_large(node: DamagedNode) -> Truth:
    return Truth((at_batch(node.set_field(1000, "base_offset", 5000), "says offset 5000 where 974 "),))


@variant("a base offset that is a little too large")
def base_offset_a_little_too_large(node: DamagedNode) -> Truth:
    return Truth((at_batch(node.set_field(1000, "base_offset", 1003), "says offset 1003 where 974 "),))


@variant("a base offset that is too small")
def base_offset_too_small(node: DamagedNode) -> Truth:
    return Truth((at_batch(node.set_field(1000, "base_offset", 17), "says offset 17 where 974 "),))


@variant("a base offset that is negative")
def base_offset_negative(node: DamagedNode) -> Truth:
    return Truth((at_batch(node.set_field(1000, "base_offset", -5), "base offset -5"),))


@variant("a base offset that is wrong in the last batch")
def last_base_offset(node: DamagedNode) -> Truth:
    return no_end(node.set_field(LAST, "base_offset", 2400), "says offset 2400 where 2307 ")


@variant("a base offset that is wrong in a segment's first batch")
def first_base_offset(node: DamagedNode) -> Truth:
    return Truth((at_batch(node.set_field(777, "base_offset", 780), "says offset 780 where 777 "),))


@variant("an epoch that is one too high")
def epoch_too_high(node: DamagedNode) -> Truth:
    return Truth((at_batch(node.set_field(1000, "epoch", 2), "epoch 2"),))


@variant("an epoch that nobody was elected in")
def epoch_far_too_high(node: DamagedNode) -> Truth:
    return Truth((at_batch(node.set_field(1000, "epoch", 1 << 30), "epoch 1073741824"),))


@variant("an epoch that is too low")
def epoch_too_low(node: DamagedNode) -> Truth:
    return Truth((at_batch(node.set_field(1900, "epoch", 1), "epoch 1"),))


@variant("an epoch of later batches")
def epoch_of_later_batches(node: DamagedNode) -> Truth:
    return Truth((at_batch(node.set_field(1604, "epoch", 6), "epoch 6"),))


@variant("an epoch that is negative")
def epoch_negative(node: DamagedNode) -> Truth:
    return Truth((at_batch(node.set_field(1000, "epoch", -1), "epoch -1"),))


@variant("an epoch that nobody was elected in, in the last batch")
def last_epoch_too_high(node: DamagedNode) -> Truth:
    return no_end(node.set_field(LAST, "epoch", 99), "epoch 99")


@variant("an epoch that is too low in the last batch")
def last_epoch_too_low(node: DamagedNode) -> Truth:
    return no_end(node.set_field(LAST, "epoch", 3), "epoch 3")


@variant("records that do not fill their batch, under a good checksum")
def records_that_do_not_fill(node: DamagedNode) -> Truth:
    spot = node.spot(1000)
    data = bytearray(node.bytes_of(spot))
    data[61] ^= 2
    data[17:21] = struct.pack(">I", crc32c(data[21:]))
    node.put(spot.path, spot.byte, bytes(data))
    # A replay looks at records when it decodes them, not when it surveys the log.
    return Truth((at_batch(spot, "record"),), replay=())


@variant("zeros in the middle")
def zeros_in_the_middle(node: DamagedNode) -> Truth:
    spot = node.spot(1000)
    node.put(spot.path, spot.byte, bytes(512))
    return Truth((at_batch(spot, "zeros"),))


# -- cuts ----------------------------------------------------------------------------------------------------


def torn(node: DamagedNode, size: int) -> Truth:
    """Only the beginning of the last batch was written when the copy was made: nothing is wrong."""
    spot = node.spot(LAST)
    node.cut(spot.path, spot.byte + size)
    return Truth(notes=(Said(spot.path.name, "ends inside a batch", spot.byte),), state=(0, LAST))


@variant("the end of the last batch cut off")
def torn_batch(node: DamagedNode) -> Truth:
    return torn(node, 86)


@variant("all but some bytes of the last batch's header cut off")
def torn_header(node: DamagedNode) -> Truth:
    return torn(node, 7)


@variant("the last batch's records cut off")
def torn_records(node: DamagedNode) -> Truth:
    return torn(node, 61)


def garbage(node: DamagedNode, data: bytes, words: str) -> Truth:
    """Bytes behind the last batch that are not the beginning of a next one."""
    path = node.spot(LAST).path
    size = path.stat().st_size
    node.append(path, data)
    return Truth((Said(path.name, words, size, END),), state=(1, END))


@variant("three hundred random bytes at the end")
def random_bytes_at_the_end(node: DamagedNode) -> Truth:
    return garbage(node, random.Random(1).randbytes(300), "bytes")


@variant("five letters at the end")
def letters_at_the_end(node: DamagedNode) -> Truth:
    return garbage(node, b"hello", "5 bytes")


@variant("zeros at the end")
def zeros_at_the_end(node: DamagedNode) -> Truth:
    return garbage(node, bytes(4096), "zeros")


@variant("zeros in the place of the end")
def zeros_for_the_end(node: DamagedNode) -> Truth:
    spot = node.spot(2305)
    end = spot.path.stat().st_size
    node.put(spot.path, spot.byte + 30, bytes(end - spot.byte - 30))
    return Truth((at_batch(spot, ""),), state=(1, 2305))


@variant("a segment in the middle cut inside a batch")
def middle_cut_inside_a_batch(node: DamagedNode) -> Truth:
    spot = node.spot(600)
    node.cut(spot.path, spot.byte + 30)
    return Truth((at_batch(spot, "30 "),))


@variant("a segment in the middle cut between two batches")
def middle_cut_between_batches(node: DamagedNode) -> Truth:
    spot = node.spot(600)
    node.cut(spot.path, spot.byte)
    return Truth((Said(names.segment_name(777), "offsets 599 to 776 are missing"),))


@variant("an empty segment in the middle")
def middle_empty(node: DamagedNode) -> Truth:
    node.cut(node.segment(354), 0)
    return Truth((Said(names.segment_name(777), "offsets 354 to 776 are missing"),))


@variant("a segment in the middle lost")
def middle_lost(node: DamagedNode) -> Truth:
    node.segment(777).unlink()
    return Truth((Said(names.segment_name(1248), "offsets 777 to 1247 are missing"),))


@variant("the last three batches lost")
def end_lost(node: DamagedNode) -> Truth:
    spot = node.spot(2305)
    node.cut(spot.path, spot.byte)
    return Truth((Said(spot.path.name, "ends at offset 2305"),), state=(0, 2305), in_segments=False)


@variant("the last segment lost")
def last_segment_lost(node: DamagedNode) -> Truth:
    node.segment(2044).unlink()
    return Truth((Said(names.segment_name(1628), "ends at offset 2044"),), state=(0, 2303), in_segments=False)


@variant("the last segment emptied")
def last_segment_emptied(node: DamagedNode) -> Truth:
    node.cut(node.segment(2044), 0)
    return Truth((Said(names.segment_name(2044), "ends at offset 2044"),), state=(0, 2303), in_segments=False)


@variant("the first segment lost")
def first_segment_lost(node: DamagedNode) -> Truth:
    node.segment(0).unlink()
    return Truth((Said(names.segment_name(354), "offsets 0 to 353 are missing"),), in_segments=False)


@variant("the first segment lost, and the epochs cut, but not its index")
def first_segment_lost_but_its_index(node: DamagedNode) -> Truth:
    node.segment(0).unlink()
    (node.log / names.segment_name(0, "index")).touch()
    epochs(node, "1 354", "3 1190", "4 1598", "5 1845", "6 2305", "7 2307")
    return Truth((Said(names.segment_name(354), "offsets 0 to 353 are missing"),), in_segments=False)


@variant("a log that begins where Kafka cut it, inside a segment")
def begins_inside_a_segment(node: DamagedNode) -> Truth:
    """Kafka deletes snapshots and segments below the start of its log, which may lie inside a segment."""
    node.segment(0).unlink()
    for path in node.log.glob("*.checkpoint"):
        if int(path.name[:20]) < 465:
            path.unlink()
    node.small(names.EPOCH_CHECKPOINT).write_text("0\n6\n1 465\n3 1190\n4 1598\n5 1845\n6 2305\n7 2307\n")
    return Truth()


@variant("no segment left")
def no_segment_left(node: DamagedNode) -> Truth:
    for path in node.segments:
        path.unlink()
    return Truth((Said("", "no segment"),), state=(0, 2303))


@variant("neither segment nor snapshot left")
def nothing_left(node: DamagedNode) -> Truth:
    for path in (*node.segments, *node.log.glob("*.checkpoint")):
        path.unlink()
    return Truth((Said("", "neither segment nor snapshot"),), state=(1, -1))


# -- swaps and doublings -------------------------------------------------------------------------------------


@variant("two batches swapped")
def batches_swapped(node: DamagedNode) -> Truth:
    one, two = node.spot(1000), node.spot(1062)
    node.replace(one.path, one.byte, one.size + two.size, node.bytes_of(two) + node.bytes_of(one))
    return Truth(
        (
            Said(one.path.name, "says offset 1062 where 974 ", one.byte, 974),
            Said(one.path.name, "says offset 1063 where 1062 ", two.behind, 1062),
        )
    )


@variant("two segments' contents swapped")
def segments_swapped(node: DamagedNode) -> Truth:
    one, two = node.segment(354), node.segment(777)
    first, second = one.read_bytes(), two.read_bytes()
    one.write_bytes(second)
    two.write_bytes(first)
    return Truth((Said(one.name, "offset 777"), Said(two.name, "offset 354")))


@variant("a segment of another cluster")
def foreign_segment(node: DamagedNode) -> Truth:
    """It holds offsets 736 to 1118 of epoch 3."""
    path = node.segment(777)
    shutil.copyfile(OTHER_CLUSTER / "node-3" / names.LOG_DIRECTORY / names.segment_name(736), path)
    return Truth((Said(path.name, "offset 736"), Said(names.segment_name(1248), "offsets 1119 to 1247")))


@variant("two parts of a batch swapped")
def parts_of_a_batch_swapped(node: DamagedNode) -> Truth:
    spot = node.spot(2100)
    data = node.bytes_of(spot)
    node.put(spot.path, spot.byte + 100, data[2100:4100] + data[100:2100])
    return Truth((at_batch(spot, "the checksum is"),))


@variant("a batch that is there twice")
def batch_twice(node: DamagedNode) -> Truth:
    spot = node.spot(1000)
    node.replace(spot.path, spot.behind, 0, node.bytes_of(spot))
    return Truth((Said(spot.path.name, "says offset 974 where 1062 ", spot.behind, 1062),))


@variant("the last batch twice")
def last_batch_twice(node: DamagedNode) -> Truth:
    spot = node.spot(LAST)
    node.append(spot.path, node.bytes_of(spot))
    return Truth((Said(spot.path.name, "says offset 2307 where 2308 ", spot.behind, END),), state=(1, END))


@variant("a segment copied to a name in the middle")
def segment_twice(node: DamagedNode) -> Truth:
    shutil.copyfile(node.segment(354), node.segment(700))
    return Truth((Said(names.segment_name(700), "offset 354"),))


@variant("a segment copied to a name behind the end")
def segment_behind_the_end(node: DamagedNode) -> Truth:
    shutil.copyfile(node.segment(354), node.segment(3000))
    return Truth((Said(names.segment_name(3000), "offset 354"),), state=(1, END))


# -- the small files -----------------------------------------------------------------------------------------


def epochs(node: DamagedNode, *entries: str) -> None:
    """Write the epoch checkpoint."""
    lines = ["0", str(len(entries)), *entries]
    node.small(names.EPOCH_CHECKPOINT).write_text("".join(f"{line}\n" for line in lines))


@variant("an epoch that begins elsewhere by the checkpoint")
def epoch_begins_elsewhere(node: DamagedNode) -> Truth:
    epochs(node, "1 0", "3 1200", "4 1598", "5 1845", "6 2305", "7 2307")
    return Truth((Said(names.EPOCH_CHECKPOINT, "epoch 3 begins at 1200"),), in_segments=False)


@variant("an epoch that the checkpoint lacks")
def epoch_lacking(node: DamagedNode) -> Truth:
    epochs(node, "1 0", "3 1190", "4 1598", "6 2305", "7 2307")
    return Truth((Said(names.EPOCH_CHECKPOINT, "epoch 5"),), in_segments=False)


@variant("an epoch of the checkpoint that the log does not reach")
def epoch_beyond(node: DamagedNode) -> Truth:
    epochs(node, "1 0", "3 1190", "4 1598", "5 1845", "6 2305", "7 2307", "8 2400")
    return Truth((Said(names.segment_name(2044), "epoch 8 begins at 2400"),), in_segments=False)


@variant("an epoch checkpoint that is cut")
def epochs_cut(node: DamagedNode) -> Truth:
    node.small(names.EPOCH_CHECKPOINT).write_text("0\n9\n1 0\n")
    return Truth((Said(names.EPOCH_CHECKPOINT, "promises 9 entries and has 1"),), in_segments=False)


@variant("an election file of before")
def election_of_before(node: DamagedNode) -> Truth:
    path = node.small(names.QUORUM_STATE)
    path.write_text(path.read_text().replace('"leaderEpoch":7', '"leaderEpoch":0'))
    return Truth((Said(names.QUORUM_STATE, "epoch 7"),), in_segments=False)


@variant("an election file of bytes")
def election_of_bytes(node: DamagedNode) -> Truth:
    node.small(names.QUORUM_STATE).write_bytes(b"\0\0\0{")
    return Truth((Said(names.QUORUM_STATE, "JSON is malformed"),), in_segments=False)


@variant("no election file")
def no_election_file(node: DamagedNode) -> Truth:
    node.small(names.QUORUM_STATE).unlink()
    return Truth(notes=(Said(names.QUORUM_STATE, "missing"),))


@variant("no meta.properties")
def no_properties(node: DamagedNode) -> Truth:
    node.small(names.META_PROPERTIES).unlink()
    return Truth(notes=(Said(names.META_PROPERTIES, "missing"),))


@variant("a node id that is no number")
def node_id_no_number(node: DamagedNode) -> Truth:
    node.small(names.META_PROPERTIES).write_text("node.id=x\nversion=1\n")
    return Truth((Said(names.META_PROPERTIES, "node.id='x' is not a number"),), in_segments=False)


# -- names ---------------------------------------------------------------------------------------------------


@variant("a segment under the next offset's name")
def segment_renamed(node: DamagedNode) -> Truth:
    node.segment(777).rename(node.segment(778))
    return Truth((Said(names.segment_name(778), "offset 777"),))


@variant("a segment under a far offset's name")
def segment_renamed_far(node: DamagedNode) -> Truth:
    node.segment(777).rename(node.segment(1000))
    return Truth((Said(names.segment_name(1000), "offset 777"),))


@variant("the first segment under another name")
def first_segment_renamed(node: DamagedNode) -> Truth:
    node.segment(0).rename(node.segment(100))
    return Truth((Said(names.segment_name(100), "offset 0"),))


@variant("a segment whose name no offset can be")
def segment_name_out_of_range(node: DamagedNode) -> Truth:
    name = "9" * 20 + ".log"
    shutil.copyfile(node.segment(2044), node.log / name)
    return Truth((Said(name, "out of range"),))


@variant("a segment that cannot be read")
def segment_that_cannot_be_read(node: DamagedNode) -> Truth:
    path = node.segment(777)
    path.unlink()
    path.symlink_to(path)
    return Truth((Said(path.name, "cannot be read"),))


# -- snapshots -----------------------------------------------------------------------------------------------


def of_snapshot(name: str, words: str, byte: int = -1, *, replay: tuple[Said, ...] | None = None) -> Truth:
    """A sentence about a snapshot, which `log dump` of a directory does not read.

    A replay compares snapshots with the log in its report, not in its survey.
    """
    return Truth((Said(name, words, byte),), in_segments=False, replay=replay)


@variant("a bit of a snapshot")
def bit_of_a_snapshot(node: DamagedNode) -> Truth:
    path = node.snapshot(738)
    node.put(path, 5000, bytes([path.read_bytes()[5000] ^ 1]))
    return of_snapshot(path.name, "the checksum is", 269)


@variant("a snapshot cut inside a batch")
def snapshot_cut(node: DamagedNode) -> Truth:
    path = node.snapshot(738)
    node.cut(path, 9000)
    return of_snapshot(path.name, "the batch claims 15807 bytes", 269)


@variant("a snapshot without its footer")
def snapshot_without_footer(node: DamagedNode) -> Truth:
    path = node.snapshot(738)
    node.cut(path, batches_of(path)[-1].position)
    return of_snapshot(path.name, "footer")


@variant("an empty snapshot")
def snapshot_empty(node: DamagedNode) -> Truth:
    path = node.snapshot(738)
    node.cut(path, 0)
    return of_snapshot(path.name, "")


@variant("a snapshot without its middle")
def snapshot_without_its_middle(node: DamagedNode) -> Truth:
    """The newest: the state at the end is folded from the one before it."""
    path = node.snapshot(2303)
    middle = batches_of(path)[1]
    node.replace(path, middle.position, middle.size_bytes, b"")
    return of_snapshot(path.name, "3", middle.position)


@variant("a snapshot under another offset")
def snapshot_renamed(node: DamagedNode) -> Truth:
    path = node.snapshot(738)
    renamed = path.with_name(names.segment_name(740)[:20] + path.name[20:])
    path.rename(renamed)
    return of_snapshot(renamed.name, "is not what the log makes at offset 740", replay=())


@variant("a snapshot under an offset inside a batch")
def snapshot_inside_a_batch(node: DamagedNode) -> Truth:
    path = node.snapshot(738)
    renamed = path.with_name(names.segment_name(800)[:20] + path.name[20:])
    path.rename(renamed)
    return of_snapshot(renamed.name, "offset 800 is not between two batches", replay=())


@variant("a snapshot under another epoch")
def snapshot_of_another_epoch(node: DamagedNode) -> Truth:
    path = node.snapshot(738)
    renamed = path.with_name(path.name.replace("0000000001.", "0000000003."))
    path.rename(renamed)
    return of_snapshot(renamed.name, "epoch 1")


@variant("a snapshot of an offset that the log does not reach")
def snapshot_beyond_the_end(node: DamagedNode) -> Truth:
    path = node.snapshot(2303)
    renamed = path.with_name(names.segment_name(2500)[:20] + "-0000000007.checkpoint")
    path.rename(renamed)
    return of_snapshot(renamed.name, "epoch 5")


@variant("the end of the log gone, and its epochs from the checkpoint, too")
def end_below_a_snapshot(node: DamagedNode) -> Truth:
    spot = node.spot(2200)
    node.cut(spot.path, spot.byte)
    epochs(node, "1 0", "3 1190", "4 1598", "5 1845")
    words = f"is of offset 2303, but the log ends at {spot.offset}"
    return Truth((Said(node.snapshot(2303).name, words),), state=(0, 2303), in_segments=False)


@variant("two snapshots' contents swapped")
def snapshots_swapped(node: DamagedNode) -> Truth:
    one, two = node.snapshot(614), node.snapshot(738)
    first, second = one.read_bytes(), two.read_bytes()
    one.write_bytes(second)
    two.write_bytes(first)
    words = "is not what the log makes"
    return Truth((Said(one.name, words), Said(two.name, words)), in_segments=False, replay=())


@variant("a snapshot of another cluster")
def foreign_snapshot(node: DamagedNode) -> Truth:
    path = node.snapshot(738)
    shutil.copyfile(OTHER_CLUSTER / "node-3" / names.LOG_DIRECTORY / f"{701:020d}-{3:010d}.checkpoint", path)
    return of_snapshot(path.name, "epoch 3")


@variant("a bootstrap file with a flipped bit")
def bit_of_the_bootstrap(node: DamagedNode) -> Truth:
    path = node.home / names.BOOTSTRAP_CHECKPOINT
    node.put(path, 100, bytes([path.read_bytes()[100] ^ 1]))
    return of_snapshot(path.name, "the checksum is", 83)

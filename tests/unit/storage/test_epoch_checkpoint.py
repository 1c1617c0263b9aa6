"""The epochs of the file and those in memory: two owners of one rule."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraftd.raft.log_mirror import EpochCache
from kraftd.storage import Disk
from kraftd.storage.epoch_checkpoint import EpochCheckpoint
from tests.unit.storage.test_sidecar import HOME, fresh

STEPS = st.tuples(st.sampled_from(("assign", "truncate", "cut")), st.integers(0, 6), st.integers(0, 9))


@pytest.mark.covers("LOG-07", "LOG-09", "CLN-08")
@given(st.lists(STEPS, max_size=12))
def test_the_file_and_the_raft_node_hold_the_same_epochs(steps: list[tuple[str, int, int]]) -> None:
    """The raft node opens no files: `EpochCheckpoint` keeps them on the disk, `EpochCache` in memory."""
    disk = Disk(fresh())
    file, cache = EpochCheckpoint(disk, HOME / "leader-epoch-checkpoint"), EpochCache()
    for step, epoch, offset in steps:
        if step == "assign":
            file.assign(epoch, offset)
            cache.assign(epoch, offset)
        elif step == "cut":
            file.cut_front(offset)
            cache.cut_front(offset)
        else:
            file.truncate(offset)
            cache.truncate(offset)
        assert cache.entries == file.entries

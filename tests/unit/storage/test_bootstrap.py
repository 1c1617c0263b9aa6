"""`bootstrap.checkpoint` is read whole or not at all."""

from pathlib import Path

import pytest

from kraftd.errors import StorageError
from kraftd.records.batch import scan
from kraftd.records.frame import decode_record
from kraftd.records.messages import FeatureLevelRecord
from kraftd.storage import Disk, OsFileSystem
from kraftd.storage.bootstrap import encode_bootstrap, read_bootstrap

DISK = Disk(OsFileSystem())
LEVELS = {"metadata.version": 29, "group.version": 1, "share.version": 0}


def test_the_levels_that_a_new_cluster_begins_with_are_read_again(tmp_path: Path) -> None:
    path = tmp_path / "bootstrap.checkpoint"
    assert read_bootstrap(DISK, path) is None
    path.write_bytes(encode_bootstrap(LEVELS, 5))
    values = read_bootstrap(DISK, path)
    assert values is not None
    records = [decode_record(value) for value in values]
    assert [(one.name, one.feature_level) for one in records if isinstance(one, FeatureLevelRecord)] == [
        ("metadata.version", 29),
        ("group.version", 1),
    ]


@pytest.mark.parametrize(
    ("first", "last", "lacks"), [(0, -1, "footer"), (1, None, "record 0 must"), (0, 0, "empty")]
)
def test_one_that_is_not_whole_is_refused_with_what_to_do(
    tmp_path: Path, first: int, last: int | None, lacks: str
) -> None:
    path = tmp_path / "bootstrap.checkpoint"
    batches = [bytes(batch.raw) for batch in scan(encode_bootstrap(LEVELS, 5))]
    path.write_bytes(b"".join(batches[first:last]))
    with pytest.raises(
        StorageError, match=f"{path}.*{lacks}.*format the directory anew, or restore the file"
    ):
        read_bootstrap(DISK, path)

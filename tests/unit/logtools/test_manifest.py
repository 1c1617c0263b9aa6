"""A manifest that is damaged is told as such."""

import pytest

from kraftd.errors import MalformedError
from kraftd.logtools.manifest import decode_manifest


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff",
        b"{}",
        b'{"format": 1',
        b'{"format": 1, "cluster_id": "\xff"}',
        b'{"format": 1, "more": ' + b"[" * 100_000,
        b"[" * 100_000,
    ],
    ids=["empty", "no-text", "no-field", "cut", "no-utf-8", "deep-field", "deep"],
)
def test_what_is_no_manifest_is_malformed(data: bytes) -> None:
    with pytest.raises(MalformedError, match="not a manifest: "):
        decode_manifest(data)

"""Long blocks of memory are the system's again once they are free."""

import subprocess
import sys

import pytest

SCRIPT = """
import sys
from kraftd.runtime.long_blocks import give_back_long_blocks

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096

if sys.argv[1] == "yes":
    assert give_back_long_blocks()
del [bytearray(8 << 20)][:]
before = resident()
kept, blocks = [], []
for _ in range(6):
    blocks.append(bytearray(b"x" * (4 << 20)))
    kept.append(bytearray(b"x" * 100_000))
blocks.clear()
print(resident() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="it is glibc's")
@pytest.mark.parametrize(("is_set", "expected"), [("yes", True), ("no", False)])
def test_a_long_block_that_is_free_is_the_systems_whatever_was_freed_before(
    is_set: str, expected: bool
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, is_set], capture_output=True, text=True, check=True, timeout=60
    )
    assert (int(done.stdout) < 6 << 20) is expected

"""Long blocks of memory go back to the system as soon as they are free.

glibc takes blocks from 128 KiB on from the system, one by one, until the first of them is freed: from then
on blocks of that size come from its heap, up to 32 MiB. There a long request that grows as it comes in is
copied from place to place and leaves holes: a hundred that were never finished took 25 MB of each node for
the 12 MiB that they may hold. A threshold that is set stays.

Entered by `main`. Without glibc nothing is done.
"""

import ctypes
from typing import Final

_MMAP_THRESHOLD: Final = -3
_LONG_BYTES: Final = 256 * 1024


def give_back_long_blocks() -> bool:
    """Set the threshold for good; whether there is one."""
    try:
        return bool(ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, _LONG_BYTES))
    except (AttributeError, OSError):
        return False

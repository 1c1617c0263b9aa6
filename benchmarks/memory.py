"""How much memory a process has."""

import re
from pathlib import Path


def memory_mb(pid: int | str = "self") -> tuple[float, float]:
    """What is resident, and the most that ever was; raises OSError if there is no such process."""
    status = Path(f"/proc/{pid}/status").read_text()
    now, peak = (re.search(rf"{name}:\s+(\d+) kB", status) for name in ("VmRSS", "VmHWM"))
    if not now or not peak:
        raise ProcessLookupError(f"process {pid} has ended")
    return int(now[1]) * 1024 / 1e6, int(peak[1]) * 1024 / 1e6

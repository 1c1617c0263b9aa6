"""What a figure was measured on: the interpreter's build, the cores, and what others took of them."""

import os
import sys
import sysconfig
from pathlib import Path

import msgspec

PGO = ("--enable-optimizations", "-fprofile-use", "-fprofile-instr-use")
LTO = ("--with-lto", "-flto")
DEBIANS = "--with-dbmliborder=bdb:gdbm' '--with-computed-gotos"
"""In the words that configured Debian's, and in nobody else's."""


def interpreter() -> str:
    """This interpreter, and whether it was built with profile-guided and link-time optimization."""
    names = ("CONFIG_ARGS", "PY_CORE_CFLAGS", "PY_CORE_LDFLAGS")
    version = ".".join(map(str, sys.version_info[:3]))
    words = " ".join(str(sysconfig.get_config_var(name) or "") for name in names)
    return f"{sys.implementation.name} {version}, {build(words)}: {os.path.realpath(sys.executable)}"


def build(words: str) -> str:
    """What the words that configured an interpreter, and its compiler's flags, say of the build.

    Debian builds with both, and takes the words that say so out of what it installs.
    """
    if DEBIANS in words:
        return "Debian's build (PGO, LTO)"
    pgo, lto = (any(word in words for word in marks) for marks in (PGO, LTO))
    return f"{'PGO' if pgo else 'no PGO'}, {'LTO' if lto else 'no LTO'}"


class Ticks(msgspec.Struct, frozen=True):
    """Ticks of all cores so far, from the first line of /proc/stat."""

    total: int
    stolen: int
    """By other virtual machines."""

    @classmethod
    def now(cls) -> "Ticks":
        """Those until now."""
        return cls.read(Path("/proc/stat").read_text())

    @classmethod
    def read(cls, text: str) -> "Ticks":
        """Those in a text like /proc/stat."""
        fields = [int(field) for field in text.splitlines()[0].split()[1:9]]
        return cls(sum(fields), fields[7])

    def stolen_percent(self, later: "Ticks") -> float:
        """The share of the time until `later` that other machines took."""
        return 100 * (later.stolen - self.stolen) / max(later.total - self.total, 1)


def state() -> str:
    """How many cores there are, of what kind, and how many processes wanted them lately."""
    names = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    model = names[0].partition(":")[2].strip() if names else "cores"
    return f"{os.cpu_count()} x {model}, load average {os.getloadavg()[0]:.2f}"

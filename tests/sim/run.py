"""Run seeds: `python -m tests.sim.run SEED`."""

import sys

from kraftd.audit.invariants import Violation
from tests.sim.world import Options, World


def main() -> int:
    seed = int(sys.argv[1])
    lines: list[str] = []
    world = World(seed, Options(), sink=lines.append if "-v" in sys.argv else None)
    try:
        world.run()
    except Violation as violation:
        print("\n".join(lines[-300:]))
        print(violation)
        print(f"seed {seed}")
        return 1
    if lines:
        print("\n".join(lines[:3000]))
    print(world.events, world.now_ms, world.acknowledged, world.trace_hash, dict(world.statistics))
    return 0


if __name__ == "__main__":
    sys.exit(main())

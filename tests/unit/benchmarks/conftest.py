"""The modules of `benchmarks/` import each other by their bare names, as its scripts do."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[3] / "benchmarks"))

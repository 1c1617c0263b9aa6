"""Plants a mutant in every Python that is started with this folder on its path: real daemons, too.

The environment names the mutant, and the file in which its lines note that they ran (`detectors`, `process`).
"""

import mmap
import os
from pathlib import Path

NAME = os.environ.get("KRAFTD_SABOTAGE")
if NAME:
    from tests.sabotage.corpus import MUTANTS
    from tests.sabotage.mutant import plant

    (chosen,) = (mutant for mutant in MUTANTS if mutant.name == NAME)
    with Path(os.environ["KRAFTD_SABOTAGE_RAN"]).open("r+b") as file:
        plant(chosen.edits, mmap.mmap(file.fileno(), 0))

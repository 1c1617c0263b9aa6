"""`make conformance`: print the table, and what is wrong with it; exit 1 when something is."""

from tests import commands
from tests.conformance.table import collect, faults, render


def main() -> int:
    tests = collect()
    print(render(tests))
    wrong = faults(tests)
    for fault in wrong:
        print(f"FAULT {fault}")
    return 1 if wrong else 0


if __name__ == "__main__":
    commands.run(main)

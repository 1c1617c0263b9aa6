"""The console script `kraftd`, and `python -m kraftd`: `runtime.main`, and Ctrl-C during its imports."""

from collections.abc import Callable

from kraftd import interrupts


def main() -> None:
    """Run `kraftd` with this process's arguments and end the process."""
    interrupts.run(_load)


def _load() -> Callable[[], object]:
    from kraftd.runtime.main import main as program

    return program


if __name__ == "__main__":
    main()

"""The console script `kraftctl`, and `python -m kraftd.cli`: `main`, and Ctrl-C during its imports."""

from collections.abc import Callable

from kraftd import interrupts


def main() -> None:
    """Run `kraftctl` with this process's arguments and end the process."""
    interrupts.run(_load)


def _load() -> Callable[[], None]:
    from kraftd.cli.main import main as program

    return program


if __name__ == "__main__":
    main()

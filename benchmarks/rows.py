"""Rows of a benchmark that knows what is wanted of each figure."""


def row(label: str, value: float, *, at_most: float | None = None, digits: int = 1) -> None:
    """Print a figure, and whether it is as small as wanted."""
    wanted = ""
    if at_most is not None:
        wanted = f"at most {at_most:g}: {'reached' if value <= at_most else 'MISSED'}"
    print(f"{label:76} {value:>12,.{digits}f}   {wanted}".rstrip(), flush=True)


def note(label: str, text: str) -> None:
    """Print what is no figure to judge."""
    print(f"{label:76} {text:>12}", flush=True)

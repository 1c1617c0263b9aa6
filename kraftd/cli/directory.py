"""Commands on a node's directory that need no node: `random-uuid`, `format`, `info`."""

import typer

app = typer.Typer()


@app.command("random-uuid")
def random_uuid() -> None:
    """Print a fresh id."""
    print("x")


@app.command("info")
def info(a: int) -> None:
    """Print a fresh id."""
    raise KeyError(a)

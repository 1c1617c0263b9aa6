"""Writes the generated parts of `kraftd` from the schemas here (`make proto`), or checks them (`--check`)."""

import argparse
import sys
from pathlib import Path

from generator.output import generate
from generator.schema import SchemaError

PROTO = Path(__file__).resolve().parent
PACKAGE = PROTO.parent / "kraftd"


def main() -> int:
    """Exit code 0: written, or nothing stale; 1: stale, or a schema is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a file is stale")
    arguments = parser.parse_args()
    try:
        files = generate(PROTO, PACKAGE)
    except SchemaError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    stale = [
        path for path, text in files.items() if not path.exists() or path.read_text(encoding="utf-8") != text
    ]
    for path in stale:
        if arguments.check:
            sys.stderr.write(f"{path.relative_to(PACKAGE.parent)} is stale: run `make proto`\n")
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text := files[path], encoding="utf-8")
            sys.stdout.write(f"{path.relative_to(PACKAGE.parent)}: {text.count(chr(10))} lines\n")
    return 1 if stale and arguments.check else 0


if __name__ == "__main__":
    sys.exit(main())

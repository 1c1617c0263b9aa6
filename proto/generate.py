"""Writes the generated parts of `kraftd` from the schemas here (`make proto`), or checks them (`--check`).

Any schema can be emitted in either encoding or both, into any package: `--encoding rpc=binary --package DIR`.
"""

import argparse
import sys
from pathlib import Path

from generator.output import ENCODINGS, FOLDERS, generate
from generator.schema import SchemaError

PROTO = Path(__file__).resolve().parent
PACKAGE = PROTO.parent / "kraftd"


def main() -> int:
    """Exit code 0: written, or nothing stale; 1: stale, or a schema is wrong."""
    arguments = _arguments()
    encodings = dict(ENCODINGS)
    for part in ENCODINGS:
        chosen = [choice.split("=")[1] for choice in arguments.encoding if choice.startswith(f"{part}=")]
        encodings[part] = chosen or ENCODINGS[part]
    try:
        files, left_over = generate(PROTO, arguments.package.resolve(), encodings)
    except SchemaError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    stale = {path: text for path, text in files.items() if _content(path) != text}
    changes = {path: f"{len(text.splitlines())} lines" for path, text in stale.items()}
    changes |= dict.fromkeys(left_over, "removed")
    for path, change in sorted(changes.items()):
        name = path.relative_to(arguments.package.resolve().parent)
        if arguments.check:
            what = "is stale" if path in stale else "should not exist any more"
            sys.stderr.write(f"{name} {what}: run `make proto`\n")
            continue
        sys.stdout.write(f"{name}: {change}\n")
        if path in left_over:
            path.unlink()
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(stale[path], encoding="utf-8")
    return 1 if changes and arguments.check else 0


def _arguments() -> argparse.Namespace:
    choices = [f"{part}={encoding}" for part, encoding in FOLDERS]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit 1 if a file is stale or left over"
    )
    parser.add_argument("--encoding", action="append", default=[], choices=choices, help="may be repeated")
    parser.add_argument(
        "--package", type=Path, default=PACKAGE, help="directory of the package to write into"
    )
    return parser.parse_args()


def _content(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.exists() else None


if __name__ == "__main__":
    sys.exit(main())

"""The program with one more kind of entity; prints what shows it of a log that it writes to a directory.

Two lines make it known, before anything else reads the lists: the codec, as `make proto` lists it, and the
part.
"""

import contextlib
import io
import json
import sys
from pathlib import Path

from kraftd.records import bodies
from kraftd.serde.generated import CodecModule

bodies.RECORD_MODULES = {
    **bodies.RECORD_MODULES,
    100: CodecModule("ToyRecord", "tests.unit.metadata.toys", 0, 0),
}

from kraftd.metadata import parts  # noqa: E402
from tests.unit.metadata.toys import TOYS, ToyRecord  # noqa: E402

parts.PARTS = (*parts.PARTS, TOYS)

from kraftd.cli.main import run  # noqa: E402
from kraftd.logtools.finding import find_log  # noqa: E402
from kraftd.logtools.state import state_at  # noqa: E402
from kraftd.metadata.image import EMPTY, to_records  # noqa: E402
from kraftd.metadata.image_builder import apply_all  # noqa: E402
from kraftd.metadata.part import ImageView  # noqa: E402
from kraftd.metadata.record_versions import newest_versions  # noqa: E402
from kraftd.metadata.registry import TABLES as IMAGE_TABLES  # noqa: E402
from kraftd.records.messages import FeatureLevelRecord  # noqa: E402
from kraftd.replay.schemas import TABLES  # noqa: E402
from tests.unit.logtools.logs import LogMaker  # noqa: E402


def results(home: Path) -> dict[str, object]:
    made = LogMaker(home).lead(1, 1)
    made.batch(FeatureLevelRecord("metadata.version", 30))
    made.batch(ToyRecord("ball", 3), ToyRecord("kite", 5))
    made.snapshot()
    made.batch(ToyRecord("ball", 4))
    made.batch(ToyRecord("kite", 0))
    image = state_at(find_log(home)).image
    (rows,) = (table.rows(ImageView(image)) for table in IMAGE_TABLES if table.name == "toys")
    return {
        "records": [repr(record) for record in to_records(image)],
        "hash": (image.hash(), apply_all(EMPTY, to_records(image), 0).hash(), EMPTY.hash()),
        "levels": [ToyRecord in newest_versions(level) for level in (2, 3)],
        "state": json.loads(kraftctl("log", "state", home, "-o", "json"))["image"],
        "overview": kraftctl("log", "state", home),
        "table": kraftctl("log", "state", home, "--path", "/toys"),
        "file": kraftctl("shell", home, "-c", "ls /toys", "-c", "cat /toys/ball"),
        "diff": kraftctl("log", "diff", home, "2", "6"),
        "history": kraftctl("log", "history", home, "toy", "kite"),
        "near": kraftctl("log", "history", home, "toy", "bal"),
        "rows": list(rows),
        "schema": [(field.name, str(field.type)) for field in TABLES["toys"].schema],
    }


def kraftctl(*arguments: object) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        run([str(argument) for argument in arguments])
    return out.getvalue()


if __name__ == "__main__":
    sys.stdout.write(json.dumps(results(Path(sys.argv[1]))))

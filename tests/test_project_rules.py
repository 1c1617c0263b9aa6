"""Rules about the code itself: a rule that is not tested is a wish.

The import law between packages is import-linter's (`[tool.importlinter]` in pyproject.toml); the rest is read
from the syntax trees here. A ratchet names its exceptions, and an exception that is no longer needed fails
the test too, so the lists only shrink.
"""

import ast
import re
import subprocess
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from importlinter.cli import lint_imports
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from kraftd.audit.invariants import INVARIANTS
from tests.conformance.catalogue import rules

ROOT = Path(__file__).parents[1]
MODULES = sorted(path.relative_to(ROOT) for path in (ROOT / "kraftd").rglob("*.py"))
GENERATED = {
    Path("kraftd") / folder
    for folder in (
        "protocol/messages",
        "protocol/msgpack",
        "protocol/kafka",
        "records/messages",
        "records/bodies",
    )
}
WRITTEN = [path for path in MODULES if path.parent not in GENERATED]
AROUND = [
    path.relative_to(ROOT)
    for folder in ("benchmarks", "proto", "scripts", "tests")
    for path in sorted((ROOT / folder).rglob("*.py"))
]
"""What is not part of the package."""

PURE = (
    "types",
    "errors",
    "serde",
    "protocol",
    "records",
    "metadata",
    "raft",
    "controller",
    "broker",
    "audit",
)
WORLD = {"asyncio", "time", "random", "os", "socket", "pathlib", "logging", "structlog", "aiofiles"}
WORLD |= {
    "threading",
    "concurrent",
    "subprocess",
    "uuid",
    "secrets",
    "tempfile",
    "shutil",
    "datetime",
    "uvloop",
}

MODULE_LINES = 500
FUNCTION_LINES = 60
LONGER_MODULES: dict[str, int] = {}
LONGER_FUNCTIONS: dict[str, int] = {}

pure = pytest.mark.parametrize(
    "path", [path for path in MODULES if path.with_suffix("").parts[1] in PURE], ids=str
)
written = pytest.mark.parametrize("path", WRITTEN, ids=str)


def test_imports_point_inwards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert lint_imports() == 0, "run `make check-imports` to see who breaks the layers"


@pure
def test_pure_packages_know_nothing_of_the_world(path: Path) -> None:
    assert not {name.partition(".")[0] for name in imports(path)} & WORLD


@pure
def test_pure_packages_run_to_completion(path: Path) -> None:
    awaits = ast.Await | ast.AsyncFunctionDef | ast.AsyncFor | ast.AsyncWith
    assert [node.lineno for node in nodes(path) if isinstance(node, awaits)] == []


@written
def test_the_raft_package_has_one_front_door(path: Path) -> None:
    """Its page, and the values that go in and out; tests may reach further."""
    doors = {f"kraftd.raft{door}" for door in ("", ".effects", ".epoch_states", ".events")}
    inside = path.is_relative_to("kraftd/raft")
    assert {name for name in imports(path) if name.startswith("kraftd.raft")} <= doors or inside


@pytest.mark.parametrize("path", MODULES, ids=str)
def test_safety_survives_python_o(path: Path) -> None:
    """`assert` vanishes under -O, so what guards safety raises `InvariantError` instead."""
    asserts = [node.lineno for node in nodes(path) if isinstance(node, ast.Assert)]
    debug = [n.lineno for n in nodes(path) if isinstance(n, ast.Name) and n.id == "__debug__"]
    assert asserts + debug == []


@pytest.mark.parametrize("path", MODULES, ids=str)
def test_every_module_says_what_it_is_for(path: Path) -> None:
    assert ast.get_docstring(tree(path)), "a module begins with what it answers and what is not in it"


def test_modules_stay_within_a_sitting() -> None:
    long = {str(path): lines for path in WRITTEN if (lines := len(text(path).splitlines())) > MODULE_LINES}
    assert long == LONGER_MODULES


def test_functions_stay_within_a_glance() -> None:
    long = {
        f"{path}:{node.name}": lines
        for path in WRITTEN
        for node, lines in functions(path)
        if lines > FUNCTION_LINES
    }
    assert long == LONGER_FUNCTIONS


OLD_WORDS = {
    "ASKS",
    "Answer",
    "AnsweredOnce",
    "Assembly",
    "Chore",
    "Chronicle",
    "ConfigsFold",
    "Core",
    "DOUBTED_BY_OTHERS",
    "Deed",
    "Desk",
    "DraftedPart",
    "EventLog",
    "EveryCallIsAnswered",
    "FetchAsk",
    "Fold",
    "Fuse",
    "HintKeeper",
    "ImageDelta",
    "Inquiry",
    "Interpreter",
    "LogTail",
    "Look",
    "Mending",
    "OnlyLeadersAreAnnounced",
    "ParkedFetches",
    "PeerLink",
    "PeerLinks",
    "PlacementFold",
    "Promises",
    "Pursuit",
    "Repeats",
    "SealedResponse",
    "Skeleton",
    "Speculation",
    "StaleAnswers",
    "StartIdentity",
    "Subject",
    "Surroundings",
    "TimedChore",
    "TopicsFold",
    "Vitals",
    "VoteAsk",
    "VoteCast",
    "Waiters",
    "Wholeness",
    "_LOOKS",
    "_brought",
    "_claimed_bytes",
    "_cut_in",
    "_cut_segment",
    "_dice",
    "_doubts_by_hearsay",
    "_false_answer",
    "_give_up",
    "_is_meant",
    "_lose_patience",
    "_mark_suspect",
    "_miss_until_recovery_point",
    "_nudge",
    "_speculation",
    "_unheard",
    "accumulator_bytes_max",
    "adopt",
    "announce",
    "answer_from_the_past",
    "answer_reads",
    "believes",
    "can_confirm",
    "claimed_epoch",
    "claimed_position",
    "current_term",
    "dice",
    "disown",
    "doubted",
    "elected_at_ms",
    "give_up_on",
    "graced",
    "heard_observers",
    "hint_mark",
    "is_announced",
    "is_replayed",
    "limited_log",
    "long_answers",
    "lower_flushed",
    "make_interpreter",
    "mark_of",
    "member_greeted",
    "mending",
    "mends",
    "note_amnesia",
    "note_awareness",
    "note_committed",
    "note_damage",
    "note_flushed",
    "note_promises",
    "note_uncommitted",
    "note_uncounted",
    "open_log",
    "patch_answer",
    "pending_bytes",
    "promise_twice",
    "pursuit",
    "quorum_answers",
    "refusal_of_answer",
    "relearn",
    "remember_wholeness",
    "replaced_by",
    "replay_values",
    "revise",
    "says_something",
    "settle_sidecar",
    "shown_config",
    "shunned",
    "stuck_because",
    "sync_hint",
    "take_answerable",
    "tell_news",
    "term",
    "untaken_bytes",
    "vouch",
    "vouched",
    "waiting_appends",
    "wholeness",
    "write_answer",
}
"""Each has given way to a word of `docs/glossary.md`."""


@pytest.mark.parametrize("path", WRITTEN, ids=str)
def test_a_docstring_explains_arguments_that_exist(path: Path) -> None:
    stale = []
    for function, _ in functions(path):
        arguments = function.args
        names = {one.arg for one in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]}
        _, _, told = (ast.get_docstring(function) or "").partition("Args:\n")
        told, _, _ = told.partition("\n\n")
        stale += [name for name in re.findall(r"^    (\w+): ", told, re.MULTILINE) if name not in names]
    assert stale == []


@pytest.mark.parametrize("path", WRITTEN + AROUND, ids=str)
def test_names_keep_their_words(path: Path) -> None:
    """Epoch, never term; and what decides is said, never `maybe_`."""
    names = {node.id for node in nodes(path) if isinstance(node, ast.Name)}
    names |= {node.attr for node in nodes(path) if isinstance(node, ast.Attribute)}
    names |= {node.name for node in nodes(path) if isinstance(node, ast.ClassDef)}
    names |= {node.name for node, _ in functions(path)}
    assert [name for name in names if name.startswith(("maybe_", "_maybe_")) or name in OLD_WORDS] == []


@written
def test_tasks_have_an_owner_and_timeouts_a_scope(path: Path) -> None:
    """`TaskGroup.create_task`, `asyncio.timeout`: lost tasks hide exceptions, `wait_for` cancellations."""
    calls = {ast.unparse(node.func) for node in nodes(path) if isinstance(node, ast.Call)}
    assert not calls & {
        "asyncio.create_task",
        "asyncio.ensure_future",
        "asyncio.wait_for",
        "loop.create_task",
    }


def test_no_excuses_are_left_behind() -> None:
    assert offenders(r"\b(TODO|FIXME|XXX|HACK)\b", "kraftd", "tests", "scripts", "benchmarks", "proto") == []
    assert offenders(r"# type: ignore(?!\[)|# noqa(?!:)", "kraftd", "scripts", "benchmarks") == []


def test_the_repository_speaks_of_the_project_alone() -> None:
    """Whoever clones it has neither our machines nor our meetings."""
    assert (
        offenders(r"/(wor[k]|roo[t]|tm[p]/kraft|far[m])/|\bissue #?[0-9]+\b|\bthe contrac[t] between") == []
    )


def test_every_make_target_that_is_named_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", text(Path("Makefile")), re.MULTILINE))
    documents = [
        Path("README.md"),
        Path("CHANGELOG.md"),
        *(p.relative_to(ROOT) for p in (ROOT / "docs").glob("*.md")),
    ]
    named = {(str(path), name) for path in documents for name in re.findall(r"`make ([a-z-]+)", text(path))}
    named |= {
        ("README.md", name) for name in re.findall(r"^make ([a-z-]+)", text(Path("README.md")), re.MULTILINE)
    }
    assert {name for _, name in named} - targets == set(), sorted(named)


def test_every_make_target_is_explained_and_phony() -> None:
    makefile = text(Path("Makefile"))
    phony = set(re.search(r"^\.PHONY: ((?:.*\\\n)*.*)", makefile, re.MULTILINE)[1].replace("\\", "").split())
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    explained = set(re.findall(r"^([a-z-]+):.* ## ", makefile, re.MULTILINE))
    assert targets == phony
    assert {name for name in targets - explained if not name.startswith("check-")} == set()


def test_the_list_of_make_targets_fits_a_terminal() -> None:
    shown = subprocess.run(
        ["make", "--no-print-directory", "help"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    assert max(map(len, shown.splitlines())) <= 80
    explained = dict(re.findall(r"^([a-z-]+):.* ## (.*)", text(Path("Makefile")), re.MULTILINE))
    told = re.split(r"^  make ", shown, flags=re.MULTILINE)[1:]
    assert {each.split(None, 1)[0]: " ".join(each.split()[1:]) for each in told} == explained


def test_setup_says_what_it_does_before_each_long_step() -> None:
    told = ""
    for line in text(Path("Makefile")).replace("\\\n", "").splitlines():
        if re.search(r"\$\(PIP\) install|-m venv ", line):
            assert "echo" in f"{told}{line}", line
        told = line
    assert len(re.findall(r'"setup [1-4]/4: [^"]+"', text(Path("Makefile")))) == 4


def test_the_changelog_knows_the_version() -> None:
    version = tomllib.loads(text(Path("pyproject.toml")))["project"]["version"]
    assert re.search(rf"^## {re.escape(version)}\b", text(Path("CHANGELOG.md")), re.MULTILINE)


def test_every_rule_is_proved_and_told() -> None:
    """The rules of the tour each have a test that names them, and the code cites no others."""
    told = set(rules())
    marks = re.compile(r"\bcovers\(([^)]*)\)")
    proved = set()
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for mark in marks.findall(path.read_text(encoding="utf-8")):
            proved |= set(re.findall(r"\"(D-\d\d)\"", mark))
    assert told - proved == set()
    cited = {rule for path in WRITTEN for rule in re.findall(r"\bD-\d\d\b", text(path))}
    assert cited - told == {"D-25", "D-34"}, "kept for what is not here yet"


def test_every_promised_invariant_fires_in_a_test() -> None:
    """Whatever `docs/promises.md` names has a test that expects its violation: by `fires`, or by a `match`
    that begins with its name. Those of `kraftd.audit` have one each in `tests/unit/audit/test_audit.py`.
    """
    promised = set(re.findall(r"`((?:[A-Z][a-z]+){1,})`", text(Path("docs/promises.md"))))
    assert len(promised) > 50
    fired = {invariant.__name__ for invariant in INVARIANTS}
    for path in AROUND:
        if path.name.startswith("test_"):
            fired |= {re.split(r"\W", each, maxsplit=1)[0] for each in expected_violations(path)}
    assert promised - fired == set()


def expected_violations(path: Path) -> Iterator[str]:
    """How the violations begin that the tests of a module expect."""
    for function, _ in functions(path):
        for call in (node for node in ast.walk(function) if isinstance(node, ast.Call)):
            patterns = [keyword.value for keyword in call.keywords if keyword.arg == "match"]
            if name_of_call(call) == "raises" and patterns and "Violation" in ast.unparse(call.args[0]):
                yield from texts(patterns[0], function)
            elif name_of_call(call) == "fires":
                yield from texts(call.args[0], function)


def name_of_call(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def texts(value: ast.expr, function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    """The texts that an expression may begin with; of a parameter, those that the test is called with."""
    if isinstance(value, ast.JoinedStr):
        value = value.values[0]
    inside = value if isinstance(value, ast.Constant) else ast.Tuple(function.decorator_list, ast.Load())
    for node in ast.walk(inside):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


@pytest.mark.parametrize(
    "package", ("controller", "logtools", "metadata", "net", "raft", "records", "runtime", "storage")
)
def test_the_page_of_a_package_names_its_modules(package: str) -> None:
    """Whoever opens the folder learns from its page which module he wants."""
    told = set(re.findall(r"[a-z_]+", ast.get_docstring(tree(Path("kraftd", package, "__init__.py"))) or ""))
    there = {path.stem for path in Path(ROOT / "kraftd" / package).glob("*.py")} - {"__init__"}
    there |= {path.parent.name for path in Path(ROOT / "kraftd" / package).glob("*/__init__.py")}
    assert there - told == set()


def test_locks_carry_hashes() -> None:
    for lock in sorted((ROOT / "requirements").glob("*.lock")):
        pins = re.split(r"\n(?=\S)", lock.read_text(encoding="utf-8").strip())
        assert [pin for pin in pins if "--hash=sha256:" not in pin] == []


def test_locks_hold_what_is_asked_for() -> None:
    """`make lock` was run after a dependency was added or its bounds were moved."""
    project = tomllib.loads(text(Path("pyproject.toml")))["project"]
    asked = {
        "runtime": project["dependencies"],
        "dev": project["dependencies"] + project["optional-dependencies"]["replay"],
    }
    for name, requirements in asked.items():
        pins = dict(
            re.findall(r"^([\w.-]+)==([\w.+!-]+)", text(Path(f"requirements/{name}.lock")), re.MULTILINE)
        )
        for requirement in map(Requirement, requirements):
            pinned = pins.get(canonicalize_name(requirement.name))
            assert pinned is not None, f"{name}.lock lacks {requirement}"
            assert requirement.specifier.contains(pinned, prereleases=True), (
                f"{name}.lock has {pinned}: {requirement}"
            )


def offenders(pattern: str, *folders: str) -> list[str]:
    """The tracked lines that match, this file aside."""
    found = []
    for name in tracked():
        inside = not folders or name.partition("/")[0] in folders
        if (
            not inside
            or name == "tests/test_project_rules.py"
            or name.startswith(("requirements/", "LICENSE"))
        ):
            continue
        try:
            lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
        except (UnicodeDecodeError, FileNotFoundError, IsADirectoryError):
            continue
        found += [
            f"{name}:{number}: {line.strip()}"
            for number, line in enumerate(lines, 1)
            if re.search(pattern, line)
        ]
    return found


@cache
def tracked() -> list[str]:
    """The files that belong to the project: git's list, or the source tree's where there is no git."""
    try:
        shown = subprocess.run(
            ["git", "-C", str(ROOT), "ls-files"], capture_output=True, text=True, check=True
        )
    except (FileNotFoundError, subprocess.CalledProcessError):
        return [
            str(path.relative_to(ROOT))
            for path in ROOT.rglob("*")
            if path.is_file() and ".venv" not in path.parts
        ]
    return shown.stdout.splitlines()


def imports(path: Path) -> Iterator[str]:
    for node in nodes(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def functions(path: Path) -> Iterator[tuple[ast.FunctionDef | ast.AsyncFunctionDef, int]]:
    """Every function with its length in lines, the docstring not counted."""
    for node in nodes(path):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0]
            said = (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            )
            told = (first.end_lineno or first.lineno) - first.lineno + 1 if said else 0
            yield node, (node.end_lineno or node.lineno) - node.lineno + 1 - told


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """Every node of a module, which many rules look at: to walk a tree takes longer than to look."""
    return tuple(ast.walk(tree(path)))


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(text(path))


def text(path: Path) -> str:
    return (ROOT / path).read_text(encoding="utf-8")

"""Bugs of files: too few of them, and those that are taken away under a running node."""

from tests.sabotage.mutant import mutant

PAGES = ("tests/unit/runtime/test_http_server.py",)
PRESENCE = ("tests/unit/storage/test_presence.py",)
GUARD = ("tests/unit/runtime/test_guard.py",)

OWN_STATE = ("tests/unit/logtools/test_own_state.py",)
GONE = ("tests/unit/logtools/test_files_that_go.py",)

NO_FILE = ("tests/unit/storage/test_no_file.py",)

FILES = (
    mutant(
        "no-file-is-opened",
        "open(2)",
        "A character device in the place of a file is read as if it were one.",
        "tests",
        ("kraftd.regular_file:open_handle", "if stat.S_ISREG(found):", "if not stat.S_ISDIR(found):"),
        where=NO_FILE,
    ),
    mutant(
        "reading-a-fifo-waits",
        "open(2)",
        "Who opens a FIFO in the place of a file waits for somebody at its other end.",
        "tests",
        ("kraftd.regular_file:open_handle", "| os.O_NONBLOCK", ""),
        where=NO_FILE,
    ),
    mutant(
        "any-size-is-believed",
        "Disk.read_file",
        "A hole of terabytes in the place of a small file takes all memory.",
        "tests",
        (
            "kraftd.storage.disk:Disk.read_file",
            "if excess := small_files.excess(path.name, size_bytes):",
            "if excess := '':",
        ),
        where=NO_FILE,
    ),
    mutant(
        "tools-believe-any-size",
        "read_small",
        "A tool takes all memory for a hole in the place of a small file.",
        "tests",
        (
            "kraftd.logtools.small_reading:read_small",
            "if excess := small_files.excess(path.name, size_bytes):",
            "if excess := '':",
        ),
        where=NO_FILE,
    ),
    mutant(
        "files-are-not-counted",
        "D-38",
        "Connections take the files that the next segment of the log needs.",
        "tests",
        (
            "kraftd.runtime.file_limits:connections_allowed",
            "files_max - _taken(segments, http=http)",
            "files_max",
        ),
        where=("tests/unit/runtime/test_file_limits.py",),
    ),
    mutant(
        "pages-without-bound",
        "D-38",
        "Half requests on the HTTP port keep as many files open as somebody likes.",
        "tests",
        (
            "kraftd.runtime.http_server:HttpServer._accept",
            "if len(waiting) >= HTTP_CONNECTIONS_MAX:",
            "if False:",
        ),
        where=PAGES,
    ),
    mutant(
        "half-request-for-ever",
        "D-38",
        "A request that never ends is waited for.",
        "tests",
        (
            "kraftd.runtime.http_connection:HttpConnection.__init__",
            "call_later(seconds,",
            "call_later(3_600,",
        ),
        where=PAGES,
    ),
    mutant(
        "pages-for-everybody",
        "D-38",
        "The HTTP port is open on every address although nobody asked for it.",
        "tests",
        ("kraftd.runtime.config_values:parse_http", "if endpoint.host else", "if True else"),
        where=("tests/unit/runtime/test_config.py",),
    ),
    mutant(
        "lock-is-not-looked-at",
        "KAFKA-14557",
        "A lock file was removed, and two processes write into one log from then on.",
        "tests",
        ("kraftd.storage.presence:PresenceCheck.run", "handle, path = self.lock", "return None"),
        where=PRESENCE,
    ),
    mutant(
        "directory-gone-unnoticed",
        "D-03",
        "What is acknowledged goes into files that no name leads to.",
        "tests",
        (
            "kraftd.storage.presence:PresenceCheck.run",
            "for handle, path in self.log:",
            "for handle, path in ():",
        ),
        where=PRESENCE,
    ),
    mutant(
        "cut-taken-for-a-loss",
        "D-03",
        "A follower whose log was cut while its names were looked at ends, although all is in order.",
        "tests",
        (
            "kraftd.runtime.guard:Guard._checked",
            "if loss is None or not self._directory.is_current(check):",
            "if loss is None:",
        ),
        where=GUARD,
    ),
    mutant(
        "hung-mount-piles-up",
        "D-17",
        "A mount that does not answer is asked again each second, and reads wait behind all that.",
        "tests",
        ("kraftd.runtime.guard:Guard.run", "if not self._is_checking and", "if"),
        where=GUARD,
    ),
    mutant(
        "half-forgotten",
        "D-05",
        "What a node was made to forget is still in the other slot, and a bad sector brings it back.",
        "tests",
        ("kraftd.storage.forgetting:_forget", "sidecar.save_twice(changed)", "sidecar.save(changed)"),
        where=("tests/unit/storage/test_forgetting.py",),
    ),
    mutant(
        "verify-believes-a-short-log",
        "own_state",
        "`log verify` calls a log whole that lost what was flushed.",
        "tests",
        ("kraftd.logtools.own_state:lost_end", "own.flushed_offset <= end_offset", "end_offset >= 0"),
        where=OWN_STATE,
    ),
    mutant(
        "verify-forgets-a-vote",
        "own_state",
        "`log verify` calls a directory whole whose election file is gone.",
        "tests",
        ("kraftd.logtools.own_state:_judged", "if finding.amnesia:", "if data and finding.amnesia:"),
        where=OWN_STATE,
    ),
    mutant(
        "verify-looks-once",
        "own_state",
        "A running node that cut its log meanwhile is told to have lost its end.",
        "tests",
        ("kraftd.logtools.own_state:_lost_end_of", "own = own_state(verdict.log.home)", ""),
        where=OWN_STATE,
    ),
    mutant(
        "verify-takes-what-went-for-damage",
        "listed_again",
        "A snapshot that a running node's cleaner removed meanwhile is a problem of its log.",
        "tests",
        ("kraftd.logtools.verify:_LogCheck._load", "except FileGoneError:", "except ZeroDivisionError:"),
        where=GONE,
    ),
    mutant(
        "state-passes-over-what-went",
        "listed_again",
        "`log state` makes do with an older snapshot because the newest it listed has gone, and says it is damaged.",
        "tests",
        ("kraftd.logtools.state:_nearest", "except FileGoneError:", "except ZeroDivisionError:"),
        where=GONE,
    ),
    mutant(
        "info-looks-once",
        "inspection",
        "`kraftctl info` tells a fault because a running node removed a segment after it was listed.",
        "tests",
        ("kraftd.logtools.inspection:inspect_directory", "range(_LOOKS_MAX)", "range(1)"),
        where=GONE,
    ),
    mutant(
        "verify-mixes-two-elections",
        "own_state",
        "An election that a running node writes meanwhile looks like a forgotten vote.",
        "tests",
        (
            "kraftd.logtools.own_state:_judged",
            "if again is None or again.local_state == state.local_state:",
            "if True:",
        ),
        where=OWN_STATE,
    ),
    mutant(
        "export-believes-a-short-log",
        "export",
        "An export of a log that lost what was flushed ends with 0.",
        "tests",
        ("kraftd.cli.export:_lost_end", "if copied.is_damaged_end:", "if True:"),
        where=("tests/unit/cli/test_export.py",),
    ),
)

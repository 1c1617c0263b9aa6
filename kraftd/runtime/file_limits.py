"""How many connections are allowed, so that the log can always open its files.

The system has one limit for all open files of a process. A segment that cannot be created ends the process
(D-03), a connection that is not accepted ends nothing: so connections get what is left over. A log keeps one
file open for each segment, and so leaves fewer connections as it grows.

Entered at the start and once a second, by the daemon. Not here: who may connect (`kraftd.net.server`).
"""

from kraftd.errors import ConfigError
from kraftd.protocol import limits

HTTP_CONNECTIONS_MAX = 64
"""Connections to the HTTP port; the oldest is closed for one more."""

FILES_RESERVED = 128
"""Files that are neither connections to us nor segments that are there already: our own connections to the
other nodes, segments to come within a second, index files, election, sidecar, lock, exports, the loop."""

CONNECTIONS_MIN = 32
"""Fewer are no use: kraftctl alone opens one for each node that it asks."""


def connections_allowed(files_max: int | None, segments: int, *, http: bool) -> int:
    """How many connections there may be beside those of other nodes; none (0) once too many files are open.

    Args:
        files_max: The process's limit of open files; None for no limit.
        segments: How many files the log has.
        http: Whether the HTTP port is open.
    """
    if files_max is None:
        return limits.CONNECTIONS_MAX
    return max(0, min(limits.CONNECTIONS_MAX, files_max - _taken(segments, http=http)))


def refuse_few_files(files_max: int | None, segments: int, *, http: bool) -> None:
    """Refuse to start with a limit that leaves too little.

    Raises:
        ConfigError: One line: how many there are, and how many there must be.
    """
    if connections_allowed(files_max, segments, http=http) >= CONNECTIONS_MIN:
        return
    least = _taken(segments, http=http) + CONNECTIONS_MIN
    raise ConfigError(
        f"this process may open {files_max} files, but needs {least} with the {segments} segments of its "
        "log: "
        "raise the hard limit of open files (ulimit -Hn, LimitNOFILE=, --ulimit nofile=)"
    )


def _taken(segments: int, *, http: bool) -> int:
    pages = HTTP_CONNECTIONS_MAX if http else 0
    return limits.PEER_CONNECTIONS_RESERVED + FILES_RESERVED + pages + segments

"""Bugs that only a whole process has: how it ends, and whom it lets in. And a canary."""

from tests.sabotage.mutant import mutant

PROCESSES = (
    mutant(
        "an-exception-is-only-told",
        "D-17",
        "An exception in a timer is a line in the log, and the process goes on with half of its effects carried out.",
        "process",
        (
            "kraftd.runtime.main:FatalErrorHandler.on_loop",
            'self.abort(str(context.get("message")), error)',
            'self._logger.warning("loop", text=str(context.get("message")))',
        ),
        where=("tests/process/test_endings.py::test_an_unexpected_exception_ends_the_process[timer]",),
    ),
    mutant(
        "the-second-signal-waits",
        "D-17",
        "The second signal ends the process once the loop comes to it, which waits for a disk that hangs.",
        "process",
        (
            "kraftd.runtime.daemon:Daemon._await_signals",
            "os._exit(128 + number)",
            "loop.call_soon_threadsafe(os._exit, 128 + number)",
        ),
        where=(
            "tests/process/test_endings.py::test_the_second_signal_stops_at_once_while_the_disk_hangs[flush]",
        ),
    ),
    mutant(
        "foreign-node",
        "KAFKA-10817",
        "A node of another cluster is let in by the handshake.",
        "process",
        (
            "kraftd.net.handshake:refusal_of",
            "if theirs.cluster_id is not None and theirs.cluster_id != ours.cluster_id:",
            "if False:",
        ),
        where=(
            "tests/process/test_untrusted_input.py::test_a_node_of_another_cluster_is_refused_with_one_clear_line",
        ),
    ),
    mutant(
        "canary",
        "nobody",
        "In some epochs a leader dies, for no reason.",
        "report",
        (
            "kraftd.raft.state_changes:StateChanges.become_leader",
            "raft.attempts = 0",
            'raft.attempts = 0\n    if start_offset % 5 == 3:\n        raise ValueError("tweet")',
        ),
    ),
)

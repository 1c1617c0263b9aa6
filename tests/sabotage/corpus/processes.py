"""Bugs that only a whole process has: how it ends, and whom it lets in. And a canary."""

from tests.sabotage.mutant import mutant

LOG_WRITER = "tests/unit/runtime/test_log_writer.py"

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
        "a-task-that-fails-waits-for-the-others",
        "D-17",
        "An exception in a task ends the process once all that threads do for the loop is done.",
        "process",
        ("kraftd.runtime.daemon:Tasks.end_process_if_failed", "self._failed(name, error)", "raise"),
        where=("tests/process/test_endings.py::test_an_unexpected_exception_ends_the_process[busy-task]",),
    ),
    mutant(
        "turns-go-on-after-a-failure",
        "D-17",
        "The raft node is polled again after an event whose effects were half carried out.",
        "tests",
        ("kraftd.runtime.driver:Driver.deliver", "self.stop()", "pass"),
        where=(
            "tests/unit/runtime/test_driver.py::test_after_an_event_that_could_not_be_handled_there_is_no_turn",
        ),
    ),
    mutant(
        "nohup-is-no-help",
        "nobody",
        "A node that was started with SIGHUP ignored stops by it.",
        "process",
        ("kraftd.runtime.daemon:_stop_signals", "signal.getsignal(signal.SIGHUP) == signal.SIG_IGN", "False"),
        where=("tests/process/test_endings.py::test_a_node_that_was_started_by_nohup_outlives_its_terminal",),
    ),
    mutant(
        "a-closed-terminal-stops-at-once",
        "nobody",
        "The second SIGHUP of a terminal that is closed ends a node that is handing over.",
        "process",
        (
            "kraftd.runtime.daemon:Daemon._await_signals",
            "signal.sigwait(_AT_ONCE_SIGNALS)",
            "signal.sigwait(_STOP_SIGNALS)",
        ),
        where=("tests/process/test_endings.py::test_a_terminal_that_is_closed_stops_the_node_in_order",),
    ),
    mutant(
        "a-stop-cuts-responses",
        "nobody",
        "A server that stops drops the responses that the system has not taken yet.",
        "tests",
        ("kraftd.net.server:Server.stop", "await self._all_ended.wait()", "pass"),
        where=(
            "tests/unit/net/test_network.py::test_a_server_that_stops_waits_until_its_responses_are_written",
        ),
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
        "a-log-that-takes-nothing-ends-the-node",
        "D-17",
        "A line that cannot be written is an error that nobody expects.",
        "process",
        ("kraftd.runtime.log_writer:LogWriter._is_taken", "return False", "raise"),
        where=(
            "tests/process/test_log_streams.py::test_a_node_whose_reader_has_gone_lives_and_stops_in_order",
        ),
    ),
    mutant(
        "a-full-log-waits-in-memory",
        "nobody",
        "All lines wait for a reader that has stopped, however many there are.",
        "tests",
        (
            "kraftd.runtime.log_writer:LogWriter.write",
            "if waiting and waiting + len(data) > WAITING_BYTES_MAX:",
            "if False:",
        ),
        where=(f"{LOG_WRITER}::test_nobody_waits_for_a_reader_that_has_stopped",),
    ),
    mutant(
        "refused-lines-are-told-with-the-next",
        "nobody",
        "Lines for which there was no room are told of only once there is another line.",
        "tests",
        ("kraftd.runtime.log_writer:LogWriter._work", "if self._items.empty():", "if False:"),
        where=(f"{LOG_WRITER}::test_refused_lines_are_told_though_none_comes_after_them",),
    ),
    mutant(
        "a-torn-line-goes-on",
        "nobody",
        "The line after one that was cut by a full disk stands in the same line.",
        "tests",
        ("kraftd.runtime.log_writer:LogWriter._is_taken", "self._is_torn = bool(left)", "pass"),
        where=(f"{LOG_WRITER}::test_a_line_of_which_a_part_was_written_does_not_spoil_the_next_one",),
    ),
    mutant(
        "lost-lines-are-not-told",
        "nobody",
        "Lines that a full disk did not take are missing, and nothing says so.",
        "tests",
        ("kraftd.runtime.log_writer:LogWriter._tell_lost", "if not self._untold:", "if True:"),
        where=(f"{LOG_WRITER}::test_lines_that_the_stream_does_not_take_are_lost_and_told_once_it_does",),
    ),
    mutant(
        "an-abort-does-not-wait-for-its-line",
        "D-17",
        "The process ends before the line is written that says why.",
        "process",
        ("kraftd.runtime.main:FatalErrorHandler.abort", "self._log_writer.flush()", "pass"),
        where=("tests/process/test_log_streams.py::test_the_last_line_before_an_abort_is_read",),
    ),
    mutant(
        "the-log-is-the-thread-of-signals",
        "nobody",
        "Signals are delivered to the thread that writes the log, and end the process.",
        "tests",
        (
            "kraftd.runtime.log_writer:_start_without_signals",
            "signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())",
            "signal.pthread_sigmask(signal.SIG_BLOCK, ())",
        ),
        where=(f"{LOG_WRITER}::test_no_signal_is_delivered_to_the_thread",),
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

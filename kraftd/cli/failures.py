"""How a command ends when it cannot do its job: one line for the operator and an exit code for the script.

The line says what went wrong, where, and what to do about it. The codes are those that etcd's users know;
64 is the usage error of sysexits.h, 128+n a signal, as in every shell.
"""

from enum import IntEnum
from typing import ClassVar

from kraftd.errors import KraftdError
from kraftd.interrupts import EXIT_INTERRUPTED


class ExitCode(IntEnum):
    """What a script can rely on."""

    OK = 0
    ERROR = 1
    NOT_CONNECTED = 2
    REFUSED = 4
    UNHEALTHY = 5
    USAGE = 64
    INTERRUPTED = EXIT_INTERRUPTED
    BROKEN_PIPE = 141


class CommandError(KraftdError):
    """The command could not do what it was asked."""

    exit_code: ClassVar[ExitCode] = ExitCode.ERROR


class UsageError(CommandError):
    """The arguments do not make sense together; nothing was tried."""

    exit_code = ExitCode.USAGE


class NotConnectedError(CommandError):
    """No node that could have answered was reached."""

    exit_code = ExitCode.NOT_CONNECTED


class RefusedError(CommandError):
    """A node answered, and the response was no."""

    exit_code = ExitCode.REFUSED


class UnknownOutcomeError(CommandError):
    """A change may have been made or may still be; to repeat it unasked could undo what others did since."""

    exit_code = ExitCode.UNHEALTHY


class UnhealthyError(CommandError):
    """The quorum cannot do it in its present state: no leader, no majority, or no outcome in time."""

    exit_code = ExitCode.UNHEALTHY

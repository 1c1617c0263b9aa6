"""Standard output that notices what becomes of it: output that nobody can read is no success.

Standard error is for the person at the terminal: what cannot be said there is lost, and changes neither what
a command does nor its exit code. Characters that the terminal's encoding lacks are written as in JSON.

A reader that has taken a part and goes (`kraftctl … | head`) ends the command quietly, as it ends every
command of a shell. Where nothing could be written at all, or the disk behind it is full, the output is lost,
and that is an error: closed by whoever started us (`>&-`), or a pipe whose other end was never read.
"""

import codecs
import errno
import io
import os
import sys
from contextlib import suppress
from typing import TextIO

from kraftd.cli.failures import ExitCode


class LostOutputError(Exception):
    """Standard output takes nothing more. Not an OSError, which would be taken for the fault of a file."""


class Output(io.RawIOBase):
    """The end of standard output. After its first failure it swallows everything: we come to an end."""

    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = descriptor
        self._was_read = False
        self.failure: OSError | None = None
        """Why it takes nothing more."""

    @property
    def ended_early(self) -> bool:
        """Whether its reader has gone with a part of the output."""
        return self._was_read and self.failure is not None and self.failure.errno == errno.EPIPE

    def writable(self) -> bool:
        """Always true: a failure is told by `write`."""
        return True

    def isatty(self) -> bool:
        """Whether a terminal shows what is written."""
        return self._descriptor is not None and os.isatty(self._descriptor)

    def fileno(self) -> int:
        """The descriptor.

        Raises:
            UnsupportedOperation: Standard output was closed from the start.
        """
        if self._descriptor is None:
            raise io.UnsupportedOperation("standard output is closed")
        return self._descriptor

    def write(self, data: bytes | bytearray | memoryview, /) -> int:  # type: ignore[override]  # all that is written to it
        """Write some bytes. Returns how many; all of them, after the first failure.

        Raises:
            LostOutputError: It takes nothing more; said once.
        """
        if self.failure is not None:
            return len(data)
        try:
            if self._descriptor is None:
                raise OSError(errno.EBADF, os.strerror(errno.EBADF))
            taken = os.write(self._descriptor, data)
        except OSError as error:
            self.failure = error
            raise LostOutputError from error
        self._was_read = True
        return taken


class Remarks(io.RawIOBase):
    """The end of standard error, which swallows what it cannot write."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        """Kept, since its end would close the descriptor."""
        self._descriptor = stream.fileno()

    def writable(self) -> bool:
        """Always true."""
        return True

    def isatty(self) -> bool:
        """Whether a terminal shows what is written."""
        return os.isatty(self._descriptor)

    def fileno(self) -> int:
        """The descriptor."""
        return self._descriptor

    def write(self, data: bytes | bytearray | memoryview, /) -> int:  # type: ignore[override]  # as above
        """Write some bytes, or lose them all. Returns how many."""
        try:
            return os.write(self._descriptor, data)
        except OSError:
            return len(data)


def escaped(error: UnicodeError) -> tuple[str | bytes, int]:
    """What is written in the place of characters that the encoding lacks.

    Names of files go out in the bytes that they came in; anything else as in JSON, so that JSON stays JSON.

    Raises:
        UnicodeError: It is not about writing.
    """
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    try:
        return lacking.encode("ascii", "surrogateescape"), error.end
    except UnicodeEncodeError:
        units = lacking.encode("utf-16-be", "surrogatepass")
        text = "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
        return text, error.end


_ESCAPED = "kraftctl.escaped"
codecs.register_error(_ESCAPED, escaped)


def take_over() -> Output:
    """Put our own streams in the place of the interpreter's, and something for those that are closed: whoever
    reads a closed standard input reads nothing.
    """
    is_open = sys.stdout is not None
    while os.open(os.devnull, os.O_RDWR) <= 2:
        pass  # a file or socket of ours must not become standard output
    output = Output(1 if is_open else None)
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(output),
        encoding=sys.stdout.encoding if is_open else "utf-8",
        errors=_ESCAPED,
        line_buffering=output.isatty(),
    )
    if sys.stdin is None:
        sys.stdin = open(os.devnull)  # noqa: SIM115, PTH123 - as long as the process
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115, PTH123 - as long as the process
    sys.stderr = io.TextIOWrapper(
        io.BufferedWriter(Remarks(sys.stderr)),
        encoding=sys.stderr.encoding,
        errors=_ESCAPED,
        line_buffering=True,
    )
    return output


def ending(output: Output, code: int) -> int:
    """Write what is left, and say how a command ended of which this is the code."""
    with suppress(LostOutputError):
        sys.stdout.flush()
    if output.failure is None:
        return code
    if output.ended_early:
        return ExitCode.BROKEN_PIPE
    sys.stderr.write(f"kraftctl: standard output: {output.failure.strerror}; the output is lost\n")
    return code or ExitCode.ERROR

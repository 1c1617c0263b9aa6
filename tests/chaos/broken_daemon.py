"""The real `kraftd`, with one promise that it no longer keeps: the verdict of a run must notice it.

`python broken_daemon.py DEFECT start CONFIG`. DEFECT is `stale reads` (a leader asks nobody before it
answers), `acknowledged at once` (a write is confirmed when it is appended) or `refused but written` (a write
that was appended, and then left behind by its leader, is told as not appended).
"""

import sys
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from kraftd.controller.admin_apis import OPERATIONS
from kraftd.errors import ErrorCode
from kraftd.raft.reads import Reads
from kraftd.runtime.controller_apis import ControllerApis
from kraftd.runtime.main import main


def stale_reads() -> None:
    add = Reads.add

    def add_as_confirmed(reads: Any, *arguments: Any) -> bool:
        add(reads, *arguments)
        reads._reads[-1].confirmed = True
        return True

    Reads.add = add_as_confirmed  # type: ignore[assignment,method-assign]


def acknowledged_at_once() -> None:
    append = ControllerApis._append

    def append_and_reply(apis: Any, write: Any, caller: Any, *when: Any) -> None:
        append(apis, write, None, *when)
        if caller is not None:
            caller.reply(write.response_when_committed)

    ControllerApis._append = append_and_reply  # type: ignore[assignment,method-assign]


def refused_but_written() -> None:
    for operation in OPERATIONS:
        internals: Any = operation
        msgspec.structs.force_setattr(internals, "refuse", _as_not_appended(operation.refuse))


def _as_not_appended(refuse: Callable[..., Any]) -> Callable[..., Any]:
    def refuse_as_not_appended(request: Any, error: ErrorCode, text: str) -> Any:
        told = ErrorCode.NOT_CONTROLLER if error is ErrorCode.REQUEST_TIMED_OUT else error
        return refuse(request, told, text)

    return refuse_as_not_appended


DEFECTS: Mapping[str, Callable[[], None]] = {
    "stale reads": stale_reads,
    "acknowledged at once": acknowledged_at_once,
    "refused but written": refused_but_written,
}

if __name__ == "__main__":
    DEFECTS[sys.argv[1]]()
    main(sys.argv[2:])

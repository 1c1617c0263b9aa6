"""The loop of a node looks hosts up in threads that hold nobody up."""

import asyncio
import socket
import threading

import pytest

from kraftd.net.addresses import AddressBook, look_up
from kraftd.runtime.event_loop import NodeLoop

HOSTS = 5


def test_lookups_that_take_long_hold_up_neither_each_other_nor_the_end_of_the_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The system still asks a name server that is gone when the loop is closed."""
    begun, answered = threading.Barrier(HOSTS + 1), threading.Event()

    def hang(*_: object, **__: object) -> list[object]:
        begun.wait(10)
        answered.wait()
        return []

    async def begin_and_stop() -> None:
        async with asyncio.TaskGroup() as tasks:
            book = AddressBook(tasks)
            for number in range(HOSTS):
                with pytest.raises(TimeoutError):
                    await book.of(f"host-{number}.example", 0)
            await asyncio.to_thread(begun.wait, 10)
            book.stop()

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    with asyncio.Runner(loop_factory=NodeLoop) as runner:
        runner.run(begin_and_stop())
    assert not answered.is_set()
    answered.set()


def test_a_lookup_tells_what_the_system_says(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> list[object]:
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    with asyncio.Runner(loop_factory=NodeLoop) as runner:
        assert "127.0.0.1" in runner.run(look_up("localhost"))
        monkeypatch.setattr(socket, "getaddrinfo", fail)
        with pytest.raises(socket.gaierror, match="name resolution"):
            runner.run(look_up("two.example"))

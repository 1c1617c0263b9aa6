"""The load clients: every response is compared, whatever is not the good one ends the run with a line."""

import asyncio
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from load import Caller, Meter, etcd_ids
from peers import driver, http2
from peers.cluster import NotThereError, Work
from peers.frames import Order, run_load

GOOD = (12).to_bytes(4, "big") + b"\0\0\0\1\0\0\0\0good"
THROTTLE_TIME = range(8, 12)
HELLO = (5).to_bytes(4, "big") + b"hello"
REQUESTS = [(7).to_bytes(4, "big") + b"write %d" % number for number in range(3)]


class Server:
    """Answers each request with what it is told to, and remembers the requests."""

    def __init__(self, *answers: bytes) -> None:
        self._answers = list(answers)
        self.seen: list[bytes] = []
        self.is_greeted = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                request = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
                if request == HELLO[4:]:
                    self.is_greeted += 1
                    writer.write((2).to_bytes(4, "big") + b"hi")
                    continue
                self.seen.append(request)
                answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
                if not answer:
                    break
                for half in (answer[:7], answer[7:]):
                    writer.write(half)
                    await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def drive(self, work: Work, hello: bytes | None = None) -> driver.Load:
        server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            return await run_load(port, work, hello=hello, requests=REQUESTS, good=GOOD, free=THROTTLE_TIME)


@pytest.fixture(autouse=True)
def _compiler() -> None:
    if shutil.which("cc") is None:
        pytest.skip("no C compiler: apt-get install gcc libc6-dev")


async def test_the_client_in_c_counts_answers_takes_turns_with_requests_and_greets() -> None:
    server = Server(GOOD)
    load = await server.drive(Work(2, 0.2), hello=HELLO)
    assert server.is_greeted == 2
    assert {b"write 0", b"write 1", b"write 2"} == set(server.seen)
    assert server.seen[0] != server.seen[1], "each connection begins with another request"
    assert len(server.seen) - 2 <= load.changes <= len(server.seen)
    assert 0 < load.changes_per_s * 0.2 < load.changes, "the warm-up does not count for the speed"
    assert 0 < load.p50_ms <= load.p99_ms <= load.max_ms * 1.01
    assert load.client_us > 0


async def test_the_client_in_python_compares_as_well() -> None:
    load = await Server(GOOD).drive(Work(2, 0.2, client="python"), hello=HELLO)
    assert 0 < load.changes_per_s * 0.2 <= load.changes
    assert 0 < load.p50_ms <= load.p99_ms <= load.max_ms
    with pytest.raises(RuntimeError, match="the load client ended with 1"):
        await Server(GOOD, GOOD[:-1] + b"!").drive(Work(1, 5, client="python"))


async def test_a_throttle_time_may_be_anything_and_a_batch_counts_all_its_changes() -> None:
    throttled = GOOD[:8] + b"\0\0\0\7" + GOOD[12:]
    assert (await Server(throttled).drive(Work(1, 0.2, batch=True))).changes % 100 == 0


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (GOOD[:-1] + b"!", "byte 15 of 16 is 0x21 and not 0x64"),
        (GOOD[:7] + b"\2" + GOOD[8:], "byte 7 of 16 is 0x02 and not 0x01"),
        ((13).to_bytes(4, "big") + GOOD[4:] + b"!", "byte 3 of 16 is 0x0d and not 0x0c, in a frame of 13"),
        ((1).to_bytes(4, "big") + b"!", "byte 3 of 16 is 0x01 and not 0x0c, in a frame of 1"),
        (GOOD + GOOD, "more than one response to a request"),
        (b"", "the server closed the connection"),
    ],
)
async def test_whatever_is_not_the_good_response_ends_the_run(answer: bytes, why: str) -> None:
    with pytest.raises(RuntimeError, match=why):
        await Server(GOOD, GOOD, answer).drive(Work(1, 5))


async def test_without_a_server_there_is_a_line() -> None:
    with pytest.raises(RuntimeError, match="load: connect: Connection refused"):
        await run_load(1, Work(1, 1), hello=None, requests=REQUESTS, good=GOOD)


def test_it_is_built_once_for_each_source(tmp_path: Path) -> None:
    source = tmp_path / "load.c"
    source.write_text("int main(void) { return 0; }\n")
    program = driver.driver(source, tmp_path)
    first = program.stat().st_mtime_ns
    assert driver.driver(source, tmp_path).stat().st_mtime_ns == first
    source.write_text("int main(void) { return 1; }\n")
    assert driver.driver(source, tmp_path) != program


def test_what_cannot_be_built_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "load.c"
    source.write_text("nonsense\n")
    with pytest.raises(NotThereError, match=r"cc failed: .*nonsense") as failed:
        driver.driver(source, tmp_path)
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(NotThereError, match="no C compiler") as missing:
        driver.driver(source, tmp_path)
    assert "\n" not in str(failed.value) + str(missing.value)
    assert not list(tmp_path.glob("load-*"))


def test_frames_of_http2_are_cut_wherever_the_bytes_were() -> None:
    sent = http2.call(5, http2.header_block("/etcdserverpb.KV/Put"), b"body") + http2.frame(
        http2.PING, 0, 0, b"8 bytes."
    )
    for cut in range(len(sent)):
        first, rest = http2.frames(sent[:cut])
        second, nothing = http2.frames(rest + sent[cut:])
        assert nothing == b""
        headers, body, ping = first + second
    assert (headers.kind, headers.flags, headers.stream) == (http2.HEADERS, http2.END_HEADERS, 5)
    assert (body.kind, body.flags, body.payload) == (http2.DATA, http2.END_STREAM, b"body")
    assert http2.acknowledged(ping) == http2.frame(http2.PING, http2.ACK, 0, b"8 bytes.")
    assert http2.acknowledged(http2.Frame(http2.PING, http2.ACK, 0, b"8 bytes.")) == b""
    assert http2.acknowledged(http2.Frame(http2.SETTINGS, 0, 0, b"")) == bytes((0, 0, 0, 4, 1, 0, 0, 0, 0))
    assert http2.acknowledged(http2.Frame(http2.WINDOW_UPDATE, 0, 0, b"\0\0\0\1")) == b""


def test_of_an_answer_of_etcd_the_revision_is_not_compared() -> None:
    for revision in (b"\x18\x02", b"\x18\xff\x01"):
        assert etcd_ids(HEAD + IDS + revision + b"\x20\x02") == IDS


HEAD, IDS = b"\0\0\0\0\x11\n\x0f", b"\x08\xb2\x98\x01\x10\xcd\xd2\x11"


def answer(stream: int, revision: int, *, trailers: bytes = b"status 0", begin: bytes = b"") -> bytes:
    """What etcd sends for a put."""
    message = HEAD + IDS + bytes((0x18, revision)) + b"\x20\x02"
    return (
        http2.frame(http2.HEADERS, http2.END_HEADERS, stream, begin + b"ok")
        + http2.frame(http2.DATA, 0, stream, message)
        + http2.frame(http2.HEADERS, http2.END_HEADERS | http2.END_STREAM, stream, trailers)
    )


async def test_a_caller_takes_the_first_answer_as_good_and_compares_the_others_with_it() -> None:
    meter, order = Meter(), Order(0, 1, 0, 1, 1, None, [b"one", b"two"], b"", path="/etcdserverpb.KV/Put")
    written: list[bytes] = []
    caller = Caller(order, meter, 1)
    caller.connection_made(SimpleNamespace(write=written.append))
    calls = [
        http2.call(stream, http2.header_block(order.path), body)
        for stream, body in ((1, b"two"), (3, b"one"))
    ]
    assert written == [http2.preface(), calls[0]]
    first = answer(1, 2, begin=http2.RESIZED)
    caller.data_received(first[:20])
    caller.data_received(first[20:])
    caller.data_received(answer(3, 3))
    assert written[2] == calls[1]
    assert (meter.answered, meter.over.done()) == (2, False)
    caller.data_received(answer(5, 4, trailers=b"status 5"))
    with pytest.raises(RuntimeError, match="not the good answer"):
        await meter.over


@pytest.mark.parametrize(
    "bad",
    [
        http2.frame(http2.HEADERS, http2.END_HEADERS | http2.END_STREAM, 1, b"status 5"),
        http2.frame(http2.RST_STREAM, 0, 1, b"\0\0\0\2"),
    ],
)
async def test_a_call_that_fails_first_is_no_good_answer(bad: bytes) -> None:
    meter, order = Meter(), Order(0, 1, 0, 1, 1, None, [b"one"], b"", path="/etcdserverpb.KV/Put")
    caller = Caller(order, meter, 0)
    caller.connection_made(SimpleNamespace(write=lambda _: None))
    caller.data_received(bad)
    with pytest.raises(RuntimeError, match="not the good answer"):
        await meter.over
    assert meter.answered == 0

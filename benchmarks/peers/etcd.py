"""etcd as a peer: three members from Debian's package, driven by h2load with a fixed gRPC body, or in Python.

h2load is written in C and takes the client out of the measurement; it sends one body, so that all puts of
a run go to one key (and to 100 keys in transactions of 100). It sees HTTP's status, not gRPC's, so each
run also asks etcd how far its raft index grew. Single writes and hand-overs go through etcd's JSON
gateway.
"""

import asyncio
import base64
import resource
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import aiohttp
import msgspec

from peers.cluster import (
    BATCH_CHANGES,
    NODES,
    VALUE_BYTES,
    Cluster,
    Load,
    Node,
    NotThereError,
    Work,
    free_ports,
    percentile,
)
from peers.frames import VALUES, run_python


class Etcd(Cluster):
    """Three members with etcd's default heartbeat (100 ms) and election timeout (1 s)."""

    name = "etcd"
    counts: ClassVar[Mapping[str, str]] = {"fsyncs": "etcd_disk_wal_fsync_duration_seconds_count"}
    patience_s = 0.2  # a follower without a leader keeps a put for seconds; ask anew instead

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._session: aiohttp.ClientSession | None = None

    def prepare(self) -> None:
        for tool, package in (("etcd", "etcd-server"), ("h2load", "nghttp2-client")):
            if shutil.which(tool) is None:
                raise NotThereError(f"etcd: {tool} is missing; on Debian: apt-get install {package}")
        ports = free_ports(2 * NODES)
        peers = [f"http://127.0.0.1:{port}" for port in ports[NODES:]]
        members = ",".join(f"n{number}={url}" for number, url in enumerate(peers, 1))
        for number, (port, peer) in enumerate(zip(ports[:NODES], peers, strict=True), 1):
            directory = self.directory / f"etcd-{number}"
            directory.mkdir(parents=True)
            client = f"http://127.0.0.1:{port}"
            command = ["etcd", "--name", f"n{number}", "--data-dir", str(directory / "data")]
            command += ["--listen-client-urls", client, "--advertise-client-urls", client]
            command += ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer]
            command += ["--initial-cluster", members, "--logger", "zap", "--log-level", "error"]
            self.nodes.append(Node(number, directory, command, port, page_port=port))

    async def write(self, node: Node) -> int | None:
        key, value = (base64.b64encode(raw).decode() for raw in (b"key", b"x" * VALUE_BYTES))
        response = await self._call(node, "kv/put", {"key": key, "value": value})
        return None if response is None else int(response["header"]["raft_term"])

    async def leader(self) -> Node | None:
        for node in self.nodes:
            status = await self._call(node, "maintenance/status", {})
            if status is not None and status.get("leader", "0") == status["header"]["member_id"]:
                return node
        return None

    async def load(self, work: Work) -> Load:
        leader = await self.wait_leader()
        before = await self._raft_index(leader)
        if work.client == "python":
            bodies = [framed(message(work, value)) for value in range(VALUES)]
            load = await run_python(leader.port, work, hello=None, requests=bodies, good=b"", path=path(work))
        else:
            load = await self._h2load(leader, work)
        grown = await self._raft_index(leader) - before
        if grown * work.changes < load.changes:
            raise RuntimeError(f"etcd: {load.changes} changes answered, {grown * work.changes} committed")
        return msgspec.structs.replace(load, changes=grown * work.changes)

    async def _h2load(self, leader: Node, work: Work) -> Load:
        """Drive it with h2load, which says nothing of the changes of its warm-up."""
        body, log = self.directory / "body", self.directory / "h2load.tsv"
        body.write_bytes(framed(message(work, 0)))
        log.unlink(missing_ok=True)
        command = ["h2load", "-c", str(work.connections), "-m", "1", "-t", "1"]
        command += ["-d", str(body), f"--log-file={log}"]
        command += [
            f"--duration={1000 * work.seconds:.0f}ms",
            f"--warm-up-time={1000 * work.warm_up_s:.0f}ms",
        ]
        command += ["-H", "content-type: application/grpc", "-H", "te: trailers"]
        command += [f"http://127.0.0.1:{leader.port}{path(work)}"]
        cpu_s = children_cpu_s()
        process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
        output, _ = await process.communicate()
        cpu_s = children_cpu_s() - cpu_s
        rows = [line.split() for line in log.read_text().splitlines()]
        latencies_ms = sorted(int(took_us) / 1000 for _, status, took_us in rows if status == "200")
        if process.returncode or not latencies_ms or len(latencies_ms) < len(rows):
            raise RuntimeError(
                f"h2load: {len(latencies_ms)} of {len(rows)} answers were good\n{output.decode()}"
            )
        changes = len(latencies_ms) * work.changes
        return Load(
            changes=changes,
            changes_per_s=changes / work.seconds,
            p50_ms=percentile(latencies_ms, 0.5),
            p99_ms=percentile(latencies_ms, 0.99),
            max_ms=latencies_ms[-1],
            client_us=1e6 * cpu_s / (changes * (1 + work.warm_up_s / work.seconds)),
        )

    async def resign(self, leader: Node) -> None:
        target = next(node for node in self.nodes if node is not leader)
        status = await self._call(target, "maintenance/status", {})
        assert status is not None
        await self._call(
            leader, "maintenance/transfer-leadership", {"targetID": status["header"]["member_id"]}
        )

    async def rejoined(self, node: Node) -> None:
        """A member is back when its raft index is the leader's, give or take what is on the way."""
        async with asyncio.timeout(60):
            while True:
                try:
                    leader = await self.wait_leader()
                    if await self._raft_index(leader) - await self._raft_index(node) < 10:
                        break
                except OSError:
                    pass
                await asyncio.sleep(0.1)
        await asyncio.sleep(1)

    async def close_clients(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _raft_index(self, node: Node) -> int:
        status = await self._call(node, "maintenance/status", {})
        if status is None:
            raise OSError("no status")
        return int(status["raftIndex"])

    async def _call(self, node: Node, path: str, body: dict[str, str]) -> dict[str, Any] | None:
        if self._session is None:
            self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=False))
        url = f"http://127.0.0.1:{node.port}/v3/{path}"
        try:
            async with self._session.post(url, json=body) as response:
                return await response.json() if response.status == 200 else None
        except aiohttp.ClientError as error:
            raise OSError(str(error)) from error


def message(work: Work, value: int) -> bytes:
    """The body of a request that sets one of `VALUES` values."""
    return transaction(BATCH_CHANGES, value) if work.batch else put(b"key", value)


def path(work: Work) -> str:
    """The method that takes it."""
    return f"/etcdserverpb.KV/{'Txn' if work.batch else 'Put'}"


def put(key: bytes, value: int) -> bytes:
    """A PutRequest in protobuf: field 1 the key, field 2 the value."""
    return _field(1, key) + _field(2, (b"%02d" % value).ljust(VALUE_BYTES, b"x"))


def transaction(puts: int, value: int) -> bytes:
    """A TxnRequest: `puts` operations in its success branch (field 2), each a put (field 2)."""
    return b"".join(_field(2, _field(2, put(b"key-%02d" % number, value))) for number in range(puts))


def framed(message: bytes) -> bytes:
    """GRPC's frame: not compressed, four bytes of length, the message."""
    return b"\0" + len(message).to_bytes(4, "big") + message


def _field(number: int, raw: bytes) -> bytes:
    assert len(raw) < 1 << 14
    length = bytes([len(raw)]) if len(raw) < 128 else bytes([len(raw) & 127 | 128, len(raw) >> 7])
    return bytes([number << 3 | 2]) + length + raw


def children_cpu_s() -> float:
    """CPU seconds of all ended children of this process."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime

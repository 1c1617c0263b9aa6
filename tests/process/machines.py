"""A network of machines in this one: each node has a network namespace of its own, and a cable to a router.

A killed process is not a machine without power: its kernel still closes its connections, and answers what
comes later with resets. Here a machine that loses its power loses its whole namespace: nobody closes
anything, packets to it vanish, and what starts in its place knows no old connection.

    node 1  10.9.1.2 --- 10.9.1.1  router  10.9.2.1 --- 10.9.2.2  node 2

The namespaces have no names and nobody but a sleeping process in each, so nothing is left when a test is
killed, and tests side by side do not meet. Nothing outside of them is touched. Needs root and iproute2.
"""

import contextlib
import ctypes
import functools
import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from cluster import Client, Cluster, Node

_CLONE_NEWNET = 0x40000000


@functools.cache
def what_is_missing() -> str:
    """Why there can be no such network here; empty if there can."""
    try:
        with contextlib.ExitStack() as stack:
            one, other = (stack.enter_context(contextlib.closing(Namespace())) for _ in range(2))
            one.ip(f"link add here type veth peer name there netns {other.pid}")
    except FileNotFoundError as error:
        return f"{error.filename} is missing (Debian: iproute2 and util-linux)"
    except RuntimeError as error:
        return f"network namespaces cannot be made here, which needs root: {error}"
    return ""


class Namespace:
    """A network of its own, for as long as it is open."""

    def __init__(self) -> None:
        self._holder = subprocess.Popen(
            ["unshare", "--net", "sh", "-c", "echo; exec sleep infinity"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert self._holder.stdout is not None
        assert self._holder.stderr is not None
        if not self._holder.stdout.readline():  # it says so once it is inside
            why = self._holder.stderr.read().decode(errors="replace").strip()
            self.close()
            raise RuntimeError(why)

    @property
    def pid(self) -> int:
        """Whoever names this process names the namespace."""
        return self._holder.pid

    @property
    def entry(self) -> tuple[str, ...]:
        """The beginning of a command that runs in here."""
        return ("nsenter", f"--net=/proc/{self.pid}/ns/net")

    def ip(self, words: str) -> None:
        """Run iproute2's `ip` in here."""
        self.run("ip", *words.split())

    def run(self, *command: str) -> None:
        """Run a command in here.

        Raises:
            RuntimeError: It failed; with what it said.
        """
        done = subprocess.run([*self.entry, *command], capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """Be in here: sockets that this thread opens meanwhile are, for good."""
        with Path("/proc/thread-self/ns/net").open("rb") as home, self._file().open("rb") as here:
            _set_namespace(here.fileno())
            try:
                yield
            finally:
                _set_namespace(home.fileno())

    def close(self) -> None:
        """Give it up. It goes with the last process and socket in it."""
        self._holder.kill()
        self._holder.wait()
        for pipe in (self._holder.stdout, self._holder.stderr):
            assert pipe is not None
            pipe.close()

    def _file(self) -> Path:
        return Path(f"/proc/{self.pid}/ns/net")


class Machines(Cluster):
    """Controllers 1..N, each on a machine of its own."""

    def __init__(self, folder: Path, size: int = 3, **options: Any) -> None:
        self._router = Namespace()
        self._machines: dict[int, Namespace] = {}
        self._router.run("sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
        for node_id in range(1, size + 1):
            # Where the cable of a machine without power was, its packets go nowhere, and nobody says so.
            self._router.ip(f"route add blackhole 10.9.{node_id}.0/24 metric 1000")
            self._plug_in(node_id)
        super().__init__(folder, size, **options)

    def cut_power(self, node: Node) -> None:
        """The machine is gone, without a word to anybody."""
        self._router.ip(f"link delete cable{node.node_id}")
        node.kill()
        self._machines.pop(node.node_id).close()

    def restore_power(self, node: Node) -> None:
        """A machine stands in its place and has its address; the daemon is not started yet."""
        self._plug_in(node.node_id)

    def close_port(self, node: Node, *, to: Node) -> None:
        """From now on nothing that this node sends to the other's listener arrives.

        What it sends on connections that the other opened still does.
        """
        packets = f"iif cable{node.node_id} to {self.host(to)} ipproto tcp dport {to.port}"
        self._router.ip(f"rule add {packets} blackhole")

    def host(self, node: Node) -> str:
        """Implements `Cluster`."""
        return _host(node.node_id)

    def command_for(self, node: Node) -> Sequence[str]:
        """Implements `Cluster`."""
        return (*self._machines[node.node_id].entry, *self.command)

    def connect(self, node: Node, timeout_s: float) -> Client:
        """Implements `Cluster`: a client on the same machine."""
        with self._machines[node.node_id].entered():
            return super().connect(node, timeout_s)

    def close(self) -> None:
        """Implements `Cluster`."""
        super().close()
        for namespace in (*self._machines.values(), self._router):
            namespace.close()

    def _plug_in(self, node_id: int) -> None:
        machine = self._machines[node_id] = Namespace()
        router, cable = self._router, f"cable{node_id}"
        router.ip(f"link add {cable} type veth peer name eth0 netns {machine.pid}")
        router.ip(f"address add 10.9.{node_id}.1/24 dev {cable}")
        router.ip(f"link set {cable} up")
        machine.ip("link set lo up")
        machine.ip(f"address add {_host(node_id)}/24 dev eth0")
        machine.ip("link set eth0 up")
        machine.ip(f"route add default via 10.9.{node_id}.1")


def _host(node_id: int) -> str:
    return f"10.9.{node_id}.2"


def _set_namespace(descriptor: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)  # os.setns comes with Python 3.12
    if libc.setns(descriptor, _CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

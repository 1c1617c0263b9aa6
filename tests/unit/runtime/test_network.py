"""What the core hears of connections: real sockets below, and a list in the place of the driver above."""

from types import SimpleNamespace
from typing import Any

import pytest

from kraftd.errors import ErrorCode
from kraftd.metadata.image import EMPTY
from kraftd.net.server import InboundConnection, Server
from kraftd.raft import events as ev
from kraftd.runtime.network import QuorumNetwork
from kraftd.runtime.unregistered_brokers import UnregisteredBrokers
from kraftd.types import Now
from tests.unit.net.test_network import CLUSTER, Client, Node, running


class Heard(Node):
    """A node whose server tells a real `QuorumNetwork`, and that keeps what this one delivers."""

    def __init__(self, node_id: int) -> None:
        super().__init__(node_id)
        self.events: list[ev.Event] = []
        driver: Any = SimpleNamespace(deliver=self.deliver)
        network = QuorumNetwork(driver, UnregisteredBrokers(lambda: EMPTY, lambda: Now(0, 0)))
        self.server = Server(
            self.identity,
            network,
            self,
            self.outbox,
            self.numbers,
            self.limited_logger,
            wake=self.clients_wait,
        )
        raft_node: Any = self
        network.attach(self.server, None, raft_node)  # type: ignore[arg-type]

    def connection_closed(self, connection: InboundConnection) -> None:
        self.ended.append(connection.end_reason)

    def deliver(self, event: ev.Event) -> None:
        self.events.append(event)
        self.changed.set()


@pytest.mark.covers("D-37")
@pytest.mark.parametrize("peer", [0, 2])
async def test_the_core_hears_that_the_connection_of_a_voter_ended_whatever_its_id(peer: int) -> None:
    """0 is an id like any other; what was given on a connection that ended must not confirm anybody."""
    one = Heard(1)
    async with running(one):
        one.voter_ids = frozenset({peer})
        client = await Client.connect(one.port)
        response = await client.greet(cluster_id=CLUSTER, node_id=peer, directory_id=b"d" * 16)
        assert response.error_code == ErrorCode.NONE
        (claimed,) = one.events
        assert isinstance(claimed, ev.PeerClaimed)
        client.writer.close()
        await one.until(lambda: one.ended)
        assert one.events[1:] == [ev.ConnectionClosed(claimed.connection, peer)]

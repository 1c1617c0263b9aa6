"""All that was committed in a run: the nodes' logs are cut, and at their end hold only the newest part.

Entered by `Ledger.follow`, which reads the committed log from every node at once, as any client may, until it
is cancelled. Who tells a batch first is believed; what another node tells of the same offset must be the same
bytes. A reader whose node was cut behind it goes on at that node's start: what it missed another one has.

Not here: what clients were told of it (`verdict`).
"""

import asyncio
import contextlib
from collections.abc import Mapping, Sequence

from kraftd.errors import ErrorCode
from kraftd.protocol.messages import FetchCommittedRequest
from kraftd.records.batch import BatchView, scan
from kraftd.types import NodeId, Offset
from tests.chaos.clients import Wire

_WAIT_MS = 500
_BATCHES_BYTES = 1 << 20
_PATIENCE_S = 3.0
_PAUSE_S = 0.1
"""Before a node that does not answer is asked again."""


class Ledger:
    """Batches by base offset, and who told each first."""

    def __init__(self) -> None:
        self._batches: dict[Offset, tuple[NodeId, BatchView]] = {}
        self._disputed: set[tuple[NodeId, NodeId]] = set()
        self.disagreements: list[str] = []
        """Where nodes told different things, once for each two of them."""

    async def follow(self, ports: Mapping[NodeId, int]) -> None:
        """Read from all nodes until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for node_id, port in ports.items():
                tasks.create_task(self._follow(node_id, port))

    def tell(self, node_id: NodeId, batches: Sequence[BatchView]) -> None:
        """Take in what a node says is committed."""
        for batch in batches:
            teller, first = self._batches.setdefault(batch.base_offset, (node_id, batch))
            if first.raw != batch.raw and (teller, node_id) not in self._disputed:
                self._disputed.add((teller, node_id))
                self.disagreements.append(
                    f"the logs of nodes {teller} and {node_id} differ: {first!r}, {batch!r}"
                )

    def up_to(self, committed: Offset) -> tuple[list[BatchView], str]:
        """The batches below an offset, and why some are missing if they are."""
        batches: list[BatchView] = []
        offset = 0
        while offset < committed:
            if offset not in self._batches:
                return batches, f"nobody told the batch at {offset}, and {committed} are committed"
            batches.append(self._batches[offset][1])
            offset = batches[-1].end_offset
        return batches, ""

    async def _follow(self, node_id: NodeId, port: int) -> None:
        offset = 0
        while True:
            with contextlib.suppress(OSError, EOFError, TimeoutError):
                async with asyncio.timeout(_PATIENCE_S):
                    wire = await Wire.connect(port)
                try:
                    while True:
                        offset = await self._read(node_id, wire, offset)
                finally:
                    wire.close()
            await asyncio.sleep(_PAUSE_S)

    async def _read(self, node_id: NodeId, wire: Wire, offset: Offset) -> Offset:
        """Take in what comes next; where to go on."""
        request = FetchCommittedRequest(offset=offset, max_wait_ms=_WAIT_MS, max_bytes=_BATCHES_BYTES)
        async with asyncio.timeout(_PATIENCE_S):
            response, records = await wire.ask_with_records(request)
        if response.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            return max(offset, response.start_offset)
        if response.error_code:
            raise ConnectionError(response.error_message)
        batches = list(scan(records))
        self.tell(node_id, batches)
        return batches[-1].end_offset if batches else offset

"""`kraftctl log state --from`: what is copied of what a controller sends."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kraftd.cli.failures import CommandError
from kraftd.cli.observing import copied_log
from kraftd.protocol import messages as m
from kraftd.records import names
from kraftd.records.batch import encode_batch
from kraftd.records.frame import encode_record
from kraftd.records.messages import NoOpRecord
from kraftd.types import METADATA_TOPIC_ID, Endpoint
from tests.unit.cli.scripted import ScriptedKafkaNode

BATCHES = [encode_batch(offset, 1, 1_000, [encode_record(NoOpRecord())] * 5) for offset in (0, 5, 10)]
SIZE = len(BATCHES[0])


class Controller(ScriptedKafkaNode):
    """The active controller of Kafka, with a log of three batches: it sends so many bytes at most."""

    def __init__(self) -> None:
        super().__init__(1)
        self.bytes_max = 1 << 20
        self.fetched: list[int] = []
        self.responses[m.FetchRequest] = self._fetch

    def _fetch(self, request: m.FetchRequest) -> m.FetchResponse:
        offset = request.topics[0].partitions[0].fetch_offset
        self.fetched.append(offset)
        partition = m.FetchResponsePartitionData(
            high_watermark=15, log_start_offset=0, records=b"".join(BATCHES[offset // 5 :])[: self.bytes_max]
        )
        topic = m.FetchResponseFetchableTopicResponse(topic_id=METADATA_TOPIC_ID, partitions=(partition,))
        return m.FetchResponse(responses=(topic,))


@pytest.fixture
def controller() -> Iterator[Controller]:
    node = Controller()
    yield node
    node.close()


def copied(controller: Controller, folder: Path) -> bytes:
    copied_log([Endpoint("127.0.0.1", controller.port)], folder, 1_000)
    return (folder / names.LOG_DIRECTORY / names.segment_name(0)).read_bytes()


@pytest.mark.parametrize(
    ("bytes_max", "fetched"),
    [
        (1 << 20, [0]),
        (2 * SIZE, [0, 10]),
        (2 * SIZE + 70, [0, 10]),
        (2 * SIZE + 9, [0, 10]),
        (SIZE + 1, [0, 5, 10]),
    ],
)
def test_a_batch_that_is_cut_at_the_end_is_fetched_again(
    controller: Controller, tmp_path: Path, bytes_max: int, fetched: list[int]
) -> None:
    """As Kafka sends it: up to a size, wherever in a batch that ends."""
    controller.bytes_max = bytes_max
    assert copied(controller, tmp_path / "copy") == b"".join(BATCHES)
    assert controller.fetched == fetched


def test_a_first_batch_that_is_cut_is_damage(controller: Controller, tmp_path: Path) -> None:
    """To fetch it again would bring the same."""
    controller.bytes_max = SIZE - 1
    with pytest.raises(CommandError, match="what it sent is damaged"):
        copied(controller, tmp_path / "copy")


def test_a_batch_that_is_changed_is_damage(
    controller: Controller, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = bytearray(BATCHES[1])
    changed[-1] ^= 1
    monkeypatch.setattr("tests.unit.cli.test_observing.BATCHES", [BATCHES[0], bytes(changed), BATCHES[2]])
    with pytest.raises(CommandError, match="what it sent is damaged"):
        copied(controller, tmp_path / "copy")

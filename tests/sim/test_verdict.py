"""A healthy cluster may only be late where its network alone can be."""

from random import Random

import msgspec
import pytest

from tests.sim.verdict import may_be_late
from tests.sim.world import draw_shape

FAR_AWAY, NEAR = (100, 80_000), (100, 5_000)


@pytest.mark.parametrize(
    ("latency_us", "tail_part", "timeout_ms", "expected"),
    [
        pytest.param(FAR_AWAY, 0.05, 1_000, True, id="two late messages in a row outlast a second"),
        pytest.param(FAR_AWAY, 0.05, 10_000, False, id="four late messages do not outlast ten"),
        pytest.param(FAR_AWAY, 0.0, 1_000, False, id="far away, but no message is late"),
        pytest.param(NEAR, 0.05, 1_000, False, id="near, though some messages are late"),
    ],
)
def test_a_client_may_be_told_of_a_timeout_on_a_slow_network_only(
    latency_us: tuple[int, int], tail_part: float, timeout_ms: int, expected: bool
) -> None:
    shape = msgspec.structs.replace(
        draw_shape(Random(1), Random(2)),
        latency_us=latency_us,
        jitter_us=500,
        tail_part=tail_part,
        controller_timeout_ms=timeout_ms,
    )
    assert may_be_late(shape) is expected

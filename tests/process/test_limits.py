"""Daemons that limit their admins: a quota, of whoever a broker forwards for; a policy of the operator's."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from cluster import Cluster, KafkaClient, alter_request
from test_envelopes import forward
from test_topics_and_brokers import WORLD, plant

from kraftd.errors import ErrorCode
from kraftd.protocol import messages as m
from kraftd.records.messages import ClientQuotaRecord, ClientQuotaRecordEntityData

QUOTA = ClientQuotaRecord(
    (ClientQuotaRecordEntityData("client-id", "a-client"), ClientQuotaRecordEntityData("user", "alice")),
    "controller_mutation_rate",
    1.0,
)
POLICY = """
from kraftd.controller.policies import PolicyViolation


def check(request):
    if request.configs.get("log.retention.ms") == "1":
        raise PolicyViolation("one is not enough")
"""


def delete(name: str) -> m.DeleteTopicsRequest:
    topic = m.DeleteTopicsRequestDeleteTopicState(name=name)
    return m.DeleteTopicsRequest(topics=(topic,), timeout_ms=10_000)


def test_the_quota_of_a_forwarded_request_is_that_of_its_client(start: Callable[..., Cluster]) -> None:
    with start(1, start=False) as cluster:
        (node,) = cluster
        plant(node, (*WORLD, QUOTA))
        node.start()
        cluster.wait_leader()
        with KafkaClient(node.port) as broker:
            first = forward(broker, delete("wide"), 6)
            assert ([each.error_code for each in first.responses], first.throttle_time_ms) == ([0], 0)
            second = forward(broker, delete("audit"), 6)
            assert [each.error_code for each in second.responses] == [ErrorCode.THROTTLING_QUOTA_EXCEEDED]
            assert 2_900_000 < second.throttle_time_ms < 2_990_000
            of_another = broker.ask(delete("audit"))
            assert ([each.error_code for each in of_another.responses], of_another.throttle_time_ms) == (
                [0],
                0,
            )


def test_a_policy_of_the_configuration_is_asked(
    start: Callable[..., Cluster], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tmp_policies.py").write_text(POLICY)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    settings = {"alter.config.policy.class.name": "tmp_policies:check"}
    with start(1, settings=settings) as cluster, KafkaClient(cluster.wait_leader().port) as client:
        refused, done = (client.ask(alter_request([("log.retention.ms", value)])) for value in "12")
        assert [(each.error_code, each.error_message) for each in refused.responses] == [
            (ErrorCode.POLICY_VIOLATION, "one is not enough")
        ]
        assert [each.error_code for each in done.responses] == [ErrorCode.NONE]
        assert client.get_configs()["log.retention.ms"] == "2"

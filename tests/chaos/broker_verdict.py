"""Is everybody back, and was every promise to the clients of the brokers kept? One line for what is not.

What clients were told (`broker_load`) is held against what is there when every fault is undone: the brokers
as the controllers see them, partitions as each broker tells them, the values that are read back. Pure: who
asks and waits is `with_brokers`.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from kraftd.protocol.messages import ListBrokersResponseBroker
from kraftd.types import NodeId
from tests.brokers.clients import Partition
from tests.brokers.complaints import DEFECTS
from tests.chaos.broker_load import Made
from tests.chaos.verdict import named

Topics = Mapping[str, Mapping[int, Partition]]

_BROKERS_OWN = re.compile(r"(raft-client-)?\d+")
"""The client ids of a broker's connections to the controllers; strangers among the faults have others."""


def not_back(ids: Sequence[NodeId], found: Iterable[ListBrokersResponseBroker]) -> Iterator[str]:
    """Brokers that may not serve, as the active controller knows them."""
    known = {broker.broker_id: broker for broker in found}
    for broker_id in ids:
        broker = known.get(broker_id)
        if broker is None:
            yield f"broker {broker_id} is not registered"
        elif broker.is_fenced or broker.in_controlled_shutdown:
            yield f"broker {broker_id} is {'fenced' if broker.is_fenced else 'shutting down'}"


def not_whole(told: Mapping[NodeId, Topics]) -> Iterator[str]:
    """Partitions without a leader, or with a replica out of sync, as each broker tells it."""
    for broker_id, topics in told.items():
        broken = [
            f"{topic}-{number} (leader {each.leader}, replicas {each.replicas}, in sync {each.isr})"
            for topic, partitions in topics.items()
            for number, each in partitions.items()
            if each.leader not in each.isr or sorted(each.isr) != sorted(each.replicas)
        ]
        yield from named(f"not led by all, says broker {broker_id}", broken)


def denied_values(topic: str, sent: int, acknowledged: Sequence[str], read: Sequence[str]) -> Iterator[str]:
    """What a producer of the values "0", "1" and so on was told, and the topic denies."""
    times = Counter(read)
    yield from named(f"acknowledged and lost in {topic}", [v for v in acknowledged if v not in times])
    yield from named(f"in {topic} twice", [value for value, count in times.items() if count > 1])
    ours = {str(number) for number in range(sent)}
    yield from named(f"in {topic}, and nobody sent it", [value for value in times if value not in ours])


def denied_topics(
    made: Sequence[Made], told: Mapping[NodeId, Topics], configs: Mapping[str, str]
) -> Iterator[str]:
    """What the admin client was told, and the brokers deny. `configs` are those that one of them tells."""
    there = [topic.name for topic in made if topic.existence == "there"]
    gone = [topic.name for topic in made if topic.existence == "gone"]
    for broker_id, topics in told.items():
        yield from named(
            f"created, and not there, says broker {broker_id}", [t for t in there if t not in topics]
        )
        yield from named(f"deleted, and there, says broker {broker_id}", [t for t in gone if t in topics])
    other = [
        f"{topic.name}: {configs.get(topic.name)} in place of {topic.config}"
        for topic in made
        if topic.existence == "there" and topic.config not in (None, configs.get(topic.name))
    ]
    yield from named("altered, and not so", other)


def not_taken(group: str, missing: Mapping[str, set[str]]) -> Iterator[str]:
    """Acknowledged values that the consumers of a group were not given."""
    for topic, values in missing.items():
        yield from named(f"{group} was not given of {topic}", sorted(values, key=int))


def defects(node_id: NodeId, lines: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """What no broker and no client may make a controller say; strangers may ask for what is not served."""
    for line in lines:
        is_strangers = "client_id" in line and not _BROKERS_OWN.fullmatch(str(line["client_id"]))
        if line.get("event") in DEFECTS and not is_strangers:
            yield f"node {node_id} says {dict(line)}"

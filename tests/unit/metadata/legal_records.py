"""Records of every kind about a small world, so that many of them have to do with each other.

`legal` leaves out those that cannot follow what came before them: what is left is a log.
"""

from collections.abc import Iterable
from operator import add

from hypothesis import strategies as st

from kraftd.metadata.image import EMPTY, MetadataImage
from kraftd.metadata.image_builder import apply
from kraftd.metadata.impossible import ImpossibleRecordError
from kraftd.records import messages as m
from kraftd.records.frame import AnyRecord

ONE, TWO = bytes(15) + b"\x01", bytes(15) + b"\x02"
uuids = st.sampled_from([ONE, TWO])
few = st.integers(0, 1)
epochs = st.sampled_from([0, 0, 0, 1])
names = st.sampled_from(["a", "b", "c"])
nodes = st.lists(few, max_size=3, unique=True).map(tuple)
nodes_or_none = st.none() | nodes
directories = st.sampled_from([(), (), (ONE,), (TWO, ONE)])
tags = st.sampled_from([(), (), ((99, b"later"),)])


def _quota(kind: str) -> st.SearchStrategy[m.ClientQuotaRecordEntityData]:
    return st.builds(m.ClientQuotaRecordEntityData, st.just(kind), st.none() | names, tags)


features = st.builds(
    m.FeatureLevelRecord,
    st.sampled_from(["metadata.version", "eligible.leader.replicas.version", "x"]),
    st.sampled_from([0, 1, 16, 30]),
    tags,
)
configs = st.builds(m.ConfigRecord, st.sampled_from([2, 4]), names, names, st.none() | names, tags)
controllers = st.builds(m.RegisterControllerRecord, few, uuids, st.booleans(), unknown_tags=tags)

brokers = st.one_of(
    st.builds(
        m.RegisterBrokerRecord,
        few,
        st.booleans(),
        uuids,
        epochs,
        st.lists(st.builds(m.RegisterBrokerRecordBrokerEndpoint, names, names, few), max_size=2).map(tuple),
        st.lists(st.builds(m.RegisterBrokerRecordBrokerFeature, names, few), max_size=2).map(tuple),
        st.none() | names,
        st.booleans(),
        st.booleans(),
        st.lists(uuids, max_size=2).map(tuple),
        st.none() | st.lists(uuids, max_size=2).map(tuple),
        tags,
    ),
    st.builds(m.UnregisterBrokerRecord, few, epochs),
    st.builds(m.FenceBrokerRecord, few, epochs),
    st.builds(m.UnfenceBrokerRecord, few, epochs),
    st.builds(
        m.BrokerRegistrationChangeRecord,
        few,
        epochs,
        st.integers(-1, 1),
        st.integers(0, 1),
        st.lists(uuids, max_size=2).map(tuple),
        st.none() | st.lists(uuids, max_size=2).map(tuple),
    ),
)

topics = st.one_of(
    st.builds(m.TopicRecord, names, uuids, tags),
    st.builds(
        m.PartitionRecord,
        few,
        uuids,
        nodes,
        nodes,
        leader=few,
        leader_recovery_state=st.integers(0, 1),
        leader_epoch=few,
        partition_epoch=few,
        directories=directories,
        eligible_leader_replicas=nodes_or_none,
        last_known_elr=nodes_or_none,
        unknown_tags=tags,
    ),
    st.builds(
        m.PartitionChangeRecord,
        few,
        uuids,
        nodes_or_none,
        st.integers(-2, 2),
        nodes_or_none,
        nodes_or_none,
        nodes_or_none,
        st.integers(-1, 1),
        st.none() | directories,
        nodes_or_none,
        nodes_or_none,
    ),
    st.builds(m.RemoveTopicRecord, uuids),
    st.builds(m.ClearElrRecord, st.just("") | names),
)

clients = st.one_of(
    st.builds(
        m.ClientQuotaRecord,
        st.lists(_quota("user") | _quota("client-id"), max_size=2).map(tuple),
        names,
        st.floats(allow_nan=False),
        st.booleans(),
        tags,
    ),
    st.builds(m.ProducerIdsRecord, few, few, few, tags),
    st.builds(m.AccessControlEntryRecord, uuids, few, names, few, names, unknown_tags=tags),
    st.builds(m.RemoveAccessControlEntryRecord, uuids),
    st.builds(m.UserScramCredentialRecord, names, few, st.binary(max_size=2), unknown_tags=tags),
    st.builds(m.RemoveUserScramCredentialRecord, names, few),
    st.builds(m.DelegationTokenRecord, names, names, token_id=names, unknown_tags=tags),
    st.builds(m.RemoveDelegationTokenRecord, names),
    st.builds(m.ZkMigrationStateRecord, few),
)

WORLD = [
    m.FeatureLevelRecord("metadata.version", 30),
    m.FeatureLevelRecord("eligible.leader.replicas.version", 1),
    m.RegisterBrokerRecord(0, log_dirs=(ONE, TWO)),
    m.RegisterBrokerRecord(1, fenced=False),
    m.TopicRecord("a", ONE),
    m.PartitionRecord(0, ONE, (0, 1), (0,), directories=(ONE, TWO), eligible_leader_replicas=(1,)),
    m.PartitionRecord(1, ONE, (1, 0), (1, 0), leader=1, leader_recovery_state=1),
    m.TopicRecord("b", TWO),
    m.PartitionRecord(0, TWO, (1,), (1,), last_known_elr=(0,)),
    m.ConfigRecord(2, "a", "k", "v"),
    m.AccessControlEntryRecord(ONE),
    m.UserScramCredentialRecord("a", 1),
    m.DelegationTokenRecord(token_id="a"),
]
"""What most logs begin with."""

record_lists = st.lists(
    st.one_of(topics, topics, topics, brokers, clients, features, configs, controllers),
    min_size=4,
    max_size=20,
)


def legal(records: Iterable[AnyRecord], image: MetadataImage = EMPTY) -> list[AnyRecord]:
    """Those of the records that can follow each other, and the image."""
    out: list[AnyRecord] = []
    for record in records:
        try:
            image = apply(image, record, len(out))
        except ImpossibleRecordError:
            continue
        out.append(record)
    return out


logs = st.builds(add, st.sampled_from([WORLD, WORLD, WORLD, []]), record_lists).map(legal)

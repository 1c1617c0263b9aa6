"""The records that a controller writes first when it becomes the active one.

In one atomic append: the abort of a transaction that its predecessor left open; on an image without
`metadata.version`, as that of a new cluster, the bootstrap records, inside a transaction of their own; and
its own registration, when the image does not hold it yet. Often there is nothing to write.

Eligible leader replicas ask for one `min.insync.replicas` of the cluster: it is what this controller's file
says, as when they are turned on later (`feature_control`), and not Kafka's default. A file that wants two in
sync would otherwise be overruled from the first record on: one copy would be enough to acknowledge.

Follows: Kafka's activation records, as real logs show them (begin, features, the config that
eligible.leader.replicas.version asks for, end).
Differs: the controller registers itself here instead of sending itself a request. It does so later, by itself
(`timers`), if metadata.version has no such records yet.
"""

from collections.abc import Sequence

from kraftd.controller.context import ControllerSettings
from kraftd.controller.controller_registration import missing_registration
from kraftd.metadata.config_schema import CLUSTER_DEFAULT, MIN_IN_SYNC_REPLICAS, ResourceType
from kraftd.metadata.feature_levels import (
    ELIGIBLE_LEADER_REPLICAS,
    SUPPORTED,
    TRANSACTIONS_SINCE,
)
from kraftd.metadata.image import EMPTY, MetadataImage
from kraftd.metadata.image_builder import apply_all
from kraftd.metadata.parts.configs import CONFIGS
from kraftd.metadata.parts.controllers import ControllerRegistration
from kraftd.metadata.parts.features import FEATURES
from kraftd.records.frame import AnyRecord
from kraftd.records.messages import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
)
from kraftd.types import Endpoint, NodeId, Uuid


def registration_of(
    node_id: NodeId, incarnation_id: Uuid, endpoints: Sequence[Endpoint], *, security_protocol: int = 0
) -> ControllerRegistration:
    """The registration of this program, for the start that has this incarnation id."""
    return ControllerRegistration(
        id=node_id,
        incarnation_id=incarnation_id,
        zk_migration_ready=False,
        endpoints=tuple(sorted((e.listener, e.host, e.port, security_protocol) for e in endpoints)),
        features=tuple(sorted((f.name, f.min_level, f.max_level) for f in SUPPORTED)),
    )


def activation_records(
    image: MetadataImage,
    bootstrap: Sequence[AnyRecord],
    me: ControllerRegistration,
    settings: ControllerSettings,
) -> list[AnyRecord]:
    """What the controller `me` must write first on this image; empty if nothing."""
    records: list[AnyRecord] = []
    if image.transaction is not None:
        began_at = image.transaction.begin_offset
        records.append(
            AbortTransactionRecord(reason=f"the controller that began it at offset {began_at} is gone")
        )
    if image.metadata_version == 0:
        image = apply_all(EMPTY, bootstrap, 0)
        records += _bootstrap(image, bootstrap, settings.min_insync_replicas)
    return [*records, *missing_registration(image, me)]


def _bootstrap(
    first: MetadataImage, bootstrap: Sequence[AnyRecord], min_insync_replicas: int
) -> list[AnyRecord]:
    records = list(bootstrap)
    needs_minimum = first[FEATURES].level(ELIGIBLE_LEADER_REPLICAS) > 0
    formatted_in = first[CONFIGS].get(ResourceType.BROKER, CLUSTER_DEFAULT, MIN_IN_SYNC_REPLICAS)
    if needs_minimum and formatted_in is None:
        records.append(
            ConfigRecord(
                resource_type=int(ResourceType.BROKER),
                resource_name=CLUSTER_DEFAULT,
                name=MIN_IN_SYNC_REPLICAS,
                value=str(min_insync_replicas),
            )
        )
    if first.metadata_version < TRANSACTIONS_SINCE:
        return records
    return [BeginTransactionRecord(name="Bootstrap records"), *records, EndTransactionRecord()]

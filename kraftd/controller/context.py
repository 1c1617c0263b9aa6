"""What a decision of the controller may look at beside its request.

One `Context` is made for each decision. All of it are values but `sessions`, which a decision only reads, and
`mutation_quota` and `policy_failures`, which are made for it alone: it changes nothing before its records are
appended, so that any decision can be dropped.

Not here: who the client is allowed to be (`kraftd.protocol.principal`), and where settings come from (the
configuration file, `kraftd.runtime.config`).
Follows: Kafka's ControllerRequestContext.
"""

from collections.abc import Mapping
from typing import Final, Protocol

import msgspec

from kraftd.controller.authorizer import Authorizer
from kraftd.controller.decided_elections import DecidedElection
from kraftd.controller.deletions.tracker import DeletionTracker
from kraftd.controller.mutation_quotas import UNLIMITED, MutationQuota
from kraftd.controller.policies import Policies, PolicyFailure
from kraftd.controller.rights import ALL_RIGHTS, Rights
from kraftd.controller.sessions import BrokerSessions
from kraftd.controller.token_secret import TokenSettings
from kraftd.metadata.image import MetadataImage
from kraftd.metadata.parts.controllers import ControllerRegistration
from kraftd.metadata.replica_states import has_online_directory
from kraftd.protocol.principal import ANONYMOUS, Principal
from kraftd.records.messages import RegisterBrokerRecord
from kraftd.types import NO_NODE, NodeId, Now, Offset, Uuid


class Client(msgspec.Struct, frozen=True, gc=False):
    """The other end of the connection that a request came by, or the client whose request was forwarded."""

    principal: Principal = ANONYMOUS
    client_id: str | None = None
    host: str = ""
    """The address it connected from."""
    listener: str = ""
    """The listener of this node by which the connection came in; of a forwarded request, the broker's."""
    protocol: str = "PLAINTEXT"
    """The security protocol of that listener, by Kafka's name."""
    is_forwarded: bool = False
    """Whether a broker forwarded the request in an Envelope."""
    forwarded_by: NodeId = NO_NODE
    """That broker, as it calls itself; -1 if nobody forwarded it, or under a name that is no id."""


NO_CLIENT: Final = Client()
"""For what the controller does by itself."""


class ControllerSettings(msgspec.Struct, frozen=True):
    """What a controller knows of itself and its configuration file: Kafka's names and defaults."""

    me: ControllerRegistration | None = None
    """This controller, and what it registers as; None where nobody asks."""
    num_partitions: int = 1
    default_replication_factor: int = 1
    min_insync_replicas: int = 1
    unclean_leader_election: bool = False
    unclean_leader_election_interval_ms: int = 300_000
    """How often it looks for partitions without leader that may have one by now."""
    mutation_window_s: int = 11
    """How much of a `controller_mutation_rate` may be used at once: what it brings in so many seconds."""
    delete_topic: bool = True
    """Whether topics can be deleted."""
    auto_leader_rebalance: bool = True
    leader_imbalance_check_interval_seconds: int = 300
    broker_session_timeout_ms: int = 9_000
    broker_heartbeat_interval_ms: int = 2_000
    cluster_id: str = ""
    """The cluster of this controller; empty where nobody asks."""
    voter_ids: frozenset[NodeId] = frozenset()
    """The nodes of the quorum."""
    authorizer: Authorizer | None = None
    """What decides who may do what; None if none is configured, and so no ACL can be made."""
    tokens: TokenSettings | None = None
    """The secret of delegation tokens, and how long they live; None if there are to be none."""
    policies: Policies = Policies()
    """The operator's own rules about new topics and configs."""
    static_configs: Mapping[str, str] = {}
    """What the file sets of a broker's keys: a place where the effective value of a config may come from. Of
    passwords it is only said that they are there."""

    @property
    def node_id(self) -> NodeId:
        """This controller. As a broker of that id it may have dynamic configs of its own."""
        return NO_NODE if self.me is None else self.me.id


class Leaving(msgspec.Struct, frozen=True):
    """What plans are taking away, though the image does not say so yet.

    Broker 4 loses a directory with 1,000 partitions, in slices, and its registration lists it until the last
    one. Were that believed meanwhile, a search for leaders would elect broker 4 there as fast as the slices
    take it out, and neither would end.
    """

    brokers: frozenset[NodeId] = frozenset()
    """Those that shall lead nothing any more."""
    directories: Mapping[NodeId, frozenset[Uuid]] = {}
    """The log directories that others lose."""

    def begun(self, broker_id: NodeId, directories: frozenset[Uuid], *, is_whole: bool) -> "Leaving":
        """With what a plan about a broker takes away: the broker itself if `is_whole`, and directories."""
        brokers = self.brokers | {broker_id} if is_whole else self.brokers
        lost = {**self.directories, broker_id: directories} if directories else self.directories
        return Leaving(brokers, lost)

    def ended(self, broker_id: NodeId) -> "Leaving":
        """Without what the plan about a broker took away."""
        rest = {other: lost for other, lost in self.directories.items() if other != broker_id}
        return Leaving(self.brokers - {broker_id}, rest)

    def rest_of(self, broker: RegisterBrokerRecord) -> RegisterBrokerRecord:
        """The registration of a broker as it will be without the directories that it is losing. If these are
        all that it has, it will list them still.
        """
        lost = self.directories.get(broker.broker_id, frozenset())
        left = tuple(directory for directory in broker.log_dirs if directory not in lost)
        return msgspec.structs.replace(broker, log_dirs=left) if left else broker

    def has_online_directory(self, broker: RegisterBrokerRecord, directory: Uuid) -> bool:
        """Whether a replica in this directory of a broker can be read, and goes on to be."""
        is_lost = directory in self.directories.get(broker.broker_id, ())
        return not is_lost and has_online_directory(broker, directory)


class Newest(Protocol):
    """Where the newest image is."""

    @property
    def image(self) -> MetadataImage:
        """The image after everything that was appended; made when it is asked for."""


class Context(msgspec.Struct, frozen=True, gc=False):
    """What one decision may look at."""

    newest: Newest
    now: Now
    version: int
    """The version of the request's API; 0 for what the controller does by itself."""
    next_offset: Offset
    """A lower bound of the offset of the first record decided here, above that of every record before it."""
    sessions: BrokerSessions
    settings: ControllerSettings
    client: Client
    seed: int
    """Random, another one for each decision: for placement and ids."""
    leaving: Leaving = Leaving()
    """The brokers and directories that plans are taking away, though the image does not say so yet."""
    mutation_quota: MutationQuota = UNLIMITED
    """What the client may create and delete; it is this decision's own, which takes from it."""
    policy_failures: list[PolicyFailure] = []
    """What policies raised in this decision, which notes it here."""
    elections: list[DecidedElection] = []
    """Where a decision notes what leaders it changes, and why. Nothing is decided by it, and what is not
    appended does not count."""

    @property
    def image(self) -> MetadataImage:
        """The newest one. A decision that does not look at it costs no image (D-39)."""
        return self.newest.image

    @property
    def rights(self) -> Rights:
        """What the client may do."""
        authorizer, client = self.settings.authorizer, self.client
        if authorizer is None:
            return ALL_RIGHTS
        return Rights(authorizer, self.image, client.principal, client.host)


class ReadContext(msgspec.Struct, frozen=True, gc=False):
    """What a read may look at that tells of more than the image: of brokers' sessions, of our file."""

    image: MetadataImage
    """The committed one."""
    applied_offset: Offset
    """The image stands for everything before it."""
    sessions: BrokerSessions
    now: Now
    """When the request came in; a session may be newer."""
    settings: ControllerSettings = ControllerSettings()
    leaving: Leaving = Leaving()
    """As in `Context`, at the moment of the response."""
    client: Client = NO_CLIENT
    deletions: DeletionTracker | None = None
    """The replicas that were taken away; None where nobody asks."""
    newest: Newest | None = None
    """The image after everything that the active controller has appended; None where nobody asks."""

    @property
    def rights(self) -> Rights:
        """What the client may do."""
        client = self.client
        return Rights(self.settings.authorizer, self.image, client.principal, client.host)

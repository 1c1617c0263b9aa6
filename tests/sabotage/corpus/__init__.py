"""All mutants, by theme."""

from tests.sabotage.corpus.acls import ACLS
from tests.sabotage.corpus.boundary import BOUNDARY
from tests.sabotage.corpus.brokers import BROKERS
from tests.sabotage.corpus.budgets import WORK
from tests.sabotage.corpus.claims import CLAIMS
from tests.sabotage.corpus.conformance import CONFORMANCE
from tests.sabotage.corpus.connections import CONNECTIONS
from tests.sabotage.corpus.deletions import DELETIONS
from tests.sabotage.corpus.downloads import DOWNLOADS
from tests.sabotage.corpus.electing import ELECTING
from tests.sabotage.corpus.election_reasons import ELECTION_REASONS
from tests.sabotage.corpus.elections import ELECTIONS
from tests.sabotage.corpus.features import FEATURE_LEVELS
from tests.sabotage.corpus.files import FILES
from tests.sabotage.corpus.fold import FOLD
from tests.sabotage.corpus.fold_by_columns import FOLD_BY_COLUMNS
from tests.sabotage.corpus.groups import GROUPS
from tests.sabotage.corpus.independent import INDEPENDENT
from tests.sabotage.corpus.kafka_wire import KAFKA_WIRE
from tests.sabotage.corpus.limits import LIMITS
from tests.sabotage.corpus.listings import LISTINGS
from tests.sabotage.corpus.log_front import LOG_FRONT
from tests.sabotage.corpus.observing import OBSERVING
from tests.sabotage.corpus.overlooked import OVERLOOKED
from tests.sabotage.corpus.partition_logs import PARTITION_LOGS
from tests.sabotage.corpus.partitions import PARTITIONS
from tests.sabotage.corpus.processes import PROCESSES
from tests.sabotage.corpus.promises import PROMISES
from tests.sabotage.corpus.reassignment import REASSIGNMENT
from tests.sabotage.corpus.replication import REPLICATION
from tests.sabotage.corpus.second_reading import SECOND_READING
from tests.sabotage.corpus.slots import SLOTS
from tests.sabotage.corpus.snapshots import SNAPSHOTS
from tests.sabotage.corpus.snapshots_that_rot import SNAPSHOTS_THAT_ROT
from tests.sabotage.corpus.storage import STORAGE
from tests.sabotage.corpus.suspecting import SUSPECTING
from tests.sabotage.corpus.tokens import TOKENS
from tests.sabotage.corpus.topics import TOPICS
from tests.sabotage.corpus.unread import UNREAD
from tests.sabotage.corpus.users import USERS

MUTANTS = (
    *CLAIMS,
    *WORK,
    *BOUNDARY,
    *BROKERS,
    *ELECTIONS,
    *ELECTION_REASONS,
    *SUSPECTING,
    *REPLICATION,
    *PROMISES,
    *STORAGE,
    *SLOTS,
    *SNAPSHOTS,
    *SNAPSHOTS_THAT_ROT,
    *LOG_FRONT,
    *UNREAD,
    *DOWNLOADS,
    *PROCESSES,
    *FILES,
    *FOLD,
    *FOLD_BY_COLUMNS,
    *OVERLOOKED,
    *INDEPENDENT,
    *SECOND_READING,
    *KAFKA_WIRE,
    *TOPICS,
    *PARTITIONS,
    *PARTITION_LOGS,
    *FEATURE_LEVELS,
    *ELECTING,
    *REASSIGNMENT,
    *LISTINGS,
    *DELETIONS,
    *USERS,
    *TOKENS,
    *LIMITS,
    *ACLS,
    *OBSERVING,
    *GROUPS,
    *CONFORMANCE,
    *CONNECTIONS,
)

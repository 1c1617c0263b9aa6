"""Bugs of why leaders were elected, and of the states of partitions and replicas over time."""

from tests.sabotage.mutant import mutant

_REASONS = "kraftd.metadata.election_reasons"
_MOMENTS = "kraftd.metadata.broker_moments"
_RULES = "kraftd.controller.partitions.partition_rules:PartitionRules"
_STATES = "kraftd.replay.image.state_history:StateHistory"
_OF_REASONS = "tests/unit/metadata/test_election_reasons.py"
_OF_DECISIONS = "tests/unit/controller/test_decided_elections.py"
_OF_HISTORY = "tests/unit/replay/test_state_history.py"

ELECTION_REASONS = (
    mutant(
        "moved-away-in-a-shutdown",
        "leader election strategies of PartitionStateMachine",
        "A leader that holds no replica any more and shuts down was elected for the shutdown.",
        "tests",
        (
            f"{_REASONS}:reason_of",
            "if old not in after.replicas:",
            "if old not in after.replicas and not leader.why:",
        ),
        where=(_OF_REASONS,),
    ),
    mutant(
        "preferred-without-a-look-at-the-isr",
        "leader election strategies of PartitionStateMachine",
        "The first replica takes over from one that was lost for a reason nobody knows: that is called preferred.",
        "tests",
        (
            f"{_REASONS}:reason_of",
            "if old in after.isr and after.leader == after.replicas[0]:",
            "if after.leader == after.replicas[0]:",
        ),
        where=(_OF_REASONS,),
    ),
    mutant(
        "unclean-once-only",
        "PartitionChangeBuilder",
        "A second unclean election, in a partition that has not recovered from the first, counts as clean.",
        "tests",
        (
            f"{_REASONS}:rule_of",
            "(not before.is_recovering or not has_all)",
            "not before.is_recovering",
        ),
        where=(_OF_REASONS,),
    ),
    mutant(
        "what-comes-later-is-the-reason",
        "leader election strategies of PartitionStateMachine",
        "A broker gives the lead back and is fenced afterwards: the log seems to tell that it was offline.",
        "tests",
        (f"{_MOMENTS}:BrokerMoments._fate", "if is_over:", "if is_over and not moments:"),
        where=(_OF_REASONS,),
    ),
    mutant(
        "fenced-in-any-epoch",
        "D-35",
        "A broker that another controller fences, hours later, gives an election the reason that it had not.",
        "tests",
        (
            f"{_MOMENTS}:BrokerMoments._fate",
            "moment.epoch == at.epoch",
            "moment.epoch >= at.epoch",
        ),
        where=(_OF_REASONS, _OF_HISTORY),
    ),
    mutant(
        "silent-shutdowns-of-old",
        "KIP-841",
        "Where a controlled shutdown leaves no record, every one of them is told as a loss.",
        "tests",
        (
            f"{_MOMENTS}:BrokerMoments._fate",
            "if moment.cause is not None and not moment.is_shutdown_told:",
            "if moment.cause is None and not moment.is_shutdown_told:",
        ),
        where=(_OF_REASONS,),
    ),
    mutant(
        "a-guess-stands",
        "tell what is not known",
        "The broker that led is back in the ISR before it is fenced, and the fencing counts as the reason.",
        "tests",
        (
            "kraftd.metadata.election_log:ElectionLog._looked_at",
            "(one.leader in after.isr and not one.is_in_isr)",
            "(one.leader in after.isr and one.is_in_isr)",
        ),
        where=("tests/unit/logtools/test_history.py",),
    ),
    mutant(
        "shutdown-counted-as-loss",
        "leader election strategies of PartitionStateMachine",
        "The active controller counts every leader that leaves as lost.",
        "tests",
        (
            f"{_RULES}._fate",
            "return LeaderFate(self._fates[partition.leader])",
            "return LeaderFate(Fate.LOST)",
        ),
        where=(_OF_DECISIONS,),
    ),
    mutant(
        "what-was-refused-counts",
        "D-13",
        "Elections count when they are decided, whether the log takes them or not.",
        "tests",
        (
            "kraftd.controller.uncommitted_writes:UncommittedWrites.add",
            "self._pending.append((write, image))",
            "self._pending.append((write, image)); self.elections.update(write.elections)",
        ),
        where=(_OF_DECISIONS,),
    ),
    mutant(
        "every-note-counts",
        "D-14",
        "A decision that is thrown away, since its record could not be written, counts as an election.",
        "tests",
        (
            "kraftd.controller.decided_elections:elections_in",
            "if id(one.change) in written",
            "if written",
        ),
        where=(_OF_DECISIONS,),
    ),
    mutant(
        "online-after-the-topic",
        "PartitionStateMachine",
        "A partition goes from Online to NonExistent in one move, which no table allows.",
        "tests",
        (
            "kraftd.metadata.partition_states:moves",
            "path = (after,) if between is None else (between, after)",
            "path = (after,)",
        ),
        where=("tests/unit/metadata/test_partition_states.py",),
    ),
    mutant(
        "deleted-by-whoever-comes-back",
        "ReplicaStateMachine",
        "A broker that was fenced for a while and never restarted is said to have read what was deleted.",
        "tests",
        (
            f"{_STATES}._moment",
            "self._reported[broker_id] = self._registered_at.get(broker_id, -1)",
            "self._reported[broker_id] = moment.offset",
        ),
        where=(_OF_HISTORY,),
    ),
    mutant(
        "eligible-after-clearing",
        "KIP-966",
        "Who was eligible counts as eligible after the ELR was cleared.",
        "tests",
        (
            "kraftd.replay.image.entity_history:PartitionSteps._clear_elr",
            "elr=(), last_known_elr=()",
            "last_known_elr=()",
        ),
        where=(_OF_HISTORY,),
    ),
)

"""Who says what clients may do? One super user, who denies something to admin clients and takes that back.

On some seeds the controllers have an authorizer, each admin client has a principal of its own, and those who
move replicas and ask for elections have one together (`OPERATOR`); whoever else asks is anonymous, which is a
super user. The keeper first makes the entries that allow everybody the topics and the operator the cluster,
and then, one at a time, entries that deny: to one client or to all, by prefix or all topics, one operation or
every one; or to the operator, the cluster.

A deny rule is in force from when its creation was acknowledged until the keeper asks for its removal. What a
client asks for and is told within that time must not be done: a leader that does not know the rule commits
nothing any more. It may be refused with another error, by such a leader. An entry that was removed may be
removed once more by a request that was sent again: for a while it counts for nothing if it is made anew.

Not here: what clients ask for (`admin_clients`), and how it is decided (`kraftd.controller.authorizer`).
"""

from random import Random
from typing import TYPE_CHECKING, Any

import msgspec

from kraftd.audit.invariant import Violation
from kraftd.controller.authorizer import Authorizer
from kraftd.errors import ErrorCode
from kraftd.metadata.acl_kinds import CLUSTER_NAME, AclOperation, AclPattern, AclPermission, AclResource
from kraftd.protocol import messages as m
from kraftd.protocol.principal import ANONYMOUS
from tests.sim.admin_clients import ALLOWED_BY, OPERATOR, enveloped, opened, principal_of

if TYPE_CHECKING:
    from tests.sim.world import World

AUTHORIZER = Authorizer(frozenset({f"{ANONYMOUS.type}:{ANONYMOUS.name}"}), allow_everyone=True)
EVERYBODY = "User:*"
OF_ALL_PART = 0.3
OF_CLUSTER_PART = 0.3
"""How many rules are about the operator."""
KEPT_US = 4_000_000
"""How long a rule is kept, on average, and how long there is none."""
PATIENCE_US = 3_000_000
SENT_AGAIN_US = 70_000_000
"""How long a request may take effect after it was sent, at most: a broker sends it again for a minute."""
CALLS = 3_000
"""What its calls are noted under."""

_EXPECTED = frozenset({ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.THROTTLING_QUOTA_EXCEEDED})


class Rule(msgspec.Struct):
    """An entry that denies."""

    entry: m.CreateAclsRequestAclCreation
    in_force: bool = False

    def is_about(self, principal: str, kind: str) -> bool:
        """Whether it denies a client what it asks for, of its own topics; or the operator, of the cluster."""
        if (self.entry.resource_type == AclResource.CLUSTER) != (principal == OPERATOR):
            return False
        return self.entry.principal in (principal, EVERYBODY) and self.entry.operation in (
            AclOperation.ALL,
            ALLOWED_BY[kind],
        )


class AclKeeper:
    """The super user. Its random numbers are its own."""

    def __init__(self, world: "World", random: Random) -> None:
        self._world = world
        self._random = random
        self._asked = 0
        """Requests so far: an answer to an older one comes too late."""
        self._is_based = False
        """Whether those are allowed who are not denied."""
        self._rule: Rule | None = None
        self._removals: dict[m.CreateAclsRequestAclCreation, int] = {}
        """When the removal of each entry was last asked for."""

    def start(self) -> None:
        """Begin to work."""
        self._world.at(0, self._next)

    def judge(self, rule: Rule | None, what: str, error: int | None) -> None:
        """Look at what became of a request that a rule denied when it was sent; no error if nobody knows.

        Raises:
            Violation: It was done, with the rule in force all the while.
        """
        if rule is not None and rule.in_force:
            self._world.statistics[f"denied {'unknown' if error is None else error}"] += 1
            if error == ErrorCode.NONE:
                raise Violation(f"DenyRulesAreKept: {what} is done, against {rule.entry}")

    def denial(self, principal: str, kind: str) -> Rule | None:
        """The rule in force that denies a client something; None if there is none."""
        rule = self._rule
        return rule if rule is not None and rule.in_force and rule.is_about(principal, kind) else None

    # -- what is asked for

    def _later(self) -> None:
        self._world.at(int(self._random.random() * 2 * KEPT_US), self._next)

    def _next(self) -> None:
        world = self._world
        if world.is_over:
            return
        if not self._is_based:
            self._ask(m.CreateAclsRequest(_BASE))
        elif self._rule is None:
            self._rule = Rule(self._deny())
            self._ask(m.CreateAclsRequest((self._rule.entry,)))
        elif self._rule.in_force or self._random.random() < 0.5:
            self._rule.in_force = False
            self._removals[self._rule.entry] = world.now_us
            self._ask(m.DeleteAclsRequest((_filter(self._rule.entry),)))
        else:
            self._ask(m.CreateAclsRequest((self._rule.entry,)))

    def _deny(self) -> m.CreateAclsRequestAclCreation:
        random = self._random
        if random.random() < OF_CLUSTER_PART:
            operation = random.choice((AclOperation.ALL, AclOperation.ALTER))
            return _on_cluster(operation, AclPermission.DENY, random.choice((OPERATOR, EVERYBODY)))
        number = random.choice(self._world.brokers.admins).number
        is_prefix = random.random() >= OF_ALL_PART
        return _entry(
            f"topic-{number}-" if is_prefix else "*",
            AclPattern.PREFIXED if is_prefix else AclPattern.LITERAL,
            random.choice((AclOperation.ALL, *sorted(set(ALLOWED_BY.values())))),
            AclPermission.DENY,
            EVERYBODY if not is_prefix and random.random() < OF_ALL_PART else principal_of(number),
        )

    def _ask(self, request: m.CreateAclsRequest | m.DeleteAclsRequest) -> None:
        world = self._world
        self._asked += 1
        asked = self._asked
        up = [broker for broker in world.brokers.brokers.values() if broker.is_up]
        world.count("call", CALLS)
        if up:
            self._random.choice(up).forward(
                enveloped(request, asked),
                lambda response: self._done(asked, request, opened(world, response, request)),
                lambda: self._done(asked, request, None),
            )
        world.at(PATIENCE_US, lambda: self._done(asked, request, None))

    def _done(self, asked: int, request: Any, response: Any) -> None:
        """An answer, or none in time: then the same is asked for again, or the opposite."""
        world = self._world
        if asked != self._asked or world.is_over:
            return
        self._asked += 1
        is_creation = isinstance(request, m.CreateAclsRequest)
        if response is not None:
            results = response.results if is_creation else response.filter_results
            errors = {result.error_code for result in results}
            if not _EXPECTED.issuperset(errors):
                raise Violation(f"AdminRequestsAreServed: {request} ends with {errors}")
            if errors == {ErrorCode.NONE}:
                self._is_done(request)
        self._later()

    def _is_done(self, request: Any) -> None:
        if not self._is_based:
            self._is_based = True
        elif isinstance(request, m.DeleteAclsRequest):
            self._rule = None
        elif self._rule is not None:
            removed_us = self._removals.get(self._rule.entry, -SENT_AGAIN_US)
            self._rule.in_force = self._world.now_us - removed_us >= SENT_AGAIN_US


def _entry(
    name: str,
    pattern: AclPattern,
    operation: AclOperation,
    permission: AclPermission,
    principal: str = EVERYBODY,
    resource: AclResource = AclResource.TOPIC,
) -> m.CreateAclsRequestAclCreation:
    return m.CreateAclsRequestAclCreation(resource, name, pattern, principal, "*", operation, permission)


def _on_cluster(
    operation: AclOperation, permission: AclPermission, principal: str
) -> m.CreateAclsRequestAclCreation:
    return _entry(CLUSTER_NAME, AclPattern.LITERAL, operation, permission, principal, AclResource.CLUSTER)


def _filter(entry: m.CreateAclsRequestAclCreation) -> m.DeleteAclsRequestDeleteAclsFilter:
    """What is about this entry and no other."""
    return m.DeleteAclsRequestDeleteAclsFilter(
        entry.resource_type,
        entry.resource_name,
        entry.resource_pattern_type,
        entry.principal,
        entry.host,
        entry.operation,
        entry.permission_type,
    )


_BASE = (
    _entry("topic-", AclPattern.PREFIXED, AclOperation.ALL, AclPermission.ALLOW),
    # That somebody may do something to the cluster means that nobody else may create or delete all topics.
    _on_cluster(AclOperation.ALTER, AclPermission.ALLOW, OPERATOR),
)

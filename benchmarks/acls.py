"""What a decision about access costs with many ACLs: `.venv/bin/python benchmarks/acls.py`.

Without a daemon, in microseconds of CPU: a decision of the authorizer, and what an entry costs as its record
is applied. A third of the entries are about all topics, each for another principal, a third about single
topics, and a third about prefixes of four to nineteen characters: a name is looked up once for each length
that a prefix has. Asked is for a principal with entries, for one without any, and for a super user.
"""

import os
import random
import sys
import time

from kraftd.controller.authorizer import Authorizer
from kraftd.metadata.acl_kinds import AclOperation, AclPattern, AclPermission, AclResource
from kraftd.metadata.indexed_acls import IndexedAcls
from kraftd.protocol.principal import Principal
from kraftd.records.messages import AccessControlEntryRecord

SIZES = (100, 10_000, 100_000)
DECISIONS = 20_000
ROUNDS = 4
WANTED_US = 20.0
"""Of a decision with 10,000 entries."""

ASKERS = {
    "with entries": Principal("User", "u7"),
    "without any": Principal("User", "nobody"),
    "super user": Principal("User", "admin"),
}
AUTHORIZER = Authorizer(frozenset({"User:admin"}))


def main() -> int:
    print(f"{'entries':>10} {'applied':>10}" + "".join(f"{asker:>14}" for asker in ASKERS) + "   us of CPU")
    dearest = {}
    for size in SIZES:
        acls, put_us = made(size)
        costs = [min(decision_us(acls, who, size) for _ in range(ROUNDS)) for who in ASKERS.values()]
        dearest[size] = max(costs)
        print(f"{size:>10,} {put_us:>10.1f}" + "".join(f"{cost:>14.1f}" for cost in costs), flush=True)
    is_reached = dearest[10_000] <= WANTED_US
    verdict = "reached" if is_reached else "not reached"
    print(f"a decision with 10,000 entries, at most {WANTED_US:.0f} us: {dearest[10_000]:.1f}: {verdict}")
    print(f"load of this machine, 1 minute: {os.getloadavg()[0]:.1f}")
    return 0 if is_reached else 1


def made(size: int) -> tuple[IndexedAcls, float]:
    """So many entries, and what each cost."""
    chance = random.Random(1)
    records = [entry(chance, number) for number in range(size)]
    acls = IndexedAcls()
    started = time.process_time()
    for record in records:
        acls = acls.put(record.id, record)
    return acls, (time.process_time() - started) / size * 1e6


def entry(chance: random.Random, number: int) -> AccessControlEntryRecord:
    name, pattern = topic(number), AclPattern.LITERAL
    if number % 3 == 1:
        name = "*"
    elif number % 3 == 2:
        name, pattern = name[: chance.randrange(4, 20)], AclPattern.PREFIXED
    return AccessControlEntryRecord(
        number.to_bytes(16, "big"),
        int(AclResource.TOPIC),
        name,
        int(pattern),
        f"User:u{number}" if name == "*" else f"User:u{chance.randrange(1_000)}",
        chance.choice(("*", "10.0.0.1")),
        chance.randrange(AclOperation.READ, AclOperation.TWO_PHASE_COMMIT + 1),
        int(AclPermission.ALLOW),
    )


def topic(number: int) -> str:
    return f"team-{number % 300}-topic-{number}"


def decision_us(acls: IndexedAcls, who: Principal, size: int) -> float:
    names = [topic(number % size) for number in range(DECISIONS)]
    started = time.process_time()
    for name in names:
        AUTHORIZER.allows(acls, who, "10.0.0.1", AclOperation.READ, AclResource.TOPIC, name)
    return (time.process_time() - started) / DECISIONS * 1e6


if __name__ == "__main__":
    sys.exit(main())

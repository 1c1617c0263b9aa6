"""What admins ask about ACLs."""

from typing import Any

from tests.conformance_kafka.drawing import TOO_MANY, Body, Draw, Drawing

RESOURCE_NAMES = ("t0", "t", "g", "*", "kafka-cluster")
PRINCIPALS = ("User:alice", "User:bob", "User:*")
HOSTS = ("*", "127.0.0.1")
ANY_TOPIC: Body = {
    "resource_type": 2,
    "resource_pattern_type": 3,
    "principal": "User:carol",
    "host": "*",
    "operation": 3,
    "permission_type": 3,
}


def _acl(draw: Drawing) -> dict[str, Any]:
    rng = draw.rng
    kind = rng.choice((2, 2, 3, 4, 5))
    acl: dict[str, Any] = {
        "resource_type": kind,
        "resource_name": "kafka-cluster" if kind == 4 else rng.choice(RESOURCE_NAMES),
        "resource_pattern_type": rng.choice((3, 3, 4)) if kind != 4 else 3,
        "principal": rng.choice(PRINCIPALS),
        "host": rng.choice(HOSTS),
        "operation": rng.choice((2, 3, 4, 8)),
        "permission_type": rng.choice((2, 3)),
    }
    if draw.odd():
        wrong: tuple[Body, ...] = (
            {"principal": ""},
            {"principal": "alice"},
            {"resource_name": ""},
            {"host": ""},
            {"resource_type": 4, "resource_name": "other"},
        )
        acl |= rng.choice(wrong)
    return acl


def create_acls(draw: Drawing) -> Body:
    creations = [_acl(draw) for _ in range(draw.rng.choice((1, 2, 3)))]
    if draw.odd(0.2):
        creations += creations[:1]
    if draw.odd(0.06):
        creations = [{**ANY_TOPIC, "resource_name": f"t{number}"} for number in range(TOO_MANY)]
    return {"creations": creations}


def _filter(draw: Drawing) -> dict[str, Any]:
    rng = draw.rng
    found: dict[str, Any] = {
        "resource_type_filter": rng.choice((1, 2, 2, 3, 4)),
        "resource_name_filter": rng.choice((None, None, *RESOURCE_NAMES)),
        "pattern_type_filter": rng.choice((1, 2, 3, 4)),
        "principal_filter": rng.choice((None, None, *PRINCIPALS)),
        "host_filter": rng.choice((None, None, *HOSTS)),
        "operation": rng.choice((1, 1, 2, 3, 4, 8)),
        "permission_type": rng.choice((1, 1, 2, 3)),
    }
    return found


def delete_acls(draw: Drawing) -> Body:
    return {"filters": [_filter(draw) for _ in range(draw.rng.choice((1, 1, 2)))]}


def describe_acls(draw: Drawing) -> Body:
    return _filter(draw)


ACL_REQUESTS: dict[str, tuple[int, Draw]] = {
    "CreateAcls": (3, create_acls),
    "DeleteAcls": (2, delete_acls),
    "DescribeAcls": (2, describe_acls),
}

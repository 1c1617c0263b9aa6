"""Who may do what, by the entries of an image: rule by rule, and against a naive reading of the rules."""

from functools import reduce

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from kraftd.controller.authorizer import Authorizer, java_host
from kraftd.metadata.acl_kinds import AclOperation, AclResource
from kraftd.metadata.indexed_acls import IndexedAcls
from kraftd.protocol.principal import Principal
from tests.unit.controller.acl_worlds import (
    ALL,
    ALLOW,
    CLUSTER,
    DENY,
    GROUP,
    LITERAL,
    PREFIXED,
    READ,
    TOPIC,
    WRITE,
    acl,
)

ALICE = Principal("User", "alice")
PLAIN = Authorizer()


def indexed(*acls):
    return reduce(lambda index, each: index.put(each.id, each), acls, IndexedAcls())


def may(*acls, who=ALICE, host="10.0.0.1", operation=READ, kind=TOPIC, name="orders", authorizer=PLAIN):
    return authorizer.allows(indexed(*acls), who, host, operation, kind, name)


def test_nobody_may_do_what_no_acl_allows():
    assert not may()
    assert not may(acl(1, "payments"))


@pytest.mark.parametrize(
    ("name", "pattern"), [("orders", LITERAL), ("*", LITERAL), ("orders", PREFIXED), ("o", PREFIXED)]
)
def test_an_acl_speaks_of_a_name_of_all_names_or_of_what_they_begin_with(name, pattern):
    assert may(acl(1, name, pattern=pattern))
    assert not may(acl(1, name, pattern=pattern), kind=GROUP)


@pytest.mark.parametrize(
    ("name", "pattern"),
    [("order", LITERAL), ("orders2", LITERAL), ("orders2", PREFIXED), ("rders", PREFIXED), ("*", PREFIXED)],
)
def test_and_of_nothing_else(name, pattern):
    assert not may(acl(1, name, pattern=pattern))


def test_with_one_prefix_gone_another_of_its_length_goes_on_to_count():
    acls = indexed(acl(1, "or", pattern=PREFIXED), acl(2, "pa", pattern=PREFIXED)).remove(acl(2).id)
    assert PLAIN.allows(acls, ALICE, "10.0.0.1", READ, TOPIC, "orders")
    assert not PLAIN.allows(acls.remove(acl(1).id), ALICE, "10.0.0.1", READ, TOPIC, "orders")


def test_the_acl_of_all_names_does_not_speak_of_one_that_begins_with_a_star():
    """As in Kafka, which looks at it as at any name that is the beginning of another."""
    assert not may(acl(1, "*"), name="*x")
    assert may(acl(1, "*"), name="*")
    assert may(acl(1, "*", pattern=PREFIXED), name="*x")


@pytest.mark.parametrize("permission", [DENY, ALLOW])
def test_a_principal_and_a_host_are_meant_or_all_of_them(permission):
    allowed = [acl(9, "orders", principal="User:*")] if permission == DENY else []
    expected = permission == ALLOW
    for principal in ("User:alice", "User:*"):
        for host in ("10.0.0.1", "*"):
            meant = acl(1, "orders", principal=principal, host=host, permission=permission)
            assert may(meant, *allowed) is expected
    for other in ({"principal": "User:bob"}, {"principal": "Group:alice"}, {"host": "10.0.0.2"}):
        assert may(acl(1, "orders", permission=permission, **other), *allowed) is not expected


def test_an_acl_that_denies_decides_wherever_it_stands():
    denies = [
        acl(2, name, pattern=pattern, permission=DENY, operation=operation)
        for name, pattern in (("orders", LITERAL), ("*", LITERAL), ("ord", PREFIXED))
        for operation in (READ, ALL)
    ]
    for each in denies:
        assert not may(acl(1, "orders"), each)
        assert not may(acl(3, "*", operation=ALL), each)


IMPLIED = {
    AclOperation.DESCRIBE: {
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.DELETE,
        AclOperation.ALTER,
    },
    AclOperation.DESCRIBE_CONFIGS: {AclOperation.ALTER_CONFIGS},
}
"""Operations that are allowed to whom another one is."""

OPERATIONS = [each for each in AclOperation if each > ALL]


@pytest.mark.parametrize("asked", OPERATIONS)
@pytest.mark.parametrize("given", [ALL, *OPERATIONS])
def test_some_operations_are_allowed_with_others_and_none_is_denied_with_another(asked, given):
    is_same = given in (ALL, asked)
    is_implied = given in IMPLIED.get(asked, set())
    assert may(acl(1, "orders", operation=given), operation=asked) is (is_same or is_implied)
    denied = acl(1, "orders", operation=given, permission=DENY)
    assert may(denied, acl(2, "orders", operation=ALL), operation=asked) is not is_same


def test_super_users_may_do_everything():
    authorizer = Authorizer(super_users=frozenset({"User:alice"}))
    denied = acl(1, "orders", principal="User:*", operation=ALL, permission=DENY)
    assert may(denied, authorizer=authorizer)
    assert not may(denied, authorizer=authorizer, who=Principal("User", "bob"))
    assert not may(denied, authorizer=authorizer, who=Principal("Group", "alice"))
    assert not may(authorizer=Authorizer(super_users=frozenset({"User:*"})))


def test_what_no_acl_speaks_of_may_be_everybodys():
    authorizer = Authorizer(allow_everyone=True)
    assert may(authorizer=authorizer)
    assert may(acl(1, "payments"), acl(2, "orders", kind=GROUP), authorizer=authorizer)
    for name, pattern in (("orders", LITERAL), ("*", LITERAL), ("ord", PREFIXED)):
        of_others = acl(1, name, pattern=pattern, principal="User:bob", operation=WRITE)
        assert not may(of_others, authorizer=authorizer)
    assert may(acl(1, "*", principal="User:bob"), name="*x", authorizer=authorizer)


def test_a_kind_of_principal_with_a_colon_is_no_users_of_an_acl():
    """An entry's principal ends its kind with the first colon: `a:b:c` is `b:c` of kind `a`."""
    assert may(acl(1, "orders", principal="a:b:c"), who=Principal("a", "b:c"))
    assert not may(acl(1, "orders", principal="a:b:c"), who=Principal("a:b", "c"))
    assert may(acl(1, "orders", principal="User:*"), who=Principal("a:b", "c"))


def test_who_is_called_a_star_is_everybody_once():
    assert may(acl(1, "orders", principal="User:*"), who=Principal("User", "*"))


def test_what_neither_denies_nor_allows_denies():
    newer = replace(acl(1, "orders"), permission_type=9)
    assert not may(newer, acl(2, "orders"))


@pytest.mark.parametrize(
    ("python", "java"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("::1", "0:0:0:0:0:0:0:1"),
        ("2001:db8::8:800:200c:417a", "2001:db8:0:0:8:800:200c:417a"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("fe80::1%eth0", "fe80:0:0:0:0:0:0:1"),
        ("no:address", "no:address"),
        ("", ""),
    ],
)
def test_hosts_are_compared_as_java_writes_them(python, java):
    assert java_host(python) == java
    assert may(acl(1, "orders", host=java), host=python)


# -- against the rules


def naive(acls, authorizer, who, host, operation, kind, name):
    """The rules as they read."""
    if who in authorizer.super_users:
        return True

    def speaks(each):
        if each.resource_type != kind:
            return False
        if each.pattern_type == PREFIXED:
            return name.startswith(each.resource_name)
        is_of_all = each.resource_name == "*" and not name.startswith("*")
        return is_of_all or each.resource_name == name

    of_resource = [each for each in acls if speaks(each)]
    if not of_resource:
        return authorizer.allow_everyone
    of_asker = [
        each
        for each in of_resource
        if each.principal in (who, "User:*") and each.host in (java_host(host), "*")
    ]
    for each in of_asker:
        if each.permission_type == DENY and each.operation in (ALL, operation):
            return False
    implying = {ALL, operation} | IMPLIED.get(operation, set())
    return any(each.permission_type == ALLOW and each.operation in implying for each in of_asker)


names = st.sampled_from(["*", "*a", "a", "ab", "abc", "abd", "b", "é", "kafka-cluster"])
kinds = st.sampled_from([TOPIC, GROUP, CLUSTER, AclResource.USER])
principals = st.sampled_from(["User:alice", "User:bob", "User:*", "Group:alice"])
hosts = st.sampled_from(["*", "10.0.0.1", "0:0:0:0:0:0:0:1"])
operations = st.sampled_from([ALL, *OPERATIONS])
entries = st.builds(
    acl,
    st.integers(1, 30),
    names,
    kind=kinds,
    pattern=st.sampled_from([LITERAL, PREFIXED]),
    principal=principals,
    host=hosts,
    operation=operations,
    permission=st.sampled_from([ALLOW, ALLOW, DENY]),
)
changes = st.lists(st.one_of(entries, entries, st.integers(1, 30)), max_size=60)
"""Entries that are made, of which one replaces another of its id, and ids of such that are removed."""


def after(steps):
    """The entries after changes by id, and the index that was kept on the way."""
    kept, index = {}, IndexedAcls()
    for step in steps:
        if isinstance(step, int):
            kept.pop(step.to_bytes(16, "big"), None)
            index = index.remove(step.to_bytes(16, "big"))
        else:
            kept[step.id] = step
            index = index.put(step.id, step)
    return kept, index


@settings(max_examples=300)
@given(
    steps=changes,
    authorizer=st.builds(Authorizer, st.sampled_from([frozenset(), frozenset({"User:bob"})]), st.booleans()),
    asked=st.lists(
        st.tuples(
            st.sampled_from(["alice", "bob", "carol"]),
            st.sampled_from(["10.0.0.1", "::1", "10.0.0.2"]),
            st.sampled_from(OPERATIONS),
            kinds,
            names,
        ),
        min_size=1,
        max_size=10,
    ),
)
def test_a_decision_is_that_of_the_rules(steps, authorizer, asked):
    kept, index = after(steps)
    for name, *rest in asked:
        expected = naive(kept.values(), authorizer, f"User:{name}", *rest)
        assert authorizer.allows(index, Principal("User", name), *rest) is expected


@given(changes)
def test_an_index_does_not_depend_on_its_past(steps):
    kept, index = after(steps)
    assert index == indexed(*kept.values())
    assert list(index.values()) == [kept[key] for key in sorted(kept)]
    assert reduce(IndexedAcls.remove, kept, index) == IndexedAcls()

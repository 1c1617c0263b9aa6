"""ACLs decided by Kafka's own manager and authorizer and by ours: the same outcomes, and the same answers to
who may do what.

Told apart are only the ids of ACLs, which are random, the texts of refusals, and the order of what a filter
means, which in Kafka is that of a hash map. What Kafka's classes of requests refuse to hold is not asked.
"""

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from contexts import context_of
from msgspec.structs import astuple

from kraftd.controller.acls.creating import create_acls
from kraftd.controller.acls.deleting import delete_acls
from kraftd.controller.acls.describing import describe_acls
from kraftd.controller.authorizer import Authorizer
from kraftd.controller.context import ControllerSettings, ReadContext
from kraftd.metadata.acl_kinds import AclOperation, AclResource
from kraftd.metadata.image import EMPTY
from kraftd.metadata.image_builder import apply_all
from kraftd.metadata.parts.acls import ACLS
from kraftd.protocol import messages as m
from kraftd.protocol.principal import Principal
from kraftd.records.messages import AccessControlEntryRecord
from kraftd.types import Now
from tests.interop.peer import HERE, Kafka

QUESTIONS = 3_000
"""Of each world."""

NAMES = ("*", "*a", "a", "ab", "abc", "abd", "b", "ba", "!", "é", "ée", "😀", "😀a", "\uffee", "a" * 200)
BAD_NAMES = ("",)
PRINCIPALS = ("User:alice", "User:bob", "User:*", "Group:alice", "User:", "a:b:c", "User:b:c")
HOSTS = ("*", "10.0.0.1", "0:0:0:0:0:0:0:1", "::1")
ADDRESSES = ("10.0.0.1", "10.0.0.2", "::1", "::ffff:10.0.0.1", "2001:db8::1")
ASKERS = (
    ("User", "alice"),
    ("User", "bob"),
    ("Group", "alice"),
    ("a", "b:c"),
    ("a:b", "c"),
    ("User", "root"),
)
TYPES, OPERATIONS = range(2, 8), range(2, 16)
SUPER_USERS = "User:root; Group:g"


class Questions:
    """Random questions, as Kafka's side reads them: a word, and the fields of entries."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)

    def next(self) -> tuple[str, list[tuple[Any, ...]]]:
        choice = self.random.random()
        if choice < 0.15:
            return "create", [self._acl() for _ in range(self.random.randrange(1, 6))]
        if choice < 0.22:
            return "delete", [self._filter() for _ in range(self.random.randrange(1, 4))]
        if choice < 0.4:
            return "describe", [self._filter()]
        return "may", [self._asked()]

    def _acl(self) -> tuple[Any, ...]:
        one = self.random.choice
        is_odd = self.random.random() < 0.1
        kind = one(TYPES) if not is_odd else one((0, 2))
        name = "kafka-cluster" if kind == AclResource.CLUSTER else one(NAMES + BAD_NAMES * is_odd)
        return (
            kind,
            name,
            one((3, 3, 4)) if not is_odd else one((0, 3)),
            one(PRINCIPALS + ("nobody", "") * is_odd),
            one(HOSTS),
            one(OPERATIONS) if not is_odd else one((0, 3, 99)),
            one((2, 3, 3)) if not is_odd else one((0, 3, 99)),
        )

    def _filter(self) -> tuple[Any, ...]:
        one, is_odd = self.random.choice, self.random.random() < 0.1
        return (
            one((1, *TYPES)) if not is_odd else one((0, 1, 99)),
            one((None, None, "kafka-cluster", *NAMES, *BAD_NAMES)),
            one((1, 2, 3, 4)) if not is_odd else one((0, 1, 99)),
            one((None, None, *PRINCIPALS)),
            one((None, None, None, *HOSTS)),
            one((1, 1, 1, *OPERATIONS)) if not is_odd else one((0, 1, 99)),
            one((1, 2, 3)) if not is_odd else one((0, 1, 99)),
        )

    def _asked(self) -> tuple[Any, ...]:
        one = self.random.choice
        kind = one(TYPES)
        name = "kafka-cluster" if kind == AclResource.CLUSTER else one(NAMES)
        return (*one(ASKERS), one(ADDRESSES), one(OPERATIONS[1:]), kind, name)


class Ours:
    """What kraftd answers, in the words of Kafka's side."""

    def __init__(self, *, allow_everyone: bool) -> None:
        self.authorizer = Authorizer(frozenset({"User:root", "Group:g"}), allow_everyone)
        self.settings = ControllerSettings(authorizer=self.authorizer)
        self.image = EMPTY
        self.number = 0
        self.answers: dict[str, Callable[..., str]] = {
            "create": self._create,
            "delete": self._delete,
            "describe": self._describe,
            "may": self._may,
        }

    def answer(self, question: str, entries: list[tuple[Any, ...]]) -> str:
        self.number += 1
        return self.answers[question](*entries)

    def _create(self, *acls: tuple[Any, ...]) -> str:
        asked = m.CreateAclsRequest(tuple(m.CreateAclsRequestAclCreation(*acl) for acl in acls))
        records, response = create_acls(self._context(), asked)
        self.image = apply_all(self.image, records, 0)
        written = sorted_text(map(of_record, records))
        return ",".join(str(int(each.error_code)) for each in response.results) + "\t" + written

    def _delete(self, *filters: tuple[Any, ...]) -> str:
        asked = m.DeleteAclsRequest(tuple(m.DeleteAclsRequestDeleteAclsFilter(*each) for each in filters))
        records, response = delete_acls(self._context(), asked)
        self.image = apply_all(self.image, records, 0)
        told = [
            f"{int(each.error_code)} {sorted_text(astuple(acl)[2:-1] for acl in each.matching_acls)}"
            for each in response.filter_results
        ]
        return "\t".join([str(len(records)), *told])

    def _describe(self, wanted: tuple[Any, ...]) -> str:
        context = ReadContext(self.image, 1, self._context().sessions, Now(0, 0), self.settings)
        response = describe_acls(context, m.DescribeAclsRequest(*wanted))
        return sorted_text(
            (each.resource_type, each.resource_name, each.pattern_type, *astuple(acl)[:-1])
            for each in response.resources
            for acl in each.acls
        )

    def _may(self, asked: tuple[Any, ...]) -> str:
        kind, name, host, operation, resource_type, resource = asked
        return (
            "yes"
            if self.authorizer.allows(
                ACLS.indexed(self.image),
                Principal(kind, name),
                host,
                AclOperation(operation),
                AclResource(resource_type),
                resource,
            )
            else "no"
        )

    def _context(self) -> Any:
        return context_of(self.image, settings=self.settings, seed=self.number)


def of_record(record: AccessControlEntryRecord) -> tuple[Any, ...]:
    return (
        record.resource_type,
        record.resource_name,
        record.pattern_type,
        record.principal,
        record.host,
        record.operation,
        record.permission_type,
    )


def sorted_text(acls: Any) -> str:
    """Entries as one text, in the order of Java's strings."""
    return ";".join(
        sorted(("|".join(map(str, acl)) for acl in acls), key=lambda text: text.encode("utf-16-be"))
    )


def line_of(question: str, entries: list[tuple[Any, ...]]) -> str:
    fields = ["|".join("~" if field is None else str(field) for field in entry) for entry in entries]
    return "\t".join([question, *fields])


@pytest.mark.parametrize("allow_everyone", [False, True])
def test_acls_are_decided_as_kafka_decides_them(
    kafka: Kafka, tmp_path: Path, *, allow_everyone: bool
) -> None:
    questions = Questions(seed=int(allow_everyone))
    asked = [questions.next() for _ in range(QUESTIONS)]
    file = tmp_path / "questions"
    file.write_text("".join(line_of(*each) + "\n" for each in asked), encoding="utf-8")
    compiled = kafka.compiled(HERE / "Acls.java", tmp_path / "classes")
    printed = kafka.run(*compiled, file, SUPER_USERS, str(allow_everyone).lower())
    theirs = printed.removesuffix("\n").split("\n")
    ours = Ours(allow_everyone=allow_everyone)
    seen: dict[str, set[str]] = {}
    for number, ((question, entries), expected) in enumerate(zip(asked, theirs, strict=True)):
        told = ours.answer(question, entries)
        assert told == expected, f"{number}: {question} {entries}"
        seen.setdefault(question, set()).add(told)
    assert seen["may"] == {"yes", "no"}
    assert min(len(seen[question]) for question in ("create", "delete", "describe")) > 30

"""`topics deletions`: what is asked of the leader, and what is said of it."""

from typing import Any

import pytest

from kraftd.protocol import messages as m
from kraftd.types import uuid_text
from tests.unit.cli.kraftctl import Kraftctl, Outcome
from tests.unit.cli.scripted import ScriptedQuorum

T = b"t" * 16
AT_MS = 1_700_000_000_000
NON_EXISTENT, ONLINE, OFFLINE, STARTED, SUCCESSFUL, INELIGIBLE = 0, 2, 3, 4, 5, 6


def ask(kraftctl: Kraftctl, quorum: ScriptedQuorum, *more: object) -> Outcome:
    return kraftctl("--bootstrap-controller", quorum.bootstrap, "topics", "deletions", *more)


def removal(offset: int, broker_id: int, **fields: Any) -> m.ListDeletionsResponseRemoval:
    known: dict[str, Any] = {
        "name": "orders",
        "topic_id": T,
        "partitions": (0, 1),
        "state": STARTED,
        "is_heard": True,
        "removed_ms": AT_MS,
        "since_ms": AT_MS + 1_500,
    }
    return m.ListDeletionsResponseRemoval(offset=offset, broker_id=broker_id, **(known | fields))


def page(*removals: Any, at: tuple[int, int] | None = None, **fields: Any) -> m.ListDeletionsResponse:
    cursor = None if at is None else m.ListDeletionsResponseNextCursor(*at)
    return m.ListDeletionsResponse(removals=removals, next_cursor=cursor, **fields)


def test_pages_are_put_together(kraftctl: Kraftctl, quorum: ScriptedQuorum) -> None:
    pages = {
        (-1, -1): page(removal(7, 11), at=(7, 11)),
        (7, 11): page(
            removal(7, 12, state=INELIGIBLE, partitions=tuple(range(9))),
            removal(9, 11, state=SUCCESSFUL, reason=1),
            begin_offset=3,
            dropped_count=4,
        ),
    }
    quorum.nodes[2].responses[m.ListDeletionsRequest] = lambda request: pages[
        request.after_offset, request.after_broker_id
    ]
    assert ask(kraftctl, quorum).out.splitlines() == [
        "Broker  State       Removed               Why      Partition  Topic",
        "11      Started     2023-11-14T22:13:20Z  deleted  0,1        orders",
        "12      Ineligible  2023-11-14T22:13:20Z  deleted  9 in all   orders",
        "11      Successful  2023-11-14T22:13:20Z  moved    0,1        orders",
        "",
        "Started: there until the broker reads the log.",
        "Ineligible: there until the broker is back.",
        "Successful: in -delete for a minute, then gone.",
        "What was taken away before offset 3 is not known.",
        "4 older replicas, at least, are not kept any more.",
    ]
    data = ask(kraftctl, quorum, "-o", "json").data
    assert (data["begin_offset"], data["dropped"], len(data["removals"])) == (3, 4, 3)
    assert data["removals"][0] == {
        "topic": "orders",
        "topic_id": uuid_text(T),
        "partitions": [0, 1],
        "broker_id": 11,
        "offset": 7,
        "reason": "topic deleted",
        "state": "ReplicaDeletionStarted",
        "data": "there until the broker reads the log",
        "set_aside": False,
        "heard": True,
        "directory_offline": False,
        "removed_ms": AT_MS,
        "since_ms": AT_MS + 1_500,
    }


@pytest.mark.parametrize(
    ("fields", "state", "text"),
    [
        ({"state": NON_EXISTENT}, "NonExistent", "gone"),
        ({"state": OFFLINE}, "Offline", "assigned again"),
        ({"state": SUCCESSFUL, "is_set_aside": True}, "Successful?", "in -stray if it was there: look"),
        ({"state": INELIGIBLE, "is_heard": False}, "Ineligible?", "perhaps there, until the broker is back"),
        (
            {"state": INELIGIBLE, "is_directory_offline": True},
            "DirOffline",
            "there, since its log directory is offline",
        ),
        (
            {"state": INELIGIBLE, "is_directory_offline": True, "is_heard": False},
            "DirOffline?",
            "perhaps there: its log directory is offline, or was replaced",
        ),
        (
            {"state": INELIGIBLE, "is_directory_offline": True, "is_set_aside": True},
            "OldCopy",
            (
                "there as an old copy, since its log directory is offline: remove it before the broker is "
                "started with that disk"
            ),
        ),
        (
            {"state": INELIGIBLE, "is_directory_offline": True, "is_set_aside": True, "is_heard": False},
            "OldCopy?",
            (
                "perhaps there as an old copy: its log directory is offline, or was replaced; remove it "
                "before the broker is started with that disk"
            ),
        ),
        (
            {"state": SUCCESSFUL, "is_heard": False},
            "Gone?",
            (
                "gone, or in -delete for a minute at most (the broker may have read the deletion under an "
                "earlier active controller)"
            ),
        ),
        ({"state": ONLINE}, "Online", "unknown"),
        ({"state": 99}, "unknown", "unknown"),
    ],
)
def test_it_is_said_where_the_data_is(
    kraftctl: Kraftctl, quorum: ScriptedQuorum, fields: dict[str, Any], state: str, text: str
) -> None:
    quorum.nodes[2].responses[m.ListDeletionsRequest] = lambda _: page(removal(7, 11, **fields))
    (row,) = ask(kraftctl, quorum, "-o", "json").data["removals"]
    assert row["data"] == text
    table = ask(kraftctl, quorum).out.splitlines()
    assert (table[1].split()[1], table[-1]) == (state, f"{state}: {text}.")


def test_what_was_read_under_this_controller_and_what_perhaps_before_are_told_apart(
    kraftctl: Kraftctl, quorum: ScriptedQuorum
) -> None:
    told = page(
        removal(7, 11, state=SUCCESSFUL),
        removal(7, 12, state=SUCCESSFUL, is_heard=False),
        removal(7, 13, state=SUCCESSFUL, is_set_aside=True),
    )
    quorum.nodes[2].responses[m.ListDeletionsRequest] = lambda _: told
    lines = ask(kraftctl, quorum).out.splitlines()
    states = ["Successful", "Gone?", "Successful?"]
    assert [line.split()[1] for line in lines[1:4]] == states
    assert [line.partition(":")[0] for line in lines[5:]] == states


def test_what_differs_by_directory_of_one_broker_has_rows_of_its_own(
    kraftctl: Kraftctl, quorum: ScriptedQuorum
) -> None:
    told = page(
        removal(7, 11, state=INELIGIBLE, partitions=(1,), is_directory_offline=True),
        removal(7, 11, state=SUCCESSFUL, partitions=(0, 2)),
        removal(7, 12, state=INELIGIBLE),
    )
    quorum.nodes[2].responses[m.ListDeletionsRequest] = lambda _: told
    assert ask(kraftctl, quorum).out.splitlines() == [
        "Broker  State       Removed               Why      Partition  Topic",
        "11      Successful  2023-11-14T22:13:20Z  deleted  0,2        orders",
        "11      DirOffline  2023-11-14T22:13:20Z  deleted  1          orders",
        "12      Ineligible  2023-11-14T22:13:20Z  deleted  0,1        orders",
        "",
        "Successful: in -delete for a minute, then gone.",
        "DirOffline: there, since its log directory is offline.",
        "Ineligible: there until the broker is back.",
    ]
    rows = ask(kraftctl, quorum, "-o", "json").data["removals"]
    assert [row["directory_offline"] for row in rows] == [False, True, False]


def test_usual_names_fit_in_80_columns(kraftctl: Kraftctl, quorum: ScriptedQuorum) -> None:
    told = page(
        removal(7, 10_001, state=INELIGIBLE, reason=1, partitions=(0, 1, 2), name="__consumer_offsets"),
        removal(8, 1, state=SUCCESSFUL, name="orders"),
    )
    quorum.nodes[2].responses[m.ListDeletionsRequest] = lambda _: told
    assert max(map(len, ask(kraftctl, quorum).out.splitlines())) <= 80


@pytest.mark.parametrize(("flags", "is_all"), [((), False), (("--all",), True)])
def test_what_is_over_is_asked_for_with_all(
    kraftctl: Kraftctl, quorum: ScriptedQuorum, flags: tuple[str, ...], is_all: bool
) -> None:
    asked: list[m.ListDeletionsRequest] = []
    quorum.nodes[2].responses[m.ListDeletionsRequest] = lambda request: asked.append(request) or page()
    outcome = ask(kraftctl, quorum, *flags)
    assert (outcome.code, outcome.out) == (0, "")
    assert [request.is_all for request in asked] == [is_all]


def test_a_node_whose_pages_go_in_a_circle_is_refused(kraftctl: Kraftctl, quorum: ScriptedQuorum) -> None:
    quorum.nodes[2].responses[m.ListDeletionsRequest] = lambda _: page(at=(7, 11))
    outcome = ask(kraftctl, quorum)
    assert outcome.code == 4
    assert "deletions: the next page does not come after the last" in outcome.err

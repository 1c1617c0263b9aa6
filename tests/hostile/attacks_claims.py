"""Further attacks on who is who: identities switched, relayed, repeated, and fished for."""

import os
import socket
import time
from typing import Any

import msgpack

from tests.hostile import forging, wire
from tests.hostile.client import HOST, Line
from tests.hostile.ground import (
    CLAIM,
    CLIENT,
    COUNTER,
    OBSERVER,
    OBSERVER_ID,
    STRANGER,
    Ground,
    attack,
    unharmed,
)
from tests.hostile.quorum import start_ids_of


@attack(CLAIM)
def claims_at_two_hundred_a_second(ground: Ground) -> None:
    """Claim each voter at each node, with a new nonce and a new directory each time, 200 times a second."""
    for number in ground.lasting(0.005):
        node_id = ground.node_ids[number % 3]
        voter_id = ground.node_ids[(number // 3 + number) % 3]
        words: dict[str, Any] = {"directory_id": os.urandom(16)} if number % 2 else {}
        words["challenge"] = number % 7 > 3
        with unharmed(), ground.open(node_id, host=2 + number % 200) as line:
            line.send(ground.claim_greeting(node_id, voter_id, **words))
            line.socket.settimeout(0.001)
            line.socket.recv(1_000)


@attack(CLAIM, elections=-1)
def claims_while_the_real_one_restarts(ground: Ground) -> None:
    """A follower is killed; 200 times a second somebody claims to be it, at both others, until it is back."""
    victim = ground.follower_ids[0]
    others = [node_id for node_id in ground.node_ids if node_id != victim]
    ground.known(victim)
    held: list[Line] = []
    ground.quorum.cluster[victim].kill()
    ground.restarted.add(victim)
    began = time.monotonic()
    back = 0.0
    started = False
    for number in ground.lasting(0.005):
        for node_id in others:
            with unharmed():
                held.append(ground.claim(node_id, victim, challenge=number % 2 > 0))
                held[-1].send(
                    wire.show_nonce(os.urandom(16)) + forging.fetch(victim, forging.FAR, ground.facts.epoch)
                )
        if len(held) > 100:
            held.pop(0).close()
        if not started and time.monotonic() - began > 0.5:
            started = True
            ground.quorum.cluster[victim].start()
        if started and not back and number % 20 == 0 and _counts(ground, victim):
            back = time.monotonic() - began - 0.5
    if not started:
        ground.quorum.cluster[victim].start()
    elif back:
        ground.note(f"the real one counted {back:.2f} s after its start")
    if not back:
        ground.wait(
            "the real voter was counted after the last claim",
            lambda: _counts(ground, victim),
            promised_s=BACK_MAX_S,
        )


BACK_MAX_S = 20.0
"""How long a process may take to start and be counted."""


def _counts(ground: Ground, voter_id: int) -> bool:
    """Whether the voter holds what the leader has committed."""
    facts = ground.quorum.facts()
    if isinstance(facts, str):
        return False
    with unharmed():
        return bool(ground.quorum.describe(voter_id)["HighWatermark"] >= ground.facts.high_watermark)
    return False


@attack(CLAIM)
def a_nonce_relayed_between_nodes(ground: Ground) -> None:
    """What one node sends on a claimed connection is passed on to another, word for word, both ways."""
    first, second = ground.leader_id, ground.follower_ids[0]
    for _ in ground.lasting(0.02):
        with unharmed(), ground.open(first) as one, ground.open(second) as other:
            nonce = os.urandom(16)
            one.send(ground.claim_greeting(first, second, nonce=nonce))
            other.send(ground.claim_greeting(second, first, nonce=nonce))
            for source, target in ((one, other), (other, one)) * 3:
                source.socket.settimeout(0.01)
                with unharmed():
                    target.send(source.socket.recv(1 << 16))
            one.send(wire.show_nonce(nonce) + forging.end_epoch(first, ground.facts.epoch, [second]))
            other.send(wire.show_nonce(nonce) + forging.end_epoch(first, ground.facts.epoch, [second]))
            one.drain(0.002)
            other.drain(0.002)


@attack(CLAIM)
def nonces_for_others_to_show(ground: Ground) -> None:
    """Claims with a nonce of a wrong length: neither who must show it nor its peer may stumble."""
    odd = [b"", b"x", bytes(15), bytes(17), bytes(4_000), os.urandom(16), b"\xff" * 16]
    for number in ground.lasting(0.01):
        node_id = ground.node_ids[number % 3]
        for voter_id in ground.node_ids:
            if voter_id != node_id:
                with unharmed(), ground.open(node_id) as line:
                    line.send(
                        ground.claim_greeting(node_id, voter_id, nonce=odd[number % len(odd)], version=1)
                    )
                    line.socket.settimeout(0.005)
                    line.socket.recv(1_000)


@attack(CLAIM, elections=-1)
def challenges_while_the_real_one_restarts(ground: Ground) -> None:
    """While a follower restarts, all are given false nonces to show to each other; true ones stay."""
    victim = ground.follower_ids[0]
    for node_id in ground.node_ids:
        ground.known(node_id)
    ground.quorum.cluster[victim].kill()
    ground.restarted.add(victim)
    ground.quorum.cluster[victim].start()
    pairs = [(at, by) for at in ground.node_ids for by in ground.node_ids if at != by]
    held: list[Line] = []

    def is_back() -> bool:
        for number in ground.lasting(0.001):
            at, by = pairs[number % len(pairs)]
            with unharmed():
                held.append(ground.claim(at, by, challenge=True))
            if len(held) > 200:
                held.pop(0).close()
        return _counts(ground, victim)

    ground.wait(
        "the real voter was counted while false nonces came", is_back, promised_s=BACK_MAX_S, pause_s=0.0
    )


@attack(CLAIM)
def a_node_met_by_itself(ground: Ground) -> None:
    """Greet a node with its own id and its own directory, and vote for it, and against it."""
    for number in ground.lasting(0.01):
        node_id = ground.node_ids[number % 3]
        with unharmed(), ground.open(node_id) as line:
            line.send(
                ground.claim_greeting(node_id, node_id, directory_id=ground.known(node_id)["DirectoryId"])
            )
            line.send(
                forging.vote(node_id, ground.facts.epoch + 1)
                + forging.begin_epoch(node_id, ground.facts.epoch + 1, 9)
            )
            line.drain(0.005)


@attack(OBSERVER, elections=0)
def identities_that_switch(ground: Ground) -> None:
    """Greet as nobody, then as node 99, then as a voter, on one connection; then vote as the last."""
    for number in ground.lasting(0.01):
        node_id = ground.node_ids[number % 3]
        voter_id = ground.follower_ids[0] if node_id == ground.leader_id else ground.leader_id
        greetings = [
            wire.greeting(),
            wire.greeting(OBSERVER_ID, **ground.identity(node_id), directory_id=os.urandom(16)),
            ground.claim_greeting(node_id, voter_id),
            wire.greeting(
                voter_id, **ground.identity(node_id), directory_id=os.urandom(16), start_counter=COUNTER
            ),
        ]
        ground.rng.shuffle(greetings)
        with unharmed(), ground.open(node_id) as line:
            line.send(greetings[0])
            line.receive()
            for each in greetings[1:]:
                line.send(each)
            line.send(
                forging.vote(voter_id, ground.facts.epoch + 1)
                + forging.end_epoch(ground.leader_id, ground.facts.epoch, [voter_id])
            )
            line.drain(0.005)


@attack(CLIENT, elections=0)
def requests_in_a_voter_s_name(ground: Ground) -> None:
    """Greeted as nobody, ask for votes and fetch with the ids of real voters in the body."""
    epoch = ground.facts.epoch
    for number in ground.lasting(0.01):
        node_id = ground.node_ids[number % 3]
        for voter_id in ground.node_ids:
            with unharmed(), ground.open(node_id) as line:
                line.greet()
                for version in (0, 1, 2):
                    line.send(forging.vote(voter_id, epoch + 1, version=version))
                line.send(forging.fetch(voter_id, forging.FAR, epoch) + forging.fetch(voter_id, 0, epoch + 7))
                line.send(
                    forging.begin_epoch(voter_id, epoch + 1, 1)
                    + forging.end_epoch(ground.leader_id, epoch, [voter_id])
                )
                line.drain(0.003)


@attack(STRANGER, elections=-1, halves=False)
def responses_of_a_false_server(ground: Ground) -> None:
    """Where a dead follower listened, somebody answers every request with nests, noise, and the odd truth."""
    dead = ground.follower_ids[0]
    known = ground.known(dead)
    ground.quorum.cluster[dead].kill()
    with socket.create_server((HOST, ground.quorum.cluster[dead].port)) as trap:
        trap.setblocking(False)
        lines: list[socket.socket] = []
        for number in ground.lasting(0.002):
            with unharmed():
                lines.append(trap.accept()[0])
                lines[-1].setblocking(False)
            for line in list(lines):
                with unharmed():
                    frame = line.recv(1 << 18)
                    ground.tally["received"] += len(frame)
                    ground.tally["sent"] += line.send(_false_response(ground, frame, known, number))
                    if number % 5 == 0 or not frame:
                        lines.remove(line)
                        line.close()
        for line in lines:
            line.close()
        ground.note(f"{ground.tally['received']:,} bytes of requests were answered")
    ground.start(dead)


def _false_response(ground: Ground, frame: bytes, known: dict[str, object], number: int) -> bytes:
    """A response to the first request of these bytes: a greeting is answered well, anything else is not."""
    key, _, correlation_id, _, _ = msgpack.unpackb(frame[4 : 4 + int.from_bytes(frame[:4], "big")])[:5]
    if key == wire.HANDSHAKE and number % 4:
        schema = wire.apis()["Handshake"].response
        body = wire.pack(schema["fields"], wire.greeting_version(), known, wire.structs_of(schema))
        return wire.framed(msgpack.packb([correlation_id, body]))
    head = msgpack.packb([correlation_id, None])[:-1]
    bodies = [
        b"\x91" * ground.rng.choice((100, 990, 1_000, 1_024, 60_000)) + b"\xc0",
        b"\x81\x00" * ground.rng.choice((100, 500, 990, 1_024)) + b"\xc0",
        ground.rng.randbytes(100),
        msgpack.packb([0, [["__cluster_metadata", [[0, 0, 1, (1 << 31) - 1, True, {}]], {}]], {}]),
        msgpack.packb([0, 0, 0, [], {}]),
        msgpack.packb([-1, None]),
        b"",
        b"\xc1",
    ]
    return wire.framed(head + ground.rng.choice(bodies))


@attack(STRANGER)
def fishing_for_the_cluster_id(ground: Ground) -> None:
    """Greet as a node of guessed clusters: refused each time, and the same connection asks again."""
    guesses = ["", "x", "A" * 22, "\x00", "../../etc", "$(id)", "%s%n", None, "é" * 1_000]
    for number in ground.lasting(0.005):
        with unharmed(), ground.open(ground.node_ids[number % 3]) as line:
            for guess in guesses:
                line.send(wire.greeting(1 + number % 4, cluster_id=guess, directory_id=os.urandom(16)))
            line.receive()


@attack(OBSERVER, elections=0)
def ids_at_the_edges(ground: Ground) -> None:
    """Greet with ids that are none: -2, the least and the largest integer, beyond 32 bits; then vote."""
    for number in ground.lasting(0.01):
        node_id = ground.node_ids[number % 3]
        for odd in (-2, -(1 << 31), (1 << 31) - 1, 1 << 31, 0):
            with unharmed(), ground.open(node_id) as line:
                line.send(wire.greeting(odd, **ground.identity(node_id), directory_id=os.urandom(16)))
                line.send(
                    forging.fetch(odd & 0x7FFFFFFF, 0, ground.facts.epoch)
                    + forging.vote(odd & 0x7FFFFFFF, ground.facts.epoch + 1)
                )
                line.drain(0.003)


@attack(CLAIM)
def requests_before_the_nonce(ground: Ground) -> None:
    """Unconfirmed claims that pipeline all that may wait, and more: up to 1 MiB of fetches and votes."""
    epoch = ground.facts.epoch
    for number in ground.lasting(0.02):
        node_id = ground.node_ids[number % 3]
        voter_id = ground.node_ids[(number + 1) % 3]
        with unharmed():
            line = ground.claim(node_id, voter_id) if number < 100 else ground.open(node_id)
            line.send(
                (forging.fetch(voter_id, forging.FAR, epoch) + forging.vote(voter_id, epoch + 1))
                * (1, 31, 300, 3_000)[number % 4]
            )
            if number >= 100:
                line.close()


@attack(CLAIM)
def claims_that_keep_bytes(ground: Ground) -> None:
    """1,500 unconfirmed claims, each with 60 KiB of frames that wait for a confirmation that never comes."""
    epoch = ground.facts.epoch
    for number in range(1_500):
        node_id = ground.node_ids[number % 3]
        voter_id = ground.node_ids[(number + 1) % 3]
        frame = (
            wire.request("DescribeNode", {})
            + forging.fetch(voter_id, 0, epoch)
            + wire.raw_request(18, 4, ["x" * 1_800, "", {}])
        )
        with unharmed():
            line = ground.line(node_id, host=2 + number % 5, timeout_s=0.2)
            line.send(ground.claim_greeting(node_id, voter_id) + frame * 30)
    for _ in ground.lasting(0.1):
        pass


@attack(CLAIM, elections=-1, halves=False)
def a_link_woken_without_end(ground: Ground) -> None:
    """A dead follower is claimed 200 times a second: the others look for it, but not 200 times a second."""
    dead = ground.follower_ids[0]
    others = [node_id for node_id in ground.node_ids if node_id != dead]
    ground.known(dead)
    ground.quorum.cluster[dead].kill()
    looked = 0
    began = time.monotonic()
    with socket.create_server((HOST, ground.quorum.cluster[dead].port), backlog=1_000) as trap:
        trap.setblocking(False)
        for number in ground.lasting(0.005):
            with unharmed(), ground.open(others[number % 2], host=2 + number % 200) as line:
                line.send(ground.claim_greeting(others[number % 2], dead))
                line.socket.settimeout(0.001)
                line.socket.recv(1_000)
            with unharmed():
                while True:
                    trap.accept()[0].close()
                    looked += 1
    rate = looked / (time.monotonic() - began) / len(others)
    ground.note(f"each of the others connected {rate:.1f} times a second")
    if rate > LOOKS_A_SECOND_MAX:
        ground.fail(f"claims made each of the others connect {rate:.1f} times a second")
    ground.start(dead)


LOOKS_A_SECOND_MAX = 25.0
"""Ten that a claim may cause, and those of a link's own back-off."""


@attack(OBSERVER, elections=0)
def fishing_for_start_ids(ground: Ground) -> None:
    """Ask everything as nobody, as node 99 and as a false voter: no response has a start id in it."""
    secrets = {start_id for node in ground.quorum.cluster for start_id in start_ids_of(node.directory)}
    for node_id in ground.node_ids:
        for opening in (
            wire.greeting(),
            wire.greeting(OBSERVER_ID, **ground.identity(node_id), directory_id=os.urandom(16)),
            *(
                ground.claim_greeting(node_id, voter_id)
                for voter_id in ground.node_ids
                if voter_id != node_id
            ),
        ):
            with unharmed(), ground.open(node_id) as line:
                line.send(opening + wire.show_nonce(bytes(16)))
                for api in wire.apis().values():
                    if api.name not in ("Handshake", "ResignLeader", "ShowNonce"):
                        line.send(wire.request(api.name))
                line.socket.settimeout(0.2)
                answered = b""
                with unharmed():
                    while data := line.socket.recv(1 << 18):
                        answered += data
                found = sum(secret in answered for secret in secrets)
                if found:
                    ground.fail(f"node {node_id} told {found} start ids to a stranger")

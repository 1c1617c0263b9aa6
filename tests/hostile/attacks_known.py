"""The attacks that once broke a quorum: what ends a process, and what stops a quorum for good."""

import contextlib
import json
import os
import socket
import threading
import time

import msgpack

from tests.hostile import forging, wire
from tests.hostile.client import Line
from tests.hostile.flood import quiet_socket
from tests.hostile.ground import (
    CLAIM,
    CLIENT,
    COUNTER,
    FILES,
    OBSERVER,
    OBSERVER_ID,
    STRANGER,
    Ground,
    attack,
    unharmed,
)

ABSURD = 1 << 30
DEPTHS = (100, 500, 980, 985, 990, 995, 1000, 1023, 1024, 1025, 5_000, 60_000)


@attack(STRANGER, "1.1")
def one_frame_before_any_handshake(ground: Ground) -> None:
    """A frame of 1,000 bytes that nests deeper than a decoder may recurse."""
    for node_id in ground.node_ids:
        for depth in DEPTHS:
            for head in (
                b"\x95\x12\x00\x01",
                b"\x95\x12\x00\x01\xc0",
                b"\x95\xcd\x4e\x20\x00\x01",
                b"\x92\x01",
                b"\x95\x12",
                b"",
            ):
                with unharmed(), ground.open(node_id) as line:
                    line.send(wire.framed(head + b"\x91" * depth + b"\xc0\xc0"))


@attack(CLIENT, "1.1")
def one_frame_after_the_greeting(ground: Ground) -> None:
    """The same frame, from a client that greeted: as body, as client id, as tag, as the whole."""
    for node_id in ground.node_ids:
        for depth in DEPTHS:
            nest = b"\x91" * depth + b"\xc0"
            for frame in (
                b"\x95\x12\x00\x01\xc0" + nest,
                b"\x95\x2c\x01\x01\xc0" + nest,
                b"\x95\x2c\x01\x01" + nest + b"\xc0",
                b"\x95\x12\x00\x01\xc0\x91\x81\x05" + nest,
                b"\x95" + nest,
            ):
                with unharmed(), ground.open(node_id) as line:
                    line.greet()
                    line.send(wire.framed(frame))


@attack(STRANGER, "1.2", setup=FILES, fresh=True)
def half_requests_until_files_run_out(ground: Ground) -> None:
    """490 half requests on each node's HTTP port, with 512 files allowed, while segments roll."""
    halves: list[socket.socket] = []
    try:
        for node in ground.quorum.nodes:
            for _ in range(490):
                made = quiet_socket(node.http_port, "127.0.0.9")
                if made is not None:
                    ground.tally["opened"] += 1
                    halves.append(made)
                    with contextlib.suppress(OSError):
                        ground.tally["sent"] += made.send(b"GET /metrics HTTP/1.1\r\nHost: local")
        for _ in ground.lasting(0.05):
            for made in halves[:: max(1, len(halves) // 20)]:
                with contextlib.suppress(OSError):
                    ground.tally["sent"] += made.send(b"h")
    finally:
        for made in halves:
            made.close()


@attack(STRANGER, "1.2", setup=FILES, fresh=True)
def silent_connections_until_files_run_out(ground: Ground) -> None:
    """490 silent connections on each node's quorum port, with 512 files allowed, while segments roll."""
    silent: list[socket.socket] = []
    try:
        for _ in ground.lasting(0.1):
            for node in ground.quorum.nodes:
                for host in range(2, 5):
                    made = quiet_socket(node.port, f"127.0.0.{host}") if len(silent) < 1_500 else None
                    if made is not None:
                        silent.append(made)
            if len(silent) < 1_470:
                silent += [
                    made
                    for node in ground.quorum.nodes
                    for _ in range(160)
                    if (made := quiet_socket(node.port, "127.0.0.2")) is not None
                ]
    finally:
        ground.tally["opened"] += len(silent)
        for made in silent:
            made.close()


@attack(CLAIM, "2.3")
def two_forged_greetings(ground: Ground) -> None:
    """At each node, greet as the two others with start counter 2^31 - 1, in both versions of a greeting."""
    for node_id in ground.node_ids:
        for voter_id in ground.node_ids:
            if voter_id == node_id:
                continue
            for version in (0, 1):
                with unharmed():
                    line = ground.claim(node_id, voter_id, version=version)
                    response = line.receive()
                    told = response[1]
                    if version == 1 and any(part == COUNTER for part in told):
                        ground.fail(f"node {node_id} repeats the start counter of an unconfirmed claim")
    for _ in ground.lasting(0.1):
        pass


@attack(CLAIM, "2.3")
def guessed_nonces(ground: Ground) -> None:
    """Claim to be a voter and show nonces that were never given: random, empty, zero, long, one's own."""
    for number in ground.lasting():
        node_id = ground.node_ids[number % 3]
        voter_id = ground.rng.choice([each for each in ground.node_ids if each != node_id])
        own = os.urandom(16)
        with unharmed(), ground.open(node_id) as line:
            line.send(ground.claim_greeting(node_id, voter_id, nonce=own))
            line.receive()
            for nonce in (
                own,
                bytes(16),
                b"",
                os.urandom(16),
                os.urandom(15),
                os.urandom(17),
                b"\xff" * 16,
                bytes(4_096),
            ):
                line.send(wire.show_nonce(nonce))
            line.send(forging.vote(voter_id, ground.facts.epoch + 5))
            while True:
                response = line.receive()
                if len(response) > 1 and len(response[1]) >= 3 and response[1][0] == 0 and response[1][1]:
                    ground.fail(f"node {node_id} took a guess and told its start counter: {response[1]}")


@attack(CLIENT, "2.3", elections=0)
def nonces_shown_by_a_nobody(ground: Ground) -> None:
    """Clients and observers show nonces; they are told no start counter."""
    for node_id in ground.node_ids:
        for greeted in (ground.client, ground.observer):
            with unharmed():
                line = greeted(node_id)
                for nonce in (bytes(16), os.urandom(16), b""):
                    line.send(wire.show_nonce(nonce))
                    response = line.receive()
                    if response[1][0] == 0 or any(response[1][1:2]):
                        ground.fail(f"node {node_id} accepted a nonce from a nobody: {response[1]}")


def _votes(ground: Ground, epochs: list[int]) -> None:
    for node_id in ground.node_ids:
        for version in wire.apis()["Vote"].versions:
            for epoch in epochs:
                for pre_vote in (False, True):
                    with unharmed():
                        line = ground.observer(node_id)
                        line.send(forging.vote(OBSERVER_ID, epoch, version=version, pre_vote=pre_vote))
                        response = line.receive()
                        partition = response[1][1][0][1][0]
                        if partition[4] is True and not pre_vote:
                            ground.fail(
                                f"node {node_id} granted a vote of epoch {epoch} to node {OBSERVER_ID}"
                            )


@attack(OBSERVER, "2.4", elections=0)
def votes_of_a_non_voter_at_2_to_the_30(ground: Ground) -> None:
    """Greet as node 99, ask for votes of epoch 2^30, 2^30 + 65536 and on, up to the last epoch there is."""
    _votes(
        ground,
        [ABSURD, ABSURD + 65_536, ABSURD + 131_072, (1 << 31) - (1 << 24), (1 << 31) - 2, (1 << 31) - 1],
    )


@attack(OBSERVER, "2.5", elections=0)
def votes_of_a_non_voter_of_the_next_epoch(ground: Ground) -> None:
    """Votes of node 99 with epoch + 1, + 2 and + 3: granted once, and the leader stepped down."""
    _votes(ground, [ground.facts.epoch + step for step in (1, 2, 3)])


@attack(CLAIM, "2.4")
def votes_of_a_false_voter(ground: Ground) -> None:
    """Claim to be a voter, and ask for votes of the next epoch and of 2^30, again and again."""
    for number in ground.lasting(0.02):
        node_id = ground.node_ids[number % 3]
        for voter_id in ground.node_ids:
            if voter_id != node_id:
                with unharmed(), ground.open(node_id) as line:
                    line.send(ground.claim_greeting(node_id, voter_id))
                    for epoch in (ground.facts.epoch + 1, ABSURD):
                        line.send(
                            forging.vote(voter_id, epoch) + forging.vote(voter_id, epoch, pre_vote=True)
                        )
                    line.drain(0.02)


@attack(OBSERVER, "2.5", elections=0)
def forged_end_of_the_epoch(ground: Ground) -> None:
    """EndQuorumEpoch in the leader's name: from nobody, from node 99, from who claims to be the leader."""
    for _ in ground.lasting(0.1):
        for node_id in ground.node_ids:
            for epoch in (ground.facts.epoch, ground.facts.epoch + 1, ABSURD):
                for version in wire.apis()["EndQuorumEpoch"].versions:
                    frame = forging.end_epoch(ground.leader_id, epoch, ground.follower_ids, version=version)
                    for opening in (
                        wire.greeting(),
                        wire.greeting(OBSERVER_ID, **ground.identity(node_id), directory_id=os.urandom(16)),
                        ground.claim_greeting(node_id, ground.leader_id),
                    ):
                        with unharmed(), ground.open(node_id) as line:
                            line.send(opening + frame)
                            line.drain(0.005)


@attack(OBSERVER, "2.5", elections=0)
def leader_with_an_endpoint_of_its_own(ground: Ground) -> None:
    """BeginQuorumEpoch of a non-voter and a false leader, with an endpoint where the attacker listens."""
    met: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as trap:
        port = trap.getsockname()[1]
        stopped = threading.Event()
        thread = threading.Thread(target=_listen, args=(trap, met, stopped), daemon=True)
        thread.start()
        for _ in ground.lasting(0.1):
            for node_id in ground.node_ids:
                for leader_id, epoch in (
                    (OBSERVER_ID, ground.facts.epoch + 1),
                    (OBSERVER_ID, ground.facts.epoch),
                    (ground.leader_id, ground.facts.epoch),
                    (ground.leader_id, ground.facts.epoch + 1),
                    (ground.follower_ids[0], ground.facts.epoch + 1),
                ):
                    frame = forging.begin_epoch(leader_id, epoch, port)
                    with unharmed():
                        with ground.open(node_id) as line:
                            line.send(
                                wire.greeting(
                                    OBSERVER_ID, **ground.identity(node_id), directory_id=os.urandom(16)
                                )
                                + frame
                            )
                            line.drain(0.005)
                        with ground.open(node_id) as line:
                            line.send(ground.claim_greeting(node_id, leader_id) + frame)
                            line.drain(0.005)
        time.sleep(0.3)
        stopped.set()
        thread.join()
    if met:
        ground.fail(f"{len(met)} connections came to the attacker's endpoint; the first said {met[0][:60]!r}")


def _listen(trap: socket.socket, met: list[bytes], stopped: threading.Event) -> None:
    trap.settimeout(0.05)
    while not stopped.is_set():
        with contextlib.suppress(OSError):
            connection, _ = trap.accept()
            with connection:
                connection.settimeout(0.2)
                met.append(b"")
                met[-1] = connection.recv(200)


@attack(CLAIM, "2.5", elections=-1, halves=False)
def acknowledged_for_the_dead(ground: Ground) -> None:
    """With a follower dead and the other paused, fetch in the dead one's name: nothing may be committed."""
    dead, other = ground.follower_ids
    directory_id = ground.known(dead)["DirectoryId"]
    ground.quorum.cluster[dead].kill()
    lines = [ground.claim(ground.leader_id, dead), ground.claim(ground.leader_id, dead, version=0)]
    with unharmed():
        lines.append(ground.observer(ground.leader_id))
    stopped = threading.Event()
    thread = threading.Thread(
        target=_acknowledge, args=(ground, lines, dead, directory_id, stopped), daemon=True
    )
    thread.start()
    time.sleep(0.3)
    ground.quorum.cluster[other].pause()
    try:
        time.sleep(0.3)
        with unharmed():
            code = ground.quorum.write_config(ground.leader_id, "98", "unsafe", timeout_s=1.2)
            if code == 0:
                ground.fail("a write was confirmed while one node of three was alive")
    finally:
        ground.quorum.cluster[other].resume()
        stopped.set()
        thread.join()
        ground.start(dead)


def _acknowledge(
    ground: Ground, lines: list[Line], dead: int, directory_id: bytes, stopped: threading.Event
) -> None:
    """Fetch with the leader's own end offset, and far beyond it."""
    epoch = ground.facts.epoch
    while not stopped.wait(0.02):
        with unharmed():
            end = ground.quorum.describe(ground.leader_id, timeout_s=0.5)["LogEndOffset"]
            for line in lines:
                for offset in (end, end + 1, end + 2, forging.FAR):
                    for version in (14, 17):
                        line.send(
                            forging.fetch(dead, offset, epoch, version=version, directory_id=directory_id)
                        )
                line.drain(0.002)


@attack(STRANGER, "2.4", elections=-1, halves=False)
def a_node_that_speaks_of_an_absurd_epoch(ground: Ground) -> None:
    """In a dead follower's place somebody speaks of epoch 2^30: the commands still see the quorum."""
    dead = ground.follower_ids[0]
    known = ground.known(dead)
    template = ground.quorum.describe(dead)
    ground.quorum.cluster[dead].kill()
    stopped = threading.Event()
    with socket.create_server(("127.0.0.1", ground.quorum.cluster[dead].port)) as trap:
        thread = threading.Thread(target=_pretend, args=(trap, known, template, stopped), daemon=True)
        thread.start()
        try:
            _ask_commands(ground)
        finally:
            stopped.set()
            thread.join()
    ground.start(dead)


def _ask_commands(ground: Ground) -> None:
    code, text = ground.quorum.kraftctl("status", "-o", "json")
    if code != 0 or json.loads(text).get("leader_id") != ground.leader_id:
        ground.fail(f"status does not name the leader ({code}): {text[:300]}")
    code, text = ground.quorum.kraftctl("health", "-o", "json")
    if code not in (0, 5) or json.loads(text).get("leader_id") != ground.leader_id:
        ground.fail(f"health does not name the leader ({code}): {text[:300]}")
    code, text = ground.quorum.kraftctl("health", bootstrap=f"127.0.0.1:{ground.leader.port}")
    if code != 0:
        ground.fail(f"the leader is not healthy ({code}): {text[:300]}")
    code, text = ground.quorum.kraftctl("resign", "--to", str(ground.follower_ids[1]), "--wait")
    if code != 0:
        ground.fail(f"resign ended with {code}: {text[:300]}")


def _pretend(
    trap: socket.socket, known: dict[str, object], template: dict[str, object], stopped: threading.Event
) -> None:
    trap.settimeout(0.05)
    threads = []
    while not stopped.is_set():
        with contextlib.suppress(OSError):
            connection, _ = trap.accept()
            threads.append(
                threading.Thread(target=_serve, args=(connection, known, template, stopped), daemon=True)
            )
            threads[-1].start()
    for thread in threads:
        thread.join(1)


def _serve(
    connection: socket.socket, known: dict[str, object], template: dict[str, object], stopped: threading.Event
) -> None:
    """Answer a greeting as the node that is dead, and DescribeNode as one of an absurd epoch."""
    absurd = {
        **template,
        "Epoch": ABSURD,
        "LeaderId": -1,
        "Role": "candidate",
        "Peers": [],
        "HighWatermark": -1,
    }
    connection.settimeout(0.1)
    data = b""
    with connection:
        while not stopped.is_set():
            try:
                part = connection.recv(1 << 16)
            except TimeoutError:
                continue
            except OSError:
                return
            if not part:
                return
            data += part
            while len(data) >= 4 and len(data) >= (end := 4 + int.from_bytes(data[:4], "big")):
                with unharmed():
                    key, _, correlation_id, _, _ = msgpack.unpackb(data[4:end], strict_map_key=False)
                    name = {wire.HANDSHAKE: "Handshake", wire.apis()["DescribeNode"].key: "DescribeNode"}.get(
                        key
                    )
                    if name is not None:
                        schema = wire.apis()[name].response
                        values = known if name == "Handshake" else absurd
                        version = wire.apis()[name].versions[-1]
                        body = wire.pack(schema["fields"], version, _mended(values), wire.structs_of(schema))
                        connection.sendall(wire.framed(msgpack.packb([correlation_id, body])))
                data = data[end:]


def _mended(values: dict[str, object]) -> dict[str, object]:
    """What was heard, as it can be said: without what a version does not have."""
    return {name: value for name, value in values.items() if value is not None}


@attack(CLIENT, "4", elections=0)
def words_that_make_no_sense(ground: Ground) -> None:
    """Commands and requests with words that nothing can be: usage errors, and refusals."""
    for words in (
        ("configs", "get", "\udcff\udcfe"),
        ("resign", "--to", "99999999999999999999"),
        ("resign", "--to", "-1"),
    ):
        code, text = ground.quorum.kraftctl(*words)
        if code != 64 or "bug" in text:
            ground.fail(f"kraftctl {words!r} ended with {code}: {text[:200]!r}")
    with unharmed():
        line = ground.client(ground.leader_id)
        for name in ("a\nb", "a\rb", "a\x00b", "\u2028", ""):
            config = {"Name": name, "ConfigOperation": 0, "Value": "x"}
            resource = {"ResourceType": 4, "ResourceName": "7", "Configs": [config]}
            response = line.ask("IncrementalAlterConfigs", {"Resources": [resource]})
            if response["Responses"][0]["ErrorCode"] == 0:
                ground.fail(f"a config with the name {name!r} was set")

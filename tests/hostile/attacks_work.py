"""Further attacks by way of what a node does for anybody: its APIs, asked for too much."""

import os
import socket

from tests.hostile import forging, wire
from tests.hostile.attacks_costly import fill_image
from tests.hostile.flood import quiet_socket
from tests.hostile.ground import CLIENT, HTTP, OBSERVER, STRANGER, Ground, attack, unharmed
from tests.hostile.innocent import CONFIG

FOR_EVER_MS = (1 << 31) - 1


def _alter(name: str, broker: str, value: str | None, operation: int = 0) -> dict[str, object]:
    config = {"Name": name, "ConfigOperation": operation, "Value": value}
    return {"ResourceType": 4, "ResourceName": broker, "Configs": [config]}


@attack(OBSERVER)
def observers_by_the_thousand(ground: Ground) -> None:
    """Thousands of invented observers fetch once each, with ids and directories of their own."""
    for number in ground.lasting(0.0):
        node_id = ground.leader_id if number % 2 else ground.node_ids[number % 3]
        with unharmed(), ground.open(node_id, host=2 + number % 50) as line:
            observer_id = 1_000 + number
            line.send(wire.greeting(observer_id, **ground.identity(node_id), directory_id=os.urandom(16)))
            line.send(
                forging.fetch(observer_id, 0, ground.facts.epoch, directory_id=os.urandom(16), bytes_max=1)
            )
            line.receive()
            line.receive()
    with unharmed():
        line = ground.client(ground.leader_id)
        topics = [{"TopicName": wire.METADATA_TOPIC, "Partitions": [{"PartitionIndex": 0}]}]
        response = line.ask("DescribeQuorum", {"Topics": topics})
        count = len(response["Topics"][0]["Partitions"][0]["Observers"])
        ground.note(f"{count} observers are remembered")


@attack(OBSERVER)
def observers_of_one_connection(ground: Ground) -> None:
    """One connection fetches as ten thousand different observers: what is remembered of each is bounded."""
    for node_id in ground.node_ids:
        with unharmed():
            line = ground.observer(node_id)
            for number in range(10_000):
                line.send(
                    forging.fetch(
                        5_000 + number, 0, ground.facts.epoch, directory_id=os.urandom(16), bytes_max=1
                    )
                )
                if number % 50 == 0:
                    line.drain(0.001)


@attack(OBSERVER)
def fetches_parked_for_ever(ground: Ground) -> None:
    """300 observers park 64 fetches each at the end of the log, for 24 days."""
    end = 0
    with unharmed():
        end = ground.quorum.describe(ground.leader_id)["LogEndOffset"] + 1_000_000
    for number in range(300):
        node_id = ground.node_ids[number % 3]
        with unharmed():
            line = ground.line(node_id, timeout_s=0.3)
            line.send(wire.greeting(2_000 + number, **ground.identity(node_id), directory_id=os.urandom(16)))
            for step in range(64):
                line.send(
                    forging.fetch(
                        2_000 + number,
                        end * (step % 2),
                        ground.facts.epoch,
                        wait_ms=FOR_EVER_MS,
                        correlation_id=step,
                    )
                )
    for _ in ground.lasting(0.1):
        pass


@attack(OBSERVER, prepare=fill_image)
def the_log_fetched_by_everybody(ground: Ground) -> None:
    """50 observers fetch the log from its beginning, 8 MiB at a time, 32 times each, and read nothing."""
    for number in range(50):
        with unharmed():
            line = ground.observer(ground.leader_id, 3_000 + number, buffers=4_096, timeout_s=0.3)
            for step in range(32):
                line.send(
                    forging.fetch(3_000 + number, 0, ground.facts.epoch, last_epoch=0, correlation_id=step)
                )
    for _ in ground.lasting(0.1):
        pass


@attack(CLIENT)
def exports_of_what_is_no_export(ground: Ground) -> None:
    """ExportChunk with paths out of the directory and impossible positions, and many manifests."""
    names = [
        "../meta.properties",
        "meta.properties",
        "quorum-state",
        "kraftd.state",
        "/etc/passwd",
        "..",
        "",
        "\x00",
        ".lock",
    ]
    names += ["../../../../../../etc/passwd", "x" * 60_000, "00000000000000000000.log/../quorum-state"]
    for number in ground.lasting(0.005):
        with unharmed(), ground.open(ground.node_ids[number % 3]) as line:
            line.greet()
            offered = {file["Name"] for file in line.ask("ExportManifest")["Files"]}
            line.send(wire.request("ExportManifest", correlation_id=1 << 30) * 20)
            for name in names:
                for position in (0, -1, (1 << 63) - 1):
                    response = line.ask(
                        "ExportChunk", {"Name": name, "Position": position, "MaxBytes": FOR_EVER_MS}
                    )
                    if response["ErrorCode"] == 0 and name not in offered:
                        ground.fail(f"a stranger was given {response['TotalBytes']} bytes of {name!r}")


@attack(CLIENT, prepare=fill_image)
def exports_that_nobody_reads(ground: Ground) -> None:
    """40 clients ask for the log's first chunk 64 times each, as large as it gets, and read nothing."""
    manifest = ground.client(ground.leader_id).ask("ExportManifest")
    names = [file["Name"] for file in manifest["Files"]] or ["00000000000000000000.log"]
    for number in range(40):
        with unharmed():
            line = ground.client(ground.leader_id, buffers=4_096, timeout_s=0.3)
            values = {"Name": names[number % len(names)], "Position": 0, "MaxBytes": FOR_EVER_MS}
            line.send(
                b"".join(wire.request("ExportChunk", values, correlation_id=step) for step in range(64))
            )
    for _ in ground.lasting(0.1):
        pass


@attack(CLIENT, prepare=fill_image)
def watchers_that_stop_reading(ground: Ground) -> None:
    """400 clients read the committed log from its beginning, 64 requests each, and take no response."""
    for number in range(400):
        with unharmed():
            line = ground.client(ground.node_ids[number % 3], buffers=4_096, timeout_s=0.3)
            values = {"Offset": 0, "MaxWaitMs": FOR_EVER_MS, "MaxBytes": FOR_EVER_MS}
            line.send(
                b"".join(wire.request("FetchCommitted", values, correlation_id=step) for step in range(64))
            )
    for _ in ground.lasting(0.1):
        pass


@attack(CLIENT)
def watchers_of_what_never_comes(ground: Ground) -> None:
    """Clients wait for impossible offsets of the committed log for ever, and ask again and again."""
    offsets = (0, 1, -1, 1 << 62, (1 << 63) - 1, -(1 << 63))
    for number in ground.lasting(0.0):
        with unharmed():
            line = ground.client(ground.node_ids[number % 3], timeout_s=0.3)
            for step, offset in enumerate(offsets * 10):
                wait_ms = (FOR_EVER_MS, 0, -1)[step % 3]
                values = {"Offset": offset, "MaxWaitMs": wait_ms, "MaxBytes": step - 1}
                line.send(wire.request("FetchCommitted", values, correlation_id=step))
            line.drain(0.001)


@attack(CLIENT, elections=-1)
def resignations_without_end(ground: Ground) -> None:
    """ResignLeader to anybody, to non-voters, to the leader itself, at every node, again and again.

    Any client may ask a leader to hand over, as the operator does: an election each time, and no more.
    """
    targets = [-1, OBSERVER_TARGET, ground.leader_id, *ground.follower_ids, -2, FOR_EVER_MS]
    for number in ground.lasting(0.02):
        with unharmed(), ground.open(ground.node_ids[number % 3]) as line:
            line.greet()
            for target in targets:
                line.send(
                    wire.request("ResignLeader", {"To": target, "TimeoutMs": (0, 1, FOR_EVER_MS)[number % 3]})
                )
            line.drain(0.003)


OBSERVER_TARGET = 99


@attack(CLIENT, elections=-1, halves=False)
def resignation_to_the_dead(ground: Ground) -> None:
    """ResignLeader to a voter that was just killed, with 24 days of patience: writes go on soon after."""
    dead = ground.follower_ids[0]
    ground.quorum.cluster[dead].kill()
    with unharmed():
        line = ground.client(ground.leader_id)
        line.send(wire.request("ResignLeader", {"To": dead, "TimeoutMs": FOR_EVER_MS}) * 10)
    ground.wait("something was written again", lambda: _writes(ground), promised_s=HANDOVER_MAX_S)
    ground.start(dead)


HANDOVER_MAX_S = 20.0
"""Some fetch timeouts, of those that attacks are played with: two to six seconds."""


def _writes(ground: Ground) -> bool:
    with unharmed():
        return ground.quorum.write_config(ground.leader_id) == 0
    return False


@attack(OBSERVER)
def fetches_parked_under_many_ids(ground: Ground) -> None:
    """60 observers park 64 fetches each at the log's end, each under another id: each commit answers all."""
    lines = []
    for number in range(60):
        with unharmed():
            lines.append(ground.observer(ground.leader_id, 2_000 + number, timeout_s=0.05))
    for number in ground.lasting(0.02):
        with unharmed():
            end = ground.quorum.describe(ground.leader_id, timeout_s=0.5)["LogEndOffset"]
            line = lines[number % len(lines)]
            for step in range(64):
                replica_id = 10_000 + number % len(lines) * 64 + step
                line.send(forging.fetch(replica_id, end, ground.facts.epoch, wait_ms=FOR_EVER_MS))
            line.drain(0.002)


@attack(CLIENT)
def checks_of_ten_thousand_errors(ground: Ground) -> None:
    """Requests that only validate: nine thousand wrong configs, each refusal with a text of its own."""
    wrong = [_alter("no.such.config", str(number), "x") for number in range(9_000)]
    frames = [
        wire.request("IncrementalAlterConfigs", {"Resources": wrong, "ValidateOnly": True}),
        wire.request(
            "IncrementalAlterConfigs", {"Resources": [_alter(CONFIG, "7", "x")] * 9_000, "ValidateOnly": True}
        ),
        wire.request(
            "IncrementalAlterConfigs", {"Resources": [_alter("y" * 900_000, "7", "x")], "ValidateOnly": True}
        ),
    ]
    lines = [ground.client(node_id, timeout_s=0.2) for node_id in ground.node_ids for _ in range(2)]
    for number in ground.lasting(0.02):
        with unharmed():
            line = lines[number % len(lines)]
            line.send(frames[number % len(frames)])
            line.socket.settimeout(0.001)
            line.socket.recv(1 << 20)


@attack(CLIENT)
def the_dearest_requests(ground: Ground) -> None:
    """Valid requests that cost the most for their bytes: all that fits of the smallest structs, of names."""
    names = [str(number) for number in range(ARRAY_MAX)]
    nothing = {"ResourceType": 4, "ResourceName": "1", "Configs": [{}] * ARRAY_MAX}
    named = [{"Name": name, "Value": "1"} for name in names[:OPERATION_MAX]]
    topic = {"TopicName": "t", "Partitions": [{}] * ARRAY_MAX}
    frames = [
        wire.request("IncrementalAlterConfigs", {"Resources": [nothing] * 12, "ValidateOnly": True}),
        wire.request(
            "IncrementalAlterConfigs",
            {"Resources": [nothing | {"Configs": named, "ResourceName": name} for name in names[:6]]},
        ),
        wire.request(
            "IncrementalAlterConfigs", {"Resources": [nothing | {"Configs": named}], "ValidateOnly": True}
        ),
        wire.request(
            "DescribeConfigs",
            {
                "Resources": [
                    {"ResourceType": 4, "ResourceName": name, "ConfigurationKeys": names}
                    for name in "1234567"
                ]
            },
        ),
        wire.request("DescribeQuorum", {"Topics": [topic] * 20}),
        wire.request("EndQuorumEpoch", {"Topics": [topic] * 10}),
    ]
    for number in ground.lasting(0.05):
        with unharmed(), ground.open(ground.node_ids[number // len(frames) % 3], timeout_s=0.5) as line:
            line.greet()
            line.send(frames[number % len(frames)])
            line.drain(0.01)


ARRAY_MAX = 16_384
OPERATION_MAX = 10_000


@attack(CLIENT)
def descriptions_of_nothing(ground: Ground) -> None:
    """DescribeConfigs of 40,000 brokers that do not exist: a response far longer than the question."""
    resources = [
        {"ResourceType": 4, "ResourceName": str(number), "ConfigurationKeys": None}
        for number in range(40_000)
    ]
    values = {"Resources": resources, "IncludeSynonyms": True, "IncludeDocumentation": True}
    frame = wire.request("DescribeConfigs", values)
    for number in ground.lasting(0.1):
        if number < 12:
            with unharmed():
                ground.client(ground.node_ids[number % 3], buffers=8_192, timeout_s=0.5).send(frame)


@attack(CLIENT)
def an_image_made_fat(ground: Ground) -> None:
    """Valid writes as large as they may be, at 2 MB/s, set and deleted again, at the leader."""
    line = ground.client(ground.leader_id, timeout_s=1.0)
    for number in ground.lasting(0.25):
        with unharmed():
            value = None if number % 2 else "v" * 1_000
            resources = [_alter(CONFIG, str(20_000 + step), value, number % 2) for step in range(500)]
            line.ask("IncrementalAlterConfigs", {"Resources": resources})
    with unharmed():
        resources = [_alter(CONFIG, str(20_000 + step), None, 1) for step in range(500)]
        line.ask("IncrementalAlterConfigs", {"Resources": resources})


@attack(CLIENT)
def questions_with_endless_lists(ground: Ground) -> None:
    """DescribeQuorum, Fetch and votes about 60,000 topics and partitions that do not exist."""
    partitions = [{"PartitionIndex": number} for number in range(60_000)]
    topics = [{"TopicName": "t", "Partitions": []}] * 60_000
    fetched = [{"TopicId": os.urandom(16), "Partitions": [{"Partition": 1}]} for _ in range(10_000)]
    frames = [
        wire.request(
            "DescribeQuorum", {"Topics": [{"TopicName": wire.METADATA_TOPIC, "Partitions": partitions}]}
        ),
        wire.request("DescribeQuorum", {"Topics": topics}),
        wire.request("Fetch", {"Topics": fetched}),
        wire.request("Vote", {"Topics": topics}),
        wire.request("EndQuorumEpoch", {"Topics": topics}),
    ]
    for number in ground.lasting(0.05):
        with unharmed(), ground.open(ground.node_ids[number % 3], timeout_s=0.3) as line:
            line.greet()
            line.send(frames[number % len(frames)])
            line.drain(0.01)


@attack(STRANGER, setup=HTTP)
def pages_asked_for_without_end(ground: Ground) -> None:
    """HTTP: /metrics and /readyz as fast as they go, with 1,000 exclusions, endless headers, unread."""
    queries = "&".join(f"exclude=x{number}" for number in range(1_000))
    requests = [
        b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 20,
        f"GET /readyz?{queries} HTTP/1.1\r\nHost: x\r\n\r\n".encode(),
        b"GET /livez HTTP/1.1\r\n" + b"X-A: " + b"a" * 100_000 + b"\r\n\r\n",
        b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n" + bytes(100_000),
        b"GET /metrics HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffff\r\n",
    ]
    held: list[socket.socket] = []
    try:
        for number in ground.lasting(0.005):
            node = ground.quorum.nodes[number % 3]
            made = quiet_socket(node.http_port, f"127.0.0.{2 + number % 100}")
            if made is not None:
                held.append(made)
                ground.tally["opened"] += 1
                made.settimeout(0.01)
                with unharmed():
                    data = requests[number % len(requests)]
                    ground.tally["offered"] += len(data)
                    ground.tally["sent"] += made.send(data)
            if len(held) > 100:
                held.pop(0).close()
    finally:
        for made in held:
            made.close()

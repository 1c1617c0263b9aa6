"""Client quotas and SCRAM credentials at the processes of a quorum, and that no output shows a secret."""

import base64
import hashlib
import hmac
from collections.abc import Callable

import pytest
from cluster import Cluster, KafkaClient

from kraftd.errors import ErrorCode
from kraftd.protocol import messages as m
from tests.process.test_envelopes import forward
from tests.process.test_kraftctl import kraftctl
from tests.process.test_watch import Watcher

SALT, SALTED = b"nobody may see this", bytes(range(100, 132))
CLIENT_KEY = hmac.digest(SALTED, b"Client Key", "sha256")
SECRETS = (
    *(SALT, SALTED, CLIENT_KEY, hashlib.sha256(CLIENT_KEY).digest()),
    hmac.digest(SALTED, b"Server Key", "sha256"),
)

ALICE = m.AlterClientQuotasRequestEntityData("user", "alice")
RATE = m.AlterClientQuotasRequestOpData("producer_byte_rate", 1024.0)
QUOTAS = m.AlterClientQuotasRequest(entries=(m.AlterClientQuotasRequestEntryData((ALICE,), (RATE,)),))


def credential(user: str, iterations: int = 4096) -> m.AlterUserScramCredentialsRequest:
    return m.AlterUserScramCredentialsRequest(
        upsertions=(
            m.AlterUserScramCredentialsRequestScramCredentialUpsertion(user, 1, iterations, SALT, SALTED),
        )
    )


def shows_a_secret(text: str) -> bool:
    """Whether a text holds one of the secrets, in any way that bytes are written as text."""
    ways = (repr, bytes.hex, lambda one: base64.b64encode(one).decode().rstrip("="), _as_numbers)
    return any(way(secret).removeprefix("b'").removesuffix("'") in text for secret in SECRETS for way in ways)


def _as_numbers(secret: bytes) -> str:
    return ", ".join(map(str, secret))


def test_both_are_decided_at_the_active_controller_alone_asked_directly_or_in_an_envelope(
    start: Callable[..., Cluster],
) -> None:
    with start(3) as cluster:
        leader = cluster.wait_leader()
        with KafkaClient(leader.port) as client:
            for version in (0, 1):
                (entry,) = client.ask(QUOTAS, version).entries
                assert (entry.error_code, entry.error_message) == (0, None)
            (entry,) = forward(client, QUOTAS, 1).entries
            assert entry.error_code == 0
            for tell in (client.ask, forward_by(client)):
                (result,) = tell(credential("alice")).results
                assert (result.user, result.error_code, result.error_message) == ("alice", 0, None)
                (result,) = tell(credential("bob", 5)).results
                assert (result.error_code, bool(result.error_message)) == (93, True)
        with KafkaClient(cluster.wait_follower(leader).port) as client:
            assert [each.error_code for each in client.ask(QUOTAS).entries] == [41]
            assert [each.error_code for each in client.ask(credential("carol")).results] == [41]
            assert forward(client, credential("carol"), 0) is ErrorCode.NOT_CONTROLLER
        state = kraftctl("", "log", "state", leader.directory, "--path", "/clientQuotas", "-o", "json")
        assert "1024" in state.out


def forward_by(client: KafkaClient) -> Callable[[m.AlterUserScramCredentialsRequest], object]:
    return lambda request: forward(client, request, 0)


@pytest.mark.covers("D-14")
def test_no_secret_is_in_a_log_or_shown_by_a_command(start: Callable[..., Cluster]) -> None:
    with start(1) as cluster:
        node = cluster.wait_leader()
        with KafkaClient(node.port) as client:
            assert [each.error_code for each in client.ask(credential("alice")).results] == [0]
            assert [each.error_code for each in client.ask(credential("", 5)).results] == [93]
        seen = []
        for what in ((), ("--changes",)):
            with Watcher(cluster.bootstrap, *what, "--from", 0) as watcher:
                seen += watcher.until(lambda line: "alice" in str(line))
        assert not shows_a_secret(str(seen))
        outputs = [kraftctl(cluster.bootstrap, "events").out]
        directory = node.directory
        node.stop()
        end = kraftctl("", "info", directory, "-o", "json").data["log"]["end_offset"]
        for form in ("table", "json", "yaml"):
            outputs += [
                kraftctl("", "log", "dump", directory, "-o", form).out,
                kraftctl("", "log", "state", directory, "--path", "/scram", "-o", form).out,
                kraftctl("", "log", "diff", directory, 0, end, "-o", form).out,
                kraftctl("", "info", directory, "-o", form).out,
            ]
    assert sum("alice" in each for each in outputs) >= 9
    assert not shows_a_secret("".join(outputs))
    assert not shows_a_secret(node.log_path.read_text())
    shown = kraftctl("", "log", "dump", directory, "--show-secrets", "-o", "json").out
    assert shows_a_secret(shown), "the test can see what is shown"

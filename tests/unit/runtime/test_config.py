"""Configuration: Kafka's keys and defaults, overrides, and every mistake at once."""

from pathlib import Path

import pytest

from kraftd.controller.authorizer import Authorizer
from kraftd.controller.context import ControllerSettings
from kraftd.controller.token_secret import TokenSecret, TokenSettings
from kraftd.errors import ConfigError
from kraftd.metadata.config_schema import broker_names
from kraftd.runtime.config import KEYS, environment_name, keys_in_place_of, load_config, parse_config
from kraftd.runtime.config_values import STANDARD_AUTHORIZER
from kraftd.types import Endpoint, parse_endpoint

CONFIGS = [
    path
    for path in sorted((Path(__file__).parents[3] / "config").glob("*.properties"))
    if not path.name.startswith("broker-")  # those are Kafka's
]

MINIMAL = {
    "process.roles": "controller",
    "node.id": "2",
    "controller.quorum.voters": "1@alpha:9093,2@beta:9093,3@[::1]:9094",
    "controller.listener.names": "CONTROLLER",
    "listeners": "CONTROLLER://:9093",
    "log.dirs": "/data/a,/data/b",
}


def test_the_smallest_static_controller_of_kafka_gets_kafkas_defaults() -> None:
    config = parse_config(MINIMAL, {})
    assert config.node_id == 2
    assert config.node_id in config.voters
    assert config.voters[3] == Endpoint("::1", 9094)
    assert config.bind == Endpoint("", 9093)
    assert config.advertised == Endpoint("beta", 9093), "every address is none; the voters know ours"
    assert config.metadata_dir == Path("/data/a")
    assert config.timing.election_timeout_ms == 1_000
    assert config.timing.fetch_timeout_ms == 2_000
    assert config.timing.retry_backoff_ms == 20
    assert config.timing.append_linger_ms == 0, "Kafka waits 25 ms; group commit needs none"
    assert config.log.segment_bytes == 1 << 30
    assert config.idle_interval_ms == 500
    assert config.max_idle_ms == 600_000
    assert config.http is None
    assert config.unknown_keys == []


@pytest.mark.covers("QS-10", "QS-11", "OBS-08")
def test_a_node_has_an_id() -> None:
    with pytest.raises(ConfigError, match=r"node\.id: missing"):
        parse_config({key: value for key, value in MINIMAL.items() if key != "node.id"}, {})


@pytest.mark.covers("QS-14")
def test_a_node_must_know_where_to_find_the_others() -> None:
    alone = {key: value for key, value in MINIMAL.items() if key != "controller.quorum.voters"}
    with pytest.raises(ConfigError, match=r"controller\.quorum\.bootstrap\.servers: one of them must be set"):
        parse_config(alone, {})
    assert parse_config(alone | {"controller.quorum.bootstrap.servers": "a:1"}, {}).voters == {}


def test_static_voters_and_bootstrap_servers_may_stand_together_as_in_kafka() -> None:
    config = parse_config(MINIMAL | {"controller.quorum.bootstrap.servers": "a:1,b:2"}, {})
    assert sorted(config.voters) == [1, 2, 3]
    assert list(config.bootstrap_servers) == [Endpoint("a", 1), Endpoint("b", 2)]
    with pytest.raises(ConfigError, match="7 is not among the voters"):
        parse_config(MINIMAL | {"controller.quorum.bootstrap.servers": "a:1", "node.id": "7"}, {})


@pytest.mark.covers("DV-38", "DV-10")
def test_names_of_listeners_are_upper_case_and_hosts_stay_names() -> None:
    lower = {"controller.listener.names": "controller", "listeners": "controller://no.such.host.example:9093"}
    config = parse_config(MINIMAL | lower, {})
    assert config.bind == Endpoint("no.such.host.example", 9093, "CONTROLLER")
    assert config.voters[1] == Endpoint("alpha", 9093)


@pytest.mark.covers("RSG-14")
def test_a_stop_takes_five_seconds_unless_told_otherwise() -> None:
    assert parse_config(MINIMAL, {}).shutdown_timeout_ms == 5_000


@pytest.mark.parametrize(
    ("written", "bound"),
    [
        (":8080", Endpoint("127.0.0.1", 8080)),
        ("0.0.0.0:8080", Endpoint("0.0.0.0", 8080)),
        ("[::]:8080", Endpoint("::", 8080)),
        ("controller-1:8080", Endpoint("controller-1", 8080)),
    ],
)
def test_the_pages_are_for_this_machine_alone_unless_a_host_is_written(written: str, bound: Endpoint) -> None:
    assert parse_config(MINIMAL | {"kraftd.http.listener": written}, {}).http == bound


def test_bind_and_advertised_addresses_are_two_things() -> None:
    config = parse_config(MINIMAL | {"advertised.listeners": "CONTROLLER://beta.example:19093"}, {})
    assert config.bind == Endpoint("", 9093)
    assert config.advertised == Endpoint("beta.example", 19093)


def test_the_environment_overrides_any_key() -> None:
    env = {"KRAFTD_NODE_ID": "3", "KRAFTD_KRAFTD_HTTP_LISTENER": "localhost:8080", "PATH": "/bin"}
    config = parse_config(MINIMAL, env)
    assert config.node_id == 3
    assert config.http == Endpoint("localhost", 8080)
    assert config.unknown_keys == []
    assert len({environment_name(key) for key in KEYS}) == len(KEYS)


def test_unknown_keys_are_kept_for_a_warning_and_our_tools_variables_are_not_keys() -> None:
    env = {"KRAFTD_BOOTSTRAP": "h:1", "KRAFTD_NODE_IDD": "4"}
    config = parse_config(MINIMAL | {"num.network.threads": "3"}, env)
    assert config.unknown_keys == ["KRAFTD_NODE_IDD", "num.network.threads"]


@pytest.mark.covers("CLN-10")
def test_all_mistakes_come_in_one_error() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config(
            {
                "process.roles": "broker",
                "node.id": "-4",
                "controller.quorum.voters": "1@a:1,1@b:2",
                "listeners": "PLAIN://x:1",
                "controller.listener.names": "CONTROLLER",
                "controller.quorum.fetch.timeout.ms": "soon",
                "metadata.log.segment.bytes": "10",
                "listener.security.protocol.map": "CONTROLLER:SSL",
            },
            {},
            source="x.properties",
        )
    text = str(caught.value)
    assert text.startswith("8 mistakes in the configuration in x.properties:")
    for part in (
        "process.roles",
        "node.id: '-4'",
        "voter 1 is there twice",
        "listeners: CONTROLLER",
        "'soon' is not an integer",
        "metadata.log.segment.bytes: 10 is below 8388608",
        "asks for SSL",
        "log.dirs: missing",
    ):
        assert part in text


@pytest.mark.covers("CLN-03", "CLN-04")
@pytest.mark.parametrize("value", [-1, 0, 1])
def test_retention_may_be_nothing_or_without_a_bound_as_in_kafka(value: int) -> None:
    keys = {"metadata.max.retention.bytes": str(value), "metadata.max.retention.ms": str(value)}
    log = parse_config(MINIMAL | keys | {"metadata.log.max.snapshot.interval.ms": "0"}, {}).log
    assert (log.retention_bytes, log.retention_ms, log.snapshot_interval_ms) == (value, value, 0)


@pytest.mark.parametrize(
    ("key", "value", "complaint"),
    [
        ("controller.quorum.voters", "1@0.0.0.0:1", "no address that others can reach"),
        ("controller.quorum.voters", "1@a..b:1", "empty label"),
        ("controller.quorum.voters", f"1@{'x' * 64}.example:1", "more than 63 characters"),
        ("controller.quorum.voters", "7@alpha:9093", "2 is not among the voters"),
        ("advertised.listeners", "CONTROLLER://:9093", "no address that others can reach"),
        ("advertised.listeners", "CONTROLLER", "not NAME://host:port"),
        ("listeners", "CONTROLLER://::1:9093", r"not host:port; write for example .* or \[::1\]:9093"),
        *(
            ("controller.quorum.voters", bad, "controller.quorum.voters: ")
            for bad in ("1", "1@", "x@h:1", "-1@h:1", "1@h:99999", "1@:9", "1@[]:9", "1@h:1,1@h:2")
        ),
        ("listeners", "CONTROLLER://host:99999", "not host:port"),
        ("metadata.max.idle.interval.ms", "-1", "not between 0"),
        ("controller.quorum.bootstrap.servers", "a:0", "no port that others can reach"),
        ("process.roles", "broker,controller", "Kafka's brokers are processes of their own"),
        ("broker.session.timeout.ms", "2000", "brokers would be fenced between two heartbeats"),
        ("num.partitions", "0", "not between 1"),
        ("default.replication.factor", "32768", "not between 1 and 32767"),
        ("min.insync.replicas", "two", "not an integer"),
        ("unclean.leader.election.enable", "yes", "neither true nor false"),
        ("delete.topic.enable", "0", "neither true nor false"),
        *(
            (key, " ", f"{key}: '' is neither true nor false")
            for key in (
                "delete.topic.enable",
                "unclean.leader.election.enable",
                "auto.leader.rebalance.enable",
                "allow.everyone.if.no.acl.found",
            )
        ),
        ("log.preallocate", "", "log.preallocate: must be true or false"),
        ("authorizer.class.name", "kafka.security.authorizer.AclAuthorizer", "is not org.apache.kafka"),
        ("super.users", "User:admin;alice", "super.users: 'alice' is not Type:name"),
        ("allow.everyone.if.no.acl.found", "on", "neither true nor false"),
        ("socket.request.max.bytes", "0", "not between 1"),
        ("metadata.log.max.record.bytes.between.snapshots", "0", "not between 1"),
        ("metadata.log.max.snapshot.interval.ms", "-1", "not between 0"),
        ("log.retention.ms", "a week", "log.retention.ms: must be a whole number"),
    ],
)
def test_what_cannot_work_is_refused(key: str, value: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        parse_config(MINIMAL | {key: value}, {})


def test_a_file_that_is_not_there_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"cannot read the configuration .*none\.properties: No such file"
    ) as told:
        load_config(tmp_path / "none.properties", {})
    assert str(told.value).count("none.properties") == 1


def test_an_id_that_is_none_is_one_mistake() -> None:
    with pytest.raises(ConfigError) as told:
        parse_config(MINIMAL | {"node.id": "x"}, {})
    assert str(told.value).count("node.id") == 1


def test_endpoints_print_as_they_are_read() -> None:
    for text in ("host:1", "[::1]:65535", "10.0.0.1:0"):
        assert str(parse_endpoint(text)) == text


def test_the_controllers_settings_have_kafkas_defaults() -> None:
    assert parse_config(MINIMAL, {}).settings == ControllerSettings(static_configs=MINIMAL)


def test_an_authorizer_is_named_as_in_kafka() -> None:
    named = MINIMAL | {"authorizer.class.name": STANDARD_AUTHORIZER}
    assert parse_config(named, {}).settings.authorizer == Authorizer()
    users = {"super.users": " User:a,b ;;User:c:d;", "allow.everyone.if.no.acl.found": "True"}
    everything = parse_config(named | users, {})
    assert everything.settings.authorizer == Authorizer(frozenset({"User:a,b", "User:c:d"}), True)
    assert everything.unknown_keys == []
    assert parse_config(MINIMAL | users, {}).settings.authorizer is None


def test_delegation_tokens_have_a_secret_and_kafkas_defaults() -> None:
    secret = {"delegation.token.secret.key": " \tnobody knows\u00a0 "}
    config = parse_config(MINIMAL | secret, {})
    made = config.settings.tokens
    assert made == TokenSettings(TokenSecret("nobody knows\u00a0"), 604_800_000, 86_400_000, 3_600_000)
    times = {
        "delegation.token.max.lifetime.ms": "3",
        "delegation.token.expiry.time.ms": "2",
        "delegation.token.expiry.check.interval.ms": "1",
    }
    made = parse_config(MINIMAL | times, {"KRAFTD_DELEGATION_TOKEN_SECRET_KEY": "s"}).settings.tokens
    assert made == TokenSettings(TokenSecret("s"), 3, 2, 1)
    for nothing in ("", "  "):
        off = parse_config(MINIMAL | times | {"delegation.token.secret.key": nothing}, {})
        assert off.settings.tokens is None
    with pytest.raises(ConfigError, match=r"delegation\.token\.expiry\.time\.ms: 0 is not between 1 and"):
        parse_config(MINIMAL | {"delegation.token.expiry.time.ms": "0"}, {})


def test_no_password_is_kept_to_be_shown() -> None:
    passwords = {"delegation.token.secret.key": "nobody-knows", "ssl.key.password": "nor-this"}
    config = parse_config(MINIMAL | passwords, {})
    assert config.settings.static_configs == MINIMAL | dict.fromkeys(passwords, "[hidden]")
    for password in passwords.values():
        assert password not in f"{config!r} {config}"
    with pytest.raises(ConfigError) as told:
        parse_config(MINIMAL | passwords | {"node.id": "x", "num.partitions": "y"}, {})
    assert "nobody-knows" not in str(told.value)


def test_what_the_file_sets_of_a_brokers_keys_is_a_place_where_values_come_from() -> None:
    """Also of keys that only a topic without a value of its own makes use of."""
    file = {"min.insync.replicas": "2", "log.retention.ms": "1000", "unclean.leader.election.enable": "TRUE"}
    config = parse_config(MINIMAL | file | {"my.own": "1"}, {"KRAFTD_NUM_PARTITIONS": "7"})
    settings = config.settings
    assert (settings.min_insync_replicas, settings.num_partitions) == (2, 7)
    assert settings.unclean_leader_election is True
    assert settings.static_configs == MINIMAL | file | {"num.partitions": "7"}
    assert config.unknown_keys == ["my.own"]


def test_topics_can_be_deleted_unless_the_file_says_otherwise() -> None:
    assert parse_config(MINIMAL, {}).settings.delete_topic
    assert not parse_config(MINIMAL | {"delete.topic.enable": "False"}, {}).settings.delete_topic


def test_a_brokers_key_without_an_effect_on_a_controller_is_told() -> None:
    config = parse_config(MINIMAL | {"num.io.threads": "8", "log.roll.hours": "1"}, {})
    assert config.unknown_keys == ["num.io.threads"]


@pytest.mark.parametrize(
    "key", ["metadata.snapshot.min.changed_records.ratio", "metadata.snapshot.min.new_records.size"]
)
def test_a_key_that_only_articles_have_is_unknown_and_told_with_the_one_in_its_place(key: str) -> None:
    for values, env in ((MINIMAL | {key: "0.5"}, {}), (MINIMAL, {environment_name(key): "0.5"})):
        (unknown,) = parse_config(values, env).unknown_keys
        assert keys_in_place_of([unknown, "num.network.threads"]) == {
            unknown: "metadata.log.max.record.bytes.between.snapshots"
        }


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.name)
def test_every_shipped_configuration_loads_and_comments_every_key(path: Path) -> None:
    config = load_config(path, {})
    assert config.unknown_keys == []
    assert config.node_id in config.voters
    lines = path.read_text(encoding="utf-8").splitlines()
    keys = {line.lstrip("#").partition("=")[0] for line in lines if "=" in line and " " not in line}
    assert keys == KEYS - {"log.dir", "controller.quorum.bootstrap.servers"}
    for number, line in enumerate(lines):
        if "=" in line and not line.startswith("# "):
            above = lines[number - 1]
            assert above.startswith("#") or "=" in above, f"{path.name}:{number + 1} has no comment"


def test_seven_configurations_ship() -> None:
    names = {path.stem for path in CONFIGS}
    assert names == {"standalone", *(f"{kind}-{n}" for kind in ("local", "compose") for n in (1, 2, 3))}


@pytest.mark.parametrize("text", ["1_000", "1e3", "0x10", "1 0", "1.0"])
def test_an_integer_is_what_java_takes_for_one(text: str) -> None:
    """Kafka would not start with the others, in a file that both read."""
    assert parse_config(MINIMAL | {"num.partitions": "+07"}, {}).settings.num_partitions == 7
    with pytest.raises(ConfigError, match=f"num.partitions: '{text}' is not an integer"):
        parse_config(MINIMAL | {"num.partitions": text}, {})


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (b"gehe\xedm", "gehe\xedm"),
        ("gehe\xedm".encode(), "gehe\xc3\xadm"),
        (b"gehe\\u00edm", "gehe\xedm"),
        (b"ge\x85he\x1cm", "ge\x85he\x1cm"),
        (b"ge\\\r\n  heim", "geheim"),
    ],
    ids=["latin", "utf-8", "escaped", "no-ends-of-lines", "two-lines"],
)
def test_a_file_is_read_as_java_reads_it(tmp_path: Path, written: bytes, read: str) -> None:
    """What Kafka's `Utils.loadProps` makes of it, tried with 4.3.1: else tokens would have other HMACs."""
    lines = "".join(f"{key}={value}\n" for key, value in MINIMAL.items()).encode()
    path = tmp_path / "node.properties"
    path.write_bytes(b"# f\xfcr uns\n" + lines + b"delegation.token.secret.key=" + written + b"\n")
    made = load_config(path, {}).settings.tokens
    assert made is not None
    assert made.secret == TokenSecret(read) != TokenSecret("another")


def test_an_escape_that_is_none_is_one_clear_line(tmp_path: Path) -> None:
    path = tmp_path / "node.properties"
    path.write_text("node.id=\\u00zz\n")
    with pytest.raises(ConfigError, match=r"cannot read the configuration .*node\.properties: "):
        load_config(path, {})


def test_what_stands_in_for_topics_may_come_from_the_environment() -> None:
    env = {"KRAFTD_LOG_RETENTION_MS": "5000", "KRAFTD_NUM_NETWORK_THREADS": "3"}
    file = {"log.retention.ms": "7000"}
    config = parse_config(MINIMAL | file, env)
    assert (
        config.settings.static_configs
        == parse_config(
            MINIMAL | {"log.retention.ms": "5000", "num.network.threads": "3"}, {}
        ).settings.static_configs
    )
    assert config.unknown_keys == ["KRAFTD_NUM_NETWORK_THREADS"], "as where a file has it"
    with pytest.raises(ConfigError, match=r"log\.retention\.ms: must be a whole number"):
        parse_config(MINIMAL, {"KRAFTD_LOG_RETENTION_MS": "a week"})


def test_each_key_has_a_variable_of_its_own() -> None:
    keys = {*KEYS, *broker_names()}
    assert len({environment_name(key) for key in keys}) == len(keys)

"""The state as folders and files: whatever the image holds has its place, and no secret is in it."""

from pathlib import Path

import pytest

from kraftd.logtools.errors import UnanswerableError
from kraftd.logtools.finding import find_log
from kraftd.logtools.state import State, state_at
from kraftd.logtools.tree import Place, data_of, find, match, normal, root_of, walk
from kraftd.metadata.image import to_records
from kraftd.metadata.parts.topics import TOPICS
from kraftd.metadata.views import File, Folder
from kraftd.records.messages import (
    ClientQuotaRecord,
    ClientQuotaRecordEntityData,
    ConfigRecord,
    PartitionRecord,
    UserScramCredentialRecord,
)
from kraftd.serde.binary import base64_text
from kraftd.types import uuid_text
from tests.fixtures import klog
from tests.unit.logtools.logs import ORDERS, orders


@pytest.fixture(scope="module")
def real() -> State:
    return state_at(find_log(klog("generated-kafka-4.3-dynamic-voters") / "node-2"))


def paths(node: Folder) -> list[str]:
    return [place.path for place in walk(Place("/", node))]


def test_every_entity_of_a_real_image_has_a_file(real: State):
    root = root_of(real)
    files = [place for place in walk(Place("/", root)) if isinstance(place.node, File)]
    own = ("/local/", "/metadataQuorum/", "/topicIds/")
    # A topic is a record and has a file with its id; every other record is a file.
    assert len([file for file in files if not file.path.startswith(own)]) == len(list(to_records(real.image)))


def test_every_path_leads_to_what_was_listed(real: State):
    root = root_of(real)
    for place in walk(Place("/", root)):
        assert data_of(find(root, place.path)) == data_of(place.node)
    assert len(paths(root)) == len(set(paths(root)))


def test_a_topic_is_found_by_name_and_by_id(tmp_path: Path):
    orders(tmp_path)
    root = root_of(state_at(find_log(tmp_path)))
    assert data_of(find(root, "/topicIds/" + uuid_text(ORDERS))) == "orders"
    assert list(find(root, "topics/orders").names()) == ["id", "0", "1"]
    leader = data_of(find(root, "/topics/orders/0"))
    assert isinstance(leader, dict)
    assert (leader["leader"], leader["isr"]) == (2, [1, 2, 3])
    assert data_of(find(root, "/configs/topic/orders")) == {"retention.ms": "1000"}
    assert data_of(find(root, "/metadataQuorum/leader")) == {"leaderId": 2, "leaderEpoch": 3}
    assert data_of(find(root, "/local/offset")) == 11


def test_wildcards_stand_for_what_fits(tmp_path: Path):
    orders(tmp_path)
    root = root_of(state_at(find_log(tmp_path)))
    assert [place.path for place in match(root, "/topics/*/[01]")] == ["/topics/orders/0", "/topics/orders/1"]
    assert [place.path for place in match(root, "/b*/?")] == ["/brokers/1", "/brokers/2"]
    assert [place.path for place in match(root, "/topics/../topics/./orders/")] == ["/topics/orders"]
    assert [place.path for place in match(root, "/")] == ["/"]
    with pytest.raises(UnanswerableError, match="nothing that fits /topics/x"):
        match(root, "/topics/x*")


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/topics/order", "there is no /topics/order; did you mean /topics/orders?"),
        ("/topics/orders/9", "there is no /topics/orders/9"),
        ("/topics/orders/x", "there is no /topics/orders/x"),
        ("/topics/orders/0/leader", "/topics/orders/0 is a file, there is nothing below it"),
        ("/nothing", "there is no /nothing"),
    ],
)
def test_what_is_not_there_is_said_with_a_hint(tmp_path: Path, path: str, words: str):
    orders(tmp_path)
    with pytest.raises(UnanswerableError) as error:
        find(root_of(state_at(find_log(tmp_path))), path)
    assert str(error.value).startswith(words)


def test_names_with_slashes_are_one_name(tmp_path: Path):
    quota = ClientQuotaRecord(
        entity=(ClientQuotaRecordEntityData(entity_type="user", entity_name="CN=a/b%c"),), key="k", value=1.5
    )
    strange = ConfigRecord(resource_type=2, resource_name="orders", name="a/b", value="1")
    orders(tmp_path).batch(quota, strange)
    root = root_of(state_at(find_log(tmp_path)), show_secrets=True)
    assert "/clientQuotas/user=CN=a%2Fb%25c/k" in paths(root)
    assert data_of(find(root, "/clientQuotas/user=CN=a%2Fb%25c/k")) == 1.5
    assert data_of(find(root, "/configs/topic/orders/a%2Fb")) == "1"


def test_no_secret_is_in_the_tree_unless_asked_for(real: State):
    secrets = {
        base64_text(part)
        for record in to_records(real.image)
        if isinstance(record, UserScramCredentialRecord)
        for part in (record.salt, record.stored_key, record.server_key)
    }
    assert len(secrets) > 10
    hidden, told = (str(data_of(root_of(real, show_secrets=show))) for show in (False, True))
    assert [secret for secret in secrets if secret in hidden] == []
    assert [secret for secret in secrets if secret not in told] == []


def test_a_config_whose_type_nobody_knows_is_a_secret(tmp_path: Path):
    orders(tmp_path).batch(
        ConfigRecord(resource_type=4, resource_name="", name="plugin.token", value="s3cret")
    )
    state = state_at(find_log(tmp_path))
    path = "/configs/broker/<default>/plugin.token"
    assert data_of(find(root_of(state), path)) == "[redacted]"
    assert data_of(find(root_of(state, show_secrets=True), path)) == "s3cret"


def test_the_bodies_of_partitions_are_those_of_the_image(real: State):
    root, image = root_of(real), real.image
    for record in to_records(image):
        if isinstance(record, PartitionRecord):
            topic = image[TOPICS].get(record.topic_id)
            assert topic is not None
            data = data_of(find(root, f"/topics/{topic.name}/{record.partition_id}"))
            assert isinstance(data, dict)
            assert data["replicas"] == list(record.replicas)


def test_paths_are_made_normal():
    assert [normal(path) for path in ("", "/", "a//b/./c", "/a/../..", "a/b/..")] == [
        "/",
        "/",
        "/a/b/c",
        "/",
        "/a",
    ]

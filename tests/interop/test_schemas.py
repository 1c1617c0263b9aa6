"""Our schemas say what Kafka's own say, field by field: name, type, versions, nullable versions, default,
tag.

Kafka's are the JSON files inside its jars. What each field means is told in our own words, and not compared.
"""

import json
from typing import Any

import pytest
from generator.schema import Message, on_kafkas_wire
from strategies import MESSAGES

from kraftd.protocol.api_names import KAFKA_APIS
from kraftd.protocol.kafka_codec import KAFKA
from kraftd.records import quorum_state
from kraftd.types import Election
from tests.interop.peer import Kafka
from tests.interop.schemas import MessageFacts, differences, kafkas, ours, schemas_in

OWN_API_KEYS = 20_000
"""The first key of an API of ours, which Kafka has not."""


@pytest.fixture(scope="module")
def metadata(kafka: Kafka) -> dict[str, Any]:
    return schemas_in(kafka.jar("kafka-metadata"), "common/metadata")


@pytest.fixture(scope="module")
def messages(kafka: Kafka) -> dict[str, Any]:
    return schemas_in(kafka.jar("kafka-clients"), "common/message")


def test_kafka_has_no_kind_of_record_that_we_have_not(metadata: dict[str, Any]) -> None:
    assert {schema["name"]: schema["apiKey"] for schema in metadata.values()} == {
        message.name: message.key for message in MESSAGES["records"]
    }
    assert len(metadata) == 26


@pytest.mark.parametrize("message", MESSAGES["records"], ids=lambda message: message.name)
def test_metadata_records(metadata: dict[str, Any], message: Message) -> None:
    mine = ours(message)
    theirs = kafkas(metadata[message.name], mine.versions)
    assert (mine.key, mine.versions) == (theirs.key, theirs.versions)
    assert differences(mine, theirs) == []


@pytest.mark.parametrize("message", MESSAGES["control"], ids=lambda message: message.name)
def test_control_records(messages: dict[str, Any], message: Message) -> None:
    """Their types are an enumeration in Kafka's code, compared by what its dump prints."""
    mine = ours(message)
    theirs = kafkas(messages[message.name], mine.versions)
    assert mine.versions == theirs.versions
    assert differences(mine, theirs) == []


LEFT_OUT_BY_THE_CALLER = {"ElectLeadersResponse.ErrorCode"}
"""What a version that lacks it may drop. In Kafka who makes the message leaves it out, its class does not."""


@pytest.mark.parametrize(
    "message",
    [message for message in MESSAGES["rpc"] if message.key < OWN_API_KEYS],
    ids=lambda message: message.name,
)
def test_requests_and_responses(messages: dict[str, Any], message: Message) -> None:
    """In all versions that Kafka has."""
    mine = ours(on_kafkas_wire(message))
    theirs = kafkas(messages[message.name], mine.versions)
    for name in LEFT_OUT_BY_THE_CALLER & theirs.fields.keys():
        theirs.fields[name] = theirs.fields[name]._replace(ignorable=True)
    assert mine.key == theirs.key
    assert mine.versions == theirs.versions
    assert differences(mine, theirs) == []


NOT_ON_KAFKAS_WIRE = {
    "SaslHandshake": "there is no SASL yet",
    "SaslAuthenticate": "there is no SASL yet",
    "Vote": "between voters, which speak msgpack here",
    "BeginQuorumEpoch": "between voters, which speak msgpack here",
    "EndQuorumEpoch": "between voters, which speak msgpack here",
    "DescribeUserScramCredentials": "Kafka's own controllers do not handle it",
    "DescribeDelegationToken": "Kafka's own controllers do not handle it",
}


def test_every_api_of_kafkas_controllers_has_a_codec(messages: dict[str, Any]) -> None:
    theirs = {
        schema["name"].removesuffix("Request"): schema["apiKey"]
        for schema in messages.values()
        if "controller" in schema.get("listeners", ())
    }
    mine = {api.name: api.key for api in KAFKA.apis.values()}
    assert theirs.keys() - mine.keys() == NOT_ON_KAFKAS_WIRE.keys()
    assert mine.items() <= theirs.items()


@pytest.mark.parametrize("version", [0, 1])
def test_the_election_file(kafka: Kafka, version: int) -> None:
    """It is JSON, in the form of a schema that has no bytes; `data_version` is what tells the version."""
    schema = schemas_in(kafka.jar("kafka-raft"), "common/message")["QuorumStateData"]
    theirs = kafkas(schema, frozenset({version}))
    paths = [name.split(".")[1:] for name in theirs.fields]
    written = json.loads(quorum_state.encode(Election(), version=version, voter_ids=(1,)))
    camel = [path[0][0].lower() + path[0][1:] for path in paths if len(path) == 1]
    assert [*camel, "data_version"] == list(written)
    assert max(theirs.versions) == 1


def facts(change: dict[str, Any]) -> MessageFacts:
    field = {"name": "Isr", "type": "[]int32", "versions": "0+", "nullableVersions": "1+", "default": "null"}
    field |= {"taggedVersions": "0+", "tag": 3} | change
    other = {"name": "Other", "type": "Inner", "versions": "0+"}
    inner = [{"name": "Inner", "fields": [{"name": "Id", "type": "int8", "versions": "0+"}]}]
    schema = {"name": "X", "validVersions": "0-1", "flexibleVersions": "0+"}
    schema |= {"fields": [field, other], "commonStructs": inner}
    return kafkas(schema, frozenset({0, 1}))


@pytest.mark.parametrize(
    "change",
    [
        {"name": "Irs"},
        {"type": "[]int64"},
        {"type": "int32", "default": "0"},
        {"versions": "1+"},
        {"nullableVersions": "0+"},
        {"nullableVersions": "none"},
        {"default": ""},
        {"tag": 4},
        {"taggedVersions": "1+"},
        {"ignorable": True},
    ],
    ids=str,
)
def test_the_comparison_sees_each_kind_of_difference(change: dict[str, Any]) -> None:
    assert differences(facts({}), facts({})) == []
    assert differences(facts({}), facts(change))
    assert differences(facts(change), facts({}))


def test_every_api_of_kafkas_wire_has_the_name_that_kafka_gives_it(kafka: Kafka) -> None:
    schemas = schemas_in(kafka.jar("kafka-clients"), "common/message")
    names = {
        schema["apiKey"]: name.removesuffix("Request")
        for name, schema in schemas.items()
        if name.endswith("Request") and "apiKey" in schema
    }
    assert [names[key] for key in range(len(names))] == list(KAFKA_APIS)

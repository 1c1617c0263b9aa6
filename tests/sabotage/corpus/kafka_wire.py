"""Bugs between Kafka's bytes and the controller: envelopes, shared responses, lengths, what is served."""

from tests.sabotage.mutant import mutant

_ENVELOPES = "tests/unit/runtime/test_envelopes.py"
_CODEC = "tests/unit/protocol/test_kafka_codec.py"
_SESSIONS = "tests/unit/net/test_kafka_session.py"
_METERED = (
    f"{_CODEC}::test_a_long_request_is_only_so_many_elements_and_too_many_are_refused_before_they_are_made"
)
_UNREAD = "test_a_long_request_that_is_refused_whatever_it_holds_is_answered_unread_and_in_its_order"
_FORWARDED = "kraftd.runtime.envelopes:ForwardedClient"

KAFKA_WIRE = (
    mutant(
        "not-controller-reaches-the-client",
        "D-36",
        "A broker that forwarded to a controller that leads no more goes on asking it, and its clients fail.",
        "tests",
        (f"{_FORWARDED}.reply", "if has_error(", "if False and has_error("),
        where=(f"{_ENVELOPES}::test_what_another_controller_has_to_serve_is_an_error_of_the_envelope",),
    ),
    mutant(
        "only-the-first-code-counts",
        "D-36",
        "NOT_CONTROLLER of the second resource of a response stays inside the envelope.",
        "tests",
        (
            "kraftd.protocol.error_codes:has_error",
            "for each in getattr(response, name) or ()",
            "for each in (getattr(response, name) or ())[:1]",
        ),
        where=(f"{_ENVELOPES}::test_what_another_controller_has_to_serve_is_an_error_of_the_envelope",),
    ),
    mutant(
        "the-broker-is-taken-for-its-client",
        "D-36",
        "What a client forwards through a broker is decided with the rights of the broker.",
        "tests",
        (
            f"{_FORWARDED}.__init__",
            "_principal_of(envelope.message)",
            "broker.session.principal",
        ),
        where=(f"{_ENVELOPES}::test_a_decision_sees_the_client_and_not_the_broker_that_forwarded_for_it",),
    ),
    mutant(
        "the-address-before-the-principal",
        "EnvelopeUtils",
        "Of an envelope whose principal and address cannot be read the address is told.",
        "tests",
        (
            f"{_FORWARDED}.__init__",
            "principal = _principal_of(envelope.message)",
            "_host_of(envelope.message); principal = _principal_of(envelope.message)",
        ),
        where=(
            f"{_ENVELOPES}::test_of_a_principal_and_an_address_that_cannot_be_read_the_principal_is_told",
        ),
    ),
    mutant(
        "surrogates-as-in-python",
        "java.lang.String",
        "A principal's name that is no UTF-8 is another one here than for Kafka's brokers.",
        "tests",
        ("kraftd.protocol.principal:_replaced", "raw[at] == _SURROGATE and", "raw[at] == 0 and"),
        where=("tests/unit/protocol/test_principal.py::test_what_is_no_utf_8_is_read_as_java_does",),
    ),
    mutant(
        "records-of-another-position",
        "D-15",
        "A broker gets the batches that the broker before it asked for, and its log has a gap.",
        "tests",
        ("kraftd.protocol.kafka_codec:KafkaCodec.encode_response", " and made[2] == records", ""),
        where=(f"{_CODEC}::test_an_observer_at_another_position_gets_its_own_records",),
    ),
    mutant(
        "body-of-another-version",
        "D-15",
        "A broker of an older release gets a Fetch response in the encoding of a newer one.",
        "tests",
        ("kraftd.protocol.kafka_codec:KafkaCodec.encode_response", " and made[0] == api_version", ""),
        where=(f"{_CODEC}::test_an_observer_is_told_the_newest_high_watermark_in_its_own_version",),
    ),
    mutant(
        "four-mebibytes-for-anybody",
        "D-38",
        "Who has not even asked what is served may make a node keep 4 MiB for it.",
        "tests",
        (
            "kraftd.net.kafka_session:KafkaSession.__init__",
            "min(request_bytes_max, HEAD_BYTES_MAX_BEFORE_HANDSHAKE)",
            "request_bytes_max",
        ),
        where=(f"{_SESSIONS}::test_long_requests_are_for_those_who_asked_what_is_served",),
    ),
    mutant(
        "any-request-may-be-forwarded",
        "D-36",
        "A client of a broker sends what only brokers may, inside an envelope.",
        "tests",
        (
            "kraftd.runtime.envelopes:Envelopes.__init__",
            "FORWARDABLE & router.api_keys",
            "router.api_keys",
        ),
        where=(f"{_ENVELOPES}::test_what_only_brokers_send_is_not_served_inside_an_envelope",),
    ),
    mutant(
        "numbers-cost-nothing",
        "D-38",
        "Four megabytes of numbers become forty of objects at each node that is sent them.",
        "tests",
        ("kraftd.serde.binary:_numbers", "if type(data) is MeteredBytes:", "if False:"),
        where=(_METERED,),
    ),
    mutant(
        "only-the-outermost-elements-count",
        "D-38",
        "A long request with few topics is as many partitions as its bytes allow, and takes 27 times as much memory.",
        "tests",
        (
            "kraftd.serde.binary:_elements",
            "if type(data) is MeteredBytes:",
            "if type(data) is MeteredBytes and position < 32:",
        ),
        where=(_METERED,),
    ),
    mutant(
        "tagged-fields-cost-nothing",
        "D-38",
        "Each struct of a long request brings 64 tagged fields, of three bytes on the wire and 110 in memory.",
        "tests",
        ("kraftd.serde.tagged:read_unknown_tags", "if type(data) is MeteredBytes:", "if False:"),
        where=(_METERED,),
    ),
    mutant(
        "counted-when-made",
        "D-38",
        "Too many elements are refused once they are there: the memory is gone by then.",
        "tests",
        (
            "kraftd.serde.binary:_elements",
            "    return tuple(values), position",
            "    if type(data) is MeteredBytes:\n        data.take(count, position)\n    return tuple(values), position",
        ),
        (
            "kraftd.serde.binary:_elements",
            "if type(data) is MeteredBytes:\n        data.take(count, position)\n    if count == 1:",
            "if count == 1:",
        ),
        where=(_METERED,),
    ),
    mutant(
        "a-brokers-long-request-is-read-by-all",
        "D-38",
        "A node that leads nothing decodes 4 MiB only to say that it does not lead.",
        "tests",
        (
            "kraftd.net.kafka_session:KafkaSession.handle",
            "len(frame) > SHORT_REQUEST_BYTES_MAX and",
            "len(frame) < 0 and",
        ),
        where=(f"{_SESSIONS}::{_UNREAD}",),
    ),
    mutant(
        "the-active-controller-refuses-unread",
        "D-36",
        "A broker with many partitions is told by the active controller itself to look for another one.",
        "tests",
        (
            "kraftd.controller.quorum_controller:QuorumController.refusal_unread",
            "if self._active is None else None",
            "",
        ),
        where=(
            "tests/unit/controller/test_controller.py"
            "::test_who_does_not_lead_refuses_a_brokers_partitions_whatever_they_are",
        ),
    ),
    mutant(
        "a-slow-kraftd-is-called-kafka",
        "D-36",
        "Whatever answers in Kafka's protocol only is taken for a node of Kafka.",
        "tests",
        ("kraftd.cli.active_controller:_speaker_of", "connection.serves(_VOTE)", "True"),
        where=("tests/unit/cli/test_slow_nodes.py",),
    ),
    mutant(
        "a-slow-kraftd-is-not-asked-again",
        "D-36",
        "A node of kraftd that was silent for a moment is given up though the command has time.",
        "tests",
        ("kraftd.cli.active_controller:ask_kraftd", "speaker is None or left.ms <= 0", "True"),
        where=("tests/unit/cli/test_slow_nodes.py",),
    ),
)

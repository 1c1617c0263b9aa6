"""Bugs of what a connection keeps while it is open, and of how one is opened."""

from tests.sabotage.mutant import mutant

_IDLE = "tests/unit/net/test_idle_connections.py"
_KEPT = f"{_IDLE}::test_an_idle_connection_keeps_little_of_what_was_said_on_it"

CONNECTIONS = (
    mutant(
        "a-greeting-is-kept",
        "D-38",
        "A client that greeted with 64 KiB costs ten times as much memory while it stays and says nothing.",
        "tests",
        (
            "kraftd.net.server:InboundConnection._greet",
            "self._claimed_id = node_id",
            "self._claimed_id, self._kept = node_id, greeting",
        ),
        where=(_KEPT,),
    ),
    mutant(
        "long-names-are-kept",
        "D-38",
        "A client of Kafka's wire that asked what is served is remembered by names of 30 KB.",
        "tests",
        (
            "kraftd.net.kafka_session:_names_in",
            "brief(request.message.client_software_name, WORDS_BYTES_MAX)",
            "request.message.client_software_name",
        ),
        where=(_KEPT,),
    ),
    mutant(
        "any-client-id-is-kept",
        "D-38",
        "A connection keeps what its last request called itself, however long that is.",
        "tests",
        (
            "kraftd.runtime.controller_apis:ControllerApis._handle",
            'client if len(request.client_id or "") <= CLIENT_ID_MAX else None',
            "client",
        ),
        where=(
            "tests/unit/runtime/test_controller_apis.py"
            "::test_of_a_long_client_id_a_connection_keeps_nothing_and_the_decision_is_told_all",
        ),
    ),
    mutant(
        "a-client-id-is-a-book",
        "D-38",
        "A request on msgpack that waits is kept with a client id of a megabyte.",
        "tests",
        (
            "kraftd.protocol.msgpack_codec:MsgpackCodec.decode_request",
            "len(head.client_id) > CLIENT_ID_MAX",
            "False",
        ),
        where=(f"{_IDLE}::test_a_client_id_of_msgpack_is_a_name_and_not_a_book",),
    ),
)

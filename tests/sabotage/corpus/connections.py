"""Bugs of what a connection keeps while it is open, and of how one is opened."""

from tests.sabotage.mutant import mutant

_IDLE = "tests/unit/net/test_idle_connections.py"
_KEPT = f"{_IDLE}::test_an_idle_connection_keeps_little_of_what_was_said_on_it"
_FETCHES = "tests/unit/runtime/test_committed_fetches.py"
_NAMES = "tests/unit/net/test_addresses.py"
_BOOK = "kraftd.net.addresses:AddressBook"
_REGISTRATION = "tests/unit/runtime/test_registration_manager.py"

_STOPS = "tests/unit/net/test_network.py"
_GIVEN_UP = "tests/unit/net/test_given_up.py"

CONNECTIONS = (
    mutant(
        "who-read-some-is-waited-for",
        "D-17",
        "A reader that takes all but a little of what is left at a stop, and then nothing, holds the node up.",
        "tests",
        ("kraftd.net.connection:FrameConnection.resume_writing", "if self.is_open:", "if True:"),
        where=(f"{_STOPS}::test_who_has_read_some_of_what_is_left_at_a_stop_has_no_more_time",),
    ),
    mutant(
        "a-stop-without-a-deadline",
        "D-17",
        "A node that stops waits for each connection, however long that takes.",
        "tests",
        ("kraftd.net.server:Server.stop", "limits.STOP_TIMEOUT_MS / 1_000", "3_600"),
        where=(f"{_STOPS}::test_a_server_that_stops_does_not_wait_for_who_does_not_read",),
    ),
    mutant(
        "slow-before-it-was-closed",
        "D-38",
        "Who was slow when its connection was closed is cut off as if it had had its time already.",
        "tests",
        ("kraftd.net.connection:FrameConnection.close", "self._end_watch()", "pass"),
        where=(f"{_STOPS}::test_a_connection_that_is_closed_has_its_whole_time_to_be_read",),
    ),
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
    mutant(
        "the-disk-is-read-for-the-gone",
        "D-24",
        "Whoever asks for committed records and closes its connection has the disk read for itself, and others wait.",
        "tests",
        (
            "kraftd.runtime.committed_fetches:CommittedFetches.forget",
            "if each.connection.number != connection.number",
            "",
        ),
        where=(f"{_FETCHES}::test_what_a_closed_connection_asked_for_is_not_read",),
    ),
    mutant(
        "any-number-waits-for-the-disk",
        "D-38",
        "Readers of old records wait for the disk, however many they are.",
        "tests",
        ("kraftd.runtime.committed_fetches:CommittedFetches.serve", " + len(self._unread)", ""),
        where=(f"{_FETCHES}::test_those_who_wait_for_the_disk_are_so_many_at_most",),
    ),
    mutant(
        "a-host-that-is-none-ends-a-start",
        "D-14",
        "A controller that is to register at a host with an empty label ends.",
        "tests",
        ("kraftd.runtime.registration_manager:RegistrationManager._ask", "(OSError, ValueError)", "OSError"),
        where=(_REGISTRATION,),
    ),
    mutant(
        "keys-are-kept-whole",
        "D-38",
        "A logger remembers a thousand texts of 32 KB that peers chose.",
        "tests",
        ("kraftd.net.rate_limited_logger:_brief", "key[: limits.LOG_TEXT_MAX]", "key"),
        where=("tests/unit/net/test_rate_limited_logger.py",),
    ),
    mutant(
        "a-lookup-takes-of-the-connects-time",
        "D-14",
        "Nodes whose names take two seconds to resolve never connect to each other.",
        "tests",
        (
            "kraftd.net.peer_connections:PeerConnection._connect",
            "asyncio.timeout(None)",
            "asyncio.timeout(CONNECT_MS / 1_000)",
        ),
        where=(f"{_NAMES}::test_a_name_may_take_longer_to_resolve_than_a_connect_may_take",),
    ),
    mutant(
        "a-name-server-is-needed-each-time",
        "D-14",
        "While the name server is away no connection between nodes that was lost comes back.",
        "tests",
        (f"{_BOOK}.of", "if host in self._known:\n            return", "if False:\n            return"),
        where=(f"{_NAMES}::test_while_a_name_leads_nowhere_the_addresses_of_before_are_tried",),
    ),
    mutant(
        "known-addresses-wait-for-the-name-server",
        "D-14",
        "A connection that was lost waits a quarter of a minute for a name server, though the address is known.",
        "tests",
        (f"{_BOOK}.of", "PROMPT_MS if host in self._known else within_ms", "within_ms"),
        where=(
            f"{_NAMES}::test_while_a_lookup_runs_the_addresses_of_before_are_tried_again_and_again",
            f"{_NAMES}::test_a_voter_that_proves_itself_while_it_is_looked_up_is_connected_to_at_once",
        ),
    ),
    mutant(
        "a-lookup-ends-with-who-waits",
        "D-14",
        "While lookups take longer than an attempt waits for them, a peer that moved is never found.",
        "tests",
        (
            f"{_BOOK}.of",
            "await asyncio.wait((lookup,), timeout=wait_ms / 1_000)",
            "if not (await asyncio.wait((lookup,), timeout=wait_ms / 1_000))[0]:\n        lookup.cancel()",
        ),
        where=(f"{_NAMES}::test_a_peer_that_moved_is_found_though_another_node_is_at_its_old_address",),
    ),
    mutant(
        "each-attempt-begins-a-lookup",
        "D-14",
        "Challenges fill the queue of the system's lookups, and the third peer of four is never found.",
        "tests",
        (f"{_BOOK}.of", "lookup = self._lookups.get(host)", "lookup = None"),
        where=(f"{_NAMES}::test_one_lookup_of_a_host_at_a_time_serves_all_who_want_it_whenever_it_ends",),
    ),
    mutant(
        "what-was-found-first-stays",
        "D-14",
        "Newer addresses of a peer that moved are not taken over from a lookup that took longer than its attempt.",
        "tests",
        (f"{_BOOK}._look_up", "self._known[host] = found", "self._known.setdefault(host, found)"),
        (f"{_BOOK}._look_up", "self._known.pop(host, None)", "pass"),
        where=(f"{_NAMES}::test_a_peer_that_moved_is_found_though_another_node_is_at_its_old_address",),
    ),
    mutant(
        "hosts-are-remembered-without-bound",
        "D-38",
        "A quorum whose voters move from host to host grows in memory.",
        "tests",
        (f"{_BOOK}._look_up", "len(self._known) > HOSTS_MAX", "False"),
        where=(f"{_NAMES}::test_as_many_hosts_are_remembered_as_a_quorum_has_and_the_newest",),
    ),
    mutant(
        "another-attempt-is-a-failure",
        "D-37",
        "The requests to a voter that proves itself fail, since an attempt was ended to connect to it at once.",
        "tests",
        ("kraftd.net.peer_connections:PeerConnection.run", "elif self._retry.is_set():", "elif False:"),
        where=(f"{_NAMES}::test_a_voter_that_proves_itself_while_it_is_looked_up_is_connected_to_at_once",),
    ),
    mutant(
        "a-lookup-takes-of-the-registrations-time",
        "D-14",
        "A controller whose leader's name takes five seconds to resolve is never registered.",
        "tests",
        (
            "kraftd.runtime.registration_manager:RegistrationManager._ask",
            "found = await self._address_book.of(active.host, addresses.LOOKUP_MS)",
            "async with asyncio.timeout(REQUEST_S):\n"
            "            found = await self._address_book.of(active.host, addresses.LOOKUP_MS)",
        ),
        where=(f"{_REGISTRATION}::test_a_lookup_takes_nothing_of_the_requests_time",),
    ),
    mutant(
        "one-address-of-the-active-controller",
        "D-14",
        "A controller is not registered while the first address of the leader's name is dead.",
        "tests",
        (
            "kraftd.runtime.registration_manager:RegistrationManager._ask",
            "for address in found:",
            "for address in found[:1]:",
        ),
        where=(f"{_REGISTRATION}::test_an_address_that_is_silent_does_not_hide_the_next_one",),
    ),
    mutant(
        "only-the-first-address-is-tried",
        "D-14",
        "A peer with a dead address of IPv6 and a good one of IPv4 is never reached.",
        "tests",
        (
            "kraftd.net.addresses:connect",
            "if was_opened or number == len(addresses):",
            "if was_opened or number == 1:",
        ),
        where=(f"{_NAMES}::test_an_address_that_does_not_answer_does_not_hide_the_next_one",),
    ),
    mutant(
        "a-connect-is-given-up-and-nobody-is-told",
        "D-17",
        "A node that stands still as it connects writes to a socket that uvloop has closed, and ends.",
        "tests",
        (
            "kraftd.net.addresses:_open",
            'connection.abandon("the attempt to connect was given up")',
            "pass",
        ),
        where=(
            f"{_GIVEN_UP}::test_the_time_to_connect_may_run_out_in_the_turn_in_which_it_connects",
            f"{_GIVEN_UP}::test_a_node_may_stop_as_it_connects",
        ),
    ),
    mutant(
        "an-end-is-told-twice",
        "D-08",
        "The end of a connect that was given up is told by whoever gave it up, and by the loop once more.",
        "tests",
        (
            "kraftd.net.connection:FrameConnection.connection_lost",
            "if self._transport is None:",
            "if False:",
        ),
        where=(f"{_GIVEN_UP}::test_an_attempt_that_is_cancelled_as_it_connects_ends_the_connection_once",),
    ),
    mutant(
        "a-given-up-connection-is-kept",
        "D-08",
        "The raft node keeps a connection that it could show a nonce on, though its socket is closed.",
        "sim",
        ("kraftd.net.connection:FrameConnection.abandon", "call_soon(self._tell_end)", "time()"),
    ),
    mutant(
        "a-manifest-opens-every-snapshot",
        "D-38",
        "A client that asks for manifests has the loop open hundreds of files for each.",
        "tests",
        (
            "kraftd.runtime.log_export:LogExports._snapshots",
            "held[name] if name in held else _size_of(disk, folder / name)",
            "_size_of(disk, folder / name)",
        ),
        where=(
            "tests/unit/runtime/test_log_export.py::test_a_manifest_opens_no_snapshot_whose_size_is_known",
        ),
    ),
)

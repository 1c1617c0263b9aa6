"""Bugs of the one boundary between bytes and messages, of links and pages, and of bounds in time (D-38)."""

from tests.sabotage.mutant import mutant

_NET = "tests/unit/net/test_budgets.py"
_CLAIMS = "tests/unit/net/test_claims.py"
_STORIES = "tests/stories/test_claims.py"
_PAGES = "tests/unit/controller/test_response_room.py"
_HTTP = "tests/unit/runtime/test_http_server.py"
_SERVED = "kraftd.net.budgeted:BudgetedConnection"
_SERVER = "kraftd.net.server:InboundConnection"
_LINK = "kraftd.net.peer_connections:PeerConnection"
_OUTBOUND = "kraftd.net.outbound:OutboundConnection"

BOUNDARY = (
    # --- between bytes and messages ---
    mutant(
        "a-second-decode",
        "D-38",
        "What could not be decoded is decoded once more for its response, and a RecursionError leaves the callback.",
        "process",
        (
            f"{_SERVER}._handle_before_greeting",
            "except Exception as error:  # noqa: BLE001 - wire boundary (D-38)\n        self._undecodable(error)",
            "except Exception as error:\n"
            "        import msgspec\n"
            "        try:\n"
            "            msgspec.msgpack.decode(frame)\n"
            "        except msgspec.MsgspecError:\n"
            "            pass\n"
            "        self._undecodable(error)",
        ),
        where=(
            "tests/process/test_untrusted_input.py::test_garbage_on_the_port_ends_its_connection_and_nothing_else",
        ),
    ),
    mutant(
        "known-errors-of-framing-only",
        "D-38",
        "What nobody expected of a cut through a stream ends the process.",
        "tests",
        (f"{_SERVED}._cut", "except Exception as error:", "except ValueError as error:"),
        where=(f"{_NET}::test_whatever_is_raised_between_bytes_and_messages_costs_one_connection",),
    ),
    mutant(
        "known-errors-of-decoding-only",
        "D-38",
        "What nobody expected of a decoder ends the process.",
        "tests",
        (
            f"{_SERVER}._handle_before_greeting",
            "except Exception as error:",
            "except (MalformedRequestError, UnsupportedVersion) as error:",
        ),
        where=(f"{_NET}::test_a_frame_as_deep_as_the_stack_costs_one_connection",),
    ),
    mutant(
        "known-errors-of-a-greeting-only",
        "D-38",
        "What nobody expected of the words of a greeting ends the process.",
        "tests",
        (f"{_SERVER}._greet", "except Exception as error:", "except ValueError as error:"),
        where=(f"{_NET}::test_whatever_is_raised_between_bytes_and_messages_costs_one_connection",),
    ),
    mutant(
        "known-errors-of-answers-only",
        "D-38",
        "A response that cannot be encoded for a reason that nobody thought of ends the process.",
        "tests",
        (f"{_SERVED}.send_response", "except Exception as error:", "except ValueError as error:"),
        where=(f"{_NET}::test_whatever_is_raised_between_bytes_and_messages_costs_one_connection",),
    ),
    mutant(
        "known-errors-of-links-only",
        "D-38",
        "What nobody expected of a node's response ends the process that asked.",
        "tests",
        (f"{_OUTBOUND}._handle_frame", "except Exception as error:", "except ValueError as error:"),
        where=(f"{_NET}::test_a_response_that_cannot_be_read_costs_its_link_one_connection",),
    ),
    mutant(
        "the-handler-is-inside-the-boundary",
        "D-17",
        "What the core raises costs one connection, and the process goes on with half of a change.",
        "tests",
        (
            f"{_SERVED}.dispatch",
            "self._handler.request_received(self, request)",
            "try:\n"
            "        self._handler.request_received(self, request)\n"
            "    except Exception as error:\n"
            '        self.fail("answering", error)',
        ),
        where=(f"{_NET}::test_what_the_handler_raises_is_not_the_connections_affair",),
    ),
    mutant(
        "an-os-error-of-ours-is-the-connections",
        "D-17",
        "A disk's error while a request is handled looks to the loop like trouble of that connection.",
        "tests",
        (f"{_SERVED}._handle_at_once", "except OSError as error:", "except UnencodableError as error:"),
        where=(f"{_NET}::test_an_error_of_our_disk_is_not_taken_for_trouble_of_the_connection",),
    ),
    mutant(
        "malformed-is-not-counted",
        "D-38",
        "Bytes that are no request are a line in the log and in no metric.",
        "tests",
        ("kraftd.net.connection:FrameConnection.reject", "self.tally.malformed += 1", "pass"),
        where=(f"{_NET}::test_a_frame_as_deep_as_the_stack_costs_one_connection",),
    ),
    mutant(
        "a-frame-of-any-length",
        "D-38",
        "A frame that says it is 4 GiB long is waited for.",
        "tests",
        (
            "kraftd.protocol.framing:FrameReader._checked_size",
            "if codec is None or not 0 < length <= self.limit_bytes:",
            "if codec is None or length == 0:",
        ),
        where=("tests/unit/protocol/test_framing.py::test_what_is_no_frame_is_refused",),
    ),
    mutant(
        "a-whole-frame-of-any-length",
        "D-38",
        "A read that is just one frame may be longer than a stranger may send.",
        "tests",
        ("kraftd.protocol.framing:FrameReader.whole", "length == size <= self.limit_bytes", "length == size"),
        where=("tests/unit/protocol/test_framing.py::test_the_limit_can_rise_after_the_handshake",),
    ),
    mutant(
        "a-head-of-any-length",
        "D-38",
        "A body may be as long as records, which are not decoded.",
        "tests",
        (
            "kraftd.protocol.msgpack_codec:_checked_records",
            "if len(frame) - size > HEAD_BYTES_MAX:",
            "if False:",
        ),
        where=("tests/unit/protocol/test_codec.py::test_a_head_is_bounded_apart_from_its_records",),
    ),
    mutant(
        "answers-that-nobody-takes",
        "D-38",
        "A response leaves that is longer than our own client takes: it 'does not speak kraftd's protocol'.",
        "tests",
        (
            "kraftd.protocol.msgpack_codec:MsgpackCodec.encode_response",
            "if len(buffers[0]) > HEAD_BYTES_MAX:",
            "if False:",
        ),
        where=("tests/unit/protocol/test_codec.py::test_a_response_that_nobody_takes_is_not_sent",),
    ),
    # --- pages ---
    mutant(
        "a-page-skips-an-entry",
        "D-38",
        "The cursor names the first entry of the next page, which is behind it then.",
        "tests",
        ("kraftd.controller.configs.listing:list_configs", "last = page[-1]", "last = entry"),
        where=(f"{_PAGES}::test_a_listing_goes_on_behind_each_page",),
    ),
    mutant(
        "a-page-repeats-an-entry",
        "D-38",
        "The cursor names the last entry but one, so the last is told twice.",
        "tests",
        ("kraftd.controller.configs.listing:list_configs", "last = page[-1]", "last = page[-2:][0]"),
        where=(f"{_PAGES}::test_a_listing_goes_on_behind_each_page",),
    ),
    mutant(
        "a-page-of-any-length",
        "D-38",
        "A page holds so many entries, however long they are.",
        "tests",
        (
            "kraftd.controller.response_room:PageRoom.add",
            "or (size_bytes > self._bytes and not is_first)",
            "",
        ),
        where=(f"{_PAGES}::test_the_longest_configs_are_a_page_each_at_least",),
    ),
    mutant(
        "a-page-of-any-number",
        "D-38",
        "A page holds so many bytes, however many entries they are.",
        "tests",
        ("kraftd.controller.response_room:PageRoom.add", "or self._entries == 0", ""),
        where=(f"{_PAGES}::test_a_listing_goes_on_behind_each_page",),
    ),
    mutant(
        "an-echo-of-any-length",
        "D-38",
        "Each of 60,000 names of a request is answered, however long that makes the response.",
        "tests",
        (
            "kraftd.controller.response_room:OutcomeRoom.__init__",
            "(n for n, end in enumerate(ends) if end > OUTCOMES_BYTES_MAX)",
            "(n for n, end in enumerate(ends) if end < 0)",
        ),
        where=(f"{_PAGES}::test_every_response_to_many_resources_is_bounded",),
    ),
    mutant(
        "texts-without-room",
        "D-38",
        "The texts of outcomes are told although the error codes left no room for them.",
        "tests",
        (
            "kraftd.controller.response_room:OutcomeRoom.text",
            "if not size or size > self._left:",
            "if not size:",
        ),
        where=(f"{_PAGES}::test_every_response_to_many_resources_is_bounded",),
    ),
    # --- HTTP ---
    mutant(
        "http-line-of-any-length",
        "D-38",
        "A request's first line may be as long as aiohttp lets it be.",
        "tests",
        ("kraftd.runtime.http_server:HttpServer.__init__", "max_line_size=_LINE_BYTES_MAX,", ""),
        where=(f"{_HTTP}::test_what_is_no_small_request_is_refused_without_a_trace",),
    ),
    mutant(
        "http-header-of-any-length",
        "D-38",
        "A header may be as long as aiohttp lets it be.",
        "tests",
        ("kraftd.runtime.http_server:HttpServer.__init__", "max_field_size=_HEADER_BYTES_MAX,", ""),
        where=(f"{_HTTP}::test_what_is_no_small_request_is_refused_without_a_trace",),
    ),
    mutant(
        "http-headers-of-any-number",
        "D-38",
        "A request may have as many headers as aiohttp lets it have.",
        "tests",
        ("kraftd.runtime.http_server:HttpServer.__init__", "max_headers=_HEADERS_MAX,", ""),
        where=(f"{_HTTP}::test_what_is_no_small_request_is_refused_without_a_trace",),
    ),
    mutant(
        "http-keeps-alive",
        "D-38",
        "A connection that was answered once asks on, beside the pace at which others are let in.",
        "tests",
        (
            "kraftd.runtime.http_server:HttpServer._serve_once",
            "response.force_close()\n    return response",
            "return response",
        ),
        where=(f"{_HTTP}::test_a_request_is_answered_and_its_connection_closed",),
    ),
    mutant(
        "http-makes-a-page-for-each",
        "D-38",
        "The page of metrics is made anew for everybody who asks at the same time.",
        "tests",
        ("kraftd.runtime.http_server:HttpServer._serve_metrics", "if now >= self._page_until:", "if True:"),
        where=(f"{_HTTP}::test_the_page_of_metrics_is_made_once_for_all_who_ask_at_the_same_time",),
    ),
    # --- handing over ---
    mutant(
        "resign-waits-for-the-dead",
        "D-09",
        "A leader that hands over to a voter that is dead takes no write for as long as the request says: 24 days.",
        "tests",
        (
            "kraftd.raft.resignation:Resignation._has_stopped_fetching",
            "return now.mono_ms >=",
            "return False and now.mono_ms >=",
        ),
        where=(
            "tests/stories/test_handing_over.py::test_a_successor_that_is_silent_is_waited_for_no_longer_than_for_a_fetch",
        ),
    ),
    mutant(
        "resign-waits-as-long-as-asked",
        "D-38",
        "Whoever asks a leader to hand over says how long nobody can write.",
        "tests",
        (
            "kraftd.runtime.controller_apis:ControllerApis._serve_resign",
            "min(message.timeout_ms, RESIGN_TIMEOUT_MS_MAX)",
            "message.timeout_ms",
        ),
        where=(
            "tests/unit/runtime/test_controller_apis.py::test_nobody_says_for_how_many_days_a_leader_waits_for_its_successor",
        ),
    ),
    # --- nonces, challenges and links ---
    mutant(
        "challenge-without-end",
        "D-37",
        "A challenge that was answered stands for ever, and is in the way of the next one.",
        "tests",
        (
            f"{_OUTBOUND}._on_handshake_response",
            "if self.is_challenge:\n        return",
            "if self.is_challenge:\n        self._cancel_handshake_timer()\n        return",
        ),
        where=(f"{_CLAIMS}::test_a_challenge_ends_soon_and_does_not_stand_in_the_way_of_the_next_one",),
    ),
    mutant(
        "challenge-is-kept-by-its-taker",
        "D-37",
        "Whoever says that it only brings a nonce keeps its connection for as long as it likes.",
        "tests",
        (f"{_SERVER}._greet", "if not greeting.challenge:", "if True:"),
        where=(f"{_CLAIMS}::test_who_takes_a_challenge_does_not_keep_it",),
    ),
    mutant(
        "challenges-beside-challenges",
        "D-37",
        "Each wish for a challenge opens one more connection to the voter, beside those that stand.",
        "tests",
        (
            f"{_LINK}.challenge",
            "if self._challenge is not None and not self._challenge.is_over:",
            "if False:",
        ),
        where=(f"{_CLAIMS}::test_of_one_voter_there_is_one_challenge_at_a_time",),
    ),
    mutant(
        "challenges-that-came-without-bound",
        "D-37",
        "Every nonce that somebody brings under a voter's id is kept, and shown to that voter, however many.",
        "tests",
        (
            "kraftd.raft.claims:Claims.on_claimed",
            "same = [n for n, (claimed_id, _) in self._delivered.items() if claimed_id == peer_id]",
            "same = ()",
        ),
        where=(f"{_STORIES}::test_the_newest_challenges_are_kept_and_the_oldest_go",),
    ),
    mutant(
        "brought-nonces-outlive-their-connection",
        "D-37",
        "Nonces of challenges that ended are kept, and shown for ever.",
        "tests",
        ("kraftd.raft.claims:Claims.on_closed", "self._delivered.pop(connection, None)", "pass"),
        where=(f"{_STORIES}::test_a_nonce_that_a_challenge_brought_is_void_when_the_challenge_ended",),
    ),
    mutant(
        "patience-runs-on-while-a-nonce-is-awaited",
        "D-37",
        "A link that the other end has not confirmed after five seconds is closed by this end.",
        "tests",
        (
            f"{_OUTBOUND}._on_handshake_response",
            "self._cancel_handshake_timer()  # from here on the other end limits how long it waits for a nonce",
            "pass",
        ),
        where=(f"{_CLAIMS}::test_a_link_waits_for_its_confirmation_as_long_as_the_other_end_does",),
    ),
    mutant(
        "confirmed-and-not-connected-to",
        "D-37",
        "A voter that was just confirmed is not connected to before the link has rested, so it waits for a nonce.",
        "tests",
        (f"{_LINK}.confirmed", "self.retry_now()", "pass"),
        where=(f"{_CLAIMS}::test_a_link_that_rests_connects_at_once_to_a_voter_that_was_confirmed",),
    ),
    mutant(
        "connecting-to-where-nobody-was",
        "D-37",
        "A connect that began while a machine was off is waited for although the machine is back.",
        "tests",
        (
            f"{_LINK}.retry_now",
            "if limit is not None and not limit.expired():",
            "if False:",
        ),
        where=(
            f"{_CLAIMS}::test_a_connect_that_nobody_answers_does_not_delay_the_one_to_where_the_voter_is_now",
        ),
    ),
    mutant(
        "acknowledgements-of-another-disk",
        "D-06",
        "A leader counts what a voter acknowledged before its disk was replaced by an older one.",
        "tests",
        ("kraftd.raft.state:RaftState.identify", "self.leader_state.reset_follower(peer.node_id)", "pass"),
        where=(
            "tests/stories/test_identity.py::test_what_a_disk_acknowledged_does_not_count_after_it_was_replaced",
        ),
    ),
)

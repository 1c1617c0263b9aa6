"""What a peer may cost us at most: the one table of bounds (D-38).

Sizes of frames are checked by `framing` and `codec`, counts inside a body by the typed decoders
(`kraftd.serde.msgpack_types`), the rest by the server. Every number here is a promise to the others on the
machine, not a tuning knob.
"""

from typing import Final

from kraftd.serde import msgpack_types

KIB: Final = 1024
MIB: Final = 1024 * KIB

HEAD_BYTES_MAX_BEFORE_HANDSHAKE: Final = 64 * KIB
"""A frame without its records, from someone who has not said who it is."""

HEAD_BYTES_MAX: Final = 1 * MIB
"""A frame without its records, after the handshake."""

PAGE_BYTES_MAX: Final = 256 * KIB
"""What a response that grows with the image holds: a page of a listing, or everything that was asked for. One
config always fits, with every place that its value could come from; the rest of a head is room for names and
outcomes.
"""

PAGE_ENTRIES_MAX: Final = 1024
"""Entries of such a response: a page of small ones must not hold up the loop."""

OUTCOMES_BYTES_MAX: Final = 512 * KIB
"""Outcomes of one response, one for each resource of the request. What does not fit was not done."""

HOST_BYTES_MAX: Final = 253
"""The longest name of a host that DNS knows. What a peer says that it is called may be longer."""

ACLS_BYTES_MAX: Final = 2 * MIB
"""ACLs of one response, as msgpack would take for them; Kafka's wire has no pages of them. Some 15,000 usual
ones."""

CLUSTER_ID_BYTES_MAX: Final = 32_767
"""The longest text that Kafka's own protocol can carry. Its tools take any text for a cluster id."""

CLIENT_ID_MAX: Final = 256
"""Characters of a client id: on msgpack, where nodes and kraftctl name themselves, longer ones are refused.
On Kafka's wire they may have 32,767 bytes and count as a whole, but are kept no longer than their request.
"""

WORDS_BYTES_MAX: Final = 200
"""What a response tells of a peer's words, or of a name in a request that means nothing here."""

ALARM_BYTES_MAX: Final = 4 * KIB
ALARMS_MAX: Final = 16
"""What a response tells of one thing that is wrong with a node, and of how many."""

IN_TROUBLE_MAX: Final = 16
"""Fenced brokers and offline partitions that a response names; it tells how many there are, too."""

PLANS_MAX: Final = 64
"""What is worked off in slices that a response tells of, of how much there is."""

FILES_MAX: Final = 8192
"""Files of one export."""

SHORT_REQUEST_BYTES_MAX: Final = 64 * KIB
"""The body of a request that is not about many configs, but about one partition, some voters, a position. It
could else be 300,000 nested structs of three bytes, which take 0.1 s and 55 MB to decode."""

KAFKA_FRAME_BYTES_MAX: Final = 4 * MIB
"""The longest request of Kafka's wire: what a broker has to say of all its partitions. Other requests about
many things have `HEAD_BYTES_MAX`: filled with 4 MiB of the smallest elements they took 0.9 s and 128 MB, and
three of them an election. Whatever a frame holds, decoding it takes at most 32 times as many bytes of memory,
and 20 ms for 64 KiB."""

KAFKA_ELEMENTS_MAX: Final = 3 * msgpack_types.ARRAY_LENGTH_MAX
"""Structs, strings and tagged fields of a request of Kafka's wire about many things: as many as one of
msgpack may hold, in its array and inside that. Checked before they are made: 1 MiB could else be 260,000 of
them, which take 27 MB. An operation makes no more than `OPERATION_RECORDS_MAX` records of them.
"""

KAFKA_LONGEST_ELEMENTS_MAX: Final = 13 * msgpack_types.ARRAY_LENGTH_MAX
"""The same of the longest: what a broker has to say of 50,000 partitions with three replicas in sync each."""

RECORDS_BYTES_MAX: Final = 8 * MIB
"""The records of one frame."""

FRAME_BYTES_MAX: Final = HEAD_BYTES_MAX + RECORDS_BYTES_MAX

ARRAY_LENGTH_MAX: Final = msgpack_types.ARRAY_LENGTH_MAX
"""Elements of one array in a body. Checked before anything is allocated for them: a short element is decoded
to some 300 bytes. An operation of `OPERATION_RECORDS_MAX` changes fits.
"""

NESTED_ELEMENTS_MAX: Final = 2 * ARRAY_LENGTH_MAX
"""Elements of all arrays inside the array of a long request, checked before anything is allocated for them:
one of five bytes is decoded to 200. Twice what one operation or one response holds at least.
"""

TAGS_MAX: Final = msgpack_types.TAGS_MAX
"""Tagged fields of one struct."""

COMMITTED_BYTES_MAX: Final = 256 * KIB
"""The batches of a response to a reader that is no replica; one that is larger comes alone."""

WATCHERS_MAX: Final = 256
"""Readers that wait for the next commit on one node, or for the disk; above, they are answered at once,
without records."""

OPERATION_BYTES_MAX: Final = 8 * MIB
"""Record bytes of one operation; above, it is refused as a whole (KAFKA-14204)."""

CONFIRMED_ELEMENTS_MAX: Final = 16_384
"""Elements of all requests that change nothing and wait for a confirmed leader, unless one alone has more;
further ones are refused. Their responses are kept until then, and all of them may be made in one turn, which
takes some 30 ms.
"""

BYTES_AN_ELEMENT: Final = 64
"""So many bytes of names and values in such a request count as one more element."""

OPERATION_RECORDS_MAX: Final = 10_000
"""Records of one operation; above, it is refused as a whole."""
SUBSCRIPTIONS_LENGTH_MAX: Final = 64 * KIB
"""Characters of client metrics' configs that one request may set; the resource with which they become more is
refused. Among them are patterns, which are read: some 0.3 us a character, and 1.5 us if they are hostile.
"""

CONNECTIONS_MAX: Final = 4096
"""Connections in all but those of voters. Above, strangers make room, then clients that ask nothing."""

CONNECTIONS_PER_ADDRESS_MAX: Final = 1024
"""The same from one address; a benchmark on one machine needs hundreds."""

PEER_CONNECTIONS_RESERVED: Final = 128
"""Slots besides `CONNECTIONS_MAX`, which no client can take: half for connections that have not greeted yet,
half for voters.
"""

NEWCOMERS_RESERVED: Final = PEER_CONNECTIONS_RESERVED // 2
"""Who connects when all else is taken may still say that it is a voter; the oldest of these go first."""

CLAIMS_PER_VOTER_MAX: Final = 16
"""Connections under one voter's id that are not confirmed; the oldest goes when one more comes."""

HANDSHAKE_TIMEOUT_MS: Final = 5_000
"""How long a connection may stay silent about who it is."""

HANDSHAKE_BYTES_MAX: Final = 64 * KIB
"""What a connection may send before it has said who it is, and before a voter is confirmed, in all."""

IDLE_SWEEP_MS: Final = 5_000
"""How often idle connections are looked for, unless `connections.max.idle.ms` asks for it more often."""

REQUESTS_IN_FLIGHT_MAX: Final = 64
"""Unanswered requests of one connection; above, it is not read."""

WRITE_BUFFER_BYTES_HIGH: Final = 4 * MIB
"""Unsent bytes of a connection to or from a voter; above, it is not read."""

CLIENT_WRITE_BUFFER_BYTES_HIGH: Final = 16 * KIB
"""The same for all other connections, beyond what the kernel took; above, they are not served either."""

WRITE_STALL_TIMEOUT_MS: Final = 5_000
"""How long a connection may stay above that without taking anything before it is closed."""

STOP_TIMEOUT_MS: Final = 5_000
"""How long a node that stops waits, for all connections together, until its responses are read."""

WRITE_PROGRESS_BYTES: Final = 64 * KIB
"""What it must take in that time to count as taking anything."""

UNSENT_BYTES_MAX: Final = 32 * MIB
"""Unsent responses of all connections but voters'; above, the connection with most of them is closed."""

RESPONSE_BYTES_PER_TURN: Final = 256 * KIB
"""Responses of one connection in one turn; above, its next request waits for the next turn."""

LONG_RESPONSES_MAX: Final = 16
"""Requests in flight whose responses may be as long as a page of configs or a part of the log: of all
connections of one class, and one of each connection. All of them may be answered in one turn."""

WORK_PER_REQUEST: Final = 1 * KIB
"""What a request costs beside its bytes, in bytes: as long as 1 KiB of a long one takes to decode."""

WORK_PER_VISIT: Final = 64
"""What it costs to look at a connection that waits and may not go on yet."""

WORK_PER_ROUND: Final = 4 * KIB
"""What a connection may cost in one round of those who wait; who costs more sits out as many rounds."""

VOTER_FRAMES_AT_ONCE: Final = 64
"""Frames of one read from a voter that are handled before anything else; the others wait for the turn."""

VOTER_WORK_PER_TURN: Final = 512 * KIB
CLIENT_WORK_PER_TURN: Final = 384 * KIB
OBSERVER_WORK_PER_TURN: Final = 96 * KIB
STRANGER_WORK_PER_TURN: Final = 32 * KIB
"""What the connections of each class that wait may cost in one turn of the loop: about 300 short requests of
clients, so that a turn ends within some 20 ms and voters are read between two of them."""

WORK_OF_MORE_ROUNDS: Final = 64 * KIB
"""Once each waiting connection was served once, further rounds end when the turn has done this much work: so
a few that flood do not make turns longer, and many with one request each are served together."""

VOTER_READ_BYTES: Final = 256 * KIB
CLIENT_READ_BYTES: Final = 16 * KIB
STRANGER_READ_BYTES: Final = 4 * KIB
"""Bytes of one read of a connection. Who fills it is not read again before it was served."""

READ_AHEAD_BYTES: Final = 256 * KIB
"""What one round of reads takes from all who wait in a class: the more they are, the less from each."""

READ_BYTES_MIN: Final = 256
"""But no less than this from each."""

VOTER_WAITING_BYTES_MAX: Final = 64 * MIB
CLIENT_WAITING_BYTES_MAX: Final = 12 * MIB
OBSERVER_WAITING_BYTES_MAX: Final = 8 * MIB
STRANGER_WAITING_BYTES_MAX: Final = 4 * MIB
"""Bytes read and not handled yet, unfinished frames too, of all connections of a class; above, who has most
of them is closed."""

RESIGN_TIMEOUT_MS_MAX: Final = 60_000
"""How long a leader that was asked to hand over may wait for its successor, whatever the request says: no
write is accepted meanwhile."""

LOG_LINES_PER_EVENT_MAX: Final = 60
"""Lines a minute of one kind that strangers can cause, from however many addresses."""

LOG_TEXT_MAX: Final = 500
"""Characters of a field of such a line."""

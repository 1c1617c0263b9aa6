"""What a peer may cost us at most: the one table of bounds (design 5).

Sizes of frames are checked by `framing` and `codec`, counts inside a body by the typed decoders of
`bodies`, the rest by the server. Every number here is a promise to the others on the machine, not a
tuning knob.
"""

from typing import Final

KIB: Final = 1024
MIB: Final = 1024 * KIB

HEAD_BYTES_MAX_BEFORE_HANDSHAKE: Final = 64 * KIB
"""A frame without its records, from someone who has not said who it is."""

HEAD_BYTES_MAX: Final = 1 * MIB
"""A frame without its records, after the handshake."""

PAGE_BYTES_MAX: Final = 256 * KIB
"""What an answer that grows with the image holds: a page of a listing, or everything that was asked for. One
config always fits, with every place that its value could come from; the rest of a head is room for echoes.
"""

PAGE_ENTRIES_MAX: Final = 1024
"""Entries of such an answer: a page of small ones must not hold up the loop."""

ECHO_BYTES_MAX: Final = 512 * KIB
"""Outcomes of one answer, one for each resource of the request. What does not fit was not done."""

HOST_BYTES_MAX: Final = 253
"""The longest name of a host that DNS knows. What a peer says that it is called may be longer."""

WORDS_BYTES_MAX: Final = 200
"""What an answer tells of a peer's words, or of a name in a request that means nothing here."""

ALARM_BYTES_MAX: Final = 4 * KIB
ALARMS_MAX: Final = 16
"""What an answer tells of one thing that is wrong with a node, and of how many."""

FILES_MAX: Final = 8192
"""Files of one export."""

RECORDS_BYTES_MAX: Final = 8 * MIB
"""The records of one frame."""

FRAME_BYTES_MAX: Final = HEAD_BYTES_MAX + RECORDS_BYTES_MAX

ARRAY_LENGTH_MAX: Final = 65_536
"""Elements of one array in a body. Checked before anything is allocated for them."""

TAGS_MAX: Final = 64
"""Tagged fields of one struct."""

OPERATION_BYTES_MAX: Final = 8 * MIB
"""Record bytes of one operation; above, it is refused as a whole (KAFKA-14204)."""

OPERATION_RECORDS_MAX: Final = 10_000
"""Records of one operation; above, it is refused as a whole."""

CONNECTIONS_MAX: Final = 4096
"""Connections in all, beside the slots reserved for peers."""

CONNECTIONS_PER_ADDRESS_MAX: Final = 1024
"""Connections from one address; a benchmark on one machine needs hundreds."""

PEER_CONNECTIONS_RESERVED: Final = 64
"""Slots that only members of the quorum may use, so that clients cannot keep them out."""

HANDSHAKE_TIMEOUT_MS: Final = 5_000
"""How long a connection may stay silent about who it is."""

REQUESTS_IN_FLIGHT_MAX: Final = 64
"""Unanswered requests of one connection; above, it is not read."""

CLAIM_BYTES_MAX: Final = 64 * KIB
"""Bytes of requests that wait on a connection that says it is a voter's, until it is confirmed."""

WRITE_BUFFER_BYTES_HIGH: Final = 4 * MIB
"""Unsent bytes of one connection; above, it is not read."""

WRITE_STALL_TIMEOUT_MS: Final = 5_000
"""How long a connection may stay above that before it is closed."""

TURN_BYTES_MAX: Final = 4 * MIB
"""Bytes taken from one connection in one turn of the loop."""

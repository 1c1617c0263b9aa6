"""How many connections this node has closed, and why: every layer of a connection counts here.

Of a few lines, because it lies below all of them.
"""

import msgspec


class Tally(msgspec.Struct):
    """The number of connections closed by this node, by reason; for the metrics."""

    malformed: int = 0
    """Bytes that are no frame, no request, or not the one expected; or a response of ours for which the
    version of the request has no room.
    """
    broken: int = 0
    """Bytes, or a response, that raised an unexpected exception: a defect of kraftd."""
    over_budget: int = 0
    """More bytes waiting, or more unsent responses, than its class has room for."""
    idle: int = 0
    """No request for `connections.max.idle.ms`, or closed for the slot of another connection."""
    refused: int = 0
    """No slot, a greeting that was refused, a claim that was not proved, or closed before its greeting for
    the slot of another connection.
    """
    slow: int = 0
    """Did not read its responses."""

"""Who gets a connection when slots are short, and whose connection is closed for it (D-38).

Entered by the server: `admit` when a connection opens, `move` when it is known who is at the other end,
`forget` at its end. All connections but those of confirmed voters share `connections_max` slots, with a
part of them for each address. When all are taken, a new connection closes the oldest one that has not
greeted yet, or gets one of a few reserved slots until it has greeted as a voter; a client closes the one
that has asked nothing for longest. So idle connections, however many, shut out neither a voter nor, for
long, a client. How many connections may claim one voter's id is the raft node's to bound
(`kraftd.raft.claims`).
"""

from collections import Counter
from collections.abc import Mapping
from typing import Protocol

from kraftd.net.budgets import PeerClass
from kraftd.net.tally import Tally
from kraftd.protocol import limits
from kraftd.types import NodeId


class Holder(Protocol):
    """A connection, as far as its slot is concerned."""

    number: int
    host: str
    quiet_sweeps: int
    """How many sweeps for idle connections found no new request; 0 while it waits for a response."""
    has_asked: bool
    """Whether a request has come since its greeting."""

    @property
    def claimed_id(self) -> NodeId | None:
        """The node id of its greeting; None before the greeting."""

    def abort(self, reason: str) -> None:
        """Close it at once."""


class Slots:
    """The inbound connections by class, oldest first."""

    def __init__(self, tally: Tally) -> None:
        self.connections_max = limits.CONNECTIONS_MAX
        """The most connections but voters'; fewer where the system allows fewer files."""
        self._tally = tally
        self._per_address: Counter[str] = Counter()
        self._holders: dict[PeerClass, dict[int, Holder]] = {each: {} for each in PeerClass}

    def counts(self) -> Mapping[PeerClass, int]:
        """The number of connections of each class."""
        return {each: len(holders) for each, holders in self._holders.items()}

    def admit(self, holder: Holder) -> str | None:
        """Give a new connection a slot. Returns why it has none, None if it has."""
        host = holder.host
        here, total = self._per_address[host], self._others_count()
        crowded_here = here >= limits.CONNECTIONS_PER_ADDRESS_MAX
        if (crowded_here or total >= self.connections_max) and not self._evict_newcomer(
            host if crowded_here else None
        ):
            if here >= limits.CONNECTIONS_PER_ADDRESS_MAX + limits.NEWCOMERS_RESERVED:
                return f"{here} connections from {host} are the most"
            if total >= self.connections_max + limits.NEWCOMERS_RESERVED:
                return f"{total} connections are the most"
        self._per_address[host] += 1
        self._holders[PeerClass.STRANGER][holder.number] = holder
        return None

    def move(self, holder: Holder, old: PeerClass, new: PeerClass) -> None:
        """Count a connection in another class from now on."""
        del self._holders[old][holder.number]
        self._holders[new][holder.number] = holder
        if new is PeerClass.VOTER:
            self._uncount_address(holder.host)

    def forget(self, holder: Holder, peer_class: PeerClass) -> None:
        """Free the slot of a connection."""
        if (
            self._holders[peer_class].pop(holder.number, None) is not None
            and peer_class is not PeerClass.VOTER
        ):
            self._uncount_address(holder.host)

    def has_room_for_client(self, host: str) -> bool:
        """Whether one more client or observer may stay; may close another one for it."""
        holders = self._holders
        greeted = len(holders[PeerClass.CLIENT]) + len(holders[PeerClass.OBSERVER])
        if greeted >= self.connections_max:
            return self._evict_quiet(None)
        if self._per_address[host] > limits.CONNECTIONS_PER_ADDRESS_MAX:
            return self._evict_quiet(host)
        return True

    def _evict_newcomer(self, host: str | None) -> bool:
        """Close the oldest connection without a greeting, of one address or of all, if there is one."""
        for holder in self._holders[PeerClass.STRANGER].values():
            if holder.claimed_id is None and (host is None or holder.host == host):
                self._close(holder, PeerClass.STRANGER, "it had not greeted, and others came")
                self._tally.refused += 1
                return True
        return False

    def _evict_quiet(self, host: str | None) -> bool:
        """Close the connection that has asked nothing for longest, of one address or of all.

        Four thousand may connect and send nothing before the first sweep finds them: of those that are
        equally quiet, the oldest that never had a request is closed first.

        Returns:
            Whether there was one.
        """
        quietest, quietest_class = None, PeerClass.CLIENT
        most = (0, False)
        for peer_class in (PeerClass.CLIENT, PeerClass.OBSERVER):
            for holder in self._holders[peer_class].values():
                quiet = holder.quiet_sweeps, not holder.has_asked
                if (host is None or holder.host == host) and quiet > most:
                    quietest, quietest_class, most = holder, peer_class, quiet
        if quietest is None:
            return False
        self._close(quietest, quietest_class, "it asked nothing, and others came")
        self._tally.idle += 1
        return True

    def _close(self, holder: Holder, peer_class: PeerClass, reason: str) -> None:
        """Close a connection and free its slot at once, not only when the loop reports its end."""
        self.forget(holder, peer_class)
        holder.abort(reason)

    def _others_count(self) -> int:
        return sum(len(holders) for each, holders in self._holders.items() if each is not PeerClass.VOTER)

    def _uncount_address(self, host: str) -> None:
        self._per_address[host] -= 1
        if not self._per_address[host]:
            del self._per_address[host]

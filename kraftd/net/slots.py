"""Who may be connected at all, and who has to make room? (D-38)

Entered by the server: `admit` when somebody connects, `move` when it is known who that is, `forget` at the
end. Everybody but confirmed voters shares `connections_max` slots, with a part of them for each address.
Who comes when all are taken pushes the oldest out of those who have not greeted yet, or takes one of a few
reserved slots until it has said that it is a voter; a client pushes out the one that has asked nothing for
longest. So idle connections, however many, shut out neither a voter nor, for long, a client. How many may
say that they are one voter is the core's to bound (`kraftd.raft.claims`).
"""

from collections import Counter
from collections.abc import Mapping
from typing import Protocol

from kraftd.net.budgets import PeerClass, Tally
from kraftd.protocol import limits
from kraftd.types import NodeId


class Holder(Protocol):
    """A connection, as far as its slot is concerned."""

    number: int
    host: str
    quiet_sweeps: int
    """How many sweeps for idle connections found nothing new from it; 0 while it waits for an answer."""
    has_asked: bool
    """Whether it ever asked anything, after its greeting."""

    @property
    def claimed_id(self) -> NodeId | None:
        """The node that it says it is, once it has."""

    def abort(self, reason: str) -> None:
        """Close it at once."""


class Slots:
    """Everybody who is connected, by class, oldest first."""

    def __init__(self, tally: Tally) -> None:
        self.connections_max = limits.CONNECTIONS_MAX
        """Everybody but voters; less where the system allows fewer files."""
        self._tally = tally
        self._per_address: Counter[str] = Counter()
        self._holders: dict[PeerClass, dict[int, Holder]] = {each: {} for each in PeerClass}

    def counts(self) -> Mapping[PeerClass, int]:
        """How many connections each class has."""
        return {each: len(holders) for each, holders in self._holders.items()}

    def admit(self, holder: Holder) -> str | None:
        """Count a new connection in; or say why it must go."""
        host = holder.host
        here, total = self._per_address[host], self._others_count()
        crowded_here = here >= limits.CONNECTIONS_PER_ADDRESS_MAX
        if (crowded_here or total >= self.connections_max) and not self._push_out_newcomer(
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
        """It is known now who this is."""
        del self._holders[old][holder.number]
        self._holders[new][holder.number] = holder
        if new is PeerClass.VOTER:
            self._uncount_address(holder.host)

    def forget(self, holder: Holder, peer_class: PeerClass) -> None:
        """Count a connection out."""
        if (
            self._holders[peer_class].pop(holder.number, None) is not None
            and peer_class is not PeerClass.VOTER
        ):
            self._uncount_address(holder.host)

    def has_room_for_client(self, host: str) -> bool:
        """Whether one more client or observer may stay, if need be instead of one that asks nothing."""
        holders = self._holders
        settled = len(holders[PeerClass.CLIENT]) + len(holders[PeerClass.OBSERVER])
        if settled >= self.connections_max:
            return self._push_out_quiet(None)
        if self._per_address[host] > limits.CONNECTIONS_PER_ADDRESS_MAX:
            return self._push_out_quiet(host)
        return True

    def _push_out_newcomer(self, host: str | None) -> bool:
        """Close the oldest of those who have not greeted, of one address or of all; whether there was one."""
        for holder in self._holders[PeerClass.STRANGER].values():
            if holder.claimed_id is None and (host is None or holder.host == host):
                self._close(holder, PeerClass.STRANGER, "it had not greeted, and others came")
                self._tally.refused += 1
                return True
        return False

    def _push_out_quiet(self, host: str | None) -> bool:
        """Close whoever asked nothing for longest, of one address or of all; whether there was one.

        Four thousand may come and say nothing before the first sweep finds them: of those who seem equally
        quiet, the oldest that never asked anything goes first.
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
        """Close a connection whose slot is free from now on, not only when the loop says that it is gone."""
        self.forget(holder, peer_class)
        holder.abort(reason)

    def _others_count(self) -> int:
        return sum(len(holders) for each, holders in self._holders.items() if each is not PeerClass.VOTER)

    def _uncount_address(self, host: str) -> None:
        self._per_address[host] -= 1
        if not self._per_address[host]:
            del self._per_address[host]

"""What became of an attack: the figures, and what is to be said against them.

A `Report` is of one round or of many; `Report.absorb` adds a round to those before. In a row of the table the
worst of all rounds stands for each figure, and the sum for bytes and connections.
"""

from dataclasses import dataclass, field


@dataclass
class Report:
    """Figures of one attack, and what is to be said against them.

    `wrong`: somebody ended, a decision raised, something durable changed, memory grew, the leader changed,
    all was never well again. `slow`: slower than promised on this machine.
    """

    name: str
    wrong: list[str] = field(default_factory=list)
    slow: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    before: float = 0.0
    during: float = 0.0
    after: float = 0.0
    worst_wait_s: float = 0.0
    elections: int = 0
    rss_growth: int = 0
    sent: int = 0
    taken: int = 0
    refused: int = 0
    opened: int = 0
    attack_s: float = 0.0
    well_s: float = 0.0
    rounds: int = 0
    """How many were played; 0 for a report that is one round."""
    held: int = 0
    """Rounds that ended with nothing to be said against them."""

    HEADER = (
        f"{'attack':<44} {'bef/s':>6} {'dur/s':>6} {'aft/s':>6} {'worst s':>8} {'elec':>4} {'RSS MB':>7} "
        f"{'sent':>11} {'taken':>11} {'refused':>11} {'conns':>6} {'well s':>6}  verdict"
    )

    @property
    def verdict(self) -> str:
        return "BROKEN" if self.wrong else "slow" if self.slow else "held"

    def row(self) -> str:
        """One line of the table."""
        return (
            f"{self.name:<44} {self.before:>6.0f} {self.during:>6.0f} {self.after:>6.0f} "
            f"{self.worst_wait_s:>8.3f} {self.elections:>4} {self.rss_growth / 1e6:>7.1f} "
            f"{self.sent:>11,} {self.taken:>11,} {self.refused:>11,} "
            f"{self.opened:>6} {self.well_s:>6.2f}  {self.verdict}"
            + (f" {self.held} of {self.rounds}" if self.rounds > 1 else "")
        )

    def absorb(self, other: "Report") -> None:
        """Add what became of the next round."""
        self.rounds += 1
        self.held += other.verdict == "held"
        for name in ("wrong", "slow", "notes"):
            mine = getattr(self, name)
            mine += [line for line in getattr(other, name) if line not in mine]
        self.before, self.after = self.before or other.before, other.after
        self.during = min(self.during, other.during) if self.rounds > 1 else other.during
        for name in ("worst_wait_s", "elections", "rss_growth", "attack_s", "well_s"):
            setattr(self, name, max(getattr(self, name), getattr(other, name)))
        for name in ("sent", "taken", "refused", "opened"):
            setattr(self, name, getattr(self, name) + getattr(other, name))

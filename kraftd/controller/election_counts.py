"""The elections of partition leaders that happened while this node looked on.

The image counts every election that it was shown (`metadata.parts.topics.leader_elections`), also those of
last week, which a node reads again when it starts. Whoever watches wants none of these: a counter that jumps
at every restart raises alarms about nothing. So counting begins once the node has caught up, as in Kafka,
whose loader shows its metrics nothing before that; and it goes on from where it was if a snapshot, which
tells of no election, takes the place of the image.
"""

from collections.abc import Mapping

from kraftd.metadata.image import MetadataImage
from kraftd.metadata.parts.topics import TOPICS
from kraftd.metadata.parts.topics.leader_elections import Election, ElectionCounts


class SeenElections:
    """Counts by kind and reason. Mutable; one of a controller."""

    def __init__(self) -> None:
        self._base: ElectionCounts | None = None
        """What the image had counted when counting began, or began anew; None before."""
        self._earlier: dict[Election, int] = {}

    def begin(self, image: MetadataImage) -> None:
        """Count from here on, unless that has begun."""
        if self._base is None:
            self._base = image[TOPICS].leader_elections

    def replaced(self, before: MetadataImage, after: MetadataImage) -> None:
        """A snapshot took the place of the image."""
        if self._base is not None:
            self._earlier = dict(self.counts(before))
            self._base = after[TOPICS].leader_elections

    def counts(self, image: MetadataImage) -> Mapping[Election, int]:
        """How many there were since counting began."""
        base = self._base
        if base is None:
            return {}
        counts = dict(self._earlier)
        for election, count in image[TOPICS].leader_elections.items():
            counts[election] = counts.get(election, 0) + count - base.get(election, 0)
        return counts

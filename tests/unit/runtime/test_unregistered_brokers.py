"""Brokers that follow the log and never ask to be registered are named in time, and nobody else is."""

from types import SimpleNamespace
from typing import Any

from kraftd.metadata.image import EMPTY, MetadataImage
from kraftd.metadata.image_builder import apply
from kraftd.records.messages import RegisterBrokerRecord
from kraftd.runtime.unregistered_brokers import BROKERS_MAX, PATIENCE_MS, PAUSE_MS_MAX, UnregisteredBrokers
from kraftd.types import Now

EVERY_MS = 500
"""How often a broker fetches."""


class World:
    """A leader, its image and its clock."""

    def __init__(self) -> None:
        self.now_ms = 1_000
        self.image: MetadataImage = EMPTY
        self.brokers = UnregisteredBrokers(lambda: self.image, lambda: Now(self.now_ms, 0))
        self.registered: list[int] = []
        self.register = self.brokers.noting(self._registering)

    def ask(self, broker: int) -> None:
        """A request for registration comes in."""
        message: Any = SimpleNamespace(message=SimpleNamespace(broker_id=broker))
        connection: Any = None
        self.register(connection, message)

    def _registering(self, _: Any, request: Any) -> None:
        self.registered.append(request.message.broker_id)

    def follow(self, broker: int, for_ms: int) -> bool:
        """Fetch for a while; whether it was found in the end."""
        found = self.brokers.fetched(broker)
        for _ in range(for_ms // EVERY_MS):
            self.now_ms += EVERY_MS
            found = self.brokers.fetched(broker)
        return found


def test_who_follows_for_long_and_never_asks_is_found() -> None:
    world = World()
    assert not world.follow(14, PATIENCE_MS - EVERY_MS)
    assert world.follow(14, EVERY_MS)
    assert world.follow(14, PATIENCE_MS), "and stays found"


def test_who_asks_is_not_found_while_it_is_refused_again_and_again() -> None:
    world = World()
    for _ in range(PATIENCE_MS // 2_000 + 1):
        world.ask(14)
        assert not world.follow(14, 2_000)
    assert set(world.registered) == {14}, "the handler of registrations is called"


def test_a_registered_broker_is_not_found_and_neither_is_a_new_start_of_one() -> None:
    world = World()
    assert not world.follow(14, PATIENCE_MS - EVERY_MS)
    world.image = apply(EMPTY, RegisterBrokerRecord(broker_id=14), 0)
    assert not world.follow(14, 10 * PATIENCE_MS)
    world.image = EMPTY
    assert not world.follow(14, EVERY_MS), "it was forgotten, and begins anew"


def test_a_broker_that_was_away_follows_anew() -> None:
    world = World()
    assert not world.follow(14, PATIENCE_MS - EVERY_MS)
    world.now_ms += PAUSE_MS_MAX + 1
    assert not world.follow(14, PATIENCE_MS - EVERY_MS)


def test_ids_that_a_stranger_chooses_push_out_the_oldest() -> None:
    world = World()
    assert not world.follow(14, PATIENCE_MS - EVERY_MS)
    for node_id in range(100, 100 + BROKERS_MAX):
        world.brokers.fetched(node_id)
    assert not world.follow(14, PATIENCE_MS - EVERY_MS), "it begins anew"
    assert world.follow(14, EVERY_MS)

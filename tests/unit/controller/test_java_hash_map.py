"""Maps that go through their keys as Java's do. What is expected was printed by a JVM of version 17."""

import pytest

from kraftd.controller.java_hash_map import JavaHashMap, string_hash, string_map

MANY = [f"user {number}" for number in range(14)]


@pytest.mark.parametrize(
    "text", ["", "a", "user", "client-id", "é", "🎈", "x" * 63, "y" * 64, "z" * 65, "AaBB" * 99]
)
def test_a_hash_is_that_of_the_definition(text):
    expected = 0
    raw = text.encode("utf-16-be")
    for at in range(0, len(raw), 2):
        expected = (31 * expected + int.from_bytes(raw[at : at + 2], "big")) % (1 << 32)
    assert string_hash(text) == expected


def test_hashes_that_everybody_knows():
    assert string_hash("hello") == 99162322
    assert string_hash("Aa") == string_hash("BB") == 2112


@pytest.mark.parametrize(
    ("capacity", "count", "order"),
    [
        (0, 3, [0, 2, 1]),
        (16, 3, [0, 2, 1]),
        (0, 14, [8, 7, 6, 5, 11, 10, 13, 9, 12, 0, 4, 3, 2, 1]),
        (16, 14, [8, 7, 6, 5, 11, 10, 13, 9, 12, 0, 4, 3, 2, 1]),
        (64, 14, [8, 7, 6, 5, 9, 11, 10, 13, 12, 0, 4, 3, 2, 1]),
    ],
)
def test_a_map_goes_through_its_buckets(capacity, count, order):
    entries = string_map(((key, number) for number, key in enumerate(MANY[:count])), capacity)
    assert [number for _, number in entries.items()] == order


def test_a_bucket_is_gone_through_as_its_keys_came():
    entries = string_map((key, 1) for key in ("BBBB", "AaAa", "AaBB", "BBAa"))
    assert [key for key, _ in entries.items()] == ["BBBB", "AaAa", "AaBB", "BBAa"]
    assert entries.remove("BBBB")
    assert not entries.remove("BBBB")
    assert "BBBB" not in entries
    entries["BBBB"] = 2
    entries["AaAa"] = 3
    assert list(entries.items()) == [("AaAa", 3), ("AaBB", 1), ("BBAa", 1), ("BBBB", 2)]


def test_a_map_that_has_grown_stays_so():
    entries = string_map((key, number) for number, key in enumerate(MANY))
    for key in MANY[4:]:
        entries.remove(key)
    entries[MANY[4]] = 4
    assert [number for _, number in entries.items()] == [0, 4, 3, 2, 1]


def test_too_many_characters_are_not_hashed():
    hashed = []
    entries: JavaHashMap[str, int] = JavaHashMap(len, lambda key: hashed.append(key) or 0)
    for key in ("b" * 40_000, "a" * 40_000):
        entries[key] = 1
    assert [key[0] for key, _ in entries.items()] == ["b", "a"]
    assert hashed == []

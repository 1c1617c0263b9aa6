"""Who measures by turns: what is computed of the rounds, and of what processes have counted."""

import argparse
import os
import sys
import time
from pathlib import Path

import pytest
from alternation import Spread, by_turns, ratios, spread
from counters import cpu_s, events, grown, samples
from load_round import counted_of, round_of
from loads import program
from loads_table import Measured, cells, nodes_us, notes, ratio
from machine import DEBIANS, Ticks, build, interpreter
from peers.cluster import Load, Work

LOAD = Load(changes=2_000, changes_per_s=1_000.0, p50_ms=1.0, p99_ms=2.0, max_ms=3.0, client_us=4.0)


def test_who_begins_alternates_and_everyone_has_as_many_rounds() -> None:
    order: list[str] = []

    def do(name: str) -> int:
        order.append(name)
        return len(order)

    assert by_turns(["a", "b", "c"], 3, do) == {"a": [1, 6, 7], "b": [2, 5, 8], "c": [3, 4, 9]}
    assert order == list("abccbaabc")


def test_a_ratio_is_the_median_of_neighbours_and_not_that_of_medians() -> None:
    slow_machine_for_a_while = ([100.0, 10.0, 90.0], [50.0, 5.0, 100.0])
    assert ratios(*slow_machine_for_a_while) == Spread(1.45, 2.0, 2.0)
    assert spread([90.0, 10.0, 100.0]).median / spread([50.0, 5.0, 100.0]).median == pytest.approx(1.8)


def test_a_ratio_needs_a_neighbour_for_every_round() -> None:
    with pytest.raises(ValueError, match="shorter"):
        ratios([1.0, 2.0], [1.0])


def test_the_spread_is_the_quartiles_and_of_one_value_that_value() -> None:
    assert spread([1.0, 2.0, 3.0, 4.0, 5.0]) == Spread(2.0, 3.0, 4.0)
    assert spread([7.0]) == Spread(7.0, 7.0, 7.0)


def test_a_page_of_metrics_is_read_and_its_labels_are_summed() -> None:
    page = (
        "# HELP kraftd_log_flushes_total Flushes.\n# TYPE kraftd_log_flushes_total counter\n"
        "kraftd_log_flushes_total 41.0\n"
        'closed_total{reason="idle"} 1.0\nclosed_total{reason="a } b"} 2e1\n'
        'fsync_bucket{le="+Inf"} 9\nodd nothing\n'
    )
    assert samples(page) == {"kraftd_log_flushes_total": 41.0, "closed_total": 21.0, "fsync_bucket": 9.0}


def test_a_counter_that_is_not_there_did_not_grow_by_nothing() -> None:
    assert grown({"turns": 2.0}, {"turns": 5.0}, "turns") == 3.0
    assert grown({}, {"turns": 5.0}, "turns") == 5.0
    assert grown({"turns": 2.0}, {}, "turns") is None


def test_what_the_nodes_count_is_summed_only_if_all_of_them_count_it() -> None:
    names = {"turns": "t", "messages": "m"}
    pages = [({"t": 1.0, "m": 1.0}, {"t": 4.0, "m": 2.0}), ({"t": 2.0}, {"t": 4.0})]
    assert counted_of(names, pages) == {"turns": 5.0}


def test_what_perf_says_is_read_and_what_it_cannot_count_is_left_out() -> None:
    words = (
        "109,,raw_syscalls:sys_enter,1002,100.00,,\n<not supported>,,syscalls:sys_enter_fsync,0,0.00,,\n"
        "7,,syscalls:sys_enter_fdatasync,1002,100.00,,\nsome other words\n"
    )
    assert events(words) == {"raw_syscalls:sys_enter": 109.0, "syscalls:sys_enter_fdatasync": 7.0}


def test_the_cpu_of_a_process_is_that_of_its_threads() -> None:
    before_s, own_s = cpu_s(os.getpid()), time.process_time()
    while time.process_time() - own_s < 0.05:
        pass
    assert 0.04 < cpu_s(os.getpid()) - before_s < 1.0


def test_a_change_costs_what_was_spent_by_all_that_were_answered() -> None:
    seen = round_of(LOAD, 2, {1: 0.1, 2: 0.6, 3: 0.3}, {"turns": 500.0, "syscalls": 8_000.0})
    assert (seen.leader_us, seen.follower_us, seen.client_us) == pytest.approx((300.0, 100.0, 4.0))
    assert (seen.turns, seen.messages, seen.syscalls, seen.fsyncs) == (0.25, None, 4.0, None)
    assert nodes_us(seen) == pytest.approx(500.0)


def test_a_row_tells_medians_of_timed_rounds_counts_of_the_last_and_nothing_where_nobody_counted() -> None:
    rounds = [
        round_of(LOAD, 1, {1: 0.2 * number, 2: 0.1, 3: 0.1}, {"turns": 10.0 * number}) for number in (1, 2, 3)
    ]
    counted = round_of(LOAD, 1, {1: 9.0, 2: 9.0, 3: 9.0}, {"fsyncs": 100.0})
    shown = list(cells(rounds, (rounds, rounds), counted))
    same = "1.00x (1.00-1.00)"
    assert shown == ["1,000", same, same, "1.00", "2.00", "200", "50", "4.0", "0.01", "", "", "0.05"]
    assert list(cells(rounds, None, counted))[1:3] == ["", ""]


def test_above_one_the_first_is_better_whatever_is_compared() -> None:
    cheap, dear = (round_of(LOAD, 1, {1: spent, 2: spent, 3: spent}, {}) for spent in (0.1, 0.3))
    assert ratio([cheap], [dear], of=lambda one: 1 / nodes_us(one)) == "3.00x (3.00-3.00)"


def test_what_was_measured_on_what_is_told_and_why_a_cell_is_empty() -> None:
    seen = [round_of(LOAD, 1, {1: 1.0, 2: 1.0, 3: 1.0}, {"turns": 1.0, "messages": 1.0})]
    silent = [round_of(LOAD, 1, {1: 1.0, 2: 1.0, 3: 1.0}, {})]
    rounds = {"1": {"kraftd": seen, "etcd": silent, "other": silent}}
    told = "\n".join(notes(Measured("two cores", {"kraftd": "cpython"}, "perf is missing", rounds)))
    assert told.splitlines()[:2] == ["kraftd: cpython", "two cores"]
    for words in (
        "etcd, no turns and messages: it",
        "other, no turns and messages: this build",
        "no syscalls: perf",
    ):
        assert words in told
    assert "kraftd, no turns" not in told
    assert "syscalls" not in "".join(notes(Measured("two cores", {}, None, rounds)))


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("'--enable-optimizations' '--with-lto'", "PGO, LTO"),
        ("'--prefix=/opt' -O3", "no PGO, no LTO"),
        ("-fprofile-use -fprofile-correction", "PGO, no LTO"),
        ("-flto -fuse-linker-plugin", "no PGO, LTO"),
        (f"'--enable-shared' '{DEBIANS}'", "Debian's build (PGO, LTO)"),
    ],
)
def test_the_build_of_an_interpreter_is_told_from_the_words_that_configured_it(words: str, told: str) -> None:
    assert build(words) == told
    assert ", " in interpreter()


def test_what_other_machines_took_is_a_share_of_all_ticks() -> None:
    before = Ticks.read("cpu  100 0 100 700 0 0 0 100 0 0\ncpu0 1 2 3\n")
    assert before == Ticks(1_000, 100)
    assert before.stolen_percent(Ticks(1_500, 150)) == 10.0
    assert before.stolen_percent(before) == 0.0


def test_an_interpreter_is_named_by_where_it_is_not_by_what_a_link_names(tmp_path: Path) -> None:
    link = tmp_path / "python-of-an-environment"
    link.symlink_to(sys.executable)
    assert program(str(link)) == str(link)
    assert Path(program("sh")).is_absolute()
    with pytest.raises(argparse.ArgumentTypeError, match="no program nosuch"):
        program("nosuch")


def test_a_load_warms_up_for_half_its_time_and_a_second_at_most() -> None:
    assert [Work(1, seconds).warm_up_s for seconds in (0.5, 2, 10)] == [0.25, 1.0, 1.0]
    assert (Work(1, 1).changes, Work(1, 1, batch=True).changes) == (1, 100)

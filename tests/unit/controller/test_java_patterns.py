"""Which regular expressions Java takes, and that nobody's pattern costs more than its length."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from java_regexes import REFUSED, TAKEN, TAKEN_HERE_ONLY

from kraftd.controller.configs.java_patterns import pattern_complaint

LENGTH = 1_000

DEPTH = 10_000


@pytest.mark.parametrize("pattern", TAKEN + TAKEN_HERE_ONLY, ids=lambda pattern: ascii(pattern)[:40])
def test_a_pattern(pattern):
    assert pattern_complaint(pattern) is None


@pytest.mark.parametrize("pattern", REFUSED, ids=ascii)
def test_no_pattern(pattern):
    assert pattern_complaint(pattern) is not None


@pytest.mark.parametrize(
    ("pattern", "complaint"),
    [
        ("(a", "has a group that is not closed"),
        ("a{" + "9" * 5_000 + "}", "repeats more than 2147483647 times"),
        ("(" * DEPTH, "has a group that is not closed"),
        ("(" * (DEPTH + 1), "has more than 10000 groups inside each other"),
        ("[" * DEPTH, "has a [ that is not closed; a bracket itself is \\["),
        ("[" * (DEPTH + 2), "has more than 10000 classes inside each other"),
        ("\\xz", "has a \\x without 2 hexadecimal digits"),
        ("(?x)\\u 12 3", "has a \\u without 4 hexadecimal digits"),
    ],
    ids=lambda text: text[:20],
)
def test_what_is_wrong_is_told(pattern, complaint):
    assert pattern_complaint(pattern) == complaint


@pytest.mark.parametrize(
    ("begin", "unit", "end"),
    [
        *(
            ("", unit, "")
            for unit in ("a", "(", "()", "[a]", "[a-\uffff]", "a{1}", "\\x41", "\\ud800", "\\Q.\\E")
        ),
        *(("(?x)", unit, "") for unit in (" ", "#\n", "a ", "\\ud800 ", "[ a]", "# ")),
        *(("[", unit, "]") for unit in ("a", "[a]", "a&", "a&&", "a-", "\\d", "\\ud800")),
        *(
            ("\\Q", ".", ""),
            ("", "\\Q.\\E", ""),
            ("\\k<", "a", ">"),
            ("\\p{Is", "L", "}"),
            ("\\x{", "0", "}"),
            ("a{", "0", "}"),
        ),
    ],
)
def test_a_pattern_costs_what_its_length_does(begin, unit, end):
    """Twice the length takes twice the lines that are run, and a few."""

    def lines_run(length):
        pattern = begin + unit * ((length - len(begin + end)) // len(unit)) + end
        events = []

        def trace(_frame, event, _argument):
            events.append(event)
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            pattern_complaint(pattern)
        finally:
            sys.settrace(before)
        return len(events)

    assert lines_run(2 * LENGTH) <= 2.2 * lines_run(LENGTH) + 100


@given(st.text(alphabet="ab19-^&|()[]{}<>?*+,.$:=!#\\ \0\nxudkpPQENcgLié😀"))
def test_any_text_is_answered(text):
    complaint = pattern_complaint(text)
    assert complaint is None or complaint

"""One response, three ways to write it."""

import json

import pytest
import yaml

from kraftd.cli.output import Format, columns, emit, labels, to_json_line

DATA = {
    "name": "Größe",
    "offset": -1,
    "ratio": 0.5,
    "none": None,
    "list": [{"id": 1}, {"id": 2}],
    "flag": True,
}


@pytest.mark.parametrize(("output", "load"), [(Format.JSON, json.loads), (Format.YAML, yaml.safe_load)])
def test_json_and_yaml_hold_the_same_data_in_the_same_order(
    output: Format, load: object, capsys: pytest.CaptureFixture[str]
) -> None:
    emit(DATA, output, lambda _: pytest.fail("no table was asked for"))
    text = capsys.readouterr().out
    assert "Größe" in text
    assert text.endswith("\n")
    assert not text.endswith("\n\n")
    assert list(load(text).items()) == list(DATA.items())


def test_a_table_is_what_the_command_makes_of_the_data(capsys: pytest.CaptureFixture[str]) -> None:
    emit(DATA, Format.TABLE, lambda data: f"offset {data['offset']}")
    assert capsys.readouterr().out == "offset -1\n"


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    assert columns(("Id", "Name"), [(1, "a"), (100, "bc")]) == "Id   Name\n1    a\n100  bc"


def test_what_is_wider_than_a_terminal_is_broken_between_words(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [(1, "one two three four five six")]
    assert columns(("Id", "Why"), rows).splitlines()[1] == "1   one two three four five six", "no terminal"
    monkeypatch.setattr("kraftd.cli.output.terminal_columns", lambda _: 25)
    assert columns(("Id", "Why"), rows).splitlines() == [
        "Id  Why",
        "1   one two three four",
        "    five six",
    ]
    assert columns(("Id", "Number", "Why"), [(1, 2, "one two three four five six")]).splitlines() == [
        "Id  Number  Why",
        "1   2",
        "  one two three four five",
        "  six",
    ], "no room for words in the last column"
    assert columns(("Id", "Name"), [(1, "n" * 30)]).splitlines()[1:] == ["1", "  " + "n" * 30], (
        "no word is cut"
    )


def test_a_word_that_has_no_room_in_its_column_stands_below_its_row_indented(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kraftd.cli.output.terminal_columns", lambda _: 50)
    source = "DYNAMIC_DEFAULT_BROKER_CONFIG"
    rows = [("cluster", "log.retention.ms", 5, source), ("1", "a.b", 6, "DEFAULT_CONFIG")]
    emit("", Format.TABLE, lambda _: columns(("Of", "Name", "Value", "Source"), rows))
    assert capsys.readouterr().out.splitlines() == [
        "Of       Name              Value  Source",
        "cluster  log.retention.ms  5",
        f"  {source}",
        "1        a.b               6      DEFAULT_CONFIG",
    ]
    emit("", Format.TABLE, lambda _: labels([("Hash", "h" * 30), ("Log", "l" * 60), ("Id", "i" * 26)]))
    said = ["Hash:", "  " + "h" * 30, "Log:", "  " + "l" * 60, "Id:" + " " * 21 + "i" * 26]
    assert capsys.readouterr().out.splitlines() == said


def test_rows_that_are_too_wide_before_their_last_cell_are_broken_at_one_column() -> None:
    rows = [(1, "follower", "12345", "-"), (2, "leader", "1", "one two")]
    assert columns(("Id", "Role", "End", "Why"), rows, 16).splitlines() == [
        "Id  Role",
        "  End    Why",
        "1   follower",
        "  12345  -",
        "2   leader",
        "  1      one two",
    ]


def test_a_table_is_broken_and_json_never_is(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kraftd.cli.output.terminal_columns", lambda _: 20)
    emit({"a": "one two three four five six"}, Format.TABLE, lambda data: f"  {data['a']}")
    assert capsys.readouterr().out == "  one two three four\n    five six\n"
    for output in (Format.JSON, Format.YAML):
        emit({"a": "one two three four five six"}, output, lambda _: "")
        assert "one two three four five six" in capsys.readouterr().out


def test_labels_stand_in_kafkas_column() -> None:
    assert labels([("ClusterId", "x"), ("MaxFollowerLagTimeMs", 1)]) == (
        "ClusterId:              x\nMaxFollowerLagTimeMs:   1"
    )


def test_no_cell_or_label_breaks_its_line_or_moves_the_cursor() -> None:
    assert columns(("A",), [("a\nb\x1b[2J",)]).splitlines() == ["A", r"a\nb\x1b[2J"]
    assert labels([("Why", "a\u2028b\r")], 5) == r"Why: a\u2028b\r"


@pytest.mark.parametrize(
    "text", ["\x1b]0;title\x07 ", "\x1b[2J", "all is well\nNode 9", "\r", "\t", "\x9b31m", "\u2028"]
)
def test_no_text_in_the_data_breaks_a_line_of_a_table_or_moves_the_cursor(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever the table makes of it: other nodes have said it."""
    data = {"why": text, "nodes": [{"told": (f"a {text}",)}], text: 1}
    emit(
        data,
        Format.TABLE,
        lambda shown: f"1\t({shown['why']})\n{shown['nodes'][0]['told'][0]}\n{[*shown][2]}",
    )
    safe = repr(text)[1:-1]
    assert capsys.readouterr().out == f"1\t({safe})\na {safe}\n{safe}\n"
    emit(data, Format.TABLE, lambda _: f"not of the data: {text}!\ta column".replace("\n", " "))
    (line,) = capsys.readouterr().out.splitlines()
    assert not any(ord(each) in (*range(9), *range(10, 32), *range(127, 160), 0x2028) for each in line)
    assert line.endswith("!\ta column")
    emit(data, Format.JSON, lambda _: "")
    assert json.loads(capsys.readouterr().out)["why"] == text


def test_json_holds_what_is_no_utf_8_in_a_form_that_it_can() -> None:
    assert to_json_line({"path": ["a\udcff", 1, None]}) == r'{"path":["a\\udcff",1,null]}'

"""Texts that are cut to what has room."""

from hypothesis import given
from hypothesis import strategies as st

from kraftd.protocol.brief import brief, briefs


@given(st.text(max_size=60), st.integers(3, 60))
def test_a_text_is_cut_to_its_room_and_only_then(text: str, room: int) -> None:
    cut = brief(text, room)
    assert len(cut.encode()) <= room
    if len(text.encode()) <= room:
        assert cut == text
    else:
        assert cut.endswith("…")
        assert text.startswith(cut[:-1])


def test_what_is_left_out_is_counted() -> None:
    assert briefs(["a", "b", "c", "d"], 9, 3) == ("a", "b", "and 2 more")
    assert briefs(["a", "b", "c"], 9, 3) == ("a", "b", "c")


def test_what_is_no_utf_8_is_shown_as_question_marks():
    assert brief("caf\udce9", 20) == "caf?"
    assert brief("caf\udce9 and more", 10) == "caf? an…"

"""Where nothing can be drawn, a step that takes long is named on the console; a short one is not."""

import io
import time

from rich.console import Console

from kraftd.replay.progress import Steps


def console() -> tuple[Console, io.StringIO]:
    text = io.StringIO()
    return Console(file=text, width=80), text


def test_without_a_terminal_a_long_step_is_named_again_and_again() -> None:
    shown, text = console()
    with Steps(shown, line_s=0.02) as steps, steps.waiting("starting Spark"):
        while text.getvalue().count("\n") < 3:
            time.sleep(0.01)
    lines = text.getvalue().splitlines()
    assert lines[0] == "kraftctl: replay: starting Spark, 0 s"


def test_a_short_step_says_nothing() -> None:
    shown, text = console()
    with Steps(shown) as steps, steps.waiting("starting Spark"):
        pass
    assert text.getvalue() == ""


def test_without_a_console_nothing_is_said() -> None:
    with Steps(None, line_s=0.001) as steps, steps.waiting("starting Spark"):
        time.sleep(0.02)

"""Runs the command line in this process, as a user would: arguments in, exit code and both streams out."""

import json
import sys
from typing import Any, NamedTuple
from unittest.mock import patch

import pytest

from kraftd.cli.main import run


class Outcome(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        return json.loads(self.out)


class Kraftctl:
    """`kraftctl("status", "-o", "json")`; no environment of the machine leaks in."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self.is_on_terminal = False
        """What both streams say of themselves."""

    def __call__(self, *arguments: object) -> Outcome:
        self._capsys.readouterr()
        is_terminal = {"return_value": self.is_on_terminal}
        with (
            patch.object(sys.stdout, "isatty", **is_terminal),
            patch.object(sys.stderr, "isatty", **is_terminal),
        ):
            code = run([str(argument) for argument in arguments])
        out, err = self._capsys.readouterr()
        assert "Traceback" not in out + err
        return Outcome(code, out, err)

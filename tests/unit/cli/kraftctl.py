"""Runs the command line in this process, as a user would: arguments in, exit code and both streams out."""

import json
from typing import Any, NamedTuple

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

    def __call__(self, *arguments: object) -> Outcome:
        self._capsys.readouterr()
        code = run([str(argument) for argument in arguments])
        out, err = self._capsys.readouterr()
        assert "Traceback" not in out + err
        return Outcome(code, out, err)

"""The table of excused branches names what is there."""

import ast

import pytest

from tests.sim.branches import ROOT, excused, functions_of


@pytest.mark.parametrize("excuse", sorted(excused()))
def test_an_excuse_names_a_function_and_a_line_of_it(excuse: str) -> None:
    function, _, line = excuse.partition(" | ")
    module, _, name = function.partition(":")
    source = (ROOT / f"{module.replace('.', '/')}.py").read_text()
    spans = {found: (first, last) for found, first, last in functions_of(ast.parse(source))}
    assert name in spans
    first, last = spans[name]
    assert not line or line in [text.strip() for text in source.splitlines()[first:last]]

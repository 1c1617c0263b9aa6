"""How `--help` looks: plain text, as every other output, in which no flag is ever cut short.

A frame gives each column a share of the terminal and cuts what is wider: of `--disallow-replication-factor-
change` 80 columns show half. Here a long flag has a line of its own, and what it means comes below it.
"""

import textwrap
from collections.abc import Iterable
from typing import Any

Sections = Iterable[tuple[str, list[tuple[str, Any]]]]
"""Headings, and under each the commands by name."""


def make_plain(command: Any) -> None:
    """Have the help of a command and of all below it in plain text; lists show each first paragraph."""
    command.rich_markup_mode = None
    paragraph = textwrap.dedent(command.help or "").strip().partition("\n\n")[0]
    command.short_help = " ".join(paragraph.split())
    for below in getattr(command, "commands", {}).values():
        make_plain(below)


def write_sections(sections: Sections, formatter: Any) -> None:
    """The list of commands, under headings, each as wide as all of them together need."""
    found = [(heading, commands) for heading, commands in sections if commands]
    width = max(len(name) for _, commands in found for name, _ in commands)
    for heading, commands in found:
        with formatter.section(heading):
            formatter.write_dl([(name.ljust(width), one.get_short_help_str()) for name, one in commands])

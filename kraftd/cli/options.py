"""Options that many commands share, and where their values come from.

`-o` and `--bootstrap-controller` may stand before or after the command. What stands after wins over what
stands before, and both win over the environment.
"""

from collections.abc import Collection, Iterable
from typing import Annotated, TypeAlias

import msgspec
import typer

from kraftd.cli.failures import UsageError
from kraftd.cli.output import Format
from kraftd.protocol.brief import has_control_characters
from kraftd.types import Endpoint, no_endpoint_text, parse_endpoint

BOOTSTRAP_VARIABLE = "KRAFTD_BOOTSTRAP"

NODE_ID_MAX = (1 << 31) - 1
PARTITION_MAX = (1 << 31) - 1
OFFSET_MAX = (1 << 63) - 1
TOPIC_CHARACTERS_MAX = 249
"""Of a topic's name; there is none with a longer one."""

_NUMBER_DIGITS_MAX = 100
"""Of a number that is read at all."""

OutputOption: TypeAlias = Annotated[
    Format | None,
    typer.Option("--output", "-o", help="How the output is written. (default: table)", show_default=False),
]
BootstrapOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-controller",
        metavar="HOST:PORT,…",
        help=f"Nodes to ask first; any one is enough. (env: {BOOTSTRAP_VARIABLE})",
        show_default=False,
    ),
]
TimeoutOption: TypeAlias = Annotated[
    int, typer.Option("--timeout-ms", min=1, max=3_600_000, metavar="MS", help="Give up after this long.")
]


class GlobalOptions(msgspec.Struct, frozen=True):
    """What was said before the command."""

    output: Format = Format.TABLE
    bootstrap: str = ""


def output_of(context: typer.Context, output: Format | None) -> Format:
    """The format to answer in."""
    return output or _global_options(context).output


def bootstrap_of(context: typer.Context, bootstrap: str | None) -> tuple[Endpoint, ...]:
    """The nodes to ask first.

    Raises:
        UsageError: None was named, or one of them is not `host:port`.
    """
    text = bootstrap or _global_options(context).bootstrap
    if not text:
        raise UsageError(
            f"no node to ask; name one with --bootstrap-controller host:port or in {BOOTSTRAP_VARIABLE}"
        )
    return parse_endpoints(text)


def check_utf8(texts: Iterable[str], what: str) -> None:
    """Refuse arguments that cannot be sent, in the bytes that the shell gave.

    Raises:
        UsageError: One of them is not UTF-8.
    """
    for text in texts:
        try:
            text.encode()
        except UnicodeEncodeError:
            raise UsageError(f"{what} must be UTF-8, and {text!r} is not") from None


def check_line(texts: Collection[str], what: str) -> None:
    """Refuse arguments that are not UTF-8, or would break the line that they are shown in.

    Raises:
        UsageError: One of them is none.
    """
    check_utf8(texts, what)
    for text in texts:
        if has_control_characters(text):
            raise UsageError(f"{what} must hold no line break or other control character, and {text!r} does")


def parse_partition(text: str) -> tuple[str, int]:
    """Read `topic-partition`; the topic may hold dashes itself.

    Raises:
        UsageError: It is something else.
    """
    topic, dash, index = text.rpartition("-")
    check_line([text], "a partition")
    if not (dash and topic and index.isascii() and index.isdigit()):
        raise UsageError(f"{text!r} names no partition; write TOPIC-PARTITION, as orders-3")
    if len(index) > _NUMBER_DIGITS_MAX or int(index) > PARTITION_MAX:
        raise UsageError(f"{text!r} names no partition: their numbers are 0 to {PARTITION_MAX}")
    return topic, int(index)


def parse_endpoints(text: str) -> tuple[Endpoint, ...]:
    """Read `host:port,[v6::host]:port,…`; repeats are dropped, order is kept.

    Raises:
        UsageError: A part is not `host:port`.
    """
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts:
        raise UsageError(f"{text!r} names no node; write host:port[,host:port…]")
    return tuple(dict.fromkeys(parse_node(part) for part in parts))


def parse_node(text: str) -> Endpoint:
    """Read the `host:port` of one node to ask.

    Raises:
        UsageError: It is something else, or nothing that can be dialled.
    """
    try:
        endpoint = parse_endpoint(text)
    except ValueError as error:
        raise UsageError(str(error)) from None
    if not endpoint.host or endpoint.port == 0:
        raise UsageError(no_endpoint_text(text))
    return endpoint


def _global_options(context: typer.Context) -> GlobalOptions:
    settings = context.find_root().obj
    return settings if isinstance(settings, GlobalOptions) else GlobalOptions()

"""A state as tables for people: those that the parts of the image have, and a list of paths for all else."""

import json

from kraftd.cli.output import columns
from kraftd.logtools.tree import Place, walk
from kraftd.metadata.image import MetadataImage
from kraftd.metadata.part import ImageView
from kraftd.metadata.registry import IN_OVERVIEW, PARTS
from kraftd.metadata.views import File, TextTable


def table_of(image: MetadataImage, place: Place, *, show_secrets: bool) -> str:
    """What lies at one place of the tree, as a table."""
    view, path = ImageView(image, show_secrets), place.path.strip("/").split("/")
    for part in PARTS:
        if path[0] in part.sections(view) and (table := part.text_table(view, path)) is not None:
            return _laid_out(table)
    if isinstance(place.node, File):
        data = place.node.data
        return data if isinstance(data, str) else json.dumps(data, indent=2, ensure_ascii=False)
    files = [(each.path, _compact(each.node.data)) for each in walk(place) if isinstance(each.node, File)]
    return columns(("Path", "Value"), files) if files else ""


def overview(image: MetadataImage) -> list[str]:
    """The tables of an overview, and how much there is of what it does not list; `--path` shows that."""
    tables = [_laid_out(table) for part in PARTS if (table := part.overview(image)) is not None]
    counts = [found for part in IN_OVERVIEW if (found := part.overview_count(image)) is not None]
    lines = [f"  {path:<20}{count}" for path, count in counts if count]
    return [*tables, "\n".join(["Also there, with --path:", *lines]) if lines else ""]


def _laid_out(table: TextTable) -> str:
    return columns(table.headers, table.rows) if table.rows or table.is_shown_empty else ""


def _compact(data: object) -> str:
    return data if isinstance(data, str) else json.dumps(data, ensure_ascii=False, separators=(",", ":"))

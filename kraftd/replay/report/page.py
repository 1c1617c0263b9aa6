"""The report as one page of HTML: plots that can be asked with the mouse, and the same in tables for those
who cannot or would rather not. It needs no network: the libraries that draw are in it (Vega, from
vl-convert).

Not here: what is shown of a cluster, in which order and words (`sections`). Colours only repeat what words
and positions say.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import msgspec

from kraftd.logtools.problem import Problem
from kraftd.replay.errors import ReplayError
from kraftd.replay.report import charts
from kraftd.replay.report.analysis_results import AnalysisResults
from kraftd.replay.report.cluster_report import ClusterReport, Report, alike
from kraftd.replay.report.sections import sections, several

ROWS_SHOWN: Final = 100
"""So many rows of a table are in the page; the Parquet tables have all."""


def write_page(path: Path, report: Report, results: Mapping[str, AnalysisResults]) -> None:
    """Write the report.

    Raises:
        ReplayError: The file cannot be written.
    """
    text = render_page(report, results, _drawing_library())
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ReplayError(f"{path}: cannot be written: {error.strerror}") from error


def require_page(path: Path) -> None:
    """Make sure that a page can be written, before anything else is done.

    Raises:
        ReplayError: There is nothing to draw with, or no such directory.
    """
    if find_spec("vl_convert") is None:
        raise ReplayError(
            "a report needs vl-convert-python: install the replay extra, pip install 'kraftd[replay]'"
        )
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise ReplayError(f"{path}: {'is a directory' if path.is_dir() else 'no such directory'}")


def render_page(report: Report, results: Mapping[str, AnalysisResults], library: str) -> str:
    """The page. Clusters without results are in the overview only."""
    plots: list[charts.Spec] = []
    shown = [
        part
        for cluster in report.clusters
        if cluster.cluster_id in results
        for part in _cluster(cluster, results[cluster.cluster_id], plots)
    ]
    left_out = len(report.clusters) - sum(one.cluster_id in results for one in report.clusters)
    overview = "".join(_overview(report, results, left_out))
    specs = msgspec.json.encode(plots).decode().replace("</", "<\\/")
    safe = library.replace("</script", "<\\/script")
    style = (files("kraftd.replay.report") / "page.css").read_text()
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Replay of {several(len(report.clusters), 'cluster')}</title><style>{style}</style></head>\n"
        f"<body><main>{overview}{''.join(shown)}</main>\n"
        f"<script>{safe}</script>\n"
        f"<script>const specs = {specs};\n{_DRAW}</script></body></html>\n"
    )


_DRAW: Final = """const options = {actions: false, renderer: "svg", timeFormatLocale: undefined};
const draw = (spec, number) => {
  const box = document.getElementById("plot-" + number), room = box.clientWidth;
  const fitted = {...spec, ...(spec.vconcat ?
    {vconcat: spec.vconcat.map(view => ({...view, width: Math.max(room - MARGIN, 160)}))} : {width: room})};
  return vegaEmbed(box, fitted, options);
};
specs.forEach(draw);
let waiting;
addEventListener("resize", () => {
  clearTimeout(waiting);
  waiting = setTimeout(() => specs.forEach(draw), 150);
});
""".replace("MARGIN", str(charts.MARGIN))
"""Draws each plot as wide as the page, again when the window changes."""


def _drawing_library() -> str:
    from vl_convert import javascript_bundle

    library: str = javascript_bundle(snippet=None)  # type: ignore[arg-type]  # None is its default
    return library


# -- the overview of all clusters


def _overview(report: Report, results: Mapping[str, AnalysisResults], left_out: int) -> Iterator[str]:
    wrong = sum(problem.is_fault for problem in report.problems)
    found = sum(row["problem"] is not None for one in results.values() for row in one.snapshots)
    yield "<header><h1>Metadata log replay</h1>"
    yield (
        f"<p>{several(len(report.clusters), 'cluster')}, "
        f"{several(sum(len(one.nodes) for one in report.clusters), 'node')}, "
        f"{report.record_count:,} records in logs, each counted once. "
    )
    yield f'<strong class="bad">{several(wrong, "problem")}.</strong>' if wrong else "No problems."
    if found:
        yield f' <strong class="bad">{several(found, "finding")} in snapshots and logs.</strong>'
    yield f" Tables in <code>{escape(report.out)}</code>, Spark {escape(report.spark_version)}.</p></header>"
    rows = [
        (
            _link(cluster) if cluster.cluster_id in results else escape(cluster.cluster_id),
            cluster.folder,
            sum(problem.is_fault for problem in cluster.problems),
            len(cluster.nodes),
            cluster.end_offset - cluster.start_offset,
            f"{cluster.noop_share:.0%}",
            len(cluster.epochs),
            *_image_counts(cluster),
        )
        for cluster in report.clusters
    ]
    heads = (
        *("cluster", "folder", "problems", "nodes", "records", "NoOp", "leaders"),
        *("brokers", "topics", "partitions"),
    )
    yield '<section aria-labelledby="overview"><h2 id="overview">Clusters</h2>'
    yield _table(heads, rows, raw_first=True)
    if left_out:
        yield f"<p>{several(left_out, 'cluster')} with fewer problems and leaders are not shown in full.</p>"
    if report.lost:
        yield "<h3>Without a log</h3>" + _problems(report.lost)
    yield "</section>"


def _image_counts(cluster: ClusterReport) -> tuple[object, object, object]:
    if cluster.fold is None:
        return ("?", "?", "?")
    image = cluster.fold.image
    return (image.broker_count, image.topic_count, image.partition_count)


def _link(cluster: ClusterReport) -> str:
    return f'<a href="#{escape(cluster.cluster_id)}">{escape(cluster.cluster_id)}</a>'


# -- one cluster


def _cluster(cluster: ClusterReport, results: AnalysisResults, plots: list[charts.Spec]) -> Iterator[str]:
    name = escape(cluster.cluster_id)
    yield f'<section class="cluster" aria-labelledby="{name}">'
    yield f'<h2 id="{name}">Cluster {name} in {escape(cluster.folder)}</h2>'
    yield f"<p>{_sentence(cluster)}</p>"
    yield "<h3>Problems</h3>"
    yield _problems(cluster.problems) if cluster.problems else '<p class="good">None.</p>'
    for title, said, plot, heads, rows in sections(cluster, results):
        yield f"<h3>{title}</h3><p>{said}</p>"
        if plot is not None and rows:
            label = escape(f"{title}. The table below says the same.", quote=True)
            yield f'<div class="plot" id="plot-{len(plots)}" role="img" aria-label="{label}"></div>'
            plots.append(plot)
        if rows:
            table = _table(heads, [[row.get(field) for field in heads.values()] for row in rows[:ROWS_SHOWN]])
            more = f", the first {ROWS_SHOWN}" if len(rows) > ROWS_SHOWN else ""
            summary = f"As a table ({several(len(rows), 'row')}{more})"
            is_open = " open" if plot is None else ""
            yield f"<details{is_open}><summary>{summary}</summary>{table}</details>"
    yield "</section>"


def _sentence(cluster: ClusterReport) -> str:
    first, last = _when(cluster.first_record_at_ms), _when(cluster.last_record_at_ms)
    nodes = ", ".join(f"node {node.node_id}" for node in cluster.nodes)
    text = (
        f"{escape(nodes)}; offsets {cluster.start_offset:,} to {cluster.end_offset - 1:,}, {first} to {last}"
        " UTC. "
    )
    if cluster.fold is not None:
        fold = cluster.fold
        text += (
            f"Image at {fold.end_offset:,} ({fold.commit_status}), hash <code>{fold.image.image_hash}</code>."
        )
    return text


# -- pieces


def _problems(problems: Sequence[Problem]) -> str:
    rows = [
        (
            group[0].kind.value,
            ", ".join(problem.directory.rsplit("/", 1)[-1] for problem in group),
            group[0].file,
            group[0].position_bytes if group[0].position_bytes >= 0 else None,
            group[0].offset if group[0].offset >= 0 else None,
            group[0].what,
        )
        for group in alike(problems)[:ROWS_SHOWN]
    ]
    return _table(("kind", "node", "file", "byte", "offset", "what"), rows)


def _table(heads: Iterable[str], rows: Iterable[Sequence[object]], *, raw_first: bool = False) -> str:
    """A table; cells of numbers are set right. `raw_first`: the first cell is HTML already."""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in heads)
    body = "".join(
        "<tr>" + "".join(_cell(cell, raw=raw_first and not at) for at, cell in enumerate(row)) + "</tr>"
        for row in rows
    )
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _cell(value: object, *, raw: bool = False) -> str:
    if isinstance(value, datetime):
        return f"<td>{value.astimezone(UTC):%Y-%m-%d %H:%M:%S}</td>"
    if isinstance(value, int) and not isinstance(value, bool):
        return f'<td class="number">{value:,}</td>'
    text = "" if value is None else str(value)
    return f"<td>{text if raw else escape(text)}</td>"


def _when(milliseconds: int) -> str:
    moment = _moment(milliseconds)
    return "?" if moment is None else f"{moment:%Y-%m-%d %H:%M:%S}"


def _moment(milliseconds: int) -> datetime | None:
    return datetime.fromtimestamp(milliseconds / 1000, UTC) if milliseconds >= 0 else None

"""A picture of several reliability diagrams."""

from __future__ import annotations

import io
from pathlib import Path

from gnncal.data.errors import require
from gnncal.files.output import write_file
from gnncal.metrics.binning import ReliabilityBins
from gnncal.plotting.reliability import draw_reliability


def save_reliability(rows: dict[str, dict[str, ReliabilityBins]], path: Path) -> None:
    """Write a grid of reliability diagrams, one row for each group, as what the suffix says."""
    figures = require("matplotlib.figure", extra="plot", purpose="drawing a reliability diagram")
    n_rows, n_columns = len(rows), max(len(panels) for panels in rows.values())
    size = (4.0 * n_columns, 4.3 * n_rows + 0.3)
    figure = figures.Figure(figsize=size, layout="constrained")
    axes = figure.subplots(n_rows, n_columns, squeeze=False, sharex=True, sharey=True)
    for line, (group, panels) in zip(axes, rows.items(), strict=True):
        for ax, (title, bins) in zip(line, panels.items(), strict=True):
            draw_reliability(bins, ax=ax, title=title)
            ax.set_xlabel("confidence" if line is axes[-1] else "")
        line[0].set_ylabel(f"{group}\naccuracy")
    handles, names = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=len(names), frameon=False)
    content = io.BytesIO()
    figure.savefig(content, dpi=150, format=path.suffix[1:].lower() or "png")
    write_file(path, content.getvalue())

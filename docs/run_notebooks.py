"""Run every notebook and store its outputs: `python docs/run_notebooks.py`.

Text and figures appear where the notebook is read without being run, as on a code host.
"""

from __future__ import annotations

import ast
import base64
import io
import json
import warnings
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))


def run(notebook: dict[str, Any], *, figures: bool = True) -> dict[str, Any]:
    """Run the cells in order and return the notebook with what each printed, showed and drew."""
    plt.switch_backend("Agg")
    plt.close("all")  # a figure that is open already is not of the first cell
    names: dict[str, Any] = {"__name__": "__main__"}
    number = 0
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        number += 1
        printed, value = _run_cell("".join(cell["source"]), names)
        outputs: list[dict[str, Any]] = []
        if printed:
            outputs.append(
                {"output_type": "stream", "name": "stdout", "text": printed.splitlines(True)}
            )
        if value is not None:
            outputs.append(
                {
                    "output_type": "execute_result",
                    "execution_count": number,
                    "metadata": {},
                    "data": {"text/plain": repr(value).splitlines(True)},
                }
            )
        outputs += [_drawn(figure) for figure in map(plt.figure, plt.get_fignums()) if figures]
        plt.close("all")
        cell.update(execution_count=number, outputs=outputs)
    return notebook


def _run_cell(source: str, names: dict[str, Any]) -> tuple[str, Any]:
    """Run code; return what it printed and the value of a last expression that is not a drawing."""
    tree, value = ast.parse(source), None
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    out = io.StringIO()
    with redirect_stdout(out), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(compile(tree, "cell", "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)  # type: ignore[attr-defined]
    is_drawing = bool(plt.get_fignums()) or source.rstrip().endswith(";")
    return out.getvalue(), None if is_drawing else value


def _drawn(figure: Any) -> dict[str, Any]:
    file = io.BytesIO()
    options = {"metadata": {"Software": None}}  # no version of Matplotlib
    figure.savefig(file, format="png", dpi=80, bbox_inches="tight", facecolor="white", **options)
    image = base64.b64encode(file.getvalue()).decode()
    return {"output_type": "display_data", "metadata": {}, "data": {"image/png": image}}


def main() -> None:
    """Write every notebook with its outputs."""
    for path in NOTEBOOKS:
        notebook = run(json.loads(path.read_text()))
        path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")
        print(path.name)


if __name__ == "__main__":
    main()

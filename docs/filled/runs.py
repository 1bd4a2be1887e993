"""What the program prints, captured."""

from __future__ import annotations

import re
import tempfile
import textwrap
import warnings
from contextlib import chdir, redirect_stdout
from functools import cache
from io import StringIO
from typing import Any

from filled.common import RESULTS, ROOT, fill


def output(text: str) -> str:
    """Return a text as a block of output."""
    return "```text\n" + "\n".join(line.rstrip() for line in text.rstrip().splitlines()) + "\n```"


def command(*words: str) -> str:
    """Return what a command prints, 100 characters wide."""
    from typer.testing import CliRunner

    from gnncal.__main__ import app

    done = CliRunner().invoke(app, list(words), env={"COLUMNS": "100"}, catch_exceptions=False)
    return done.stdout


@cache
def example() -> Any:
    """Return the result on the bundled example."""
    import gnncal

    task = gnncal.example()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return gnncal.calibrate(task.logits, task.labels, task.graph, **task.splits)


@fill("readme-output")
def readme_output() -> str:
    """The first lines that `print(result)` prints."""
    lines = str(example()).splitlines()
    end = next(i for i, line in enumerate(lines) if line.startswith("ECE"))
    return output("\n".join([*lines[: end + 1], "..."]))


@fill("full-output")
def full_output() -> str:
    """All that `print(result)` prints."""
    return output(str(example()))


@fill("keeping-cost")
def keeping_cost() -> str:
    """The warning about a model whose logit of one class is too high."""
    import numpy as np
    from scipy.special import logsumexp

    import gnncal

    task = gnncal.example()
    margin = task.logits[:, 8] - logsumexp(np.delete(task.logits, 8, axis=1), axis=1)
    logits = np.stack([np.zeros_like(margin), margin + 1.5], axis=1)
    result = gnncal.calibrate(
        logits, task.labels == 8, task.graph, class_names=["other", "eight"], **task.splits
    )
    return output(textwrap.fill(str(result.advice), 100))


@fill("evaluation")
def evaluation() -> str:
    """What `print(result.before)` prints."""
    return output(str(example().before))


@fill("demo")
def demo() -> str:
    """What `gnncal demo` prints, up to where it says what to do next."""
    with tempfile.TemporaryDirectory() as folder:
        text = command("demo", "--out", f"{folder}/demo")
    return output(re.split(r"\n(?:Next\.|written|saved)", text, flags=re.IGNORECASE)[0])


@fill("report")
def report() -> str:
    """What `gnncal report` prints for the example."""
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        command("demo", "--json")
        return output(command("report", "demo-output/bundle.npz", "--out", "report.html"))


@fill("decide", "--accuracy", "0.98")
@fill("decide-class", "--positive", "8", "--act", "0.8", "--clear", "0.98")
def decide(*options: str) -> str:
    """What `gnncal decide` prints for the example, without what it wrote."""
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        command("demo", "--out", "demo", "--json")
        text = command("decide", "demo/bundle.npz", *options)
    return output(re.split(r"\n(?:written|saved)", text, flags=re.IGNORECASE)[0])


@fill("explain")
def explain() -> str:
    """The first lines that `explain` prints for a node of the example."""
    import gnncal

    task = gnncal.example()
    lines = str(example().calibrator.explain(task.logits, task.graph, node=5)).splitlines()
    return output("\n".join([*lines[:6], "..."]))


@fill("sets")
def sets() -> str:
    """What the first example of prediction sets prints."""
    page = (ROOT / "docs" / "decisions.md").read_text().partition("## Prediction sets")[2]
    (code, *_) = re.findall(r"```python\n(.*?)```", page, re.S)
    text = StringIO()
    with redirect_stdout(text), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(code, {})
    return output(text.getvalue())


@fill("paper-row")
def paper_row() -> str:
    """The row of Cora in the paper's first table."""
    return output(command("bench", "paper", str(RESULTS), "--datasets", "Cora"))

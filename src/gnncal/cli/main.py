"""The program: its verbs in the order of the work, then those of other packages."""

from __future__ import annotations

from typing import Annotated

import typer

from gnncal import __version__
from gnncal.cli.verbs import Command, LazyVerbs

VERBS = {  # what each does, and examples of how it is called
    "calibrate": (
        "Fit a calibrator on INPUT and write probabilities.",
        "calibrate model.npz --out calibrated",
        "calibrate model.npz --out calibrated --positive fraud --fail-if 'positive_ece>0.02'",
    ),
    "evaluate": (
        "Print metrics of INPUT's logits and calibrated probabilities.",
        "evaluate model.npz --probabilities calibrated/probabilities.npz",
    ),
    "report": (
        "Write an HTML report: can INPUT's probabilities be trusted?",
        "report model.npz",
        "report model.npz --calibrator calibrated/calibrator.safetensors",
        "report model.npz --positive fraud --methods ts,structural-free --out fraud.html",
    ),
    "label": (
        "Choose nodes of INPUT to label for certifying a threshold.",
        "label model.npz --positive fraud --act 0.9 -n 200 --probabilities probabilities.npz",
    ),
    "decide": (
        "Find the nodes to decide automatically, with a guarantee.",
        "decide model.npz --accuracy 0.95",
        "decide model.npz --positive fraud --act 0.9 --clear 0.99",
        "decide model.npz --positive fraud --budget 100",
    ),
    "sets": (
        "Give each node a prediction set with guaranteed coverage.",
        "sets model.npz --coverage 0.9",
    ),
    "check": (
        "Test NEW for distribution shift; no labels needed.",
        "check calibrated/calibrator.safetensors new.npz --page check.html",
    ),
    "watch": (
        "Read new labels from LOG; alarm if calibration has drifted.",
        "watch calibrated/calibrator.safetensors labels.csv --positive fraud",
    ),
    "update": (
        "Update a saved calibrator with new labels or new base rates.",
        "update calibrated/calibrator.safetensors new.npz --out updated",
        "update calibrated/calibrator.safetensors new.npz --out updated --rate fraud=0.06",
    ),
    "apply": (
        "Calibrate INPUT with a saved calibrator; nothing is fitted.",
        "apply calibrated/calibrator.safetensors new.npz --out applied",
        "apply calibrator.safetensors new.npz --policy policy.safetensors --out decided",
    ),
    "card": (
        "Print the model card of a saved calibrator, in Markdown.",
        "card calibrated/calibrator.safetensors",
    ),
    "explain": (
        "Show how the method computes the probabilities of one node.",
        "explain calibrated/calibrator.safetensors new.npz --node acct_09804",
    ),
    "export": (
        "Write a saved calibrator as ONNX or a torch.export program.",
        "export calibrated/calibrator.safetensors --to onnx",
    ),
    "scale": (
        "Calibrate a Parquet graph that does not fit in memory.",
        "scale nodes.parquet edges.parquet --out scaled --memory-limit 4GiB",
    ),
    "methods": ("List the calibrators, or show one with its parameters.", "methods hots"),
    "demo": ("Run everything once on handwritten digits; no download.", "demo"),
}
MODULES = {"label": "decide", "sets": "decide", "explain": "card"}  # of verbs that share one
LazyVerbs.own = {
    name: Command(help, f"gnncal.cli.{MODULES.get(name, name)}:{name}", tuple(examples))
    for name, (help, *examples) in VERBS.items()
}
app = typer.Typer(
    name="gnncal",
    cls=LazyVerbs,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(__version__, flush=True)
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Post-hoc calibration for graph neural networks."""

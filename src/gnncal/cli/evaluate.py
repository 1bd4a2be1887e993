"""``gnncal evaluate``: print every metric on the test nodes, before and after calibration."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gnncal.cli.gates import FailIf, end_if_failed, failures_of, read_gates
from gnncal.cli.params import Input, Positive
from gnncal.cli.terminal import out, print_json
from gnncal.data.errors import InputError


def evaluate(
    source: Input,
    probabilities: Annotated[
        Path | None, typer.Option(help="Calibrated probabilities, as calibrate writes them.")
    ] = None,
    positive: Positive = None,
    fail_if: FailIf = None,
    json: Annotated[bool, typer.Option("--json", help="Print the metrics as JSON.")] = False,
) -> None:
    """Print all metrics of INPUT's logits and, if given, of calibrated probabilities.

    The exit code is 4 if a --fail-if holds, of the probabilities if they are given.
    """
    from gnncal.calibration import judge
    from gnncal.data.checks import warn_if_probabilities
    from gnncal.data.probability import softmax
    from gnncal.files.bundle import read_bundle, read_probabilities
    from gnncal.metrics.evaluation import check_positive_class, evaluation_of, evaluation_table
    from gnncal.metrics.outcomes import Outcomes

    gates = read_gates(fail_if)
    bundle = read_bundle(source)
    names, view = check_positive_class(positive, bundle.logits.shape[1], bundle.class_names)
    warn_if_probabilities(bundle.logits)
    test = bundle.test_nodes
    truth = bundle.labels[test]
    if test.size == 0:
        raise InputError(
            f"{source} has no labelled test nodes; give labels to nodes outside train and val."
        )
    if probabilities is None:
        degree = bundle.graph.in_degree[test]
        raw = softmax(bundle.logits[test])
        outcomes = Outcomes(truth, raw, degree, positive=view, is_checked=True)
        before = evaluation_of(outcomes, class_names=names)
        after = comparison = None
    else:
        probs = read_probabilities(probabilities, bundle)
        n_classes = bundle.logits.shape[1]
        if probs.shape[1] != n_classes:
            raise InputError(
                f"{probabilities} has {probs.shape[1]} classes but the logits have {n_classes}."
            )
        before, after, comparison = judge(
            bundle.logits, bundle.graph, probs, test, truth, names, view
        )
    failures = failures_of(gates, (before if after is None else after).values)
    if json:
        print_json({"before": before, "after": after, "difference": comparison})
        return end_if_failed(failures)
    sides = {"before": before} if after is None else {"before": before, "after": after}
    out.print(evaluation_table(sides).as_text())
    if comparison is not None:
        out.print(f"\n{comparison}")
    return end_if_failed(failures)

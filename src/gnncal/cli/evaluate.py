"""``gnncal evaluate``: print every metric on the test nodes, before and after calibration."""

from __future__ import annotations

from typing import Annotated

from gnncal.calibration import judge
from gnncal.cli import gates, params
from gnncal.cli.params import File, option
from gnncal.cli.terminal import print_result
from gnncal.data.checks import warn_if_probabilities
from gnncal.data.errors import InputError
from gnncal.data.probability import softmax
from gnncal.files.bundle import read_bundle, read_probabilities
from gnncal.metrics.evaluation import check_positive_class, evaluation_table
from gnncal.metrics.evaluation import evaluate as metrics_of


def evaluate(
    source: params.Input,
    probabilities: Annotated[
        File, option("File of calibrated probabilities, as calibrate writes it.")
    ] = None,
    positive: params.Positive = None,
    fail_if: gates.FailIf = None,
    json: params.SummaryAsJson = False,
) -> None:
    """Print metrics.

    The exit code is 4 if a --fail-if condition holds. Conditions refer to --probabilities if you
    pass it, otherwise to softmax(logits).
    """
    asked, bundle = gates.read_gates(fail_if), read_bundle(source)
    logits, test = bundle.logits, bundle.test_nodes
    names, view = check_positive_class(positive, logits.shape[1], bundle.class_names)
    warn_if_probabilities(logits)
    if test.size == 0:
        raise InputError(
            f"{source} has no labelled test nodes; give labels to nodes outside train and val."
        )
    truth, after, comparison = bundle.labels[test], None, None
    if probabilities is None:
        raw, degree = softmax(logits[test]), bundle.graph.in_degree[test]
        before = metrics_of(truth, raw, in_degree=degree, positive=view, class_names=names)
        text = evaluation_table({"model": before}).as_text()
    else:
        probs = read_probabilities(probabilities, bundle)
        before, after, comparison = judge(logits, bundle.graph, probs, test, truth, names, view)
        table = evaluation_table({"before": before, "after": after}).as_text()
        text = f"{table}\n\n{comparison}"
    document = {"before": before, "after": after, "difference": comparison}
    print_result(text, document, as_json=json)
    gates.end_if_failed(gates.failures_of(asked, (after or before).values))

"""Labels of positives that come late: what they do to a fit, and what a weight repairs.

    python benchmarks/late_labels.py --data DATA --cache results/practice --seeds 3

Of the calibration nodes that are positive, 40% have no label yet. The fit is on what is there: as
it is, with each positive that has come counted for those that are still to come (weight 1 / 0.6),
or as if the labels of the nodes that are late were known to be complete (all labels).
"""

from __future__ import annotations

import json
import warnings

import numpy as np

import gnncal
from gnncal import Nodes
from practice import RARE, Models, options_for

LATE = 0.4
METHODS = ("structural-free", "svs")


def main() -> None:
    options = options_for(__doc__, "benchmarks/results/late_labels.json").parse_args()
    warnings.simplefilter("ignore")
    models = Models(options.data, options.cache)
    lines = []
    for seed in range(options.seeds):
        for name in RARE:
            home = models.practice(name, seed)
            record, generator = Nodes(home.logits, home.graph), np.random.default_rng(seed)
            is_late = (home.labels[home.nodes] == 1) & (generator.random(home.nodes.size) < LATE)
            there = home.nodes[~is_late]
            weight = np.where(home.labels == 1, 1 / (1 - LATE), 1.0)
            fits = {
                "as it is": {"nodes": there},
                "weighted": {"nodes": there, "sample_weight": weight},
                "all labels": {"nodes": home.nodes},
            }
            for method in METHODS:
                for how, given in fits.items():
                    fitted = gnncal.get_calibrator(method).fit(record, home.labels, **given)
                    probs = fitted.predict_proba(record)[home.test_nodes]
                    truth = home.labels[home.test_nodes]
                    found = gnncal.evaluate(truth, probs, positive=1)
                    mean, rate = float(probs[:, 1].mean()), float((truth == 1).mean())
                    line = {"graph": name, "seed": seed, "method": method, "fit": how}
                    line |= {"nll": found.nll, "mean_probability": mean, "rate": rate}
                    checked = gnncal.check(fitted, record, nodes=home.test_nodes)
                    lines.append({**line, "check": checked.verdict})
    options.out.write_text("[\n" + ",\n".join(map(json.dumps, lines)) + "\n]\n")


if __name__ == "__main__":
    main()

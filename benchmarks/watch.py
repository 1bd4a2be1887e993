"""How often ``gnncal.Watch`` is wrong, and how long it takes to find a gap, beside MAPIE.

    pip install mapie
    python benchmarks/watch.py --data DATA --cache results/practice
    python benchmarks/watch.py --data DATA --only-fits  # the last part alone, five CPU minutes

Simulated: confidences drawn from those that ``structural`` gives to tolokers' test nodes, labels
that agree with them or less often by a gap. False alarms are counted over 1,000 streams of 10,000
labels that are looked at after every label. MAPIE's ``RiskMonitoring`` watches the error rate; its
threshold is the predicted one, without tolerance, and its level for the stream is the same 5%.
Real: the labels of test nodes of the graph that a calibrator was fitted on, and of other
countries, in random order. Fits: a calibrator is fitted on some labels of a block model, and then
watched on other nodes of the same graph, so nothing ever changes: what is found is an error of the
fit itself, such as those of a one-layer model that no calibrator repairs which keeps predictions.
The tolerance is that of ``gnncal watch``.
"""

from __future__ import annotations

import json
import warnings
from itertools import product
from typing import Any

import numpy as np

import gnncal
from gnncal import Nodes
from gnncal.data.arrays import FloatArray
from gnncal.shift.betting import START, Evidence
from gnncal.shift.watch import standard_error
from gnncal_lab.simulation import CSBM
from gnncal_lab.simulation.linear_gcn import aggregate
from practice import LIBRARIES, TWITCH, Models, Practice, options_for

LEVEL = 0.05
GAPS = {0.02: 15_000, 0.05: 6_000, 0.1: 3_000}  # and how long MAPIE is given to find them
HORIZON = 10_000
MAPIE_STREAMS = 30  # it takes a second for 10,000 labels
WELL = 2_000  # labels before a gap begins
METHOD = "structural"
FITTED = ("ts", "structural", "structural-free")
FIT_LABELS = (250, 1_000)
STREAM = 20_000
WORLDS = {  # homophily, and how many hops the model's logits see
    "two layers, homophily 0.5": (0.5, 2),
    "two layers, homophily 0.6": (0.6, 2),
    "two layers, homophily 0.8": (0.8, 2),
    "one layer, homophily 0.6": (0.6, 1),
}


def labels_needed(
    gap: float,
    confidence: FloatArray,
    log_limit: float,
    tolerance: float,
    n_streams: int,
    *,
    well_until: int = 0,
    most: int,
    enough: float,
) -> FloatArray:
    """Return the number of labels at the alarm of each stream; infinite without one.

    The nodes of a stream have these confidences; after a while all are right less often by the gap.
    """
    generator = np.random.default_rng(0)
    evidence = Evidence(n_streams, tolerance=tolerance)
    n_labels = np.full(n_streams, np.inf)
    for before in range(0, most, START):
        predicted = generator.choice(confidence, size=(n_streams, START))
        is_well = before + np.arange(START) < well_until
        truth = np.clip(predicted - np.where(is_well, 0.0, gap), 0.0, 1.0)
        over = evidence.add(predicted, generator.random(predicted.shape) < truth) >= log_limit
        first = np.where(over.any(axis=1), before + 1.0 + over.argmax(axis=1), np.inf)
        n_labels = np.minimum(n_labels, first)
        if np.isfinite(n_labels).mean() >= enough:
            break
    return n_labels


def quantiles(found: FloatArray) -> dict[str, Any]:
    ranked = np.sort(found)
    half, most = (ranked[round(share * ranked.size) - 1] for share in (0.5, 0.9))
    return {"half": _number(half), "most": _number(most), "found": float(np.isfinite(found).mean())}


def _number(value: float) -> int | None:
    return None if np.isinf(value) else int(value)


def false_alarms(confidence: FloatArray, n_streams: int) -> dict[str, Any]:
    limit = float(np.log(1 / LEVEL))
    found = {}
    for tolerance in (0.0, 0.02):
        alarms = labels_needed(
            0.0, confidence, limit, tolerance, n_streams, most=HORIZON, enough=1.0
        )
        found[f"confidence, tolerance {tolerance:g}"] = float(np.isfinite(alarms).mean())
    generator = np.random.default_rng(1)
    promise = Evidence(n_streams, only_below=True)
    predicted = np.full((n_streams, 50), 0.95)
    is_alarm = np.zeros(n_streams, dtype=bool)
    for _ in range(HORIZON // 50):
        observed = generator.random(predicted.shape) < predicted
        is_alarm |= (promise.add(predicted, observed) >= limit).any(axis=1)
    found["promise of 0.95, just kept"] = float(is_alarm.mean())
    print(found, flush=True)
    return found


def detection(confidence: FloatArray, n_streams: int) -> dict[str, Any]:
    limit = float(np.log(1 / LEVEL))
    found: dict[str, Any] = {}
    for gap, given in GAPS.items():
        for well in (0, WELL):
            needed = labels_needed(
                gap,
                confidence,
                limit,
                0.0,
                n_streams,
                well_until=well,
                most=WELL + 20_000,
                enough=0.97,
            )
            late = needed[needed > well] - well  # the others were false alarms
            theirs = mapie_needed(gap, confidence, well, given)
            name = f"gap {gap:g}, {'from the start' if not well else f'after {well} good labels'}"
            found[name] = {"gnncal": quantiles(late), "mapie": quantiles(theirs)}
            print(name, found[name], flush=True)
    return found


def mapie_needed(gap: float, confidence: FloatArray, well: int, given: int) -> FloatArray:
    from mapie.exchangeability_testing import RiskMonitoring

    generator = np.random.default_rng(2)
    found = np.full(MAPIE_STREAMS, np.inf)
    n = well + given
    for i in range(MAPIE_STREAMS):
        predicted = generator.choice(confidence, n)
        truth = np.clip(predicted - gap * (np.arange(n) >= well), 0, 1)
        right = (generator.random(n) < truth).astype(int)
        monitor = RiskMonitoring(
            "accuracy", test_level=2 * LEVEL, threshold=1 - float(confidence.mean()), warn=False
        )
        monitor.update(np.ones(n, dtype=int), right)  # its risk is the share of mistakes
        over = monitor.online_risk_lower_bound_sequence_history > monitor.threshold
        late = np.flatnonzero(over[well:])
        if late.size:
            found[i] = late[0] + 1
    return found


def on_real_graphs(models: Models, seeds: int) -> dict[str, Any]:
    own, moved = [], []
    for seed in range(seeds):
        for group in (TWITCH, LIBRARIES, ("tolokers",)):
            for source in group:
                home = models.practice(source, seed)
                nodes = Nodes(home.logits, home.graph)
                fitted = gnncal.get_calibrator(METHOD).fit(
                    nodes, home.labels, calibration_nodes=home.calibration_nodes
                )
                for target in group:
                    there = models.elsewhere(source, target, seed)
                    (own if source == target else moved).append(_alarm(fitted, there, seed))
    found = {
        "own graph": {"watches": len(own), "alarms": sum(a is not None for a in own)},
        "another graph": {
            "watches": len(moved),
            "alarms": sum(a is not None for a in moved),
            "half": _number(np.median([np.inf if a is None else a for a in moved])),
            "within 200": sum(a is not None and a <= 200 for a in moved),
        },
    }
    print(found, flush=True)
    return found


def _alarm(calibrator: gnncal.Calibrator, there: Practice, seed: int) -> int | None:
    order = np.random.default_rng(seed).permutation(there.test_nodes)
    probs = calibrator.predict_proba(there.logits, there.graph)[order]
    watch = gnncal.Watch(n_classes=probs.shape[1])
    return watch.add(probs, there.labels[order]).claims[0].alarm_at


def fits_that_never_change(draws: int) -> dict[str, Any]:
    """Share of watches that raise an alarm although the graph is that of the fit, by world."""
    found: dict[str, Any] = {}
    for title, (homophily, hops) in WORLDS.items():
        alarms: dict[str, list[list[float]]] = {}
        for seed in range(5):
            _watch_fits(homophily, hops, seed, draws // 5, alarms)
        found[title] = {kind: _alarm_rates(each) for kind, each in alarms.items()}
        print(title, found[title], flush=True)
    return found


def _watch_fits(
    homophily: float, hops: int, seed: int, draws: int, alarms: dict[str, list[list[float]]]
) -> None:
    generator, n = np.random.default_rng(seed), STREAM + max(FIT_LABELS)
    model = CSBM(n_classes=4, mean_degree=8, separation=1.0)
    sample = model.sample_undirected(n, homophily, random_state=seed)
    features = aggregate(sample.graph)
    for _ in range(hops - 1):
        features = aggregate(gnncal.Graph(sample.graph.edge_index, n, features))
    nodes = Nodes(8.0 * model.scores(features), sample.graph)
    for _ in range(draws):
        order = generator.permutation(n)
        later = order[max(FIT_LABELS) :]
        for n_labels, name in product(FIT_LABELS, FITTED):
            fitted = gnncal.get_calibrator(name)
            fitted.fit(nodes, sample.labels, calibration_nodes=order[:n_labels])
            probs, own = fitted.predict_proba(nodes)[later], standard_error(fitted)
            for tolerance in (own, 0.0) if name == "ts" else (own,):
                watch = gnncal.Watch(n_classes=4, tolerance=tolerance)
                at = watch.add(probs, sample.labels[later]).claims[0].alarm_at or np.inf
                kind = f"{name}, {n_labels:,} labels" + ("" if tolerance else ", tolerance 0")
                alarms.setdefault(kind, []).append([tolerance, at])


def _alarm_rates(found: list[list[float]]) -> dict[str, Any]:
    tolerance, at = np.array(found).T
    by = {f"by {n:,}": float((at <= n).mean()) for n in (1_000, 5_000, 20_000)}
    return {"watches": len(found), "tolerance": round(float(tolerance.mean()), 4), **by}


def main() -> None:
    parser = options_for(__doc__, "benchmarks/results/watch.json")
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--draws", type=int, default=60)
    parser.add_argument("--only-fits", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.only_fits:
        record = json.loads(options.out.read_text())
        record["fits_that_never_change"] = fits_that_never_change(options.draws)
        options.out.write_text(json.dumps(record, indent=2) + "\n")
        return
    models = Models(options.data, options.cache)
    home = models.practice("tolokers", 0)
    fitted = gnncal.get_calibrator(METHOD).fit(
        home.logits, home.labels, home.graph, calibration_nodes=home.calibration_nodes
    )
    confidence = fitted.predict_proba(home.logits, home.graph)[home.test_nodes].max(axis=1)
    confidence = np.round(confidence.astype(np.float64), 2)  # few values, so simulations are quick
    found: dict[str, Any] = {
        "confidence": {"mean": float(confidence.mean()), "n": int(confidence.size)},
        "false_alarms": false_alarms(confidence, options.streams),
        "real": on_real_graphs(models, options.seeds),
        "labels_needed": detection(confidence, options.streams // 5),
        "fits_that_never_change": fits_that_never_change(options.draws),
    }
    options.out.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()

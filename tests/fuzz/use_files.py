"""Read damaged files and use what can be read; run as a program, so that a crash is seen.

Prints one JSON line: how many files of each kind were refused and used, and what went wrong.
"""

import json
import resource
import sys
import tempfile
import traceback
import warnings
from pathlib import Path

import numpy as np

import gnncal
import gnncal_lab
from gnncal.calibrators.homophily import Predictor
from gnncal.decisions import ConformalClassifier, Costs, Policy
from tests.fuzz.mutations import mutate_bundle, mutate_calibrator

N, K, F = 24, 3, 5
SPARE_MEMORY = 2**30  # bytes beyond what the imports take
METHODS = (
    lambda: gnncal.calibrators.TemperatureScaling(),
    lambda: gnncal.HoTS(),
    lambda: gnncal.HoTS(homophily=Predictor(max_epochs=2)),
    lambda: gnncal_lab.GETS(max_epochs=1, stop_on="none"),
)


def example():
    """The arrays of a bundle with sparse features."""
    generator = np.random.default_rng(0)
    labels = generator.integers(K, size=N)
    features = generator.random((N, F)) < 0.4
    indices = np.concatenate([np.flatnonzero(row) for row in features])
    return {
        "logits": generator.normal(size=(N, K)) + np.eye(K)[labels],
        "labels": labels,
        "edge_index": generator.integers(N, size=(2, 3 * N)),
        "train_mask": np.arange(N) % 3 == 0,
        "val_mask": np.arange(N) % 3 == 1,
        "test_mask": np.arange(N) % 3 == 2,
        "x_data": np.ones(len(indices)),
        "x_indices": indices,
        "x_indptr": np.r_[0, np.cumsum(features.sum(axis=1))],
        "x_shape": np.array([N, F]),
        "node_ids": np.arange(N),
        "class_names": np.array(["a", "b", "c"]),
    }


def graph_of(arrays):
    features = np.zeros((N, F))
    rows = np.repeat(np.arange(N), np.diff(arrays["x_indptr"]))
    features[rows, arrays["x_indices"]] = 1.0
    return gnncal.Graph(arrays["edge_index"], N, features)


def saved_calibrators(folder):
    """The content of a saved file of every method, and HoTS with every estimator."""
    arrays, graph = example(), graph_of(example())
    made = {name: gnncal.get_calibrator(name) for name in gnncal.list_calibrators()}
    for calibrator in made.values():
        if "max_epochs" in calibrator.get_params():
            calibrator.set_params(max_epochs=2, stop_on="none")
    for name in ("predictor", "agreement"):
        made[f"hots {name}"] = gnncal.HoTS(homophily=name)
    made["hots given"] = gnncal.HoTS(homophily=np.linspace(0, 1, N))
    nodes, train = arrays["val_mask"], arrays["train_mask"]
    for name, calibrator in made.items():
        path = folder / "saved"
        calibrator.fit(
            arrays["logits"], arrays["labels"], graph, calibration_nodes=nodes, train_nodes=train
        )
        calibrator.save(path)
        yield name, path.read_bytes()


def use_bundle(path, number):
    bundle = gnncal.read_bundle(path)
    calibrator = METHODS[number % len(METHODS)]()
    calibrator.fit(
        bundle.logits,
        bundle.labels,
        bundle.graph,
        calibration_nodes=bundle.calibration_nodes,
        train_nodes=bundle.train_nodes,
    )
    check(calibrator.predict_proba(bundle.logits, bundle.graph))


def saved_decisions(folder):
    """The content of a saved file of every classifier for decisions."""
    arrays, graph, path = example(), graph_of(example()), folder / "saved"
    probs = gnncal.calibrators.softmax(arrays["logits"])
    made = {
        "accuracy": Policy(accuracy=0.3, confidence_level=0.5),
        "none certified": Policy(positive=1, act=0.99),
        "costs": Policy(positive=1, costs=Costs(5, 1), budget=3),
        "aps": ConformalClassifier(coverage=0.6, score="aps"),
        "lac": ConformalClassifier(coverage=0.6, score="lac", by_class=True),
        "daps": ConformalClassifier(0.6, score="daps", score_params={"diffusion": 0.2}),
    }
    for name, classifier in made.items():
        graphs = (graph,) if isinstance(classifier, ConformalClassifier) else ()
        classifier.fit(probs, arrays["labels"], *graphs, calibration_nodes=arrays["val_mask"])
        classifier.save(path)
        yield name, path.read_bytes()


def use_saved(path, arrays, graph):
    fitted = gnncal.load(path)
    probs = gnncal.calibrators.softmax(arrays["logits"])
    if isinstance(fitted, gnncal.Calibrator):
        check(fitted.predict_proba(arrays["logits"], graph))
    elif isinstance(fitted, Policy):
        assert fitted.decide(probs).shape == (N,)
        assert fitted.report_.sentence
    else:
        assert fitted.predict_set(probs, graph, ids=range(N)).shape == (N, K)
        assert fitted.report_.sentence


def check(probs):
    assert np.isfinite(probs).all(), "probabilities are not finite"
    assert (probs >= 0).all(), "probabilities are negative"
    np.testing.assert_allclose(probs.sum(axis=1), 1.0, rtol=1e-4)


SAVED = {"calibrators": saved_calibrators, "decisions": saved_decisions}


def run(kind, count):
    """Mutate, read and use ``count`` files; each has a seed of its own."""
    arrays, graph = example(), graph_of(example())
    result = {"refused": 0, "used": 0, "failures": []}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file.npz"
        originals = list(SAVED[kind](Path(folder))) if kind in SAVED else []
        limit_memory()
        for number in range(count):
            generator = np.random.default_rng(number)
            if kind == "bundles":
                path.write_bytes(mutate_bundle(arrays, generator))
            else:
                name, content = originals[number % len(originals)]
                path.write_bytes(mutate_calibrator(content, generator))
            try:
                use_bundle(path, number) if kind == "bundles" else use_saved(path, arrays, graph)
                result["used"] += 1
            except gnncal.InputError:
                result["refused"] += 1
            except Exception:
                what = name if kind in SAVED else METHODS[number % len(METHODS)]()
                result["failures"].append(f"{number}, {what}: {traceback.format_exc()}")
    return result


def limit_memory():
    """Allow what is taken now and a little more; the next kind of files may take more again."""
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (taken + SPARE_MEMORY, most))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    import torch

    torch.set_num_threads(1)
    count, *kinds = sys.argv[1:]
    print(json.dumps({kind: run(kind, int(count)) for kind in kinds}))

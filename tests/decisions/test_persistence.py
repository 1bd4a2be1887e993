"""A saved threshold or set of classes is the fitted one; any other file is refused."""

import json
import os
import struct
import warnings

import numpy as np
import pytest
from safetensors.numpy import load as from_bytes
from safetensors.numpy import save as to_bytes
from sklearn.exceptions import NotFittedError

import gnncal
from gnncal.decisions import ConformalClassifier, Policy
from gnncal.decisions.scores import aps
from gnncal.files.saved_calibrators import load as load_calibrator
from tests.test_persistence import refused, signed

GENERATOR = np.random.default_rng(0)
N = 300
P = GENERATOR.uniform(0.5, 1.0, N)
PROBS = np.column_stack([P, 1 - P])
LABELS = (GENERATOR.random(N) > P).astype(int)
GRAPH = gnncal.Graph(GENERATOR.integers(N, size=(2, 4 * N)), N, PROBS)
NODES = np.arange(200)


def metadata_of(content):
    (size,) = struct.unpack("<Q", content[:8])
    return json.loads(content[8 : 8 + size])["__metadata__"]


def policy(**params):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gnncal.GnncalWarning)
        return Policy(**{"accuracy": 0.95, **params}).fit(PROBS, LABELS, calibration_nodes=NODES)


def test_a_policy_keeps_the_class_names_of_its_fit(tmp_path):
    with pytest.raises(gnncal.InputError, match="those of its fit"):
        gnncal.save(policy(), tmp_path / "one.safetensors", class_names=["a", "b"])


def test_the_library_saves_a_policy_as_the_policy_itself_does(tmp_path):
    gnncal.save(policy(), tmp_path / "one.safetensors")
    policy().save(tmp_path / "other.safetensors")
    one, other = ((tmp_path / f"{name}.safetensors").read_bytes() for name in ("one", "other"))
    assert from_bytes(one).keys() == from_bytes(other).keys()
    assert gnncal.load(tmp_path / "one.safetensors").act_threshold_ == policy().act_threshold_


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"score": "daps", "random_state": 3},
        {"score": "raps", "score_params": {"k_reg": 2}, "nonempty": False},
        {"score": "daps", "score_params": {"diffusion": 0.2}, "coverage": 0.7},
        {"coverage": 0.999},  # too few nodes: every set has all classes
        {"coverage": 0.8, "score": "lac", "by_class": True},
        {"score": "snaps", "score_params": {"k": 5}},
        {"coverage": 0.99, "by_class": True},  # too few nodes of the second class
    ],
)
@pytest.mark.filterwarnings("ignore::gnncal.GnncalWarning")
def test_loaded_sets_are_the_saved_ones(tmp_path, params):
    ids = [f"node {i}" for i in range(N)] if "coverage" in params else None
    before = ConformalClassifier(**params).fit(
        PROBS, LABELS, GRAPH, calibration_nodes=NODES, ids=ids
    )
    before.save(tmp_path / "c")
    after = gnncal.load(tmp_path / "c")
    assert after.get_params() == before.get_params()
    assert after.report_ == before.report_
    np.testing.assert_array_equal(after.threshold_, before.threshold_)
    sets = before.predict_set(PROBS, GRAPH, ids=ids)
    np.testing.assert_array_equal(after.predict_set(PROBS, GRAPH, ids=ids), sets)
    again, refreshed = (c.refresh(PROBS, GRAPH, ids=ids) for c in (before, after))
    assert refreshed.report_ == again.report_ == before.report_
    after.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "c").read_bytes()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"_keys": np.arange(100, dtype=np.uint64)}, "_labels has shape"),
        ({"_keys": np.zeros(200, np.uint64)}, "_keys are not those of 200"),
        ({"_keys": np.arange(200.0)}, "expected an array of whole numbers"),
        ({"_labels": np.full(200, 2)}, "not within 0 to 1"),
        ({"threshold_": np.array([0.5, 0.5, 0.5])}, "damaged"),
        ({"threshold_": np.array([0.5, np.nan])}, "threshold_ has entries"),
    ],
)
def test_thresholds_by_class_that_no_fit_leaves_are_refused(tmp_path, changes, message):
    path = tmp_path / "d"
    fitted = ConformalClassifier(0.8, score="lac", by_class=True).fit(
        PROBS, LABELS, calibration_nodes=NODES
    )
    fitted.save(path)
    whole = path.read_bytes()
    metadata = metadata_of(whole)
    tensors = from_bytes(whole) | {f"fit.{name}": value for name, value in changes.items()}
    refused(path, signed(to_bytes(tensors, metadata=metadata)), message)


def test_what_has_no_name_or_is_not_fitted_cannot_be_saved(tmp_path):
    with pytest.raises(NotFittedError):
        Policy().save(tmp_path / "s")
    with pytest.raises(gnncal.InputError, match="score is a function, which cannot be saved"):
        ConformalClassifier(score=aps).fit(PROBS, LABELS, calibration_nodes=NODES).save(
            tmp_path / "c"
        )
    with pytest.raises(gnncal.InputError, match="path is None"):
        policy().save(None)
    assert os.listdir(tmp_path) == []


@pytest.fixture(params=["policy", "conformal"])
def edited(request, tmp_path):
    """Write a saved classifier again with its header changed and a checksum that fits."""
    path = tmp_path / "d"
    fitted = (
        policy(accuracy=0.8)
        if request.param == "policy"
        else ConformalClassifier(score="raps").fit(PROBS, LABELS, calibration_nodes=NODES)
    )
    fitted.save(path)
    whole = path.read_bytes()
    header = json.loads(metadata_of(whole)["gnncal"])
    saved = from_bytes(whole)

    def write(text=None, tensors=None, **changes):
        kept = {key: v for key, v in (header | changes).items() if v is not ...}
        metadata = {"gnncal": text or json.dumps(kept)}
        return path, signed(to_bytes(saved | (tensors or {}), metadata=metadata))

    return write, header, request.param


def test_damaged_headers_are_refused(edited):
    write, header, _ = edited
    for key in header:
        refused(*write(**{key: {"unheard": "of"}}), "damaged|class_names is|n_classes|holds|format")
        refused(*write(**{key: ...}), "damaged")
    refused(*write(decision="magic"), "which this gnncal does not know; upgrade")
    refused(*write(decision=["policy"]), "does not know")
    refused(*write(format=4), "but this gnncal reads 1; upgrade")
    for n_classes in (1, -1, 2.0, "2"):
        refused(*write(n_classes=n_classes), "n_classes is")
    for part in ("params", "fit"):
        values = header[part]["dict"]
        for name in values:
            refused(*write(**{part: {"dict": values | {name: {"tuple": 3}}}}), " is |damaged")
            rest = {key: value for key, value in values.items() if key != name}
            refused(*write(**{part: {"dict": rest}}), "instead of|other parameters|damaged")
        refused(*write(**{part: {"dict": values | {"fit": 1}}}), "instead of|other parameters")


FACTS = {
    "policy": [
        ({"_labelled_share": 2.0}, "labelled_share is 2.0"),
        ({"_labels_for_one": 0.5}, "labels_for_one is 0.5"),
        ({"_is_proven": 1}, "is_proven is 1"),
        ({"_lowest": -1.0}, "lowest is -1.0"),
        ({"_review_share": float("nan")}, "review_share is nan"),
        ({"_review_threshold": "0.5"}, "review_threshold is '0.5'"),
        ({"_score": 1}, "score is 1"),
    ],
    "conformal": [
        ({"threshold_": 0.5}, "threshold_ is 0.5"),
        ({"_n_rows": 20}, "of 20 nodes"),
        ({"_n_rows": 1.5}, "n_rows is 1.5"),
        ({"_has_ids": 1}, "has_ids is 1"),
        ({"_keys": 1}, "keys is 1"),
    ],
}


def test_numbers_that_no_fit_leaves_are_refused(edited):
    write, header, kind = edited
    state = header["fit"]["dict"]
    for changes, message in FACTS[kind]:
        refused(*write(fit={"dict": state | changes}), message)


def test_scores_that_cannot_be_are_refused(edited):
    write, header, kind = edited
    if kind == "policy":
        return
    params = header["params"]["dict"]

    def changed(**changes):
        return write(params={"dict": params | changes})

    refused(*changed(score="magic"), "score is 'magic'")
    refused(*changed(score={"magic": {"dict": {}}}), "KeyError: 'magic'")
    refused(*changed(score_params={"dict": {"unheard": 1}}), "has no parameter 'unheard'")


@pytest.mark.parametrize("kind", ["policy", "conformal"])
def test_every_bit_flip_and_truncation_is_detected(tmp_path, kind):
    path = tmp_path / "d"
    fitted = (
        policy()
        if kind == "policy"
        else ConformalClassifier().fit(
            *(PROBS[:40], LABELS[:40]), calibration_nodes=NODES[:40], class_names=["a", "ç"]
        )
    )
    fitted.save(path)
    whole = path.read_bytes()
    for bit in np.random.default_rng(0).permutation(8 * len(whole))[:400]:
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << (bit % 8)
        path.write_bytes(bytes(flipped))
        with pytest.raises(gnncal.InputError):
            gnncal.load(path)
    for length in range(0, len(whole), 11):
        refused(path, whole[:length], "damaged")


def test_a_threshold_is_not_taken_for_a_calibrator(tmp_path):
    policy().save(tmp_path / "s")
    with pytest.raises(gnncal.InputError, match="holds a 'policy' for decisions, not a calibr"):
        load_calibrator(tmp_path / "s")

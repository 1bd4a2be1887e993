"""A saved calibrator is the calibrator; any other file is refused."""

import json
import os
import struct

import numpy as np
import pytest
from safetensors.numpy import load as read_tensors
from safetensors.numpy import save as to_bytes
from sklearn.exceptions import NotFittedError

import gnncal
from gnncal.homophily import Predictor, Support

pytestmark = pytest.mark.filterwarnings("ignore::gnncal.GnncalWarning")
N, K = 150, 4
GENERATOR = np.random.default_rng(11)
LABELS = GENERATOR.integers(K, size=N)
LOGITS = GENERATOR.normal(size=(N, K)) + 2 * np.eye(K)[LABELS]
FEATURES = GENERATOR.normal(size=(N, 6)) + np.eye(6)[LABELS]
GRAPH = gnncal.Graph(GENERATOR.integers(N, size=(2, 6 * N)), N, FEATURES)
OTHER = gnncal.Graph(GENERATOR.integers(40, size=(2, 160)), 40, FEATURES[:40])
SPLIT = {"train_nodes": np.arange(0, N, 3), "nodes": np.arange(1, N, 3)}
SHARES = GENERATOR.random(N)


def fitted(name, **params):
    return gnncal.get_calibrator(name, **params).fit(LOGITS, LABELS, GRAPH, **SPLIT)


CASES = {name: (name, {}) for name in gnncal.list_calibrators()}
CASES |= {
    f"hots {homophily}": ("hots", {"homophily": homophily})
    for homophily in ("support", "agreement", "predictor", "cross-fitted")
}
CASES |= {
    "hots given": ("hots", {"homophily": SHARES}),
    "hots given, strided": ("hots", {"homophily": np.stack([SHARES, SHARES], axis=1)[:, 0]}),
    "hots given, big-endian": ("hots", {"homophily": SHARES.astype(">f4")}),
    "hots clamped": ("hots", {"homophily": Support(clamp_train_labels=True)}),
    "hots paper": ("hots", gnncal.HoTS.paper().get_params()),
    "hots release": ("hots", gnncal.HoTS.paper("release").get_params()),
    "vs without bias": ("vs", {"bias": False}),
    "ts paper": ("ts", {"protocol": "paper"}),
}


@pytest.mark.parametrize("case", CASES)
def test_a_loaded_calibrator_is_the_saved_one_to_the_bit(tmp_path, case):
    name, params = CASES[case]
    before, path = fitted(name, **params), tmp_path / "c.safetensors"
    before.save(path, class_names=["a", "b", "ç", "d"])
    after = gnncal.load(path)
    assert type(after) is type(before)
    np.testing.assert_equal(after.get_params(), before.get_params())
    for attribute in (*before.learned, "classes_", "n_features_in_"):
        np.testing.assert_equal(getattr(after, attribute), getattr(before, attribute))
    assert after.fit_report_ == before.fit_report_
    assert after.class_names_ == ["a", "b", "ç", "d"]
    for logits in (LOGITS, LOGITS.astype(np.float32)):
        probs = before.predict_proba(logits, GRAPH)
        assert after.predict_proba(logits, GRAPH).tobytes() == probs.tobytes()
    if "given" in case:
        with pytest.raises(gnncal.InputError, match="another graph"):
            after.predict_proba(LOGITS[:40], OTHER)
    else:
        probs = before.predict_proba(LOGITS[:40], OTHER)
        assert after.predict_proba(LOGITS[:40], OTHER).tobytes() == probs.tobytes()
    again = tmp_path / "again.safetensors"
    after.save(again)
    assert again.read_bytes() == path.read_bytes()


@pytest.mark.parametrize("name", gnncal.list_calibrators())
def test_a_file_holds_parameters_and_no_array_of_the_fitted_graph(tmp_path, name):
    calibrator, path = fitted(name), tmp_path / "c.safetensors"
    calibrator.save(path)
    content = path.read_bytes()
    tensors = read_tensors(content)  # parses as safetensors: numbers and JSON, no pickle
    assert all(N not in array.shape for array in tensors.values())
    for attribute in ("temperature_", "homophily_"):
        values = getattr(calibrator, attribute, np.arange(N * 1.0))
        assert np.unique(values).size == 1 or np.ascontiguousarray(values).tobytes() not in content
        assert not hasattr(gnncal.load(path), attribute)


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({"epsilon": np.float64(0.02)}, 0.02),
        ({"epsilon": np.float32(0.25)}, 0.25),
        ({"homophily": Predictor(random_state=np.int64(3))}, Predictor(random_state=3)),
        ({"temperature_range": (np.float32(0.5), np.int64(9))}, (0.5, 9)),
        ({"homophily": SHARES.tolist()}, SHARES),
    ],
)
def test_numpy_numbers_and_lists_are_saved_by_value(tmp_path, params, expected):
    calibrator, (name,) = fitted("hots", **params), params
    calibrator.save(tmp_path / "c")
    loaded = gnncal.load(tmp_path / "c")
    np.testing.assert_equal(loaded.get_params()[name], expected)
    probs = calibrator.predict_proba(LOGITS, GRAPH)
    assert loaded.predict_proba(LOGITS, GRAPH).tobytes() == probs.tobytes()


def test_a_tensor_is_saved_as_an_array(tmp_path):
    torch = pytest.importorskip("torch")
    calibrator = fitted("hots", homophily=torch.tensor(SHARES))
    calibrator.save(tmp_path / "c")
    np.testing.assert_array_equal(gnncal.load(tmp_path / "c").homophily, SHARES)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"homophily": np.array([*SHARES[:-1], None])}, "homophily is a ndarray"),
        ({"homophily": SHARES.astype(np.longdouble)}, "homophily is a ndarray"),
    ],
)
def test_what_cannot_be_saved_is_refused_by_name(tmp_path, params, message):
    with pytest.raises(gnncal.InputError, match=message):
        fitted("hots", **params).save(tmp_path / "c")
    assert os.listdir(tmp_path) == []


def test_only_fitted_calibrators_of_the_catalogue_can_be_saved(tmp_path):
    with pytest.raises(NotFittedError, match="HoTS"):
        gnncal.HoTS().save(tmp_path / "c")

    class Mine(gnncal.TemperatureScaling):
        pass

    with pytest.raises(gnncal.InputError, match="Mine is not one of gnncal's calibrators"):
        Mine().fit(LOGITS, LABELS).save(tmp_path / "c")
    assert os.listdir(tmp_path) == []


def test_class_names_are_one_a_class_and_any_sequence(tmp_path):
    calibrator = fitted("ts")
    with pytest.raises(gnncal.InputError, match="3 names for 4 classes"):
        calibrator.save(tmp_path / "c", class_names=["a", "b", "c"])
    calibrator.save(tmp_path / "c", class_names=np.array(["a", "b", "c", "d"]))
    assert gnncal.load(tmp_path / "c").class_names_ == ["a", "b", "c", "d"]
    calibrator.save(tmp_path / "c")
    assert not hasattr(gnncal.load(tmp_path / "c"), "class_names_")


def test_saving_is_all_or_nothing(tmp_path, monkeypatch):
    path = tmp_path / "c.safetensors"
    fitted("ts").save(path)
    before = path.read_bytes()

    def fail(*_):
        raise OSError("the disk is gone")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="the disk is gone"):
        fitted("vs").save(path)
    assert os.listdir(tmp_path) == [path.name]
    assert path.read_bytes() == before


def test_saving_makes_folders_and_replaces(tmp_path):
    path = tmp_path / "a" / "b" / "c.safetensors"
    for name in ("ts", "vs"):
        fitted(name).save(path)
    assert type(gnncal.load(str(path))) is gnncal.VectorScaling
    assert os.listdir(path.parent) == [path.name]


# --- files that are not ours, or no longer


def refused(path, content, message):
    path.write_bytes(content)
    with pytest.raises(gnncal.InputError, match=message) as caught:
        gnncal.load(path)
    assert str(path) in str(caught.value)


def test_foreign_files_are_refused(tmp_path):
    path = tmp_path / "c"
    refused(path, b"", "damaged or no safetensors file")
    refused(path, np.random.default_rng(0).bytes(500), "damaged or no safetensors file")
    refused(path, to_bytes({"w": np.ones(3)}), "not written by gnncal")
    refused(path, to_bytes({"w": np.ones(3)}, metadata={"format": "pt"}), "not written by gnncal")
    half = json.dumps({"w": {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}}).encode()
    refused(path, struct.pack("<Q", len(half)) + half + bytes(4), "not written by gnncal")
    for absent in (tmp_path / "absent", tmp_path):
        with pytest.raises(gnncal.InputError, match="there is no file"):
            gnncal.load(absent)


def test_every_truncation_is_refused(tmp_path):
    path = tmp_path / "c"
    fitted("vs").save(path)
    whole = path.read_bytes()
    for length in range(0, len(whole), 7):
        refused(path, whole[:length], "damaged or no safetensors file")


@pytest.fixture
def edited(tmp_path):
    """Write a saved cross-fitted HoTS again with its header or tensors changed."""
    path = tmp_path / "c"
    fitted("hots", homophily="cross-fitted").save(path)
    whole = path.read_bytes()
    (size,) = struct.unpack("<Q", whole[:8])
    header = json.loads(json.loads(whole[8 : 8 + size])["__metadata__"]["gnncal"])

    def write(text=None, *, drop=None, **changes):
        tensors = {name: t for name, t in read_tensors(whole).items() if name != drop}
        kept = {key: v for key, v in (header | changes).items() if v is not ...}
        return path, to_bytes(tensors, metadata={"gnncal": text or json.dumps(kept)})

    return write, header


def test_newer_files_and_unknown_calibrators_ask_for_an_upgrade(edited):
    write, _ = edited
    refused(*write(format=2), "format is 2, newer than this gnncal's 1; upgrade")
    refused(*write(calibrator="magic"), "holds a 'magic', which this gnncal does not know")


def test_damaged_headers_are_refused(edited):
    write, header = edited
    for text in ("", "{", "[]", "7", "null", '"hots"'):
        refused(*write(text or " "), "damaged")
    for key in header:
        refused(*write(**{key: ...}), "damaged")
        refused(*write(**{key: {"unheard": "of"}}), "damaged|names for 4 classes")
    refused(*write(format="one"), "damaged")
    refused(*write(calibrator=["hots"]), "damaged")
    refused(*write(drop="learned.homophily_weights_.input_weight"), "damaged")
    parts = header["learned"]["dict"]
    missing = {name: value for name, value in parts.items() if name != "beta_"}
    refused(*write(learned={"dict": missing}), "damaged")
    refused(*write(learned={"dict": parts | {"predict_proba": 1}}), "damaged")
    refused(*write(params={"dict": {"unheard": 1}}), "no parameter 'unheard'")

"""A saved calibrator is the calibrator; any other file is refused."""

import hashlib
import json
import os
import re
import struct
from datetime import date
from functools import cache

import numpy as np
import pytest
from safetensors.numpy import load as read_tensors
from safetensors.numpy import save as to_bytes
from sklearn.exceptions import NotFittedError

import gnncal
import gnncal_lab
from gnncal.calibrators.auto import chosen_of
from gnncal.calibrators.homophily import Predictor
from gnncal.files.format import FORMAT_VERSION

pytestmark = pytest.mark.filterwarnings("ignore::gnncal.GnncalWarning")
N, K = 150, 4
GENERATOR = np.random.default_rng(11)
LABELS = GENERATOR.integers(K, size=N)
LOGITS = GENERATOR.normal(size=(N, K)) + 2 * np.eye(K)[LABELS]
FEATURES = GENERATOR.normal(size=(N, 6)) + np.eye(6)[LABELS]
GRAPH = gnncal.Graph(GENERATOR.integers(N, size=(2, 6 * N)), N, FEATURES)
OTHER = gnncal.Graph(GENERATOR.integers(40, size=(2, 160)), 40, FEATURES[:40])
SPLIT = {"train_nodes": np.arange(0, N, 3), "calibration_nodes": np.arange(1, N, 3)}
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
    "hots clamped": ("hots", {"homophily": "clamped-support"}),
    "hots paper": ("hots", gnncal.HoTS.paper().get_params()),
    "hots release": ("hots", gnncal.HoTS.paper("release").get_params()),
    "vs without bias": ("vs", {"bias": False}),
    "ts paper": ("ts", {"protocol": "paper"}),
}


@cache
def fitted_case(case):
    """A case, fitted once for all tests, which save it and do not change it."""
    name, params = CASES[case]
    return chosen_of(fitted(name, **params))


@pytest.mark.parametrize("case", CASES)
def test_a_loaded_calibrator_is_the_saved_one_to_the_bit(tmp_path, case):
    before, path = fitted_case(case), tmp_path / "c.safetensors"
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
    calibrator, path = fitted_case(name), tmp_path / "c.safetensors"
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

    class Mine(gnncal.calibrators.TemperatureScaling):
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


def test_a_file_keeps_the_positive_class(tmp_path):
    logits, labels = np.eye(3)[[0, 1, 2] * 20] * 3, [0, 1, 2, 0, 1, 1] * 10
    for positive in (2, None):
        result = gnncal.calibrate(
            logits, labels, calibration_nodes=range(60), method="ts", positive=positive
        )
        result.calibrator.save(tmp_path / "c")
        loaded = gnncal.load(tmp_path / "c")
        assert loaded.positive_ == positive
        assert (
            loaded.update(logits + 0.1, labels, calibration_nodes=range(60)).positive_ == positive
        )


def test_a_positive_class_that_does_not_exist_is_refused(edited):
    write, header = edited
    for wrong in (header["n_classes"], -1, 1.5, "1", True):
        refused(*write(positive=wrong), "positive is")


def test_saving_is_all_or_nothing(tmp_path, monkeypatch):
    path = tmp_path / "c.safetensors"
    fitted_case("ts").save(path)
    before = path.read_bytes()

    def fail(*_):
        raise OSError("the disk is gone")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="the disk is gone"):
        fitted_case("vs").save(path)
    assert os.listdir(tmp_path) == [path.name]
    assert path.read_bytes() == before


def test_saving_makes_folders_and_replaces(tmp_path):
    path = tmp_path / "a" / "b" / "c.safetensors"
    for name in ("ts", "vs"):
        fitted_case(name).save(path)
    assert type(gnncal.load(str(path))) is gnncal_lab.VectorScaling
    assert os.listdir(path.parent) == [path.name]


# --- files that are not ours, or no longer


def refused(path, content, message):
    path.write_bytes(content)
    with pytest.raises(gnncal.InputError, match=message) as caught:
        gnncal.load(path)
    assert str(path) in str(caught.value)


def test_foreign_files_are_refused(tmp_path):
    path = tmp_path / "c"
    refused(path, b"", "damaged or not a safetensors file")
    refused(path, np.random.default_rng(0).bytes(500), "damaged or not a safetensors file")
    refused(path, to_bytes({"w": np.ones(3)}), "not written by gnncal")
    refused(path, to_bytes({"w": np.ones(3)}, metadata={"format": "pt"}), "not written by gnncal")
    half = json.dumps({"w": {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}}).encode()
    refused(path, struct.pack("<Q", len(half)) + half + bytes(4), "not written by gnncal")
    for absent in (tmp_path / "absent", tmp_path):
        with pytest.raises(gnncal.InputError, match="file not found"):
            gnncal.load(absent)


def test_every_truncation_is_refused(tmp_path):
    path = tmp_path / "c"
    fitted_case("vs").save(path)
    whole = path.read_bytes()
    for length in range(0, len(whole), 7):
        refused(path, whole[:length], "damaged or not a safetensors file")


def signed(content):
    """The same file with the checksum that its content now has."""
    found = re.search(rb'checksum\\": \\"([0-9a-f]{64})', content)
    if found is None:
        return content
    digest = hashlib.sha256(content.replace(found[1], b"0" * 64)).hexdigest()
    return content.replace(found[1], digest.encode())


@pytest.fixture
def edited(tmp_path):
    """Write a saved cross-fitted HoTS again with its header or tensors changed."""
    path = tmp_path / "c"
    fitted_case("hots cross-fitted").save(path)
    whole = path.read_bytes()
    (size,) = struct.unpack("<Q", whole[:8])
    header = json.loads(json.loads(whole[8 : 8 + size])["__metadata__"]["gnncal"])

    def write(text=None, *, drop=None, **changes):
        tensors = {name: t for name, t in read_tensors(whole).items() if name != drop}
        kept = {key: v for key, v in (header | changes).items() if v is not ...}
        return path, signed(to_bytes(tensors, metadata={"gnncal": text or json.dumps(kept)}))

    return write, header


def test_other_formats_and_unknown_calibrators_ask_for_an_upgrade(edited):
    write, _ = edited
    for version in (FORMAT_VERSION + 1, 0, -5, float("nan"), 1.0, True, "1", None):
        refused(*write(format=version), f"but this gnncal reads {FORMAT_VERSION}; upgrade")
    refused(*write(calibrator="magic"), "holds a 'magic', which this gnncal does not know")


def test_damaged_headers_are_refused(edited):
    write, header = edited
    for text in ("", "{", "[]", "7", "null", '"hots"', "[" * 10**5, '{"format":' * 10**5):
        refused(*write(text or " "), "damaged")
    for key in header:
        refused(*write(**{key: ...}), "damaged")
        refused(*write(**{key: {"unheard": "of"}}), "damaged|class_names is|n_classes is")
    refused(*write(calibrator=["hots"]), "damaged")
    refused(*write(drop="learned.homophily_weights_.input_weight"), "damaged")
    parts = header["learned"]["dict"]
    missing = {name: value for name, value in parts.items() if name != "beta_"}
    refused(*write(learned={"dict": missing}), "damaged")
    refused(*write(learned={"dict": parts | {"predict_proba": 1}}), "damaged")
    refused(*write(params={"dict": {"unheard": 1}}), "no parameter 'unheard'")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"alpha_": -1.0}, "alpha_ is -1.0; expected a number in"),
        ({"alpha_": float("nan")}, "alpha_ is nan"),
        ({"beta_": "x"}, "beta_ is 'x'"),
        ({"beta_": True}, "beta_ is True"),
        ({"base_temperature_": 10**400}, "base_temperature_ is 1000"),
        ({"converged_": 1}, "converged_ is 1; expected True or False"),
        ({"n_iter_": -1}, "n_iter_ is -1"),
        ({"isolated_homophily_": 1.5}, "isolated_homophily_ is 1.5"),
        ({"graph_fingerprint_": 3}, "graph_fingerprint_ is 3; expected text"),
        ({"homophily_method_": "magic"}, "homophily_method_|homophily is"),
        ({"homophily_weights_": {"dict": {}}}, r"homophily_weights_ holds \[\] instead of"),
    ],
)
def test_learned_values_that_no_fit_finds_are_refused(edited, changes, message):
    write, header = edited
    refused(*write(learned={"dict": header["learned"]["dict"] | changes}), message)


def test_the_number_of_classes_must_fit_the_rest_before_anything_is_allocated(edited):
    write, _ = edited
    for n_classes in (2 * 10**9, 3, 1, -1, 4.0, "4"):
        refused(*write(n_classes=n_classes), "n_classes is")


@pytest.mark.parametrize("name", gnncal.list_calibrators())
def test_tensors_of_another_shape_or_with_nan_are_refused_at_load(tmp_path, name):
    path = tmp_path / "c"
    fitted_case("hots cross-fitted" if name == "hots" else name).save(path)
    whole = path.read_bytes()
    (size,) = struct.unpack("<Q", whole[:8])
    text = json.loads(whole[8 : 8 + size])["__metadata__"]["gnncal"]
    for key, array in read_tensors(whole).items():
        longer = np.concatenate([array, array[:1]])
        variants = [longer, array.reshape(-1)[None, None], array.astype(bool)]
        if array.dtype.kind == "f" and key != "learned.frequencies_":
            variants.append(np.full_like(array, np.nan))
        for variant in variants:
            tensors = read_tensors(whole) | {key: variant}
            if variant is longer and key in MAY_BE_LONGER:
                continue
            refused(path, signed(to_bytes(tensors, metadata={"gnncal": text})), "has|is|does not")


MAY_BE_LONGER = (  # their length depends on the fitted graph or on the data
    "learned.bin_temperatures_",
    "learned.train_nodes_",
    "learned.clamped_labels_",
    "learned.homophily_weights_.input_weight",  # one row for each of the graph's features
)


@pytest.mark.parametrize("case", ["ts", "vs", "hots cross-fitted", "gats"])
def test_every_single_bit_flip_is_detected(tmp_path, case):
    path = tmp_path / "c"
    fitted_case(case).save(path, class_names=["a", "b", "ç", "d"])
    whole = path.read_bytes()
    bits = np.random.default_rng(0).permutation(8 * len(whole))[:1200]
    for bit in bits:
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << (bit % 8)
        path.write_bytes(bytes(flipped))
        with pytest.raises(gnncal.InputError):
            gnncal.load(path)


def test_saving_to_a_folder_says_so(tmp_path):
    with pytest.raises(gnncal.InputError, match="is a folder; pass the file to write"):
        fitted_case("ts").save(tmp_path)


def test_a_file_says_when_a_calibrator_was_fitted_and_what_its_user_added(tmp_path):
    calibrator = fitted("ts")
    assert calibrator.provenance_ == {"date": f"{date.today()}", "gnncal": gnncal.__version__}
    calibrator.provenance_["model"] = "gcn-7"
    calibrator.save(tmp_path / "c")
    assert gnncal.load(tmp_path / "c").provenance_ == calibrator.provenance_
    updated = calibrator.update(LOGITS, LABELS, GRAPH, calibration_nodes=np.arange(2, N, 3))
    updated.provenance_["model"] = "gcn-8"
    assert calibrator.provenance_["model"] == "gcn-7"
    calibrator.provenance_["model"] = 7
    with pytest.raises(gnncal.InputError, match=r"provenance_ is .*expected texts by name"):
        calibrator.save(tmp_path / "d")

"""What is declared by other packages is found or refused with a reason; nothing of it breaks."""

import json
import sys
import warnings
from contextlib import suppress

import numpy as np
import pytest
from typer.testing import CliRunner

import gnncal
from gnncal.__main__ import app
from gnncal.calibrators import registry as plugins
from gnncal.calibrators.registry import resolve
from gnncal.testing.tasks import small_task
from gnncal_lab.bench.plan import VARIANTS, choose_methods
from tests.gnncal_lab.bench.graphs import frozen_bundle, write_bundle
from tests.plugins.packages import install

KNOWN = gnncal.list_calibrators()
GOOD = """
import gnncal

class Good(gnncal.calibrators.TemperatureScaling):
    "Does as temperature scaling does."
"""


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder of installed packages; gnncal reads it anew, and forgets it afterwards."""
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    forget()
    yield tmp_path
    forget()
    for module in set(sys.modules) - before:
        del sys.modules[module]


def forget():
    plugins._declared.cache_clear()
    plugins._load.cache_clear()


def test_a_calibrator_of_another_package_is_found_by_its_name(site):
    install(site, "good", {"Plain_Good": "good:Good"}, GOOD)
    assert gnncal.list_calibrators() == [*KNOWN, "plain-good"]
    assert type(gnncal.get_calibrator("plain_good", protocol="paper")).__name__ == "Good"
    assert "plain-good" in choose_methods(["all"])


def test_only_the_package_that_is_asked_for_is_imported(site):
    install(site, "good", {"good": "good:Good"}, GOOD)
    install(site, "other", {"other": "other:Other"}, "raise RuntimeError('imported')")
    assert resolve("ts")[1].kind is gnncal.calibrators.TemperatureScaling
    assert "good" not in sys.modules
    assert resolve("good")[1].kind.__name__ == "Good"
    assert "other" not in sys.modules


def test_saving_a_calibrator_of_gnncal_imports_no_package(site, tmp_path):
    install(site, "other", {"other": "other:Other"}, "raise RuntimeError('imported')")
    fitted = small_task().fit(gnncal.calibrators.TemperatureScaling())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted.save(tmp_path / "c.safetensors")
        gnncal.load(tmp_path / "c.safetensors")


def test_it_is_saved_and_loaded_and_only_where_it_is_installed(site, tmp_path):
    install(site, "good", {"good": "good:Good"}, GOOD)
    task, file = small_task(), tmp_path / "c.safetensors"
    fitted = task.fit(gnncal.get_calibrator("good"))
    fitted.save(file)
    assert type(gnncal.load(file)) is type(fitted)
    (site / "good-1.2.dist-info" / "entry_points.txt").write_text("")
    forget()
    with pytest.raises(gnncal.InputError, match=r"'good'.* install the package that"):
        gnncal.load(file)
    with pytest.raises(gnncal.InputError, match="nor does an installed package declare it"):
        fitted.save(file)


@pytest.mark.parametrize("name", ["ts", "HOTS", "gats", "entropy_only"])
def test_a_name_that_gnncal_uses_is_refused_with_the_package(site, name):
    install(site, "taker", {name: "taker:Good"}, GOOD)
    with pytest.warns(gnncal.GnncalWarning, match=r"of the package taker is left out: gnncal has"):
        assert gnncal.list_calibrators() == KNOWN
    assert resolve("ts")[1].kind is gnncal.calibrators.TemperatureScaling


def test_of_two_packages_with_one_name_the_first_keeps_it(site):
    install(site, "beta", {"same": "beta:Good"}, GOOD)
    install(site, "alpha", {"same": "alpha:Good"}, GOOD)
    with pytest.warns(
        gnncal.GnncalWarning, match="'same' of the package beta .* alpha has that name too"
    ):
        assert resolve("same")[1].kind.__module__ == "alpha"


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("import no_such_module", r"ModuleNotFoundError: No module named 'no_such_module'"),
        ("raise RuntimeError('not today')", "RuntimeError: not today"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("", "cannot be imported .AttributeError"),
        ("Good = 3", "3 is not a subclass of gnncal.Calibrator"),
        ("class Good: pass", "is not a subclass of gnncal.Calibrator"),
        ("from gnncal import Calibrator as Good", "Can't instantiate abstract class"),
        (
            "from gnncal.calibrators import Uncalibrated\n"
            "class Good(Uncalibrated):\n def __init__(self, x): ...",
            "missing 1 required positional argument: 'x'",
        ),
        (
            "from gnncal.calibrators import Uncalibrated\n"
            "class Good(Uncalibrated):\n preserves_predictions = None",
            "preserves_predictions is not a bool",
        ),
        (
            "import gnncal\nclass Good(gnncal.calibrators.Uncalibrated):\n"
            " def __init__(self): raise SystemExit('no licence')",
            r"Good\(\) raises SystemExit: no licence",
        ),
        (
            "import gnncal\nclass Good(gnncal.calibrators.Uncalibrated):\n"
            " @property\n def preserves_predictions(self): return 'perhaps'",
            "preserves_predictions is not a bool",
        ),
    ],
)
def test_a_broken_package_costs_a_warning_and_nothing_else(site, code, reason):
    install(site, "broken", {"poor": "broken:Good"}, code)
    with pytest.warns(gnncal.GnncalWarning, match=f"'poor' of the package broken .*{reason}"):
        assert gnncal.list_calibrators() == KNOWN
    with pytest.raises(gnncal.InputError, match="unknown calibrator 'poor'"):
        gnncal.get_calibrator("poor")


def test_the_warning_comes_once(site):
    install(site, "broken", {"poor": "broken:Good"}, "raise RuntimeError")
    with pytest.warns(gnncal.GnncalWarning):
        gnncal.list_calibrators()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gnncal.list_calibrators()


def test_the_benchmark_keeps_its_own_names_and_says_so(site):
    install(site, "taker", {"all": "taker:Good", "hots-release": "taker:Good"}, GOOD)
    known = [name for name in KNOWN if name != "hots-paper"]  # a protocol of hots
    with pytest.warns(gnncal.GnncalWarning, match="uses the names all, hots-release itself"):
        assert choose_methods(["all"]) == [*known, *VARIANTS]


@pytest.mark.parametrize(
    "code",
    [
        "raise KeyboardInterrupt",
        "raise GeneratorExit",
        "class Odd(BaseException): ...\nraise Odd('no')",
        "raise RuntimeError('x' * 10**6)",
    ],
)
def test_whatever_a_package_raises_the_listing_goes_on(site, code):
    install(site, "broken", {"poor": "broken:Good"}, code)
    with pytest.warns(
        gnncal.GnncalWarning, match="'poor' of the package broken is left out"
    ) as all_:
        assert gnncal.list_calibrators() == KNOWN
    assert len(str(all_[0].message)) < 600


LOUD = """
import gnncal

print("imported")

class Good(gnncal.calibrators.TemperatureScaling):
    "Does as temperature scaling does, and says so."

    def _fit(self, nodes):
        print("fitting")
        super()._fit(nodes)
"""


def test_what_a_package_prints_is_no_part_of_a_json_document(site, tmp_path):
    install(site, "good", {"good": "good:Good"}, LOUD)
    write_bundle(tmp_path / "task.npz", frozen_bundle(0))
    made = ("--method", "good", "--out", str(tmp_path / "made"))
    for words in (["methods", "good"], ["calibrate", str(tmp_path / "task.npz"), *made]):
        done = CliRunner().invoke(app, [*words, "--json"])
        assert done.exit_code == 0, done.stderr
        assert json.loads(done.stdout)
    assert "fitting" in done.stderr


def test_importing_a_package_prints_nothing_on_stdout(site, capsys):
    install(site, "good", {"good": "good:Good"}, f"print('hello')\n{GOOD}")
    assert "good" in gnncal.list_calibrators()
    assert capsys.readouterr().out == ""


class Overwriting(gnncal.Calibrator):
    """Writes into what it is given."""

    preserves_predictions = True
    during = "fit"

    def _fit(self, nodes):
        if self.during == "fit":
            nodes.logits[:] = 0.0
        self.fit_report_ = gnncal.calibrators.base.FitReport.of(nodes, 0.0)

    def _predict(self, nodes):
        logits = nodes.logits
        logits -= 1.0
        return gnncal.calibrators.softmax(logits)


class OverwritingPrediction(Overwriting):
    during = "prediction"


class OverwritingWithTorch(Overwriting):
    needs_torch = True


@pytest.mark.parametrize("kind", [Overwriting, OverwritingPrediction, OverwritingWithTorch])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("way", ["calibrate", "fit"])
def test_no_calibrator_of_others_can_change_the_callers_logits(kind, dtype, way):
    generator = np.random.default_rng(0)
    logits = generator.normal(size=(60, 3)).astype(dtype)
    labels, before = generator.integers(3, size=60), logits.copy()
    nodes = np.arange(30)
    with suppress(ValueError):  # NumPy says that the array is read-only
        if way == "calibrate":
            gnncal.calibrate(logits, labels, calibration_nodes=nodes, method=kind())
        else:
            kind().fit(logits, labels, calibration_nodes=nodes).predict_proba(logits)
    np.testing.assert_array_equal(logits, before)
    assert logits.flags.writeable


def test_logits_are_not_copied_to_guard_them():
    class Looking(Overwriting):
        during = "never"

        def _predict(self, nodes):
            self.shares = np.shares_memory(nodes.logits, given)
            return gnncal.calibrators.softmax(nodes.logits)

    given = np.random.default_rng(0).normal(size=(60, 3))
    looking = Looking().fit(given, np.arange(60) % 3)
    looking.predict_proba(given)
    assert looking.shares

"""`gnncal methods` and `--param`: what can be chosen, and how it is typed."""

import inspect
import json

import pytest
from typer.testing import CliRunner

import gnncal
from gnncal.__main__ import app
from gnncal.calibrators.registry import describe, every_calibrator, resolve
from gnncal.cli.params import parse_params
from tests.test_bundles import write_npz

CALIBRATORS = every_calibrator()


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def test_the_list_has_every_method_with_a_description():
    result = run("methods")
    assert result.exit_code == 0
    first_words = {line.split()[0] for line in result.stdout.splitlines() if line.strip()}
    assert set(CALIBRATORS) < first_words
    assert max(len(line.rstrip()) for line in result.stdout.splitlines()) <= 80


def test_the_list_as_json_is_one_document():
    listed = json.loads(run("methods", "--json").stdout)
    assert [method["name"] for method in listed] == list(CALIBRATORS)
    assert all(method["summary"] for method in listed)


def test_one_method_is_shown_with_its_parameters_defaults_and_what_they_may_be():
    result = run("methods", "HOTS")
    assert result.exit_code == 0
    for part in ("gnncal.calibrators.HoTS", "epsilon", "0.02", "a positive number"):
        assert part in result.stdout


def test_a_misspelt_method_gets_a_suggestion():
    result = run("methods", "hotz")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "did you mean 'hots'?" in result.stderr


@pytest.mark.parametrize("name", CALIBRATORS)
def test_parameters_and_defaults_are_those_of_the_constructor(name):
    described = json.loads(run("methods", name, "--json").stdout)
    parameters = inspect.signature(CALIBRATORS[name]).parameters
    free = [parameter for parameter in parameters if parameter not in resolve(name)[1].params]
    assert [entry["name"] for entry in described["parameters"]] == free
    for entry in describe(name).parameters:
        assert entry["default"] == parameters[entry["name"]].default


@pytest.mark.parametrize("name", CALIBRATORS)
def test_descriptions_are_plain_text(name):
    described = describe(name)
    assert described.summary
    for text in (described.summary, described.advice):
        assert not any(mark in text for mark in ("``", ":math:", ":class:", "\n", "\\"))


# --- values as they are typed


@pytest.mark.parametrize(
    ("typed", "value"),
    [
        ("0.1", 0.1),
        ("3", 3),
        ("true", True),
        ("True", True),
        ("None", None),
        ("null", None),
        ("[0.5, 2]", [0.5, 2]),
        ("cross-fitted", "cross-fitted"),
        ('"3"', "3"),
        ("a=b", "a=b"),
        ("__import__('os')", "__import__('os')"),
        ("[" * 100_000, "[" * 100_000),
    ],
)
def test_values_are_read_as_json_or_else_as_text(typed, value):
    (found,) = parse_params([f"name={typed}"]).values()
    assert (found, type(found)) == (value, type(value))


def test_names_may_have_hyphens():
    assert parse_params(["n-folds=3", "side = out"]) == {"n_folds": 3, "side": "out"}


@pytest.mark.parametrize("given", ["epsilon", "=3", "a b=3", ""])
def test_what_is_no_name_and_value_is_refused(given):
    with pytest.raises(gnncal.InputError, match="expected name=value"):
        parse_params([given])


def test_a_parameter_is_given_once():
    with pytest.raises(gnncal.InputError, match="epsilon is given twice"):
        parse_params(["epsilon=1", "epsilon=2"])


def test_an_empty_name_of_a_method_is_refused(tmp_path):
    source = write_npz(tmp_path / "in.npz")
    for verb in ("calibrate", "decide"):
        call = [verb, str(source), "--method", "", "--out", str(tmp_path / "out")]
        result = CliRunner().invoke(app, call)
        assert result.exit_code == 2
        assert "unknown calibrator ''; choose one of" in result.stderr
        assert not (tmp_path / "out").exists()

"""Each formula has one home: the file in gnncal.math.formulas that defines it."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

import gnncal

SOURCE = Path(gnncal.__file__).parent
HOMES = ("data/probability.py", "math/formulas.py")
FORMULAS = [SOURCE / home for home in HOMES]
PRODUCT = [file for file in sorted(SOURCE.rglob("*.py")) if not file.name.endswith("_backend.py")]
# A name that stands elsewhere too, and what it is there.
DOORS = {
    ("keep_predictions", "torch/module.py"),  # on tensors
    ("log_losses", "metrics/calibration.py"),  # of outcomes
    ("centred", "metrics/uncertainty.py"),
}
# What only the formula itself would write, by what it is.
SIGNS = {
    "sqrt(2 K ln K (1 - e))": r"2\.0 \* n_classes \* (np\.)?log\(n_classes\)",
    "h~ = (K h - 1) / (K - 1)": r"n_classes \* \w+ - 1\.0\) / \(n_classes - 1\.0\)",
    "T_c (1 - e) + T_u e": r"certain\w* \* \(1\.0 - e\w*\)|\(1\.0 - e\w*\) \* \w*certain",
    "c / (|h~| + epsilon)^alpha": r"exp\(-alpha \* ",
    "ln(p + delta)": r"\+ FLOOR\b",
    "min(lambda q, c)": r"_scale_with_full_classes\(",
    "b + w_1 s + w_2 s^2": r"\* s\*\*2",
}


@cache
def text_of(file):
    return file.read_text(encoding="utf-8")


@cache
def functions(file):
    tree = ast.parse(text_of(file))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


NAMES = {
    name: file
    for file in FORMULAS
    for name in sorted(functions(file))  # in one order in every process
    if not name.startswith("_")
}


@pytest.mark.parametrize("name", NAMES)
def test_no_other_file_defines_a_function_of_a_formulas_name(name):
    home = NAMES[name]
    elsewhere = {
        (name, file.relative_to(SOURCE).as_posix())
        for file in PRODUCT
        if file != home and name in functions(file)
    }
    assert elsewhere <= DOORS


@pytest.mark.parametrize("formula", SIGNS)
def test_what_only_a_formula_would_write_stands_in_its_home_alone(formula):
    homes = {
        file.relative_to(SOURCE).as_posix()
        for file in PRODUCT
        if re.search(SIGNS[formula], text_of(file))
    }
    assert len(homes) == 1, homes
    assert homes.pop() in HOMES

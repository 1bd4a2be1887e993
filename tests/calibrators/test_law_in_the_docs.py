"""The numbers that docs/structural.md gives of the prior are those of the prior in use."""

from pathlib import Path

import numpy as np
import pytest

from gnncal.math.structural_fit import LawPrior, gamma_mixture_curvature, student_penalty

TEXT = " ".join((Path(__file__).parents[2] / "docs" / "structural.md").read_text().split())
PRIOR = LawPrior()


def test_the_documented_centre_of_the_ratio_is_the_one_in_use():
    assert f"(ln {np.exp(PRIOR.ratio):.1f} = {PRIOR.ratio})" in TEXT


@pytest.mark.parametrize("weight", [0.0, 3.0])
def test_the_documented_precision_of_the_weights_is_the_one_in_use(weight):
    # the penalty of one weight far smaller than the others bends with their common precision
    weights = np.array([weight, 0, 0, 0, 0, 0])
    bend = gamma_mixture_curvature(weights, PRIOR.weight_shape, PRIOR.weight_rate)[1, 1]
    where = f"at |w| = {weight:g}" if weight else "for small weights"
    assert f"{bend:.2g} {where}" in TEXT


def test_the_documented_tails_are_the_ones_in_use():
    far = 5.0 - PRIOR.ratio
    near_cost, far_cost = (
        student_penalty(x, PRIOR.ratio_scale, PRIOR.degrees_of_freedom)[0] for x in (1.0, far)
    )
    assert f"adds {near_cost:.2f} and {far_cost:.2f}" in TEXT
    assert f"{0.5 * far**2:.2f} at {far:g} (a ratio of e⁵)" in TEXT
    assert f"lowers their mean log loss by {far_cost / 20:.2f} nats" in TEXT

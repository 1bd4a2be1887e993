"""Equal seeds for different purposes must not repeat each other."""

import numpy as np
from scipy.stats import chi2_contingency

from gnncal_lab.simulation import CSBM
from gnncal_lab.simulation.streams import stream


def test_a_stream_repeats_itself_and_no_other():
    first = stream("noise", 3).random(5)
    np.testing.assert_array_equal(first, stream("noise", 3).random(5))
    for other in (stream("noise", 4), stream("split", 3), np.random.default_rng(3)):
        assert not np.isclose(first, other.random(5)).any()


def test_homophily_from_a_stream_says_nothing_about_the_labels_of_the_same_seed():
    def p_value(generator):
        levels = generator.integers(6, size=5000)
        labels = CSBM().sample_population(levels / 6, random_state=0).labels
        return chi2_contingency(np.histogram2d(levels, labels, (6, 5))[0]).pvalue

    assert p_value(stream("homophily", 0)) > 0.01
    assert p_value(np.random.default_rng(0)) < 1e-100  # what a bare seed would do

"""The one custom autograd function, against dense products and finite differences."""

import numpy as np
import pytest
from scipy import sparse

torch = pytest.importorskip("torch")

from gnncal_lab.classifiers.gat import softmax_by_row  # noqa: E402
from gnncal_lab.methods.neural.sparse import Pattern, SparseMatrix, SparseProduct  # noqa: E402

# row 1 is empty, row 2 holds one place twice, column 2 is empty
INDPTR, INDICES = np.array([0, 2, 2, 5]), np.array([0, 3, 1, 1, 3])


def pattern():
    return Pattern(sparse.csr_array((np.ones(5), INDICES, INDPTR), shape=(3, 4)))


def dense_of(values):
    matrix = torch.zeros(3, 4, dtype=values.dtype)
    rows = torch.tensor([0, 0, 2, 2, 2])
    return matrix.index_put((rows, torch.from_numpy(INDICES)), values, accumulate=True)


def test_the_product_is_that_of_the_dense_matrix():
    values, dense = torch.randn(5), torch.randn(4, 3)
    product = SparseProduct.apply(values, dense, pattern())
    torch.testing.assert_close(product, dense_of(values) @ dense)


def test_both_gradients_pass_gradcheck():
    values = torch.randn(5, dtype=torch.float64, requires_grad=True)
    dense = torch.randn(4, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(SparseProduct.apply, (values, dense, pattern()))


def test_a_constant_matrix_passes_gradients_on():
    matrix = SparseMatrix(sparse.csr_array((np.arange(5.0), INDICES, INDPTR), shape=(3, 4)))
    dense = torch.randn(4, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda d: matrix @ d, (dense,))


def test_attention_of_a_row_sums_to_one_and_large_scores_do_not_overflow():
    scores = torch.tensor([[1e4], [1e4 - 1], [-1e4], [-1e4], [-1e4]])
    share = np.exp(-1) / (1 + np.exp(-1))
    expected = torch.tensor([[1 - share], [share], [1 / 3], [1 / 3], [1 / 3]])
    torch.testing.assert_close(softmax_by_row(scores, pattern()), expected.float())


def test_attention_passes_gradcheck():
    scores = torch.randn(5, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda s: softmax_by_row(s, pattern()), (scores,))

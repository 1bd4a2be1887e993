"""Neighbours through shared entities: transactions of one card, reviews of one product."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cached_property
from typing import Any, Literal

import numpy as np
from scipy import sparse

from gnncal.data.arrays import FloatArray, IntArray, as_numpy
from gnncal.data.errors import InputError

Side = Literal["in", "out", "both"]


class EntityGraph:
    r"""Graph of items that share entities, such as payments with the same card.

    The neighbour mean of item i averages the values p of the other items of each entity, and then
    averages over the entities of i:

    .. math:: m_i = \frac{1}{d_i} \sum_{e \ni i} \frac{S_e - p_i}{n_e - 1},
              \quad S_e = \sum_{j \in e} p_j

    Item i has :math:`d_i` shared entities, and entity e has :math:`n_e > 1` items. The mean takes
    two sparse products and no matrix of items by items.

    Parameters
    ----------
    touches : array_like of shape (2, n) or mapping of str to such arrays
        Pairs of an item (row 0) and one of its entities (row 1); duplicate pairs count once. A
        mapping has an array for each kind of entity, such as cards and devices.
    n_nodes : int, optional
        Number of items. Default: the largest item number plus one.

    Attributes
    ----------
    n_nodes, n_edges : int
        Number of items, and number of pairs of an item and a shared entity.
    kinds : dict of str to int
        Number of shared entities of each kind.
    in_degree, out_degree : ndarray of shape (n_nodes,)
        Number of shared entities of each item.

    Examples
    --------
    >>> import numpy as np
    >>> from gnncal import EntityGraph
    >>> cards = EntityGraph([[0, 1, 2, 3], [0, 0, 0, 1]])  # three payments with one card
    >>> cards.neighbour_mean(np.array([1.0, 0.0, 0.5, 0.0]))
    array([0.25, 0.75, 0.5 ,  nan])

    """

    features = None
    is_undirected = True
    all_sides: Side = "in"

    def __init__(self, touches: Any, n_nodes: int | None = None) -> None:
        named = touches if isinstance(touches, Mapping) else {"entities": touches}
        if not named:
            raise InputError("touches is empty; name at least one kind of entity.")
        pairs = {kind: _check_pairs(kind, of_kind) for kind, of_kind in named.items()}
        largest = max((int(of[0].max()) for of in pairs.values() if of.size), default=-1)
        self.n_nodes = largest + 1 if n_nodes is None else int(n_nodes)
        if largest >= self.n_nodes:
            raise InputError(
                f"touches names item {largest} but there are {self.n_nodes} items "
                f"(0..{self.n_nodes - 1}); pass the logits of every item."
            )
        blocks = {kind: _shared(of, self.n_nodes) for kind, of in pairs.items()}
        self.kinds = {kind: block.shape[1] for kind, block in blocks.items()}
        self._touches = sparse.csr_array(sparse.hstack(list(blocks.values()), format="csr"))
        self.n_edges = int(self._touches.nnz)
        self.in_degree: IntArray = np.diff(self._touches.indptr)
        self.out_degree = self.in_degree

    @property
    def described(self) -> str:
        """How many items have neighbours, and through which entities, in one sentence."""
        n = int((self.in_degree > 0).sum())
        through = ", ".join(f"{count:,} {kind}" for kind, count in self.kinds.items())
        share = 100.0 * n / max(self.n_nodes, 1)
        return f"{n:,} of {self.n_nodes:,} nodes ({share:.0f}%) share one of {through}"

    def __repr__(self) -> str:
        return f"EntityGraph({self.described})"

    @cached_property
    def fingerprint(self) -> str:
        """A digest of the pairs of items and shared entities: equal for equal graphs."""
        digest = hashlib.blake2b(f"{self._touches.shape}".encode(), digest_size=16)
        for array in (self._touches.indptr, self._touches.indices):
            digest.update(np.ascontiguousarray(array, dtype=np.int64).data)
        return digest.hexdigest()

    def neighbour_counts(self, *, side: Side = "in") -> IntArray:
        """Return the number of shared entities of each item; ``side`` has no effect."""
        return self.in_degree

    def neighbour_mean(self, values: Any, *, side: Side = "in") -> FloatArray:
        """Return the mean of values over the neighbours of each item, NaN for items without any.

        Parameters
        ----------
        values : array_like of shape (n_nodes,) or (n_nodes, k)
            One value or row for each item. ``side`` has no effect.

        """
        array = as_numpy(values)
        if array.dtype not in (np.float32, np.float64):
            array = array.astype(np.float64)
        rows = array.reshape(self.n_nodes, -1)
        gather, spread, own = self.matrices
        means = spread @ (gather @ rows) - own[:, None] * rows
        means[self.in_degree == 0] = np.nan
        return means.astype(array.dtype).reshape(array.shape)

    @cached_property
    def matrices(self) -> tuple[sparse.csr_array, sparse.csr_array, FloatArray]:
        """G, W and d of the mean m = W G p - d p, in float64; G sums the values of each entity."""
        n, degree = self._touches.sum(axis=0), np.maximum(self.in_degree, 1)
        spread = sparse.csr_array(self._touches / (n - 1.0) / degree[:, None])
        return sparse.csr_array(self._touches.T), spread, spread.sum(axis=1)


def _check_pairs(kind: str, pairs: Any) -> IntArray:
    array = as_numpy(pairs)
    if array.ndim != 2 or array.shape[0] != 2 or array.dtype.kind not in "iu":
        raise InputError(
            f"{kind} has shape {array.shape} and dtype {array.dtype}; expected whole numbers of "
            "shape (2, n), items in row 0 and the entities they touch in row 1."
        )
    if array.size and array.min() < 0:
        raise InputError(f"{kind} names {int(array.min())}; items and entities count from 0.")
    return array


def _shared(pairs: IntArray, n_items: int) -> sparse.csr_array:
    """Return the matrix (n_items, n_entities) of pairs, without entities of a single item."""
    entities, place = np.unique(pairs[1], return_inverse=True)
    matrix = sparse.csr_array(
        (np.ones(place.size), (pairs[0], place)), shape=(n_items, entities.size)
    )
    matrix.data[:] = 1.0  # a pair listed twice counts once
    return sparse.csr_array(matrix.tocsc()[:, matrix.sum(axis=0) > 1])

"""Attention along the edges with gradients, and parts of the graph that a few rows need."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from gnncal import Graph
from gnncal_lab.arrays import BoolArray, FloatArray, IntArray

EDGES_PER_BLOCK = 1 << 20  # of attention: bounds its temporaries
EDGES_PER_PRODUCT = 1 << 16  # of dot products, each over all classes
NEGATIVE_SLOPE = 0.2  # of the LeakyReLU in the attention scores


def restrict(matrix: sparse.csr_array, rows: IntArray) -> tuple[sparse.csr_array, IntArray]:
    """Return the given rows, and the columns that they use; other columns are dropped."""
    part = matrix if len(rows) == matrix.shape[0] else matrix[rows]
    indices, columns = _compress(part.indices, matrix.shape[1])
    shape = (len(rows), len(columns))
    return sparse.csr_array((part.data, indices, part.indptr), shape=shape), columns


def _compress(indices: IntArray, n_nodes: int) -> tuple[IntArray, IntArray]:
    """Indices into the sorted list of nodes that occur, and that list."""
    occurs = np.zeros(n_nodes, dtype=bool)
    occurs[indices] = True
    place = np.cumsum(occurs, dtype=indices.dtype) - indices.dtype.type(1)
    return place[indices], np.flatnonzero(occurs)


def has_sender(graph: Graph, chosen: BoolArray) -> BoolArray:
    """Return whether any chosen node sends to a node."""
    return np.asarray(graph.adjacency(np.float32) @ chosen.astype(np.float32) > 0)


@dataclass(frozen=True)
class Neighbourhoods:
    """The senders to some rows; each row itself counts once, in place of its self-loops."""

    indptr: IntArray  # (n_rows + 1,)
    indices: IntArray  # (n_edges,) senders, as places in ``nodes``
    nodes: IntArray  # (n_senders,)
    own: IntArray  # (n_rows,) the place of each row in ``nodes``

    @classmethod
    def of(cls, graph: Graph, rows: IntArray) -> Neighbourhoods:
        """Return the neighbourhoods of ``rows``, which are distinct."""
        degree = np.diff(graph.indptr)[rows]
        ends = np.cumsum(degree, dtype=np.int64)
        within = np.repeat(graph.indptr[rows] - (ends - degree), degree)
        within += np.arange(within.size, dtype=within.dtype)
        senders = graph.indices[within]
        del within
        receivers = np.repeat(np.arange(len(rows), dtype=np.int32), degree)
        others = senders != rows[receivers]
        counts = np.bincount(receivers[others], minlength=len(rows)) + 1
        indptr = np.zeros(len(rows) + 1, dtype=np.int64)
        np.cumsum(counts, out=indptr[1:])
        indices = np.empty(indptr[-1], dtype=graph.indices.dtype)
        is_own = np.zeros(indptr[-1], dtype=bool)
        is_own[indptr[1:] - 1] = True  # itself last
        indices[is_own], indices[~is_own] = rows, senders[others]
        indices, nodes = _compress(indices, graph.n_nodes)
        return cls(indptr, indices, nodes, indices[indptr[1:] - 1])

    @property
    def degree(self) -> IntArray:
        """(n_rows,) neighbours, itself included."""
        return np.diff(self.indptr)

    def sums(self, values: FloatArray) -> FloatArray:
        """Sum of ``values`` (n_senders,) over each neighbourhood."""
        return np.add.reduceat(values[self.indices], self.indptr[:-1])

    def products(self, values: FloatArray) -> FloatArray:
        """(n_edges,) dot products of receiver and sender, for ``values`` (n_senders, k)."""
        receivers = np.repeat(self.own, self.degree)
        dots = np.empty(len(receivers), dtype=values.dtype)
        for start in range(0, len(dots), EDGES_PER_PRODUCT):
            block = slice(start, start + EDGES_PER_PRODUCT)
            pairs = values[receivers[block]], values[self.indices[block]]
            np.einsum("ek,ek->e", *pairs, out=dots[block])
        return dots

    def blocks(self) -> list[slice]:
        """Return the rows in blocks of about EDGES_PER_BLOCK edges."""
        n_rows, n_edges = len(self.own), int(self.indptr[-1])
        wanted = np.arange(EDGES_PER_BLOCK, n_edges, EDGES_PER_BLOCK)
        cuts = np.unique([0, *np.searchsorted(self.indptr, wanted), n_rows])
        return [slice(a, b) for a, b in pairwise(cuts)]


class Attention:
    r"""Sums over neighbourhoods, weighted by a softmax of scaled dot products.

    .. math:: o_i = \sum_j \alpha_{ij} v_j, \quad
        \alpha_{ij} = \mathrm{softmax}_j\, \mathrm{LeakyReLU}(\langle z_i, z_j \rangle r_i r_j)

    """

    def __init__(self, neighbourhoods: Neighbourhoods, values: FloatArray) -> None:
        self.neighbourhoods = neighbourhoods
        self.dots = neighbourhoods.products(values)  # (n_edges,) <z_i, z_j>
        self.blocks = neighbourhoods.blocks()

    def __call__(self, scale: Tensor, messages: Tensor) -> Tensor:
        """``scale`` is r > 0 (n_senders,), ``messages`` is v (n_senders, k); o is (n_rows, k)."""
        return _Attention.apply(self, scale, messages)

    def block(self, rows: slice, scale: FloatArray) -> _Block:
        """Return the edges into some rows."""
        hoods = self.neighbourhoods
        indptr = hoods.indptr[rows.start : rows.stop + 1]
        edges = slice(indptr[0], indptr[-1])
        return _Block(
            indptr=indptr - indptr[0],
            indices=hoods.indices[edges],
            dots=self.dots[edges],
            own=hoods.own[rows],
            scale=scale,
        )


@dataclass(frozen=True)
class _Block:
    """The edges into a few rows."""

    indptr: IntArray
    indices: IntArray
    dots: FloatArray
    own: IntArray
    scale: FloatArray  # (n_senders,)

    @cached_property
    def weights(self) -> FloatArray:
        """(n_edges,) alpha."""
        scores = self.dots * self.scale[self.indices]
        scores *= self.spread(self.scale[self.own])
        np.maximum(scores, NEGATIVE_SLOPE * scores, out=scores)
        scores -= self.spread(np.maximum.reduceat(scores, self.indptr[:-1]))
        np.exp(scores, out=scores)
        scores /= self.spread(np.add.reduceat(scores, self.indptr[:-1]))
        return scores

    def spread(self, values: FloatArray) -> FloatArray:
        """Return the value of each row, repeated for its edges."""
        return np.repeat(values, np.diff(self.indptr), axis=0)

    def matrix(self, data: FloatArray) -> sparse.csr_array:
        shape = (len(self.own), len(self.scale))
        return sparse.csr_array((data, self.indices, self.indptr), shape=shape)


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, attention: Attention, scale: Tensor, messages: Tensor) -> Tensor:
        r, v = scale.detach().numpy(), messages.detach().numpy()
        output = np.empty((len(attention.neighbourhoods.own), v.shape[1]), dtype=v.dtype)
        for rows in attention.blocks:
            block = attention.block(rows, r)
            output[rows] = block.matrix(block.weights) @ v
        result = torch.from_numpy(output)
        ctx.attention = attention
        ctx.save_for_backward(scale, messages, result)
        return result

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, Tensor, Tensor]:
        r, v, output = (tensor.detach().numpy() for tensor in ctx.saved_tensors)
        G = gradient.contiguous().numpy()
        by_scale, by_messages = np.zeros_like(r), np.zeros_like(v)
        for rows in ctx.attention.blocks:
            block = ctx.attention.block(rows, r)
            by_messages += block.matrix(block.weights).T @ G[rows]
            # dL/d score = alpha (dL/d alpha - its mean under alpha), and o_i is that mean of v.
            by_score = np.einsum("eh,eh->e", v[block.indices], block.spread(G[rows]))
            by_score -= block.spread(np.einsum("ih,ih->i", G[rows], output[rows]))
            by_score *= block.weights
            by_score *= np.where(block.dots > 0, block.dots, NEGATIVE_SLOPE * block.dots)
            pulls = block.matrix(by_score)
            by_scale[block.own] += pulls @ r
            by_scale += pulls.T @ r[block.own]
        return None, torch.from_numpy(by_scale), torch.from_numpy(by_messages)

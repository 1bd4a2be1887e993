"""The graph: senders and receivers of messages, as compressed sparse rows.

An undirected graph lists both directions of each edge. Multi-edges count as often as they are
listed. Self-loops count in degrees and propagation, never in homophily. A mean over no neighbours
is NaN. The order of the edges does not matter.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import sparse

from gnncal.data.arrays import FloatArray, IntArray, as_numpy
from gnncal.data.constraints import integer
from gnncal.data.errors import InputError, warn
from gnncal.graph.compiled import group_by_receiver
from gnncal.graph.conversions import of_dgl, of_hetero, of_networkx, of_pyg, of_scipy
from gnncal.graph.entities import EntityGraph
from gnncal.graph.entities import Side as Side
from gnncal.graph.neighbours import neighbour_means

Features: TypeAlias = Any  # a dense array or a sparse.csr_array, (n_nodes, n_features)
FEW_NEIGHBOURS = 0.1  # share of nodes with a neighbour below which a user is told
MOST_NODES = 1 << 31  # two of them fit into one 64-bit key


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Graph:
    """An immutable graph on nodes 0..n_nodes-1, optionally with node features.

    Edges have no weights; duplicate edges are kept.

    Parameters
    ----------
    edge_index : array_like of shape (2, n_edges)
        Node numbers, NumPy or torch. Messages flow from row 0 to row 1. List an undirected edge in
        both directions, or call :meth:`to_undirected`.
    n_nodes : int, optional
        Number of nodes. Default: the number of feature rows, or the largest node number plus one.
    features : array_like or sparse matrix of shape (n_nodes, n_features), optional
        Features of the nodes, dense or SciPy sparse.

    Attributes
    ----------
    n_nodes, n_edges : int
        Number of nodes and of edges.
    indptr, indices : ndarray of shape (n_nodes + 1,) and (n_edges,)
        CSR form: ``indices[indptr[i]:indptr[i + 1]]`` are the senders of node i, sorted.
    in_degree, out_degree, self_loops : ndarray of shape (n_nodes,)
        Number of incoming edges, outgoing edges and self-loops of each node.
    features : ndarray, sparse matrix or None
        Features of the nodes.

    Examples
    --------
    >>> from gnncal import Graph
    >>> graph = Graph([[0, 1, 2, 2], [1, 0, 0, 1]], n_nodes=4)
    >>> graph.in_degree, graph.is_undirected
    (array([2, 2, 0, 0], dtype=int32), False)
    >>> graph.neighbour_mean([1.0, 3.0, 0.0, 0.0])
    array([1.5, 0.5, nan, nan])

    """

    n_nodes: int
    n_edges: int
    indptr: IntArray
    indices: IntArray
    in_degree: IntArray
    out_degree: IntArray
    self_loops: IntArray
    features: Features | None

    def __init__(self, edge_index: Any, n_nodes: int | None = None, features: Any = None) -> None:
        edges = _check_edge_index(edge_index)
        checked = None if features is None else _check_features(features)
        size = _count_nodes(edges, n_nodes, checked)
        grouped = group_by_receiver(edges[0], edges[1], size)
        self._set(n_nodes=size, n_edges=edges.shape[1], features=checked, **grouped._asdict())

    @classmethod
    def from_pyg(cls, data: Any) -> Graph:
        """Make a graph from a PyTorch Geometric ``Data``; ``fit`` also takes the ``Data`` itself.

        Parameters
        ----------
        data : torch_geometric.data.Data
            Edges are in ``edge_index`` or, after ``ToSparseTensor``, ``adj_t``; features in ``x``.

        """
        return cls(*of_pyg(data))

    @staticmethod
    def of_type(
        data: Any, node_type: str, through: Sequence[Any] | None = None
    ) -> Graph | EntityGraph:
        """Make a graph of the nodes of one type in a PyTorch Geometric ``HeteroData``.

        If there are edges among these nodes, they are the edges of the graph. Otherwise nodes that
        share a node of another type are neighbours, for example accounts with the same card.

        Parameters
        ----------
        data : torch_geometric.data.HeteroData
            Nodes and edges of several types.
        node_type : str
            The type of the nodes that the logits belong to.
        through : sequence of edge types, optional
            The edge types to use instead, each by its relation or as (type, relation, type). You
            can combine edges among these nodes with edges to other types.

        """
        edges, touches, n_nodes, features = of_hetero(data, node_type, through)
        graph = EntityGraph(touches, n_nodes) if touches else Graph(edges, n_nodes, features)
        n_joined = int((graph.neighbour_counts(side=graph.all_sides) > 0).sum())
        if n_joined < FEW_NEIGHBOURS * n_nodes:
            warn(
                f"only {n_joined:,} of {n_nodes:,} nodes of type {node_type!r} have a neighbour, "
                "so the graph says little about them; name other edge types in "
                "Graph.of_type(data, node_type, through=...) or choose a method without a graph."
            )
        return graph

    @staticmethod
    def of_edges(edge_index: Any, *, bipartite: bool = False) -> EntityGraph:
        """Make a graph whose nodes are the edges of another graph, such as links or transactions.

        Two edges are neighbours if they share an end. Logits and labels have a row for each edge.

        Parameters
        ----------
        edge_index : array_like of shape (2, n_edges)
            The two ends of each edge.
        bipartite : bool, default=False
            Whether the rows number nodes of two types separately, such as accounts and merchants.

        """
        edges = _check_edge_index(edge_index)
        items = np.arange(edges.shape[1])
        first, second = (np.stack([items, end]) for end in edges)
        if bipartite:
            return EntityGraph({"first ends": first, "second ends": second}, items.size)
        return EntityGraph({"ends": np.concatenate([first, second], axis=1)}, items.size)

    @classmethod
    def from_dgl(cls, graph: Any, *, feature_key: str = "feat") -> Graph:
        """Make a graph from a homogeneous ``DGLGraph``; edge weights are ignored with a warning.

        Parameters
        ----------
        graph : dgl.DGLGraph
            The graph.
        feature_key : str, default="feat"
            Features are taken from ``graph.ndata[feature_key]``, if it exists.

        """
        return cls(*of_dgl(graph, feature_key))

    @classmethod
    def from_networkx(cls, graph: Any) -> Graph:
        """Make a graph from NetworkX; nodes are numbered in the order of ``graph.nodes``.

        Each edge of an undirected graph is listed in both directions. Parallel edges are kept; edge
        weights are ignored with a warning.
        """
        return cls(*of_networkx(graph))

    @classmethod
    def from_scipy(cls, adjacency: Any, *, features: Any = None) -> Graph:
        """Make a graph from a square sparse matrix, whose entry (i, j) is an edge from i to j.

        Parameters
        ----------
        adjacency : scipy sparse matrix or array of shape (n_nodes, n_nodes)
            Non-zero entries are edges; weights other than 1 are ignored with a warning.
        features : array_like or sparse matrix of shape (n_nodes, n_features), optional
            Features of the nodes.

        """
        return cls(*of_scipy(adjacency, features))

    def _set(self, *, n_nodes: int, n_edges: int, features: Features | None, **edges: Any) -> None:
        """Set the attributes; compiled loops trust the edges, so they are read-only."""
        if isinstance(features, np.ndarray):
            features = features.view()
            features.flags.writeable = False
        frozen = {
            name: np.frombuffer(array.tobytes(), dtype=array.dtype) for name, array in edges.items()
        }
        plain = {"n_nodes": n_nodes, "n_edges": n_edges, "features": features}
        for name, value in {**plain, **frozen}.items():
            object.__setattr__(self, name, value)

    def __getstate__(self) -> dict[str, Any]:
        """Return what a pickle keeps: edges and features, and nothing that follows from them."""
        return {name: getattr(self, name) for name in ("edge_index", "n_nodes", "features")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Read a pickle as any list of edges is read, with the same checks."""
        type(self).__init__(self, **state)

    def __repr__(self) -> str:
        columns = "" if self.features is None else f", n_features={self.features.shape[1]}"
        return f"Graph(n_nodes={self.n_nodes}, n_edges={self.n_edges}{columns})"

    @cached_property
    def fingerprint(self) -> str:
        """A digest of the edges: equal for equal graphs, whatever the order of their edges."""
        digest = hashlib.blake2b(digest_size=16)
        digest.update(f"{self.n_nodes} {self.n_edges} {self.indices.dtype}".encode())
        digest.update(self.indptr.data)
        digest.update(self.indices.data)
        return digest.hexdigest()

    @cached_property
    def edge_index(self) -> IntArray:
        """Senders and receivers of the edges, (2, n_edges), grouped by receiver."""
        receivers = np.repeat(np.arange(self.n_nodes, dtype=self.indices.dtype), self.in_degree)
        return np.stack([self.indices, receivers])

    @property
    def reversed(self) -> Graph:
        """The graph with every edge reversed; for an undirected graph, the graph itself."""
        return self if self.is_undirected else self._turned

    @cached_property
    def _turned(self) -> Graph:
        turned, other = self.adjacency(np.int8).T.tocsr(), object.__new__(Graph)
        other._set(
            n_nodes=self.n_nodes,
            n_edges=self.n_edges,
            features=self.features,
            indptr=turned.indptr,
            indices=turned.indices,
            in_degree=self.out_degree,
            out_degree=self.in_degree,
            self_loops=self.self_loops,
        )
        return other

    def to_undirected(self) -> Graph:
        """Return the graph with every edge in both directions and without duplicate edges."""
        sender, receiver = self.edge_index.astype(np.int64)
        ways = [sender * self.n_nodes + receiver, receiver * self.n_nodes + sender]
        keys = np.unique(np.concatenate(ways))
        return Graph(np.stack(np.divmod(keys, self.n_nodes)), self.n_nodes, self.features)

    @cached_property
    def is_undirected(self) -> bool:
        """Whether every edge is listed in both directions, equally often."""
        if not np.array_equal(self.in_degree, self.out_degree):
            return False
        return np.array_equal(self.adjacency(np.int8).T.tocsr().indices, self.indices)

    @property
    def all_sides(self) -> Side:
        """The ``side`` with all neighbours: ``"both"``, or ``"in"`` if the graph is undirected."""
        return "in" if self.is_undirected else "both"

    def adjacency(self, dtype: npt.DTypeLike = np.float64) -> sparse.csr_array:
        """Return the adjacency matrix A: A[i, j] is the number of edges from j to i.

        ``A @ x`` sums over the senders of each node. ``from_scipy`` takes the transpose of A.

        Parameters
        ----------
        dtype : dtype, default=numpy.float64
            Type of the entries.

        """
        ones, shape = np.ones(self.n_edges, dtype=dtype), (self.n_nodes, self.n_nodes)
        return sparse.csr_array((ones, self.indices, self.indptr), shape=shape)

    def normalised_adjacency(
        self, *, add_self_loops: bool, dtype: npt.DTypeLike = np.float32
    ) -> sparse.csr_array:
        r"""Return a GCN's propagation matrix, :math:`D_\text{in}^{-1/2} A D_\text{out}^{-1/2}`.

        The diagonal matrices :math:`D` hold the in-degrees and the out-degrees; a degree of 0
        counts as 1.

        Parameters
        ----------
        add_self_loops : bool
            Whether to add a self-loop to each node that has none.
        dtype : dtype, default=numpy.float32
            Type of the entries.

        """
        matrix, extra = self.adjacency(dtype), np.zeros(self.n_nodes, dtype=np.int64)
        if add_self_loops:
            extra = (self.self_loops == 0).astype(np.int64)
            matrix = sparse.csr_array(matrix + sparse.diags_array(extra.astype(dtype)))
        receiving = 1.0 / np.sqrt(np.maximum(self.in_degree + extra, 1))
        sending = 1.0 / np.sqrt(np.maximum(self.out_degree + extra, 1))
        matrix.data *= np.repeat(receiving.astype(dtype), np.diff(matrix.indptr))
        matrix.data *= sending.astype(dtype)[matrix.indices]
        return matrix

    def neighbour_counts(self, *, side: Side = "in") -> IntArray:
        """Return the number of neighbours of each node; multi-edges count, self-loops do not."""
        if side == "both":
            return self.in_degree + self.out_degree - 2 * self.self_loops
        degree = self.in_degree if side == "in" else self.out_degree
        return degree - self.self_loops

    def neighbour_mean(self, values: Any, *, side: Side = "in") -> FloatArray:
        """Return the mean of values over the neighbours of each node, NaN for nodes without any.

        Multi-edges count as often as they are listed; self-loops do not count.

        Parameters
        ----------
        values : array_like of shape (n_nodes,) or (n_nodes, k)
            One value or one row for each node.

        """
        array = as_numpy(values)
        if array.dtype not in (np.float32, np.float64):
            array = array.astype(np.float64)
        if array.shape[:1] != (self.n_nodes,):
            raise InputError(
                f"values has shape {array.shape} but the graph has {self.n_nodes} nodes; "
                "pass one entry or row for each node."
            )
        return neighbour_means(self, array, side)


def _check_edge_index(edge_index: Any) -> IntArray:
    array = as_numpy(edge_index)
    if array.ndim == 2 and array.shape[1] == 0:
        array = array.astype(np.int64)
    check_edge_shape(array.shape)
    if array.dtype.kind not in "iu" or array.dtype == np.uint64:
        raise InputError(f"edge_index has dtype {array.dtype}; expected integers, such as int64.")
    if array.size:
        check_range(int(array.min()), 0, 1)
    return array


def check_edge_shape(shape: tuple[int, ...]) -> None:
    """Raise an InputError unless this is the shape (2, n_edges)."""
    if len(shape) != 2 or shape[0] != 2:
        hint = " Transpose it." if len(shape) == 2 and shape[1] == 2 else ""
        raise InputError(
            f"edge_index has shape {shape}; expected (2, n_edges), senders in row 0 and receivers "
            f"in row 1.{hint}"
        )


def check_range(lowest: int, highest: int, n_nodes: int) -> None:
    """Raise an InputError if edges name a node that is not there."""
    if lowest < 0:
        raise InputError(f"edge_index names node {lowest}; nodes are numbered from 0.")
    if highest >= n_nodes:
        raise InputError(
            f"edge_index names node {highest} but there are {n_nodes} nodes (0..{n_nodes - 1}); "
            "the graph and its logits must have every node."
        )


def _count_nodes(edges: IntArray, n_nodes: int | None, features: Features | None) -> int:
    largest = int(edges.max()) if edges.size else -1
    if n_nodes is not None:
        integer(at_least=0).check("n_nodes", n_nodes)
    if n_nodes is None:
        if features is None and largest < 0:
            raise InputError("the graph has no edges and no features; pass n_nodes.")
        n_nodes = largest + 1 if features is None else features.shape[0]
    if n_nodes > MOST_NODES:
        what = f"n_nodes is {n_nodes}" if largest < MOST_NODES else f"a node is called {largest}"
        raise InputError(
            f"{what}; at most 2**31 nodes are supported, numbered from 0 without gaps. Number "
            "your ids first: ids, edges = np.unique(edges, return_inverse=True)."
        )
    check_range(0, largest, n_nodes)
    if features is not None and features.shape[0] != n_nodes:
        raise InputError(
            f"features has {features.shape[0]} rows but the graph has {n_nodes} nodes; "
            "pass one row for each node."
        )
    return int(n_nodes)


def _check_features(features: Any) -> Features:
    is_sparse = sparse.issparse(features)
    matrix: Any = sparse.csr_array(features) if is_sparse else as_numpy(features)
    if matrix.dtype.kind not in "fiub":
        raise InputError(f"features has dtype {matrix.dtype}; expected real numbers.")
    if matrix.ndim != 2:
        raise InputError(f"features has shape {matrix.shape}; expected (n_nodes, n_features).")
    if matrix.dtype not in (np.float32, np.float64):
        matrix = matrix.astype(np.float32)
    values: FloatArray = matrix.data if is_sparse else matrix
    if values.size and not (np.isfinite(values.min()) and np.isfinite(values.max())):
        raise InputError("features contains NaN or infinity; impute or drop those values first.")
    return matrix


def train_mask_of(graph: Any, n_nodes: int) -> Any:
    """Return the ``train_mask`` of a ``Data``, if it marks one split of these nodes, else None."""
    mask = None if isinstance(graph, Graph) else getattr(graph, "train_mask", None)
    if mask is None or not hasattr(mask, "dtype"):
        return None
    array = as_numpy(mask)
    return array if array.shape == (n_nodes,) and array.dtype == np.bool_ else None


def class_names_of(graph: Any) -> Any:
    """Return the names of the classes that a ``Data`` has as ``class_names``, else None."""
    names = None if isinstance(graph, Graph) else getattr(graph, "class_names", None)
    return names if isinstance(names, list | tuple | np.ndarray) else None


def as_graph(graph: Any) -> Graph | EntityGraph | None:
    """Return a Graph from a ``Data``; return a Graph, an EntityGraph or None unchanged."""
    if graph is None or isinstance(graph, Graph | EntityGraph):
        return graph
    if any(hasattr(graph, name) for name in ("edge_index", "adj_t", "to_homogeneous")):
        return Graph.from_pyg(graph)
    raise InputError(
        f"graph is a {type(graph).__name__}; pass a gnncal.Graph(edge_index, n_nodes) or a PyTorch "
        "Geometric Data, or convert with Graph.from_dgl, from_networkx or from_scipy."
    )

"""Graph attention network (Veličković et al., ICLR 2018), as the paper's release builds it."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gnncal_lab.classifiers.inputs import GraphInput
from gnncal_lab.classifiers.settings import TrainingSettings
from gnncal_lab.methods.neural.sparse import Pattern, SparseProduct

N_HEADS = 2


class GAT(nn.Module):
    r"""One attention layer with two heads, then a linear layer on the concatenated heads.

    .. math:: e_{uv} = \mathrm{LeakyReLU}_{0.2}(a_s^\top h_u + a_t^\top h_v), \quad
        \alpha_{uv} = \mathrm{softmax}_{u \to v}(e_{uv}), \quad
        h'_v = \textstyle\sum_u \alpha_{uv} h_u + b, \quad h = X W

    """

    def __init__(self, n_features: int, n_classes: int, settings: TrainingSettings) -> None:
        super().__init__()
        hidden = settings.hidden
        shapes = (n_features, N_HEADS * hidden), (1, N_HEADS, hidden), (1, N_HEADS, hidden)
        weights = (nn.init.xavier_normal_(torch.empty(shape), gain=2**0.5) for shape in shapes)
        self.weight, self.a_source, self.a_target = (nn.Parameter(weight) for weight in weights)
        self.bias = nn.Parameter(torch.zeros(N_HEADS * hidden))
        self.out = nn.Linear(N_HEADS * hidden, n_classes)
        self.dropout = settings.dropout

    def forward(self, x: GraphInput) -> Tensor:
        """Return the logits, (n_nodes, n_classes)."""
        projected = x.times(self.weight, self.dropout if self.training else 0.0)
        h = projected.view(len(projected), N_HEADS, -1)
        source, target = (h * self.a_source).sum(-1), (h * self.a_target).sum(-1)
        scores = source[x.edges.columns] + target[x.edges.rows]  # (n_edges, N_HEADS)
        alpha = softmax_by_row(F.leaky_relu(scores, 0.2), x.edges)
        alpha = F.dropout(alpha, self.dropout, self.training)
        heads = [
            SparseProduct.apply(alpha[:, i].contiguous(), h[:, i].contiguous(), x.edges)
            for i in range(N_HEADS)
        ]
        return self.out(torch.cat(heads, dim=1) + self.bias)


def softmax_by_row(scores: Tensor, pattern: Pattern) -> Tensor:
    """Softmax over the entries of each row, for each column of ``scores`` (nnz, k)."""
    zero = scores.new_zeros(pattern.matrix.shape[0], scores.shape[1])
    index = pattern.rows[:, None].expand_as(scores)
    top = zero.scatter_reduce(0, index, scores.detach(), "amax", include_self=False)
    weights = (scores - top[pattern.rows]).exp()  # keeps exp from overflowing; cancels below
    return weights / zero.index_add(0, pattern.rows, weights)[pattern.rows]

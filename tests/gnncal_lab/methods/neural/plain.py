"""The four methods once more, from their formulas: dense matrices and loops, no gnncal inside."""

import numpy as np


def softplus(x):
    return np.logaddexp(0.0, x)


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def counts(edges, n):
    """A[i, j] = edges from j to i."""
    A = np.zeros((n, n))
    for sender, receiver in edges.T:
        A[receiver, sender] += 1
    return A


def gcn_matrix(A, *, add_self_loops=True):
    A = A.copy()
    if add_self_loops:
        for i in range(len(A)):
            A[i, i] = max(A[i, i], 1)
    received, sent = np.maximum(A.sum(axis=1), 1), np.maximum(A.sum(axis=0), 1)
    return A / np.sqrt(np.outer(received, sent))


def first_release_matrix(A, *, add_self_loops=True):
    """Out-degrees on both sides; one more loop at every node."""
    A = A + np.eye(len(A)) * add_self_loops
    scale = np.array([1 / np.sqrt(max(sent, 1)) for sent in A.sum(axis=0)])
    return np.array(
        [
            [s * a * r for a, s in zip(row, scale, strict=True)]
            for row, r in zip(A, scale, strict=True)
        ]
    )


def cagcn(w, z, A, link, add_self_loops=True, normalisation="in-out"):
    matrix = {"in-out": gcn_matrix, "out": first_release_matrix}[normalisation]
    P = matrix(A, add_self_loops=add_self_loops)
    hidden = np.maximum(P @ z @ w["input_weight"] + w["input_bias"], 0)
    t = P @ hidden @ w["output_weight"] + w["output_bias"]
    return 1 / (softplus(t) if link == "softplus" else np.log(np.exp(t) + 1.1))


def margin(z, T, labels):
    total = 0.0
    for row, label in zip(softmax(z / T[:, None]), labels, strict=True):
        second, first = np.sort(row)[-2:]
        total += 1 - first + second if row.argmax() == label else first - second
    return total / len(labels)


def gats(w, z, A, is_train, *, positive=True, relative_to="in"):
    n = len(z)
    T0, a0, a1 = (w[k][0] for k in ("base_temperature", "train_factor", "neighbour_factor"))
    if positive:
        T0, a0, a1 = np.exp([T0, a0, a1])
    A = A - np.diag(np.diag(A)) + np.eye(n)
    confidence = softmax(z).max(axis=1)
    gamma = np.ones(n)
    for i in range(n):
        if is_train[i]:
            gamma[i] = a0
        elif any(A[i, j] and is_train[j] for j in range(n)):
            gamma[i] = a1
    T = np.empty(n)
    for i in range(n):
        senders = [j for j in range(n) for _ in range(int(A[i, j]))]
        scores = np.array([z[i] @ z[j] / (gamma[i] * gamma[j]) for j in senders])
        alpha = softmax(np.where(scores > 0, scores, 0.2 * scores))
        size = len(senders) if relative_to == "in" else A[:, i].sum()
        delta = sum(confidence[i] - confidence[j] for j in senders) / size
        heads = []
        for theta in w["theta"].T:
            around = 0.0
            for weight, j in zip(alpha, senders, strict=True):
                scaled = np.sort(z[j] - z[j].min()) / (z[j].max() - z[j].min())
                around += weight * gamma[j] * (theta @ scaled)
            heads.append(softplus(w["omega"][0] * delta + around))
        T[i] = T0 + np.mean(heads)
    return T


def heat_kernel_coefficients(order, s):
    """Chebyshev coefficients of exp(-s (1 + x)) by the integral that defines them."""
    theta = (np.arange(20000) + 0.5) * np.pi / 20000
    values = np.exp(-s * (1 + np.cos(theta)))
    return np.array([2 * np.mean(np.cos(k * theta) * values) for k in range(order + 1)])


def wats(w, A, c, normalisation="in-out"):
    degree = A.sum(axis=0) + A.sum(axis=1)
    x = np.log(1 + np.maximum(degree, 1e-6))
    B = A - np.diag(np.diag(A))
    received, sent = B.sum(axis=1), B.sum(axis=0)
    if normalisation == "in-out":
        L = -B / np.sqrt(np.outer(np.maximum(received, 1), np.maximum(sent, 1)))
    else:
        root = np.sqrt(np.maximum(received, 1))
        L = -B.T / np.outer(root, root)
    L -= np.diag(received == 0)
    t = [x, L @ x]
    while len(t) < len(c):
        t.append(2 * L @ t[-1] - t[-2])
    H = np.stack(t, axis=1) * c
    H /= np.maximum(np.abs(H).sum(axis=1, keepdims=True), 1e-12)
    hidden = np.maximum(H @ w["input_weight"] + w["input_bias"], 0)
    return softplus(hidden @ w["output_weight"] + w["output_bias"]) + 1e-6


SUBSETS = {  # expert -> its place among those that see logits, features, degrees
    "with": [
        {"l": 0}, {"f": 0}, {"d": 0}, {"l": 1, "f": 1}, {"f": 2, "d": 1}, {"l": 2, "d": 2},
        {"l": 3, "f": 3, "d": 3},
    ],
    "without": [{"l": 0}, {"d": 0}, {"l": 1, "d": 1}],
}  # fmt: skip


def gets(w, z, A, x, k):
    """Calibrated logits, as a plain mixture: every expert run for itself."""
    P = gcn_matrix(A)
    table = w["degree_embedding"]
    degree = np.minimum(A.sum(axis=0) + A.sum(axis=1), table.shape[1] - 1).astype(int)
    outputs = []
    for m, subset in enumerate(SUBSETS["without" if x is None else "with"]):
        inputs, weight = [], []
        if "l" in subset:
            inputs.append(z)
            weight.append(w["logit_weight"][subset["l"]])
        if "f" in subset:
            f = subset["f"]
            inputs.append(x @ w["feature_projection"][f] + w["feature_bias"][f])
            weight.append(w["feature_weight"][f])
        if "d" in subset:
            inputs.append(table[subset["d"]][degree])
            weight.append(w["degree_weight"][subset["d"]])
        hidden = P @ np.concatenate(inputs, axis=1) @ np.concatenate(weight) + w["first_bias"][m]
        outputs.append(P @ np.maximum(hidden, 0) @ w["second_weight"][m] + w["second_bias"][m])
    q = z if x is None else np.concatenate([x @ w["gate_projection"] + w["gate_bias"], z], axis=1)
    result = np.empty_like(z)
    for i, scores in enumerate(q @ w["gate_weight"]):
        chosen = sorted(range(len(scores)), key=lambda m: (-scores[m], m))[:k]
        gates = softmax(scores[chosen])
        t = sum(g * outputs[m][i] for g, m in zip(gates, chosen, strict=True))
        result[i] = z[i] * np.clip(softplus(t), np.exp(-5), np.exp(5))
    return result


def imbalance(clean, sigma, epsilon, k):
    """CV² of importance plus CV² of load, expert by expert."""
    from math import erf

    n, M = clean.shape
    noisy = clean + sigma * epsilon
    importance, load = np.zeros(M), np.zeros(M)
    for i in range(n):
        order = np.argsort(-noisy[i])
        gates = softmax(noisy[i][order[:k]])
        for g, m in zip(gates, order[:k], strict=True):
            importance[m] += g
        for m in range(M):
            limit = noisy[i][order[k]] if m in order[:k] else noisy[i][order[k - 1]]
            load[m] += 0.5 * (1 + erf((clean[i, m] - limit) / sigma[i, m] / np.sqrt(2)))
    return sum(v.var(ddof=1) / (v.mean() ** 2 + 1e-10) for v in (importance, load))

"""What publications write, each formula once, as functions of arrays, tensors or table columns.

The letters are those of the publications. ``z`` are logits (n, K), ``p`` probabilities (n, K),
``e`` normalised entropies (n,), ``T`` temperatures (n,). How parameters are fitted is not here.
"""

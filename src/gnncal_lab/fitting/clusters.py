"""Groups of nodes that are alike in a few numbers: k-means, kept as ranges and centres."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gnncal_lab.arrays import FloatArray, IntArray

DIGITS = 9  # of centres; what is beyond depends on the order of sums


@dataclass(frozen=True)
class Clusters:
    """Centres that every node joins the nearest of, the first of several."""

    ranges: FloatArray
    centres: FloatArray

    @classmethod
    def of(cls, points: FloatArray, n_groups: int) -> Clusters:
        """Return the clusters of points (n_nodes, n_numbers); fewer where fewer points differ."""
        # The points are sorted first, so that the numbering of the nodes does not matter.
        from sklearn.cluster import KMeans  # here because it takes long to import

        ranges = np.stack([points.min(axis=0), points.max(axis=0)], axis=1)
        scaled = _scaled(points, ranges)
        scaled = scaled[np.lexsort(scaled.T)]
        n_different = 1 + int((np.diff(scaled, axis=0) != 0).any(axis=1).sum())
        means = KMeans(min(n_groups, n_different), random_state=0, n_init=1).fit(scaled)
        centres = np.round(means.cluster_centers_, DIGITS).clip(0.0, 1.0)
        return cls(ranges, centres[np.lexsort(centres.T[::-1])])

    def groups_of(self, points: FloatArray) -> IntArray:
        """Return the number of the nearest centre of each point."""
        scaled = _scaled(points, self.ranges)
        nearest, shortest = np.zeros(len(points), dtype=np.int64), np.full(len(points), np.inf)
        for g, centre in enumerate(self.centres):
            distance = ((scaled - centre) ** 2).sum(axis=1)
            closer = distance < shortest
            nearest[closer], shortest[closer] = g, distance[closer]
        return nearest


def _scaled(points: FloatArray, ranges: FloatArray) -> FloatArray:
    low, high = ranges.T
    return (points - low) / np.where(high > low, high - low, 1.0)

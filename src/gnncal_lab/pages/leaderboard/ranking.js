/* Ranks over graphs, as gnncal/bench/summary.py computes them: graphs are the units, lower is better. */
"use strict";

const Ranking = (() => {
  const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

  /* Mean of the numbers that are there; null where there are none. */
  function average(values) {
    const present = values.filter((value) => value !== null && value !== undefined);
    return present.length ? mean(present) : null;
  }

  /* Ranks of some numbers, 1 the lowest; equal ones share the mean of their places. */
  function midRanks(values) {
    return values.map((value) => {
      const below = values.filter((other) => other < value).length;
      const equal = values.filter((other) => other === value).length;
      return below + (equal + 1) / 2;
    });
  }

  /* Rows of one unit averaged, column by column. */
  function unitMeans(rows, units) {
    return [...new Set(units)].map((unit) => {
      const own = rows.filter((_, i) => units[i] === unit);
      return own[0].map((_, column) => average(own.map((row) => row[column])));
    });
  }

  /* Chance that a chi-squared number with so many degrees of freedom exceeds x. */
  function chiSquaredTail(x, degrees) {
    const [a, z] = [degrees / 2, x / 2];
    if (z <= 0) return 1;
    const scale = Math.exp(a * Math.log(z) - z - logGamma(a));
    if (z < a + 1) { // series of the lower part
      let term = 1 / a, sum = term;
      for (let n = a + 1; term > sum * 1e-16; n++) { term *= z / n; sum += term; }
      return 1 - scale * sum;
    }
    let b = z + 1 - a, c = 1e300, d = 1 / b, h = d; // Lentz's continued fraction of the upper part
    for (let n = 1; n < 1000; n++) {
      const an = -n * (n - a);
      b += 2;
      d = 1 / (an * d + b);
      c = b + an / c;
      h *= d * c;
      if (Math.abs(d * c - 1) < 1e-15) break;
    }
    return scale * h;
  }

  /* ln Gamma of a whole or half number. */
  function logGamma(a) {
    let [value, x] = a % 1 ? [Math.log(Math.PI) / 2, 0.5] : [0, 1];
    for (; x < a; x++) value += Math.log(x);
    return value;
  }

  /* Friedman's test with its correction for ties, and Nemenyi's critical difference. */
  function friedman(rows, quantiles) {
    const n = rows.length, k = n ? rows[0].length : 0;
    const ranked = rows.map(midRanks);
    const meanRanks = Array.from({ length: k }, (_, j) => mean(ranked.map((row) => row[j])));
    if (n < 2 || k < 3) return { n, meanRanks: n ? meanRanks : [], p: null, difference: null };
    const tied = (row) => [...new Set(row)].map((rank) => row.filter((other) => other === rank).length);
    const ties = ranked.flatMap(tied).reduce((sum, t) => sum + t ** 3 - t, 0);
    const squares = meanRanks.reduce((sum, rank) => sum + (n * rank) ** 2, 0);
    const statistic = ((12 / (n * k * (k + 1))) * squares - 3 * n * (k + 1)) / (1 - ties / (n * k * (k * k - 1)));
    return { n, meanRanks, p: chiSquaredTail(statistic, k - 1), difference: quantiles[k] * Math.sqrt((k * (k + 1)) / (6 * n)) };
  }

  /* Longest runs of methods, sorted by rank, whose ends are closer than the critical difference. */
  function cliques(sortedRanks, difference) {
    const found = [];
    let last = -1;
    sortedRanks.forEach((rank, i) => {
      let j = i;
      while (j + 1 < sortedRanks.length && sortedRanks[j + 1] - rank <= difference) j++;
      if (j > i && j > last) found.push([i, j]);
      last = Math.max(last, j);
    });
    return found;
  }

  return { average, midRanks, unitMeans, friedman, cliques, chiSquaredTail };
})();

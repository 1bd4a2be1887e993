/* The charts of new nodes and of labels as they arrive. */
"use strict";

(() => {
  const { data, chart, colour, plain, axis, layout } = Page;
  const lines = (x, y, name, shade, more = {}) => ({ type: "scatter", mode: "lines+markers", x, y, name: plain(name), line: { color: shade, width: 1.8 }, marker: { color: shade, size: 6 }, ...more });

  chart("moves-chart", () => {
    const moves = [...data.moves].reverse(), names = moves.map((move) => `${plain(move.name)} `);
    return { data: [
      { type: "bar", orientation: "h", y: names, x: moves.map((move) => 100 * move.distance), marker: { color: moves.map((move) => colour(move.is_moved ? "warn" : "after")) }, hovertemplate: "%{x:.1f}%<extra></extra>" },
      { type: "scatter", mode: "markers", y: names, x: moves.map((move) => 100 * move.chance), marker: { color: colour("ink"), symbol: "line-ns-open", size: 18, line: { width: 2 } }, hovertemplate: "by chance: up to %{x:.1f}%<extra></extra>" },
    ], label: `Distance of each quantity: ${data.moves.map((move) => `${move.name} ${(100 * move.distance).toFixed(1)}%`).join(", ")}.`,
    layout: layout({ xaxis: axis("distance, % of the nodes", { rangemode: "tozero" }), yaxis: axis("", { showgrid: false }) }) };
  });

  chart("evidence-chart", () => {
    const last = Math.max(50, ...data.claims.flatMap((claim) => claim.labels));
    const shades = [colour("after"), colour("before"), colour("warn"), colour("good"), colour("bad")];
    return { data: [
      { type: "scatter", mode: "lines", x: [0, last], y: [data.limit, data.limit], name: "alarm limit", line: { color: colour("bad"), dash: "dash", width: 1.5 }, hoverinfo: "skip" },
      ...data.claims.map((claim, i) => lines(claim.labels, claim.evidence, claim.name, shades[i])),
    ], label: "Evidence against each claim by the number of labels.",
    layout: layout({ showlegend: true, xaxis: axis("number of labels", { rangemode: "tozero" }), yaxis: axis("evidence, log₁₀") }) };
  });

  chart("shares-chart", () => {
    const claim = data.claims[0];
    return { data: [lines(claim.labels, claim.predicted, "mean confidence", colour("before"), { line: { color: colour("before"), dash: "dot", width: 1.8 } }), lines(claim.labels, claim.observed, "accuracy", colour("after"))],
      label: "Mean confidence and accuracy in blocks of labels.",
      layout: layout({ showlegend: true, xaxis: axis("number of labels", { rangemode: "tozero" }), yaxis: axis("share", { tickformat: ".0%" }) }) };
  });
})();

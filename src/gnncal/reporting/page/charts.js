/* Charts that reports share: the reliability diagram and the gaps of groups. */
"use strict";

const Charts = (() => {
  const { colour, plain, short, axis, layout, make } = Page;
  /* No probability is shown as 0% or 100% that is not. */
  function percent(share, digits = 1) {
    if (share === null) return "–";
    const step = 10 ** -digits, text = (100 * share).toFixed(digits);
    if (share > 0 && Number(text) === 0) return `<${step.toFixed(digits)}%`;
    if (share < 1 && Number(text) === 100) return `>${(100 - step).toFixed(digits)}%`;
    return `${text}%`;
  }
  const signed = (share, digits = 1) => `${share < 0 ? "−" : "+"}${Math.abs(100 * share).toFixed(digits)}`;
  const count = (number) => number.toLocaleString("en");
  const SYMBOLS = { before: "diamond", after: "circle" };

  /* Accuracy against confidence with exact intervals, and the number of nodes below. */
  function reliability(bins, ece, side, title) {
    const shade = colour(side);
    const filled = bins.count.map((_, i) => i).filter((i) => bins.count[i] > 0);
    const pick = (values) => filled.map((i) => values[i]);
    const split = (values) => filled.flatMap((i, k) => (k > 0 && filled[k - 1] < i - 1 ? [null, values[i]] : [values[i]])); // a line ends at an empty bin
    const [x, y, low, high] = [bins.confidence, bins.accuracy, bins.low, bins.high].map(split);
    const hover = filled.map((i) => `${count(bins.count[i])} nodes<br>confidence ${percent(bins.confidence[i])}<br>accuracy ${percent(bins.accuracy[i])} [${percent(bins.low[i])}, ${percent(bins.high[i])}]`);
    return { data: [
      { type: "scatter", mode: "lines", x: [0, 1], y: [0, 1], line: { color: colour("soft"), dash: "dash", width: 1.2 }, hoverinfo: "skip" },
      { type: "scatter", mode: "markers+lines", x, y, text: split(bins.count.map((_, i) => hover[filled.indexOf(i)])), hovertemplate: "%{text}<extra></extra>",
        line: { color: shade, width: 1.2 }, marker: { color: shade, size: 9, symbol: SYMBOLS[side] },
        error_y: { type: "data", symmetric: false, array: high.map((v, i) => v - y[i]), arrayminus: low.map((v, i) => y[i] - v), color: shade, thickness: 1.6, width: 5 } },
      { type: "bar", x: filled.map((i) => (bins.lower[i] + bins.upper[i]) / 2), y: pick(bins.count), width: filled.map((i) => 0.92 * (bins.upper[i] - bins.lower[i])),
        marker: { color: shade }, opacity: 0.45, yaxis: "y2", text: hover, textposition: "none", hovertemplate: "%{text}<extra></extra>" },
    ], label: `Reliability diagram, ${title}: expected calibration error ${percent(ece.value)}, noise floor ${percent(ece.floor)}.`,
    layout: layout({ margin: { l: 56, r: 14, t: 34, b: 48 },
      title: { text: `ECE ${percent(ece.value)} <span style="font-size:12px">(floor ${percent(ece.floor)})</span>`, font: { size: 15 }, x: 0.02, xanchor: "left", y: 0.985, yanchor: "top" },
      xaxis: axis("confidence", { range: [0, 1.005], anchor: "y2", tickformat: ".0%" }),
      yaxis: axis("accuracy", { range: [0, 1.02], domain: [0.27, 1], tickformat: ".0%" }),
      yaxis2: axis("nodes", { domain: [0, 0.2], nticks: 3 }) }) };
  }

  /* The same bins as a table. */
  function fillBins(table, bins) {
    table.tBodies[0].replaceChildren(...bins.count.map((n, i) => n === 0 ? null : make("tr", {},
      make("th", { scope: "row" }, `${percent(bins.lower[i], 0)} to ${percent(bins.upper[i], 0)}`), make("td", {}, count(n)),
      make("td", {}, percent(bins.confidence[i])), make("td", {}, percent(bins.accuracy[i])),
      make("td", {}, `${percent(bins.low[i])} to ${percent(bins.high[i])}`))).filter(Boolean));
  }

  /* Confidence minus accuracy of groups, the first of the order at the bottom. */
  function gaps(sides, title) {
    const last = sides.at(-1), names = last.order.map((i) => `${plain(short(last.group.labels[i], 26))} `);
    const traces = sides.map(({ group, order, side, name }) => ({
      type: "scatter", mode: "markers", name: plain(name), y: order.map((_, i) => i + (side === "before" ? 0.16 : -0.1)), x: order.map((i) => 100 * (group.confidence[i] - group.accuracy[i])),
      text: order.map((i) => `${plain(short(group.labels[i], 60))}: ${count(group.count[i])} nodes<br>confidence ${percent(group.confidence[i])}, accuracy ${percent(group.accuracy[i])}`),
      hovertemplate: "%{text}<extra>" + plain(name) + "</extra>", marker: { color: colour(side), size: 10, symbol: SYMBOLS[side] },
      error_x: { type: "data", symmetric: false, color: colour(side), thickness: 1.6, width: 4,
        array: order.map((i) => 100 * (group.accuracy[i] - group.low[i])), arrayminus: order.map((i) => 100 * (group.high[i] - group.accuracy[i])) } }));
    const top = last.order.at(-1);
    return { data: traces, label: `Confidence minus accuracy by ${title}. First group: ${last.group.labels[top]}, ${signed(last.group.confidence[top] - last.group.accuracy[top])} points.`,
      layout: layout({ showlegend: traces.length > 1, margin: { l: 20, r: 14, t: 34, b: 48 },
        xaxis: axis("mean confidence minus accuracy, points", { rangemode: "tozero", zeroline: true, zerolinewidth: 2, zerolinecolor: colour("soft") }),
        yaxis: axis("", { tickvals: last.order.map((_, i) => i), ticktext: names, range: [-0.6, last.order.length - 0.4], showgrid: false, zeroline: false }) }) };
  }

  return { percent, signed, count, reliability, fillBins, gaps };
})();

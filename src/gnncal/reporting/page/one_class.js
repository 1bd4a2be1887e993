/* The positive class: draws what the data says, and adds up costs that a reader types in. */
"use strict";

const OneClass = (() => {
  const { data, colour, plain, axis, layout, chart, redraw, make } = Page;
  const { percent, count } = Charts;
  const id = (name) => document.getElementById(name);
  const state = { method: data.shown, point: 0 };
  const of = (name) => data.methods[name].one_class;
  const found = () => of(state.method);
  const name = data.positive_name;
  const fine = (share) => (share === null ? "–" : share >= 0.1 ? percent(share) : share > 0 && share < 1e-4 ? "<0.01%" : `${(100 * share).toPrecision(2)}%`);
  const round = (value) => count(Math.round(value));

  function summary() {
    const { rate, mean, n_nodes: n, n_positive: hits } = found();
    id("class-answer").textContent = `${fine(rate)} of the test nodes are positive (${count(hits)} of ${count(n)}). ` +
      (state.method === "uncalibrated" ? `The mean of P(${name}) is ${fine(mean)}.`
        : `The mean of P(${name}) is ${fine(mean)} with ${state.method} and ${fine(of("uncalibrated").mean)} with the raw model.`);
  }

  // -- is the probability right? -----------------------------------------------------------
  const sides = () => (state.method === "uncalibrated" ? ["uncalibrated"] : ["uncalibrated", state.method]);
  chart("class-reliability-chart", () => {
    const shown = sides().map((method) => [method, of(method).reliability]);
    const positive = shown.flatMap(([, bins]) => [...bins.confidence, ...bins.accuracy]).filter((value) => value > 0);
    const lowest = Math.max(Math.min(...positive) / 2, 1e-6);
    const on = (value) => Math.max(value, lowest);
    const traces = [{ type: "scatter", mode: "lines", x: [lowest, 1], y: [lowest, 1], line: { color: colour("soft"), dash: "dash", width: 1.2 }, hoverinfo: "skip", showlegend: false }];
    shown.forEach(([method, bins]) => {
      const side = method === state.method ? "after" : "before";
      const filled = bins.count.map((_, i) => i).filter((i) => bins.count[i] > 0);
      const y = filled.map((i) => on(bins.accuracy[i]));
      traces.push({ type: "scatter", mode: "markers", name: plain(method === "uncalibrated" ? "raw model" : method), x: filled.map((i) => on(bins.confidence[i])), y,
        text: filled.map((i) => `mean probability ${fine(bins.confidence[i])}<br>positive: ${count(Math.round(bins.accuracy[i] * bins.count[i]))} of ${count(bins.count[i])} nodes, ${fine(bins.accuracy[i])} [${fine(bins.low[i])}, ${fine(bins.high[i])}]`),
        hovertemplate: "%{text}<extra></extra>", cliponaxis: false, marker: { color: colour(side), size: 9, symbol: filled.map((i) => (bins.accuracy[i] === 0 ? "triangle-down-open" : side === "after" ? "circle" : "diamond")) },
        error_y: { type: "data", symmetric: false, color: colour(side), thickness: 1.6, width: 4,
          array: filled.map((i, k) => on(bins.high[i]) - y[k]), arrayminus: filled.map((i, k) => y[k] - on(bins.low[i])) } });
    });
    const range = [Math.log10(lowest), 0.03];
    const ticks = { type: "log", range, tickvals: [1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.1, 1], ticktext: ["0.0001%", "0.001%", "0.01%", "0.1%", "1%", "10%", "100%"] };
    return { data: traces, label: `Reliability diagram of P(${name}) with logarithmic axes. Mean probability ${fine(found().mean)}, base rate ${fine(found().rate)}.`,
      layout: layout({ showlegend: true, xaxis: axis(`P(${plain(name)})`, ticks), yaxis: axis("share of positive nodes", ticks) }) };
  });

  // -- act above a threshold ---------------------------------------------------------------
  const slider = id("class-threshold");
  const precision = (ranking, i) => ranking.found[i] / ranking.n[i];
  const recall = (ranking, i) => ranking.found[i] / ranking.found.at(-1);
  function moveSlider() {
    const { ranking } = found();
    slider.max = ranking.n.length - 1;
    state.point = Math.min(state.point, ranking.n.length - 1);
    slider.value = ranking.n.length - 1 - state.point; // to the right the threshold rises
    const i = state.point, threshold = fine(ranking.threshold[i]);
    id("class-threshold-value").textContent = threshold;
    slider.setAttribute("aria-valuetext", threshold);
    id("class-threshold-answer").textContent = `Threshold ${threshold}: ${count(ranking.n[i])} of ${count(found().n_nodes)} test nodes are acted on. ` +
      `Precision ${percent(precision(ranking, i))}, recall ${percent(recall(ranking, i))}.`;
  }
  chart("class-ranking-chart", () => {
    const traces = sides().map((method) => {
      const { ranking } = of(method), side = method === state.method ? "after" : "before";
      return { type: "scatter", mode: "lines", name: plain(method === "uncalibrated" ? "raw model" : method), x: ranking.n.map((_, i) => recall(ranking, i)), y: ranking.n.map((_, i) => precision(ranking, i)),
        line: { color: colour(side), width: 2.5, dash: side === "after" ? "solid" : "dash" }, hovertemplate: "recall %{x:.1%}, precision %{y:.1%}<extra></extra>" };
    });
    const { ranking } = found(), i = state.point;
    traces.push({ type: "scatter", mode: "markers", name: "your threshold", x: [recall(ranking, i)], y: [precision(ranking, i)],
      marker: { size: 14, color: colour("third"), symbol: "star", line: { color: colour("paper"), width: 1 } }, hovertemplate: "recall %{x:.1%}, precision %{y:.1%}<extra></extra>" });
    return { data: traces, label: `Precision against recall for ${name}. ${id("class-threshold-answer").textContent}`,
      layout: layout({ showlegend: true, xaxis: axis("recall", { range: [0, 1.01], tickformat: ".0%" }), yaxis: axis("precision", { range: [0, 1.02], tickformat: ".0%" }) }) };
  });
  slider.addEventListener("input", () => { state.point = found().ranking.n.length - 1 - Number(slider.value); moveSlider(); redraw("class-ranking-chart"); });

  // -- a budget ----------------------------------------------------------------------------
  /* The first point of the ranking that has at least so many nodes. */
  const pointOf = (ranking, n) => { const i = ranking.n.findIndex((here) => here >= n); return i < 0 ? ranking.n.length - 1 : i; };
  function budget() {
    const wanted = Math.floor(Number(id("class-budget").value));
    id("class-budget").setAttribute("aria-invalid", String(!(wanted >= 1)));
    if (!(wanted >= 1)) { id("class-budget-answer").textContent = "Enter a number of nodes, 1 or more."; return; }
    const { ranking } = found(), i = pointOf(ranking, wanted), n = ranking.n[i];
    id("class-budget-answer").textContent = `Of the ${count(n)} test nodes with the highest P(${name}), ${percent(precision(ranking, i))} are positive (expected: ${percent(ranking.expected[i] / n)}). ` +
      `These ${count(n)} nodes include ${percent(recall(ranking, i))} of all positive test nodes.` +
      (state.method === "uncalibrated" ? "" : ` With the ranking of the raw model, ${percent(precision(of("uncalibrated").ranking, pointOf(of("uncalibrated").ranking, n)))} are positive.`);
    reviewTable(wanted);
  }
  function reviewRows(n) {
    const { review } = found();
    return review.name.slice(0, n).map((node, i) => [i + 1, node, review.p[i], review.raw[i], review.is_test[i] ? "test" : ""]);
  }
  function reviewTable(n) {
    const rows = reviewRows(n), all = found().review.name.length;
    id("review-table").tBodies[0].replaceChildren(...rows.map(([rank, node, p, raw, split]) => make("tr", {}, make("td", {}, rank),
      make("th", { scope: "row", class: "text" }, node), make("td", {}, fine(p)), make("td", {}, fine(raw)), make("td", { class: "text" }, split))));
    id("review-count").textContent = `${count(rows.length)} nodes` + (n > all && all === 500 ? "; for more, use gnncal decide --budget" : "");
  }
  /* Quoted, and with an apostrophe before what a spreadsheet would run as a formula. */
  const quoted = (value) => `"${String(value).replace(/^(?=[=+\-@\t\r])/, typeof value === "number" ? "" : "'").replaceAll('"', '""')}"`;
  id("review-csv").addEventListener("click", () => {
    const rows = [["rank", "node", `P(${name})`, "raw", "split"], ...reviewRows(Math.max(1, Math.floor(Number(id("class-budget").value)) || 1))];
    const text = rows.map((row) => row.map(quoted).join(",")).join("\r\n") + "\r\n";
    const link = make("a", { href: URL.createObjectURL(new Blob(["\ufeff", text], { type: "text/csv" })), download: "review.csv" });
    link.click();
    URL.revokeObjectURL(link.href);
  });
  id("class-budget").addEventListener("input", budget);

  // -- costs -------------------------------------------------------------------------------
  function typed(place) {
    const value = id(place).value === "" ? NaN : Number(id(place).value);
    id(place).setAttribute("aria-invalid", String(!(value >= 0)));
    return value;
  }
  /* Nodes are acted on up to one point of the ranking, reviewed up to the next, and then cleared. */
  function costOf(ranking, acted, reviewed, costs) {
    const at = (values, i) => (i < 0 ? 0 : values[i]);
    const last = ranking.n.length - 1;
    const total = (positives) => costs.falseAlarm * (at(ranking.n, acted) - at(positives, acted)) + costs.missed * (positives[last] - at(positives, reviewed)) +
      costs.review * (at(ranking.n, reviewed) - at(ranking.n, acted));
    return { acted: at(ranking.n, acted), reviewed: at(ranking.n, reviewed) - at(ranking.n, acted), cleared: ranking.n[last] - at(ranking.n, reviewed),
      expected: total(ranking.expected), cost: total(ranking.found),
      spread: 1.96 * Math.sqrt(costs.falseAlarm ** 2 * at(ranking.variance, acted) + costs.missed ** 2 * (ranking.variance[last] - at(ranking.variance, reviewed))) };
  }
  const between = ({ expected, spread }) => `${round(Math.max(0, expected - spread))} to ${round(expected + spread)}`;
  const lastAbove = (ranking, threshold) => ranking.threshold.findLastIndex((value) => value >= threshold);
  function cheapest(ranking, costs) {
    const even = costs.falseAlarm / Math.max(costs.falseAlarm + costs.missed, 1e-300);
    const act = Math.max(even, costs.falseAlarm > 0 ? 1 - costs.review / costs.falseAlarm : 0);
    const clear = Math.min(even, costs.missed > 0 ? costs.review / costs.missed : 1);
    const acted = lastAbove(ranking, act);
    return { ...costOf(ranking, acted, Math.max(acted, lastAbove(ranking, clear)), costs), act, clear };
  }
  function costTable() {
    const costs = { missed: typed("cost-missed"), falseAlarm: typed("cost-false-alarm"), review: typed("cost-review") };
    if (!Object.values(costs).every((cost) => cost >= 0)) { id("cost-answer").textContent = "Enter costs of 0 or more."; return; }
    const { ranking } = found(), last = ranking.n.length - 1;
    const best = cheapest(ranking, costs), raw = of("uncalibrated").ranking;
    const rows = [["lowest expected cost", best], ["lowest expected cost, raw model", cheapest(raw, costs)],
      ["act at 50% or more, raw model", costOf(raw, lastAbove(raw, 0.5), lastAbove(raw, 0.5), costs)],
      ["clear all", costOf(ranking, -1, -1, costs)], ["review all", costOf(ranking, -1, last, costs)], ["act on all", costOf(ranking, last, last, costs)]];
    id("cost-answer").textContent = `Lowest expected cost: act on P(${name}) of at least ${fine(best.act)} (${count(best.acted)} test nodes), clear below ${fine(best.clear)} (${count(best.cleared)}), ` +
      `review the rest (${count(best.reviewed)}). Expected cost: ${round(best.expected)} (95% interval ${between(best)}). Observed cost: ${round(best.cost)}.` +
      (Math.abs(best.cost - best.expected) > best.spread ? ` Warning: the observed cost lies outside the interval. This is evidence that P(${name}) is not calibrated.` : "");
    id("cost-table").tBodies[0].replaceChildren(...rows.map(([rule, row]) => make("tr", {}, make("th", { scope: "row" }, rule),
      ...["acted", "reviewed", "cleared"].map((part) => make("td", {}, count(row[part]))), make("td", {}, round(row.expected)), make("td", {}, between(row)), make("td", {}, round(row.cost)))));
  }
  ["cost-missed", "cost-false-alarm", "cost-review"].forEach((place) => id(place).addEventListener("input", costTable));

  // -- guarantees ----------------------------------------------------------------------------
  function guaranteeTable() {
    const kind = id("guarantee-kind").value;
    const rows = found().guarantees.filter((kept) => kept.name === kind);
    id("guarantee-table").tBodies[0].replaceChildren(...rows.map((kept) => make("tr", {},
      make("th", { scope: "row" }, percent(kept.target)), make("td", {}, kept.is_certified && kept.threshold !== null ? fine(kept.threshold) : "–"),
      make("td", {}, kept.is_certified ? count(kept.n_counted) : "–"), make("td", {}, kept.is_certified ? percent(kept.share) : "–"),
      make("td", { class: "text wide" }, kept.sentence))));
  }
  id("guarantee-kind").addEventListener("change", guaranteeTable);

  function show(method) {
    state.method = method;
    summary(); moveSlider(); budget(); costTable(); guaranteeTable();
  }
  /* The slider starts where about as many nodes are acted on as there are positives. */
  state.point = pointOf(found().ranking, Math.max(found().n_positive, 1));
  return { show };
})();

/* The report on a calibration: draws what the page's data says. Nothing is computed but positions. */
"use strict";

(() => {
  const { data, colour, plain, short, axis, layout, chart, redraw, make } = Page;
  const id = (name) => document.getElementById(name);
  const state = { method: data.shown, grouping: "", target: 0, listed: 0 };
  const method = () => data.methods[state.method];
  const before = data.methods.uncalibrated;
  const { percent, signed, count } = Charts;
  const className = (c) => (c < 0 ? "" : data.class_names[c]);

  // -- reliability -------------------------------------------------------------------------
  chart("before-chart", () => Charts.reliability(before.reliability, before.ece, "before", "the raw model"));
  chart("after-chart", () => Charts.reliability(method().reliability, method().ece, "after", state.method));
  const reliabilityTable = () => Charts.fillBins(id("reliability-table"), method().reliability);

  // -- groups ------------------------------------------------------------------------------
  const MOST_GROUPS = 14;
  const groupsOf = (findings, name) => findings.groups.find((group) => group.name === name);
  chart("group-chart", () => {
    const after = groupsOf(method(), state.grouping), first = groupsOf(before, state.grouping);
    const order = after.labels.map((_, i) => i).slice(0, MOST_GROUPS).reverse();
    const same = order.map((i) => first.group.indexOf(after.group[i]));
    const sides = [{ group: after, order, side: "after", name: state.method }];
    if (state.method !== "uncalibrated" && same.every((i) => i >= 0)) sides.unshift({ group: first, order: same, side: "before", name: "raw model" });
    return Charts.gaps(sides, data.groupings[state.grouping]);
  });
  /* The group whose confidence lies furthest outside the interval of its accuracy comes first. */
  function groupRows() {
    return Object.keys(data.groupings).flatMap((name) => {
      const after = groupsOf(method(), name), first = groupsOf(before, name);
      return after.labels.map((label, i) => {
        const gap = after.confidence[i] - after.accuracy[i], old = first.group.indexOf(after.group[i]);
        const outside = Math.max(after.confidence[i] - after.high[i], after.low[i] - after.confidence[i], 0);
        return { label, name, title: data.groupings[name], n: after.count[i], confidence: after.confidence[i], accuracy: after.accuracy[i],
          low: after.low[i], high: after.high[i], gap, outside, old: old < 0 ? null : first.confidence[old] - first.accuracy[old] };
      });
    }).sort((a, b) => b.outside - a.outside || Math.abs(b.gap) - Math.abs(a.gap));
  }
  state.grouping = id("grouping").value = groupRows()[0].name;
  function groupTable() {
    const table = id("group-table");
    table.tBodies[0].replaceChildren(...groupRows().map((row) => make("tr", {},
      make("th", { scope: "row" }, row.label), make("td", { class: "text" }, row.title), make("td", { "data-value": row.n }, count(row.n)),
      make("td", { "data-value": row.confidence }, percent(row.confidence)),
      make("td", { "data-value": row.accuracy }, percent(row.accuracy), make("br"), make("small", {}, `${percent(row.low)} to ${percent(row.high)}`)),
      make("td", { "data-value": Math.abs(row.gap) }, signed(row.gap)),
      make("td", { "data-value": row.old === null ? "" : Math.abs(row.old) }, row.old === null ? "" : signed(row.old)))));
    table.querySelectorAll("th[aria-sort]").forEach((head) => head.removeAttribute("aria-sort"));
  }

  // -- temperature -------------------------------------------------------------------------
  const TEMPERATURES = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100];
  /* Over a wide range Plotly would write 5 where it means 0.5. */
  function temperatureTicks(values) {
    const wide = Math.max(...values) > 4 * Math.min(...values);
    return wide ? { tickvals: TEMPERATURES, ticktext: TEMPERATURES.map(String) } : { nticks: 6 };
  }
  function temperatureChart(against, title) {
    const profile = method().temperature;
    if (!profile) return null;
    const traces = [{ type: "scatter", mode: "markers", name: "nodes", x: data.columns[profile[against]], y: profile.temperature,
      marker: { color: colour("after"), size: 4, opacity: 0.35 }, hovertemplate: "%{x:.2f}: T = %{y:.3f}<extra></extra>" }];
    profile[`by_${against}`].forEach((law, i) => traces.push({ type: "scatter", mode: "lines", name: plain(law.label), x: law.x, y: law.temperature,
      line: { color: colour(["before", "third", "fourth"][i % 3]), width: 3, dash: ["solid", "dash", "dot"][i % 3] }, hoverinfo: "name" }));
    return { data: traces, label: `Temperature of ${count(profile.temperature.length)} nodes against ${title}.`,
      layout: layout({ showlegend: true, xaxis: axis(title, { range: [0, 1] }), yaxis: axis("temperature (log scale)", { type: "log", ...temperatureTicks(traces.flatMap((trace) => trace.y)) }) }) };
  }
  chart("temperature-homophily-chart", () => temperatureChart("homophily", plain(method().temperature?.homophily_name ?? "homophily")));
  chart("temperature-entropy-chart", () => temperatureChart("entropy", "entropy of the raw model"));
  function temperatureText() {
    const profile = method().temperature;
    const sampled = profile?.temperature.length;
    document.querySelectorAll("#temperature figure").forEach((figure) => { figure.hidden = !profile; });
    id("temperature-note").textContent = !profile ? "This method has no temperatures." : [
      profile.has_law ? "Lines: fitted temperature. A value in the legend is fixed along its line. All other inputs have typical values." : "Line: running median of the nodes.",
      profile.n_candidates > sampled ? `Points: ${count(sampled)} of ${count(profile.n_candidates)} nodes, chosen at random.` : "",
    ].filter(Boolean).join(" ");
  }

  // -- decisions ---------------------------------------------------------------------------
  const slider = id("target");
  slider.max = before.selective.target.length - 1;
  state.target = data.first_target;
  slider.value = state.target;
  function decide() {
    const selective = method().selective, i = state.target, target = selective.target[i];
    id("target-value").textContent = percent(target);
    slider.setAttribute("aria-valuetext", percent(target));
    const threshold = selective.threshold[i];
    const best = selective.target.findLast((_, k) => k < i && selective.threshold[k] !== null);
    id("target-answer").textContent = threshold === null
      ? `Decide no node: the ${count(selective.n_fitted)} held-out calibration nodes certify no threshold for an accuracy of ${percent(target)}. ${best === undefined ? "Label" : `Lower the target to ${percent(best)}, or label`} more nodes.`
      : `Decide nodes with a confidence of at least ${percent(threshold, 2)}: ${count(selective.n_decided[i])} of the ${count(selective.n_nodes)} nodes outside training and calibration (${percent(selective.coverage[i])}). ` +
        (selective.test_accuracy[i] === null ? "" : `Accuracy of these decisions on the test nodes: ${percent(selective.test_accuracy[i])}.`);
  }
  chart("selective-chart", () => {
    const selective = method().selective, i = state.target;
    const line = (findings, shade, name, dash) => ({ type: "scatter", mode: "lines", name: plain(name), x: findings.selective.curve_coverage, y: findings.selective.curve_accuracy,
      line: { color: shade, width: 2.5, dash }, hovertemplate: "%{x:.0%} decided, accuracy %{y:.1%}<extra></extra>" });
    const traces = [line(before, colour("before"), "raw model", "dash")];
    if (state.method !== "uncalibrated") traces.push(line(method(), colour("after"), state.method, "solid"));
    if (selective.threshold[i] !== null && selective.test_accuracy[i] !== null) traces.push({ type: "scatter", mode: "markers", name: "certified threshold", x: [selective.test_coverage[i]], y: [selective.test_accuracy[i]],
      marker: { size: 14, color: colour("third"), symbol: "star", line: { color: colour("paper"), width: 1 } }, hovertemplate: "%{x:.1%} decided, accuracy %{y:.2%}<extra></extra>" });
    const target = selective.target[i];
    return { data: traces, label: `Accuracy against the share of test nodes decided. Target ${percent(target)}. ${id("target-answer").textContent}`,
      layout: layout({ showlegend: true, xaxis: axis("share of test nodes decided", { range: [0, 1.01], tickformat: ".0%" }), yaxis: axis("accuracy of the decisions", { tickformat: ".0%" }),
        shapes: [{ type: "line", xref: "paper", x0: 0, x1: 1, y0: target, y1: target, line: { color: colour("soft"), dash: "dot", width: 1.5 } }] }) };
  });
  slider.addEventListener("input", () => { state.target = Number(slider.value); decide(); redraw("selective-chart"); });

  // -- single nodes ------------------------------------------------------------------------
  const nodes = data.drawn;
  const after = (i) => nodes.calibrated[state.method][i];
  const temperatureOf = (i) => nodes.temperature[state.method]?.[i] ?? null;
  function nodeTable() {
    const table = id("node-table");
    const hasGraph = data.facts.structure !== null;
    table.tBodies[0].replaceChildren(...data.listed.map((i, position) => {
      const change = after(i) - nodes.confidence[i], temperature = temperatureOf(i);
      const cell = (value, text) => make("td", { "data-value": value ?? "" }, text);
      return make("tr", { "data-position": position, class: position === state.listed ? "chosen" : null },
        make("th", { scope: "row" }, make("button", { type: "button", class: "link", onclick: () => choose(position, true) }, nodes.name[i])),
        make("td", { class: "text" }, nodes.split[i]), make("td", { class: "text" }, className(nodes.prediction[i])), make("td", { class: "text" }, className(nodes.label[i])),
        cell(nodes.confidence[i], percent(nodes.confidence[i])), cell(after(i), percent(after(i))), cell(change, signed(change)),
        cell(temperature, temperature === null ? "" : temperature.toPrecision(3)),
        ...(hasGraph ? [cell(nodes.in_degree[i], count(nodes.in_degree[i])), cell(nodes.support[i], percent(nodes.support[i], 0))] : []));
    }));
    table.querySelectorAll("th[aria-sort]").forEach((head) => head.removeAttribute("aria-sort"));
    refilter();
  }
  let refilter = () => {};

  chart("neighbourhood-chart", () => {
    const around = data.surroundings[state.listed], c = around.centre;
    const order = [...around.neighbours].sort((a, b) => nodes.prediction[a] - nodes.prediction[b] || a - b);
    const place = new Map([[c, [0, 0]]]);
    order.forEach((node, k) => {
      const angle = (2 * Math.PI * k) / order.length - Math.PI / 2, radius = order.length > 12 && k % 2 ? 0.78 : 1;
      place.set(node, [radius * Math.cos(angle), radius * Math.sin(angle)]);
    });
    const segments = (pairs) => pairs.reduce((line, [a, b]) => {
      const [p, q] = [place.get(a), place.get(b)];
      line.x.push(p[0], q[0], null); line.y.push(p[1], q[1], null);
      return line;
    }, { x: [], y: [] });
    const describe = (i) => `${plain(short(nodes.name[i], 60))}<br>predicted ${plain(short(className(nodes.prediction[i]), 60))}<br>confidence ${percent(nodes.confidence[i])} → ${percent(after(i))}`;
    const marks = (list, name, shade, symbol) => ({ type: "scatter", mode: "markers+text", name, x: list.map((i) => place.get(i)[0]), y: list.map((i) => place.get(i)[1]),
      text: list.map((i) => plain(short(nodes.name[i], 10))), textposition: "bottom center", textfont: { size: 11, color: colour("soft") },
      customdata: list.map(describe), hovertemplate: "%{customdata}<extra></extra>",
      marker: { color: shade, symbol, opacity: 1, size: list.map((i) => (i === c ? 22 : 8 + 12 * after(i))), line: { color: colour("paper"), width: 1.5 } } });
    const agree = order.filter((i) => nodes.prediction[i] === nodes.prediction[c]), differ = order.filter((i) => nodes.prediction[i] !== nodes.prediction[c]);
    const spokes = segments(order.map((node) => [c, node])), rim = segments(around.edges[0].map((a, k) => [a, around.edges[1][k]]));
    const hidden = around.n_neighbours - order.length;
    id("neighbourhood-caption").textContent = around.n_neighbours === 0 ? `Node ${nodes.name[c]} has no neighbours.`
      : `Star: node ${nodes.name[c]}. Neighbours drawn: ${order.length}${hidden ? ` of ${count(around.n_neighbours)}, chosen at random` : ""}. Neighbours with the same prediction: ${agree.length}. Among the neighbours, larger marks have higher confidence.`;
    const traces = [{ type: "scatter", mode: "lines", ...rim, line: { color: colour("line"), width: 1 }, hoverinfo: "skip", showlegend: false },
      { type: "scatter", mode: "lines", ...spokes, line: { color: colour("soft"), width: 1 }, hoverinfo: "skip", showlegend: false }];
    if (agree.length) traces.push(marks(agree, "same prediction", colour("after"), "circle"));
    if (differ.length) traces.push(marks(differ, "other prediction", colour("before"), "diamond"));
    traces.push(marks([c], "this node", colour("ink"), "star"));
    const none = axis("", { visible: false });
    return { data: traces, label: id("neighbourhood-caption").textContent,
      layout: layout({ showlegend: true, margin: { l: 8, r: 8, t: 40, b: 8 }, xaxis: { ...none, range: [-1.3, 1.3] }, yaxis: { ...none, range: [-1.3, 1.25], scaleanchor: "x" } }) };
  });

  const PARTS = { raw: "raw confidence", bias: "class bias", neighbours: "neighbours", floor: "minimum probability of each class", calibrator: "calibration" };
  function nodeCard() {
    const i = data.listed[state.listed], temperature = temperatureOf(i);
    id("node-title").textContent = `Node ${nodes.name[i]}`;
    const fact = (name, value, more) => make("div", {}, make("dt", {}, name), make("dd", {}, value, more ? make("small", {}, more) : null));
    const other = nodes.predicted[state.method]?.[i];
    id("node-facts").replaceChildren(
      fact("Predicted", className(nodes.prediction[i]), other !== undefined && other !== nodes.prediction[i] ? `after calibration: ${className(other)}` : nodes.label[i] < 0 ? "label unknown" : `label: ${className(nodes.label[i])}`),
      fact("Confidence", `${percent(nodes.confidence[i])} → ${percent(after(i))}`),
      ...(data.facts.structure === null ? [] : [fact("Support", percent(nodes.support[i], 0), "mean probability of this class among the neighbours")]),
      fact("Entropy", nodes.entropy[i].toFixed(2), "0: certain, 1: all classes equally likely"),
      ...(temperature === null ? [] : [fact("Temperature", temperature.toPrecision(3))]));
    const explanation = method().explanation, at = state.listed;
    const listing = (caption, heads, rows) => make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption }, make("table", {}, make("caption", {}, caption),
      make("thead", {}, make("tr", {}, ...heads.map((head) => make("th", { scope: "col" }, head)))),
      make("tbody", {}, ...rows.map(([name, value]) => make("tr", {}, make("th", { scope: "row" }, name), make("td", {}, value))))));
    const list = !explanation ? [] : [make("h3", {}, "Explanation of the confidence"),
      listing("Raw confidence, changes in percentage points, calibrated confidence", ["Step", "Value"], [
        ...explanation.parts.map((part, k) => [PARTS[part] ?? part, k ? signed(explanation.changes[at][k]) : percent(explanation.changes[at][k])]), ["calibrated confidence", percent(after(i))]])];
    id("explanation").replaceChildren(...list);
  }
  function choose(position, scroll) {
    state.listed = position;
    id("node-table").querySelectorAll("tr.chosen").forEach((row) => row.classList.remove("chosen"));
    id("node-table").querySelector(`tr[data-position="${position}"]`)?.classList.add("chosen");
    nodeCard();
    redraw("neighbourhood-chart");
    if (scroll) id("nodes").scrollIntoView({ behavior: "smooth" });
  }

  // -- the switch --------------------------------------------------------------------------
  function show() {
    const { verdict } = method();
    id("verdict-box").className = `verdict ${verdict.grade}`;
    id("verdict-label").textContent = verdict.label;
    id("verdict-text").textContent = verdict.text;
    document.querySelectorAll(".method-name").forEach((place) => { place.textContent = state.method; });
    document.querySelectorAll("#method-table tbody tr").forEach((row) => row.classList.toggle("chosen", row.dataset.method === state.method));
    reliabilityTable(); groupTable(); temperatureText(); decide(); nodeTable(); nodeCard();
    if (data.positive_name !== null) OneClass.show(state.method);
    redraw();
  }
  id("method").addEventListener("change", (event) => { state.method = event.target.value; show(); });
  id("grouping").addEventListener("change", (event) => { state.grouping = event.target.value; redraw("group-chart"); });
  refilter = Page.filterable(id("node-search"), id("node-table"), id("node-count"));
  id("method").value = state.method;
  show();
})();

/* The benchmark's page: averages, ranks and charts of what the filters leave. */
"use strict";

(() => {
  const { data, colour, plain, short, axis, layout, chart, redraw, make, sortable, sortTable, filterable } = Page;
  const id = (name) => document.getElementById(name);
  const LINES = ["after", "before", "third", "fourth", "link", "soft"];
  const SYMBOLS = ["circle", "diamond", "square", "triangle-up", "cross", "x"];

  // -- what is chosen ----------------------------------------------------------------------
  const chosenIn = (name) => [...id(name).querySelectorAll("input:checked")].map((box) => Number(box.value));
  const state = {};
  function readFilters() {
    Object.assign(state, {
      metric: Number(id("metric").value), protocol: Number(id("protocol").value), graph: Number(id("graph").value),
      backbones: chosenIn("backbones"), graphs: chosenIn("graphs"), methods: chosenIn("methods"),
    });
    const part = (chosen, all) => (chosen.length === all.length ? `all ${all.length}` : `${chosen.length} of ${all.length}`);
    id("graph-count").textContent = part(state.graphs, data.graphs);
    id("method-count").textContent = part(state.methods, data.methods);
  }
  const metric = () => data.metrics[state.metric];
  const shown = (value, of = metric()) => (value === null || value === undefined ? "–" : (of.scale * value).toFixed(of.decimals));

  const places = data.protocols.map(() => new Map());
  const place = (graph, backbone, method) => (graph * data.backbones.length + backbone) * data.methods.length + method;
  for (const cell of data.cells) cell.mean = cell.mean.map((text) => (text === null ? null : Number(text)));
  for (const cell of data.cells) for (const p of cell.protocols) places[p].set(place(cell.graph, cell.backbone, cell.method), cell);
  const cellAt = (graph, backbone, method) => places[state.protocol].get(place(graph, backbone, method)) ?? null;

  /* Every chosen graph with each chosen backbone that has any record. */
  function pairs() {
    return state.graphs.flatMap((graph) => state.backbones.map((backbone) => [graph, backbone]))
      .filter(([graph, backbone]) => data.methods.some((_, method) => cellAt(graph, backbone, method)));
  }

  // -- leaderboard -------------------------------------------------------------------------
  function standings() {
    const where = pairs();
    const lines = state.methods.map((method) => {
      const cells = where.map(([graph, backbone]) => cellAt(graph, backbone, method));
      const present = cells.filter(Boolean);
      return { method, cells, rank: null,
        means: data.metrics.map((_, k) => Ranking.average(present.map((cell) => cell.mean[k]))),
        floors: data.metrics.map((_, k) => Ranking.average(present.map((cell) => cell.floor[k]))),
        fit: Ranking.average(present.map((cell) => cell.fit)),
        n_pairs: present.filter((cell) => cell.mean[state.metric] !== null).length,
        n_records: present.reduce((sum, cell) => sum + cell.n, 0) };
    }).filter((line) => line.n_records > 0);
    const ranked = lines.filter((line) => data.methods[line.method] !== data.unranked && line.n_pairs === where.length);
    const sign = metric().better === "higher" ? -1 : 1;
    const rows = where.map((_, i) => ranked.map((line) => sign * line.cells[i].mean[state.metric]));
    const units = where.map(([graph]) => data.graphs[graph].unit);
    const test = Ranking.friedman(ranked.length && rows.length ? Ranking.unitMeans(rows, units) : [], data.nemenyi);
    ranked.forEach((line, j) => { line.rank = test.meanRanks[j] ?? null; });
    ranked.sort((a, b) => a.rank - b.rank);
    return { lines, ranked, test, where };
  }
  let found = null;

  /* Fill a table and keep the order that the reader chose. */
  function fill(table, rows) {
    table.tBodies[0].replaceChildren(...rows);
    const heads = [...table.querySelectorAll("thead th")];
    const column = heads.findIndex((head) => head.hasAttribute("aria-sort"));
    if (column >= 0) sortTable(table, column, heads[column].getAttribute("aria-sort") === "ascending");
  }
  const number = (value, text, more = {}) => make("td", { "data-value": value ?? "", ...more }, text);
  const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

  /* The chosen metric stands first; a new one starts with the best rank on top. */
  const columns = () => [state.metric, ...data.metrics.map((_, k) => k).filter((k) => k !== state.metric)];
  let headed = null;
  function boardHead() {
    if (headed === state.metric) return;
    headed = state.metric;
    const head = (text, more = {}) => make("th", { scope: "col", ...more }, make("button", { type: "button", class: "sort" }, text));
    id("board").tHead.rows[0].replaceChildren(head("Method"), head("Mean rank", { "aria-sort": "ascending" }),
      ...columns().map((k) => head(capital(data.metrics[k].heading), { class: k === state.metric ? "key" : null, "data-first": data.metrics[k].better === "higher" ? "descending" : null })),
      head("Fit CPU s"), head("Pairs"), head("Fits"));
    sortable(id("board"));
  }

  function board() {
    boardHead();
    const best = data.metrics.map((of, k) => {
      const values = found.lines.map((line) => line.means[k]).filter((value) => value !== null);
      return of.better === "higher" ? Math.max(...values) : Math.min(...values);
    });
    fill(id("board"), found.lines.map((line) => make("tr", {},
      make("th", { scope: "row" }, data.methods[line.method]),
      number(line.rank, line.rank === null ? "–" : line.rank.toFixed(2)),
      ...columns().map((k) => {
        const of = data.metrics[k], value = line.means[k], text = shown(value, of);
        const names = [value === best[k] ? "best" : "", k === state.metric ? "key" : ""].join(" ").trim();
        const cell = number(value, value === best[k] ? make("b", {}, text) : text, { class: names || null });
        if (of.floor) cell.append(make("br"), make("small", {}, `floor ${shown(line.floors[k], of)}`));
        return cell;
      }),
      number(line.fit, line.fit.toFixed(3)), number(line.n_pairs, line.n_pairs), number(line.n_records, line.n_records))));
    applySearch();
  }
  const applySearch = filterable(id("method-search"), id("board"), id("method-shown"));

  function sentences() {
    const { ranked, test, where } = found;
    const name = (line) => data.methods[line.method];
    const box = id("verdict-box");
    box.className = "verdict warn";
    if (!where.length || !ranked.length) {
      id("verdict-text").textContent = where.length
        ? "None of the chosen methods has results on all of these graphs and backbones, so no method has a rank."
        : "Nothing is left: choose at least one graph and one backbone with records.";
      id("rank-text").textContent = "";
      return;
    }
    const graphs = `${test.n} independent graph${test.n === 1 ? "" : "s"}`;
    const first = `By ${metric().title}, ${name(ranked[0])} has the best mean rank: ${ranked[0].rank.toFixed(2)} among ${ranked.length} methods on ${graphs}.`;
    if (test.difference === null) {
      id("verdict-text").textContent = ranked.length === 1 ? `Only ${name(ranked[0])} has results on all of these graphs and backbones, so there is nothing to compare.` : `${first} A significance test needs at least two graphs and three methods.`;
      id("rank-text").textContent = "A test of ranks needs at least two independent graphs and three methods with results on all of them.";
      return;
    }
    const close = ranked.slice(1).filter((line) => line.rank - ranked[0].rank <= test.difference).length;
    const differ = test.p < 0.05;
    if (differ && close === 0) box.className = "verdict good";
    id("verdict-text").textContent = !differ ? `${first} The differences between all methods may be due to chance (Friedman's test: p = ${pValue(test.p)}).`
      : close === 0 ? `${first} It is significantly better than every other method.`
        : `${first} ${close === 1 ? "One other method does" : `${close} other methods do`} not differ significantly from ${name(ranked[0])}.`;
    id("rank-text").textContent = `Friedman's test of equal ranks: p = ${pValue(test.p)}. Two methods differ at the 5% level if their mean ranks are more than ${test.difference.toFixed(2)} apart (${ranked.length} methods, ${graphs}).`;
  }
  const pValue = (p) => (p >= 0.001 ? p.toFixed(3) : p.toExponential(1));

  // -- ranks -------------------------------------------------------------------------------
  chart("rank-chart", () => {
    const { ranked, test } = found;
    const ranks = ranked.map((line) => line.rank), n = ranks.length;
    const names = ranked.map((line) => `${plain(short(data.methods[line.method], 22))} `);
    const groups = test.difference === null ? [] : Ranking.cliques(ranks, test.difference);
    const [low, high] = n ? [Math.min(...ranks), Math.max(...ranks)] : [0, 1];
    const step = Math.max(high - low, 1) / 28;
    const traces = [{ type: "scatter", mode: "markers", x: ranks, y: ranks.map((_, i) => i), marker: { color: colour("after"), size: 9 },
      text: ranked.map((line) => `${plain(data.methods[line.method])}: ${line.rank.toFixed(2)}`), hovertemplate: "%{text}<extra></extra>" }];
    groups.forEach(([from, to], i) => traces.push({ type: "scatter", mode: "lines", x: Array(2).fill(high + step * (2 + i)), y: [from - 0.3, to + 0.3],
      line: { color: colour("before"), width: 4 }, hoverinfo: "text", text: `not significantly different: ${plain(data.methods[ranked[from].method])} to ${plain(data.methods[ranked[to].method])}` }));
    const ruler = test.difference === null ? [] : [{ x: low, y: -1.2, text: `critical difference ${test.difference.toFixed(2)}`, xanchor: "left", yanchor: "bottom", showarrow: false, yshift: 4 }];
    if (ruler.length) traces.push({ type: "scatter", mode: "lines+markers", x: [low, low + test.difference], y: [-1.2, -1.2], hoverinfo: "skip",
      line: { color: colour("ink"), width: 2 }, marker: { symbol: "line-ns", size: 9, line: { width: 2, color: colour("ink") }, color: colour("ink") } });
    const right = Math.max(high + step * (groups.length + 2), low + (test.difference ?? 0) + step);
    return { data: traces, label: n ? `Mean ranks of ${n} methods, best first: ${ranked.slice(0, 5).map((line) => `${data.methods[line.method]} ${line.rank.toFixed(2)}`).join(", ")}. Critical difference ${test.difference === null ? "unknown" : test.difference.toFixed(2)}.` : "No method has a rank.",
      layout: layout({ margin: { l: 20, r: 14, t: 14, b: 44 }, annotations: ruler, xaxis: axis("mean rank (1 is best)", { range: [low - 2 * step, right], zeroline: false }),
        yaxis: axis("", { tickvals: names.map((_, i) => i), ticktext: names, range: [n - 0.4, -2.6], showgrid: true, zeroline: false }) }) };
  });

  // -- the paper ---------------------------------------------------------------------------
  function besidePaper() {
    return state.methods.flatMap((method) => pairs().map(([graph, backbone]) => cellAt(graph, backbone, method)))
      .filter((cell) => cell && cell.paper[state.metric] && cell.mean[state.metric] !== null)
      .map((cell) => {
        const k = state.metric, [theirs, spread] = cell.paper[k];
        return { cell, ours: cell.mean[k], own: cell.spread[k], theirs, spread, difference: cell.mean[k] - theirs,
          distance: spread > 0 ? Math.abs(cell.mean[k] - theirs) / spread : null };
      });
  }
  const median = (values) => {
    const sorted = [...values].sort((a, b) => a - b), half = sorted.length >> 1;
    return sorted.length % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
  };
  const signed = (value) => `${value < 0 ? "−" : "+"}${shown(Math.abs(value))}`;
  const nameOf = (cell) => [data.graphs[cell.graph].name, data.backbones[cell.backbone], data.methods[cell.method]];

  function paperTables() {
    const rows = besidePaper(), judged = rows.filter((row) => row.distance !== null);
    id("paper-none").hidden = rows.length > 0;
    id("paper-some").hidden = rows.length === 0;
    if (!rows.length) return;
    const within = (some, k) => some.filter((row) => row.distance <= k).length;
    const counted = judged.filter((row) => data.methods[row.cell.method] !== "hots-release"); // the same published values as hots
    id("paper-text").textContent = `Of ${counted.length} published values for this choice, ${within(counted, 1)} differ from ours by at most one published standard deviation, and ${within(counted, 2)} by at most two.`;
    const methods = [...new Set(judged.map((row) => row.cell.method))];
    fill(id("agreement"), methods.map((method) => {
      const own = judged.filter((row) => row.cell.method === method), middle = median(own.map((row) => row.distance));
      return make("tr", {}, make("th", { scope: "row" }, data.methods[method]), ...[1, 2, 3].map((k) => number(within(own, k), within(own, k))),
        number(own.length, own.length), number(middle, middle.toFixed(2)));
    }));
    fill(id("paper-table"), rows.map((row) => {
      const [graph, backbone, method] = nameOf(row.cell);
      return make("tr", {}, make("th", { scope: "row" }, graph), make("td", { class: "text" }, backbone), make("td", { class: "text" }, method),
        number(row.ours, `${shown(row.ours)} ± ${shown(row.own)}`), number(row.theirs, `${shown(row.theirs)} ± ${shown(row.spread)}`),
        number(row.difference, signed(row.difference)), number(row.distance, row.distance === null ? "–" : row.distance.toFixed(2)));
    }));
    searchPaper();
  }
  const searchPaper = filterable(id("paper-search"), id("paper-table"), id("paper-shown"));

  chart("paper-chart", () => {
    const rows = besidePaper(), { scale, heading } = metric();
    const all = rows.flatMap((row) => [row.ours, row.theirs]).map((value) => scale * value).filter((value) => value > 0);
    const ends = all.length ? [Math.min(...all) / 1.2, Math.max(...all) * 1.2] : [0.1, 1];
    const ticks = [0.01, 0.1, 1, 10].flatMap((unit) => [unit, 2 * unit, 5 * unit]).concat(100);
    const scaled = { range: ends.map(Math.log10), type: "log", tickvals: ticks, ticktext: ticks.map((tick) => String(Number(tick.toPrecision(1)))) };
    const traces = state.backbones.map((backbone, i) => {
      const own = rows.filter((row) => row.cell.backbone === backbone);
      return { type: "scatter", mode: "markers", name: plain(data.backbones[backbone]), x: own.map((row) => scale * row.theirs), y: own.map((row) => scale * row.ours),
        marker: { color: colour(LINES[i % 6]), symbol: SYMBOLS[i % 6], size: 7, opacity: 0.75 },
        text: own.map((row) => `${nameOf(row.cell).map((name) => plain(short(name))).join(", ")}<br>ours ${shown(row.ours)} ± ${shown(row.own)}, published ${shown(row.theirs)} ± ${shown(row.spread)}`), hovertemplate: "%{text}<extra></extra>" };
    }).filter((trace) => trace.x.length);
    return { data: [{ type: "scatter", mode: "lines", x: ends, y: ends, line: { color: colour("soft"), dash: "dash", width: 1.2 }, hoverinfo: "skip", showlegend: false }, ...traces],
      label: `Published ${heading} against ours: ${rows.length} points. ${id("paper-text").textContent}`,
      layout: layout({ showlegend: true, xaxis: axis(`published: ${heading}`, scaled), yaxis: axis(`ours: ${heading}`, scaled) }) };
  });

  // -- seeds -------------------------------------------------------------------------------
  function seedCells() {
    const by = state.methods.map((method) => state.backbones.map((backbone) => cellAt(state.graph, backbone, method)).filter(Boolean)).filter((cells) => cells.length);
    const sign = metric().better === "higher" ? -1 : 1;
    const middle = (cells) => sign * (Ranking.average(cells.map((cell) => cell.mean[state.metric])) ?? Infinity);
    return by.sort((a, b) => middle(a) - middle(b));
  }
  chart("seed-chart", () => {
    const groups = seedCells(), { scale, heading, floor } = metric(), k = state.metric;
    const names = groups.map((cells) => `${plain(short(data.methods[cells[0].method], 22))} `);
    const traces = state.backbones.map((backbone, i) => {
      const points = groups.flatMap((cells, row) => cells.filter((cell) => cell.backbone === backbone)
        .flatMap((cell) => cell.values[k].filter((value) => value !== null).map((value) => [scale * value, row])));
      return { type: "box", orientation: "h", name: plain(data.backbones[backbone]), x: points.map(([x]) => x), y: points.map(([, row]) => row),
        boxpoints: "all", jitter: 0.4, pointpos: 0, offsetgroup: String(backbone), marker: { color: colour(LINES[i % 6]), size: 4, symbol: SYMBOLS[i % 6] },
        line: { width: 1 }, fillcolor: "rgba(0,0,0,0)", hovertemplate: "%{x}<extra></extra>" };
    }).filter((trace) => trace.x.length);
    if (floor) traces.push({ type: "scatter", mode: "markers", name: "floor", x: groups.map((cells) => scale * Ranking.average(cells.map((cell) => cell.floor[k]))), y: groups.map((_, row) => row),
      marker: { symbol: "line-ns", size: 12, line: { width: 2, color: colour("soft") }, color: colour("soft") }, hovertemplate: "floor %{x:.2f}<extra></extra>" });
    const graph = data.graphs[state.graph].name;
    return { data: traces, label: `${heading} of every seed on ${graph}. Lowest mean first: ${groups.slice(0, 3).map((cells) => data.methods[cells[0].method]).join(", ") || "none"}.`,
      layout: layout({ showlegend: true, boxmode: "group", margin: { l: 20, r: 14, t: 40, b: 48 }, xaxis: axis(`${heading} on ${plain(short(graph))}`, { rangemode: "tozero" }),
        yaxis: axis("", { tickvals: names.map((_, i) => i), ticktext: names, range: [groups.length - 0.4, -0.6], zeroline: false }) }) };
  });
  function seedTable() {
    const k = state.metric;
    fill(id("seed-table"), seedCells().flat().map((cell) => {
      const values = cell.values[k].filter((value) => value !== null), [low, high] = [Math.min(...values), Math.max(...values)];
      return make("tr", {}, make("th", { scope: "row" }, data.methods[cell.method]), make("td", { class: "text" }, data.backbones[cell.backbone]), number(cell.n, cell.n),
        number(cell.mean[k], shown(cell.mean[k])), number(cell.spread[k], shown(cell.spread[k])), number(low, shown(low)), number(high, shown(high)),
        number(cell.floor[k], shown(cell.floor[k])));
    }));
  }

  // -- together ----------------------------------------------------------------------------
  function update() {
    readFilters();
    found = standings();
    board();
    sentences();
    paperTables();
    seedTable();
    id("rank-chart").style.height = `${Math.max(14, 6 + 1.5 * found.ranked.length)}rem`;
    id("seed-chart").style.height = `${Math.max(16, 8 + seedCells().length * (1.3 + 0.5 * state.backbones.length))}rem`;
    redraw();
  }
  document.addEventListener("change", (event) => { if (event.target.closest("#metric, #protocol, #graph, .checks")) update(); });
  document.querySelectorAll("[data-pick]").forEach((button) => button.addEventListener("click", () => {
    const { pick } = button.dataset, members = new Set(pick.split(" "));
    button.closest(".checks").querySelectorAll("input").forEach((box) => { box.checked = pick === "all" || members.has(box.value); });
    update();
  }));
  update();
})();

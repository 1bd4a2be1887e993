/* What every page shares: its data, its colours, charts that are drawn when they come into view,
   and tables that sort and filter. Text from the data only ever becomes text. */
"use strict";

const Page = (() => {
  const root = document.documentElement;
  const data = JSON.parse(document.getElementById("data").textContent);
  const charts = new Map(); // element -> function that returns {data, layout}, or null if there is nothing to draw
  const drawn = new Set();

  // -- theme -------------------------------------------------------------------------------
  const prefersDark = window.matchMedia("(prefers-color-scheme: dark)");
  let chosen = null;
  function applyTheme() {
    const theme = chosen ?? (prefersDark.matches ? "dark" : "light");
    root.dataset.theme = theme;
    const button = document.getElementById("theme");
    if (button) button.textContent = theme === "dark" ? "Light mode" : "Dark mode";
  }
  applyTheme();
  prefersDark.addEventListener("change", () => { applyTheme(); redraw(); });

  function colour(name) {
    return getComputedStyle(root).getPropertyValue(`--${name}`).trim();
  }

  // -- charts ------------------------------------------------------------------------------
  /* Plotly reads a little markup in labels. Escaped, the text is shown as it is. */
  function plain(text) {
    return String(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
  }

  /* Long names are cut for labels; tables and tooltips have the rest. */
  function short(text, length = 28) {
    const letters = Array.from(String(text));
    return letters.length <= length ? letters.join("") : letters.slice(0, length - 1).join("") + "…";
  }

  function axis(title, more = {}) {
    return {
      title: { text: title, font: { size: 13 }, standoff: 8 }, gridcolor: colour("grid"), linecolor: colour("line"),
      zerolinecolor: colour("line"), tickfont: { size: 12 }, fixedrange: true, automargin: true, ...more,
    };
  }

  function layout(more = {}) {
    return {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: getComputedStyle(document.body).fontFamily, color: colour("ink"), size: 13 },
      margin: { l: 56, r: 14, t: 28, b: 48 }, showlegend: false, hovermode: "closest", dragmode: false,
      legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom" },
      hoverlabel: { bgcolor: colour("panel"), bordercolor: colour("line"), font: { color: colour("ink") }, align: "left" },
      ...more,
    };
  }

  async function draw(element) {
    await plotly;
    const made = charts.get(element)();
    drawn.add(element);
    if (made) {
      element.setAttribute("aria-label", made.label ?? element.getAttribute("aria-label") ?? "");
      await Plotly.react(element, made.data, made.layout, { displayModeBar: false, responsive: true });
    }
    element.dataset.drawn = "yes";
  }

  const watcher = new IntersectionObserver(
    (entries) => entries.filter((e) => e.isIntersecting).forEach((e) => {
      watcher.unobserve(e.target);
      draw(e.target);
    }),
    { rootMargin: "300px" },
  );

  function chart(id, build) {
    const element = document.getElementById(id);
    if (!element) return;
    element.setAttribute("role", "img");
    charts.set(element, build);
    watcher.observe(element);
  }

  /* Draw again the charts with these ids, or all, if they were visible before. */
  function redraw(...ids) {
    drawn.forEach((element) => { if (!ids.length || ids.includes(element.id)) draw(element); });
  }
  /* Paper is white, also when the screen is dark. */
  window.addEventListener("beforeprint", () => { root.dataset.theme = "light"; charts.forEach((_, element) => draw(element)); });
  window.addEventListener("afterprint", () => { applyTheme(); redraw(); });

  /* Plotly travels compressed: a third of its size. */
  const plotly = (async () => {
    const packed = document.getElementById("plotly").textContent;
    const letters = atob(packed), bytes = new Uint8Array(letters.length);
    for (let i = 0; i < letters.length; i += 1) bytes[i] = letters.charCodeAt(i);
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    const script = document.createElement("script");
    script.textContent = await new Response(stream).text();
    document.head.append(script);
  })();

  // -- elements ----------------------------------------------------------------------------
  function make(tag, attributes = {}, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else if (value !== null && value !== undefined) element.setAttribute(name, value);
    }
    element.append(...children.filter((child) => child !== null && child !== undefined).map((child) =>
      child instanceof Node ? child : String(child)));
    return element;
  }

  // -- tables ------------------------------------------------------------------------------
  /* Sort by the data-value of cells where there is one, else by their text. Empty cells go last. */
  function sortTable(table, column, ascending) {
    const body = table.tBodies[0];
    const key = (row) => {
      const cell = row.cells[column];
      const value = cell.dataset.value ?? cell.textContent.trim();
      const number = Number(value);
      return value === "" ? null : Number.isNaN(number) ? value : number;
    };
    const order = (a, b) => {
      const [x, y] = [key(a), key(b)];
      if (x === null || y === null) return (x === null) - (y === null);
      const compared = typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y));
      return ascending ? compared : -compared;
    };
    body.append(...Array.from(body.rows).sort(order));
    table.querySelectorAll("thead th").forEach((head, i) => {
      if (i === column) head.setAttribute("aria-sort", ascending ? "ascending" : "descending");
      else head.removeAttribute("aria-sort");
    });
  }

  function sortable(table) {
    table.querySelectorAll("thead th").forEach((head, column) => {
      const button = head.querySelector("button.sort");
      if (!button) return;
      button.addEventListener("click", () => {
        const now = head.getAttribute("aria-sort");
        const first = head.dataset.first === "descending" ? false : true;
        sortTable(table, column, now === null ? first : now === "descending");
      });
    });
  }

  function filterable(input, table, counter) {
    const apply = () => {
      const wanted = input.value.trim().toLowerCase();
      let shown = 0;
      for (const row of table.tBodies[0].rows) {
        row.hidden = wanted !== "" && !row.textContent.toLowerCase().includes(wanted);
        shown += !row.hidden;
      }
      if (counter) counter.textContent = `${shown.toLocaleString("en")} shown`;
    };
    input.addEventListener("input", apply);
    apply();
    return apply;
  }

  document.addEventListener("DOMContentLoaded", () => {
    document.querySelectorAll("table.sortable").forEach(sortable);
    const button = document.getElementById("theme");
    if (button) button.addEventListener("click", () => {
      chosen = root.dataset.theme === "dark" ? "light" : "dark";
      applyTheme();
      redraw();
    });
    applyTheme();
  });

  return { data, colour, plain, short, axis, layout, chart, redraw, make, sortable, sortTable, filterable };
})();

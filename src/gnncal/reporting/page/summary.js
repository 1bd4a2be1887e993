/* The report on a run at scale: bins and blocks, no single nodes. */
"use strict";

(() => {
  const { data, chart } = Page;
  const sides = { before: data.before, after: data.after };
  for (const [side, found] of Object.entries(sides)) {
    const title = side === "before" ? "the raw model" : data.method;
    chart(`${side}-chart`, () => Charts.reliability(found.reliability, { value: found.ece, floor: found.ece_floor }, side, title));
  }
  Charts.fillBins(document.getElementById("reliability-table"), data.after.reliability);
  chart("degree-chart", () => {
    const order = data.after.degree_blocks.labels.map((_, i) => i).reverse();
    return Charts.gaps([{ group: data.before.degree_blocks, order, side: "before", name: "before" },
      { group: data.after.degree_blocks, order, side: "after", name: data.method }], "in-degree");
  });
})();

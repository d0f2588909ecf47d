// The timeline: context tokens of each request against window and trigger, passes, and below it what each cost.

const chart = byId("chart");
const tip = byId("tip");
const TALL = 118; // of the upper part, in pixels
const LOW = 26; // of the cost strip
const GAP = 12;
const LEFT = 46;
const RIGHT = 12;
let columns = []; // of the drawing: { from, to } request numbers and the place across

/** Draws everything again, for the width there is. */
function drawChart() {
  const width = Math.max(240, chart.clientWidth);
  const inner = width - LEFT - RIGHT;
  const top = Math.max(1, ...index.limits.map((limits) => limits.window ?? 0), ...requests.map(sizeShown));
  const dearest = Math.max(1e-9, ...requests.map((request) => request.cost ?? 0));
  const y = (tokens) => TALL - (TALL - 14) * (tokens / (top * 1.04));
  columns = makeColumns(inner);
  const height = TALL + GAP + LOW + 4;
  const svg = s("svg", { height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": chartWords() });
  svg.append(s("rect", { class: "now", width: 0, height: TALL + GAP + LOW, y: 0 }));
  for (const [name, bar] of BARS) svg.append(s("path", { class: name, d: columns.map((column) => bar(column, y, dearest)).join("") }));
  drawPasses(svg);
  drawLimits(svg, width, y);
  svg.append(s("line", { class: "axis", x1: LEFT, x2: width - RIGHT, y1: TALL + 0.5, y2: TALL + 0.5 }));
  svg.append(s("text", { class: "tick", x: LEFT - 6, y: TALL + GAP + LOW - 2, "text-anchor": "end" }, "cost"));
  chart.replaceChildren(svg);
  markNow(state.request);
}

// The prompt of a request that failed is not drawn to scale with the others: it was not billed.
const sizeShown = (request) => (request.error || request.summary ? 0 : request.size ?? 0);

/** A column for each request, or for several where there are more requests than pixels. */
function makeColumns(inner) {
  const count = Math.min(requests.length, Math.max(1, Math.floor(inner / 2)));
  const step = inner / Math.max(count, 24);
  return Array.from({ length: count }, (_, n) => {
    const from = Math.floor((n * requests.length) / count) + 1;
    const to = Math.floor(((n + 1) * requests.length) / count);
    const held = requests.slice(from - 1, to);
    const biggest = held.reduce((a, b) => (sizeShown(b) > sizeShown(a) ? b : a));
    const steps = held.filter((request) => !request.summary);
    return {
      from, to, biggest,
      x: LEFT + n * step, w: Math.max(1, step - (step > 5 ? 1.5 : step > 3 ? 0.75 : 0)),
      cost: Math.max(0, ...steps.map((request) => request.cost ?? 0)),
      summaryCost: Math.max(0, ...held.filter((r) => r.summary).map((request) => request.cost ?? 0)),
      failed: held.some((request) => request.error),
    };
  });
}

const box = (x, y, w, height) => (height > 0 ? `M${x.toFixed(1)} ${y.toFixed(1)}h${w.toFixed(1)}v${height.toFixed(1)}h-${w.toFixed(1)}z` : "");
const floor = TALL + GAP + LOW;
const BARS = [
  ["bar cached", (c, y) => box(c.x, y(c.biggest.cached ?? 0), c.w, sizeShown(c.biggest) ? TALL - y(c.biggest.cached ?? 0) : 0)],
  ["bar fresh", (c, y) => box(c.x, y(sizeShown(c.biggest)), c.w, y(Math.min(c.biggest.cached ?? 0, sizeShown(c.biggest))) - y(sizeShown(c.biggest)))],
  ["bar failed", (c) => (c.failed ? box(c.x, TALL - 5, c.w, 5) : "")],
  ["bar cost", (c, y, dearest) => box(c.x, floor - LOW * (c.cost / dearest), c.w, LOW * (c.cost / dearest))],
  ["bar cost-summary", (c, y, dearest) => box(c.x, floor - LOW * (c.summaryCost / dearest), c.w, LOW * (c.summaryCost / dearest))],
];

/** Window and trigger as lines; they step where the run learned of another window. */
function drawLimits(svg, width, y) {
  index.limits.forEach((limits, n) => {
    const next = index.limits[n + 1];
    const x1 = n ? placeOf(limits.from) : LEFT;
    const x2 = next ? placeOf(next.from) : width - RIGHT;
    for (const [name, tokens] of [["window", limits.window], ["trigger", limits.trigger]]) {
      if (!tokens) continue;
      const at = Math.round(y(tokens)) + 0.5;
      svg.append(s("line", { class: `limit ${name}`, x1, x2, y1: at, y2: at }));
      if (next) continue;
      svg.append(s("text", { class: "tick", x: LEFT - 6, y: at + 3.5, "text-anchor": "end" }, brief(tokens)));
      svg.append(s("text", { class: `limit-name ${name}`, x: width - RIGHT, y: at - 4, "text-anchor": "end" }, name));
    }
  });
}

function drawPasses(svg) {
  for (const pass of passes) {
    const x = Math.round(placeOf(pass.before_request)) - 0.5;
    svg.append(s("line", { class: passes.length > 20 ? "pass-line many" : "pass-line", x1: x, x2: x, y1: 8, y2: TALL }));
    svg.append(s("path", { class: "pass-mark", d: `M${x - 4} 4h8l-4 6z` }));
  }
}

/** Where the column of a request begins; the end of the last for a request that was never sent. */
function placeOf(number) {
  const column = columns.find((one) => one.to >= number) ?? columns.at(-1);
  return column ? column.x + (number > column.to ? column.w : 0) : LEFT;
}

function chartWords() {
  return `Context tokens of ${plural(requests.length, "request")}, ${plural(passes.length, "compaction")}; cost of each below.`;
}

/** Marks the request that is looked at. */
function markNow(number) {
  const mark = chart.querySelector(".now");
  const column = columns.find((one) => number >= one.from && number <= one.to);
  if (!mark) return;
  mark.setAttribute("x", column ? column.x - 2 : 0);
  mark.setAttribute("width", column ? column.w + 4 : 0);
}

function columnAt(event) {
  const x = event.clientX - chart.getBoundingClientRect().left;
  return columns.find((column, n) => x < (columns[n + 1]?.x ?? column.x + column.w + 4)) ?? columns.at(-1);
}

function showTip(event) {
  const column = columnAt(event);
  if (!column) return;
  const request = column.biggest;
  const number = requests.indexOf(request) + 1;
  const many = column.to > column.from ? `largest of requests ${column.from} to ${column.to}: ` : "";
  const pass = passes.find((one) => one.before_request >= column.from && one.before_request <= column.to);
  tip.replaceChildren(
    h("strong", {}, `${many}request ${number}${request.summary ? ", for a summary" : `, step ${request.step}`}`),
    h("div", {}, requestFacts(request, number)),
    request.error ? h("div.error", {}, request.error.slice(0, 200)) : "",
    pass ? h("div.pass-words", {}, `compacted before it: ${whole(pass.before)} → ${whole(pass.after)} tokens`) : "");
  tip.hidden = false;
  const left = Math.min(event.clientX + 12, innerWidth - tip.offsetWidth - 8);
  tip.style.transform = `translate(${Math.max(8, left)}px, ${chart.getBoundingClientRect().bottom + 4}px)`;
}

chart.addEventListener("pointermove", showTip);
chart.addEventListener("pointerleave", () => (tip.hidden = true));
chart.addEventListener("click", (event) => {
  const column = columnAt(event);
  if (column) goToRequest(requests.indexOf(column.biggest) + 1);
});
new ResizeObserver(() => drawChart()).observe(chart);

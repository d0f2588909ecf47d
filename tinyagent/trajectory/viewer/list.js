// The list of steps. Rows have one height, so only those in sight are made.

const list = byId("list");
const ROW = 28;
const listed = rows.map((_, number) => number); // sections that are listed; a search makes it shorter
let firstRow = -1;

const spacer = h("div.spacer");
list.append(spacer);

function drawList({ again = false } = {}) {
  spacer.style.height = `${listed.length * ROW}px`;
  const first = Math.max(0, Math.floor(list.scrollTop / ROW) - 8);
  if (first === firstRow && !again) return;
  firstRow = first;
  const last = Math.min(listed.length, first + Math.ceil(list.clientHeight / ROW) + 24);
  const made = [];
  for (let at = first; at < last; at++) made.push(listRow(listed[at], at));
  spacer.replaceChildren(...made);
}

function listRow(number, at) {
  const row = rows[number];
  const request = row.request ? requests[row.request - 1] : null;
  const { window } = limitsAt(row.request ?? 1);
  const share = request?.size && window ? Math.min(1, request.size / window) : 0;
  const meter = h("span.meter");
  meter.style.setProperty("--share", share);
  const element = h("button.row", {
    className: `row ${row.kind}${row.error ? " has-error" : ""}`, tabIndex: -1, title: seen(row.label),
    onclick: () => showSection(number),
    "aria-current": number === state.section ? "true" : null,
  }, h("span.row-no", {}, row.step ?? ""),
  h("span.row-label", {}, row.tool ? h("b", {}, `${row.tool} `) : null, listLabel(row)), share ? meter : null);
  element.style.top = `${at * ROW}px`;
  return element;
}

function listLabel(row) {
  if (row.kind === "pass" && row.pass !== undefined) return `▼ ${brief(passes[row.pass].before)} → ${brief(passes[row.pass].after)} tokens`;
  if (row.kind === "start") return "Start";
  if (row.kind === "end") return `End: ${row.label}`;
  return row.label || "…";
}

/** Shows which section is looked at, and keeps its row in sight. */
function markRow(number) {
  const at = listed.indexOf(number);
  if (at >= 0) {
    const y = at * ROW;
    if (y < list.scrollTop + ROW) list.scrollTop = y - 2 * ROW;
    else if (y > list.scrollTop + list.clientHeight - 2 * ROW) list.scrollTop = y - list.clientHeight + 3 * ROW;
  }
  drawList({ again: true });
}

list.addEventListener("scroll", () => drawList(), { passive: true });
new ResizeObserver(() => drawList({ again: true })).observe(list);

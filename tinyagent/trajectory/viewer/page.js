// What is looked at, the ways to change that, and the frame around it.

const state = { mode: "log", section: 0, request: requests.length ? 1 : 0 };

/** Looks at a section in the full log. */
function showSection(number, target = null) {
  if (state.mode !== "log") {
    setMode("log");
    openLog();
  }
  const block = byId(`s${number}`);
  if (narrow.matches) toggleSteps(false);
  look(number, requestOf(number));
  blocks.fill(block);
  bringUp(() => target?.(block) ?? block);
}

/** Scrolls what `find` gives to the top, again as the blocks around it are filled and get their true heights. */
function bringUp(find) {
  const mine = (jump = {});
  let frames = 5;
  const scroll = () => {
    if (jump !== mine) return;
    const place = find();
    if (place instanceof Range) scroller().scrollBy(0, place.getBoundingClientRect().top - 0.45 * innerHeight);
    else place.scrollIntoView({ block: "start" });
    if (--frames) requestAnimationFrame(scroll);
    else jump = null;
  };
  scroll();
}
let jump = null; // the one in progress
const scroller = () => (narrow.matches ? document.scrollingElement : pane);

/** Looks at a request as it was sent. */
function showRequest(number) {
  if (!requests.length) return;
  const wanted = Math.min(Math.max(1, number), requests.length);
  const shown = state.mode === "sent" && state.request === wanted;
  setMode("sent");
  look(requests[wanted - 1].section, wanted);
  if (!shown) openRequest(wanted);
  scroller().scrollTo(0, narrow.matches ? pane.offsetTop - 120 : 0);
  mark();
}

/** The request that goes with a section: its own, the first after a pass, or the last before anything else. */
function requestOf(number) {
  const row = rows[number];
  if (row.request) return row.request;
  if (row.pass !== undefined) return Math.min(passes[row.pass].before_request, requests.length);
  return Math.min(requests.length, Math.max(1, requests.findLastIndex((request) => request.section <= number) + 1));
}

const goToRequest = (number) => (state.mode === "sent" ? showRequest(number) : showSection(requests[number - 1].section));
const showMessage = (id) => showSection(sectionOf(id));

function look(number, request) {
  state.section = number;
  state.request = request;
  markRow(number);
  markNow(request);
  byId("request").value = request;
  byId("earlier").disabled = request <= 1;
  byId("later").disabled = request >= requests.length;
  if (document.readyState !== "loading") namePlace();
}

/** Puts what is looked at into the address, so that it can be passed on. */
function namePlace() {
  try {
    history.replaceState(null, "", state.mode === "sent" ? `#request-${state.request}` : `#section-${state.section}`);
  } catch {
    // some hosts of files do not let a page name its place; nothing else depends on it
  }
}

/** Which of the two is shown; what it shows is up to the caller. */
function setMode(mode) {
  state.mode = mode;
  for (const name of ["log", "sent"]) byId(`mode-${name}`).setAttribute("aria-pressed", String(name === mode));
  byId("which").hidden = mode !== "sent";
}

/** The reader was scrolled to another block. */
function onTopBlock(block) {
  if (state.mode !== "log" || jump) return;
  const number = Number(block.dataset.section);
  if (number !== state.section) look(number, requestOf(number));
  if (search.words) mark();
}

function move(step) {
  if (state.mode === "sent") return showRequest(state.request + step);
  const at = listed.indexOf(state.section);
  const next = listed[Math.min(Math.max(0, at + step), listed.length - 1)];
  if (next !== undefined) showSection(next);
}

function nextPass() {
  const number = rows.findIndex((row, n) => row.kind === "pass" && n > state.section);
  const first = rows.findIndex((row) => row.kind === "pass");
  if (number >= 0 || first >= 0) showSection(number >= 0 ? number : first);
}

function switchMode() {
  if (state.mode === "sent") showSection(state.section);
  else showRequest(state.request);
}

function toggleTheme() {
  const dark = document.documentElement.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  document.documentElement.dataset.theme = dark === "dark" ? "light" : "dark";
}

function toggleSteps(open = !document.body.classList.contains("steps-open")) {
  document.body.classList.toggle("steps-open", open);
  byId("steps").setAttribute("aria-expanded", String(open));
  markRow(state.section);
}

const KEYS = {
  j: () => move(1), ArrowRight: () => move(1), k: () => move(-1), ArrowLeft: () => move(-1),
  g: () => (state.mode === "sent" ? showRequest(1) : showSection(0)),
  G: () => (state.mode === "sent" ? showRequest(requests.length) : showSection(rows.length - 1)),
  c: nextPass, v: switchMode, t: toggleTheme, n: () => nextHit(1), N: () => nextHit(-1),
  o: () => unfoldAll(state.mode === "log" ? byId(`s${state.section}`) : pane),
  "/": () => query.focus(), "?": () => byId("keys").showModal(), Escape: clearSearch,
};

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, dialog[open]")) return;
  if (!Object.hasOwn(KEYS, event.key)) return;
  event.preventDefault();
  KEYS[event.key]();
});

function drawHead() {
  byId("runid").textContent = `tinyagent · ${seen(run.id)}${run.parent ? ` · sub-agent of ${seen(run.parent)}` : ""}`;
  byId("title").textContent = seen(run.task.split("\n").find((line) => line.trim()) ?? "A run without a task");
  const end = h("span.status", { data: { status: run.status ?? "none" } }, run.words ?? "no end on record");
  const rest = [run.model, run.cwd, new Date(run.started).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" })];
  byId("facts").append(end, ...rest.filter(Boolean).map((text) => h("span", {}, text)), run.error ? h("span.error", {}, run.error) : "");
  const peak = Math.max(0, ...requests.map((request, n) => sizeShown(request) / (limitsAt(n + 1).window ?? Infinity)));
  const figures = [
    ["steps", whole(run.steps)], ["requests", whole(run.api_calls)], ["compactions", whole(passes.length)],
    ["largest context", run.window ? `${percent(peak)} of ${brief(run.window)}` : "window unknown"],
    ["tokens in", `${brief(run.input_tokens)}`], ["cached", run.input_tokens ? percent(run.cache_read_tokens / run.input_tokens) : "–"],
    ["tokens out", brief(run.output_tokens)], ["cost", dollars(run.cost_usd)], ["time", lasting(run.seconds)],
  ];
  byId("figures").append(...figures.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
  byId("of").textContent = `of ${whole(requests.length)}`;
  byId("request").max = requests.length;
}

byId("mode-log").addEventListener("click", () => showSection(state.section));
byId("mode-sent").addEventListener("click", () => showRequest(state.request));
byId("earlier").addEventListener("click", () => showRequest(state.request - 1));
byId("later").addEventListener("click", () => showRequest(state.request + 1));
byId("request").addEventListener("change", (event) => showRequest(Number(event.target.value) || 1));
byId("theme").addEventListener("click", toggleTheme);
byId("help").addEventListener("click", () => byId("keys").showModal());
byId("steps").addEventListener("click", () => toggleSteps());
narrow.addEventListener("change", () => (state.mode === "log" ? showSection(state.section) : openRequest(state.request)));

/** The place that the address names, if there is one. */
function openPlace() {
  const [, kind, number] = /^#(section|request)-(\d+)$/.exec(location.hash) ?? [];
  if (kind === "request") showRequest(Number(number));
  else if (kind === "section" && rows[Number(number)]) showSection(Number(number));
}

drawHead();
drawChart();
openLog();
drawList();
if (document.readyState === "loading") {
  // The texts follow in the same file: what is in sight is filled as soon as it has come.
  const coming = setInterval(() => blocks.retry(), 60);
  document.addEventListener("DOMContentLoaded", () => {
    clearInterval(coming);
    blocks.retry();
    openPlace();
  });
}

// The reader: the full log by sections, or one request as the model saw it.

const pane = byId("pane");
const narrow = matchMedia("(max-width: 820px)");
let blocks = newBlocks();

function newBlocks() {
  return lazyBlocks(narrow.matches ? null : pane, (block) => onTopBlock(block));
}

/** All sections, empty until they come near. */
function openLog() {
  clearPane();
  pane.classList.remove("sent");
  const parts = rows.map((row, number) => {
    const block = h(`section.block.${row.kind}`, { id: `s${number}`, data: { section: number } });
    blocks.add(block, () => {
      const items = section(number);
      return items && [sectionHead(row, number), ...cards(items)];
    });
    return block;
  });
  pane.replaceChildren(...parts);
}

function clearPane() {
  blocks.clear();
  blocks = newBlocks();
}

function sectionHead(row, number) {
  const request = row.request ? requests[row.request - 1] : null;
  return h("header.block-head", {},
    h("h2", {}, sectionTitle(row)),
    h("span.meta", {}, request ? requestFacts(request, row.request) : row.kind === "pass" ? row.label : null),
    row.request ? h("button.link", { onclick: () => showRequest(row.request), title: "What the model saw at this request" }, "as sent") : null,
    h("span.when.dim", { title: "Time since the start" }, lasting(row.t)));
}

function sectionTitle(row) {
  if (row.step) return `Step ${row.step}`;
  if (row.kind === "pass") return row.pass === undefined ? "Compaction that changed nothing" : `Compaction ${row.pass + 1}`;
  return { start: "Start", end: "End", resumed: "Resumed" }[row.kind] ?? "";
}

/** What is known of a request, in one line. */
function requestFacts(request, number) {
  const { window } = limitsAt(number);
  return [
    `${request.estimated ? "~" : ""}${whole(request.size ?? 0)} tokens`,
    window ? percent((request.size ?? 0) / window) : null,
    request.cached ? `${percent(request.cached / request.size)} cached` : null,
    request.output ? `${whole(request.output)} out` : null,
    request.cost !== undefined || request.free ? dollars(request.free ? 0 : request.cost) : null,
    request.s ? lasting(request.s) : null,
    request.attempts ? `${request.attempts} tries` : null,
  ].filter(Boolean).join(" · ");
}

/** One request as it was sent: the system prompt, the messages in order, and folded what was left out or replaced. */
function openRequest(number) {
  clearPane();
  const request = requests[number - 1];
  const head = h("section.block.sent-head.filled", {},
    h("header.block-head", {},
      h("h2", {}, request.summary ? `Request ${number}, for a summary` : `Request ${number} · step ${request.step}`),
      h("span.meta", {}, requestFacts(request, number)),
      h("button.link", { onclick: () => showSection(request.section) }, "in the log")),
    request.error ? failedCallCard(request) : null);
  pane.replaceChildren(head, ...(request.summary ? summaryRequest(number, request) : sentBlocks(number)));
}

function summaryRequest(number, request) {
  return [lazyBlock("block", () => {
    const items = section(request.section);
    const own = items?.find((item) => item.k === "call" && item.n === number)?.own;
    return items && (own ? ownRequest(own) : [h("p.dim", {}, "Its text is not on record.")]);
  })];
}

function sentBlocks(number) {
  const { entries, rest } = viewAt(number);
  const before = requests[number - 1].passes ?? 0;
  const start = lazyBlock("block", () => {
    const items = section(0);
    return items && items.filter((item) => item.k === "system").map(({ settings, files, ...item }) => systemCard(item));
  });
  const parts = [start];
  pane.classList.add("sent");
  for (let at = 0; at < entries.length; ) {
    if (entries[at].gone.length) parts.push(goneBlock(entries[at].gone, before));
    const turn = turnFrom(entries, at);
    parts.push(lazyBlock("block", () => turnCards(turn)));
    at += turn.length;
  }
  if (rest.length) parts.push(goneBlock(rest, before));
  return parts;
}

function lazyBlock(className, make) {
  const block = h("section", { className });
  blocks.add(block, make);
  return block;
}

/** The entry at a place with the results that belong to it: all that stand in the same section and follow on. */
function turnFrom(entries, at) {
  if (entries[at].id < 0) return [entries[at]];
  const holder = sectionOf(entries[at].id);
  let end = at + 1;
  while (end < entries.length && !entries[end].gone.length && entries[end].id > 0 && sectionOf(entries[end].id) === holder) end++;
  return entries.slice(at, end);
}

function turnCards(turn) {
  if (turn[0].id < 0) return summaryEntry(turn[0]);
  const items = turn.map((entry) => message(entry.id));
  if (items.some((item) => item === null)) return null;
  const results = new Map(items.map((item, n) => [item.call, { item, pass: turn[n].pass }]).filter(([call]) => call));
  const resultOf = (call) => {
    const found = results.get(call.id);
    results.delete(call.id);
    return found ? sentResult(found) : null;
  };
  const { step } = rows[sectionOf(turn[0].id)];
  const inLog = () => showMessage(turn[0].id);
  const shown = step ? [h("button.turn-no", { onclick: inLog, title: "In the log" }, `step ${step}`)] : [];
  for (const item of items) {
    if (item.k !== "result") shown.push(card(item, resultOf)); // takes the results of its calls
    else if (results.has(item.call)) shown.push(card(item));
  }
  return shown;
}

function summaryEntry(entry) {
  const items = section(passes[entry.pass].section);
  const summary = items?.find((item) => item.k === "pass")?.summary;
  return items && [h("div.card.user.summary", {}, h("div.role", {}, `Summary, by compaction ${entry.pass + 1}`), prose(summary ?? ""))];
}

/** A result as the model saw it; what a pass took out of it is one click away. */
function sentResult({ item, pass }) {
  if (pass === null) return { badges: resultBadges(item), body: h("div.result", {}, resultText(item)) };
  const stub = section(passes[pass].section)?.find((one) => one.k === "pass")?.replaced[item.id] ?? "";
  const original = folded(`Not sent: the output itself, ${plural(item.text.length, "character")}`, () => output(item.text));
  return { badges: [], body: h("div.result.elided", {}, output(stub), original) };
}

/** Messages that are in the log and were not sent, by the pass that took them out. */
function goneBlock(ids, before) {
  const out = takenOut(ids[0], before);
  const words = out ? `${out.how} by compaction ${out.pass + 1}` : "left out";
  const title = `Not sent: ${plural(ids.length, "message")}, ${words}`;
  return h("section.block.gone.filled", {}, folded(title, () => ids.map((id) => {
    const item = message(id);
    return item ? card(item, () => null) : h("p.dim", {}, "not loaded yet");
  })));
}

/** Opens or folds all long texts of a block. */
function unfoldAll(block) {
  const boxes = [...block.querySelectorAll(".foldable")];
  const open = boxes.some((box) => box.querySelector(".folded"));
  for (const box of boxes) box.unfold(open);
}

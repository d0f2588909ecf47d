// The run: an index that is read at once, and sections whose texts are read when somebody looks at them.

const index = JSON.parse(byId("index").textContent);
const { run, rows, requests, passes } = index;
for (const pass of passes) for (const name of ["view", "replaced", "summarized", "pruned"]) pass[name] = idsOf(pass[name]);
const KEPT_SECTIONS = 200;
const parsed = new Map();

/** The ids in runs of [first, last]. */
function idsOf(runs) {
  return runs.flatMap(([first, last]) => Array.from({ length: last - first + 1 }, (_, n) => first + n));
}

/** The items of a section; null while the page is still being loaded. */
function section(number) {
  if (parsed.has(number)) return parsed.get(number);
  const element = byId(`d${number}`);
  // An element without a follower may be there in part only.
  if (!element || (document.readyState === "loading" && !element.nextElementSibling)) return null;
  const { items } = JSON.parse(element.textContent);
  if (parsed.size >= KEPT_SECTIONS) parsed.delete(parsed.keys().next().value);
  parsed.set(number, items);
  return items;
}

/** The text of a section as it stands in the page. */
const rawSection = (number) => byId(`d${number}`)?.textContent ?? "";

/** The number of the section that holds a message. */
function sectionOf(messageId) {
  let low = 0;
  let high = holders.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (rows[holders[middle]].last < messageId) low = middle + 1;
    else high = middle;
  }
  return holders[low];
}
const holders = rows.map((row, number) => number).filter((number) => rows[number].first);

/** The item of a message; null while it is not loaded. */
function message(messageId) {
  const items = section(sectionOf(messageId));
  return items && (items.find((item) => item.id === messageId) ?? null);
}

/** Window and trigger at a request, either may be null. */
function limitsAt(number) {
  return index.limits.findLast((limits) => limits.from <= number) ?? { window: null, trigger: null };
}

/**
 * What the model saw at a request: its messages in order. `text` says which pass replaced the body (null: none), id -1 is
 * the summary. Before each stands in `gone` what is in the log but was not sent.
 */
function viewAt(number) {
  const { messages, passes: before = 0 } = { messages: 0, ...requests[number - 1] };
  const last = passes[before - 1];
  const ids = [...(last?.view ?? [])];
  for (let id = (last?.messages ?? 0) + 1; id <= messages; id++) ids.push(id);
  const replacedBy = new Map();
  passes.slice(0, before).forEach((pass, n) => pass.replaced.forEach((id) => replacedBy.set(id, n)));
  const summary = passes.slice(0, before).findLastIndex((pass) => pass.has_summary);
  const entries = ids.map((id) => ({ id, pass: id < 0 ? summary : (replacedBy.get(id) ?? null), gone: [] }));
  return placeGone(entries, messages);
}

/** Puts each run of messages that are not in the view before the first later one that is. */
function placeGone(entries, messages) {
  const sent = new Set(entries.map((entry) => entry.id));
  let id = 1;
  for (const entry of entries) {
    for (; entry.id > 0 && id <= entry.id; id++) if (!sent.has(id)) entry.gone.push(id);
  }
  const rest = [];
  for (; id <= messages; id++) if (!sent.has(id)) rest.push(id);
  return { entries, rest };
}

/** How a pass took a message out of the view: "summarized" or "pruned", and which pass did; null if none did. */
function takenOut(messageId, before) {
  for (let n = 0; n < before; n++) {
    if (passes[n].summarized.includes(messageId)) return { how: "summarized", pass: n };
    if (passes[n].pruned.includes(messageId)) return { how: "pruned", pass: n };
  }
  return null;
}

/** The pass that first replaced the body of a message, for the full log. */
const replacedIn = new Map();
passes.forEach((pass, n) => pass.replaced.forEach((id) => replacedIn.has(id) || replacedIn.set(id, n)));

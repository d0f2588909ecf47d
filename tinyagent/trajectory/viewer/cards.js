// The items of a section as elements.

const ROLES = { task: "Task", user: "User", notice: "Notice", summary: "Summary" };

/** All items of a section; results stand with their calls. */
function cards(items) {
  const results = new Map(items.filter((item) => item.k === "result").map((item) => [item.call, item]));
  const elements = [];
  for (const item of [...items.filter((one) => one.k === "pass"), ...items.filter((one) => one.k !== "pass")]) {
    if (item.k === "result" && !results.has(item.call)) continue;
    elements.push(card(item, (call) => takeResult(results, call)));
  }
  return elements;
}

function takeResult(results, call) {
  const item = results.get(call.id);
  results.delete(call.id);
  return item ? logResult(item) : null;
}

/** One item. `resultOf` gives the element of a call's result, or nothing. */
function card(item, resultOf = () => null) {
  switch (item.k) {
    case "system": return systemCard(item);
    case "user": return userCard(item);
    case "reply": return replyCard(item, resultOf);
    case "result": return h("div.card", {}, callBlock({ name: item.tool, arguments: {} }, logResult(item)));
    case "call": return item.summary ? summaryCallCard(item) : failedCallCard(item);
    case "pass": return passCard(item);
    case "failed_pass": return h("div.card.note", {}, attempts(item.attempts));
    case "end": return endCard(item);
    default: return h("div.card.note", {}, item.text, item.detail ? output(item.detail) : null);
  }
}

function userCard(item) {
  const kind = Object.hasOwn(ROLES, item.kind) ? item.kind : "user";
  return h(`div.card.user.${kind}`, {}, h("div.role", {}, ROLES[kind]), prose(item.text));
}

function systemCard(item) {
  const tools = item.tools ?? [];
  return h("div.card.system", {},
    folded(`System prompt · ${plural(item.text.length, "character")}`, () => prose(item.text)),
    tools.length ? folded(`Tools · ${tools.map((tool) => tool.name).join(", ")}`, () => tools.map(toolCard)) : null,
    item.files?.length ? folded(`Context files · ${item.files.length}`, () => output(item.files.join("\n"))) : null,
    item.settings ? folded("Settings", () => output(JSON.stringify(item.settings, null, 2), { lines: 60 })) : null);
}

function toolCard(tool) {
  const parameters = JSON.stringify(tool.parameters, null, 1);
  return h("div.call", {}, h("div.call-head", {}, h("span.tool", {}, tool.name)), prose(tool.description), output(parameters));
}

/** A line that opens to what `make` gives, which is made when it is opened. */
function folded(title, make, { open = false } = {}) {
  const box = h("details.fold", { open }, h("summary", {}, title));
  const fill = () => box.childElementCount < 2 && box.append(h("div.inside", {}, make()));
  box.addEventListener("toggle", fill);
  if (open) fill();
  return box;
}

function replyCard(item, resultOf) {
  return h("div.card.reply", {},
    item.reasoning ? folded("Reasoning", () => prose(item.reasoning)) : null,
    item.text ? prose(item.text) : null,
    item.stop ? h("span.badge.warn", {}, item.stop === "length" ? "cut off at the output limit" : item.stop) : null,
    (item.calls ?? []).map((call) => callBlock(call, resultOf(call))));
}

/** A call with its result, if it has one here. */
function callBlock(call, result) {
  const [head, ...bodies] = callParts(call);
  head.append(...(result?.badges ?? []));
  return h("div.call", {}, head, bodies, result?.body);
}

function callParts(call) {
  const head = h("div.call-head", {}, h("span.tool", {}, call.name));
  if (!call.arguments) {
    head.append(h("span.badge.bad", {}, call.problem || "arguments that cannot be read"));
    return [head, output(call.raw ?? "")];
  }
  const { command, path, old, new: fresh, content, items, ...rest } = call.arguments;
  if (typeof command === "string") head.append(h("code.command", {}, command));
  else if (command !== undefined) rest.command = command;
  if (path !== undefined) head.append(h("code.path", {}, String(path)));
  const bodies = [];
  if (old !== undefined || fresh !== undefined) bodies.push(change(old, fresh));
  if (content !== undefined) bodies.push(output(asText(content), { className: "added" }));
  if (Array.isArray(items)) bodies.push(planList(items));
  else if (items !== undefined) rest.items = items;
  const others = Object.entries(rest);
  if (others.some(([, value]) => String(value).length > 60)) {
    bodies.push(...others.map(([name, value]) => output(`${name}: ${asText(value)}`, { className: "argument" })));
  } else if (others.length) head.append(h("span.dim", {}, others.map(([n, v]) => `${n} ${asText(v)}`).join(" · ")));
  return [head, ...bodies];
}

const asText = (value) => (typeof value === "string" ? value : JSON.stringify(value, null, 1));

function change(old, fresh) {
  return h("div.change", {},
    old ? output(asText(old), { className: "removed" }) : null,
    fresh ? output(asText(fresh), { className: "added" }) : null);
}

function planList(items) {
  return h("ul.plan", {}, items.map((item) => h("li", { data: { status: item?.status ?? "" } }, String(item?.text ?? asText(item)))));
}

/** A result as it came back, with a word on what became of it later. */
function logResult(item) {
  const pass = replacedIn.get(item.id);
  const body = h("div.result", {}, resultText(item));
  const later = pass === undefined ? null : elidedLink(pass);
  if (later) (body.querySelector(".foldable") ?? body).append(later);
  body.append(...children(item));
  return { badges: resultBadges(item), body };
}

const resultText = (item) => (item.text ? output(item.text) : h("p.dim", {}, "no output"));

function resultBadges(item) {
  const code = item.facts?.exit_code;
  const { decision } = item;
  const verdict = decision && `${decision.allowed ? "allowed" : "denied"} by ${decision.by}`;
  return [
    decision ? h(decision.allowed ? "span.badge" : "span.badge.warn", {}, verdict) : null,
    item.error && !decision ? h("span.badge.bad", {}, "error") : null,
    code === null ? h("span.badge.bad", {}, "stopped at its time limit") : code ? h("span.badge.bad", {}, `exit ${code}`) : null,
    item.facts?.output_chars > item.text.length ? h("span.badge", {}, `clipped from ${brief(item.facts.output_chars)} characters`) : null,
  ].filter(Boolean);
}

function elidedLink(pass) {
  const number = passes[pass].before_request;
  const label = `not sent from request ${number} on`;
  return number <= requests.length ? h("button.later", { onclick: () => showRequest(number) }, label) : h("span.later", {}, label);
}

function children(item) {
  return (item.children ?? []).map((child) => h("p.dim", {}, 
    `sub-agent ${child.run}: ${child.words}, ${plural(child.requests, "request")}, ${whole(child.tokens)} tokens, ${dollars(child.cost)}`));
}

function failedCallCard(item) {
  return h("div.card.failed", {}, h("span.badge.bad", {}, "request failed"), h("span", {}, item.error));
}

function summaryCallCard(item) {
  const row = requests[item.n - 1];
  const words = `Request ${item.n} asked for a summary · ${whole(row.size)} tokens · ${dollars(row.free ? 0 : row.cost)}`;
  return h("div.card.note", {}, item.error ? failedCallCard(item) : null, item.own ? folded(words, () => ownRequest(item.own)) : words);
}

/** A request that brought messages of its own. */
function ownRequest(own) {
  const texts = (own.messages ?? []).map((item) => h("div.card.user", {}, h("div.role", {}, item.role), output(item.text ?? "", { lines: 40 })));
  return [h("div.card.system", {}, folded("System prompt", () => prose(own.system ?? ""))), ...texts];
}

function passCard(item) {
  const span = limitsAt(passes[item.n].before_request).window ?? item.before;
  const done = [
    counted("elided", item.elided, "tool output"), counted("clipped", item.clipped, "tool output"),
    counted("summarized", item.summarized, "message"), counted("pruned", item.pruned, "message"),
  ];
  return h("div.card.pass", {},
    h("div.pass-sizes", {}, sizeBar("before", item.before, span), sizeBar("after", item.after, span)),
    h("div.badges", {}, h("span.badge", {}, `because of ${item.trigger === "budget" ? "the budget" : item.trigger === "overflow" ? "an overflow" : "the user"}`), done),
    item.summary ? folded("The text that stands for them", () => prose(item.summary)) : null,
    item.attempts?.length ? folded("What was tried", () => attempts(item.attempts)) : null);
}

function sizeBar(label, tokens, span) {
  const bar = h("span.size-bar");
  bar.style.setProperty("--share", Math.min(1, tokens / span));
  return h("div.size", {}, h("span.dim", {}, label), h("span.size-track", {}, bar), h("span.num", {}, whole(tokens)));
}

/** A chip that lists the messages when it is opened. */
function counted(verb, ids, noun) {
  if (!ids?.length) return null;
  const links = () => h("div.links", {}, ids.map((id) => h("button.link", { onclick: () => showMessage(id) }, messageName(id))));
  return folded(`${verb} ${plural(ids.length, noun)}`, links);
}

const messageName = (id) => `${rows[sectionOf(id)].step ? `step ${rows[sectionOf(id)].step}` : "start"} #${id}`;

function attempts(list) {
  return h("ul.attempts", {}, (list ?? []).map((one) => h("li", {},
    `${one.stage}: ${one.rejected ? `not taken, ${one.rejected}` : "taken"}${one.tokens_after ? `, ~${whole(one.tokens_after)} tokens` : ""}`)));
}

function endCard(item) {
  return h("div.card.end", { data: { status: item.status } },
    h("div.role", {}, item.words), item.error ? h("p.error", {}, item.error) : null, item.submission ? prose(item.submission) : null);
}

// Texts of any length: prose with a little typography, outputs in fixed width, long ones folded.

const FOLDED_LINES = 14;
const FOLDED_CHARS = 2400;
const MORE_CHARS = 200_000; // put into the page by one click

/** What a person or a model wrote: blank lines, `code` and fenced blocks are set as such. Nothing becomes a link. */
function prose(text) {
  const box = h("div.prose");
  for (const [number, part] of seen(text).split(/^```[^\n]*\n?/m).entries()) {
    if (number % 2) box.append(h("pre.code", {}, part.replace(/\n$/, "")));
    else for (const block of part.split(/\n{2,}/)) if (block.trim()) box.append(paragraph(block));
  }
  return box;
}

function paragraph(block) {
  const heading = /^(#{1,4}) (.*)$/.exec(block.split("\n", 1)[0]);
  if (!heading) return h("p", {}, inline(block));
  const rest = block.slice(heading[0].length + 1);
  return h("div", {}, h("p.heading", {}, inline(heading[2])), rest.trim() ? h("p", {}, inline(rest)) : null);
}

function inline(text) {
  return text.split(/(`[^`\n]+`)/).map((part) =>
    part.length > 2 && part.startsWith("`") && part.endsWith("`") ? h("code", {}, part.slice(1, -1)) : part,
  );
}

/** A text in fixed width, folded if it is long; an open one grows by clicks, so that no text stops the page. */
function output(text, { className = "", lines = FOLDED_LINES } = {}) {
  const body = h("pre", { className: `output ${className}`.trim() });
  const short = fold(text, lines);
  if (short.length === text.length) {
    body.textContent = seen(text);
    return body;
  }
  let shown = 0; // characters; 0: folded
  const show = (length) => {
    shown = Math.min(length, text.length);
    body.textContent = seen(shown ? text.slice(0, shown) : short);
    body.classList.toggle("folded", !shown);
    button.textContent = !shown ? `show all ${amount(text)}` : shown < text.length ? "show more" : "fold";
  };
  const next = () => show(!shown ? MORE_CHARS : shown < text.length ? shown + MORE_CHARS : 0);
  const button = h("button.unfold", { onclick: next });
  show(0);
  return Object.assign(h("div.foldable", {}, body, button), { unfold: (open) => show(open ? MORE_CHARS : 0) });
}

function fold(text, lines) {
  let end = 0;
  for (let n = 0; n < lines && end >= 0; n++) end = text.indexOf("\n", end + 1);
  const cut = end < 0 ? text.length : end;
  const short = text.slice(0, Math.min(cut, FOLDED_CHARS));
  // a fold that hides two or three lines is no gain
  return text.length - short.length < 160 && text.slice(short.length).split("\n").length <= 4 ? text : short;
}

function amount(text) {
  let lines = 1;
  for (let at = text.indexOf("\n"); at >= 0; at = text.indexOf("\n", at + 1)) lines++;
  return lines > 1 ? plural(lines, "line") : plural(text.length, "character");
}

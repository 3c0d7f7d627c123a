// Markdown inside of a line to DOM nodes: code, maths, emphasis, links, escapes, entities. Text only ever becomes text nodes.
import { maths } from "./maths.js";

export const make = (tag, ...children) => {
  const node = document.createElement(tag);
  node.append(...children);
  return node;
};

const ESCAPED = /\\([!-/:-@[-`{-~])/y;
const BREAK = /(?: {2,}|\\)\n */y;
const ENTITY = /&(?:#\d{1,7}|#x[\da-f]{1,6}|[a-z][a-z\d]{1,31});/iy;
const LINK = /(!?)\[((?:\\.|`[^`]*`|[^\]\\`])*)\]\(\s*<?((?:[^\s()<>]|\([^\s()<>]*\))+)>?(?:\s+(?:"[^"]*"|'[^']*'))?\s*\)/y;
const ADDRESS = /<(https?:\/\/[^\s<>]+)>/y;
const BARE = /https?:\/\/[^\s<>()"'`]+(?:\([^\s<>()"'`]*\)[^\s<>()"'`]*)*/y;
// $…$ has no blanks inside of its marks and no digit behind them, so that prices stay prices.
const MATHS = /\$\$([^$]{1,4000})\$\$|\$(?!\s)([^$\n]*[^$\s\\])\$(?!\d)|\\\(([^]{1,4000}?)\\\)|\\\[([^]{1,4000}?)\\\]/y;
const TAG = { "*": ["em", "strong"], _: ["em", "strong"], "~": ["del", "del"] };
const isWord = (character) => /[\p{L}\p{N}_]/u.test(character ?? "");
const isBlank = (character) => character === undefined || /\s/.test(character);

const match = (pattern, text, at) => {
  pattern.lastIndex = at;
  return pattern.exec(text);
};

const runAt = (text, at) => {
  let end = at + 1;
  while (text[end] === text[at]) ++end;
  return end - at;
};

// Where the code that opens at `at` ends, behind its last mark; -1 when it never does.
function codeEnd(text, at) {
  const length = runAt(text, at);
  for (let next = text.indexOf("`", at + length); next >= 0; next = text.indexOf("`", next)) {
    const closing = runAt(text, next);
    next += closing;
    if (closing === length) return next;
  }
  return -1;
}

// Pieces of `line` between its bars, those in code and behind backslashes left alone.
export function splitAtBars(line) {
  const pieces = [""];
  for (let at = 0; at < line.length;) {
    const code = line[at] === "`" ? codeEnd(line, at) : -1;
    const end = code > 0 ? code : line[at] === "\\" ? Math.min(at + 2, line.length) : at + 1;
    const part = line.slice(at, end);
    if (part === "|") pieces.push("");
    else pieces[pieces.length - 1] += part.replaceAll("\\|", "|");
    at = end;
  }
  return pieces;
}

// Where `mark` closes what begins at `from`; -1 when nowhere. Three stars in a row may close an inner mark first, then this one.
function closing(text, from, mark) {
  for (let at = from; at < text.length;) {
    if (text[at] === "\\") at += 2;
    else if (text[at] === "`") at = Math.max(codeEnd(text, at), at + runAt(text, at));
    else if (text[at] !== mark[0]) ++at;
    else {
      const run = runAt(text, at), end = at + run;
      const fits = run === mark.length || (run === 3 && mark.length < 3);
      if (fits && at > from && !isBlank(text[at - 1]) && !(mark[0] === "_" && isWord(text[end]))) return end - mark.length;
      at = end;
    }
  }
  return -1;
}

export function link(url, children) {
  const node = make("a", ...children);
  node.href = url;
  node.target = "_blank";
  node.rel = "noopener noreferrer nofollow";
  return node;
}

// Of images only the words are shown, nothing is loaded; a link inside of a link would be neither.
const linkWords = ([, image, words, url]) => (!words ? [url] : image || words.includes("://") ? [words] : inline(words));

// The browser knows what an entity stands for; a document of its own runs and shows nothing.
const entityText = (entity) => new DOMParser().parseFromString(entity, "text/html").body.textContent;

// Maths that cannot be set is kept as it is written, safe from other marks.
function mathsAt(text, at) {
  const found = match(MATHS, text, at);
  if (!found) return null;
  const display = found[1] ?? found[4];
  return [maths(display ?? found[2] ?? found[3], display !== undefined) ?? make("code", found[0]), MATHS.lastIndex];
}

// What stands at `at`: [node or text, where it ends]; null when it is an ordinary character.
function pieceAt(text, at, hopeless) {
  let found;
  switch (text[at]) {
    case "$":
      return mathsAt(text, at);
    case "\\":
      if ((found = mathsAt(text, at))) return found;
    // falls through
    case " ":
      if ((found = match(BREAK, text, at))) return [make("br"), BREAK.lastIndex];
      if ((found = match(ESCAPED, text, at))) return [found[1], at + 2];
      return null;
    case "`": {
      const end = codeEnd(text, at), run = runAt(text, at);
      return end < 0 ? [text.slice(at, at + run), at + run] : [make("code", text.slice(at + run, end - run).trim()), end];
    }
    case "&":
      return (found = match(ENTITY, text, at)) && [entityText(found[0]), ENTITY.lastIndex];
    case "<":
      return (found = match(ADDRESS, text, at)) && [link(found[1], [found[1]]), ADDRESS.lastIndex];
    case "!":
    case "[":
      if (!(found = match(LINK, text, at)) || !/^https?:\/\//i.test(found[3])) return null;
      return [link(found[3], linkWords(found)), LINK.lastIndex];
    case "h":
      if (isWord(text[at - 1]) || !(found = match(BARE, text, at))) return null;
      found = found[0].replace(/[.,;:!?*_~]+$/, "");
      return [link(found, [found]), at + found.length];
    case "*":
    case "_":
    case "~":
      return emphasis(text, at, hopeless);
  }
  return null;
}

function emphasis(text, at, hopeless) {
  const run = runAt(text, at), plain = [text.slice(at, at + run), at + run];
  if (run > 3 || isBlank(text[at + run]) || (text[at] === "_" && isWord(text[at - 1])) || (text[at] === "~" && run !== 2)) return plain;
  const mark = plain[0];
  const end = hopeless.has(mark) ? -1 : closing(text, at + run, mark);
  if (end < 0) {
    hopeless.add(mark); // nothing behind this place closes it either
    return run === 3 ? openTwice(text, at) ?? plain : plain;
  }
  const inside = inline(text.slice(at + run, end)), [one, two] = TAG[mark[0]];
  const node = run === 3 ? make(one, make(two, ...inside)) : make(run === 2 ? two : one, ...inside);
  return [node, end + run];
}

// ***a** b* and ***a* b**: two marks that open together and close apart.
function openTwice(text, at) {
  for (const outer of [1, 2]) {
    const mark = text.slice(at, at + outer), end = closing(text, at + 3, mark);
    if (end > 0) return [make(TAG[text[at]][outer - 1], ...inline(text.slice(at + outer, end))), end + outer];
  }
  return null;
}

export function inline(text) {
  const nodes = [], hopeless = new Set();
  let plain = "";
  for (let at = 0; at < text.length;) {
    const piece = pieceAt(text, at, hopeless);
    if (!piece) plain += text[at++];
    else if (typeof piece[0] === "string") [plain, at] = [plain + piece[0], piece[1]];
    else {
      if (plain) nodes.push(plain);
      nodes.push(piece[0]);
      [plain, at] = ["", piece[1]];
    }
  }
  if (plain) nodes.push(plain);
  return nodes;
}

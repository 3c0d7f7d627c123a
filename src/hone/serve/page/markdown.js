// Markdown's blocks to DOM nodes: nothing a model writes is read as HTML.
import { inline, make, splitAtBars } from "./inline.js";
import { say } from "./translations.js";

const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])(?:\s+(.*)|\s*)$/;
const RULE = /^\s*(?:(?:-\s*){3,}|(?:\*\s*){3,}|(?:_\s*){3,})$/;
const FENCE = /^(\s*)(`{3,}|~{3,})\s*([\w+#.-]*)[^`]*$/;
const HEADING = /^(#{1,6})\s+(.*?)(?:\s+#+)?\s*$/;
const QUOTE = /^\s{0,3}>\s?/;
const indentOf = (line) => line.length - line.trimStart().length;

function codeBlock(language, text) {
  const copy = make("button", say("Copy"));
  copy.type = "button";
  copy.addEventListener("click", async () => {
    await navigator.clipboard?.writeText(text);
    copy.textContent = say("Copied");
    setTimeout(() => (copy.textContent = say("Copy")), 1500);
  });
  const bar = make("div", make("span", language || "text"), copy);
  bar.className = "bar";
  const block = make("div", bar, make("pre", make("code", text)));
  block.className = "code";
  return block;
}

function fenced(lines, at) {
  const [, indent, mark, language] = FENCE.exec(lines[at]);
  const code = [], closes = (line) => line.trim().startsWith(mark) && !line.trim().replaceAll(mark[0], "");
  for (++at; at < lines.length && !closes(lines[at]); ++at) code.push(lines[at].slice(Math.min(indentOf(lines[at]), indent.length)));
  return [codeBlock(language, code.join("\n")), at + 1];
}

const cells = (line) => splitAtBars(line.trim().replace(/^\|/, "").replace(/(?<!\\)\|$/, "")).map((cell) => cell.trim());

// How the columns of the table that begins here are aligned; null when none does.
function columnsAt(lines, at) {
  if (!lines[at].includes("|") || at + 1 >= lines.length || !lines[at + 1].includes("|") || indentOf(lines[at]) > 3) return null;
  const rule = cells(lines[at + 1]);
  if (!rule.every((cell) => /^:?-+:?$/.test(cell)) || rule.length !== cells(lines[at]).length) return null;
  return rule.map((cell) => (!cell.endsWith(":") ? "" : cell.startsWith(":") ? "center" : "right"));
}

function table(lines, at, columns) {
  const row = (line, tag) => {
    const texts = cells(line);
    return make("tr", ...columns.map((side, i) => {
      const cell = make(tag, ...inline(texts[i] ?? ""));
      if (side) cell.className = side;
      return cell;
    }));
  };
  const body = make("tbody");
  let next = at + 2;
  for (; next < lines.length && lines[next].includes("|"); ++next) body.append(row(lines[next], "td"));
  return [make("table", make("thead", row(lines[at], "th")), body), next];
}

// The lines of one item behind its mark, without their indentation, and where they end.
function itemLines(lines, at, found) {
  const indent = found[1].length, width = found[3] === undefined ? lines[at].length + 1 : lines[at].length - found[3].length;
  const inside = (line) => line.trim() && indentOf(line) >= Math.min(width, indent + 2);
  const item = [found[3] ?? ""];
  for (++at; at < lines.length; ++at) {
    if (!lines[at].trim() && at + 1 < lines.length && inside(lines[at + 1])) item.push("");
    else if (inside(lines[at])) item.push(lines[at].slice(Math.min(indentOf(lines[at]), width)));
    else if (lines[at].trim() && item.at(-1) && !ITEM.test(lines[at]) && !startsBlock(lines, at)) item.push(lines[at].trim());
    else break;
  }
  return [item, at];
}

function list(lines, at) {
  const first = ITEM.exec(lines[at]), indent = first[1].length, ordered = /\d/.test(first[2]);
  const node = make(ordered ? "ol" : "ul");
  if (ordered && parseInt(first[2]) !== 1) node.start = parseInt(first[2]);
  while (at < lines.length) {
    const found = ITEM.exec(lines[at]);
    if (!found || found[1].length < indent || /\d/.test(found[2]) !== ordered || RULE.test(lines[at])) break;
    const [item, next] = itemLines(lines, at, found);
    const body = markdown(item.join("\n")), paragraphs = [...body.children].filter((child) => child.tagName === "P");
    if (paragraphs.length === 1) paragraphs[0].replaceWith(...paragraphs[0].childNodes);
    node.append(make("li", body));
    at = next;
    if (at + 1 < lines.length && !lines[at].trim() && ITEM.test(lines[at + 1])) ++at;
  }
  return [node, at];
}

// A number at the beginning of a line is seldom an item, unless it is the first.
function startsBlock(lines, at) {
  const item = ITEM.exec(lines[at]), listed = item?.[3] && (!/\d/.test(item[2]) || parseInt(item[2]) === 1);
  return listed || [FENCE, HEADING, QUOTE, RULE].some((start) => start.test(lines[at])) || columnsAt(lines, at) !== null;
}

function paragraph(lines, at) {
  const words = [lines[at]];
  for (++at; at < lines.length && lines[at].trim() && !startsBlock(lines, at); ++at) words.push(lines[at].trimStart());
  return [make("p", ...inline(words.join("\n").trim())), at];
}

function quote(lines, at) {
  const quoted = [];
  for (; at < lines.length && QUOTE.test(lines[at]); ++at) quoted.push(lines[at].replace(QUOTE, ""));
  return [make("blockquote", markdown(quoted.join("\n"))), at];
}

function block(lines, at) {
  const line = lines[at], heading = HEADING.exec(line);
  if (FENCE.test(line)) return fenced(lines, at);
  if (heading) return [make(`h${Math.min(heading[1].length, 4)}`, ...inline(heading[2])), at + 1];
  if (RULE.test(line)) return [make("hr"), at + 1];
  if (QUOTE.test(line)) return quote(lines, at);
  if (ITEM.test(line)) return list(lines, at);
  const columns = columnsAt(lines, at);
  return columns ? table(lines, at, columns) : paragraph(lines, at);
}

export function markdown(text) {
  const lines = text.split("\n"), out = document.createDocumentFragment();
  for (let at = 0; at < lines.length;) {
    if (!lines[at].trim()) {
      ++at;
      continue;
    }
    const [node, next] = block(lines, at);
    out.append(node);
    at = next;
  }
  return out;
}

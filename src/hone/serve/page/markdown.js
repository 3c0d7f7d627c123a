// Markdown to DOM nodes. Text only ever becomes text nodes: nothing a model writes is read as HTML.

const make = (tag, ...children) => {
  const node = document.createElement(tag);
  node.append(...children);
  return node;
};

const INLINE = /(`+)([^`](?:.*?[^`])?)\1(?!`)|\*\*(?=\S)(.+?)\*\*|__(?=\S)(.+?)__|\*(?=[^\s*])(.+?)\*|~~(?=\S)(.+?)~~|\[([^\]\n]+)\]\((https?:\/\/[^\s)]+)\)|(https?:\/\/[^\s<>()"'`]+[^\s<>()"'`.,;:!?])/su;

function inline(text) {
  const nodes = [];
  let rest = text;
  for (let found; (found = INLINE.exec(rest)); rest = rest.slice(found.index + found[0].length)) {
    if (found.index > 0) nodes.push(rest.slice(0, found.index));
    const [, , code, bold, bold2, italic, gone, label, url, bare] = found;
    if (code !== undefined) nodes.push(make("code", code.trim()));
    else if (bold ?? bold2) nodes.push(make("strong", ...inline(bold ?? bold2)));
    else if (italic) nodes.push(make("em", ...inline(italic)));
    else if (gone) nodes.push(make("del", ...inline(gone)));
    else nodes.push(link(url ?? bare, label ? inline(label) : [bare]));
  }
  if (rest) nodes.push(rest);
  return nodes;
}

function link(url, children) {
  const node = make("a", ...children);
  node.href = url;
  node.target = "_blank";
  node.rel = "noopener noreferrer nofollow";
  return node;
}

function codeBlock(language, text) {
  const copy = make("button", "Copy");
  copy.type = "button";
  copy.addEventListener("click", async () => {
    await navigator.clipboard?.writeText(text);
    copy.textContent = "Copied";
    setTimeout(() => (copy.textContent = "Copy"), 1500);
  });
  const bar = make("div", make("span", language || "text"), copy);
  bar.className = "bar";
  const block = make("div", bar, make("pre", make("code", text)));
  block.className = "code";
  return block;
}

const cells = (line) => line.trim().replace(/^\||\|$/g, "").split("|").map((cell) => cell.trim());
const isRule = (line) => /^\s*\|?\s*:?-{2,}:?\s*(\|\s*:?-{2,}:?\s*)*\|?\s*$/.test(line) && line.includes("-");
const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/;

function table(lines, at) {
  const row = (line, tag) => make("tr", ...cells(line).map((cell) => make(tag, ...inline(cell))));
  const body = make("tbody");
  let next = at + 2;
  for (; next < lines.length && lines[next].includes("|") && lines[next].trim(); ++next) body.append(row(lines[next], "td"));
  return [make("table", make("thead", row(lines[at], "th")), body), next];
}

function list(lines, at) {
  const [, indent, mark] = ITEM.exec(lines[at]);
  const ordered = /\d/.test(mark);
  const node = make(ordered ? "ol" : "ul");
  if (ordered && parseInt(mark) !== 1) node.start = parseInt(mark);
  while (at < lines.length) {
    const found = ITEM.exec(lines[at]);
    if (!found || found[1].length < indent.length) break;
    if (found[1].length > indent.length + 1) {
      const [inner, next] = list(lines, at);
      (node.lastElementChild ?? node).append(inner);
      at = next;
      continue;
    }
    if (/\d/.test(found[2]) !== ordered) break;
    const item = [found[3]];
    for (++at; at < lines.length && /^\s{2,}\S/.test(lines[at]) && !ITEM.test(lines[at]); ++at) item.push(lines[at].trim());
    node.append(make("li", ...inline(item.join("\n"))));
    if (at + 1 < lines.length && !lines[at].trim() && ITEM.test(lines[at + 1])) ++at;
  }
  return [node, at];
}

const startsBlock = (lines, at) => /^(\s*```|#{1,6}\s|>\s?|\s*(---|\*\*\*|___)\s*$)/.test(lines[at]) || ITEM.test(lines[at]) ||
  (lines[at].includes("|") && at + 1 < lines.length && isRule(lines[at + 1]));

export function markdown(text) {
  const lines = text.split("\n");
  const out = document.createDocumentFragment();
  for (let at = 0; at < lines.length;) {
    const line = lines[at];
    const fence = /^\s*(`{3,}|~{3,})\s*([\w+#.-]*)/.exec(line);
    const heading = /^(#{1,6})\s+(.*)$/.exec(line);
    if (fence) {
      const code = [];
      for (++at; at < lines.length && !lines[at].trim().startsWith(fence[1]); ++at) code.push(lines[at]);
      out.append(codeBlock(fence[2], code.join("\n")));
      ++at;
    } else if (heading) {
      out.append(make(`h${Math.min(heading[1].length, 4)}`, ...inline(heading[2])));
      ++at;
    } else if (/^\s*(---|\*\*\*|___)\s*$/.test(line)) {
      out.append(make("hr"));
      ++at;
    } else if (/^>\s?/.test(line)) {
      const quoted = [];
      for (; at < lines.length && /^>\s?/.test(lines[at]); ++at) quoted.push(lines[at].replace(/^>\s?/, ""));
      out.append(make("blockquote", markdown(quoted.join("\n"))));
    } else if (ITEM.test(line)) {
      const [node, next] = list(lines, at);
      out.append(node);
      at = next;
    } else if (line.includes("|") && at + 1 < lines.length && isRule(lines[at + 1])) {
      const [node, next] = table(lines, at);
      out.append(node);
      at = next;
    } else if (!line.trim()) {
      ++at;
    } else {
      const words = [line];
      for (++at; at < lines.length && lines[at].trim() && !startsBlock(lines, at); ++at) words.push(lines[at]);
      out.append(make("p", ...inline(words.join("\n"))));
    }
  }
  return out;
}

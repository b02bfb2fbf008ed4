// Markdown as our own tokens, drawn as elements: what a stranger wrote is text, never markup.

import { html, useMemo } from "./vendor/preact.js";

const BLOCK = /^(?:(```+|~~~+)(.*)|(#{1,6})\s+(.*)|\s*([-*+]|\d{1,9}[.)])\s+(.*)|>\s?(.*)|(\|.*\|)\s*)$/;
const INLINE = /(`{1,3})([^`]{1,2000})\1(?!`)|\*\*([^*]{1,500})\*\*|__([^_]{1,500})__|\*([^*\s][^*]{0,500})\*|\[([^\]]{0,300})\]\(([^()\s]{1,2000})\)|(https?:\/\/[^\s<>"']{1,2000}[^\s<>"'.,;:!?)\]])/g;
const LONGEST = 50000; // longer texts are shown as they are

const isWeb = (address) => /^https?:\/\//i.test(address);

// Words that are not the address have its host beside them: a link goes where it says.
const link = (address, words) => html`<a href=${address} title=${address} target="_blank" rel="noopener noreferrer nofollow">${words}</a>${words !== address && html` <span class="dim small">(${host(address)})</span>`}`;

const host = (address) => {
  try {
    return new URL(address).host;
  } catch {
    return address;
  }
};

const inline = (text) => {
  const found = [];
  let end = 0;
  for (const match of text.matchAll(INLINE)) {
    if (match.index > end) found.push(text.slice(end, match.index));
    end = match.index + match[0].length;
    const [whole, tick, code, strong, strong2, emphasis, words, address, bare] = match;
    if (tick) found.push(html`<code>${code}</code>`);
    else if (strong || strong2) found.push(html`<strong>${inline(strong || strong2)}</strong>`);
    else if (emphasis) found.push(html`<em>${inline(emphasis)}</em>`);
    else if (bare) found.push(link(bare, bare));
    else found.push(isWeb(address) ? link(address, words || address) : whole);
  }
  if (end < text.length) found.push(text.slice(end));
  return found;
};

const cells = (row) => row.trim().replace(/^\||\|$/g, "").split("|").map((cell) => cell.trim());
const isRule = (row) => /^[\s|:-]+$/.test(row) && row.includes("-");

// {kind, ...}: code, heading, list, quote, table or paragraph
const parse = (text) => {
  const blocks = [];
  const lines = text.split("\n");
  const last = (kind) => (blocks.at(-1)?.kind === kind ? blocks.at(-1) : null);
  const open = (kind, more) => (blocks.push({ kind, lines: [], ...more }), blocks.at(-1));
  for (let at = 0; at < lines.length; at += 1) {
    const line = lines[at];
    const [, fence, , marks, heading, bullet, item, quote, row] = BLOCK.exec(line) || [];
    if (fence) {
      const code = open("code");
      while (++at < lines.length && !lines[at].trimStart().startsWith(fence)) code.lines.push(lines[at]);
    } else if (marks) {
      open("heading", { level: marks.length, lines: [heading] });
    } else if (bullet) {
      const ordered = /\d/.test(bullet);
      const list = last("list");
      (list && list.ordered === ordered ? list : open("list", { ordered, start: parseInt(bullet, 10) })).lines.push(item);
    } else if (quote !== undefined) {
      (last("quote") || open("quote")).lines.push(quote);
    } else if (row) {
      (last("table") || open("table")).lines.push(row);
    } else if (!line.trim()) {
      if (blocks.length) open("gap");
    } else if (last("list") && /^\s{2,}/.test(line)) {
      const list = last("list");
      list.lines[list.lines.length - 1] += `\n${line.trim()}`;
    } else {
      (last("paragraph") || open("paragraph")).lines.push(line);
    }
  }
  return blocks;
};

const draw = (block) => {
  const text = block.lines.join("\n");
  switch (block.kind) {
    case "code":
      return html`<pre tabindex="0"><code>${text}</code></pre>`;
    case "heading":
      return html`<p class="heading h${block.level}">${inline(text)}</p>`;
    case "list": {
      const items = block.lines.map((item) => html`<li>${inline(item)}</li>`);
      return block.ordered ? html`<ol start=${block.start}>${items}</ol>` : html`<ul>${items}</ul>`;
    }
    case "quote":
      return html`<blockquote>${inline(text)}</blockquote>`;
    case "table":
      return html`<div class="wide" tabindex="0"><table>${block.lines
        .filter((row) => !isRule(row))
        .map((row, at) => html`<tr>${cells(row).map((cell) => html`<${at ? "td" : "th"}>${inline(cell)}<//>`)}</tr>`)}</table></div>`;
    case "gap":
      return null;
    default:
      return html`<p>${inline(text)}</p>`;
  }
};

export const Markdown = ({ text }) => {
  const drawn = useMemo(() => (text?.length > LONGEST ? html`<pre tabindex="0">${text}</pre>` : parse(text || "").map(draw)), [text]);
  return html`<div class="text">${drawn}</div>`;
};

export const time = (iso) => {
  if (!iso) return "";
  const at = new Date(iso);
  const today = new Date().toDateString() === at.toDateString();
  const day = at.toLocaleDateString([], { month: "short", day: "numeric" });
  const hour = at.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
  return today ? hour : `${day}, ${hour}`;
};

export const money = (usd) => (usd === null || usd === undefined ? "price unknown" : `$${usd < 0.1 && usd > 0 ? usd.toPrecision(2) : usd.toFixed(2)}`);
export const number = (count) => Number(count).toLocaleString();
export const seconds = (given) => (given < 60 ? `${given.toFixed(1)} s` : given < 3600 ? `${Math.floor(given / 60)} min ${Math.round(given % 60)} s` : `${(given / 3600).toFixed(1)} h`);

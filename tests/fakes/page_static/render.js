"use strict";
// What a platform makes of a message: only nodes of our own making, never HTML of somebody else's.

const el = (name, children = [], props = {}) => {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(props)) node.setAttribute(key, value);
  node.append(...children);
  return node;
};
const link = (href, children) => el("a", children, { href, target: "_blank", rel: "noreferrer", title: href });
const spoiler = children => {
  const node = el("span", children, { class: "spoiler" });
  node.onclick = () => node.classList.toggle("seen");
  return node;
};
const pre = (text, lang) => el("pre", [el("code", lang === "diff" ? changes(text) : [text])], lang ? { "data-lang": lang } : {});
const changes = text => text.split("\n").flatMap((line, at) => {
  const kind = { "+": "plus", "-": "minus", "@": "at" }[line[0]];
  return [at ? "\n" : "", kind ? el("span", [line], { class: kind }) : line];
});

// Text by rules, the earliest match first: each rule is [expression, found => node].
function inline(text, rules) {
  const nodes = [];
  while (text) {
    let best = null, make = null;
    for (const [expression, build] of rules) {
      const found = expression.exec(text);
      if (found && (!best || found.index < best.index)) [best, make] = [found, build];
    }
    if (!best) { nodes.push(text); break; }
    if (best.index) nodes.push(text.slice(0, best.index));
    nodes.push(make(best));
    text = text.slice(best.index + best[0].length);
  }
  return nodes;
}
const URLS = [[/https?:\/\/[^\s<>]*[^\s<>.,:;"')\]!?*_]/, found => link(found[0], [found[0]])]];

// ------------------------------------------------------------------------------------------------ Telegram: a few tags of HTML
const TAGS = { B: "b", STRONG: "b", I: "i", EM: "i", U: "u", INS: "u", S: "s", STRIKE: "s", DEL: "s", CODE: "code" };
function telegram(markup, text) {
  const parsed = new DOMParser().parseFromString(`<body>${markup.replace(/^\s+/, "")}`, "text/html").body;
  const squeezed = value => value.replace(/\s+/g, "");
  if (squeezed(parsed.textContent) !== squeezed(text)) return inline(text, URLS);
  return closedUp([...parsed.childNodes].flatMap(fromTelegram));
}
// A block stands on lines of its own: the line break after it is part of it.
function closedUp(nodes) {
  return nodes.map((node, at) => {
    const above = at ? nodes[at - 1] : null;
    return typeof node === "string" && /^(PRE|BLOCKQUOTE)$/.test(above?.tagName) ? node.replace(/^\n/, "") : node;
  });
}
function fromTelegram(node) {
  if (node.nodeType === Node.TEXT_NODE) return inline(node.data, URLS);
  const children = [...node.childNodes].flatMap(fromTelegram);
  if (TAGS[node.tagName]) return [el(TAGS[node.tagName], children)];
  switch (node.tagName) {
    case "A": return /^(https?|mailto|tg):/.test(node.getAttribute("href") || "") ? [link(node.getAttribute("href"), children)] : children;
    case "PRE": return [pre(node.textContent, (node.firstElementChild?.className || "").replace("language-", ""))];
    case "TG-SPOILER": return [spoiler(children)];
    case "BLOCKQUOTE": {
      const quote = el("blockquote", children, node.hasAttribute("expandable") ? { class: "folded" } : {});
      quote.onclick = () => quote.classList.toggle("folded", node.hasAttribute("expandable") && !quote.classList.contains("folded"));
      return [quote];
    }
    default: return children;
  }
}

// ------------------------------------------------------------------------------------------------ Slack: mrkdwn
const unescaped = text => text.replace(/&lt;/g, "<").replace(/&gt;/g, ">").replace(/&amp;/g, "&");
const EDGE = "(?<![\\p{L}\\p{N}])", END = "(?![\\p{L}\\p{N}])";
const around = sign => new RegExp(`${EDGE}[${sign}](?=[^\\s${sign}])([^\\n]*?[^\\s])[${sign}]${END}`, "u");
const SLACK = [
  [/`([^`\n]+)`/, found => el("code", [unescaped(found[1])])],
  [/<(https?:[^|>]+|mailto:[^|>]+)(?:\|([^>]*))?>/, found => link(unescaped(found[1]), [unescaped(found[2] || found[1])])],
  [/<([@#!])([^|>]+)(?:\|([^>]*))?>/, found => el("span", [`${found[1] === "#" ? "#" : "@"}${found[3] || (found[1] === "!" ? found[2] : "…")}`], { class: "mention", title: found[0] })],
  [around("*"), found => el("b", inline(found[1], SLACK))],
  [around("_"), found => el("i", inline(found[1], SLACK))],
  [around("~"), found => el("s", inline(found[1], SLACK))],
  [/&(?:lt|gt|amp);/, found => unescaped(found[0])],
];
const slack = markup => blocks(markup, /^(?:>|&gt;) ?/, line => inline(line, SLACK), () => null, false);

// ------------------------------------------------------------------------------------------------ Discord: its markdown
const DISCORD = [
  [/\\([\\*_~`|#>\-+.\[\]()<@])/, found => found[1]],
  [/(`+)(?!`)([^]*?[^`])\1(?!`)/, found => el("code", [found[2].replace(/^ (.*) $/s, "$1")])],
  [/\[((?:[^\[\]\n]|\\.)+)\]\(<?(https?:\/\/[^\s)>]+)>?\)/, found => link(found[2], inline(found[1], DISCORD))],
  [/<(https?:\/\/[^\s>]+)>/, found => link(found[1], [found[1]])],
  [/https?:\/\/[^\s<>]*[^\s<>.,:;"')\]!?]/, found => link(found[0], [found[0]])],
  [/<(@[!&]?|#)\d+>|@everyone|@here/, found => el("span", [found[0].replace(/^<([@#]).*/, "$1…")], { class: "mention", title: found[0] })],
  [/\|\|([^]+?)\|\|/, found => spoiler(inline(found[1], DISCORD))],
  [/\*\*((?:\\.|[^])+?)\*\*(?!\*)/, found => el("b", inline(found[1], DISCORD))],
  [/__((?:\\.|[^])+?)__(?!_)/, found => el("u", inline(found[1], DISCORD))],
  [/~~((?:\\.|[^])+?)~~/, found => el("s", inline(found[1], DISCORD))],
  [/\*(?=\S)((?:\\.|[^*\\])+?)\*/, found => el("i", inline(found[1], DISCORD))],
  [/\b_((?:\\.|[^_\\])+?)_\b/, found => el("i", inline(found[1], DISCORD))],
];
function discordLine(line) {
  const heading = /^(#{1,3}) (.+)/.exec(line);
  if (heading) return el(`h${heading[1].length}`, inline(heading[2], DISCORD));
  const small = /^-# (.+)/.exec(line);
  if (small) return el("small", inline(small[1], DISCORD));
  const item = /^( *)(?:[-*]|(\d+)\.) (.*)/.exec(line);
  if (!item) return null;
  const lead = el("span", [item[2] ? `${item[2]}.` : item[1].length > 1 ? "◦" : "•"]);
  return el("div", [lead, el("span", inline(item[3], DISCORD))], { class: "li", style: `margin-left:${item[1].length * 8}px` });
}
const discord = markup => blocks(markup, /^> /, line => inline(line, DISCORD), discordLine, true);

// ------------------------------------------------------------------------------------------------ both: fences, quotes, lines
function blocks(markup, quoted, line, special, langs) {
  const nodes = [];
  const parts = markup.split("```");
  parts.forEach((part, at) => {
    if (at % 2 && at < parts.length - 1) {
      const [, lang, text] = /^([\w+#-]*)\n?([^]*)$/.exec(langs && /^[\w+#-]+\n/.test(part) ? part : `\n${part.replace(/^\n/, "")}`);
      nodes.push(pre(langs ? text.replace(/\n$/, "") : unescaped(text.replace(/\n$/, "")), lang));
    } else nodes.push(...lined(at % 2 ? "```" + part : part, at, parts.length, quoted, line, special));
  });
  return nodes;
}
function lined(text, at, count, quoted, line, special) {
  const lines = text.split("\n");
  if (at && lines[0] === "") lines.shift();
  if (at < count - 1 && lines.at(-1) === "") lines.pop();
  const nodes = [];
  let quote = null, open = false;
  const add = (target, one) => {
    const block = special(one);
    if (block) { target.append(block); open = false; return; }
    target.append(...(open ? ["\n"] : []), ...line(one));
    open = true;
  };
  const box = document.createDocumentFragment();
  for (const one of lines) {
    if (quoted.test(one)) {
      if (!quote) { quote = el("blockquote"); box.append(quote); open = false; }
      add(quote, one.replace(quoted, ""));
    } else {
      if (quote) { quote = null; open = false; if (one === "") { continue; } }
      add(box, one);
    }
  }
  nodes.push(...box.childNodes);
  return nodes;
}

function rendered(platform, message) {
  if (!message.markup) return inline(message.text, URLS);
  if (platform === "telegram") return telegram(message.markup, message.text);
  if (platform === "slack") return message.markup === message.text ? discord(message.markup) : slack(message.markup);
  return discord(message.markup);
}

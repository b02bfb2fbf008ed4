// Runs as a list with filters, and one run as a tree.

import { html, useEffect, useMemo, useState } from "./vendor/preact.js";
import { address, events, get, post, withQuery } from "./api.js";
import { Action, BUSY, Field, List, Loaded, Problem, Questions, Select, Tag, Taint, useField, useLoad, usePages } from "./parts.js";
import { money, seconds, time } from "./text.js";

const STATES = [["", "all"], "queued", "running", "suspended", "ended", "quarantined", "done", "failed", "cancelled", "over_budget", "max_iterations", "deadline", "stalled", "repeating", "condition", "rejected"];
const PAGE = 50;

const took = (run) => (run.started && run.ended ? seconds((new Date(run.ended) - new Date(run.started)) / 1000) : "");

export const RunRow = ({ one: run }) => html`<a class="card run" href=${address`/runs/${run.turn}`}>
  <span class="words">${run.text || "(no words)"}</span>
  <span class="dim small"><${Tag} name=${run.stop_reason || run.state} /> ${run.session}${run.agent === "default" ? "" : ` · ${run.agent}`} · ${time(run.started)} ${took(run)} · ${money(run.usd)}</span></a>`;

export const Runs = ({ me, place, go }) => (place.rest[0] ? html`<${Run} key=${place.rest[0]} turn=${place.rest[0]} me=${me} step=${place.step} />` : html`<${RunList} place=${place} go=${go} />`);

const RunList = ({ place, go }) => {
  const filters = Object.fromEntries(["session", "agent", "state"].map((name) => [name, place.query.get(name) || ""]));
  const choose = (name) => (chosen) => go(withQuery("/runs", { ...filters, [name]: chosen }));
  return html`<h1>Runs</h1>
    <div class="row"><${Select} label="State" options=${STATES} value=${filters.state} onChange=${(event) => choose("state")(event.target.value)} />
      <${Field} label="Conversation" data-search placeholder="all" value=${filters.session} onChange=${choose("session")} />
      <${Field} label="Agent" placeholder="all" value=${filters.agent} onChange=${choose("agent")} /></div>
    <${FilteredRuns} key=${JSON.stringify(filters)} filters=${filters} />`;
};

const FilteredRuns = ({ filters }) => {
  const { more, ...runs } = usePages((query) => get("/v1/runs", { ...filters, limit: PAGE, ...query }), PAGE, "turn");
  return html`<${List} ...${runs} empty="No run fits." as=${RunRow} by="turn" />
    ${more && html`<p class="row"><${Action} run=${more}>More<//></p>`}`;
};

const words = (node) => node.spans.map(([text]) => text).join("");
const OPEN_AT_FIRST = 40;

// The nodes that are seen, in order: {node, id, parents, open}; `parents`: the ids of those above it.
const flatten = (root, isOpen, parents = []) =>
  (root.nodes || []).flatMap((node, at) => {
    const id = `${parents.at(-1) ?? "n"}.${at}`;
    const open = isOpen(id, node, parents.length + 1);
    return [{ node, id, parents, open }, ...(open ? flatten(node, isOpen, [...parents, id]) : [])];
  });

const markdown = (node, depth = 0) => `${"  ".repeat(depth)}- ${words(node).trim().split("\n").join(`\n${"  ".repeat(depth + 1)}`)}\n${(node.nodes || []).map((inner) => markdown(inner, depth + 1)).join("")}`;

const save = (name, text, kind) => {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: kind }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
};

const Row = ({ row, at, top, turn, current, onToggle, onPick }) => {
  const { node, parents, open } = row;
  const [whole, setWhole] = useState(null);
  const show = async (event) => {
    event.stopPropagation();
    const [line] = await get(address`/v1/runs/${turn}/transcript`, { after: node.seq - 1, limit: 1 });
    setWhole(JSON.stringify(line, null, 2));
  };
  const bar = (value, most, name, text) => value > 0 && most > 0 && html`<span class=${`bar ${name}`} title=${text} role="img" aria-label=${text}><i style=${{ width: `${Math.max(2, (100 * value) / most)}%` }}></i></span>`;
  return html`<div role="treeitem" id=${row.id} aria-level=${parents.length + 1} aria-expanded=${node.nodes ? String(open) : null} aria-selected=${String(current)} tabindex=${current ? 0 : -1}
      class=${`node ${node.tainted ? "tainted" : ""}`} style=${{ paddingLeft: `${parents.length * 1.1}rem` }} onClick=${() => (onPick(at), node.nodes && onToggle(row.id, !open))}>
    <span class="mark" aria-hidden="true">${node.nodes ? (open ? "▾" : "▸") : "·"}</span>
    <span class="body">${node.spans.map(([text, tone]) => html`<span class=${tone}>${text}</span>`)}
      ${node.tainted && html` <${Tag} name="untrusted" title="here the run read something that strangers wrote" />`}
      ${node.turn && node.turn !== turn && html` <a href=${address`/runs/${node.turn}`}>open</a>`}
      ${node.cut && whole === null && html` <button class="link" onClick=${show}>whole</button>`}
      ${bar(node.seconds, top.seconds, "time", node.seconds && seconds(node.seconds))}${bar(node.usd, top.usd, "cost", node.usd && money(node.usd))}
      ${whole && html`<pre tabindex="0">${whole}</pre>`}</span></div>`;
};

const Tree = ({ turn, root, step, actions }) => {
  const [changed, setChanged] = useState({});
  const [current, setCurrent] = useState(0);
  const [query, field] = useField();
  const many = (root.nodes || []).length > OPEN_AT_FIRST;
  const isOpen = (id, node, level) => changed[id] ?? (level === 1 ? !many : level === 2 ? false : node.kind !== "ToolFinished" || level < 4);
  const rows = useMemo(() => flatten(root, isOpen), [root, changed]);
  const all = useMemo(() => flatten(root, () => true), [root]);
  const top = useMemo(() => {
    const most = (name) => all.reduce((found, { node }) => Math.max(found, node[name] || 0), root[name] || 0);
    return { seconds: most("seconds"), usd: most("usd") };
  }, [all]);
  const toggle = (id, open) => setChanged((before) => ({ ...before, [id]: open }));
  const pick = (at) => {
    setCurrent(at);
    const seq = rows[at]?.node.seq;
    if (seq) history.replaceState(null, "", `${location.pathname}#${seq}`);
  };
  const focus = (id) => requestAnimationFrame(() => {
    const element = document.getElementById(id);
    element?.focus();
    element?.scrollIntoView({ block: "nearest" });
  });
  const reveal = ({ id, parents }) => {
    const opened = { ...changed, ...Object.fromEntries(parents.map((one) => [one, true])) };
    setChanged(opened);
    setCurrent(flatten(root, (one, node, level) => opened[one] ?? isOpen(one, node, level)).findIndex((row) => row.id === id));
    focus(id);
  };
  useEffect(() => {
    const row = step && all.find(({ node }) => String(node.seq) === step);
    if (row) reveal(row);
  }, [step]);
  const search = (event) => {
    if (event.key !== "Enter" || !query) return;
    const now = all.findIndex((row) => row.id === rows[current]?.id) + 1;
    const next = [...all.slice(now), ...all.slice(0, now)].find(({ node }) => words(node).toLowerCase().includes(query.toLowerCase()));
    if (next) reveal(next);
  };
  const key = (event) => {
    const row = rows[current];
    if (event.target.getAttribute("role") !== "treeitem" || !row) return;
    const move = (at) => {
      if (!rows[at]) return;
      pick(at);
      focus(rows[at].id);
    };
    const flip = () => toggle(row.id, !row.open);
    const parent = () => rows.findIndex((one) => one.id === row.parents.at(-1));
    const keys = {
      ArrowDown: () => move(current + 1),
      ArrowUp: () => move(current - 1),
      ArrowRight: () => (row.node.nodes && !row.open ? flip() : move(current + 1)),
      ArrowLeft: () => (row.node.nodes && row.open ? flip() : move(parent())),
      Home: () => move(0),
      End: () => move(rows.length - 1),
      Enter: () => row.node.nodes && flip(),
    };
    if (keys[event.key]) {
      event.preventDefault();
      keys[event.key]();
    }
  };
  return html`<div class="row"><input data-search aria-label="Search in this run" placeholder="Search in this run" ...${field} onKeyDown=${search} />
      ${actions}<button onClick=${() => save(`${turn}.md`, `# Run ${turn}\n\n${markdown(root)}`, "text/markdown")}>Markdown</button></div>
    <div role="tree" aria-label="Steps" class="tree" onKeyDown=${key}>
      ${rows.map((row, at) => html`<${Row} key=${row.id} row=${row} at=${at} top=${top} turn=${turn} current=${at === current} onToggle=${toggle} onPick=${pick} />`)}</div>`;
};

const Run = ({ turn, me, step }) => {
  const path = address`/v1/runs/${turn}`;
  const load = async () => {
    const [run, tree, asked] = await Promise.all([get(path), get(`${path}/tree`), get("/v1/approvals")]);
    return { run, tree, asked: asked.filter((one) => one.turn === turn) };
  };
  const { found, error, again } = useLoad(load, [turn]);
  const busy = found && BUSY.includes(found.run.state);
  useEffect(() => {
    if (!busy) return undefined;
    const stop = new AbortController();
    let due = 0;
    (async () => {
      for await (const event of events(turn, stop.signal)) {
        if (event.event === "model.delta" || due) continue;
        due = setTimeout(() => ((due = 0), again()), 300);
      }
      again();
    })().catch(again);
    return () => (stop.abort(), clearTimeout(due));
  }, [turn, busy]);
  const exported = async () => save(`${turn}.json`, JSON.stringify({ run: found.run, events: await get(`${path}/transcript`) }, null, 2), "application/json");
  if (!found) return html`<h1>Run</h1><${Loaded} found=${found} error=${error} />`;
  const { run } = found;
  return html`<h1>Run <code>${run.turn}</code></h1>
    <p><${Tag} name=${run.state} /> <${Tag} name=${run.stop_reason} /> <${Taint} label=${run.label} title=${run.tainted} />
      ${" "}<a href=${address`/chat/${run.session}`}>${run.session}</a> · ${time(run.started)} ${took(run)} · ${run.iterations === 1 ? "1 iteration" : `${run.iterations} iterations`} · ${money(run.tree.usd)}
      ${run.parent && html` · for <a href=${address`/runs/${run.parent}`}>${run.parent}</a>`}</p>
    ${run.tainted && html`<p class="bad">Untrusted since ${run.tainted}</p>`}
    <${Problem} error=${error} />
    <${Questions} asked=${found.asked} me=${me} onAnswer=${again} />
    <${Tree} turn=${turn} root=${found.tree} step=${step} actions=${html`
      ${busy && me.may("work") && html`<${Action} kind="danger" run=${() => post(`${path}/cancel`)} then=${again}>Stop<//>`}
      <${Action} run=${exported}>JSON<//>`} />`;
};

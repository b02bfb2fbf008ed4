// What waits for you, what ran, what it cost, what is due.

import { html } from "./vendor/preact.js";
import { address } from "./api.js";
import { List, Loaded, Problem, Questions, useGet } from "./parts.js";
import { RunRow } from "./runs.js";
import { money, number, time } from "./text.js";

const DAY_MS = 86400000;

export const Budget = ({ costs }) => {
  const lines = [["money", costs.today_usd, costs.max_usd, money], ["tokens", costs.today_tokens, costs.max_tokens, number]];
  return lines.map(([name, used, most, show]) => html`<p class="meter"><span>${name} today: ${show(used)}${most ? ` of ${show(most)}` : ", no limit"}</span>
    ${most > 0 && html`<span class="line" role="img" aria-label=${`${Math.round((100 * used) / most)} % used`}><i class=${used >= most ? "full" : ""} style=${{ width: `${Math.min(100, (100 * used) / most)}%` }}></i></span>`}</p>`);
};

const Due = ({ one }) => html`<li><strong>${time(one.due)}</strong> <a href="/work">${one.name}</a> <span class="dim">${one.prompt.slice(0, 120)}</span></li>`;

export const Today = ({ me }) => {
  const asked = useGet("/v1/approvals", 5000);
  const runs = useGet("/v1/runs?limit=200", 10000);
  const costs = useGet(me.role !== "guest" && "/v1/costs?days=1", 30000);
  const due = useGet(me.may("manage") && "/v1/schedules", 30000);
  const loops = useGet("/api/loops", 10000);
  const soon = due.found?.filter((one) => one.due && new Date(one.due) - Date.now() < DAY_MS).sort((a, b) => (a.due < b.due ? -1 : 1));
  const today = runs.found?.filter((run) => !run.parent && (!run.started || Date.now() - new Date(run.started) < DAY_MS));
  const reviews = (loops.found || []).filter((loop) => loop.review);
  return html`<h1>Today</h1>
    <h2>Waits for you</h2>
    <${Loaded} ...${asked} empty=${reviews.length ? "" : "Nothing waits for you."}><${Questions} asked=${asked.found} me=${me} onAnswer=${asked.again} /><//>
    ${reviews.map((loop) => html`<p class="card"><a href="/loops">The loop of ${loop.agent}</a> waits: ${loop.review}</p>`)}
    <h2>Cost</h2><${Problem} error=${costs.error} />${costs.found?.models && html`<${Budget} costs=${costs.found} />`}
    <h2>Due within a day</h2>
    <${List} items found=${soon} error=${due.error} empty="Nothing is due." as=${Due} />
    <h2>Ran</h2>
    <${List} found=${today} error=${runs.error} empty="Nothing ran today." as=${RunRow} by="turn" />`;
};

const Bars = ({ rows, name }) => {
  const most = Math.max(...rows.map((row) => row.usd || 0), 0);
  return html`<div class="wide" tabindex="0"><table><tr><th>${name}</th><th>Cost</th><th>Tokens</th><th>Calls</th><th><span class="hide">Share</span></th></tr>
    ${rows.map((row) => html`<tr><td>${row.name === "" ? "those that are gone" : name === "Conversation" ? html`<a href=${address`/runs?session=${row.name}`}>${row.name}</a>` : row.name}</td><td>${money(row.usd)}</td><td>${number(row.tokens)}</td><td>${number(row.calls)}</td>
      <td>${most > 0 && html`<span class="bar cost" aria-hidden="true"><i style=${{ width: `${(100 * (row.usd || 0)) / most}%` }}></i></span>`}</td></tr>`)}</table></div>`;
};

export const Cost = () => {
  const loaded = useGet("/v1/costs?days=30", 60000);
  const costs = loaded.found;
  return html`<h1>Cost</h1><${Loaded} ...${loaded}>${costs && html`
    <${Budget} costs=${costs} />
    <h2>By day</h2><${Bars} name="Day" rows=${[...costs.days].reverse()} />
    <h2>By model</h2><${Bars} name="Model" rows=${costs.models} />
    <h2>By conversation</h2><${Bars} name="Conversation" rows=${costs.sessions} />`}<//>`;
};

const Parts = ({ states, none: empty }) => {
  const rows = Object.entries(states);
  return rows.length ? html`<ul class="plain">${rows.map(([name, problem]) => html`<li><span class=${problem ? "bad" : "good"}>${problem ? "✗" : "✓"}</span> <strong>${name}</strong> ${problem || "works"}</li>`)}</ul>` : html`<p class="dim">${empty}</p>`;
};

export const Health = () => {
  const loaded = useGet("/v1/status", 10000);
  const { found } = loaded;
  return html`<h1>Health</h1><${Loaded} ...${loaded}>${found && html`
    <p>${found.problems.length ? html`<span class="bad">Problems: ${found.problems.length}</span>` : html`<span class="good">All is well.</span>`} Version ${found.version}.${" "}
      ${found.snapshot ? `The newest backup is of ${time(found.snapshot)}.` : "There is no backup yet."}</p>
    ${[...found.problems, ...found.notes].map((line) => html`<p class="card">${line}</p>`)}
    <h2>Channels</h2><${Parts} states=${found.channels} none="No chat platform is connected." />
    <h2>MCP servers</h2><${Parts} states=${found.servers} none="No MCP server is configured." />
    <h2>Models</h2><ol>${found.models.map((model) => html`<li>${model}</li>`)}</ol>`}<//>`;
};

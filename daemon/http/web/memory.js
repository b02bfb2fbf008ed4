// What is remembered and was said; grants, rules and approvals; people.

import { html, useState } from "./vendor/preact.js";
import { address, post, remove } from "./api.js";
import { Action, Buttons, Card, List, Loaded, Questions, Select, Taint, useField, useGet } from "./parts.js";
import { Markdown, time } from "./text.js";

const SIGNALS = { fact: "kept as a fact", words: "its words", alone: "its meaning", window: "its passage", sitting: "its conversation", beside: "its neighbours", speaker: "who said it", date: "its day", when: "tells a time", asks: "it only asks" };

const Hit = ({ one: hit }) => html`<li class="card"><${Markdown} text=${hit.text} />
  <p class="dim small">${hit.speaker || "remembered"} · ${hit.session} · ${time(hit.at)} <${Taint} label=${hit.label} /></p>
  <p class="small" aria-label="Why it was found">why: ${Object.entries(hit.why).map(([name, part]) => html`<span class="tag">${SIGNALS[name] || name} ${Number(part).toFixed(2)}</span> `)}</p></li>`;

const Fact = ({ one: fact, reload, waits }) => {
  const path = address`/v1/memories/${fact.id}`;
  return html`<li class="card"><${Markdown} text=${fact.text} /><p class="dim small">${fact.source || ""} · ${time(fact.at)}</p>
    <${Buttons} of=${waits ? [["Keep", () => post(`${path}/approve`), "main"], ["Reject", () => post(`${path}/reject`), "danger"]] : [["Forget", () => remove(path), "danger"]]} then=${reload} /></li>`;
};

export const Memory = ({ place, go }) => {
  const query = place.query.get("q") || "";
  const [text, field] = useField(query);
  const hits = useGet(query && address`/v1/memories/search?query=${query}&limit=20`);
  const facts = useGet("/v1/memories?limit=200");
  const waiting = useGet("/v1/memories?waiting=1");
  const again = () => (facts.again(), waiting.again());
  return html`<h1>Memory</h1>
    <form class="row" role="search" onSubmit=${(event) => (event.preventDefault(), go(address`/memory?q=${text}`))}>
      <input data-search class="grow" aria-label="Search memory" placeholder="What do you look for?" ...${field} /><button class="main">Search</button></form>
    ${query && html`<h2>Found</h2><${List} items ...${hits} empty="Nothing that fits was said or is remembered." as=${Hit} />`}
    ${waiting.found?.length > 0 && html`<h2>Waits for your yes</h2><${List} items found=${waiting.found} as=${Fact} again=${again} waits />`}
    <h2>Remembered</h2><${List} items ...${facts} empty="Nothing is remembered yet." as=${Fact} again=${again} />`;
};

const Grant = ({ one, me, reload }) => html`<section class="card" aria-label=${`Permission ${one.id}`}><strong><code>${one.tool}</code></strong> ${one.session ? `in ${one.session}` : "everywhere"}
  <pre tabindex="0">${one.paths || one.arguments}</pre><p class="dim small">by ${one.granted_by}, ${time(one.created)}${one.expires ? `, until ${time(one.expires)}` : ""}; used ${one.uses} times${one.uses_left === null ? "" : `, ${one.uses_left} left`}</p>
  ${me.may("answer") && html`<${Action} kind="danger" run=${() => remove(address`/v1/grants/${one.id}`)} then=${reload}>Take back<//>`}</section>`;

const Rule = ({ one, manage, reload }) => {
  const path = address`/v1/rules/${one.id}`;
  const buttons = manage && [!one.confirmed && ["That is right", () => post(`${path}/confirm`)], ["Remove", () => remove(path), "danger"]];
  return html`<${Card} label=${`Rule ${one.id}`} title=${one.said} tag=${!one.confirmed && "not confirmed"} buttons=${buttons} then=${reload}>
    <p class="dim small">is read as: ${one.reading}${one.session ? ` (in ${one.session})` : ""}</p><//>`;
};

export const Trust = ({ me }) => {
  const asked = useGet("/v1/approvals", 5000);
  const grants = useGet("/v1/grants", 15000);
  const rules = useGet("/v1/rules", 15000);
  const [sentence, field, setSentence] = useField();
  const [said, setSaid] = useState("");
  const manage = me.may("manage");
  const add = async () => {
    const answer = await post("/v1/messages", { text: `/rules add ${sentence}` });
    setSaid(answer.reply);
    setSentence("");
    rules.again();
  };
  return html`<h1>Permissions</h1>
    <h2>Questions</h2><${Loaded} ...${asked} empty="Nothing is asked."><${Questions} asked=${asked.found} me=${me} onAnswer=${() => (asked.again(), grants.again())} /><//>
    <h2>Standing permissions</h2><${List} ...${grants} empty="There are none: each effect is asked about." as=${Grant} me=${me} />
    <h2>Rules</h2>${manage && html`<div class="row"><input class="grow" aria-label="A rule in your words" placeholder="always ask before anything is sent" ...${field} /><${Action} run=${add}>Add<//></div>${said && html`<pre role="status">${said}</pre>`}`}
    <${List} ...${rules} empty="There are no rules." as=${Rule} manage=${manage} />`;
};

const ROLES = ["viewer", "editor", "admin", "guest", "owner"];

const Person = ({ one: { name, role, since }, reload }) => html`<${Card} title=${name} tag=${role} buttons=${[["Remove", () => post("/v1/people/remove", { name }), "danger"]]} then=${reload}>
  <span class="dim">since ${time(since)}</span><//>`;

export const People = () => {
  const people = useGet("/v1/people");
  const [role, field] = useField("editor");
  const [code, setCode] = useState(null);
  return html`<h1>People</h1><div class="row"><${Select} label="Role" options=${ROLES} ...${field} />
      <${Action} kind="main" run=${async () => setCode(await post("/v1/people/codes", { role }))}>Make a code<//></div>
    ${code && html`<p role="status" class="card"><code>${code.code}</code>: whoever sends the assistant <code>/pair ${code.code}</code> first, until ${time(code.expires)}, is ${code.role} here. Give it to nobody else.</p>`}
    <${List} ...${people} empty="Nobody was paired by a code." as=${Person} by="name" />`;
};

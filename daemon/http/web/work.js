// Schedules, goals, and loops with their rings.

import { html, useEffect, useState } from "./vendor/preact.js";
import { address, post, remove } from "./api.js";
import { ask, isLive, listen } from "./live.js";
import { Action, Buttons, Card, List, Problem, Select, Tag, useField, useGet } from "./parts.js";
import { Markdown, money, time } from "./text.js";

const RULES = [["every day at 8:00", "each day"], ["every 2h", "every two hours"], ["tomorrow at 9:00", "once"]];

const Schedule = ({ one, may, reload }) => {
  const path = address`/v1/schedules/${one.name}`;
  const change = (verb) => () => post(`${path}/change`, { verb });
  const buttons = may && !one.lane && [
    ["Run now", change("run")],
    one.state === "paused" ? ["Resume", change("resume")] : one.state === "active" && ["Pause", change("pause")],
    ["Remove", () => remove(path), "danger"],
  ];
  return html`<${Card} title=${one.name} tag=${one.state} buttons=${buttons} then=${reload}>${one.due && html`<span class="dim">next ${time(one.due)}</span>`}
    <p>${one.prompt}</p><p class="dim small">${one.rule}${one.zone ? ` (${one.zone})` : ""} · in ${one.session}${one.trouble ? html` · <span class="bad">${one.trouble}</span>` : ""}</p><//>`;
};

const NewSchedule = ({ reload }) => {
  const [rule, ruleField] = useField();
  const [prompt, promptField, setPrompt] = useField();
  const [remind, setRemind] = useState(false);
  const [said, setSaid] = useState("");
  const add = async () => {
    const answer = await post("/v1/schedules", { rule, prompt, remind, session: "web:default" });
    setSaid(answer.said);
    setPrompt("");
    reload();
  };
  return html`<details class="card"><summary>New schedule</summary>
    <p><label>When <input list="rules" placeholder="every day at 8:00" ...${ruleField} /></label>
      <datalist id="rules">${RULES.map(([value, words]) => html`<option value=${value}>${words}</option>`)}</datalist></p>
    <p><label>What is to be done<br /><textarea rows="2" class="full" ...${promptField}></textarea></label></p>
    <p><label><input type="checkbox" checked=${remind} onChange=${(e) => setRemind(e.target.checked)} /> only remind me of it</label></p>
    <${Action} kind="main" run=${add}>Schedule it<//>${said && html`<p role="status">${said}</p>`}</details>`;
};

const Goal = ({ one: goal, may, reload }) => {
  const change = (verb) => () => post(address`/v1/goals/${goal.id}/change`, { verb });
  const [active, paused] = [goal.state === "active", goal.state === "paused"];
  const buttons = may && [
    active && ["Run now", change("run")],
    active ? ["Pause", change("pause")] : paused && ["Resume", change("resume")],
    (active || paused) && ["Stop", change("stop"), "danger"],
  ];
  return html`<${Card} label=${`Goal ${goal.id}`} title=${goal.text} tag=${goal.state} buttons=${buttons} then=${reload}>
    <p class="dim small">${money(goal.spent)} of ${money(goal.usd)}${goal.due ? ` · next ${time(goal.due)}` : ""}${goal.note ? ` · ${goal.note}` : ""}</p>
    ${goal.todos?.length > 0 && html`<ul class="plan">${goal.todos.map((item) => html`<li class=${item.state}>${item.text}</li>`)}</ul>`}<//>`;
};

export const Work = ({ me }) => {
  const may = me.may("manage");
  const { found, error, again } = useGet("/v1/schedules", 10000);
  const goals = useGet("/v1/goals", 10000);
  const shown = found?.filter((one) => !["removed", "over"].includes(one.state));
  return html`<h1>Schedules and goals</h1>${may && html`<${NewSchedule} reload=${again} />`}
    <${List} found=${shown} error=${error} empty="Nothing is scheduled." as=${Schedule} may=${may} again=${again} />
    <h2>Goals</h2><${List} ...${goals} empty="There are no goals. Say /goal in the chat to set one." as=${Goal} may=${may} />`;
};

const RING = 2 * Math.PI * 18;

// Appears with the first reported iteration, pulses at each, and goes when the loop has ended.
const Ring = ({ loop }) => {
  const reported = loop.progressLog.length;
  if (!reported || loop.ended) return null;
  const part = Math.min(1, reported / loop.maxIterations);
  return html`<span class="ring" key=${reported} role="img" aria-label=${`iteration ${reported} of ${loop.maxIterations}`}>
    <svg viewBox="0 0 44 44" width="44" height="44" aria-hidden="true"><circle cx="22" cy="22" r="18" class="back" /><circle cx="22" cy="22" r="18" class="front" stroke-dasharray=${`${part * RING} ${RING}`} transform="rotate(-90 22 22)" /></svg>
    <span class="badge">${reported}/${loop.maxIterations}</span></span>`;
};

// Loops loaded anew whenever the live socket tells something; whether it is connected.
const useLive = (reload) => {
  const [live, setLive] = useState(isLive());
  useEffect(() => listen((message) => (setLive(isLive()), message.type !== "notification" && reload())), []);
  return live;
};

const Loop = ({ one: loop, me, reload }) => {
  const act = (verb, body) => () => post(address`/api/agents/${loop.agent}/loop/${verb}`, body);
  const review = (approved) => act("approve", { loopId: loop.loopId, approved });
  return html`<section class="card loop" aria-label=${`Loop of ${loop.agent}`}><div class="row"><${Ring} loop=${loop} />
      <span><strong>${loop.agent}</strong> <${Tag} name=${loop.status} /> <span class="dim small">${loop.criteria.type}${loop.criteria.value ? `: ${loop.criteria.value}` : ""} · ${time(loop.started)}</span><br />${loop.message}</span></div>
    ${loop.review && html`<div class="question"><p class="ask">${loop.review}</p><${Markdown} text=${loop.attempts.at(-1)?.output} />
      ${me.may("work") && html`<${Buttons} of=${[["Approve", review(true), "main"], ["Reject", review(false), "danger"]]} then=${reload} />`}</div>`}
    ${loop.error && html`<p class="bad">${loop.error}</p>`}
    <details><summary>Attempts: ${loop.attempts.length}</summary><ol>${loop.attempts.map((one) => html`<li><a href=${address`/runs/${one.turn}`}>${one.state}</a> ${one.output && html`<${Markdown} text=${one.output} />`}</li>`)}</ol>
      ${loop.progressLog.length > 0 && html`<ul>${loop.progressLog.map((line) => html`<li>${line}</li>`)}</ul>`}</details>
    ${!loop.ended && me.may("work") && html`<${Buttons} of=${[loop.status === "paused" && !loop.review ? ["Resume", act("resume")] : ["Pause", act("pause")], ["Stop", act("stop"), "danger"]]} then=${reload} />`}</section>`;
};

const CRITERIA = [["max_iterations", "at the last attempt"], ["regex", "when a pattern fits"], ["test_pass", "when a command succeeds"], ["manual", "when a person says yes"]];

const Settings = ({ agent, me, reload, busy }) => {
  const [draft, setDraft] = useState(agent.loop);
  const [message, messageField, setMessage] = useField();
  const may = me.may("manage");
  // The attributes of the field of one setting; `as`: the property that holds it.
  const field = (name, as = "value") => ({ disabled: !may, [as]: draft[name], onInput: (event) => setDraft({ ...draft, [name]: event.target[as] }) });
  const save = () => post(address`/api/agents/${agent.name}/loop/settings`, { ...draft, max_iterations: Number(draft.max_iterations) });
  const start = async () => {
    await ask("loop:start", { agent: agent.name, message }); // it ends when all pages are closed
    setMessage("");
    reload();
  };
  const named = ["regex", "test_pass"].includes(draft.criterion);
  return html`<section class="card" aria-label=${`Agent ${agent.name}`}><h2>${agent.name}</h2>
    ${agent.fault && html`<p class="bad">${agent.fault}</p>`}${agent.warnings.map((line) => html`<p class="warn">${line}</p>`)}
    <details><summary>Loop settings: ${agent.loop.enabled ? "on" : "off"}</summary>
      <p><label><input type="checkbox" role="switch" ...${field("enabled", "checked")} /> it may be looped</label></p>
      <p><${Select} label="It is done" options=${CRITERIA} ...${field("criterion")} /></p>
      ${named && html`<p><label>${draft.criterion === "regex" ? "Pattern" : "Command"} <input class="full" ...${field("value")} /></label></p>`}
      <p><label>Attempts at most: ${draft.max_iterations} <input type="range" min="1" max="100" ...${field("max_iterations")} /></label></p>
      ${may && html`<${Action} kind="main" run=${save} then=${reload}>Save<//>`}</details>
    ${agent.loop.enabled && !busy && me.may("work") && html`<div class="row"><input class="grow" aria-label=${`Task for ${agent.name}`} placeholder="What is to be done, again and again" ...${messageField} /><${Action} kind="main" run=${start}>Start<//></div>`}
    ${busy && html`<p class="dim">A loop of this agent runs.</p>`}</section>`;
};

export const Loops = ({ me }) => {
  const loops = useGet("/api/loops", 15000);
  const agents = useGet(me.may("work") && "/api/agents");
  const live = useLive(loops.again);
  return html`<h1>Loops</h1>${!live && html`<p class="dim small">Not connected live; looked at every 15 s.</p>`}
    <${List} ...${loops} empty="No loop has run." as=${Loop} by="loopId" me=${me} />
    <h2>Agents</h2><${Problem} error=${agents.error} />
    ${(agents.found || []).map((agent) => html`<${Settings} key=${agent.name + JSON.stringify(agent.loop)} agent=${agent} me=${me} reload=${() => (agents.again(), loops.again())} busy=${(loops.found || []).some((loop) => loop.agent === agent.name && !loop.ended)} />`)}`;
};

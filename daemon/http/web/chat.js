// A conversation: what was said, what runs, and a place to write.

import { html, useEffect, useReducer, useRef, useState } from "./vendor/preact.js";
import { address, events, get, post, upload } from "./api.js";
import { Action, BUSY, List, Problem, Questions, Select, Tag, Taint, onVisibility, pretty, useLoad, usePages } from "./parts.js";
import { Markdown, time } from "./text.js";

const NEW = { draft: "", steps: [], asked: 0, ended: null };

// What the events of a run come to.
const follow = (state, { event, data }) => {
  const { steps } = state;
  const change = (more) => ({ ...state, steps: steps.map((step) => (step.id === data.call_id ? { ...step, ...more } : step)) });
  const add = (step) => ({ ...state, draft: "", steps: [...steps, step] });
  switch (event) {
    case "model.delta":
      return { ...state, draft: state.draft + data.text };
    case "model.reset":
      return { ...state, draft: "" };
    case "model.response":
      return data.tool_calls && data.text ? add({ kind: "text", text: data.text }) : { ...state, draft: data.tool_calls ? "" : data.text };
    case "tool_call":
      return add({ kind: "call", id: data.call_id, tool: data.tool, arguments: data.arguments, state: "queued", output: "" });
    case "tool.started":
      return change({ state: "running" });
    case "tool.output":
      return change({ output: (steps.find((step) => step.id === data.call_id)?.output ?? "") + data.text });
    case "tool_result":
      return change({ state: data.is_error ? "failed" : "done", output: data.text });
    case "approval.asked":
      return { ...change({ state: "suspended" }), asked: state.asked + 1 };
    case "approval.answered":
      return { ...state, asked: state.asked + 1 };
    case "steered":
      return add({ kind: "said", text: data.text });
    case "coached":
    case "alarm":
      return add({ kind: "note", text: data.text });
    case "model.retry":
      return add({ kind: "note", text: `${data.message}; trying ${data.next_model || "again"}` });
    case "agent.started":
      return add({ kind: "agent", turn: data.turn, agent: data.agent, text: data.task });
    case "todos":
      return { ...state, steps: [...steps.filter((step) => step.kind !== "plan"), { kind: "plan", items: data.items }] };
    case "again":
      return NEW;
    case "run.completed":
      return { ...state, draft: "", ended: data };
    default:
      return state;
  }
};

const Step = ({ step }) => {
  if (step.kind === "call") {
    return html`<details class="step"><summary><code>${step.tool}</code> <${Tag} name=${step.state} /></summary>
      <pre tabindex="0">${pretty(step.arguments)}</pre>${step.output && html`<pre tabindex="0">${step.output}</pre>`}</details>`;
  }
  if (step.kind === "plan") return html`<ul class="plan">${step.items.map((item) => html`<li class=${item.state}>${item.text}</li>`)}</ul>`;
  if (step.kind === "agent") return html`<p class="dim">agent <a href=${address`/runs/${step.turn}`}>${step.agent}</a>: ${step.text}</p>`;
  if (step.kind === "said") return html`<div class="said"><${Markdown} text=${step.text} /></div>`;
  return step.kind === "text" ? html`<${Markdown} text=${step.text} />` : html`<p class="dim">${step.text}</p>`;
};

// A run at work, as it happens. A browser has six connections for all its tabs: one run in a tab that is
// seen has one of them.
const Live = ({ turn, me, reload, onMove, onAsked }) => {
  const [state, dispatch] = useReducer(follow, NEW);
  const [error, setError] = useState(null);
  useEffect(() => {
    let stop = null;
    const start = async () => {
      if (document.visibilityState === "hidden") return stop?.abort();
      if (stop && !stop.signal.aborted) return undefined;
      const mine = (stop = new AbortController());
      dispatch({ event: "again" });
      try {
        for await (const event of events(turn, mine.signal)) dispatch(event);
        if (!mine.signal.aborted) reload();
      } catch (problem) {
        setError(problem);
      }
      return undefined;
    };
    start();
    const leave = onVisibility(start);
    return () => (stop?.abort(), leave());
  }, [turn]);
  useEffect(onMove, [state]);
  useEffect(onAsked, [state.asked]);
  return html`<div class="reply">
    ${state.steps.map((step) => html`<${Step} step=${step} />`)}
    ${state.draft && html`<${Markdown} text=${state.draft} />`}
    ${!state.ended && html`<p class="row"><span class="pulse">at work</span> <a href=${address`/runs/${turn}`}>steps</a>
      ${me.may("work") && html`<${Action} run=${() => post(address`/v1/runs/${turn}/cancel`)}>Stop<//>`}</p>`}
    <${Problem} error=${error} />
  </div>`;
};

const Message = ({ one: message, me, streamed, ...more }) => {
  const steps = html`<a href=${address`/runs/${message.turn}`}>steps</a>`;
  return html`<article class="turn">
  ${message.said.map((said) => html`<div class="said"><${Taint} label=${said.label} /><${Markdown} text=${said.text} /></div>`)}
  ${BUSY.includes(message.state)
    ? message === streamed
      ? html`<${Live} turn=${message.turn} me=${me} ...${more} />`
      : html`<p class="dim"><${Tag} name=${message.state} /> ${steps}</p>`
    : html`<div class="reply"><${Markdown} text=${message.reply} />
        <p class="dim small">${time(message.at)} <${Tag} name=${message.stop_reason !== "done" && message.stop_reason} />
          <${Taint} label=${message.label} title="it has read something that strangers wrote" /> ${steps}</p></div>`}
</article>`;
};

const kept = (session) => `draft ${session}`;

const Composer = ({ session, onSent }) => {
  const [text, setText] = useState(sessionStorage.getItem(kept(session)) || "");
  const [files, setFiles] = useState([]);
  const [{ busy, error, said }, setState] = useState({});
  const id = useRef(null); // kept until it is taken: a repeat is the same message
  const choose = (chosen) => ((id.current = null), setFiles(chosen));
  const write = (words) => {
    id.current = null;
    setText(words);
    sessionStorage.setItem(kept(session), words);
  };
  const send = async (event) => {
    event?.preventDefault();
    if (busy || !(text.trim() || files.length)) return;
    const was = text;
    id.current = id.current || crypto.randomUUID();
    const client_id = id.current;
    setState({ busy: true });
    setText("");
    try {
      const tokens = [];
      for (const file of files) tokens.push((await upload(file)).file);
      const name = session.slice(session.indexOf(":") + 1);
      const body = { text: was.trim() || "Look at this.", client_id, files: tokens };
      const sent = await (session.startsWith("terminal:") ? post(address`/v1/terminal/${name}/messages`, body) : post("/v1/messages", { ...body, session: name }));
      if (id.current === client_id) write("");
      setFiles([]);
      setState({ said: sent.reply });
      onSent();
    } catch (problem) {
      setText((now) => now || was);
      setState({ error: problem });
    }
  };
  const key = (event) => event.key === "Enter" && !event.shiftKey && !event.isComposing && matchMedia("(pointer: fine)").matches && send(event);
  return html`<form class="composer" onSubmit=${send}>
    <${Problem} error=${error} />
    ${said && html`<div class="reply" role="status"><${Markdown} text=${said} /></div>`}
    ${files.length > 0 && html`<p class="dim">${files.map((file) => file.name).join(", ")} <button type="button" class="link" onClick=${() => choose([])}>remove</button></p>`}
    <div class="row">
      <label class="file" title="Add files">+<input type="file" multiple aria-label="Add files" onChange=${(event) => choose([...event.target.files])} /></label>
      <textarea id="write" rows="2" aria-label="Message" placeholder="Write a message" value=${text} onInput=${(event) => write(event.target.value)} onKeyDown=${key}></textarea>
      <button class="main" disabled=${busy}>Send</button>
    </div>
  </form>`;
};

const MESSAGES_PAGE = 30;
const SESSIONS_PAGE = 100;

const Conversation = ({ session, me, writable }) => {
  const load = (query) =>
    get(address`/v1/sessions/${session}/messages`, query).catch((error) => {
      if (error.status === 404) return [];
      throw error;
    });
  const { more, again, found, error } = usePages(load, MESSAGES_PAGE, "turn", [], 5000);
  const asked = useLoad(async () => (await get("/v1/approvals")).filter((one) => one.root === session), [session], 3000);
  const foot = useRef(null);
  const near = () => window.innerHeight + window.scrollY > document.body.scrollHeight - 300;
  const end = () => foot.current?.scrollIntoView({ block: "end" });
  const all = found || [];
  useEffect(end, [session, all[0]?.turn]);
  const busy = all.filter((one) => BUSY.includes(one.state));
  const streamed = busy.filter((one) => one.state !== "queued").pop() || busy.pop();
  return html`<div class="talk">
    ${more && html`<p class="row"><${Action} run=${more}>Earlier messages<//></p>`}
    <div role="log" aria-label="Conversation"><${List} as=${Message} by="turn" found=${found && [...all].reverse()} error=${error} empty=${`Nothing was said here yet.${writable ? " Write something." : ""}`}
      me=${me} streamed=${streamed} again=${again} onMove=${() => near() && end()} onAsked=${asked.again} /></div>
    <${Questions} asked=${asked.found} me=${me} onAnswer=${() => (asked.again(), again())} />
    <${Problem} error=${asked.error} />
    ${writable ? html`<${Composer} key=${session} session=${session} onSent=${again} />` : html`<p class="dim">This conversation is continued where it takes place.</p>`}
    <div ref=${foot}></div>
  </div>`;
};

export const Chat = ({ me, place, go }) => {
  const own = me.role === "owner" ? "web:default" : `web:${me.name}`;
  const session = place.rest[0] || own;
  const { found, error, more } = usePages((query) => get("/v1/sessions", query), SESSIONS_PAGE, "id", [session], 15000);
  const [moreError, setMoreError] = useState(null);
  const others = (found || []).filter((one) => !one.root && one.id !== session).map((one) => one.id);
  const options = [session, ...others, ...(more ? [["", "More conversations …"]] : [])];
  const writable = me.may("talk") && (me.role === "owner" ? /^(web|terminal):/.test(session) : session === own || session.startsWith(`${own}.`));
  const open = (name) => go(address`/chat/${name}`);
  const choose = (event) => (event.target.value ? open(event.target.value) : more().then(() => setMoreError(null), setMoreError));
  const start = () => open(`${own === "web:default" ? "web:" : `${own}.`}${new Date().toISOString().slice(0, 19).replace(/[:T]/g, "-")}`);
  return html`<h1 class="hide">Chat</h1>
    <div class="row head"><${Select} label="Conversation" aria-label="Conversation" options=${options} value=${session} onChange=${choose} /><${Problem} error=${error || moreError} />
    ${me.may("talk") && html`<button type="button" onClick=${start}>New</button>`}</div>
    <${Conversation} key=${session} session=${session} me=${me} writable=${writable} />`;
};

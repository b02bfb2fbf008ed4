// Small parts that all places use: loading, lists, errors, labels, fields, questions.

import { html, useCallback, useEffect, useRef, useState } from "./vendor/preact.js";
import { address, get, post } from "./api.js";
import { time } from "./text.js";

// Calls `act` when the tab comes into view or is hidden, until what it gives is called.
export const onVisibility = (act) => {
  document.addEventListener("visibilitychange", act);
  return () => document.removeEventListener("visibilitychange", act);
};

// {found, error, again}: what was loaded, and how to load again; loaded anew when `on` changes, and each `every` ms
export const useLoad = (load, on = [], every = 0) => {
  const [state, setState] = useState({ found: null, error: null });
  const turn = useRef(0); // of several answers under way only the last counts
  const again = useCallback(async () => {
    const mine = ++turn.current;
    try {
      const found = await load();
      if (mine === turn.current) setState({ found, error: null });
    } catch (error) {
      if (mine === turn.current) setState((before) => ({ ...before, error }));
    }
  }, on);
  useEffect(() => {
    const run = () => document.visibilityState !== "hidden" && again();
    setState({ found: null, error: null });
    again();
    const timer = every ? setInterval(run, every) : 0;
    const stop = onVisibility(run);
    return () => ((turn.current += 1), clearInterval(timer), stop());
  }, [again]);
  return { ...state, again };
};

// useLoad of one path; without a path there is nothing to find.
export const useGet = (path, every) => useLoad(() => (path ? get(path) : []), [path], every);

// useLoad of a list in pages, newest first. `load` gets the query of a page; `more` loads the next one, if there is one.
export const usePages = (load, size, id, on, every) => {
  const [{ all, ended }, setKnown] = useState({ all: [], ended: true });
  const loaded = useLoad(async () => {
    const page = await load({});
    setKnown((known) => {
      const last = page.length < size ? -1 : known.all.findIndex((one) => one[id] === page.at(-1)[id]);
      return last < 0 ? { all: page, ended: page.length < size } : { ...known, all: [...page, ...known.all.slice(last + 1)] };
    });
    return page;
  }, on, every);
  const more = async () => {
    const after = all.at(-1)[id];
    const page = await load({ after });
    // Asked for twice at once, or reloaded meanwhile: it is there once.
    setKnown((known) => (known.all.at(-1)?.[id] === after ? { all: [...known.all, ...page], ended: page.length < size } : known));
  };
  return { ...loaded, found: loaded.found && all, more: !ended && more };
};

// [what is typed, the attributes of its field, set it]
export const useField = (first = "") => {
  const [value, set] = useState(first);
  return [value, { value, onInput: (event) => set(event.target.value) }, set];
};

export const Problem = ({ error }) => error && html`<p class="problem" role="alert">${error.message}</p>`;

export const Loaded = ({ found, error, empty, children }) => html`
  <${Problem} error=${error} />
  ${!found && !error && html`<p class="dim">Loading …</p>`}
  ${found?.length === 0 ? html`<p class="dim">${empty}</p>` : found && children}`;

// A list that is loaded. `as` draws each as `one`; `by`: the name of its id; `items`: as items of a list element.
export const List = ({ as, by = "id", items, found, error, empty, again, ...more }) => {
  const drawn = (found || []).map((one) => html`<${as} key=${one[by]} one=${one} reload=${again} ...${more} />`);
  return html`<${Loaded} found=${found} error=${error} empty=${empty}>${items ? html`<ul class="plain">${drawn}</ul>` : drawn}<//>`;
};

const TONES = { ended: "good", done: "good", completed: "good", running: "busy", queued: "busy", suspended: "warn", paused: "warn", quarantined: "bad", failed: "bad", untrusted: "bad", error: "bad" };
export const BUSY = ["queued", "running", "suspended"];
export const Tag = ({ name, title }) => name && html`<span class="tag ${TONES[name] || ""}" title=${title}>${name}</span>`;
export const Taint = ({ label, title }) => label === "untrusted" && html`<${Tag} name=${label} title=${title} />`;

// A button that waits for what it does, then for `then`, and shows what went wrong.
export const Action = ({ run, then, children, kind }) => {
  const [state, setState] = useState({ busy: false, error: null });
  const act = async () => {
    setState({ busy: true, error: null });
    try {
      await run();
      if (then) await then();
      setState({ busy: false, error: null });
    } catch (error) {
      setState({ busy: false, error });
    }
  };
  return html`<button type="button" class=${kind} disabled=${state.busy} onClick=${act}>${children}</button>
    <${Problem} error=${state.error} />`;
};

// A row of buttons, [words, what it does, its kind] each; what is false in `of` is left out.
export const Buttons = ({ of, then }) => html`<div class="row">${of.map((one) => one && html`<${Action} run=${one[1]} then=${then} kind=${one[2]}>${one[0]}<//>`)}</div>`;

// One thing of a list: its name and state, more of it, and its buttons.
export const Card = ({ title, label = title, tag, buttons, then, children }) => html`<section class="card" aria-label=${label}><strong>${title}</strong> <${Tag} name=${tag} /> ${children}
  ${buttons && html`<${Buttons} of=${buttons} then=${then} />`}</section>`;

// A choice: each option is its words, or [value, words].
export const Select = ({ label, options, ...more }) => html`<label>${label} <select ...${more}>
  ${options.map((one) => [one].flat()).map(([value, words = value]) => html`<option value=${value}>${words}</option>`)}</select></label>`;

const SCOPES = [["once", "Allow"], ["session", "Allow in this chat"], ["always", "Always allow"]];

// One question: a call of a tool, a question of the daemon's own, one with options, or for a secret.
const Question = ({ asked, me, onAnswer }) => {
  const [typed, field] = useField();
  const isCall = !asked.title;
  const isSecret = asked.secret.length > 0;
  const answer = (verb, more) => async () => {
    await post(address`/v1/runs/${asked.turn}/${verb}`, { call_id: asked.call_id, ...(verb === "secret" ? {} : { question: asked.question }), ...more });
    await onAnswer();
  };
  return html`<section class="question" aria-label="Question">
    <p class="ask">${isCall ? html`May <code>${asked.tool}</code> run? <${Tag} name=${asked.effect} />` : visible(asked.title)}
      ${" "}<${Taint} label=${asked.label} title="the run has read something that strangers wrote" /></p>
    ${(isCall || asked.text) && html`<pre tabindex="0">${isCall ? pretty(asked.arguments) : visible(asked.text)}</pre>`}
    ${asked.preview && html`<pre tabindex="0">${visible(asked.preview).split("\n").map((line) => html`<span class=${{ "+": "good", "-": "bad" }[line[0]]}>${line}\n</span>`)}</pre>`}
    <p class="dim">in <a href=${address`/runs/${asked.turn}`}>${visible(asked.session)}</a>, until ${time(asked.expires)}</p>
    ${me.may("talk") && html`<div class="row">
      ${asked.options.map((option) => html`<${Action} kind="main" run=${answer("approve", { option })}>${option}<//>`)}
      ${isSecret && me.may("manage") && html`<input type="password" autocomplete="off" aria-label="The secret" ...${field} />
        <${Action} kind="main" run=${answer("secret", { value: typed })}>Keep it<//>`}
      ${!isSecret && asked.options.length === 0 && SCOPES.slice(0, isCall ? 3 : 1).map(([scope, words], at) => html`<${Action} kind=${at ? "" : "main"} run=${answer("approve", { scope })}>${isCall ? words : "Yes"}<//>`)}
      ${!isSecret && html`<input aria-label="Why not (optional)" placeholder="Why not (optional)" ...${field} />`}
      <${Action} kind="danger" run=${answer("reject", isSecret ? {} : { reason: typed })}>${isCall ? "Reject" : "No"}<//>
    </div>`}
  </section>`;
};

export const Questions = ({ asked, me, onAnswer }) => (asked || []).map((one) => html`<${Question} key=${`${one.turn} ${one.call_id} ${one.question}`} asked=${one} me=${me} onAnswer=${onAnswer} />`);

// A text field that keeps what is being typed; `onChange` gets it with Enter, or when it is left.
export const Field = ({ label, value, onChange, ...more }) => {
  const [text, field, setText] = useField(value);
  useEffect(() => setText(value), [value]);
  return html`<label>${label} <input ...${more} ...${field} onChange=${() => onChange(text)} /></label>`;
};

// Signs that cannot be seen, or turn the direction of what is read, are shown as what they are.
export const visible = (text) => String(text).replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g, (sign) => `\\u{${sign.codePointAt(0).toString(16)}}`);

const PART = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g;

// The fields of a JSON object as they stand there, numbers too; a line of a text that is not its first begins with a bar.
export const pretty = (json) => {
  const parts = json.match(PART) || [];
  if (parts[0] !== "{") return visible(json);
  let depth = 0;
  let lines = "";
  parts.forEach((part, at) => {
    if ("{[".includes(part)) depth += 1;
    if ("}]".includes(part)) depth -= 1;
    if ((depth === 0 && part === "}") || (at === 0)) return;
    const top = depth === 1;
    if (top && part === ",") lines += "\n";
    else if (part[0] === '"' && top && parts[at + 1] === ":") lines += visible(JSON.parse(part)).replaceAll("\n", "\\n");
    else if (part === ":" || part === ",") lines += `${part} `;
    else lines += part[0] === '"' && top ? JSON.parse(part).split("\n").map(visible).join("\n  │ ") : visible(part);
  });
  return lines;
};

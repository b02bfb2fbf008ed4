"use strict";
const $ = id => document.getElementById(id);
const asked = new URLSearchParams(location.search);
const COLOURS = { ann: "#e17076", bob: "#7bc862", eve: "#a695e7" };
const EMOJI = ["👍", "👎", "❤️"];
let person = asked.get("as") || "ann", where = asked.get("where") || "private", thread = asked.get("thread") || "";
let platform = "", seen = "", toasts = -1;

const place = () => new URLSearchParams({ person, where, thread });
const post = async (path, body, headers = {}) => {
  const answer = await fetch(path, { method: "POST", body, headers });
  if (!answer.ok) toast(`Not done: ${answer.status} ${await answer.text()}`);
  await refresh();
};
const send = (path, told) => post(path, JSON.stringify(told), { "Content-Type": "application/json" });

function toast(text) {
  const node = el("div", [text]);
  $("toasts").append(node);
  setTimeout(() => node.remove(), 6000);
}

function shown(message, roots) {
  const me = message.author === person;
  const name = message.by_bot ? message.author || "bot" : message.author;
  const classes = ["m", me && "me", message.draft && "draft", !thread && message.thread && message.thread !== message.id && roots.has(message.thread) && "reply"];
  const head = el("div", [el("b", [name]), ...(message.by_bot ? [el("span", ["APP"], { class: "tag" })] : []),
    el("span", [message.draft ? "is writing" : message.edits ? "edited" : ""], { class: "meta" })], { class: "head" });
  const avatar = el("div", [name.slice(0, 1).toUpperCase()], { class: "avatar", style: `background:${COLOURS[name] || "#64748b"}` });
  const parts = [avatar, head, el("div", rendered(platform, message), { class: "body" })];
  if (message.files.length) parts.push(el("div", message.files.map((file, at) => attached(message, file, at)), { class: "files" }));
  if (message.buttons.length) parts.push(el("div", message.buttons.map(button => pressable(message, button)), { class: "buttons" }));
  parts.push(foot(message));
  return el("div", parts, { class: classes.filter(Boolean).join(" "), "data-id": message.id });
}

function attached(message, file, at) {
  const where = `/_page/file?${place()}&id=${encodeURIComponent(message.id)}&at=${at}`;
  if (/\.(png|jpe?g|gif|webp)$/i.test(file.name)) return el("a", [el("img", [], { src: where, alt: file.name })], { href: where, download: file.name });
  return el("a", [file.name, el("small", [`${(file.size / 1024).toFixed(1)} kB`])], { href: where, download: file.name });
}

function pressable(message, button) {
  const node = el("button", [button.label], { type: "button", title: button.data });
  node.onclick = () => send("/_page/press", { person, id: message.id, data: button.data });
  return node;
}

function foot(message) {
  const actions = EMOJI.map(emoji => {
    const node = el("button", [emoji], { type: "button" });
    node.onclick = () => send("/_page/react", { person, id: message.id, emoji });
    return node;
  });
  if (platform === "slack") {
    const node = el("button", ["reply in thread"], { type: "button" });
    node.onclick = () => { thread = message.thread || message.id; change(); };
    actions.push(node);
  }
  const said = message.reactions.map(emoji => el("span", [emoji], { class: "r" }));
  return el("div", [...said, el("span", message.draft ? [] : actions, { class: "do" })], { class: "foot" });
}

function draw(state) {
  platform = document.body.dataset.platform = state.platform;
  document.title = `${state.platform}: ${person}`;
  $("name").textContent = where === "group" ? "# everybody" : "aidaemon";
  $("status").textContent = `${state.platform} · you are ${person}`;
  $("log").className = where;
  $("addressed").hidden = where !== "group";
  $("thread").hidden = !thread;
  $("thread").firstElementChild.textContent = `thread ${thread}`;
  $("who").replaceChildren(...state.people.map(name => {
    const node = el("button", [name.slice(0, 1).toUpperCase()], { type: "button", title: name, style: `background:${COLOURS[name]}` });
    node.classList.toggle("on", name === person);
    node.onclick = () => { person = name; change(); };
    return node;
  }));
  const log = $("log"), low = log.scrollHeight - log.scrollTop - log.clientHeight < 60;
  const roots = new Set(state.messages.map(message => message.id));
  log.replaceChildren(...ordered(state.messages, roots).map(message => shown(message, roots)));
  if (low && !asked.has("top")) log.scrollTop = log.scrollHeight;
  if (asked.has("top")) log.scrollTop = Number(asked.get("top"));
}

// Replies stand below what they answer, where one page shows all threads.
function ordered(messages, roots) {
  const isReply = message => !thread && message.thread && message.thread !== message.id && roots.has(message.thread);
  return messages.filter(message => !isReply(message))
    .flatMap(message => [message, ...messages.filter(reply => isReply(reply) && reply.thread === message.id)]);
}

async function refresh() {
  const answer = await fetch(`/_page/state?${place()}`);
  const text = await answer.text();
  if (!answer.ok) { $("status").textContent = `no such chat: ${answer.status}`; return; }
  if (text === seen) return;
  seen = text;
  const state = JSON.parse(text);
  if (toasts >= 0) state.toasts.slice(toasts).forEach(toast);
  else if (asked.has("toasts")) state.toasts.slice(-2).forEach(toast);
  toasts = state.toasts.length;
  draw(state);
}

function change() {
  seen = "";
  history.replaceState(null, "", `?${new URLSearchParams({ as: person, where, thread })}`);
  refresh();
}

$("where").value = where;
$("where").onchange = () => { where = $("where").value; thread = ""; change(); };
$("thread").lastElementChild.onclick = () => { thread = ""; change(); };
$("say").onsubmit = async event => {
  event.preventDefault();
  const form = new FormData($("say"));
  for (const [key, value] of place()) form.append(key, value);
  if (!form.get("text").trim() && !form.getAll("files").some(file => file.size)) return;
  $("say").reset();
  await post("/_page/say", form);
  $("log").scrollTop = $("log").scrollHeight;
};
$("say").elements.text.onkeydown = event => {
  if (event.key === "Enter" && !event.shiftKey) { event.preventDefault(); $("say").requestSubmit(); }
};
const tick = async () => {
  try { await refresh(); } catch (wrong) { $("status").textContent = `no answer, or none that can be shown: ${wrong}`; seen = ""; }
  setTimeout(tick, 400);
};
tick();

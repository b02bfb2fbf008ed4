// The frame of the page: who is signed in, the places, the address bar and the keys.

import { html, render, useEffect, useState } from "./vendor/preact.js";
import { get, look, onSignedOut, redeem, signInByToken, signOut } from "./api.js";
import { connect, disconnect } from "./live.js";
import { Action, Problem, useField } from "./parts.js";
import { Chat } from "./chat.js";
import { Memory, People, Trust } from "./memory.js";
import { Runs } from "./runs.js";
import { Cost, Health, Today } from "./today.js";
import { Loops, Work } from "./work.js";

const PLACES = [
  ["chat", "Chat", "read", Chat],
  ["today", "Today", "read", Today],
  ["runs", "Runs", "read", Runs],
  ["loops", "Loops", "read", Loops],
  ["work", "Schedules", "manage", Work],
  ["memory", "Memory", "manage", Memory],
  ["trust", "Permissions", "answer", Trust],
  ["people", "People", "manage", People],
  ["cost", "Cost", "read", Cost],
  ["system", "Health", "manage", Health],
];

const decode = (part) => {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
};

const parse = () => {
  const [name, ...rest] = location.pathname.split("/").filter(Boolean).map(decode);
  return { name: name || PLACES[0][0], rest, step: location.hash.slice(1), query: new URLSearchParams(location.search) };
};

const SignIn = ({ problem, offer, onDone }) => {
  const [token, field] = useField();
  if (offer) {
    return html`<main class="sign-in"><h1>aidaemon</h1><p>This link signs you in as <strong>${offer.name}</strong> (${offer.role}).</p>
      <div class="row"><${Action} kind="main" run=${async () => onDone(await redeem(offer.code))}>Sign in as ${offer.name}<//><${Action} run=${async () => onDone(null)}>No<//></div></main>`;
  }
  return html`<main class="sign-in"><h1>aidaemon</h1>
    <${Problem} error=${problem} />
    <p>Run <code>aidaemon open</code> on this machine and follow the link that it prints.</p>
    <details><summary>Or sign in with a token</summary><div class="row">
      <input type="password" autocomplete="off" aria-label="Token" ...${field} />
      <${Action} kind="main" run=${async () => onDone(await signInByToken(token))}>Sign in<//></div></details></main>`;
};

const typing = (target) => /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName) || target.isContentEditable;

const App = () => {
  const [person, setPerson] = useState(null);
  const me = person && { ...person, may: (right) => person.rights.includes(right) };
  const [problem, setProblem] = useState(null);
  const [offer, setOffer] = useState(null);
  const [place, setPlace] = useState(parse());
  const go = (path) => {
    history.pushState(null, "", path);
    setPlace(parse());
    if (!path.includes("#")) scrollTo(0, 0);
  };
  // Nobody signs in as somebody else by following a link: the owner of this machine's daemon alone does so unasked.
  const start = async () => {
    const code = new URLSearchParams(location.hash.slice(1)).get("code");
    if (code) history.replaceState(null, "", location.pathname);
    else if (person) return;
    const known = await get("/v1/me").catch((error) => (error.status === 401 ? {} : (setProblem(error), {})));
    try {
      const other = code && (await look(code));
      if (!code) setPerson(known);
      else if (other.role === "owner" && (!known.role || known.role === "owner")) setPerson(await redeem(code));
      else setOffer({ ...other, code, known });
    } catch (error) {
      setProblem(error);
      setPerson(known);
    }
  };
  useEffect(() => {
    onSignedOut(() => setPerson({}));
    start();
    addEventListener("hashchange", start);
    const moved = () => setPlace(parse());
    const clicked = (event) => {
      const link = event.target.closest?.("a[href^='/']");
      if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
      event.preventDefault();
      go(link.getAttribute("href"));
    };
    const pressed = (event) => {
      if (event.key !== "/" || event.ctrlKey || event.metaKey || typing(event.target)) return;
      const field = document.querySelector("[data-search], #write");
      if (field) event.preventDefault();
      field?.focus();
    };
    addEventListener("popstate", moved);
    document.addEventListener("click", clicked);
    document.addEventListener("keydown", pressed);
  }, []);
  useEffect(() => (person?.role ? connect() : disconnect()) && undefined, [person?.role]);
  const done = (other) => (setProblem(null), setPerson(other || offer?.known || {}), setOffer(null));
  if (me === null && !offer) return html`<p class="pad">Loading …</p>`;
  if (offer || !me.role) return html`<${SignIn} problem=${problem} offer=${offer} onDone=${done} />`;
  const places = PLACES.filter(([, , right]) => me.may(right));
  const [name, title, , Place] = places.find(([known]) => known === place.name) || places[0] || [];
  document.title = title ? `${title} · aidaemon` : "aidaemon";
  const leave = async () => {
    await signOut();
    setPerson({});
  };
  return html`<a class="skip" href="#main">Skip to the content</a>
    <header><strong class="brand">aidaemon</strong>
      <nav aria-label="Places">${places.map(([known, words]) => html`<a href=${`/${known}`} aria-current=${known === name ? "page" : null}>${words}</a>`)}</nav>
      <span class="who">${me.name} <${Action} run=${leave}>Sign out<//></span></header>
    <main id="main" tabindex="-1">${Place ? html`<${Place} me=${me} place=${place} go=${go} />` : html`<p class="dim">There is nothing for you to see here.</p>`}</main>`;
};

render(html`<${App} />`, document.getElementById("app"));

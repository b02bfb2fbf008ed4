// Requests to the daemon. The cookie says who it is; each request is signed with a key that no script
// can read and that is sent to nobody: whoever else listens at this address learns nothing lasting.

const RECONNECT_MS = [200, 500, 1000, 2000, 5000];
const encode = (text) => new TextEncoder().encode(text);
const hex = (buffer) => [...new Uint8Array(buffer)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
const tabs = new BroadcastChannel("aidaemon");

export class ApiError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

const keys = (mode, work) =>
  new Promise((done, fail) => {
    const opening = indexedDB.open("aidaemon", 1);
    opening.onupgradeneeded = () => opening.result.createObjectStore("keys");
    opening.onerror = () => fail(opening.error);
    opening.onsuccess = () => {
      const asked = work(opening.result.transaction("keys", mode).objectStore("keys"));
      asked.onsuccess = () => (opening.result.close(), done(asked.result));
      asked.onerror = () => fail(asked.error);
    };
  });

let key = null;
const findKey = async () => (key = key || (await keys("readonly", (store) => store.get("key"))) || null);

const sign = async (method, path, body) => {
  const known = await findKey();
  if (!known) return "";
  const address = new URL(path, location);
  const nonce = crypto.randomUUID().replaceAll("-", "");
  const head = `${Date.now()}.${nonce}.${hex(await crypto.subtle.digest("SHA-256", body || new Uint8Array()))}`;
  const signed = encode(`${method} ${address.pathname}${address.search} ${head}`);
  return `${head}.${hex(await crypto.subtle.sign("HMAC", known, signed))}`;
};

export const onSignedOut = (tell) => {
  addEventListener("signed-out", tell);
  tabs.onmessage = () => ((key = null), tell());
};

const fail = async (response) => {
  const answer = await response.json().catch(() => null); // not ours: the status says enough
  return new ApiError(response.status, answer?.error?.message || `the daemon answered ${response.status}`);
};

const send = async (method, path, body, options = {}) => {
  let response;
  try {
    const headers = { ...options.headers };
    if (!headers.Authorization) headers["X-Aidaemon-Signature"] = await sign(method, path, body);
    response = await fetch(path, { method, body, signal: options.signal, headers });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, "The daemon cannot be reached. Start it, or run `aidaemon open` if it has another address now.");
  }
  if (response.ok) return response;
  const error = await fail(response);
  if (error.status === 401 && !options.headers) dispatchEvent(new Event("signed-out"));
  throw error;
};

const json = { "Content-Type": "application/json" };
const request = async (method, path, body, headers) => (await send(method, path, body && encode(JSON.stringify(body)), { headers })).json();

// A path with each value in it encoded.
export const address = (parts, ...values) => String.raw(parts, ...values.map(encodeURIComponent));

// A path with those parts of a query that are given.
export const withQuery = (path, query) => {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== "");
  return given.length ? `${path}?${new URLSearchParams(given)}` : path;
};

export const get = (path, query = {}) => request("GET", withQuery(path, query));
export const post = (path, body = {}) => request("POST", path, body);
export const remove = (path) => request("DELETE", path);

export const upload = async (file) => (await send("POST", address`/v1/files?name=${file.name}`, new Uint8Array(await file.arrayBuffer()))).json();

// Whom the code of a link signs in, before it is used.
export const look = (code) => request("POST", "/v1/sign-in/look", { code }, json);

export const redeem = async (code) => {
  const person = await request("POST", "/v1/sign-in/redeem", { code }, json);
  const raw = Uint8Array.from(person.key.match(/../g), (pair) => parseInt(pair, 16));
  key = await crypto.subtle.importKey("raw", raw, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  await keys("readwrite", (store) => store.put(key, "key"));
  return person;
};

export const signInByToken = async (token) => {
  const { link } = await request("POST", "/v1/sign-in", undefined, { Authorization: `Bearer ${token}` });
  return redeem(link.split("#code=")[1]);
};

export const signOut = async () => {
  const leaving = request("POST", "/v1/sign-out", undefined, json);
  key = null;
  await keys("readwrite", (store) => store.delete("key"));
  tabs.postMessage("signed-out");
  await leaving.catch(() => {});
};

export const liveProtocols = async () => ["aidaemon", `sig.${await sign("GET", "/live")}`];

const wait = (ms, signal) =>
  new Promise((done) => {
    const timer = setTimeout(done, ms);
    signal.addEventListener("abort", () => (clearTimeout(timer), done()), { once: true });
  });

const passes = (error) => error instanceof ApiError && error.status >= 400 && error.status < 500 && ![408, 429].includes(error.status);

// Each event of a run once, over lost connections too, until run.completed.
export async function* events(turn, signal) {
  let last = "";
  let failures = 0;
  while (!signal.aborted) {
    try {
      const headers = last ? { "Last-Event-ID": last } : {};
      const response = await send("GET", address`/v1/runs/${turn}/events`, undefined, { headers, signal });
      for await (const frame of frames(response.body)) {
        failures = 0;
        last = frame.id || last;
        yield frame;
        if (frame.event === "run.completed") return;
      }
    } catch (error) {
      if (signal.aborted) return;
      if (passes(error)) throw error;
    }
    await wait(RECONNECT_MS[Math.min(failures++, RECONNECT_MS.length - 1)], signal);
    yield { event: "model.reset", data: {} };
  }
}

async function* frames(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n\n");
    rest = parts.pop();
    for (const part of parts) {
      if (part.startsWith(":")) continue;
      const fields = Object.fromEntries(part.split("\n").map((line) => [line.slice(0, line.indexOf(": ")), line.slice(line.indexOf(": ") + 2)]));
      yield { id: fields.id || "", event: fields.event, data: JSON.parse(fields.data) };
    }
  }
}

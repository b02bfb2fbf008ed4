// The live socket: one for the whole page, as long as somebody is signed in.

import { liveProtocols } from "./api.js";

let socket = null;
let wanted = false;
let timer = 0;
let number = 0;
const waiting = new Map();
const listeners = new Set();

const tell = (message) => listeners.forEach((listener) => listener(message));

const open = async () => {
  if (!wanted || socket) return;
  socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/live`, await liveProtocols());
  socket.onmessage = (event) => {
    const message = JSON.parse(event.data);
    const answer = waiting.get(message.id);
    if (answer) {
      waiting.delete(message.id);
      message.error ? answer.fail(new Error(message.error.message)) : answer.done(message.loop);
    }
    tell(message);
  };
  socket.onclose = () => {
    socket = null;
    waiting.forEach((answer) => answer.fail(new Error("The connection was lost; look whether it was done.")));
    waiting.clear();
    tell({ type: "closed" });
    if (wanted) timer = setTimeout(open, 2000);
  };
};

export const connect = () => ((wanted = true), open());
export const disconnect = () => {
  wanted = false;
  clearTimeout(timer);
  if (socket) socket.close();
};
export const isLive = () => socket !== null && socket.readyState === WebSocket.OPEN;
export const listen = (listener) => (listeners.add(listener), () => listeners.delete(listener));

// Send a verb; the loop as it is then.
export const ask = (type, given) =>
  new Promise((done, fail) => {
    if (!isLive()) return fail(new Error("The page is not connected to the daemon; try again."));
    number += 1;
    waiting.set(number, { done, fail });
    return socket.send(JSON.stringify({ type, id: number, ...given }));
  });

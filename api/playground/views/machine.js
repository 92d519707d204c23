/** The machine's memory and load, looked at now and then while the page is seen. */

import { ask } from "../server.js";
import { byId, h } from "./dom.js";

const PAUSE_MS = { resting: 6000, running: 1500 };

export function machineView(store) {
  let timer = 0;
  const look = async () => {
    clearTimeout(timer);
    if (!document.hidden) await show(store);
    clearTimeout(timer);
    timer = setTimeout(look, store.state.running ? PAUSE_MS.running : PAUSE_MS.resting);
  };
  store.watch(["running", "key"], look);
  document.addEventListener("visibilitychange", () => document.hidden || look());
}

async function show(store) {
  try {
    const status = await (await ask("/playground/status", { key: store.state.key })).json();
    byId("machine").replaceChildren(...figures(status));
  } catch {
    byId("machine").replaceChildren(
      h("p", { class: "says" }, "No figures: the server does not tell them now."),
    );
  }
}

function figures({ ram, devices, running, waiting, used }) {
  const gpus = devices.map(({ name, total, free, reserved }, number) => {
    const title = devices.length > 1 ? `GPU ${number} · ${name}` : `GPU · ${name}`;
    return gauge(title, total - free, total, reserved);
  });
  const busy = h(
    "p",
    { class: "says" },
    `${running} running, ${waiting} waiting, room for tokens ${Math.round(used * 100)} % full`,
  );
  return [...gpus, gauge("RAM", ram.total - ram.free, ram.total, ram.own), busy];
}

/** How much is taken, and how much of that is the server's own. */
function gauge(title, taken, total, own) {
  const bars = [bar("taken", taken / total), bar("own", own / total)];
  const words = `${gigabytes(taken)} of ${gigabytes(total)} GB, ${gigabytes(own)} ours`;
  return h(
    "div",
    { class: "gauge" },
    h("p", {}, h("span", {}, title), h("span", {}, words)),
    h("span", { class: "track", "aria-hidden": "true" }, ...bars),
  );
}

function bar(name, share) {
  const element = h("i", { class: name });
  element.style.width = `${Math.min(100, share * 100)}%`;
  return element;
}

const gigabytes = (bytes) => (bytes / 1e9).toFixed(1);

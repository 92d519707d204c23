/** Memory and load of the machine, polled while the page is visible. */

import { statesByModel } from "../models.js";
import { callServer } from "../server.js";
import { byId, h, shareBar } from "./dom.js";

const INTERVAL_MS = { idle: 6000, running: 1500 };

export function machineView(store) {
  let timer = 0;
  const poll = async () => {
    clearTimeout(timer);
    if (!document.hidden) await update(store);
    clearTimeout(timer);
    timer = setTimeout(poll, store.state.running ? INTERVAL_MS.running : INTERVAL_MS.idle);
  };
  store.subscribe(["running", "key"], poll);
  document.addEventListener("visibilitychange", () => document.hidden || poll());
}

async function update(store) {
  try {
    const { model, key, states } = store.state;
    const path = `/playground/status${model ? `?model=${encodeURIComponent(model.id)}` : ""}`;
    const status = await (await callServer(path, { key })).json();
    const newStates = statesByModel(status.models);
    if (JSON.stringify(newStates) !== JSON.stringify(states)) store.set({ states: newStates });
    byId("machine").replaceChildren(...gauges(status));
  } catch {
    const message = "No figures: the server does not send its status now.";
    byId("machine").replaceChildren(h("p", { class: "hint" }, message));
  }
}

function gauges({ ram, devices, running, waiting, used }) {
  const gpus = devices.map(({ name, total, free, reserved }, number) => {
    const title = devices.length > 1 ? `GPU ${number} · ${name}` : `GPU · ${name}`;
    return gauge(title, total - free, total, reserved);
  });
  const load = h(
    "p",
    { class: "hint" },
    `${running} running, ${waiting} waiting, KV cache ${Math.round(used * 100)} % full`,
  );
  return [...gpus, gauge("RAM", ram.total - ram.free, ram.total, ram.own), load];
}

/** All sizes are bytes: used by all processes, installed, and used by the server. */
function gauge(title, used, total, own) {
  const bars = [shareBar("used", used / total), shareBar("own", own / total)];
  const label = `${gigabytes(used)} of ${gigabytes(total)} GB, ${gigabytes(own)} by this server`;
  return h(
    "div",
    { class: "gauge" },
    h("p", {}, h("span", {}, title), h("span", {}, label)),
    h("span", { class: "track", "aria-hidden": "true" }, ...bars),
  );
}

const gigabytes = (bytes) => (bytes / 1e9).toFixed(1);

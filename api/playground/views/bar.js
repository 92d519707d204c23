/** The buttons and the keys that press them, how fast it goes, and how full the context is. */

import { byId, h } from "./dom.js";

export function barView(store, run) {
  const [generate, stop, retry, undo] = ["generate", "stop", "retry", "undo"].map(byId);
  generate.addEventListener("click", () => run.generate());
  stop.addEventListener("click", () => run.stop());
  retry.addEventListener("click", () => run.retry());
  undo.addEventListener("click", () => run.undo());
  byId("clear").addEventListener("click", () => run.clear());
  addEventListener("keydown", (event) => press(event, store, run));

  store.watch(["running", "answers", "past", "error"], ({ running, answers, past, error }) => {
    generate.hidden = running;
    stop.hidden = !running;
    retry.disabled = running || !(answers.length || error);
    undo.disabled = past.length === 0;
  });
  store.watch(["answers", "running", "following"], ({ following, running }) => {
    byId("pace").replaceChildren(...(following ? pace(following, running) : []));
    byId("said").textContent = running ? "Generating" : following ? "The answer has ended" : "";
  });
  store.watch(["counted", "model", "params"], (state) => byId("meter").replaceChildren(...meter(state)));
}

function press(event, { state }, run) {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    run.generate();
  } else if (event.key === "Escape" && state.running && !document.querySelector("dialog[open]")) {
    run.stop();
  }
}

function pace({ rate, first, began }, running) {
  if (!first) return running ? ["waiting for the first token"] : [];
  const wait = ` · first after ${((first - began) / 1000).toFixed(2)} s`;
  return [`${rate.toFixed(rate < 10 ? 1 : 0)} tokens/s`, h("span", { class: "wide-only" }, wait)];
}

/** The prompt's tokens and the answer's room, of what the model can hold. */
function meter({ counted, model, params }) {
  if (!model || counted === null) return [];
  const { context } = model;
  const wanted = params.max_tokens ?? context - counted;
  const room = Math.max(0, Math.min(wanted, context - counted));
  const track = h(
    "span",
    { class: "track", "aria-hidden": "true" },
    part(counted / context, "prompt"),
    part(room / context, "room"),
  );
  const words = `${counted.toLocaleString("en")} of ${context.toLocaleString("en")} tokens`;
  const state = counted >= context ? "full" : counted + wanted > context ? "tight" : "";
  return [
    h("p", { class: `count ${state}`, title: "Tokens of the prompt, of what the model can hold" }, words),
    track,
  ];
}

function part(share, name) {
  const element = h("i", { class: name });
  element.style.width = `${Math.min(100, share * 100)}%`;
  return element;
}

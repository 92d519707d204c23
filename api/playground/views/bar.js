/** The bottom bar: the buttons and their keyboard shortcuts, the speed, and how full the context is. */

import { byId, h, shareBar } from "./dom.js";
import { speed } from "./speed.js";

export function barView(store, actions) {
  const [generate, stop, retry, undo] = ["generate", "stop", "retry", "undo"].map(byId);
  generate.addEventListener("click", () => actions.generate());
  stop.addEventListener("click", () => actions.stop());
  retry.addEventListener("click", () => actions.retry());
  undo.addEventListener("click", () => actions.undo());
  byId("clear").addEventListener("click", () => actions.clear());
  addEventListener("keydown", (event) => onKeydown(event, store, actions));

  store.subscribe(["running", "completions", "history", "error"], (state) => {
    const { running, completions, history, error } = state;
    generate.hidden = running;
    stop.hidden = !running;
    retry.disabled = running || !(completions.length || error);
    undo.disabled = history.length === 0;
  });
  store.subscribe(["completions", "running", "generation"], ({ generation, running }) => {
    byId("speed").replaceChildren(...(generation ? speed(generation, running) : []));
    byId("live-status").textContent = running ? "Generating" : generation ? "The answer has ended" : "";
  });
  store.subscribe(["promptTokens", "model", "params"], (state) =>
    byId("meter").replaceChildren(...contextMeter(state)),
  );
}

function onKeydown(event, { state }, actions) {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    actions.generate();
  } else if (event.key === "Escape" && state.running && !document.querySelector("dialog[open]")) {
    actions.stop();
  }
}

/** The prompt's tokens and the tokens left for the completion, as shares of the context. */
function contextMeter({ promptTokens, model, params }) {
  if (!model || promptTokens === null) return [];
  const { context } = model;
  const maxTokens = params.max_tokens ?? context - promptTokens;
  const available = Math.max(0, Math.min(maxTokens, context - promptTokens));
  const track = h(
    "span",
    { class: "track", "aria-hidden": "true" },
    shareBar("prompt", promptTokens / context),
    shareBar("available", available / context),
  );
  const label = `${promptTokens.toLocaleString("en")} of ${context.toLocaleString("en")} tokens`;
  const level = promptTokens >= context ? "full" : promptTokens + maxTokens > context ? "tight" : "";
  return [
    h("p", { class: `count ${level}`, title: "Tokens of the prompt, of what the model can hold" }, label),
    track,
  ];
}

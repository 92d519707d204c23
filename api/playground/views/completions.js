/** The completions of the last generation as cards, updated as they stream. One of them is selected. */

import { copy, h } from "./dom.js";
import { finishChips } from "./finish.js";
import { speed } from "./speed.js";
import { tokenRenderer } from "./token_spans.js";

export function completionsView(root, store, actions) {
  let cards = [];
  store.subscribe(["completions", "selected"], ({ completions, selected }) => {
    if (cards.length !== completions.length || cards.some((card, i) => !card.shows(completions[i]))) {
      cards = completions.map((_, index) => createCard(index, completions.length, store, actions));
      root.replaceChildren(...cards.map(({ element }) => element));
    }
    root.classList.toggle("multiple", completions.length > 1);
    root.classList.toggle("compared", Boolean(completions[0] && columnOf(store, completions[0])));
    completions.forEach((completion, index) => cards[index].update(completion, index === selected));
  });
}

/** The card of one Completion object. `shows` says whether it is still the card of that object. */
function createCard(index, count, store, actions) {
  const text = h("div", { class: "completion-text", tabIndex: 0, "aria-label": `Answer ${index + 1}` });
  const thoughts = h("div", { class: "reasoning-text" });
  const reasoning = h("details", { class: "reasoning" }, h("summary", {}, "Reasoning"), thoughts);
  const chips = h("p", { class: "finish" });
  const tools = h(
    "div",
    { class: "completion-tools" },
    createButton("Keep", "Make it part of the text, to edit it", () => {
      store.set({ selected: index });
      actions.accept();
    }),
    createButton("Copy", "Copy the answer", (event) =>
      copy(store.state.completions[index].text, event.target, text),
    ),
  );
  const column = createColumn(columnOf(store, store.state.completions[index]));
  const picker = count > 1 ? createPicker(index, column.name ?? `Answer ${index + 1}`, store) : null;
  const header = h("div", { class: "completion-header" }, picker, ...column.elements);
  const footer = h("div", { class: "completion-footer" }, chips, tools);
  const element = h("article", { class: "completion" }, header, reasoning, text, footer);
  const renderTokens = tokenRenderer(text);
  let current = null;

  function update(completion, isSelected) {
    current ??= completion;
    renderTokens(completion.tokens);
    reasoning.hidden = !completion.reasoning;
    if (thoughts.textContent !== completion.reasoning) thoughts.textContent = completion.reasoning;
    element.classList.toggle("selected", isSelected && count > 1);
    element.classList.toggle("streaming", !completion.finishReason);
    element.classList.toggle("empty", hasEnded(completion) && !completion.text && !completion.reasoning);
    chips.replaceChildren(...finishChips(completion));
    column.update(completion);
    tools.hidden = !completion.finishReason || !completion.text;
    if (picker) picker.querySelector("input").checked = isSelected;
  }
  if (count > 1) element.addEventListener("click", () => store.set({ selected: index }));
  return { element, update, shows: (completion) => !current || current === completion };
}

/** The generation of a completion in a comparison; null: there is no comparison. */
const columnOf = ({ state }, completion) => state.generation?.columnOf(completion) ?? null;

/** The model's name, its speed, its stop button and its error, for a completion in a comparison. */
function createColumn(generation) {
  if (!generation) return { name: null, elements: [], update: () => {} };
  const rate = h("span", { class: "column-speed" });
  const stop = createButton("Stop", "Stop this model's answer", (event) => {
    event.stopPropagation();
    generation.stop();
  });
  const error = h("p", { class: "column-error", role: "alert" });
  function update({ finishReason }) {
    const running = !finishReason;
    rate.replaceChildren(...speed(generation, running));
    stop.hidden = !running;
    error.textContent = generation.error?.message ?? "";
  }
  return { name: generation.request.model, elements: [rate, stop, error], update };
}

/** Whether the model itself ended the answer, or the user did. */
const hasEnded = ({ finishReason }) => finishReason !== "" && finishReason !== "failed";

function createPicker(index, label, store) {
  const input = h("input", { type: "radio", name: "selected", value: index });
  input.addEventListener("change", () => store.set({ selected: index }));
  return h("label", { class: "picker" }, input, h("span", {}, label));
}

function createButton(label, title, onClick) {
  const button = h("button", { class: "quiet small", type: "button", title }, label);
  button.addEventListener("click", onClick);
  return button;
}

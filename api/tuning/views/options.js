/** The options of a job. An empty number is chosen by the server. */

import { byId, h } from "../../playground/views/dom.js";

const METHODS = ["supervised", "dpo", "orpo", "kto"];
const FINETUNING_TYPES = { lora: "LoRA adapter", full: "all weights" };
const NUMBERS = {
  n_epochs: ["Epochs", "1"],
  batch_size: ["Batch size", "1"],
  learning_rate: ["Learning rate", "any"],
  lora_rank: ["Rank", "1"],
};

export function optionsView(store) {
  const form = byId("options");
  const set = (name, value) => store.set({ options: { ...store.state.options, [name]: value } });
  const method = menu("method", METHODS.map((name) => [name, name]));
  const type = menu("finetuning_type", Object.entries(FINETUNING_TYPES));
  const suffix = h("input", { id: "option-suffix", type: "text", autocomplete: "off", maxLength: 64 });
  const numbers = Object.entries(NUMBERS).map(([name, [label, step]]) =>
    field(label, h("input", { id: `option-${name}`, type: "number", min: "0", step, placeholder: "auto" })),
  );
  form.append(field("Method", method), field("Trains", type), field("Name", suffix), ...numbers);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", ({ target }) => set(target.id.replace("option-", ""), target.value));
}

function menu(name, options) {
  return h("select", { id: `option-${name}` }, ...options.map(([value, label]) => h("option", { value }, label)));
}

function field(label, control) {
  return h("div", { class: "option" }, h("label", { for: control.id }, label), control);
}

/** The editor of a text: the preamble, and below it the prompt, in the order that the model reads them. */

import { autosizeTextarea } from "./autosize.js";
import { h } from "./dom.js";

export function textEditorView(root, store) {
  const preamble = autosizeTextarea({
    label: "Preamble",
    placeholder: "What always stands before the prompt: who speaks, to whom, how.",
    onInput: (preamble) => store.set({ preamble }),
  });
  const prompt = autosizeTextarea({
    label: "Prompt",
    placeholder: "Write something for the model to go on with.",
    rows: 3,
    onInput: (prompt) => store.set({ prompt }),
  });
  const note = h("p", { class: "truncation-note", hidden: true });
  const details = h("details", { class: "preamble" }, h("summary", {}, "Preamble"), preamble.element);
  const view = h("div", { class: "text" }, details, note, prompt.element);
  root.append(view);

  details.open = Boolean(store.state.preamble);
  store.subscribe(["mode"], ({ mode }) => (view.hidden = mode !== "text"));
  store.subscribe(["preamble", "prompt", "truncated"], (state) => {
    const { truncated } = state;
    preamble.update(state.preamble, truncated.preamble);
    prompt.update(state.prompt, truncated.prompt);
    const total = truncated.preamble + truncated.prompt;
    note.hidden = total <= 0;
    const count = total.toLocaleString("en");
    note.textContent = `${count} characters are cut: the model does not see the hatched part.`;
  });
}

/** Writing a text: the preamble and the prompt, one under the other as the model reads them. */

import { h } from "./dom.js";
import { growing } from "./growing.js";

export function textView(home, store) {
  const preamble = growing({
    label: "Preamble",
    placeholder: "What always stands before the prompt: who speaks, to whom, how.",
    write: (preamble) => store.set({ preamble }),
  });
  const prompt = growing({
    label: "Prompt",
    placeholder: "Write something for the model to go on with.",
    rows: 3,
    write: (prompt) => store.set({ prompt }),
  });
  const told = h("p", { class: "cut-told", hidden: true });
  const before = h("details", { class: "preamble" }, h("summary", {}, "Preamble"), preamble.home);
  const view = h("div", { class: "text" }, before, told, prompt.home);
  home.append(view);

  before.open = Boolean(store.state.preamble);
  store.watch(["mode"], ({ mode }) => (view.hidden = mode !== "text"));
  store.watch(["preamble", "prompt", "cut"], (state) => {
    preamble.show(state.preamble, state.cut.preamble);
    prompt.show(state.prompt, state.cut.prompt);
    const lost = state.cut.preamble + state.cut.prompt;
    told.hidden = lost <= 0;
    const count = lost.toLocaleString("en");
    told.textContent = `${count} characters are cut: the model does not see the hatched part.`;
  });
}

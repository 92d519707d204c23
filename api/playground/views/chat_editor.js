/** The editor of a conversation: the system message, the turns so far, and the next message. */

import { autosizeTextarea } from "./autosize.js";
import { byId, h } from "./dom.js";

const ROLES = { user: "You", assistant: "Model" };

export function chatEditorView(root, composer, store) {
  const system = autosizeTextarea({
    label: "System message",
    placeholder: "How the model should answer.",
    onInput: (system) => store.set({ system }),
  });
  const details = h("details", { class: "preamble" }, h("summary", {}, "System message"), system.element);
  const list = h("ol", { class: "turns" });
  const view = h("div", { class: "chat" }, details, list);
  const draft = autosizeTextarea({
    label: "Message",
    placeholder: "Write a message.",
    onInput: (draft) => store.set({ draft }),
  });
  root.append(view);
  composer.append(draft.element);

  details.open = Boolean(store.state.system);
  store.subscribe(["system"], (state) => system.update(state.system));
  store.subscribe(["draft"], (state) => draft.update(state.draft));
  store.subscribe(["mode"], ({ mode }) => (view.hidden = composer.hidden = mode !== "chat"));
  const turnViews = [];
  store.subscribe(["turns"], ({ turns }) => updateTurns(list, turnViews, turns, store));
}

/** Reuses the elements of existing turns, so that an edit does not move the cursor. */
function updateTurns(list, turnViews, turns, store) {
  while (turnViews.length > turns.length) turnViews.pop().element.remove();
  while (turnViews.length < turns.length) {
    const turn = createTurn(turnViews.length, store);
    turnViews.push(turn);
    list.append(turn.element);
  }
  turns.forEach((turn, index) => turnViews[index].update(turn));
}

function createTurn(index, store) {
  const change = (changes) =>
    store.set({ turns: store.state.turns.map((turn, i) => (i === index ? { ...turn, ...changes } : turn)) });
  const remove = () => {
    store.set({ turns: store.state.turns.filter((_, i) => i !== index) });
    byId("editor").focus();
  };
  const number = index + 1;
  const role = h("button", { class: "role", type: "button", title: "Change who says this" });
  const removeButton = h(
    "button",
    { class: "quiet small", type: "button", "aria-label": `Remove turn ${number}` },
    "Remove",
  );
  const text = autosizeTextarea({
    label: `Turn ${number}`,
    placeholder: "",
    onInput: (content) => change({ content }),
  });
  const header = h("div", { class: "turn-header" }, role, removeButton);
  const element = h("li", { class: "turn" }, header, text.element);
  removeButton.addEventListener("click", remove);
  role.addEventListener("click", () =>
    change({ role: element.dataset.role === "user" ? "assistant" : "user" }),
  );

  function update(turn) {
    element.dataset.role = turn.role;
    role.textContent = ROLES[turn.role];
    text.update(turn.content);
  }
  return { element, update };
}

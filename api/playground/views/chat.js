/** Writing a conversation: the system message, every turn to be edited, and the message to come. */

import { byId, h } from "./dom.js";
import { growing } from "./growing.js";

const ROLES = { user: "You", assistant: "Model" };

export function chatView(home, composer, store) {
  const system = growing({
    label: "System message",
    placeholder: "How the model should answer.",
    write: (system) => store.set({ system }),
  });
  const before = h("details", { class: "preamble" }, h("summary", {}, "System message"), system.home);
  const list = h("ol", { class: "turns" });
  const view = h("div", { class: "chat" }, before, list);
  const draft = growing({
    label: "Message",
    placeholder: "Write a message.",
    write: (draft) => store.set({ draft }),
  });
  home.append(view);
  composer.append(draft.home);

  before.open = Boolean(store.state.system);
  store.watch(["system"], (state) => system.show(state.system));
  store.watch(["draft"], (state) => draft.show(state.draft));
  store.watch(["mode"], ({ mode }) => (view.hidden = composer.hidden = mode !== "chat"));
  const shown = [];
  store.watch(["turns"], ({ turns }) => showTurns(list, shown, turns, store));
}

/** A turn's element stays while its text changes, so that the cursor stays, too. */
function showTurns(list, shown, turns, store) {
  while (shown.length > turns.length) shown.pop().home.remove();
  while (shown.length < turns.length) {
    const turn = turnView(shown.length, store);
    shown.push(turn);
    list.append(turn.home);
  }
  turns.forEach((turn, place) => shown[place].show(turn));
}

function turnView(place, store) {
  const change = (changes) =>
    store.set({ turns: store.state.turns.map((turn, i) => (i === place ? { ...turn, ...changes } : turn)) });
  const remove = () => {
    store.set({ turns: store.state.turns.filter((_, i) => i !== place) });
    byId("paper").focus();
  };
  const number = place + 1;
  const role = h("button", { class: "role", type: "button", title: "Change who says this" });
  const gone = h(
    "button",
    { class: "quiet small", type: "button", "aria-label": `Remove turn ${number}` },
    "Remove",
  );
  const text = growing({ label: `Turn ${number}`, write: (content) => change({ content }), placeholder: "" });
  const home = h("li", { class: "turn" }, h("div", { class: "turn-head" }, role, gone), text.home);
  gone.addEventListener("click", remove);
  role.addEventListener("click", () => change({ role: home.dataset.role === "user" ? "assistant" : "user" }));

  function show(turn) {
    home.dataset.role = turn.role;
    role.textContent = ROLES[turn.role];
    text.show(turn.content);
  }
  return { home, show };
}

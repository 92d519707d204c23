/** The answers of the last run: growing as they come, one of them picked. */

import { copy, h } from "./dom.js";
import { ending } from "./ending.js";
import { tokenText } from "./spans.js";

export function answersView(home, store, run) {
  let shown = [];
  store.watch(["answers", "picked", "mode"], ({ answers, picked, mode }) => {
    if (shown.length !== answers.length || shown.some((card, i) => !card.shows(answers[i]))) {
      shown = answers.map((_, place) => card(place, answers.length, store, run));
      home.replaceChildren(...shown.map(({ home }) => home));
    }
    home.classList.toggle("several", answers.length > 1);
    home.dataset.mode = mode;
    answers.forEach((answer, place) => shown[place].show(answer, place === picked));
  });
}

/** The card of one answer, for as long as there is this answer. */
function card(place, of, store, run) {
  const text = h("div", { class: "answer-text", tabIndex: 0, "aria-label": `Answer ${place + 1}` });
  const foot = h("p", { class: "ending" });
  const tools = h(
    "div",
    { class: "answer-tools" },
    button("Keep", "Make it part of the text, to edit it", () => {
      store.set({ picked: place });
      run.settle();
    }),
    button("Copy", "Copy the answer", (event) => copy(answerOf().text, event.target, text)),
  );
  const radio = of > 1 ? picker(place, store) : null;
  const home = h(
    "article",
    { class: "answer" },
    radio,
    text,
    h("div", { class: "answer-foot" }, foot, tools),
  );
  const answerOf = () => store.state.answers[place];
  const showTokens = tokenText(text);
  let own = null;

  function show(answer, isPicked) {
    own ??= answer;
    showTokens(answer.tokens);
    home.classList.toggle("picked", isPicked && of > 1);
    home.classList.toggle("going", !answer.reason);
    home.classList.toggle("void", answer.reason !== "" && !answer.text);
    foot.replaceChildren(...ending(answer));
    tools.hidden = !answer.reason || !answer.text;
    if (radio) radio.querySelector("input").checked = isPicked;
  }
  if (of > 1) home.addEventListener("click", () => store.set({ picked: place }));
  return { home, show, shows: (answer) => !own || own === answer };
}

function picker(place, store) {
  const input = h("input", { type: "radio", name: "picked", value: place });
  input.addEventListener("change", () => store.set({ picked: place }));
  return h("label", { class: "picker" }, input, h("span", {}, `Answer ${place + 1}`));
}

function button(word, title, call) {
  const made = h("button", { class: "quiet small", type: "button", title }, word);
  made.addEventListener("click", call);
  return made;
}

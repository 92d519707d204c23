/** One question to the base and to the tuned model, with both answers side by side. */

import { byId, h } from "../../playground/views/dom.js";

export function compareView(store, actions) {
  byId("ask").addEventListener("submit", (event) => {
    event.preventDefault();
    const question = byId("question").value.trim();
    if (question) actions.compare(question);
  });
  store.subscribe(["job"], ({ job }) => (byId("compare").hidden = !job?.fine_tuned_model));
  store.subscribe(["answers"], ({ answers, model, job }) => {
    const columns = answers && [column("base", model, answers.base), column("tuned", job.fine_tuned_model, answers.tuned)];
    byId("answers").replaceChildren(...(columns ?? []));
  });
}

function column(kind, name, text) {
  return h("article", { class: kind }, h("h3", {}, name), h("p", { class: "answer" }, text ?? "…"));
}

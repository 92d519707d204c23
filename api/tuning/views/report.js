/** The dry run: how many rows and tokens, the memory, and the first rows with their trained text marked. */

import { byId, h } from "../../playground/views/dom.js";

const MB = 1e6;

export function reportView(store) {
  store.subscribe(["report"], ({ report }) => byId("report").replaceChildren(...(report ? content(report) : [])));
}

function content(report) {
  if (report.error) return [h("p", { class: "refused", role: "alert" }, report.error.message)];
  return [
    h("dl", { class: "counts" }, ...counts(report).flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])),
    ...report.messages.map((message) => h("p", { class: "hint" }, message)),
    h("p", { class: "hint legend" }, "The first rows, as the model reads them. ", h("mark", {}, "Marked"), " text is trained."),
    h("div", { class: "rows" }, ...report.shown_rows.map(row)),
  ];
}

function counts(report) {
  const values = report.spec?.hyperparameters ?? {};
  const bytes = Object.values(report.memory_plan).reduce((sum, each) => sum + each, 0);
  return [
    ["Rows", number(report.num_examples)],
    ["Left out: too long", number(report.num_cut)],
    ["Tokens", number(report.num_tokens)],
    ["Trained tokens", number(report.num_trained_tokens)],
    ["Steps", number(report.num_total_steps)],
    ["Epochs", number(values.n_epochs ?? 0)],
    ["Learning rate", (values.learning_rate ?? 0).toPrecision(2)],
    ["Memory", `${number(Math.round(bytes / MB))} MB`],
    ["Time, estimated", report.estimated_s === null ? "unknown" : `${number(Math.ceil(report.estimated_s))} s`],
  ];
}

const number = (value) => value.toLocaleString("en");

function row({ line, label, num_tokens, num_trained_tokens, segments }) {
  const texts = segments.map(({ text, is_trained }) => (is_trained ? h("mark", {}, text) : text));
  return h(
    "article",
    { class: "row" },
    h("h3", {}, `Line ${line}${label ? `, ${label}` : ""}`),
    h("p", { class: "hint" }, `${num_trained_tokens} of ${num_tokens} tokens are trained`),
    h("pre", { tabIndex: 0 }, ...texts),
  );
}

/** The shown job: its state, its progress, its buttons and its events. */

import { byId, h, shareBar } from "../../playground/views/dom.js";
import { hasEnded } from "../actions.js";

export function jobView(store, actions) {
  const menu = byId("jobs");
  menu.addEventListener("change", () => actions.follow(store.state.jobs.find(({ id }) => id === menu.value)));
  store.subscribe(["jobs", "job"], ({ jobs, job }) => {
    byId("job").hidden = !job;
    menu.replaceChildren(...jobs.map((each) => option(each, job)));
  });
  store.subscribe(["job"], ({ job }) => byId("job-buttons").replaceChildren(...(job ? buttons(job, actions) : [])));
  store.subscribe(["job", "events"], ({ job, events }) => byId("progress").replaceChildren(...(job ? progress(job, events) : [])));
  store.subscribe(["events"], ({ events }) => {
    byId("events").replaceChildren(...events.filter(({ type }) => type === "message").map(eventItem));
  });
}

function option({ id, status, fine_tuned_model }, job) {
  return h("option", { value: id, selected: id === job?.id }, `${fine_tuned_model ?? id} (${status})`);
}

function buttons(job, actions) {
  if (hasEnded(job)) return [];
  const first = job.status === "paused" ? ["resume", "Resume"] : ["pause", "Pause"];
  return [first, ["cancel", "Cancel"]].map(([action, label]) =>
    h("button", { id: `job-${action}`, class: "small", type: "button", onclick: () => actions.change(action) }, label),
  );
}

function progress(job, events) {
  const step = events.find(({ type, data }) => type === "metrics" && data.learning_rate !== undefined)?.data;
  const words = [h("strong", { class: job.status }, job.status.replace("_", " "))];
  if (job.error) words.push(h("span", { class: "refused" }, job.error.message));
  if (job.fine_tuned_model) words.push(h("code", {}, job.fine_tuned_model));
  if (!step) return [stateLine(words)];
  words.push(`step ${step.step} of ${step.total_steps}`);
  if (step.train_loss !== null) words.push(`loss ${step.train_loss.toFixed(3)}`);
  if (!hasEnded(job) && step.tokens_per_second) words.push(`${Math.round(step.tokens_per_second)} tokens/s`);
  if (job.estimated_finish) words.push(`${secondsLeft(job.estimated_finish)} s left`);
  const track = h("div", { class: "track" }, shareBar("prompt", step.step / step.total_steps));
  return [stateLine(words), track];
}

const stateLine = (words) =>
  h("p", { class: "state" }, ...words.flatMap((word, i) => (i ? [" · ", word] : [word])));

const secondsLeft = (unixTime) => Math.max(0, Math.round(unixTime - Date.now() / 1000));

function eventItem({ created_at, level, message }) {
  const time = new Date(created_at * 1000).toLocaleTimeString("en-GB");
  return h("li", { class: level }, h("time", {}, time), h("span", {}, message));
}

/** The requests of this page: files, jobs and answers, as OpenAI's routes have them. */

import { callServer, errorMessage, RequestError } from "../playground/server.js";

const JOBS = "/v1/fine_tuning/jobs";
const MAX_EVENTS = 100; // of a page
const MAX_ANSWER_TOKENS = 256;

/** Resolves to the id of the uploaded file. `file` is a File of the browser. */
export async function uploadFile(file, key) {
  const body = new FormData();
  body.append("purpose", "fine-tune");
  body.append("file", file);
  const response = await fetch(new URL("./v1/files", document.baseURI), {
    method: "POST",
    body,
    headers: key ? { Authorization: `Bearer ${key}` } : {},
  }).catch(() => {
    throw new RequestError(0, "The server did not answer.");
  });
  const reply = await response.json().catch(() => ({}));
  if (!response.ok) throw new RequestError(response.status, errorMessage(reply) ?? response.statusText);
  return reply.id;
}

/** The body of a job. Options that are "" are chosen by the server; a rank is of an adapter alone. */
export function jobBody({ model, file, validation, options }) {
  const { method, finetuning_type, suffix, lora_rank, ...others } = options;
  const numbers = finetuning_type === "lora" ? { lora_rank, ...others } : others;
  const chosen = Object.entries(numbers).filter(([, value]) => value !== "");
  const values = Object.fromEntries(chosen.map(([name, value]) => [name, Number(value)]));
  const hyperparameters = { finetuning_type, ...values };
  const files = { training_file: file.id, validation_file: validation?.id ?? null };
  return { model, ...files, suffix, method: { type: method, [method]: { hyperparameters } } };
}

const readJson = async (path, options) => (await callServer(path, options)).json();

export const createJob = (body, key) => readJson(JOBS, { body, key });
export const dryRun = (body, key) => readJson(JOBS, { body: { ...body, dry_run: true }, key });
export const listJobs = async (key) => (await readJson(JOBS, { key })).data;
export const getJob = (id, key) => readJson(`${JOBS}/${id}`, { key });
export const changeJob = (id, action, key) => readJson(`${JOBS}/${id}/${action}`, { body: {}, key });

/** The events that follow those in `known`, both newest first. */
export async function newEvents(id, known, key) {
  const last = known[0]?.id;
  const events = [];
  for (let after = ""; ; ) {
    const page = await readJson(`${JOBS}/${id}/events?limit=${MAX_EVENTS}${after}`, { key });
    for (const event of page.data) {
      if (event.id === last) return events;
      events.push(event);
    }
    if (!page.has_more) return events;
    after = `&after=${page.data.at(-1).id}`;
  }
}

/** The greedy answer of a model to one question. */
export async function ask(model, question, key) {
  const messages = [{ role: "user", content: question }];
  const body = { model, messages, temperature: 0, max_tokens: MAX_ANSWER_TOKENS };
  return (await readJson("/v1/chat/completions", { body, key })).choices[0].message.content ?? "";
}

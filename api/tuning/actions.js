/** What a user can do: choose rows, train, follow a job, end it, and ask both models. */

import { ask, changeJob, createJob, dryRun, getJob, jobBody, listJobs, newEvents, uploadFile } from "./requests.js";

/** What `busy` says during a dry run. */
export const CHECKING = "Reading the rows";
const POLL_MS = 700;
const ENDED = ["succeeded", "failed", "cancelled"];

export const hasEnded = (job) => ENDED.includes(job.status);

export class Actions {
  #store;
  #timer = null;
  #checked = Promise.resolve();

  constructor(store) {
    this.#store = store;
  }

  async chooseFile(file) {
    this.#store.set({ report: null });
    if (await this.#upload("file", file)) await this.check();
  }

  /** Evaluate on a file's rows; null: on none. */
  async chooseValidation(file) {
    if (!file) this.#store.set({ validation: null });
    else if (!(await this.#upload("validation", file))) return;
    if (this.#store.state.file?.id) await this.check();
  }

  /** Dry run of the file with the options. */
  check() {
    this.#checked = this.#during(CHECKING, async (state) => {
      this.#store.set({ report: await dryRun(jobBody(state), state.key) });
    });
    return this.#checked;
  }

  /** Create a job, unless the dry run, which may still run, ends with an error; of two clicks, one job. */
  async train() {
    await this.#checked;
    const { busy, report } = this.#store.state;
    if (busy || report.error) return;
    await this.#during("Creating the job", async (state) => {
      const job = await createJob(jobBody(state), state.key);
      this.#store.set({ jobs: [job, ...state.jobs] });
      this.follow(job);
    });
  }

  async loadJobs() {
    const jobs = await listJobs(this.#store.state.key);
    this.#store.set({ jobs });
    if (jobs.length) this.follow(jobs[0]);
  }

  /** Show a job, and keep it up to date until it has ended. */
  follow(job) {
    clearTimeout(this.#timer);
    this.#store.set({ job, events: [], answers: null });
    return this.#poll(job.id);
  }

  change(action) {
    return this.#during("", async ({ job, key }) => {
      this.#store.set({ job: await changeJob(job.id, action, key) });
      this.follow(this.#store.state.job);
    });
  }

  compare(question) {
    this.#store.set({ answers: { question, base: null, tuned: null } });
    return this.#during("Asking", async ({ model, job, key }) => {
      const names = [model, job.fine_tuned_model];
      const [base, tuned] = await Promise.all(names.map((name) => ask(name, question, key)));
      this.#store.set({ answers: { question, base, tuned } });
    });
  }

  /** Send a file, and keep its name and id under `name`. Resolves to whether it was accepted. */
  async #upload(name, file) {
    this.#store.set({ [name]: { name: file.name, id: null } });
    await this.#during("Uploading", async ({ key }) => {
      const id = await uploadFile(file, key);
      this.#store.set({ [name]: { name: file.name, id } });
    });
    const isAccepted = Boolean(this.#store.state[name].id);
    if (!isAccepted) this.#store.set({ [name]: null });
    return isAccepted;
  }

  async #poll(id) {
    const { key, events } = this.#store.state;
    try {
      const job = await getJob(id, key);
      const added = await newEvents(id, events, key);
      if (this.#store.state.job?.id !== id) return;
      const jobs = this.#store.state.jobs.map((each) => (each.id === id ? job : each));
      this.#store.set({ job, jobs, events: added.length ? [...added, ...events] : events });
      if (!hasEnded(job)) this.#timer = setTimeout(() => this.#poll(id), POLL_MS);
    } catch (error) {
      this.#store.set({ error });
    }
  }

  /** Run `work` with the state; meanwhile `busy` says what the page waits for. */
  async #during(busy, work) {
    this.#store.set({ busy, error: null });
    try {
      await work(this.#store.state);
    } catch (error) {
      this.#store.set({ error });
    } finally {
      this.#store.set({ busy: "" });
    }
  }
}

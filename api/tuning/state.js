/** The page's initial state. The API key is the playground's, stored for this tab only. */

const API_KEY_ITEM = "hearth.key";

/**
 * model    id of the base model; null: not yet known
 * file     {name, id} of the uploaded rows; id is null while they are sent
 * validation  likewise, the rows to evaluate on; null: none
 * options  values of the form by name; "" means automatic
 * report   the dry run of file with options; null: there is none
 * jobs     all jobs, newest first; `job` is the shown one, with its `events`, newest first
 * answers  {question, base, tuned} of the comparison: each text is null until it is there
 * busy     what the page waits for, as words; "" for nothing
 */
export const initialState = () => ({
  model: null,
  file: null,
  validation: null,
  options: {
    method: "supervised",
    finetuning_type: "lora",
    suffix: "",
    n_epochs: "",
    batch_size: "",
    learning_rate: "",
    lora_rank: "",
  },
  report: null,
  jobs: [],
  job: null,
  events: [],
  answers: null,
  busy: "",
  error: null,
  theme: "auto",
  key: readKey(),
});

function readKey() {
  try {
    return JSON.parse(sessionStorage.getItem(API_KEY_ITEM) ?? '""');
  } catch {
    return "";
  }
}

/** A browser may forbid storage; the page works without it. */
export function persistKey(store) {
  store.subscribe(["key"], ({ key }) => {
    try {
      sessionStorage.setItem(API_KEY_ITEM, JSON.stringify(key));
    } catch (error) {
      console.info("key not stored:", error.name);
    }
  });
}

/** A generation request, independent of any dialect: the prompt or the messages, and the parameters. */

/**
 * @typedef {object} GenerationRequest
 * @property {"text"|"chat"} mode
 * @property {string} model
 * @property {string|null} adapter  of the model; null: the model itself
 * @property {string} preamble  text that precedes the prompt; not sent in chat mode
 * @property {string} prompt
 * @property {{role: string, content: string}[]} messages  including the system message, if there is one
 * @property {object} params    values by parameter name, see params.js
 * @property {number} context   the model's context length in tokens
 */

/** @returns {GenerationRequest} */
export function buildRequest(state) {
  const { mode, preamble, prompt, system, params, model } = state;
  const turns = turnsWithDraft(state);
  return {
    mode,
    model: model?.id ?? "",
    adapter: model?.adapter ?? null,
    preamble,
    prompt,
    messages: system.trim() ? [{ role: "system", content: system }, ...turns] : turns,
    params,
    context: model?.context ?? 2048,
  };
}

/** The conversation, followed by the message that is about to be sent. */
const turnsWithDraft = ({ turns, draft }) =>
  draft.trim() ? [...turns, { role: "user", content: draft }] : turns;

/** The same request with a seed, so that its completions are reproducible. Greedy sampling needs no seed. */
export function withSeed(request) {
  const { seed, temperature } = request.params;
  const newSeed = temperature === 0 ? null : (seed ?? Math.floor(Math.random() * 2 ** 32));
  return { ...request, params: { ...request.params, seed: newSeed } };
}

/** The request, and the same one to each of the other models. */
export const withModels = (request, models) => [
  request,
  ...models.map(({ id, adapter, context }) => ({ ...request, model: id, adapter, context })),
];

/** The request for completion `index` where each one needs its own request. Its seed is seed + index. */
export function singleCompletionRequest(request, index) {
  const { seed } = request.params;
  const ownSeed = seed === null ? null : seed + index;
  return { ...request, params: { ...request.params, n: 1, seed: ownSeed } };
}

/** Whether the conversation ends with an assistant message, which the model would have to continue. */
export const endsWithAssistant = ({ messages }) => messages.at(-1)?.role === "assistant";

/** The messages without the system message, which the page stores separately. */
export const withoutSystemMessage = ({ messages }) => messages.filter(({ role }) => role !== "system");

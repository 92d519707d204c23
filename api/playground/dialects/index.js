/**
 * The dialects by id. Each one is an object of
 *
 * name                  display name
 * modes                 which modes it supports: "text", "chat"
 * fields                its field name for each parameter that it supports; "" where another field carries it
 * formats               the response formats it supports, besides free text
 * supportsN             one request can return several completions
 * supportsContinuation  a conversation may end with an assistant message, which the model continues
 * serialize             (GenerationRequest, stream) → {path, body}
 * readEvents            (byte stream of the response, GenerationRequest) → async iterator of events:
 *     {index, text, logprob, top, special}      a token; top: [{text, logprob}], the most likely tokens
 *     {index, finishReason, stop, tail, text}   a completion's end; stop: the stop string that matched;
 *                                               tail: text generated after it; text: the completion without
 *                                               the tail, if more was streamed
 *     {truncated: {preamble, prompt}}           characters truncated at the start of each
 */

import { llamaStack } from "./llama_stack.js";
import { neodim } from "./neodim.js";
import { openai } from "./openai.js";
import { tgi } from "./tgi.js";

export const DIALECTS = { llama_stack: llamaStack, openai, tgi, neodim };

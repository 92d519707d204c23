/** Parsers of streamed response bodies: newline-delimited JSON and server-sent events. Knows no dialect. */

import { RequestError, errorMessage } from "./server.js";

/** The values of newline-delimited JSON. */
export async function* jsonLines(stream) {
  for await (const line of lines(stream)) {
    if (line) yield parse(line);
  }
}

/** The JSON values of `data:` lines, up to [DONE]. This server sends one line per event. */
export async function* serverSentEvents(stream) {
  for await (const line of lines(stream)) {
    const data = line.startsWith("data:") ? line.slice(5).trim() : "";
    if (data && data !== "[DONE]") yield parse(data);
  }
}

async function* lines(stream) {
  let buffer = "";
  for await (const chunk of textChunks(stream)) {
    const parts = (buffer + chunk).split("\n");
    buffer = parts.pop();
    for (const part of parts) yield part.replace(/\r$/, "");
  }
  if (buffer) yield buffer;
}

/** Not every browser supports `for await` over a ReadableStream. */
async function* textChunks(stream) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  try {
    for (let chunk = await reader.read(); !chunk.done; chunk = await reader.read()) yield chunk.value;
  } finally {
    reader.cancel().catch(() => {});
  }
}

/** Parse a JSON value. Throws RequestError if it is the error event of a failed stream. */
function parse(text) {
  const value = JSON.parse(text);
  const message = errorMessage(value);
  if (message) throw new RequestError(200, message);
  return value;
}

/** HTTP requests to the server: URLs, the API key and error messages. Knows no dialect. */

const UNREACHABLE = "The server did not answer. Is it still running, and reachable from here?";

/**
 * A request that failed. `status` is the HTTP status: 0 if there was no response or the request was not sent,
 * 200 if the stream failed after it had begun.
 */
export class RequestError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** Paths are relative to the page, so that the page works behind a reverse proxy's path prefix. */
const resolveUrl = (path) => new URL(`.${path}`, document.baseURI);

/** Resolves to a response with a success status. Throws RequestError otherwise, AbortError after an abort. */
export async function callServer(path, { body, key, signal } = {}) {
  const headers = { Accept: "application/x-ndjson, text/event-stream, application/json" };
  if (key) headers.Authorization = `Bearer ${key}`;
  if (body) headers["Content-Type"] = "application/json";
  const method = body ? "POST" : "GET";
  const response = await fetch(resolveUrl(path), {
    method,
    headers,
    signal,
    body: body && JSON.stringify(body),
  }).catch((error) => {
    throw error.name === "AbortError" ? error : new RequestError(0, UNREACHABLE);
  });
  if (!response.ok) throw new RequestError(response.status, await readErrorMessage(response));
  return response;
}

async function readErrorMessage(response) {
  const text = await response.text();
  try {
    return errorMessage(JSON.parse(text)) ?? text;
  } catch {
    return text || response.statusText || "no reason was given";
  }
}

/** The message of an error body or of a stream's error event, in any dialect; undefined if there is none. */
export function errorMessage(body) {
  if (typeof body?.error === "string") return body.error;
  return body?.error?.message ?? body?.error?.detail?.message;
}

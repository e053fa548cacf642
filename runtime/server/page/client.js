// Requests to the server, with the key if one is required, and streams of events.

const STORED_KEY = "yoke.key";
let askForKey = async () => null;
let keyPending = null;

export class ServerError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

// asker(isWrong): resolves to a key, or null if the user has none; isWrong: the server refused the previous key.
export function setKeyAsker(asker) {
  askForKey = asker;
}

async function errorOf(response) {
  const text = await response.text().catch(() => "");
  try {
    const { error } = JSON.parse(text);
    return new ServerError(response.status, String(error.message ?? error));
  } catch {
    return new ServerError(response.status, `The server answered ${response.status} ${response.statusText}`.trim());
  }
}

// One dialog serves all requests that wait for a key.
async function newKey(refused) {
  if (sessionStorage.getItem(STORED_KEY) !== refused) return true; // another request has got a key meanwhile
  keyPending ??= askForKey(refused !== null).finally(() => { keyPending = null; });
  const key = await keyPending;
  if (key) sessionStorage.setItem(STORED_KEY, key);
  return Boolean(key);
}

// Returns a response with status 200 to 299. promptsForKey: prompts the user if a key is missing or refused.
export async function request(path, { promptsForKey = true, body, signal } = {}) {
  for (;;) {
    const key = sessionStorage.getItem(STORED_KEY);
    const headers = body ? { "Content-Type": "application/json" } : {};
    if (key) headers.Authorization = `Bearer ${key}`;
    let response;
    try {
      response = await fetch(path, {
        method: body ? "POST" : "GET", headers, body: body && JSON.stringify(body), signal, cache: "no-store",
      });
    } catch (error) {
      throw error.name === "AbortError" ? error : new ServerError(0, "The server cannot be reached.");
    }
    if (response.ok) return response;
    if (response.status !== 401 || !promptsForKey || !await newKey(key)) throw await errorOf(response);
  }
}

function eventOf(block) {
  const lines = block.split(/\r?\n/).filter((line) => line.startsWith("data:"));
  return lines.map((line) => line.slice(5).trimStart()).join("\n");
}

// Yields the objects of a stream of server-sent events, up to [DONE].
export async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) throw new ServerError(0, "The server ended the stream early.");
    const blocks = (rest + value).split(/\r?\n\r?\n/);
    rest = blocks.pop();
    for (const data of blocks.map(eventOf)) {
      if (data === "[DONE]") return;
      if (!data) continue;
      const event = JSON.parse(data);
      if (event.error) throw new ServerError(Number(event.error.code) || 0, String(event.error.message));
      yield event;
    }
  }
}

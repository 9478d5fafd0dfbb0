// Talking to the server that this page came from.

const KEY = "briefcontext-token";
const sources = new Map();

/** An error of the server, or an unreachable server. */
export class Refused extends Error {
  constructor(kind, message) {
    super(message);
    this.kind = kind;
  }
}

/** Take the token from the link's fragment, which no server or log ever sees, and out of the address. */
export function takeToken() {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (token) {
    keepToken(token);
    history.replaceState(null, "", location.pathname + location.search);
  }
}

export function keepToken(token) {
  sessionStorage.setItem(KEY, token);
}

async function call(path, options = {}) {
  const token = sessionStorage.getItem(KEY);
  const headers = { ...options.headers, ...(token ? { Authorization: `Bearer ${token}` } : {}) };
  let response;
  try {
    response = await fetch(path, { ...options, headers, credentials: "omit", cache: "no-store" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused("Unreachable", "The server of this page cannot be reached. Is it still running?");
  }
  if (response.ok) return response;
  const reply = await response.json().catch(() => ({}));
  throw new Refused(reply.error?.kind ?? "Refused", reply.error?.message ?? `The server answered ${response.status}.`);
}

function post(path, given, signal) {
  const headers = { "Content-Type": "application/json" };
  return call(path, { method: "POST", headers, body: JSON.stringify(given), signal });
}

export async function about() {
  return (await call("api/about")).json();
}

/** Fetch how many passages the filters among the settings leave. */
export async function count(settings) {
  return (await post("api/count", { settings })).json();
}

/** Keep the passages of a source that came along with an answer. */
export function keepSource(id, found) {
  sources.set(id, Promise.resolve(found));
}

/** Fetch all passages of one source, once. */
export function source(id) {
  if (!sources.has(id)) sources.set(id, post("api/source", { source_id: id }).then((response) => response.json()));
  return sources.get(id);
}

/** Ask, over a file of the visitor's if there is one, and yield the server's lines as they come. */
export async function* ask(question, file, signal) {
  const response = file
    ? await post("api/ask/file", { ...question, file: { name: file.name, content: await base64(file) } }, signal)
    : await post("api/ask", question, signal);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read().catch((error) => {
      if (error.name === "AbortError") throw error;
      throw new Refused("Unreachable", "The connection broke before the answer was there.");
    });
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) if (line) yield JSON.parse(line);
  }
}

function base64(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result.slice(reader.result.indexOf(",") + 1));
    reader.onerror = () => reject(new Refused("Unreadable", `The browser cannot read ${file.name}. Choose it again.`));
    reader.readAsDataURL(file);
  });
}

// The conversation and the controls around it.

import { AnswerView, PlainView, Speaker } from "./answer.js";
import { CallsView, messagesOf } from "./calls.js";
import { ServerError, events, request, setKeyAsker } from "./client.js";
import { watchFigures } from "./figures.js";
import { showHelp } from "./help.js";
import { chatParameters, parameters, showInvalid, systemPrompt } from "./settings.js";

const STORED = "yoke.history";
const NARROW = window.matchMedia("(max-width: 56rem)");
const TOUCH = window.matchMedia("(pointer: coarse)");
const MODES = {
  chat: { noun: "Message", empty: "Ask something to begin.", names: { user: "You", assistant: "Model" } },
  completion: {
    noun: "Text to continue", empty: "Write a text, and the model continues it.",
    names: { user: "Text", assistant: "Continuation" },
  },
};

const byId = (id) => document.getElementById(id);
const [log, prompt, notice] = ["log", "prompt", "notice"].map(byId);
const speaker = new Speaker(byId("spoken"));
let model = "";
let mode = "chat";
let logs = { chat: [], completion: [] }; // entries {role, content, reasoning, calls, note} of each mode
let running = null; // the AbortController of the present answer
let lastCalls = null; // the CallsView of the last entry

function keep() {
  try {
    sessionStorage.setItem(STORED, JSON.stringify({ mode, logs }));
  } catch {
    // A history too large for the browser's storage is lost on reload, without other effect.
  }
}

function make(tag, className, text = "") {
  const element = document.createElement(tag);
  element.className = className;
  element.textContent = text;
  return element;
}

// ---- The log

// onShown(text): called when more of the entry is shown.
function showEntry(entry, onShown) {
  const article = make("article", entry.role);
  const text = make("div", "text"), note = make("span", "quiet", entry.note);
  const copy = make("button", "", "Copy"), footer = make("footer", "");
  copy.type = "button";
  copy.addEventListener("click", () => copyText(view.content || calls.text, copy));
  footer.append(note, copy);
  const callsBox = make("div", "calls"), calls = new CallsView(callsBox, entry.calls ?? [], sendResults);
  article.append(make("h3", "", MODES[mode].names[entry.role]), text, callsBox, footer);
  log.append(article);
  const isAnswer = mode === "chat" && entry.role === "assistant";
  const view = isAnswer ? new AnswerView(text, copyText, onShown) : new PlainView(text, onShown);
  text.classList.toggle("markdown", isAnswer);
  view.add(entry.content, entry.reasoning);
  lastCalls?.close();
  lastCalls = calls;
  return { article, note, view, calls };
}

function showButtons() {
  const isEmpty = logs[mode].length === 0;
  byId("regenerate").disabled = isEmpty || running !== null;
  byId("clear").disabled = isEmpty || running !== null;
  for (const input of document.getElementsByName("mode")) input.disabled = running !== null;
  byId("send").hidden = running !== null;
  byId("stop").hidden = running === null;
}

function showLog() {
  log.replaceChildren();
  log.dataset.empty = MODES[mode].empty;
  for (const entry of logs[mode]) {
    const shown = showEntry(entry);
    shown.view.end();
    shown.calls.end(entry === logs[mode].at(-1));
  }
  log.scrollTop = log.scrollHeight;
  showButtons();
}

function showNotice(text = "", action = null) {
  notice.hidden = !text;
  notice.textContent = text;
  if (!action) return;
  const button = make("button", "", action.label);
  button.type = "button";
  button.addEventListener("click", action.run);
  notice.append(" ", button);
}

async function copyText(text, button) {
  try {
    await navigator.clipboard.writeText(text);
  } catch { // pages from another machine over plain HTTP have no clipboard
    const area = make("textarea", "unseen");
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
    button.focus();
  }
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = "Copy"; }, 1500);
}

// ---- One answer

function bodyOf(settings) {
  const common = { model, stream: true, stream_options: { include_usage: true }, ...settings };
  const entries = logs[mode];
  if (mode === "completion") return ["v1/completions", { ...common, prompt: entries.at(-1).content }];
  const messages = entries.flatMap((entry) =>
    entry.calls?.length ? messagesOf(entry) : [{ role: entry.role, content: entry.content }]);
  if (systemPrompt()) messages.unshift({ role: "system", content: systemPrompt() });
  return ["v1/chat/completions", { ...common, ...chatParameters(), messages }];
}

function noteOf(clock, reason) {
  const { tokens, start_ms, first_ms } = clock;
  const parts = reason === "length" ? ["cut at the token limit"] : reason === "stopped" ? ["stopped"] : [];
  if (tokens) parts.push(`${tokens} token${tokens > 1 ? "s" : ""}`);
  if (first_ms) parts.push(`first after ${((first_ms - start_ms) / 1000).toFixed(2)} s`);
  const decode_s = (performance.now() - first_ms) / 1000;
  if (tokens > 1 && first_ms) parts.push(`${((tokens - 1) / decode_s).toFixed(1)} tokens/s`);
  return parts.join(", ");
}

function isAtEnd() {
  return log.scrollHeight - log.scrollTop - log.clientHeight < 48;
}

// Collects pieces of an answer and shows them once per animation frame. call(show): shows something else in the same
// frame. flush() shows the rest.
function showSoon(view) {
  let content = "", reasoning = "", frame = 0;
  const others = [];
  const flush = () => {
    const follows = isAtEnd();
    cancelAnimationFrame(frame);
    frame = 0;
    view.add(content, reasoning);
    content = reasoning = "";
    for (const show of others.splice(0)) show();
    if (follows) log.scrollTop = log.scrollHeight;
  };
  const add = (text, thought) => {
    content += text;
    reasoning += thought;
    frame ||= requestAnimationFrame(flush);
  };
  const call = (show) => {
    others.push(show);
    frame ||= requestAnimationFrame(flush);
  };
  return { add, call, flush };
}

// Shows a streamed response; returns the finish reason.
async function receive(response, pieces, calls, clock) {
  let reason = "";
  for await (const event of events(response)) {
    if (event.usage) clock.tokens = event.usage.completion_tokens;
    const choice = event.choices?.[0];
    if (!choice) continue;
    const text = choice.text ?? choice.delta?.content ?? "";
    const thought = choice.delta?.reasoning ?? choice.delta?.reasoning_content ?? "";
    reason = choice.finish_reason ?? reason;
    const called = choice.delta?.tool_calls ?? [];
    if (choice.delta?.role && !text && !thought && !called.length) continue; // precedes the first token
    clock.first_ms ||= performance.now();
    if (!event.usage) clock.tokens += 1;
    if (text || thought) pieces.add(text, thought);
    if (called.length) pieces.call(() => calls.add(called));
  }
  return reason;
}

function tellFailure(error) {
  const lacksTemplate = mode === "chat" && error.status >= 400 && /no chat template/i.test(error.message);
  showNotice(error.message, lacksTemplate ? { label: "Use completion", run: continueAsCompletion } : null);
}

function continueAsCompletion() {
  byId("mode-completion").checked = true;
  changeMode("completion");
  prompt.focus();
}

// Requests an answer to the present log; returns whether there is one.
async function answer(settings) {
  const entry = { role: "assistant", content: "", reasoning: "", calls: [], note: "" };
  const clock = { tokens: 0, start_ms: performance.now(), first_ms: 0 };
  const [path, body] = bodyOf(settings);
  const entries = logs[mode];
  running = new AbortController();
  showNotice();
  speaker.begin();
  const shown = showEntry(entry, (text) => speaker.add(text));
  const pieces = showSoon(shown.view);
  shown.article.classList.add("busy");
  log.scrollTop = log.scrollHeight;
  showButtons();
  let reason = "";
  try {
    const response = await request(path, { body, signal: running.signal });
    reason = await receive(response, pieces, shown.calls, clock);
  } catch (error) {
    if (error.name === "AbortError") reason = "stopped";
    else if (error instanceof ServerError) tellFailure(error);
    else {
      tellFailure(new ServerError(0, "The answer could not be read."));
      console.error(error);
    }
  }
  const hadFocus = document.activeElement === byId("stop");
  running = null;
  pieces.flush();
  shown.view.end();
  shown.calls.end(true);
  ({ content: entry.content, reasoning: entry.reasoning } = shown.view);
  ({ calls: entry.calls } = shown.calls);
  shown.article.classList.remove("busy");
  entry.note = noteOf(clock, reason);
  shown.note.textContent = entry.note;
  speaker.end(reason === "stopped" ? "Stopped." : entry.calls.map((call) => `Call of ${call.name}.`).join(" "));
  const hasCome = Boolean(entry.content || entry.reasoning || entry.calls.length || reason);
  if (hasCome) entries.push(entry);
  else shown.article.remove();
  keep();
  showButtons();
  if (hadFocus) prompt.focus();
  return hasCome;
}

function settingsOrTell() {
  const settings = parameters();
  if (!settings) {
    showPanel(true);
    showInvalid();
  }
  return settings;
}

async function send() {
  const text = mode === "chat" ? prompt.value.trim() : prompt.value;
  if (running || !text) return;
  const settings = settingsOrTell();
  if (!settings) return;
  const entry = { role: "user", content: text, note: "" };
  logs[mode].push(entry);
  showEntry(entry).view.end();
  prompt.value = "";
  keep();
  if (await answer(settings)) return;
  logs[mode].pop(); // the user can send the message again
  keep();
  showLog();
  prompt.value ||= text;
}

// Continues the conversation with the results of the last answer's calls.
async function sendResults() {
  const settings = running ? null : settingsOrTell();
  if (!settings) return;
  keep();
  prompt.focus();
  if (!await answer(settings)) showLog();
}

async function regenerate() {
  const settings = running ? null : settingsOrTell();
  if (!settings) return;
  const before = logs[mode].at(-1)?.role === "assistant" ? logs[mode].pop() : null;
  showLog();
  prompt.focus();
  if (await answer(settings) || !before) return;
  logs[mode].push(before);
  keep();
  showLog();
}

function stop() {
  running?.abort();
}

function clear() {
  logs[mode] = [];
  keep();
  showNotice();
  showLog();
  prompt.focus();
}

function changeMode(to) {
  mode = to;
  prompt.placeholder = MODES[mode].noun;
  byId("prompt-label").textContent = MODES[mode].noun;
  for (const name of ["system", "tools", "tool-choice"]) byId(`${name}-field`).hidden = mode !== "chat";
  showNotice();
  showLog();
  keep();
}

// ---- Panel, key, model

function showPanel(isOpen) {
  byId("panel").hidden = !isOpen;
  byId("panel-switch").setAttribute("aria-expanded", String(isOpen));
  document.querySelector("main").inert = isOpen && NARROW.matches; // the panel covers it
}

function askForKey(isWrong) {
  const dialog = byId("key-dialog");
  byId("key-text").textContent = (isWrong ? "The server does not accept this key. " : "This server requires a key. ") +
    "The key is kept until this tab is closed.";
  byId("key").value = "";
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "ok" ? byId("key").value.trim() : null),
      { once: true });
  });
}

async function showVersion() {
  try {
    const { version } = await (await request("version", { promptsForKey: false })).json();
    byId("version").textContent = String(version);
  } catch {
    byId("version").textContent = ""; // a server that hides its version, or requires the key for it
  }
}

async function findModel() {
  try {
    const { data } = await (await request("v1/models")).json();
    model = String(data[0].id);
    byId("model").textContent = model;
  } catch (error) {
    showNotice(error.status === 401 ? "This server answers with its key only; sending a message opens the field for it." :
      error.message);
  }
}

function restore() {
  try {
    ({ mode, logs } = JSON.parse(sessionStorage.getItem(STORED)) ?? { mode, logs });
  } catch {
    sessionStorage.removeItem(STORED);
  }
  byId(`mode-${mode}`).checked = true;
  changeMode(mode);
}

byId("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  send();
});
prompt.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing || TOUCH.matches) return;
  event.preventDefault();
  send();
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || document.querySelector("dialog[open]")) return;
  if (running) stop();
  else if (NARROW.matches && !byId("panel").hidden) {
    showPanel(false);
    byId("panel-switch").focus();
  }
});
byId("stop").addEventListener("click", stop);
byId("regenerate").addEventListener("click", regenerate);
byId("clear").addEventListener("click", clear);
byId("key-cancel").addEventListener("click", () => byId("key-dialog").close());
byId("help").addEventListener("click", () => showHelp(model, copyText));
byId("help-close").addEventListener("click", () => byId("help-dialog").close());
byId("panel-switch").addEventListener("click", () => showPanel(byId("panel").hidden));
for (const input of document.getElementsByName("mode")) {
  input.addEventListener("change", () => changeMode(input.value));
}
NARROW.addEventListener("change", () => showPanel(!NARROW.matches));
window.addEventListener("pagehide", keep);

setKeyAsker(askForKey);
showPanel(!NARROW.matches);
restore();
await findModel();
showVersion();
watchFigures();

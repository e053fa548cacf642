// Live figures from /metrics, once a second while the page is visible.

import { request } from "./client.js";

const PERIOD_MS = 1000;
const POINTS = 60; // points of the sparkline
const WINDOW_MS = 30000; // averaging window of the time to first token
const LABEL = /(\w+)="((?:[^"\\]|\\.)*)"/g;

const byId = (id) => document.getElementById(id);
const rates = [];
const history = []; // samples of the counters, oldest first

// Parses Prometheus text into [{name, labels, value}], without the prefix before ":".
export function parseMetrics(text) {
  const samples = [];
  for (const line of text.split("\n")) {
    const match = line.match(/^(?:\w+:)?(\w+)(?:\{(.*)\})? (\S+)/);
    if (match) samples.push({ name: match[1], labels: Object.fromEntries(
      [...(match[2] ?? "").matchAll(LABEL)].map(([, key, value]) => [key, value])), value: Number(match[3]) });
  }
  return samples;
}

// Sum of a metric over its labels; a counter may be spelt with or without "_total". NaN: no such metric.
function valueOf(samples, name) {
  const found = samples.filter((sample) => sample.name === name || sample.name === `${name}_total`);
  return found.length ? found.reduce((sum, sample) => sum + sample.value, 0) : NaN;
}

const show = (id, value, text) => { byId(id).textContent = Number.isFinite(value) ? text(value) : "–"; };
const percent = (value) => `${(value * 100).toFixed(value < 0.1 ? 1 : 0)} %`;
const number = (value) => value.toLocaleString("en", { maximumFractionDigits: value < 100 ? 1 : 0 });
const seconds = (value) => (value < 1 ? `${(value * 1000).toFixed(value < 0.01 ? 1 : 0)} ms` : `${value.toFixed(2)} s`);

function bytes(value) {
  const unit = value >= 2 ** 30 ? ["GiB", 2 ** 30] : ["MiB", 2 ** 20];
  return `${(value / unit[1]).toFixed(value / unit[1] < 10 ? 1 : 0)} ${unit[0]}`;
}

function drawRates() {
  const top = Math.max(...rates, 1);
  const points = rates.map((rate, i) =>
    `${((POINTS - rates.length + i) * 240 / (POINTS - 1)).toFixed(1)},${(46 - 43 * rate / top).toFixed(1)}`);
  const drawing = byId("sparkline");
  drawing.querySelector("polyline").setAttribute("points", points.join(" "));
  drawing.querySelector("path").setAttribute("d", points.length < 2 ? ""
    : `M${points[0].split(",")[0]},48 L${points.join(" ")} L240,48 Z`);
  drawing.setAttribute("aria-label",
    `Output tokens a second over the last minute, at most ${number(Math.max(...rates, 0))}`);
}

function showMemory(samples) {
  const ranks = new Map();
  for (const { labels, value } of samples.filter(({ name }) => name === "rank_memory_bytes")) {
    const kinds = ranks.get(labels.rank) ?? [];
    kinds.push([labels.kind === "kv" ? "KV" : labels.kind, value]);
    ranks.set(labels.rank, kinds);
  }
  const lines = [...ranks].map(([rank, kinds]) => `Rank ${rank}: ` +
    `${bytes(kinds.reduce((sum, [, value]) => sum + value, 0))} (` +
    `${kinds.map(([kind, value]) => `${kind} ${bytes(value)}`).join(", ")})`);
  const list = byId("memory");
  byId("memory-head").hidden = lines.length === 0;
  if (lines.join("\n") === [...list.children].map((item) => item.textContent).join("\n")) return;
  list.replaceChildren(...lines.map((line) => {
    const item = document.createElement("li");
    item.textContent = line;
    return item;
  }));
}

function showCounted(now) {
  const last = history.at(-1);
  // the server restarted, or samples are missing
  if (last && (now.tokens < last.tokens || now.ms - last.ms > 10 * PERIOD_MS)) history.length = 0;
  const before = history.at(-1);
  history.push(now);
  while (now.ms - history[0].ms > WINDOW_MS) history.shift();
  const rate = before ? (now.tokens - before.tokens) / (now.ms - before.ms) * 1000 : NaN;
  if (Number.isFinite(rate)) rates.push(rate);
  if (rates.length > POINTS) rates.shift();
  show("figure-rate", rate, number);
  const first = history[0];
  const ttft = (now.ttft_s - first.ttft_s) / (now.firsts - first.firsts);
  if (now.firsts > first.firsts || now.firsts === 0) show("figure-ttft", ttft, seconds); // else the last value stays
  drawRates();
}

function showFigures(text) {
  const samples = parseMetrics(text);
  const hits = valueOf(samples, "prefix_cache_hits"), queries = valueOf(samples, "prefix_cache_queries");
  show("figure-running", valueOf(samples, "num_requests_running"), number);
  show("figure-waiting", valueOf(samples, "num_requests_waiting"), number);
  show("figure-kv", valueOf(samples, "kv_cache_usage_perc"), percent);
  show("figure-prefix", hits / queries, percent);
  showMemory(samples);
  showCounted({
    ms: performance.now(), tokens: valueOf(samples, "generation_tokens"),
    ttft_s: valueOf(samples, "time_to_first_token_seconds_sum"),
    firsts: valueOf(samples, "time_to_first_token_seconds_count"),
  });
}

function showState(text, kind) {
  const state = byId("health");
  if (state.textContent !== text) state.textContent = text;
  state.className = `state ${kind}`;
}

async function poll() {
  try {
    await request("health", { promptsForKey: false });
    showState("Serving", "good");
  } catch (error) {
    showState(error.status === 503 ? "Not serving" : "Not reachable", "bad");
  }
  try {
    showFigures(await (await request("metrics", { promptsForKey: false })).text());
    byId("figures-state").hidden = true;
  } catch (error) {
    byId("figures-state").hidden = false;
    byId("figures-state").textContent = error.status === 401 ? "The server shows them with its key."
      : "The server gives no figures now.";
  }
}

export async function watchFigures() {
  for (;;) {
    if (!document.hidden) await poll();
    await new Promise((resolve) => { setTimeout(resolve, PERIOD_MS); });
  }
}

/* The study in the report's form. The JSON is only assumed to be an object: absent values, or values of another type,
 * are undefined here. */

const list = (value) => Array.isArray(value) ? value : [];
const object = (value) => value && typeof value === "object" && !Array.isArray(value) ? value : {};
const finite = (value) => typeof value === "number" && Number.isFinite(value) ? value : undefined;
const text = (value) => typeof value === "string" ? value : value === undefined || value === null ? ""
  : JSON.stringify(value);

function interval(value) {
  const [low, high] = list(value).map(finite);
  return low === undefined || high === undefined ? undefined : [low, high];
}

const LOADS = [
  {key: "batch", axis: "Batch (sequences)", label: (n) => `batch ${n}`},
  {key: "request_rate", axis: "Offered load (requests/s)", label: (n) => `${n} requests/s`},
  {key: "clients", axis: "Clients", label: (n) => `${n} ${n === 1 ? "client" : "clients"}`},
];

function loadOf(raw) {
  const kind = LOADS.find((load) => finite(raw[load.key]) > 0);
  return kind ? {kind, value: raw[kind.key], label: kind.label(readable(raw[kind.key]))}
    : {kind: LOADS[0], value: 0, label: "load not known"};
}

const lengthsOf = (raw) => `${text(raw.input_len) || "?"} in, ${text(raw.output_len) || "?"} out`;

/* A point, a skipped point or a prediction: its index in the file, and its settings next to the raw object. */
function pointOf(raw, index) {
  raw = object(raw);
  const options = Object.fromEntries(Object.entries(object(raw.options)).map(([name, value]) => [name, text(value)]));
  return {raw, index, ranks: finite(raw.ranks) ?? 0, load: loadOf(raw), lengths: lengthsOf(raw), options};
}

const rankWord = (n) => n === 1 ? "1 rank" : `${n} ranks`;

function settingsOf(point) {
  const options = Object.entries(point.options).map(([name, value]) => `${name} ${value}`);
  return [point.lengths, ...options].join(", ");
}

const nameOf = (point) => `${rankWord(point.ranks)}, ${point.load.label}, ${settingsOf(point)}`;

const byNumber = (a, b) => a - b;
const unique = (values) => [...new Set(values)];

function byLoadThenRanks(a, b) {
  return LOADS.indexOf(a.load.kind) - LOADS.indexOf(b.load.kind) || a.load.value - b.load.value || a.ranks - b.ranks;
}

/* The dimensions for the reader's choice: lengths, and each option with several values. */
function dimensionsOf(points) {
  const names = unique(points.flatMap((point) => Object.keys(point.options)));
  const all = [{label: "Tokens of a request", of: (point) => point.lengths},
               ...names.map((name) => ({label: `--${name}`, of: (point) => point.options[name] ?? "(not given)"}))];
  return all.map((dimension) => ({...dimension, values: unique(points.map(dimension.of))}))
    .filter((dimension) => dimension.values.length > 1);
}

function readStudy(json) {
  const raw = object(json);
  const points = list(raw.points).map(pointOf).sort(byLoadThenRanks);
  const skipped = list(raw.skipped).map(pointOf);
  return {raw, points, skipped, predictions: list(raw.predictions).map(pointOf), machine: object(raw.machine),
          model: object(raw.model), dimensions: dimensionsOf(points.length ? points : skipped)};
}

/* The points for which every dimension has the chosen value. */
function select(points, dimensions, chosen) {
  return points.filter((point) => dimensions.every((dimension, i) => dimension.of(point) === chosen[i]));
}

/* ---- Figures of a point ------------------------------------------------------------------------------------------ */

const metric = (point, name) => finite(point.raw[name]);

function metricInterval(point, name) {
  if (name === "speedup" || name === "efficiency") return interval(point.raw[`${name}_interval`]);
  return interval(object(point.raw.intervals)[name]);
}

/* The rank count to which a point's speed-up refers. */
function baseRanks(point) {
  const speedup = metric(point, "speedup"), efficiency = metric(point, "efficiency");
  return speedup > 0 && efficiency > 0 ? Math.max(1, Math.round(point.ranks * efficiency / speedup)) : undefined;
}

function share(point) {
  return finite(object(point.raw.limit).share);
}

/* Number of engine starts that a point's runs come from. */
const startsOf = (point) => new Set(list(point.raw.runs).map((run) => object(run).start)).size;

/* Whether an interval is too wide to be useful. With two starts Student's t is 12.7: the interval is wider than half of
 * the figure, or missing, since a ratio has no bounds if its denominator may be zero. */
function isVoid(point, value, pair) {
  return startsOf(point) === 2 && (pair === undefined || pair[1] - pair[0] > Math.abs(value) / 2);
}

/* Groups values by key: [{key, points}]. */
function groupBy(points, keyOf) {
  const groups = new Map();
  for (const point of points) {
    const key = keyOf(point);
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(point);
  }
  return [...groups].map(([key, members]) => ({key, points: members}));
}

/* CPU ranks share one machine's cores: more ranks are not more hardware. */
const sharesCores = (machine) => text(machine.device) === "cpu";
const SHARED = "CPU ranks share the cores of one machine";

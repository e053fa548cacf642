/* The text and tables of the figures, whose drawings are in the file. Each function returns {id, words, tables}, or
 * {id, missing}: the reason why the figure is not drawn. */

const TITLES = {speedup: "Speed-up over ranks", efficiency: "Efficiency over ranks",
                latency: "Throughput against latency", limit: "Throughput against the machine's limit",
                time: "Where the time of a decode step goes", losses: "Where efficiency went"};

/* A cell of a table: its text, and the number. */
const cell = (value, format = precise, pair = undefined) => ({text: format(value), value, interval: pair, format});

function scalingTable(caption, points, name, format, unit) {
  const some = points.filter((point) => metric(point, name) !== undefined);
  return {caption, head: ["Load", "Ranks", unit, "Low", "High"], rows: some.map((point) => {
    const pair = metricInterval(point, name);
    return [{text: point.load.label}, cell(point.ranks), cell(metric(point, name), format), cell(pair?.[0], format),
            cell(pair?.[1], format)];
  })};
}

const mostRanks = (points) => Math.max(...points.map((point) => point.ranks));

/* "At 4 ranks: 1.53 at batch 1, 3.45 at batch 256." */
function endsInWords(points, name, format) {
  const ranks = mostRanks(points), last = points.filter((point) => point.ranks === ranks &&
                                                                   metric(point, name) !== undefined);
  const some = last.length > 3 ? [last[0], last.at(-1)] : last;
  if (!some.length) return "";
  return `With ${rankWord(ranks)}: ${sentenceList(some.map((point) => (
    `${format(metric(point, name))} at ${point.load.label}`)))}.`;
}

const FEW = "needs points on two rank counts or more with the same load, lengths and options.";
const hasScaling = (points) => points.some((point) => baseRanks(point) < point.ranks);

function speedupFigure(points, isPredicted, machine) {
  const id = "speedup";
  if (!hasScaling(points)) return {id, missing: `A speed-up ${FEW}`};
  const words = "Output tokens/s relative to the fewest ranks with the same load. Whiskers: 95\u00a0% interval; " +
    `dotted: ${sharesCores(machine) ? `the ideal, which is 1: ${SHARED}` : "ideal"}${
      isPredicted ? "; open marks: predicted, with the error of the prediction" : ""}. ` +
    endsInWords(points, "speedup", times);
  return {id, words,
          tables: [scalingTable("Speed-up and its 95\u00a0% interval", points, "speedup", times, "Speed-up")]};
}

function efficiencyFigure(points, machine) {
  const id = "efficiency";
  if (!hasScaling(points)) return {id, missing: `An efficiency ${FEW}`};
  if (sharesCores(machine)) return {id, missing: `Efficiency compares with as many times the hardware; ${SHARED}.`};
  const words = "The speed-up divided by the ideal one, which is the ratio of rank counts. Whiskers: 95\u00a0% " +
    `interval. The axis need not begin at zero. ${endsInWords(points, "efficiency", percent)}`;
  return {id, words,
          tables: [scalingTable("Efficiency and its 95\u00a0% interval", points, "efficiency", percent, "Efficiency")]};
}

/* ---- Throughput and latency -------------------------------------------------------------------------------------- */

const speedOfUser = (point) => metric(point, "median_tpot_ms") > 0 ? 1000 / metric(point, "median_tpot_ms") : undefined;
const perRank = (point) => metric(point, "output_throughput") / point.ranks;

function speedInterval(point) {
  const [low, high] = metricInterval(point, "median_tpot_ms") ?? [];
  return low > 0 ? [1000 / high, 1000 / low] : undefined;
}

const perRankInterval = (point) => metricInterval(point, "output_throughput")?.map((value) => value / point.ranks);

/* Number of points that no other point exceeds in both coordinates. */
function countFrontier(points) {
  const sorted = [...points].sort((a, b) => speedOfUser(b) - speedOfUser(a) || perRank(b) - perRank(a)), kept = [];
  for (const point of sorted)
    if (!kept.length || perRank(point) > perRank(kept.at(-1))) kept.push(point);
  return kept.length;
}

function latencyFigure(points, unit) {
  const id = "latency";
  const some = points.filter((point) => speedOfUser(point) && perRank(point) > 0);
  if (!some.length) return {id, missing: "No point has times between output tokens."};
  const n = countFrontier(some), load = some[0].load.kind.axis.replace(/ \(.*/, "").toLowerCase();
  const words = `What one ${unit} gives against what one user sees; further up and to the right is better. Small ` +
    `numbers: ${load}. Whiskers: 95\u00a0% intervals of both. ${n > 1 ? `Broad band: the Pareto frontier, ${n} of ${
      some.length} points that no other exceeds in both.` : ""}`;
  const row = (point) => [cell(point.ranks), {text: point.load.label},
                          cell(speedOfUser(point), precise, speedInterval(point)),
                          cell(perRank(point), precise, perRankInterval(point)),
                          cell(metric(point, "median_tpot_ms")), cell(metric(point, "median_ttft_ms"))];
  return {id, words, tables: [{caption: "Throughput and latency", rows: some.map(row),
                               head: ["Ranks", "Load", "Tokens/s/user", `Tokens/s/${unit}`, "Median TPOT (ms)",
                                      "Median TTFT (ms)"]}]};
}

/* ---- The limit --------------------------------------------------------------------------------------------------- */

function limitFigure(points) {
  const id = "limit";
  const limitOf = (point) => finite(object(point.raw.limit).output_throughput);
  const some = points.filter((point) => limitOf(point) > 0 && metric(point, "output_throughput") > 0 &&
                                        point.load.value > 0);
  if (!some.length) return {id, missing: "The study has no limit: it needs the machine's measured rates and the " +
                                         "shapes of the model."};
  const best = some.reduce((a, b) => (share(b) ?? 0) > (share(a) ?? 0) ? b : a);
  const words = "Marks: measured, with 95\u00a0% intervals. Short bars and broken lines: what the machine's own " +
    "measured memory bandwidth, GEMM rate and links allow at most. The share at a line's end is that of its " +
    `last point. The largest share is ${percent(share(best))}, with ${rankWord(best.ranks)} at ${best.load.label}.`;
  const row = (point) => [cell(point.ranks), {text: point.load.label},
                          cell(metric(point, "output_throughput"), precise, metricInterval(point, "output_throughput")),
                          cell(limitOf(point)), cell(share(point), percent),
                          {text: BOUNDS[text(object(point.raw.limit).bound)] ?? NONE, isWords: true}];
  return {id, words, tables: [{caption: "Measured throughput and the machine's limit", rows: some.map(row),
                               head: ["Ranks", "Load", "Output tokens/s", "Limit (tokens/s)", "Share", "Bound by"]}]};
}

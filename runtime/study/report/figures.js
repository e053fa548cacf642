/* The figures over ranks, latency and load. Each function gives {id, title, words, draw(width, names), tables}, or
 * {id, title, missing}: why there is nothing to draw. names: ids of the figure's title and words, for screen
 * readers. */

/* A cell of a table: what it says, and the number behind it. */
const cell = (value, format = precise, pair = undefined) => ({text: format(value), value, interval: pair, format});

const valuesOf = (series) => series.flatMap(({points}) => points)
  .flatMap(({y, interval: pair}) => [y, ...(pair ?? [])]);

/* Counts that grow by factors are drawn by their logarithm. */
const growsByFactors = (values) => Math.min(...values) > 0 && Math.max(...values) / Math.min(...values) >= 8;

function ranksAxis(counts) {
  const ticks = unique(counts).sort(byNumber), isLog = ticks.at(-1) / ticks[0] >= 4;
  const [low, high] = [ticks[0], ticks.at(-1)];
  return {label: "Ranks", isLog, low, high: high > low ? high : low + 1, ticks, format: String};
}

function pointsOverRanks(points, name, format) {
  return points.filter((point) => metric(point, name) > 0).map((point) => (
    {x: point.ranks, y: metric(point, name), interval: metricInterval(point, name),
     words: `${point.load.label}, ${rankWord(point.ranks)}: ${format(metric(point, name))}${
       between(metricInterval(point, name), format)}`}));
}

function doublings(low, high) {
  const ticks = [];
  for (let tick = 2 ** Math.ceil(Math.log2(low)); tick <= high; tick *= 2) ticks.push(tick);
  return ticks;
}

function scalingSeries(points, name, format) {
  const groups = byLoad(points);
  return groups.map(({key, points: some}, i) => (
    {name: key, slot: i, looks: looksOf(i, groups.length), points: pointsOverRanks(some, name, format)}));
}

/* What was predicted continues the line of its load. */
function predictedSeries(measured, predictions) {
  return measured.flatMap((series) => {
    const some = predictions.filter((point) => point.load.label === series.name && metric(point, "speedup") > 0)
      .sort((a, b) => a.ranks - b.ranks);
    if (!some.length || !series.points.length) return [];
    const last = series.points.at(-1);
    const {name} = series;
    series.name = ""; /* which stands at the end of the whole line */
    return [{name, slot: series.slot, looks: {...series.looks, dash: "1 4"}, isOpen: true, points: [
      {...last, interval: undefined, isJoint: true},
      ...some.map((point) => {
        const y = metric(point, "speedup"), error = Math.abs(metric(point, "error") ?? 0);
        return {x: point.ranks, y, interval: error ? [y * (1 - error), y * (1 + error)] : undefined,
                words: `predicted: ${name}, ${rankWord(point.ranks)}: ${times(y)}`};
      })]}];
  });
}

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

function speedupFigure(points, predictions) {
  const id = "speedup", title = "Speed-up over ranks";
  if (!hasScaling(points)) return {id, title, missing: `A speed-up ${FEW}`};
  const measured = scalingSeries(points, "speedup", times);
  const predicted = predictedSeries(measured, predictions);
  const series = [...predicted, ...measured];
  const x = ranksAxis(series.flatMap((one) => one.points.map((point) => point.x)));
  const bases = unique(points.map(baseRanks).filter(Boolean)).sort(byNumber).slice(0, 2);
  const guides = bases.map((base) => ({kind: "guide", name: bases.length > 1 ? `ideal from ${base}` : "ideal",
                                       points: [[base, 1], [x.high, x.high / base]]}));
  const values = [1, x.high / bases[0], ...valuesOf(series)];
  const [low, high] = x.isLog ? rangeOf(values, true, .03) : rangeOf(values, false);
  const y = {label: `Speed-up (times ${bases.length > 1 ? "the fewest ranks" : rankWord(bases[0])})`, isLog: x.isLog,
             low: Math.max(low, x.isLog ? .01 : 0), high, format: readable,
             ticks: x.isLog ? doublings(low, high) : undefined};
  const words = "Output tokens/s relative to the fewest ranks with the same load. Whiskers: 95\u00a0% interval; " +
    `dotted: ideal${predicted.length ? "; open marks: predicted, with the error of the prediction" : ""}. ` +
    endsInWords(points, "speedup", times);
  return {id, title, words,
          draw: (width, names) => [drawLines({x, y, series, guides, nSlots: measured.length}, width, names)],
          tables: [scalingTable("Speed-up and its 95\u00a0% interval", points, "speedup", times, "Speed-up")]};
}

function efficiencyFigure(points) {
  const id = "efficiency", title = "Efficiency over ranks";
  if (!hasScaling(points)) return {id, title, missing: `An efficiency ${FEW}`};
  const series = scalingSeries(points, "efficiency", percent);
  const x = ranksAxis(series.flatMap((one) => one.points.map((point) => point.x)));
  const values = valuesOf(series), lowest = Math.min(...values);
  const y = {label: "Efficiency (speed-up / ideal speed-up, %)", low: Math.max(0, Math.floor(lowest * 10 - .5) / 10),
             high: Math.max(1.02, Math.max(...values) * 1.02), format: (value) => (100 * value).toFixed(0)};
  const guides = [{kind: "guide", name: "ideal", points: [[x.low, 1], [x.high, 1]]}];
  const words = "The speed-up divided by the ideal one, which is the ratio of rank counts. " +
    `Whiskers: 95\u00a0% interval. The axis begins at ${(100 * y.low).toFixed(0)}\u00a0%. ` +
    endsInWords(points, "efficiency", percent);
  return {id, title, words,
          draw: (width, names) => [drawLines({x, y, series, guides, nSlots: series.length}, width, names)],
          tables: [scalingTable("Efficiency and its 95\u00a0% interval", points, "efficiency", percent, "Efficiency")]};
}

/* ---- Throughput and latency -------------------------------------------------------------------------------------- */

const speedOfUser = (point) => metric(point, "median_tpot_ms") > 0 ? 1000 / metric(point, "median_tpot_ms") : undefined;
const perRank = (point) => metric(point, "output_throughput") / point.ranks;

/* Points that no other point exceeds in both, by falling throughput. */
function frontierOf(placed) {
  const sorted = [...placed].sort((a, b) => b.x - a.x || b.y - a.y), kept = [];
  for (const point of sorted)
    if (!kept.length || point.y > kept.at(-1).y) kept.push(point);
  return kept;
}

function latencyFigure(points, unit) {
  const id = "latency", title = "Throughput against latency";
  const some = points.filter((point) => speedOfUser(point) && perRank(point) > 0);
  if (!some.length) return {id, title, missing: "No point has times between output tokens."};
  const groups = byRanks(some);
  const series = groups.map(({key, points: members}, i) => ({name: rankWord(key), looks: looksOf(i, groups.length),
    points: members.map((point) => (
      {x: speedOfUser(point), y: perRank(point), note: readable(point.load.value),
       words: `${rankWord(point.ranks)}, ${point.load.label}: ${readable(perRank(point))} output tokens/s/${unit}, ${
         readable(speedOfUser(point))} tokens/s/user`}))}));
  const placed = series.flatMap((one) => one.points), frontier = frontierOf(placed);
  for (const point of placed)
    if (!frontier.includes(point) && placed.length > 24) point.note = undefined;
  const axis = (label, values) => {
    const isLog = growsByFactors(values), [low, high] = rangeOf(values, isLog, .07);
    return {label, isLog, low: isLog ? low : Math.max(0, low), high, format: readable};
  };
  const x = axis("Output tokens/s/user (1000 / median TPOT in ms)", placed.map((point) => point.x));
  const y = axis(`Output tokens/s/${unit}`, placed.map((point) => point.y));
  const guides = frontier.length > 1 ? [{kind: "frontier", points: frontier.map((point) => [point.x, point.y])}] : [];
  const load = some[0].load.kind.axis.replace(/ \(.*/, "").toLowerCase();
  const words = `What one ${unit} gives against what one user sees; further up and to the right is better. Small ` +
    `numbers: ${load}. ${frontier.length > 1 ? `Broad band: the Pareto frontier, ${frontier.length} of ${
      placed.length} points that no other exceeds in both.` : ""}`;
  const row = (point) => [cell(point.ranks), {text: point.load.label}, cell(speedOfUser(point)), cell(perRank(point)),
                          cell(metric(point, "median_tpot_ms")), cell(metric(point, "median_ttft_ms"))];
  return {id, title, words, draw: (width, names) => [drawLines({x, y, series, guides}, width, names)],
          tables: [{caption: "Throughput and latency", head: ["Ranks", "Load", "Tokens/s/user", `Tokens/s/${unit}`,
                                                              "Median TPOT (ms)", "Median TTFT (ms)"],
                    rows: some.map(row)}]};
}

/* ---- The limit --------------------------------------------------------------------------------------------------- */

function limitFigure(points) {
  const id = "limit", title = "Throughput against the machine's limit";
  const limitOf = (point) => finite(object(point.raw.limit).output_throughput);
  const some = points.filter((point) => limitOf(point) > 0 && metric(point, "output_throughput") > 0 &&
                                        point.load.value > 0);
  if (!some.length) return {id, title, missing: "The study has no limit: it needs the machine's measured rates and " +
                                                "the shapes of the model."};
  const groups = byRanks(some);
  const measured = groups.map(({key, points: members}, i) => (
    {name: `${rankWord(key)}, ${wholePercent(share(members.at(-1)) ?? 0)}`, looks: looksOf(i, groups.length),
     points: members.map((point) => (
       {x: point.load.value, y: metric(point, "output_throughput"),
        interval: metricInterval(point, "output_throughput"),
        words: `${rankWord(point.ranks)}, ${point.load.label}: ${readable(metric(point, "output_throughput"))} ` +
          `output tokens/s, ${percent(share(point))} of the limit`}))}));
  const limits = groups.map(({key, points: members}, i) => (
    {name: "", looks: measured[i].looks, isTicks: true,
     points: members.map((point) => ({x: point.load.value, y: limitOf(point),
                                      words: `limit of ${rankWord(key)}, ${point.load.label}: ${
                                        readable(limitOf(point))} output tokens/s`}))}));
  const series = [...limits, ...measured], loads = unique(some.map((point) => point.load.value)).sort(byNumber);
  const isLogX = growsByFactors(loads), values = valuesOf(series), isLog = growsByFactors(values);
  const x = {label: some[0].load.kind.axis, isLog: isLogX, low: loads[0], high: loads.at(-1) > loads[0] ? loads.at(-1)
    : loads[0] * 1.01 + 1, ticks: loads, format: readable};
  const [low, high] = rangeOf(values, isLog);
  const y = {label: "Output tokens/s", isLog, low: isLog ? low : 0, high, format: readable};
  const best = some.reduce((a, b) => (share(b) ?? 0) > (share(a) ?? 0) ? b : a);
  const words = "Marks: measured, with 95\u00a0% intervals. Short bars and broken lines: what the machine's own " +
    "measured memory bandwidth, GEMM rate and links allow at most. The share at a line's end is that of its " +
    `last point. The largest share is ${percent(share(best))}, with ${rankWord(best.ranks)} at ${best.load.label}.`;
  const row = (point) => [cell(point.ranks), {text: point.load.label}, cell(metric(point, "output_throughput")),
                          cell(limitOf(point)), cell(share(point), percent),
                          {text: BOUNDS[text(object(point.raw.limit).bound)] ?? NONE, isWords: true}];
  return {id, title, words, draw: (width, names) => [drawLines({x, y, series, guides: []}, width, names)],
          tables: [{caption: "Measured throughput and the machine's limit",
                    head: ["Ranks", "Load", "Output tokens/s", "Limit (tokens/s)", "Share", "Bound by"],
                    rows: some.map(row)}]};
}

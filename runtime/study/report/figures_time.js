/* The time of a step by parts, and the losses of efficiency. */

const PARTS = ["gemm_qkv", "gemm_o", "gemm_gate_up", "gemm_down", "lm_head", "attention", "other_kernels",
               "all_reduce_transfer", "all_reduce_wait", "logits_gather", "sampling", "launch_gap", "host", "states"];
const PART_KINDS = [
  {key: "gemm", label: "GEMMs of layers", parts: PARTS.slice(0, 4)},
  {key: "head", label: "lm_head", parts: ["lm_head"]},
  {key: "attention", label: "Attention, recurrent layers", parts: ["attention", "states"]},
  {key: "other", label: "Other kernels", parts: ["other_kernels"]},
  {key: "reduce", label: "All-reduce transfer", parts: ["all_reduce_transfer"]},
  {key: "wait", label: "Waiting for the slowest rank", parts: ["all_reduce_wait"]},
  {key: "sample", label: "Gather of logits, sampling",
   parts: ["logits_gather", "sampling"]},
  {key: "host", label: "Launch gaps, host", parts: ["launch_gap", "host"]},
];

const partOf = (times, part) => finite(object(times)[part]);

/* Mixture of experts: the busiest rank's share of a layer's choices, on average; empty for other models. */
const busiestHead = (points) => points.some((point) => metric(point, "expert_busiest_share") !== undefined)
  ? ["Experts chosen on the busiest rank"] : [];
const busiestCell = (point, points) => busiestHead(points).map(() => (
  cell(metric(point, "expert_busiest_share"), percent, metricInterval(point, "expert_busiest_share"))));

function timesRow(label, times) {
  return [...label, cell(partOf(times, "step"), micros), ...PARTS.map((part) => cell(partOf(times, part), micros))];
}

/* Columns for the places of ranks (stage, process, host) that differ between ranks. */
function placesOf(points) {
  const all = points.flatMap((point) => list(point.raw.rank_places).map(object));
  const columns = [["Stage", "stage"], ["Process", "process"]].map(([head, key]) => (
    [head, (place) => cell(finite(place[key])), key]));
  return [...columns, ["Host", (place) => ({text: text(place.host) || NONE, isWords: true}), "host"]]
    .filter(([, , key]) => all.some((place) => key === "host" ? place.host : finite(place[key]) > 0));
}

/* Tables of all parts: decode steps, prefill steps, and each rank of the decode steps. */
function timesTables(points) {
  const head = ["Ranks", "Load", "step", ...PARTS];
  const label = (point) => [cell(point.ranks), {text: point.load.label}];
  const tables = [{caption: "Time of a decode step (\u00b5s), mean over ranks", head: [...head, ...busiestHead(points)],
                   rows: points.map((point) => (
                     [...timesRow(label(point), point.raw.time_us), ...busiestCell(point, points)]))}];
  const prefill = points.filter((point) => partOf(point.raw.time_us_prefill, "step") > 0);
  if (prefill.length)
    tables.push({caption: "Time of a step with prompt rows (\u00b5s), mean over ranks", head,
                 rows: prefill.map((point) => timesRow(label(point), point.raw.time_us_prefill))});
  const places = placesOf(points);
  const ranks = points.filter((point) => point.ranks > 1).flatMap((point) => (
    list(point.raw.time_us_by_rank).map((times, rank) => [
      ...label(point), cell(rank), ...places.map(([, of]) => of(object(list(point.raw.rank_places)[rank]))),
      cell(finite(list(point.raw.slowest)[rank]), percent), ...timesRow([], times)])));
  if (ranks.length)
    tables.push({caption: "Time of a decode step on each rank (\u00b5s), and the share of all-reduces to which the " +
                          "rank came last",
                 head: ["Ranks", "Load", "Rank", ...places.map(([name]) => name), "Last", "step", ...PARTS],
                 rows: ranks});
  return tables;
}

/* Whether a step of the fewest ranks is known, from which the ideal is drawn. */
function hasIdeal(points) {
  return points.some((point) => baseRanks(point) < point.ranks && points.some((other) => (
    other.ranks === baseRanks(point) && other.load.label === point.load.label)));
}

const hasPanels = (points) => new Set(points.map((point) => point.ranks)).size > 1 &&
  new Set(points.map((point) => point.load.label)).size > 1;

function timeFigure(points, machine) {
  const id = "time";
  const some = points.filter((point) => partOf(point.raw.time_us, "step") > 0);
  if (!some.length) return {id, missing: "The study has no times of steps: it was made without the profile."};
  const unit = Math.max(...some.map((point) => partOf(point.raw.time_us, "step"))) >= 20000 ? "ms" : "\u00b5s";
  const last = some.at(-1), largest = PART_KINDS.map(({label, parts}) => (
    {label, us: parts.reduce((sum, part) => sum + (partOf(last.raw.time_us, part) ?? 0), 0)}))
    .sort((a, b) => b.us - a.us)[0];
  const words = `Mean over ranks; the number behind a bar is the whole step in ${unit}. ${
    !sharesCores(machine) && hasIdeal(some) ? "Dashed marks: ideal, the step of the fewest ranks in proportion. "
      : ""}${
    hasPanels(some) ? "Each panel has its own scale. " : ""}With ${rankWord(last.ranks)} at ${last.load.label}, ${
    largest.label} take the most: ${percent(largest.us / partOf(last.raw.time_us, "step"))}.`;
  return {id, words, tables: timesTables(some)};
}

function lossFigure(points, machine) {
  const id = "losses";
  const some = points.filter((point) => baseRanks(point) < point.ranks &&
                                        LOSSES.some(({key}) => finite(object(point.raw.losses)[key]) !== undefined));
  if (!some.length) return {id, missing: "Losses need times of steps on two rank counts or more."};
  if (sharesCores(machine)) return {id, missing: `Losses are against as many times the hardware; ${SHARED}.`};
  const lossOf = (point, key) => finite(object(point.raw.losses)[key]) ?? 0;
  const last = some.at(-1), largest = largestLoss(last);
  const hasGain = some.some((point) => LOSSES.some(({key}) => lossOf(point, key) < 0));
  const words = "Shares of the time that were lost against ideal scaling; together they are what efficiency lacks to " +
    `100\u00a0%. ${hasGain ? "Left of zero: gains, where a shard takes less than its share of the whole. " : ""}${
      largest ? `With ${rankWord(last.ranks)} at ${last.load.label}, ${largest.words} cost the most: ${
        percent(largest.value)}.` : ""}`;
  const row = (point) => [cell(point.ranks), {text: point.load.label}, cell(metric(point, "efficiency"), percent),
                          ...LOSSES.map(({key}) => cell(finite(object(point.raw.losses)[key]), percent)),
                          ...busiestCell(point, some)];
  return {id, words,
          tables: [{caption: "Efficiency and losses", rows: some.map(row),
                    head: ["Ranks", "Load", "Efficiency", ...LOSSES.map(({label}) => label), ...busiestHead(some)]}]};
}

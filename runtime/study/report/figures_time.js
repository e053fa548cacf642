/* Where the time of a step goes, and where efficiency went. */

const PARTS = ["gemm_qkv", "gemm_o", "gemm_gate_up", "gemm_down", "lm_head", "attention", "other_kernels",
               "all_reduce_transfer", "all_reduce_wait", "logits_gather", "sampling", "launch_gap", "host"];
const PART_KINDS = [
  {key: "gemm", kind: "gemm", letter: "G", label: "GEMMs of layers", parts: PARTS.slice(0, 4)},
  {key: "head", kind: "head", letter: "L", label: "lm_head", parts: ["lm_head"]},
  {key: "attention", kind: "attention", letter: "A", label: "Attention", parts: ["attention"]},
  {key: "other", kind: "other", letter: "K", label: "Other kernels", parts: ["other_kernels"]},
  {key: "reduce", kind: "reduce", letter: "R", label: "All-reduce transfer", parts: ["all_reduce_transfer"]},
  {key: "wait", kind: "wait", letter: "W", label: "Waiting for the slowest rank", parts: ["all_reduce_wait"]},
  {key: "sample", kind: "sample", letter: "S", label: "Gather of logits, sampling",
   parts: ["logits_gather", "sampling"]},
  {key: "host", kind: "host", letter: "H", label: "Launch gaps, host", parts: ["launch_gap", "host"]},
];

/* Panels of one load each with a row for every rank count; where there is one rank count, one panel of all loads. */
function panelsOf(points, rowOf) {
  if (new Set(points.map((point) => point.ranks)).size < 2)
    return [{title: rankWord(points[0].ranks),
             rows: points.map((point) => ({...rowOf(point), name: point.load.label}))}];
  return byLoad(points).map(({key, points: some}) => (
    {title: key[0].toUpperCase() + key.slice(1),
     rows: some.map((point) => ({...rowOf(point), name: rankWord(point.ranks)}))}));
}

const partOf = (times, part) => finite(object(times)[part]);

/* Of a mixture of experts: what fell to the busiest rank of a layer's choices, in the mean; none with other models. */
const busiestHead = (points) => points.some((point) => metric(point, "expert_busiest_share") !== undefined)
  ? ["Experts chosen on the busiest rank"] : [];
const busiestCell = (point, points) => busiestHead(points).map(() => (
  cell(metric(point, "expert_busiest_share"), percent, metricInterval(point, "expert_busiest_share"))));

function timesRow(label, times) {
  return [...label, cell(partOf(times, "step"), micros), ...PARTS.map((part) => cell(partOf(times, part), micros))];
}

/* Tables of all thirteen parts: decode steps, prefill steps, and each rank of the decode steps. */
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
  const ranks = points.filter((point) => point.ranks > 1).flatMap((point) => (
    list(point.raw.time_us_by_rank).map((times, rank) => [
      ...label(point), cell(rank), cell(finite(list(point.raw.slowest)[rank]), percent), ...timesRow([], times)])));
  if (ranks.length)
    tables.push({caption: "Time of a decode step on each rank (\u00b5s), and the share of all-reduces to which the " +
                          "rank came last", head: ["Ranks", "Load", "Rank", "Last", "step", ...PARTS], rows: ranks});
  return tables;
}

/* The step of the fewest ranks, divided by how many times as many there are. */
function idealStep(point, points) {
  const base = baseRanks(point);
  const other = points.find((one) => one.ranks === base && one.load.label === point.load.label);
  const step = other && partOf(other.raw.time_us, "step");
  return base < point.ranks && step ? step * base / point.ranks : undefined;
}

function timeFigure(points) {
  const id = "time", title = "Where the time of a decode step goes";
  const some = points.filter((point) => partOf(point.raw.time_us, "step") > 0);
  if (!some.length) return {id, title, missing: "The study has no times of steps: it was made without the profile."};
  const isLong = Math.max(...some.map((point) => partOf(point.raw.time_us, "step"))) >= 20000;
  const [unit, divisor] = isLong ? ["ms", 1000] : ["\u00b5s", 1];
  const rowOf = (point) => {
    const step = partOf(point.raw.time_us, "step"), ideal = idealStep(point, some);
    const sums = PART_KINDS.map(({key, label, parts}) => {
      const us = parts.reduce((sum, part) => sum + Math.max(partOf(point.raw.time_us, part) ?? 0, 0), 0);
      return {key, us, words: `${label}: ${micros(us)} \u00b5s, ${percent(us / step)}`};
    });
    return {end: isLong ? (step / divisor).toFixed(2) : micros(step), ideal: ideal && ideal / divisor,
            values: Object.fromEntries(sums.map(({key, us}) => [key, us / divisor])),
            words: Object.fromEntries(sums.map(({key, words}) => [key, words]))};
  };
  const panels = panelsOf(some, rowOf), hasIdeal = panels.some((panel) => panel.rows.some((row) => row.ideal));
  const kinds = PART_KINDS.filter(({key}) => panels.some((panel) => panel.rows.some((row) => row.values[key] > 0)));
  const last = some.at(-1), largest = PART_KINDS.map(({label, parts}) => (
    {label, us: parts.reduce((sum, part) => sum + (partOf(last.raw.time_us, part) ?? 0), 0)}))
    .sort((a, b) => b.us - a.us)[0];
  const words = `Mean over ranks; the number behind a bar is the whole step in ${unit}. ${
    hasIdeal ? "Dashed marks: ideal, the step of the fewest ranks in proportion. " : ""}${
    panels.length > 1 ? "Each panel has its own scale. " : ""}With ${rankWord(last.ranks)} at ${last.load.label}, ${
    largest.label} take the most: ${percent(largest.us / partOf(last.raw.time_us, "step"))}.`;
  const spec = {kinds, panels, axis: `Time of a step (${unit})`, format: readable,
                extra: hasIdeal ? {label: "Ideal"} : undefined};
  return {id, title, words, nPanels: panels.length, tables: timesTables(some),
          draw: (width, names, legendWidth) => drawBars({...spec, legendWidth}, width, names)};
}

function lossFigure(points) {
  const id = "losses", title = "Where efficiency went";
  const some = points.filter((point) => baseRanks(point) < point.ranks &&
                                        LOSSES.some(({key}) => finite(object(point.raw.losses)[key]) !== undefined));
  if (!some.length) return {id, title, missing: "Losses need times of steps on two rank counts or more."};
  const lossOf = (point, key) => finite(object(point.raw.losses)[key]) ?? 0;
  const rowOf = (point) => (
    {end: `${wholePercent(metric(point, "efficiency") ?? 0)} efficient`,
     values: Object.fromEntries(LOSSES.map(({key}) => [key, lossOf(point, key)])),
     words: Object.fromEntries(LOSSES.map(({key, label}) => [key, `${label}: ${percent(lossOf(point, key))}`]))});
  const last = some.at(-1), largest = largestLoss(last);
  const hasGain = some.some((point) => LOSSES.some(({key}) => lossOf(point, key) < 0));
  const words = "Shares of the time that were lost against ideal scaling; together they are what efficiency lacks to " +
    `100\u00a0%. ${hasGain ? "Left of zero: gains, where a shard takes less than its share of the whole. " : ""}${
      largest ? `With ${rankWord(last.ranks)} at ${last.load.label}, ${largest.words} cost the most: ${
        percent(largest.value)}.` : ""}`;
  const spec = {kinds: LOSSES, panels: panelsOf(some, rowOf), isShared: true, axis: "Share of the time lost (%)",
                format: (value) => (100 * value).toFixed(0).replace("-", "\u2212")};
  const row = (point) => [cell(point.ranks), {text: point.load.label}, cell(metric(point, "efficiency"), percent),
                          ...LOSSES.map(({key}) => cell(finite(object(point.raw.losses)[key]), percent)),
                          ...busiestCell(point, some)];
  return {id, title, words, nPanels: spec.panels.length,
          draw: (width, names, legendWidth) => drawBars({...spec, legendWidth}, width, names),
          tables: [{caption: "Efficiency and losses", rows: some.map(row),
                    head: ["Ranks", "Load", "Efficiency", ...LOSSES.map(({label}) => label), ...busiestHead(some)]}]};
}

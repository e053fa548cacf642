/* Formats numbers and sentences. */

const WHOLE = new Intl.NumberFormat("en", {maximumFractionDigits: 0});
const FOUR_DIGITS = new Intl.NumberFormat("en", {maximumSignificantDigits: 4});
const ALL_FOUR = new Intl.NumberFormat("en", {minimumSignificantDigits: 4, maximumSignificantDigits: 4});
const NONE = "\u2013"; /* of an absent figure */

/* Four digits, or all digits before the point of a larger number. */
const readable = (x) => x === undefined ? NONE : Math.abs(x) >= 1000 ? WHOLE.format(x) : FOUR_DIGITS.format(x);
/* As readable, with exactly four digits, so that the numbers of a column have one precision. */
const precise = (x) => x === undefined || Number.isInteger(x) || Math.abs(x) >= 1000 ? readable(x)
  : ALL_FOUR.format(x);
const times = (x) => x === undefined ? NONE : x.toFixed(2);
const percent = (x) => x === undefined ? NONE : `${(100 * x).toFixed(1)}\u00a0%`;
const wholePercent = (x) => `${(100 * x).toFixed(0)}\u00a0%`;
const micros = (us) => us === undefined ? NONE : us.toFixed(us < 100 ? 1 : 0).replace(/\B(?=(\d{3})+(?!\d))/g, ",");

function scaled(x, unit) {
  if (x === undefined) return undefined;
  const [factor, prefix] = [[1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]]
    .find(([size]) => Math.abs(x) >= size) ?? [1, ""];
  return `${FOUR_DIGITS.format(x / factor)} ${prefix}${unit}`;
}

function sentenceList(parts) {
  return parts.length < 2 ? parts.join("") : `${parts.slice(0, -1).join(", ")} and ${parts.at(-1)}`;
}

const between = (pair, format) => pair ? ` (${format(pair[0])} to ${format(pair[1])})` : "";

/* The interval of a headline's figure, or the note that two starts make the interval useless. */
function certainty(point, value, pair, format) {
  const words = isVoid(point, value, pair)
    ? ` These are two starts of the engine, which differ too much for an interval that tells anything: ${
      pair ? `it is ${format(pair[0])} to ${format(pair[1])}` : "it has no end"}. Three starts or more would tell.`
    : startsOf(point) === 1 ? " This is one start of the engine, so that nothing is known of how starts differ." : "";
  return {inside: words ? "" : between(pair, format), behind: words};
}

/* "2 x NVIDIA H200", if the first n devices are equal. */
function devicesOf(machine, n) {
  const names = unique(list(machine.devices).slice(0, n || undefined).map(text).filter(Boolean));
  if (names.length !== 1) return text(machine.device) === "cpu" ? rankWord(n).replace(" ", " CPU ") : rankWord(n);
  return `${n} \u00d7 ${names[0]}`;
}

const LOSSES = [
  {key: "all_reduce", label: "All-reduce transfer", words: "the transfer of all-reduces"},
  {key: "imbalance", label: "Waiting for the slowest rank",
   words: "waiting for the slowest rank"},
  {key: "smaller_gemms", label: "Smaller GEMMs and attention",
   words: "GEMMs and attention that are smaller on each rank"},
  {key: "unsplit", label: "Work that does not split", words: "work that does not split"},
];

const BOUNDS = {memory: "memory bandwidth", gemm: "the GEMM rate", link: "the links"};

function largestLoss(point) {
  const losses = object(point.raw.losses);
  return LOSSES.map((loss) => ({...loss, value: finite(losses[loss.key])}))
    .filter((loss) => loss.value > 0.0005).sort((a, b) => b.value - a.value)[0];
}

/* The point that the summary describes: the most ranks, and among these the most output tokens per second. */
function headline(points) {
  const measured = points.filter((point) => metric(point, "output_throughput") !== undefined);
  const scaledUp = measured.filter((point) => metric(point, "speedup") !== undefined &&
                                              baseRanks(point) < point.ranks);
  const pool = scaledUp.length ? scaledUp : measured;
  const ranks = Math.max(...pool.map((point) => point.ranks));
  return pool.filter((point) => point.ranks === ranks)
    .sort((a, b) => metric(b, "output_throughput") - metric(a, "output_throughput"))[0];
}

function secondSentence(point, efficiency) {
  const reached = share(point), bound = BOUNDS[text(object(point.raw.limit).bound)], loss = largestLoss(point);
  const parts = [];
  if (efficiency !== undefined) parts.push(`an efficiency of ${wholePercent(efficiency)}`);
  if (reached !== undefined)
    parts.push(`${wholePercent(reached)} of the machine's limit${bound ? `, which ${bound} ${
      bound === BOUNDS.link ? "set" : "sets"}` : ""}`);
  if (!parts.length) return "";
  const largest = efficiency !== undefined && loss
    ? `; the largest loss is ${loss.words}, ${percent(loss.value)} of the time` : "";
  return ` That is ${sentenceList(parts)}${largest}.`;
}

function summaryOf(study, points) {
  const point = headline(points);
  if (!point) {
    const n = study.skipped.length;
    return `No point was measured${n ? `: ${n === 1 ? "the only one was" : `all ${n} were`} skipped` : ""}.`;
  }
  const throughput = metric(point, "output_throughput"), base = baseRanks(point), speedup = metric(point, "speedup");
  const place = `${point.load.kind.key === "batch" ? "at" : "with"} ${point.load.label} (${settingsOf(point)})`;
  const devices = devicesOf(study.machine, point.ranks);
  if (speedup === undefined || base === undefined || base >= point.ranks) {
    const found = certainty(point, throughput, metricInterval(point, "output_throughput"), readable);
    const verb = point.ranks === 1 ? "gives" : "give";
    return `${devices} ${verb} ${readable(throughput)}${found.inside} output tokens/s ${place}.${found.behind}` +
      secondSentence(point);
  }
  const found = certainty(point, speedup, metricInterval(point, "speedup"), times), shares = sharesCores(study.machine);
  return `${devices} give ${times(speedup)}${found.inside} times the output tokens/s of ${base === 1 ? "one" : base} ${
    place}: ${readable(throughput)} tokens/s.${found.behind}${shares ? ` ${SHARED}, so that 1 is ideal.` : ""}` +
    secondSentence(point, shares ? undefined : metric(point, "efficiency"));
}

function titleOf(study) {
  const model = text(study.model.name).split("/").filter(Boolean).at(-1) ?? "A model";
  const counts = unique(study.points.map((point) => point.ranks)).sort(byNumber);
  if (!counts.length) return `Scaling of ${model}`;
  const most = counts.at(-1);
  return `Scaling of ${model} ${counts.length > 1 ? `from ${counts[0]} to ` : "on "}${devicesOf(study.machine, most)}`;
}

function bylineOf(study) {
  const {raw} = study;
  const date = text(raw.created).replace(/T.*/, "");
  const runs = finite(raw.repeats) && finite(raw.starts)
    ? `${raw.repeats} ${raw.repeats === 1 ? "repeat" : "repeats"} in each of ${raw.starts} ${
      raw.starts === 1 ? "start" : "starts"} of the engine` : "";
  const nPoints = study.points.length;
  return [date, text(raw.version) && `Yoke ${text(raw.version)}`, `${nPoints} ${nPoints === 1 ? "point" : "points"}`,
          runs].filter(Boolean).join(" \u00b7 ");
}

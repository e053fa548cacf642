/* Tables, lists and facts as elements. */

function drawCell(name, attributes, content) {
  const {text: words, value, interval: pair, format, isWords, isVoid: tellsNothing} = content;
  const element = html(name, {...attributes, class: isWords && "words",
                              "data-value": value === undefined ? undefined : String(value)}, words);
  if (pair && pair[0] !== pair[1])
    element.append(html("span", {class: "interval"}, `${format(pair[0])} to ${format(pair[1])}${
      tellsNothing ? "\u00a0\u2020" : ""}`));
  return element;
}

/* table: {caption, head: [text], rows: [[cell]], nHeads}; the first nHeads columns name the row. */
function drawTable(table, className) {
  const nHeads = table.nHeads ?? 2;
  const head = table.head.map((words, i) => {
    const isWords = table.rows[0]?.[i].isWords;
    const [, name, unit] = words.match(/^(.*?)( \([^()]*\))?$/s);
    return html("th", {scope: "col", class: isWords && "words"}, name, unit && html("span", {class: "unit"}, unit));
  });
  const rows = table.rows.map((row) => html("tr", {}, ...row.map((content, i) => (
    i < nHeads ? drawCell("th", {scope: "row"}, content) : drawCell("td", {}, content)))));
  const kind = table.rows.length <= 24 ? "scroll short" : "scroll"; /* short tables stay on one page of paper */
  return html("div", {class: kind, tabindex: 0, role: "region", "aria-label": table.caption},
              html("table", {class: className}, html("caption", {}, table.caption),
                   html("thead", {}, html("tr", {}, ...head)), html("tbody", {}, ...rows)));
}

function pointsTable(points, machine) {
  const measure = (name, format = precise) => (point) => {
    const value = metric(point, name), pair = metricInterval(point, name);
    return {...cell(value, format, pair), isVoid: pair !== undefined && isVoid(point, value, pair)};
  };
  const columns = [
    ["Processes", (point) => cell(finite(point.raw.processes))],
    ["Hosts", (point) => cell(finite(point.raw.hosts))],
    ["Output (tokens/s)", measure("output_throughput")],
    ["Speed-up", measure("speedup", times)],
    ...(sharesCores(machine) ? [] : [["Efficiency", measure("efficiency", percent)]]),
    ["Of the limit", (point) => cell(share(point), percent)],
    ["Requests running", (point) => cell(finite(object(point.raw.limit).running))],
    ["Of the offered load", (point) => cell(finite(object(point.raw.limit).offered_share), percent)],
    ["TTFT, median (ms)", measure("median_ttft_ms")],
    ["TPOT, median (ms)", measure("median_tpot_ms")],
    ["TPOT, p99 (ms)", measure("p99_tpot_ms")],
    ["Energy (J/token)", measure("energy_j_per_token")],
    ["Runs", (point) => cell(metric(point, "n_runs"))],
  ].filter(([, of]) => points.some((point) => of(point).value !== undefined));
  const hasVoid = points.some((point) => columns.some(([, of]) => of(point).isVoid));
  return {caption: "Median of all runs of a point, and its 95\u00a0% interval, differences between starts of the " +
                   `engine included${hasVoid ? ". \u2020: of two starts that differ, so wide that it tells nothing"
                     : ""}`, head: ["Ranks", "Load", ...columns.map(([head]) => head)],
          rows: points.map((point) => [cell(point.ranks), {text: point.load.label},
                                       ...columns.map(([, of]) => of(point))])};
}

function predictionsTable(predictions) {
  return {caption: "Points that were not measured, predicted from measured pieces. Error: what such " +
                   "predictions missed measured points by", nHeads: 3,
          head: ["Ranks", "Load", "Settings", "Output (tokens/s)", "Speed-up", "Error"],
          rows: predictions.map((point) => [
            cell(point.ranks), {text: point.load.label}, {text: settingsOf(point), isWords: true},
            cell(metric(point, "output_throughput")), cell(metric(point, "speedup"), times),
            cell(metric(point, "error"), percent)])};
}

function skippedTable(skipped) {
  return {caption: "Points that were not run, and why", nHeads: 3, head: ["Ranks", "Load", "Settings", "Reason"],
          rows: skipped.map((point) => [cell(point.ranks), {text: point.load.label},
                                        {text: settingsOf(point), isWords: true},
                                        {text: text(point.raw.reason) || NONE, isWords: true}])};
}

function allReduceTable(machine) {
  const rows = list(machine.all_reduce).map(object).filter((one) => finite(one.us) !== undefined);
  if (!rows.length) return undefined;
  return {caption: "All-reduces of this machine, measured alone", head: ["Ranks", "Size (bytes)", "Time (\u00b5s)"],
          rows: rows.map((one) => [cell(finite(one.ranks)), cell(finite(one.bytes)), cell(finite(one.us))])};
}

function drawFacts(facts) {
  return html("dl", {class: "facts"}, ...facts.filter(([, value]) => value !== undefined && value !== "")
    .flatMap(([name, value]) => [html("dt", {}, name), html("dd", {}, value)]));
}

function machineFacts({machine}) {
  const names = groupBy(list(machine.devices).map(text), (name) => name);
  const devices = names.map(({key, points}) => `${points.length} \u00d7 ${key}`).join(", ");
  const cpu = [text(machine.cpu), finite(machine.n_cpus) && `${machine.n_cpus} processors`].filter(Boolean).join(", ");
  return [["Devices", devices || text(machine.device)], ["Driver", text(machine.driver)], ["Host", cpu],
          ["Memory bandwidth", scaled(finite(machine.memory_bytes_per_s), "B/s a device, measured")],
          ["GEMM rate", scaled(finite(machine.gemm_flops), "FLOP/s a device, measured")],
          ["Links", finite(machine.link_bytes_per_s) ? scaled(machine.link_bytes_per_s, "B/s, measured") : ""]];
}

function modelFacts({model, raw}) {
  const shape = [["layers", model.n_layers], ["hidden", model.hidden_size], ["vocabulary", model.vocab_size]]
    .filter(([, value]) => finite(value) !== undefined)
    .map(([name, value]) => `${WHOLE.format(value)} ${name}`).join(", ");
  return [["Model", text(model.name)], ["Family", [text(model.family), text(model.dtype)].filter(Boolean).join(", ")],
          ["Shape", shape], ["Weights", scaled(finite(model.weight_bytes), "B")],
          ["Command", text(raw.command) && html("code", {}, text(raw.command))], ["Version", text(raw.version)],
          ["Made", text(raw.created)]];
}

const METHOD = [
  "A point is run several times in each of several starts of the engine, in random order within a start. Its figures " +
    "are medians over all runs; intervals are 95\u00a0% and include the differences between starts.",
  "The speed-up compares output tokens/s with the fewest ranks on which the same load, lengths and options were " +
    "measured. The efficiency is the speed-up divided by the ratio of the two rank counts.",
  "TTFT is the time to the first token, TPOT the time per output token after it.",
  "The limit is the shortest time in which this machine could do the point's reads, multiplications and all-reduces, " +
    "from its own measured memory bandwidth, GEMM rate and links (roofline). Where requests come and go it is that " +
    "of as many requests as were running; a request rate offers the rate times the output tokens of a request.",
  "Under ideal scaling every part of a step takes a share of its time that falls with the rank count. What a part " +
    "takes beyond that is its loss, as a share of the time; all losses together are 100\u00a0% less the efficiency. " +
    "Waiting in all-reduces counts as imbalance; GEMMs, lm_head and attention as smaller GEMMs; norms, sampling, " +
    "launch gaps and the host as work that does not split.",
];

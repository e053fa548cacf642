/* Stacked bars: a legend, and a panel for each group of rows, so that no drawing is longer than a page of paper.
 *   kinds: [{key, kind (its class), letter, label}]
 *   panels: [{title, rows: [{name, end (text behind the bar), values: {key: number}, ideal, words: {key: text}}]}]
 * Values below zero are stacked to the left of zero. */

const ROW_PX = 22;
const PATTERNS = { /* over an 8 x 8 tile; a kind without one is plain */
  head: "M2,2h.01M6,6h.01", attention: "M-2,2L2,-2M0,8L8,0M6,10L10,6", other: "M0,2H8M0,6H8",
  reduce: "M-2,6L2,10M0,0L8,8M6,-2L10,2", wait: "M0,8L8,0M0,0L8,8", sample: "M2,0V8M6,0V8", host: "M0,4H8M4,0V8",
};
const KINDS = ["gemm", ...Object.keys(PATTERNS)];

/* The tiles that bars are filled with; once in a document. */
function drawDefinitions() {
  const tiles = KINDS.map((kind) => svg(
    "pattern", {id: `fill-${kind}`, class: kind, width: 8, height: 8, patternUnits: "userSpaceOnUse"},
    svg("rect", {class: "base", width: 8, height: 8}),
    PATTERNS[kind] && svg("path", {class: "pattern", d: PATTERNS[kind], "stroke-linecap": "round",
                                   "stroke-width": kind === "head" ? 2 : 1})));
  return svg("svg", {class: "definitions", "aria-hidden": "true"}, svg("defs", {}, ...tiles));
}

function drawLegend(kinds, width, extra) {
  const marks = [];
  let x = 0, y = 0;
  for (const {kind, letter, label} of [...kinds, ...(extra ? [extra] : [])]) {
    const room = 24 + textWidth(label) + 18;
    if (x && x + room - 18 > width) {
      x = 0;
      y += 22;
    }
    if (kind)
      marks.push(svg("rect", {x, y: y + 1, width: 18, height: 16, fill: `url(#fill-${kind})`}),
                 svg("text", {class: "letter", x: x + 9, y: y + 13, "text-anchor": "middle"}, letter));
    else
      marks.push(svg("line", {class: "ideal", x1: x + 9, x2: x + 9, y1: y + 1, y2: y + 17}));
    marks.push(svg("text", {x: x + 24, y: y + 13}, label));
    x += room;
  }
  return svg("svg", {class: "legend", width, height: y + 22, viewBox: `0 0 ${width} ${y + 22}`, "aria-hidden": "true"},
             ...marks);
}

function drawBar(row, kinds, y, scale) {
  const marks = [];
  let up = 0, down = 0;
  for (const {key, kind, letter} of kinds) {
    const value = row.values[key];
    if (!value) continue;
    const from = value > 0 ? up : down + value, to = value > 0 ? up + value : down;
    if (value > 0) up = to;
    else down = from;
    const x = scale(from), width = Math.max(scale(to) - x, .25);
    marks.push(svg("rect", {class: `datum ${width > 3 ? "edge" : ""}`, x, y, width, height: ROW_PX - 5,
                            fill: `url(#fill-${kind})`}, svg("title", {}, row.words[key])));
    if (width >= 15)
      marks.push(svg("text", {class: "letter", x: x + width / 2, y: y + 12.5, "text-anchor": "middle"}, letter));
  }
  if (row.ideal !== undefined)
    marks.push(svg("path", {class: "ideal", d: `M${scale(row.ideal)},${y - 2}v${ROW_PX - 1}`}));
  marks.push(svg("text", {class: "tick halo", x: scale(Math.max(up, row.ideal ?? 0)) + 6, y: y + 12.5}, row.end));
  return marks;
}

const stackOf = (row, sign) => Object.values(row.values).filter((value) => value * sign > 0)
  .reduce((sum, value) => sum + value, 0);

function drawPanel(panel, spec, width, names) {
  const {rows} = panel, top = 24, bottom = top + rows.length * ROW_PX, height = bottom + (panel.hasAxis ? 40 : 24);
  const left = Math.max(...rows.map((row) => textWidth(row.name, 11))) + 8;
  const right = width - Math.max(...rows.map((row) => textWidth(row.end, 11))) - 12;
  const scale = makeScale(false, panel.low, panel.high, left, right);
  const marks = [svg("text", {class: "panel-title", x: 0, y: 13}, panel.title)];
  const ticks = thinned(linearTicks(panel.low, panel.high, Math.max(3, (right - left) / 80)), scale, spec.format);
  for (const tick of ticks)
    marks.push(svg("line", {class: "grid", x1: scale(tick), x2: scale(tick), y1: top - 2, y2: bottom}),
               svg("text", {class: "tick", x: scale(tick), y: bottom + 14, "text-anchor": "middle"},
                   spec.format(tick)));
  rows.forEach((row, i) => {
    marks.push(svg("text", {class: "tick", x: left - 6, y: top + i * ROW_PX + 12.5, "text-anchor": "end"}, row.name),
               ...drawBar(row, spec.kinds, top + i * ROW_PX, scale));
  });
  marks.push(svg("line", {class: "axis", x1: scale(0), x2: scale(0), y1: top - 4, y2: bottom}));
  if (panel.hasAxis)
    marks.push(svg("text", {x: (left + right) / 2, y: bottom + 32, "text-anchor": "middle"}, spec.axis));
  return svg("svg", {width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-labelledby": names},
             ...marks);
}

/* Panels share their scale where spec.isShared. The axis is named in each, since each may stand alone on a page. */
function drawBars(spec, width, names) {
  const rows = spec.panels.flatMap((panel) => panel.rows);
  const ends = (some) => [-Math.max(...some.map((row) => -stackOf(row, -1))),
                          Math.max(...some.map((row) => Math.max(stackOf(row, 1), row.ideal ?? 0)), 1e-9)];
  const shared = ends(rows);
  const drawings = spec.panels.map((panel) => {
    const [low, high] = spec.isShared ? shared : ends(panel.rows);
    return drawPanel({...panel, low: Math.min(low, 0), high, hasAxis: true}, spec, width, names);
  });
  return [drawLegend(spec.kinds, spec.legendWidth ?? width, spec.extra), ...drawings];
}

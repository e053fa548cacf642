/* Plots of series over two axes.
 *   axis x, y: {label, isLog, low, high, ticks (numbers; or as the scale likes), format}
 *   series: [{name, looks, slot, isOpen, isTicks (short bars rather than marks),
 *     points: [{x, y, interval, words, note, isJoint}]}], points in the order of their line; interval is of y; a joint
 *     is another series' point where the line begins
 *   nSlots: series stand beside each other by so many slots, lest whiskers of one x cover each other
 *   guides: [{name, kind, points: [[x, y]]}], drawn below: "guide" with its name at its end, or "frontier" */

const NAME_GAP_PX = 8; /* between the axes and the names of lines */
const MARGIN = {top: 26, bottom: 40, left: 14};

function drawAxes(spec, frame, scaleX, scaleY) {
  const marks = [], {left, right, top, bottom} = frame;
  const {x, y} = spec;
  for (const tick of frame.ticksY) {
    marks.push(svg("line", {class: "grid", x1: left, x2: right, y1: scaleY(tick), y2: scaleY(tick)}),
               svg("text", {class: "tick", x: left - 6, y: scaleY(tick) + 4, "text-anchor": "end"}, y.format(tick)));
  }
  const wanted = x.ticks ?? (x.isLog ? logTicks(x.low, x.high) : linearTicks(x.low, x.high, 7));
  const ticksX = thinned(wanted, scaleX, x.format);
  for (const tick of ticksX)
    marks.push(svg("line", {class: "grid", x1: scaleX(tick), x2: scaleX(tick), y1: top, y2: bottom}),
               svg("text", {class: "tick", x: scaleX(tick), y: bottom + 16, "text-anchor": "middle"}, x.format(tick)));
  marks.push(svg("path", {class: "axis", fill: "none", d: `M${left},${top}V${bottom}H${right}`}),
             svg("text", {x: 0, y: 12}, y.label),
             svg("text", {x: (left + right) / 2, y: bottom + 34, "text-anchor": "middle"}, x.label));
  return marks;
}

const pathOf = (pairs) => pairs.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(2)},${y.toFixed(2)}`).join("");

function drawWhisker(at, ends) {
  const [low, high] = ends;
  return svg("path", {class: "whisker", d: `M${at},${low}V${high}M${at - 3},${low}h6M${at - 3},${high}h6`});
}

function drawPoint(series, point, at) {
  const shape = series.isTicks ? svg("path", {class: "line", d: "M-7,0h14"})
    : svg("path", {class: series.isOpen ? "open" : "mark", d: series.looks.mark(4.5)});
  shape.setAttribute("transform", `translate(${at[0].toFixed(2)},${at[1].toFixed(2)})`);
  shape.classList.add("datum");
  shape.append(svg("title", {}, point.words));
  return shape;
}

function drawSeries(series, placed, scaleY, low) {
  const marks = [];
  if (placed.length > 1)
    marks.push(svg("path", {class: "line", "stroke-dasharray": series.isTicks ? "3 3" : series.looks.dash,
                            "stroke-opacity": series.isTicks || series.isOpen ? .6 : undefined,
                            d: pathOf(placed.map(({at}) => at))}));
  for (const {point, at} of placed) {
    if (point.interval)
      marks.push(drawWhisker(at[0], point.interval.map((value) => scaleY(Math.max(value, low)))));
    if (!point.isJoint) marks.push(drawPoint(series, point, at));
  }
  return svg("g", {class: `series ${series.looks.ink}`}, ...marks);
}

function drawGuide(guide, scaleX, scaleY) {
  return svg("path", {class: guide.kind, d: pathOf(guide.points.map(([x, y]) => [scaleX(x), scaleY(y)]))});
}

/* Names at the ends of lines, with a leader where a name had to move. */
function drawNames(labels) {
  return labels.map((label) => {
    const kind = `halo ${label.ink ? "series-name" : "tick"}`;
    const name = svg("text", {class: kind, x: label.x, y: label.at + 4}, label.text);
    const hasMoved = Math.abs(label.at - label.y) > 5;
    const path = `M${label.from ?? label.x},${label.y}L${label.x - 1},${label.at}`;
    return svg("g", {class: label.ink}, hasMoved ? svg("path", {class: "leader", d: path}) : undefined, name);
  });
}

/* Where a line and its marks are, as boxes that a note should not cover. */
function alongLine(placed) {
  return placed.flatMap(({at}, i) => {
    const mark = {left: at[0] - 4, right: at[0] + 4, top: at[1] - 4, bottom: at[1] + 4};
    if (i === 0) return [mark];
    const from = placed[i - 1].at, n = Math.ceil(Math.hypot(at[0] - from[0], at[1] - from[1]) / 4);
    return [mark, ...Array.from({length: n}, (_, k) => {
      const x = from[0] + (at[0] - from[0]) * k / n, y = from[1] + (at[1] - from[1]) * k / n;
      return {left: x - 1, right: x + 1, top: y - 1, bottom: y + 1};
    })];
  });
}

/* Small notes above points, where there is room for them. */
function drawNotes(placed, taken, frame) {
  const marks = [], boxes = [...taken];
  for (const {point, at} of placed) {
    if (!point.note) continue;
    const half = textWidth(point.note, 10.5) / 2;
    const spots = [[0, -9], [-half - 8, 4], [half + 8, 4], [0, 17], [-half - 7, -7], [half + 7, -7], [-half - 7, 13]];
    for (const [dx, dy] of spots) {
      const x = at[0] + dx, y = at[1] + dy;
      const box = {left: x - half - 1, right: x + half + 1, top: y - 9, bottom: y + 2};
      if (box.left < frame.left || box.right > frame.width || box.top < frame.top - 12 || box.bottom > frame.bottom)
        continue;
      if (boxes.some((other) => overlap(box, other))) continue;
      boxes.push(box);
      marks.push(svg("text", {class: "small halo", x, y, "text-anchor": "middle"}, point.note));
      break;
    }
  }
  return marks;
}

function frameOf(spec, width, height) {
  const {y} = spec;
  const top = MARGIN.top, bottom = height - MARGIN.bottom;
  const ticksY = y.ticks ?? (y.isLog ? logTicks(y.low, y.high) : linearTicks(y.low, y.high, Math.round(height / 55)));
  const left = Math.max(...ticksY.map((tick) => textWidth(y.format(tick), 11))) + MARGIN.left;
  const names = [...spec.series.filter((series) => series.points.length && series.name).map((series) => series.name),
                 ...spec.guides.filter((guide) => guide.name).map((guide) => guide.name)];
  const room = Math.max(0, ...names.map((name) => textWidth(name, 12, 600)));
  return {width, top, bottom, left, right: width - Math.min(room + NAME_GAP_PX + 2, width * .42), ticksY};
}

function drawLines(spec, width, names) {
  const nNames = spec.series.filter((series) => series.name).length;
  const height = Math.max(265, Math.min(width * .62, 400), nNames * 15 + 90);
  const frame = frameOf(spec, width, height);
  const inset = 10;
  const scaleX = makeScale(spec.x.isLog, spec.x.low, spec.x.high, frame.left + inset, frame.right - inset);
  const scaleY = makeScale(spec.y.isLog, spec.y.low, spec.y.high, frame.bottom, frame.top);
  const n = spec.nSlots ?? 1, step = n > 1 ? Math.min(4, 20 / n) : 0;
  const placed = spec.series.map((series) => series.points.map((point) => (
    {point, at: [scaleX(point.x) + ((series.slot ?? 0) - (n - 1) / 2) * step, scaleY(point.y)]})));
  const labels = spec.series.flatMap((series, i) => {
    if (!placed[i].length || !series.name) return [];
    const {at: [x, y], point} = placed[i].reduce((best, one) => one.at[0] >= best.at[0] ? one : best);
    return [{x: point.x === spec.x.high ? frame.right + NAME_GAP_PX : x + 11, from: x + 6, y, text: series.name,
             ink: series.looks.ink}];
  });
  for (const guide of spec.guides)
    if (guide.name) labels.push({x: frame.right + NAME_GAP_PX, y: scaleY(guide.points.at(-1)[1]), text: guide.name});
  const spread = spreadLabels(labels, frame.top, frame.bottom - 2);
  const marks = placed.flatMap(alongLine);
  return svg("svg", {width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-labelledby": names},
             ...drawAxes(spec, frame, scaleX, scaleY), ...spec.guides.map((guide) => drawGuide(guide, scaleX, scaleY)),
             ...spec.series.map((series, i) => drawSeries(series, placed[i], scaleY, spec.y.low)),
             ...drawNotes(placed.flat(), [...spread.map((label) => label.box), ...marks], frame),
             ...drawNames(spread));
}

/* A range around numbers with some air; logarithmic ones by a factor. */
function rangeOf(values, isLog, air = .05) {
  const low = Math.min(...values), high = Math.max(...values);
  if (isLog) return [low / (1 + 3 * air), high * (1 + 3 * air)];
  const room = (high - low || Math.abs(high) || 1) * air;
  return [low - room, high + room];
}

/* What plots are made of: elements, scales with their ticks, marks, text that is measured, files of their own. */

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes))
    if (value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
  element.append(...children.filter((child) => child !== undefined && child !== null && child !== ""));
  return element;
}

const svg = (name, attributes = {}, ...children) => fill(document.createElementNS(SVG, name), attributes, children);
const html = (name, attributes = {}, ...children) => fill(document.createElement(name), attributes, children);

const FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif'; /* of the style */
const ruler = document.createElement("canvas").getContext("2d");

function textWidth(string, size = 12, weight = 400) {
  ruler.font = `${weight} ${size}px ${FONT}`;
  return ruler.measureText(string).width;
}

/* ---- Scales ------------------------------------------------------------------------------------------------------ */

/* Numbers of [low, high] to pixels of [from, to]. */
function makeScale(isLog, low, high, from, to) {
  const at = isLog ? Math.log : (x) => x;
  const span = at(high) - at(low) || 1;
  return (x) => from + (at(x) - at(low)) / span * (to - from);
}

function linearTicks(low, high, most) {
  const rough = (high - low) / Math.max(most, 1) || 1, size = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].find((factor) => factor * size >= rough * 0.999) * size;
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-6); i * step <= high + step * 1e-6; i++)
    ticks.push(Number((i * step).toPrecision(12)));
  return ticks;
}

function logTicks(low, high) {
  const factors = high / low < 12 ? [1, 1.5, 2, 3, 4, 5, 7] : high / low < 300 ? [1, 2, 5] : [1];
  const ticks = [];
  for (let decade = 10 ** Math.floor(Math.log10(low)); decade <= high; decade *= 10)
    for (const factor of factors)
      if (factor * decade >= low * 0.999 && factor * decade <= high * 1.001)
        ticks.push(Number((factor * decade).toPrecision(6)));
  return ticks;
}

/* Of the numbers, as many as fit beside each other with their labels; the last one and the first one win. */
function thinned(values, scale, labelOf) {
  const kept = [], order = [values.at(-1), ...values.slice(0, -1)];
  for (const value of order) {
    const at = scale(value), half = textWidth(labelOf(value), 11) / 2 + 5;
    if (kept.every((other) => Math.abs(other.at - at) > other.half + half)) kept.push({value, at, half});
  }
  return kept.map((tick) => tick.value).sort(byNumber);
}

/* ---- Marks ------------------------------------------------------------------------------------------------------- */

const MARKS = [
  (r) => `M${-r},0a${r},${r} 0 1,0 ${2 * r},0a${r},${r} 0 1,0 ${-2 * r},0Z`,
  (r) => `M${-r * .9},${-r * .9}h${r * 1.8}v${r * 1.8}h${-r * 1.8}Z`,
  (r) => `M0,${-r * 1.2}L${r * 1.15},${r * .9}H${-r * 1.15}Z`,
  (r) => `M0,${-r * 1.3}L${r * 1.3},0L0,${r * 1.3}L${-r * 1.3},0Z`,
  (r) => `M0,${r * 1.2}L${r * 1.15},${-r * .9}H${-r * 1.15}Z`,
  (r) => `M${-r * .4},${-r * 1.2}h${r * .8}v${r * .8}h${r * .8}v${r * .8}h${-r * .8}v${r * .8}h${-r * .8}v${-r * .8}` +
    `h${-r * .8}v${-r * .8}h${r * .8}Z`,
  (r) => `M0,${-r * 1.35}L${r * 1.28},${-r * .42}L${r * .8},${r * 1.1}H${-r * .8}L${-r * 1.28},${-r * .42}Z`,
];
const DASHES = [undefined, "7 3", "2 2.5", "9 3 2 3"];

/* How series i of n looks: no two of up to 28 alike even without colour. */
function looksOf(i, n) {
  return {ink: `c${n === 1 ? 1 : n <= 12 ? Math.round(i * 11 / (n - 1)) : i % 12}`, mark: MARKS[i % MARKS.length],
          dash: DASHES[i % DASHES.length]};
}

/* ---- Labels ------------------------------------------------------------------------------------------------------ */

const overlap = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;

/* Move labels {x, y, text, ink} up or down until none covers another: each with its baseline in `at`. */
function spreadLabels(labels, top, bottom, height = 14) {
  const sorted = [...labels].sort((a, b) => a.y - b.y);
  const boxOf = (label, at) => ({left: label.x, right: label.x + textWidth(label.text, 12, 600), top: at - height / 2,
                                 bottom: at + height / 2});
  const shift = (label, others, direction) => {
    for (let moved = true; moved;) {
      moved = false;
      for (const other of others)
        if (overlap(boxOf(label, label.at), boxOf(other, other.at))) {
          label.at = other.at + direction * (height + .01);
          moved = true;
        }
    }
  };
  sorted.forEach((label, i) => {
    label.at = Math.max(top, label.y);
    shift(label, sorted.slice(0, i), 1);
  });
  for (let i = sorted.length - 1; i >= 0; i--) {
    sorted[i].at = Math.min(sorted[i].at, bottom);
    shift(sorted[i], sorted.slice(i + 1), -1);
  }
  return sorted.map((label) => ({...label, box: boxOf(label, label.at)}));
}

/* ---- Files of their own ------------------------------------------------------------------------------------------ */

const KEPT = ["fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-linecap", "stroke-linejoin",
              "stroke-opacity", "paint-order", "font-size", "font-weight"];
const DEFAULTS = {"stroke-dasharray": "none", "stroke-linecap": "butt", "stroke-linejoin": "miter",
                  "stroke-opacity": "1", "paint-order": "normal", "font-weight": "400", stroke: "none"};

/* A copy that needs no style sheet: every colour and size is an attribute, as it is shown now. */
function standalone(shown) {
  const copy = shown.cloneNode(true);
  const from = [shown, ...shown.querySelectorAll("*")], to = [copy, ...copy.querySelectorAll("*")];
  from.forEach((element, i) => {
    const style = getComputedStyle(element), isText = element.localName === "text" || element.localName === "tspan";
    for (const name of KEPT) {
      const value = style.getPropertyValue(name);
      const isInherited = name.startsWith("font") ? !isText : name.startsWith("stroke-") && style.stroke === "none";
      if (isInherited || value === DEFAULTS[name] || ["svg", "g", "defs", "title", "desc"].includes(element.localName))
        continue;
      to[i].setAttribute(name, value.replaceAll('"', "'").replace(/url\('(#[^']*)'\)/, "url($1)"));
    }
    for (const name of ["class", "role", "aria-labelledby", "aria-hidden"]) to[i].removeAttribute(name);
  });
  return copy;
}

/* Drawings of one width, one below the other, as the text of an SVG file on a ground of their own. */
function fileOf(drawings, name, words) {
  const copies = drawings.map(standalone);
  const width = Math.max(...copies.map((copy) => Number(copy.getAttribute("width"))));
  let height = 8;
  for (const copy of copies) {
    copy.setAttribute("x", 8);
    copy.setAttribute("y", height);
    height += Number(copy.getAttribute("height")) + 4;
  }
  const ground = getComputedStyle(document.body).backgroundColor;
  const size = {width: width + 16, height: height + 4, viewBox: `0 0 ${width + 16} ${height + 4}`};
  const whole = svg("svg", {...size, role: "img", "font-family": "Helvetica, Arial, 'DejaVu Sans', sans-serif"},
                    svg("title", {}, name), svg("desc", {}, words),
                    standalone(document.querySelector(".definitions defs")),
                    svg("rect", {width: "100%", height: "100%", fill: ground}), ...copies);
  return `${new XMLSerializer().serializeToString(whole)}\n`;
}

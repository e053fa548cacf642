/* HTML and SVG elements, and drawings as separate files. */

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes))
    if (value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
  element.append(...children.filter((child) => child !== undefined && child !== null && child !== false &&
                                               child !== ""));
  return element;
}

const svg = (name, attributes = {}, ...children) => fill(document.createElementNS(SVG, name), attributes, children);
const html = (name, attributes = {}, ...children) => fill(document.createElement(name), attributes, children);

const KEPT = ["fill", "stroke"]; /* presentation attributes whose colours come from the page */

/* A copy that needs no style sheet: every colour is set to its computed value. */
function standalone(shown) {
  const copy = shown.cloneNode(true);
  const from = [shown, ...shown.querySelectorAll("*")], to = [copy, ...copy.querySelectorAll("*")];
  from.forEach((element, i) => {
    const style = getComputedStyle(element);
    for (const name of KEPT)
      if (element.getAttribute(name)?.startsWith("var(")) to[i].setAttribute(name, style.getPropertyValue(name));
    for (const name of ["class", "role", "aria-labelledby", "aria-hidden"]) to[i].removeAttribute(name);
  });
  return copy;
}

/* Drawings of one width, one below the other, as an SVG file with a background. */
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
  const whole = svg("svg", {...size, role: "img"},
                    svg("title", {}, name), svg("desc", {}, words),
                    standalone(document.querySelector(".definitions defs")),
                    svg("rect", {width: "100%", height: "100%", fill: ground}), ...copies);
  return `${new XMLSerializer().serializeToString(whole)}\n`;
}

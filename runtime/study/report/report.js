/* The page: the reader's choice, and figures and tables for it. */

const study = readStudy(JSON.parse(document.getElementById("study").textContent));
const main = document.getElementById("main");
const chosen = [];
const drawings = document.getElementById("drawings").content;

/* The drawings of a figure for these points, for a place: "wide" or "narrow". */
function drawingOf(id, points, place) {
  const first = Math.min(...points.map((point) => point.index));
  return drawings.querySelector(`.${place}[data-figure="${id}"][data-point="${first}"]`);
}

function cutInWords(n) {
  return n ? ` ${n === 1 ? "One whisker reaches" : `${n} whiskers reach`} beyond the axes, and ${
    n === 1 ? "ends" : "end"} there with an arrowhead.` : "";
}

function drawFigure(figure, number, points) {
  const {id, words, tables} = figure, shown = drawingOf(id, points, "wide");
  const title = html("h3", {id: `${id}-title`}, `Figure ${number}. ${TITLES[id]}`);
  const below = html("p", {id: `${id}-words`}, words + cutInWords(Number(shown.dataset.cut)));
  const save = html("button", {type: "button"}, "Save as SVG");
  save.setAttribute("aria-label", `Save figure ${number}, ${TITLES[id]}, as SVG`);
  save.addEventListener("click", () => saveFile(`${id}.svg`, svgOf(id)));
  const numbers = html("details", {}, html("summary", {}, `Numbers of figure ${number}`),
                       ...tables.map((table) => drawTable(table)));
  const plot = html("div", {class: "plot"}), n = shown.children.length;
  for (const place of ["wide", "narrow"]) {
    const copy = document.importNode(drawingOf(id, points, place), true);
    for (const drawing of copy.children) {
      if (drawing.classList.contains("legend")) drawing.setAttribute("aria-hidden", "true");
      else fill(drawing, {role: "img", "aria-labelledby": `${title.id} ${below.id}`}, []);
    }
    if (n > 1) copy.classList.add("panels");
    plot.append(copy);
  }
  return html("figure", {id, class: n > 2 ? "both" : "", "aria-labelledby": title.id, "aria-describedby": below.id},
              html("figcaption", {}, title), plot, below, html("div", {class: "tools"}, save, numbers));
}

/* The figure as the text of an SVG file, in its present colours. */
function svgOf(id) {
  const shown = document.querySelector(`#${CSS.escape(id)} .wide`);
  if (!shown) throw new Error(`no figure ${id}: there are ${figuresShown.join(", ") || "none"}`);
  return fileOf([...shown.children], TITLES[id], document.getElementById(`${id}-words`).textContent);
}

function saveFile(name, content) {
  const url = URL.createObjectURL(new Blob([content], {type: "image/svg+xml"}));
  html("a", {href: url, download: name}).click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

function figuresOf(points) {
  const {machine} = study, unit = sharesCores(machine) ? "rank" : "GPU";
  const isPredicted = Boolean(drawingOf("speedup", points, "wide")?.querySelector(".open"));
  return [speedupFigure(points, isPredicted, machine), efficiencyFigure(points, machine), latencyFigure(points, unit),
          limitFigure(points), timeFigure(points, machine), lossFigure(points, machine)]
    .map((figure) => (figure.missing || drawingOf(figure.id, points, "wide") ? figure
      : {...figure, missing: "There is nothing to draw."}));
}

function warningsOf(points) {
  return points.flatMap((point) => list(point.raw.warnings).map((warning) => `${nameOf(point)}: ${text(warning)}`));
}

const section = (id, title, ...content) => html("section", {"aria-labelledby": id}, html("h2", {id}, title),
                                              ...content.filter(Boolean));

let figuresShown = [];

function show() {
  const points = select(study.points, study.dimensions, chosen);
  const all = points.length ? figuresOf(points) : [];
  const missing = all.filter((figure) => figure.missing);
  const figures = all.filter((figure) => !figure.missing);
  figuresShown = figures.map(({id}) => id);
  const setting = points.length ? settingsOf(points[0]) : "";
  const warnings = warningsOf(study.points), allReduces = allReduceTable(study.machine);
  document.getElementById("summary").textContent = study.points.length && !points.length
    ? "No point was measured with these settings." : summaryOf(study, points);
  const parts = [
    figures.length && section("figures", `Figures${setting ? `: ${setting}` : ""}`,
      html("div", {class: "figures"}, ...figures.map((figure, i) => drawFigure(figure, i + 1, points)))),
    missing.length && section("not-shown", "Figures that are not shown",
      html("ul", {}, ...missing.map((figure) => html("li", {}, `${TITLES[figure.id]}. ${figure.missing}`)))),
    points.length && section("results", `Results${setting ? `: ${setting}` : ""}`,
                             drawTable(pointsTable(points, study.machine), "main-table")),
    study.predictions.length && section("predictions", "Predictions", drawTable(predictionsTable(study.predictions))),
    warnings.length && section("warnings", "Warnings",
                               html("ul", {}, ...warnings.map((words) => html("li", {}, words)))),
    study.skipped.length && section("skipped", "Skipped points", drawTable(skippedTable(study.skipped))),
    section("machine", "Machine and model", drawFacts([...machineFacts(study), ...modelFacts(study)]),
            allReduces && html("details", {}, html("summary", {}, "All-reduces measured alone"),
                                drawTable(allReduces))),
    section("method", "How to read this",
            html("div", {class: "prose"}, ...METHOD.map((words) => html("p", {}, words)))),
  ];
  main.replaceChildren(...parts.filter(Boolean));
}

function offerChoices() {
  const form = document.getElementById("selection");
  study.dimensions.forEach((dimension, i) => {
    const options = dimension.values.map((value) => html("option", {value}, value));
    const control = html("select", {id: `choice-${i}`}, ...options);
    chosen[i] = dimension.of(study.points[0] ?? study.skipped[0]);
    control.value = chosen[i];
    control.addEventListener("change", () => {
      chosen[i] = control.value;
      show();
    });
    form.append(html("label", {}, dimension.label, control));
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  form.hidden = study.dimensions.length === 0;
}

/* ---- On paper ---------------------------------------------------------------------------------------------------- */

const PAGE_PX = {width: 680, height: 1000}; /* A4 within its margins */

/* If a figure does not fit on the first page, sections that fit are moved before it, the largest first. */
function fillFirstPage() {
  const paper = document.getElementById("paper"), {body} = document;
  const place = (element) => element.getBoundingClientRect();
  paper.media = "all";
  body.style.width = `${PAGE_PX.width}px`;
  const end = place(body).top + PAGE_PX.height;
  const next = [...document.querySelectorAll(".figures > figure")].find((figure) => place(figure).bottom > end);
  if (next) {
    let room = end - place(next).top - 12;
    const sections = [...main.children].filter((one) => !one.querySelector("figure") && one !== appendix)
      .map((one) => ({one, height: place(one).height})).sort((a, b) => b.height - a.height);
    for (const {one, height} of sections.filter((section) => section.height > 0)) {
      if (height > room) continue;
      one.classList.add("filler");
      next.before(one);
      room -= height + 16;
    }
  }
  body.style.width = "";
  paper.media = "print";
}

let appendix = null;

/* Folded tables move to the end, so that they split no figure. */
function toPaper() {
  if (appendix) return;
  const tables = [...document.querySelectorAll("details")].flatMap((details) => [
    html("h3", {}, details.querySelector("summary").textContent),
    ...[...details.children].slice(1).map((table) => table.cloneNode(true))]);
  appendix = html("section", {class: "appendix"}, tables.length > 0 && html("h2", {}, "Numbers"), ...tables);
  main.append(appendix);
  fillFirstPage();
}

function toScreen() {
  appendix = null;
  show();
}

document.title = titleOf(study);
document.getElementById("title").textContent = titleOf(study);
document.getElementById("byline").textContent = bylineOf(study);
offerChoices();
show();
addEventListener("beforeprint", toPaper);
addEventListener("afterprint", toScreen);
window.yokeReport = {svgOf, ids: () => figuresShown};

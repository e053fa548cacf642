/* The page: what is chosen, what is drawn, again when the width or the paper changes. */

const PAPER_PX = 680; /* the text of A4 */
const MAX_PLOT_PX = 620;

const study = readStudy(JSON.parse(document.getElementById("study").textContent));
const main = document.getElementById("main");
const chosen = [];
let paperPx = 0; /* above 0 while printing */

const isMany = (figure) => figure.nPanels > 3;

function drawFigure(figure, number) {
  const title = html("h3", {id: `${figure.id}-title`}, `Figure ${number}. ${figure.title}`);
  const words = html("p", {id: `${figure.id}-words`}, figure.words);
  const save = html("button", {type: "button"}, "Save as SVG");
  save.setAttribute("aria-label", `Save figure ${number}, ${figure.title}, as SVG`);
  save.addEventListener("click", () => saveFile(`${figure.id}.svg`, svgOf(figure.id)));
  const tables = html("details", {}, html("summary", {}, `Numbers of figure ${number}`),
                      ...figure.tables.map((table) => drawTable(table)));
  const isLong = figure.nPanels > 0;
  const plot = html("div", {class: isLong ? `plot panels${isMany(figure) ? " many" : ""}` : "plot"});
  return html("figure", {id: figure.id, class: isLong ? "wide long" : "", "aria-labelledby": title.id,
                         "aria-describedby": words.id},
              html("figcaption", {}, title), plot, words, html("div", {class: "tools"}, save, tables));
}

/* The drawings of a figure for the width of its place, or for a width that is given. */
function drawingsOf(figure, width) {
  const names = `${figure.id}-title ${figure.id}-words`;
  const place = document.querySelector(`#${figure.id} .plot`).clientWidth || MAX_PLOT_PX;
  if (width) return figure.draw(width, names, width);
  if (paperPx) return figure.draw(!figure.nPanels || isMany(figure) ? (paperPx - 24) / 2 : paperPx, names, paperPx);
  if (!figure.nPanels) return figure.draw(Math.min(place, MAX_PLOT_PX), names);
  const columns = place >= 2 * 496 + 48 ? 2 : 1;
  return figure.draw(Math.floor((place - 48 * (columns - 1)) / columns), names, place);
}

function plot() {
  for (const figure of shown.figures)
    document.querySelector(`#${figure.id} .plot`).replaceChildren(...drawingsOf(figure));
}

/* The text of an SVG file of a figure as it is drawn now, or for a width in pixels. */
function svgOf(id, width) {
  const figure = shown.figures.find((one) => one.id === id);
  if (!figure) throw new Error(`no figure ${id}: there are ${shown.figures.map((one) => one.id).join(", ") || "none"}`);
  const desk = html("div", {style: "position: absolute; visibility: hidden"},
                    ...drawingsOf(figure, width ?? MAX_PLOT_PX));
  document.body.append(desk);
  const file = fileOf([...desk.children], figure.title, figure.words);
  desk.remove();
  return file;
}

function saveFile(name, content) {
  const url = URL.createObjectURL(new Blob([content], {type: "image/svg+xml"}));
  html("a", {href: url, download: name}).click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

function figuresOf(points, predictions) {
  const unit = text(study.machine.device) === "cpu" ? "rank" : "GPU";
  return [speedupFigure(points, predictions), efficiencyFigure(points), latencyFigure(points, unit),
          limitFigure(points), timeFigure(points), lossFigure(points)];
}

function warningsOf(points) {
  return points.flatMap((point) => list(point.raw.warnings).map((warning) => `${nameOf(point)}: ${text(warning)}`));
}

const section = (id, title, ...content) => html("section", {"aria-labelledby": id}, html("h2", {id}, title),
                                              ...content.filter(Boolean));

let shown = {figures: []};

function show() {
  const points = select(study.points, study.dimensions, chosen);
  const predictions = select(study.predictions, study.dimensions, chosen);
  const all = points.length ? figuresOf(points, predictions) : [];
  const missing = all.filter((figure) => figure.missing);
  shown = {figures: all.filter((figure) => !figure.missing)};
  const setting = points.length ? settingsOf(points[0]) : "";
  const warnings = warningsOf(study.points), allReduces = allReduceTable(study.machine);
  document.getElementById("summary").textContent = study.points.length && !points.length
    ? "No point was measured with these settings." : summaryOf(study, points);
  const parts = [
    shown.figures.length && section("figures", `Figures${setting ? `: ${setting}` : ""}`,
      html("div", {class: "figures"}, ...shown.figures.map((figure, i) => drawFigure(figure, i + 1)))),
    missing.length && section("not-shown", "Figures that this study has no data for",
      html("ul", {}, ...missing.map((figure) => html("li", {}, `${figure.title}. ${figure.missing}`)))),
    points.length && section("results", `Results${setting ? `: ${setting}` : ""}`,
                             drawTable(pointsTable(points), "main-table")),
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
  plot();
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

function watchWidth() {
  let width = main.clientWidth;
  new ResizeObserver(() => {
    if (main.clientWidth === width || paperPx) return;
    width = main.clientWidth;
    plot();
  }).observe(main);
  addEventListener("beforeprint", () => {
    paperPx = PAPER_PX;
    plot();
  });
  addEventListener("afterprint", () => {
    paperPx = 0;
    plot();
  });
}

document.title = titleOf(study);
document.getElementById("title").textContent = titleOf(study);
document.getElementById("byline").textContent = bylineOf(study);
document.body.append(drawDefinitions());
offerChoices();
show();
watchWidth();
window.yokeReport = {svgOf, ids: () => shown.figures.map((figure) => figure.id)};

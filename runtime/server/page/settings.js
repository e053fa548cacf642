// The settings' form: fields of the requests, stored for this tab.

const STORED = "yoke.settings";
const form = document.getElementById("settings");
const fields = () => [...form.elements].filter((field) => field.name);
const unescape = (text) => text.replace(/\\([nt\\])/g, (_, c) => ({ n: "\n", t: "\t", "\\": "\\" })[c]);

export function systemPrompt() {
  return form.elements.system.value.trim();
}

// The request fields that are filled in; null if one is invalid, which is then shown to the user.
export function parameters() {
  if (!form.checkValidity()) return null;
  const found = {};
  for (const field of fields()) {
    if (field.type === "number" && field.value !== "") found[field.name] = Number(field.value);
  }
  const stop = form.elements.stop.value.split("\n").filter((line) => line !== "").map(unescape);
  if (stop.length) found.stop = stop;
  return found;
}

export function showInvalid() {
  form.reportValidity();
}

function keep() {
  const values = Object.fromEntries(fields().map((field) => [field.name, field.value]));
  sessionStorage.setItem(STORED, JSON.stringify(values));
}

const stored = JSON.parse(sessionStorage.getItem(STORED) ?? "{}");
for (const field of fields()) if (field.name in stored) field.value = stored[field.name];
form.addEventListener("input", keep);
form.addEventListener("reset", () => sessionStorage.removeItem(STORED));
form.addEventListener("submit", (event) => event.preventDefault());

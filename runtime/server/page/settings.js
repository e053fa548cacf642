// The settings' form: fields of the requests, stored for this tab.

const STORED = "yoke.settings";
const form = document.getElementById("settings");
const fields = () => [...form.elements].filter((field) => field.name);
const unescape = (text) => text.replace(/\\([nt\\])/g, (_, c) => ({ n: "\n", t: "\t", "\\": "\\" })[c]);

export function systemPrompt() {
  return form.elements.system.value.trim();
}

// The JSON of a field, undefined if the field is empty. A field without JSON, or for which `check` returns a complaint,
// becomes invalid.
function readJson(field, check) {
  field.setCustomValidity("");
  if (!field.value.trim()) return undefined;
  try {
    const value = JSON.parse(field.value);
    field.setCustomValidity(check(value) ?? "");
    return value;
  } catch (error) {
    field.setCustomValidity(`This is not JSON: ${error.message}`);
    return undefined;
  }
}

const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
const isSchema = (value) => isObject(value) || typeof value === "boolean" ? null : "A JSON schema is an object.";
const listOf = (tools) => (Array.isArray(tools) ? tools : [tools]);

function areTools(tools) {
  const areNamed = listOf(tools).every((tool) => isObject(tool) && (tool.function ?? tool).name);
  return areNamed ? null : "Tools are an array of objects, each a function with its name and parameters.";
}

// The request fields of chats alone: tools, each of which may be written without its type.
export function chatParameters() {
  const tools = readJson(form.elements.tools, areTools);
  if (!tools) return {};
  const found = { tools: listOf(tools).map((tool) => (tool.function ? tool : { type: "function", function: tool })) };
  const choice = form.elements.tool_choice.value;
  return choice === "auto" ? found : { ...found, tool_choice: choice };
}

// The request fields that are filled in; null if one is invalid, which is then shown to the user.
export function parameters() {
  const schema = readJson(form.elements.schema, isSchema);
  readJson(form.elements.tools, areTools);
  if (!form.checkValidity()) return null;
  const found = {};
  for (const field of fields()) {
    if (field.type === "number" && field.value !== "") found[field.name] = Number(field.value);
  }
  const stop = form.elements.stop.value.split("\n").filter((line) => line !== "").map(unescape);
  if (stop.length) found.stop = stop;
  if (schema !== undefined) {
    found.response_format = { type: "json_schema", json_schema: { name: "answer", strict: true, schema } };
  }
  return found;
}

export function showInvalid() {
  form.reportValidity();
}

function keep() {
  const values = Object.fromEntries(fields().map((field) => [field.name, field.value]));
  sessionStorage.setItem(STORED, JSON.stringify(values));
  for (const name of ["schema", "tools"]) form.elements[name].setCustomValidity("");
}

const stored = JSON.parse(sessionStorage.getItem(STORED) ?? "{}");
for (const field of fields()) if (field.name in stored) field.value = stored[field.name];
form.addEventListener("input", keep);
form.addEventListener("reset", () => sessionStorage.removeItem(STORED));
form.addEventListener("submit", (event) => event.preventDefault());

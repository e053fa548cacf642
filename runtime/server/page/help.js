// The help text, whose examples name this server and its model.

const json = (value) => `'${JSON.stringify(value).replaceAll("'", "'\\''")}'`;

function examples(base, model) {
  const post = (path, body) => `curl ${base}/v1/${path} -H 'Content-Type: application/json' \\\n  -d ${json(body)}`;
  return [
    `${base}/v1`,
    post("chat/completions", { model, messages: [{ role: "user", content: "Hello" }] }),
    post("completions", { model, prompt: "Once upon", max_tokens: 32, stream: true }),
  ];
}

function drawExample(text, copy) {
  const block = document.createElement("pre"), button = document.createElement("button");
  block.tabIndex = 0;
  block.textContent = text;
  button.type = "button";
  button.textContent = "Copy";
  button.addEventListener("click", () => copy(text, button));
  return [block, button];
}

// model: its name, "" if unknown; copy(text, button): copies an example.
export function showHelp(model, copy) {
  const base = new URL(".", location.href).href.replace(/\/$/, "");
  const all = examples(base, model || "MODEL").flatMap((text) => drawExample(text, copy));
  document.getElementById("help-examples").replaceChildren(...all);
  document.getElementById("help-dialog").showModal();
}

// The tool calls of an answer: names, arguments as they arrive, and fields for what each call returned.

function make(tag, className, text = "") {
  const element = document.createElement(tag);
  element.className = className;
  element.textContent = text;
  return element;
}

// Arguments are shown indented once they are whole; if they are not JSON, as they arrived.
function indented(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

export class CallsView {
  // element: where the calls are shown; calls: the entry's list of {id, name, arguments, result}, which add() extends;
  // send(): called when the user wants the results sent.
  constructor(element, calls, send) {
    this.element = element;
    this.calls = [];
    this.send = send;
    this.shown = [];
    for (const call of calls) this.begin(call);
  }

  get text() {
    return this.calls.map((call) => `${call.name}(${call.arguments})`).join("\n");
  }

  begin(call) {
    const section = make("section", "call"), head = make("h4", "", "Call of "), name = make("code", "", call.name);
    const code = make("code", ""), block = make("pre", "");
    code.append(document.createTextNode(call.arguments));
    block.tabIndex = 0;
    block.append(code);
    head.append(name);
    section.append(head, block);
    this.element.append(section);
    this.calls.push(call);
    this.shown.push({ section, name, code });
  }

  // deltas: tool_calls of an event of the stream.
  add(deltas) {
    for (const { index, id, function: part = {} } of deltas) {
      while (this.calls.length <= index) this.begin({ id: "", name: "", arguments: "", result: "" });
      const call = this.calls[index], { name, code } = this.shown[index];
      call.id ||= id ?? "";
      if (part.name) name.textContent = call.name += part.name;
      call.arguments += part.arguments ?? "";
      code.firstChild.appendData(part.arguments ?? "");
    }
  }

  // The answer is over. isLast: it is the last of the conversation, so that results can be entered.
  end(isLast) {
    this.shown.forEach(({ section, code }, i) => {
      const call = this.calls[i];
      code.textContent = indented(call.arguments);
      if (isLast) section.append(this.fieldOf(call));
      else if (call.result) section.append(make("p", "quiet", `Returned: ${call.result}`));
    });
    if (!isLast || !this.calls.length) return;
    this.button = make("button", "", this.calls.length > 1 ? "Send results" : "Send result");
    this.button.type = "button";
    this.button.addEventListener("click", this.send);
    this.element.append(this.button);
  }

  fieldOf(call) {
    const label = make("label", "quiet", "Result "), field = document.createElement("textarea");
    field.rows = 1;
    field.spellcheck = false;
    field.value = call.result;
    field.addEventListener("input", () => { call.result = field.value; });
    label.append(field);
    return label;
  }

  // The conversation has continued: results can no longer be entered, and are shown as text.
  close() {
    this.button?.remove();
    for (const label of this.element.querySelectorAll("label")) {
      const { value } = label.firstElementChild;
      if (value) label.replaceWith(make("p", "quiet", `Returned: ${value}`));
      else label.remove();
    }
  }
}

// Messages of an entry with calls, and of their results.
export function messagesOf({ content, calls }) {
  const made = calls.map((call) => ({ id: call.id, type: "function",
                                      function: { name: call.name, arguments: call.arguments } }));
  return [{ role: "assistant", content, tool_calls: made }, ...calls.map((call) => ({
    role: "tool", tool_call_id: call.id, content: call.result,
  }))];
}

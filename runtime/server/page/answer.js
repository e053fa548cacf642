// An answer while it arrives: the model's reasoning, folded, and the content.

import { MarkdownView } from "./markdown.js";

const BEGIN = "<think>", END = "</think>";

// Plain text, without its leading white space. content: everything received. onShown(text): called with text that is
// shown.
export class PlainView {
  constructor(element, onShown = () => {}) {
    this.node = document.createTextNode("");
    this.onShown = onShown;
    this.content = this.reasoning = "";
    element.replaceChildren(this.node);
  }

  add(text) {
    const shown = this.node.length ? text : text.trimStart();
    this.content += text;
    this.node.appendData(shown);
    this.onShown(shown);
  }

  end() {}
}

// Length of the text's end that may be the beginning of a mark.
function halfOf(mark, text) {
  for (let n = Math.min(mark.length - 1, text.length); n > 0; n--) if (text.endsWith(mark.slice(0, n))) return n;
  return 0;
}

// content, reasoning: received so far, without <think>, </think> and the white space around them.
export class AnswerView {
  // element: shows the answer, below the folded reasoning; onShown(text): called with content that is shown; copy(text,
  // button): copies a block of code.
  constructor(element, copy, onShown = () => {}) {
    this.element = element;
    this.copy = copy;
    this.onShown = onShown;
    this.content = this.reasoning = "";
    this.held = ""; // may be the beginning of a mark
    this.isThinking = false;
    this.hasThought = false;
    this.view = new MarkdownView(element, copy);
  }

  add(content, reasoning = "") {
    if (reasoning) this.think(reasoning);
    if (content && this.reasoning && !this.isThinking && !this.hasThought) this.endThought();
    if (content) this.split(this.held + content);
  }

  // Adds content whose reasoning is marked in the text.
  split(text) {
    this.held = "";
    if (!this.content && !this.hasThought && !this.isThinking) {
      const begun = text.trimStart();
      if (BEGIN.startsWith(begun)) {
        if (begun === BEGIN) this.isThinking = true;
        else this.held = text;
        return;
      }
      this.isThinking = begun.startsWith(BEGIN);
      text = this.isThinking ? begun.slice(BEGIN.length) : text;
    }
    const at = this.isThinking ? text.indexOf(END) : this.hasThought ? -1 : this.endWithoutBeginning(text);
    if (at >= 0) {
      if (this.isThinking) this.think(text.slice(0, at));
      else this.turnToThought(text.slice(0, at));
      this.endThought();
      text = text.slice(at + END.length);
    } else if (!this.hasThought) {
      const n = halfOf(END, text);
      this.held = text.slice(text.length - n);
      text = text.slice(0, text.length - n);
    }
    if (this.isThinking) this.think(text);
    else this.say(text);
  }

  // Some templates write <think> themselves. The answer then has only the end mark, on a separate line.
  endWithoutBeginning(text) {
    const at = text.indexOf(END), before = at > 0 ? text[at - 1] : this.content.at(-1) ?? "\n";
    return at >= 0 && before === "\n" ? at : -1;
  }

  turnToThought(text) {
    const thought = this.content + text;
    this.content = "";
    this.view = new MarkdownView(this.element, this.copy);
    this.think(thought);
  }

  think(text) {
    const shown = this.reasoning ? text : text.trimStart();
    if (!shown) return;
    if (!this.thought) this.openThought();
    this.reasoning += shown;
    this.thought.add(shown);
  }

  openThought() {
    const details = document.createElement("details"), body = document.createElement("div");
    this.summary = document.createElement("summary");
    this.summary.textContent = "Thinking";
    details.className = "thought";
    details.append(this.summary, body);
    this.element.before(details);
    this.thought = new MarkdownView(body, this.copy);
  }

  endThought() {
    this.isThinking = false;
    this.hasThought = true;
    this.reasoning = this.reasoning.trimEnd();
    this.nameThought();
  }

  nameThought() {
    if (this.summary) this.summary.textContent = "Thought";
  }

  say(text) {
    const shown = this.content ? text : text.trimStart();
    if (!shown) return;
    this.nameThought();
    this.content += shown;
    this.view.add(shown);
    this.onShown(shown);
  }

  end() {
    const { held } = this;
    this.held = "";
    if (this.isThinking) this.think(held);
    else this.say(held);
    this.reasoning = this.reasoning.trimEnd();
    this.nameThought();
    this.thought?.end();
    this.view.end();
  }
}

// Text for a screen reader while an answer arrives: whole sentences without Markdown's marks.
export class Speaker {
  constructor(element) {
    this.element = element;
    this.waiting = "";
  }

  begin() {
    this.element.replaceChildren();
    this.waiting = "";
  }

  add(text) {
    this.waiting += text;
    const whole = this.waiting.match(/^[^]*(?:[.!?:;]\s|[\n。！？])/);
    if (whole) {
      this.waiting = this.waiting.slice(whole[0].length);
      this.say(whole[0]);
    }
  }

  say(text) {
    const words = text.replace(/[*`#|]+/g, "").trim();
    if (!words) return;
    const line = document.createElement("p");
    line.textContent = words;
    this.element.append(line);
  }

  end(note) {
    this.say(this.waiting);
    this.say(note);
    this.waiting = "";
  }
}

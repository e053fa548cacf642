// Text that grows, as text nodes alone: nothing in it is ever read as markup. Lines between ``` fences become a <pre>.

const MAYBE_FENCE = /^ {0,3}(`{0,2}$|```[^`]*$)/; // a line, without its end, that is or may become a fence

export class TextView {
  constructor(element) {
    this.element = element;
    this.element.replaceChildren();
    this.isCode = false;
    this.line = ""; // the line that is not complete
    this.shown = 0; // how much of that line is shown
    this.open(element);
  }

  open(parent) {
    this.node = document.createTextNode("");
    parent.append(this.node);
  }

  add(text) {
    const parts = text.split("\n");
    parts.forEach((part, i) => {
      this.line += part;
      if (i < parts.length - 1) this.endLine();
    });
    if (!MAYBE_FENCE.test(this.line)) this.showLine();
  }

  showLine() {
    this.node.appendData(this.line.slice(this.shown));
    this.shown = this.line.length;
  }

  endLine() {
    const isFence = this.shown === 0 && /^ {0,3}```/.test(this.line) && MAYBE_FENCE.test(this.line);
    if (isFence) {
      this.fence();
    } else {
      this.line += "\n";
      this.showLine();
    }
    this.line = "";
    this.shown = 0;
  }

  fence() {
    this.node.data = this.node.data.replace(/\n$/, "");
    this.isCode = !this.isCode;
    if (this.isCode) {
      const pre = document.createElement("pre");
      pre.tabIndex = 0; // so that the keyboard can scroll long lines
      const code = document.createElement("code");
      pre.append(code);
      this.element.append(pre);
      this.open(code);
    } else {
      this.open(this.element);
    }
  }

  end() {
    if (/^ {0,3}```\s*$/.test(this.line) && this.isCode && this.shown === 0) this.fence();
    else this.showLine();
    this.line = "";
  }
}

// What a screen reader is told while an answer comes: whole sentences, not pieces of words.
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
    if (!text.trim()) return;
    const line = document.createElement("p");
    line.textContent = text.trim();
    this.element.append(line);
  }

  end(note) {
    this.say(this.waiting);
    this.say(note);
    this.waiting = "";
  }
}

// Markdown that grows. Each line changes what is open (quotes, lists, one leaf with text), and nothing that is closed
// is touched again, so that a long answer costs what its new text costs, and a selection in it stays. A line's
// beginning is kept back until it is known what it begins; its rest is shown as it comes.

import { renderInline } from "./inline.js";

const MAX_DEPTH = 24; // of quotes, lists and items inside each other; deeper ones are text
const MAX_HELD = 2000; // characters of a beginning that is kept back; a longer one is text
const MAX_COLUMNS = 64;
const LONG = 4096; // characters of a leaf that is not drawn anew for every piece
const CODE_NODE = 16384; // characters of one text node of code

const UNDECIDED = /^[\s>+\-*_=|:`~#\d.)\\]*$/; // a beginning that may become a mark
const MAYBE_FENCE = /^[\s>+\-*\d.)]*(?:`{3,}[^`]*|~{3,}.*)$/;
const MAYBE_TASK = /^[\s>]*(?:[-*+]|\d{1,9}[.)]) +\[[ xX]?\]?$/;
const MAYBE_CLOSING = /^[\s>]*(?:(?:`+|~+)\s*)?$/;
const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([^`]*)$/;
const RULE = /^ {0,3}(?:(?:\* *){3,}|(?:- *){3,}|(?:_ *){3,})$/;
const UNDERLINE = /^ {0,3}(=+|-+) *$/;
const DIVIDER = /^ {0,3}\|? *:?-+:? *(?:\| *:?-+:? *)*\|? *$/;
const HEADING = /^ {0,3}(#{1,6})(?: +|$)/;
const ITEM = /^( *)([-*+]|(\d{1,9})[.)])( +|$)/;
const QUOTE = /^ {0,3}> ?/;

const spacesOf = (text) => text.length - text.trimStart().length;
const isCode = (leaf) => leaf?.kind === "code" || leaf?.kind === "indented";

// A line with its first tabs as spaces.
function withoutTabs(line) {
  const blank = /^[ \t]*/.exec(line)[0];
  if (!blank.includes("\t")) return line;
  let column = 0;
  for (const c of blank) column += c === "\t" ? 4 - column % 4 : 1;
  return " ".repeat(column) + line.slice(blank.length);
}

// The cells of a row: "\|" is no border, and neither is one inside code.
function cellsOf(row) {
  const cells = [];
  let cell = "";
  for (const [piece] of row.trim().replace(/^\|/, "").matchAll(/\\\||`[^`]*`|\||[^\\|`]+|[^]/g)) {
    if (piece === "|") {
      cells.push(cell.trim());
      cell = "";
    } else {
      cell += piece.startsWith("`") ? piece.replaceAll("\\|", "|") : piece === "\\|" ? "|" : piece;
    }
  }
  if (cell.trim() || !cells.length) cells.push(cell.trim());
  return cells;
}

const alignmentOf = (cell) => (/^:-+:$/.test(cell) ? "middle" : cell.endsWith(":") ? "right" : "");

export class MarkdownView {
  // copy(text, button): copies a block of code.
  constructor(element, copy) {
    this.copy = copy;
    this.stack = [{ kind: "root", element }]; // what is open around the leaf, outermost first
    this.leaf = null; // {kind, element, text: what is not drawn for good}
    this.held = ""; // the beginning of a line
    this.isBegun = false; // the line's rest belongs to the leaf
    element.replaceChildren();
  }

  // Shows more of the text, which may be cut anywhere.
  add(text) {
    const lines = text.replaceAll("\r", "").split("\n");
    lines.forEach((piece, i) => {
      this.addPiece(piece);
      if (i < lines.length - 1) this.endLine();
    });
    this.draw(true);
  }

  // No more text comes.
  end() {
    if (this.held) this.endLine();
    this.closeLeaf();
  }

  addPiece(piece) {
    if (this.isBegun) {
      this.addToLeaf(piece);
      return;
    }
    this.held += piece;
    const isUndecided = this.leaf?.kind === "code" ? MAYBE_CLOSING.test(this.held)
      : UNDECIDED.test(this.held) || MAYBE_FENCE.test(this.held) || MAYBE_TASK.test(this.held);
    if (isUndecided && this.held.length <= MAX_HELD) return;
    this.begin(this.held, false);
    this.held = "";
    this.isBegun = true;
  }

  endLine() {
    if (!this.isBegun) this.begin(this.held, true);
    this.held = "";
    this.isBegun = false;
    if (this.leaf?.kind === "heading") this.closeLeaf();
    if (this.leaf?.kind === "table") this.endRow();
  }

  // ---- What a line begins

  // The innermost container that a line stays in, and the line behind their marks.
  follow(line) {
    const isEmpty = line.trim() === "";
    let n = 1, rest = line;
    for (; n < this.stack.length; n++) {
      const { kind, indent, at } = this.stack[n];
      if (kind === "quote") {
        const mark = QUOTE.exec(rest);
        if (!mark) break;
        rest = rest.slice(mark[0].length);
      } else if (kind === "item" && !isEmpty) {
        const spaces = spacesOf(rest);
        if (spaces >= indent) rest = rest.slice(indent);
        else if (spaces >= at + 2 && ITEM.test(rest)) rest = rest.slice(spaces); // too little, as models often do
        else break;
      }
    }
    return [n, rest];
  }

  // isWhole: the line ends with what is here. Marks that are whole lines are seen in these alone.
  begin(text, isWhole) {
    const line = withoutTabs(text), canBeMark = isWhole && line.length <= MAX_HELD;
    let [n, rest] = this.follow(line);
    if (this.leaf?.kind === "code" && this.stack.slice(n).every(({ kind }) => kind !== "quote")) {
      this.goOnWithCode(rest, isWhole);
      return;
    }
    if (rest.trim() === "" && isWhole) {
      this.beginEmpty(n);
      return;
    }
    const isInside = n === this.stack.length;
    if (canBeMark && isInside && this.leaf?.kind === "paragraph") {
      if (DIVIDER.test(rest) && rest.includes("|") && this.makeTable(rest)) return;
      if (UNDERLINE.test(rest)) {
        this.makeHeading(rest.includes("=") ? "h1" : "h2");
        return;
      }
    }
    let isNew = false; // a container was begun
    while (!(canBeMark && RULE.test(rest))) {
      const begun = this.beginContainer(n, rest);
      if (begun === null) break;
      n = this.stack.length;
      rest = begun;
      isNew = true;
    }
    this.beginLeaf(n, rest, canBeMark, isNew);
  }

  beginEmpty(n) {
    if (this.leaf?.kind === "indented") this.leaf.text += "\n";
    else this.closeTo(n);
  }

  // A quote or an item of a list at the line's beginning: the line behind its mark, or null.
  beginContainer(n, rest) {
    if (this.stack.length > MAX_DEPTH) return null;
    const quote = QUOTE.exec(rest);
    if (quote) {
      this.closeTo(this.outside(n));
      this.open("quote", "blockquote");
      return rest.slice(quote[0].length);
    }
    const item = ITEM.exec(rest), parent = this.stack[n - 1];
    if (!item || (item[1].length > 3 && parent.kind !== "item" && parent.kind !== "list")) return null;
    const isOrdered = item[3] !== undefined, isNext = parent.kind === "list" && parent.isOrdered === isOrdered;
    const cuts = this.leaf?.kind === "paragraph" && n === this.stack.length; // a paragraph of the same container
    const isLater = isOrdered && item[3] !== "1" && parent.kind === "root"; // a number that a sentence ends with
    if (cuts && (isLater || rest.length === item[0].length)) return null;
    if (isNext) {
      this.closeTo(n);
    } else {
      this.closeTo(this.outside(n));
      const list = this.open("list", isOrdered ? "ol" : "ul");
      list.isOrdered = isOrdered;
      if (isOrdered && item[3] !== "1") list.element.start = Number(item[3]);
    }
    const blank = item[4].length > 4 || item[4] === "" ? 1 : item[4].length;
    const opened = this.open("item", "li");
    opened.at = item[1].length;
    opened.indent = item[1].length + item[2].length + blank;
    return rest.slice(opened.indent);
  }

  beginLeaf(n, rest, canBeMark, isNew) {
    const spaces = spacesOf(rest), goesOn = !isNew && this.leaf?.kind === "paragraph";
    const heading = HEADING.exec(rest), fence = canBeMark ? FENCE.exec(rest) : null;
    if (heading) {
      this.openLeaf("heading", `h${heading[1].length}`, n);
      this.addToLeaf(rest.slice(heading[0].length));
    } else if (fence) {
      this.openCode("code", n, fence[2].trim().split(/\s/)[0]);
      Object.assign(this.leaf, { fence: fence[1], indent: spaces });
    } else if (canBeMark && RULE.test(rest)) {
      this.closeTo(this.outside(n));
      this.stack.at(-1).element.append(document.createElement("hr"));
    } else if (goesOn) { // also where the line lacks the marks of its quotes or lists
      this.leaf.text += "\n";
      this.addToLeaf(rest.trimStart());
    } else if (this.leaf?.kind === "table" && n === this.stack.length) {
      this.beginRow();
      this.addToLeaf(rest);
    } else if (this.leaf?.kind === "indented" && spaces >= 4 && n === this.stack.length) {
      this.addCode(`${this.leaf.text}\n${rest.slice(4)}`);
      this.leaf.text = "";
    } else if (spaces >= 4 && !isNew) {
      this.openCode("indented", n, "");
      this.addCode(rest.slice(4));
    } else if (rest.trim()) {
      this.openLeaf("paragraph", "p", n);
      this.addToLeaf(this.taskOf(rest.trimStart()));
    }
  }

  // The box of a task at the beginning of an item.
  taskOf(text) {
    const task = this.stack.at(-1).kind === "item" ? /^\[([ xX])\] /.exec(text) : null;
    return task ? `${task[1] === " " ? "☐" : "☑"} ${text.slice(4)}` : text;
  }

  goOnWithCode(rest, isWhole) {
    const { fence, indent, isEmpty } = this.leaf, closing = rest.trim();
    if (isWhole && closing.length >= fence.length && closing === fence[0].repeat(closing.length)) {
      this.closeLeaf();
      return;
    }
    const line = rest.slice(Math.min(spacesOf(rest), indent));
    this.addCode(isEmpty ? line : `\n${line}`);
    this.leaf.isEmpty = false;
  }

  // ---- What is open

  open(kind, name) {
    const container = { kind, element: document.createElement(name) };
    this.stack.at(-1).element.append(container.element);
    this.stack.push(container);
    return container;
  }

  // n, or one less where the innermost of n containers is a list, in which nothing but items stands.
  outside(n) {
    return this.stack[n - 1].kind === "list" ? n - 1 : n;
  }

  closeTo(n) {
    this.closeLeaf();
    this.stack.length = n;
  }

  openLeaf(kind, name, n) {
    this.closeTo(this.outside(n));
    this.leaf = { kind, element: document.createElement(name), text: "", n_drawn: 0 };
    this.stack.at(-1).element.append(this.leaf.element);
  }

  closeLeaf() {
    const { leaf } = this;
    if (leaf?.kind === "heading") leaf.text = leaf.text.replace(/(?:^|\s)#+\s*$/, "");
    if (leaf?.kind === "heading") leaf.n_drawn = -1;
    this.draw(false);
    this.leaf = null;
  }

  addToLeaf(piece) {
    if (isCode(this.leaf)) this.addCode(piece);
    else if (this.leaf) this.leaf.text += piece;
  }

  // Draws the leaf's text where it has grown; a long one each time that it is a quarter longer, and its end plainly.
  draw(isOpen) {
    const { leaf } = this;
    if (!leaf || isCode(leaf)) return;
    const { text } = leaf;
    if (leaf.kind === "table") {
      if (!leaf.row || (isOpen && text.length > LONG && text.length < leaf.n_drawn * 1.25)) return;
      this.drawRow(leaf.row, text, "td");
      leaf.n_drawn = text.length;
      return;
    }
    if (isOpen && text.length === leaf.n_shown) return;
    if (isOpen && text.length > LONG && text.length < leaf.n_drawn * 1.25) {
      leaf.element.append(text.slice(leaf.n_shown));
    } else if (leaf.n_drawn !== text.length || leaf.isHalf) {
      renderInline(leaf.element, text, isOpen);
      leaf.n_drawn = text.length;
      leaf.isHalf = isOpen;
    }
    leaf.n_shown = text.length;
  }

  makeHeading(name) {
    const heading = document.createElement(name);
    this.leaf.element.replaceWith(heading);
    this.leaf.element = heading;
    this.leaf.n_drawn = -1;
    this.closeLeaf();
  }

  // ---- Code

  openCode(kind, n, language) {
    const { copy } = this;
    this.openLeaf(kind, "div", n);
    const { leaf } = this, code = document.createElement("code"), pre = document.createElement("pre");
    const head = document.createElement("div"), name = document.createElement("span");
    const button = document.createElement("button");
    leaf.element.className = "code";
    leaf.isEmpty = true;
    leaf.node = document.createTextNode("");
    name.textContent = language.slice(0, 40);
    button.type = "button";
    button.textContent = "Copy";
    button.setAttribute("aria-label", "Copy this code");
    button.addEventListener("click", () => copy(code.textContent, button));
    pre.tabIndex = 0; // so that the keyboard can scroll long lines
    code.append(leaf.node);
    pre.append(code);
    head.append(name, button);
    leaf.element.append(head, pre);
  }

  addCode(text) {
    const { leaf } = this;
    if (leaf.node.length > CODE_NODE) {
      const node = document.createTextNode("");
      leaf.node.after(node);
      leaf.node = node;
    }
    leaf.node.appendData(text);
  }

  // ---- Tables

  // Makes the paragraph's last line the head of a table, where it has as many cells as the line below it.
  makeTable(divider) {
    const { leaf } = this, lines = leaf.text.split("\n"), head = lines.pop();
    const alignments = cellsOf(divider).map(alignmentOf);
    if (alignments.length > MAX_COLUMNS || cellsOf(head).length !== alignments.length) return false;
    if (lines.length) {
      leaf.text = lines.join("\n");
      leaf.n_drawn = -1;
    } else {
      leaf.element.remove();
    }
    this.openLeaf("table", "div", this.stack.length);
    const table = document.createElement("table"), body = document.createElement("tbody");
    const row = document.createElement("tr"), top = document.createElement("thead");
    Object.assign(this.leaf, { alignments, body, row: null });
    this.leaf.element.className = "table";
    this.leaf.element.tabIndex = 0;
    top.append(row);
    table.append(top, body);
    this.leaf.element.append(table);
    this.drawRow(row, head, "th");
    return true;
  }

  beginRow() {
    this.leaf.row = document.createElement("tr");
    this.leaf.n_drawn = 0;
    this.leaf.body.append(this.leaf.row);
  }

  drawRow(row, text, name) {
    const { alignments } = this.leaf;
    row.replaceChildren(...cellsOf(text).slice(0, alignments.length).map((content, i) => {
      const cell = document.createElement(name);
      cell.className = alignments[i];
      renderInline(cell, content);
      return cell;
    }));
  }

  endRow() {
    this.draw(false);
    this.leaf.row = null;
    this.leaf.text = "";
  }
}

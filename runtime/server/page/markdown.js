// An incremental Markdown renderer. Each line changes only open blocks (quotes, lists, one leaf with text), and closed
// blocks are never changed, so that the cost is that of the new text, and a selection in the answer survives. The
// beginning of a line is held back until its meaning is certain; the rest is shown as it arrives.

import { renderInline } from "./inline.js";

const MAX_DEPTH = 24; // of nested quotes, lists and items; deeper ones are text
const MAX_HELD = 2000; // characters of a line's beginning that are held back; a longer one is text
const MAX_COLUMNS = 64;
const LONG = 4096; // characters up to which a leaf is rendered anew for every piece
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

// A line whose leading tabs are expanded to spaces.
function withoutTabs(line) {
  const blank = /^[ \t]*/.exec(line)[0];
  if (!blank.includes("\t")) return line;
  let column = 0;
  for (const c of blank) column += c === "\t" ? 4 - column % 4 : 1;
  return " ".repeat(column) + line.slice(blank.length);
}

// The cells of a row: neither "\|" nor a "|" inside code is a border.
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
    this.stack = [{ kind: "root", element }]; // open containers around the leaf, outermost first
    this.leaf = null; // {kind, element, text: not yet rendered for good}
    this.held = ""; // beginning of a line
    this.isBegun = false; // the rest of the line belongs to the leaf
    element.replaceChildren();
  }

  // Renders more text, which may be cut anywhere.
  add(text) {
    const lines = text.replaceAll("\r", "").split("\n");
    lines.forEach((piece, i) => {
      this.addPiece(piece);
      if (i < lines.length - 1) this.endLine();
    });
    this.draw(true);
  }

  // Ends the text.
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

  // ---- The beginning of a line

  // The number of containers that the line continues, and the line after their marks.
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
        else if (spaces >= at + 2 && ITEM.test(rest)) rest = rest.slice(spaces); // models often indent too little
        else break;
      }
    }
    return [n, rest];
  }

  // isWhole: text is the whole line. Marks that take a whole line are recognised only then.
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

  // Opens a quote or list item at the line's beginning; returns the line after the mark, or null.
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
    const isLater = isOrdered && item[3] !== "1" && parent.kind === "root"; // a number at the end of a sentence
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
    } else if (goesOn) { // also if the line lacks the marks of its quotes or lists
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

  // Replaces the mark of a task at the beginning of an item by a box.
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

  // ---- Open blocks

  open(kind, name) {
    const container = { kind, element: document.createElement(name) };
    this.stack.at(-1).element.append(container.element);
    this.stack.push(container);
    return container;
  }

  // n, or n - 1 if the innermost of n containers is a list, which holds only items.
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

  // Renders the leaf's text if it has grown. A long text is rendered when it is a quarter longer than before, and its
  // new end is appended as plain text meanwhile.
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
    pre.tabIndex = 0; // lets the keyboard scroll long lines
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

  // Makes the paragraph's last line the head of a table, if it has as many cells as the line below.
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

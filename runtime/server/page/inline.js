// Inline Markdown of a paragraph: emphasis, code, links. Time is linear in the length of any text, and elements are
// created by name: no text of an answer is ever parsed as HTML.

const MAX_DEPTH = 32; // of nested elements; deeper elements are left out, their text stays
const MAX_ELEMENTS = 5000; // of one text, since browsers take minutes for more; the text of further elements stays
const MAX_LINK = 2000; // characters of a link's target
const SCHEMES = ["http:", "https:", "mailto:"];
const SPECIAL = /[\\`*_~[\]!<&]|https?:\/\//g;
const ESCAPED = /[!-/:-@[-`{-~]/;
const ENTITY = /&(?:#(\d{1,7})|#[xX]([\da-fA-F]{1,6})|(amp|lt|gt|quot|apos|nbsp|ndash|mdash|hellip|times|deg));/y;
const ENTITIES = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: "\u00a0", ndash: "–", mdash: "—",
                   hellip: "…", times: "×", deg: "°" };
const TARGET = new RegExp(`\\(\\s{0,9}(?:<([^<>\\n]{0,${MAX_LINK}})>|` +
  `([^\\s()<>]{0,${MAX_LINK}}(?:\\([^\\s()]{0,200}\\)[^\\s()<>]{0,200}){0,9}))` +
  `(?:\\s{1,9}(?:"[^"]{0,500}"|'[^']{0,500}'))?\\s{0,9}\\)`, "y");
const OPEN_TARGET = new RegExp(`\\([^\\s()]{0,${MAX_LINK}}$`, "y");
const URL_TEXT = new RegExp(`https?://[^\\s<>"'\`*|\\]]{1,${MAX_LINK}}`, "y");
const AUTOLINK = new RegExp(`<((?:https?://|mailto:)[^\\s<>]{1,${MAX_LINK}})>`, "y");
const LINE_BREAK = /<br\s{0,9}\/?>/iy; // the only HTML element that is accepted: tables need it, and it has no content
const isWord = (c) => /[\p{L}\p{N}_]/u.test(c);
const isBlank = (c) => c === "" || /\s/.test(c);

function matchAt(pattern, text, at) {
  pattern.lastIndex = at;
  return pattern.exec(text);
}

// The target as the browser will open it, or null if its scheme is not safe.
export function safeTarget(text) {
  try {
    const { protocol, href } = new URL(text);
    return SCHEMES.includes(protocol) ? href : null;
  } catch {
    return null; // relative targets too: they would lead to this server's own routes
  }
}

function characterOf([, decimal, hex, name]) {
  if (name) return ENTITIES[name];
  const code = decimal ? Number(decimal) : parseInt(hex, 16);
  return code > 0 && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff) ? String.fromCodePoint(code) : "\ufffd";
}

// Position of the last run of backticks of each length: no run after it can end it.
function lastRuns(text) {
  const last = new Map();
  for (const { 0: run, index } of text.matchAll(/`+/g)) last.set(run.length, index);
  return last;
}

// Text without the marks at its end: their meaning depends on the next characters.
function withoutRun(text) {
  let n = text.length;
  while (n > 0 && "*_~`".includes(text[n - 1])) n--;
  return text.slice(0, n);
}

// Scans text into marks: {text}, {code}, {br}, {begin: target}, {end}, {run: character, n, opens, closes}. opens and
// closes name the elements that begin behind, or end before, the characters left of a run.
class Scanner {
  constructor(text, isOpen) {
    this.isOpen = isOpen;
    this.text = isOpen ? withoutRun(text) : text;
    this.marks = [];
    this.brackets = []; // indices of "[" marks that may begin a link
    this.lastRun = lastRuns(this.text);
  }

  push(mark) {
    this.marks.push(mark);
  }

  pushText(text) {
    const last = this.marks.at(-1);
    if (last?.text !== undefined) last.text += text;
    else this.push({ text });
  }

  scan() {
    const { text } = this;
    for (let at = 0; at < text.length;) {
      const special = matchAt(SPECIAL, text, at);
      const next = special ? special.index : text.length;
      if (next > at) this.pushText(text.slice(at, next));
      at = special ? this.take(next) : next;
    }
    const open = this.pair(0);
    if (this.isOpen) this.closeBold(open);
    return this.marks;
  }

  // Handles a special character; returns the position after the text that it begins.
  take(at) {
    const { text } = this, c = text[at];
    if (c === "`") return this.takeCode(at);
    if (c === "*" || c === "_" || c === "~") return this.takeRun(at);
    if (c === "[" || (c === "!" && text[at + 1] === "[")) return this.takeBracket(at);
    if (c === "]") return this.takeLink(at);
    if (c === "h") return this.takeUrl(at);
    if (c === "\\" && ESCAPED.test(text[at + 1] ?? "")) {
      this.pushText(text[at + 1]);
      return at + 2;
    }
    if (c === "\\" && text[at + 1] === "\n") return at + 1; // every line end is a break anyway
    const entity = c === "&" ? matchAt(ENTITY, text, at) : null;
    if (entity) this.pushText(characterOf(entity));
    const line = c === "<" ? matchAt(LINE_BREAK, text, at) : null;
    if (line) this.push({ br: true });
    const link = c === "<" ? matchAt(AUTOLINK, text, at) : null;
    if (link) this.pushLink(link[1], link[1]);
    const found = entity ?? line ?? link;
    if (!found) this.pushText(c);
    return at + (found ? found[0].length : 1);
  }

  takeCode(at) {
    const { text } = this, [run] = matchAt(/`+/y, text, at);
    const from = at + run.length;
    if (!(this.lastRun.get(run.length) > at)) {
      if (!this.isOpen || run.length > 2 || text.indexOf("\n", from) >= 0) {
        this.pushText(run);
        return from;
      }
      this.push({ code: text.slice(from).trimStart() }); // its end has not arrived yet
      return text.length;
    }
    const runs = /`+/g;
    runs.lastIndex = from;
    let closing = runs.exec(text);
    while (closing[0].length !== run.length) closing = runs.exec(text); // exists, by lastRun
    const code = text.slice(from, closing.index).replaceAll("\n", " ");
    this.push({ code: code.startsWith(" ") && code.endsWith(" ") && code.trim() ? code.slice(1, -1) : code });
    return closing.index + run.length;
  }

  takeRun(at) {
    const { text } = this, c = text[at];
    let end = at + 1;
    while (text[end] === c) end++;
    const before = text[at - 1] ?? "", after = text[end] ?? "", n = end - at;
    const canOpen = !isBlank(after) && (c !== "_" || !isWord(before));
    const canClose = !isBlank(before) && (c !== "_" || !isWord(after));
    if ((!canOpen && !canClose) || (c === "~" && n !== 2)) this.pushText(text.slice(at, end));
    else this.push({ run: c, n, canOpen, canClose, opens: [], closes: [] });
    return end;
  }

  takeBracket(at) {
    const isImage = this.text[at] === "!";
    this.brackets.push(this.marks.length);
    this.push({ bracket: isImage ? "![" : "[" });
    return at + (isImage ? 2 : 1);
  }

  takeLink(at) {
    const opener = this.brackets.pop();
    const found = opener === undefined ? null : matchAt(TARGET, this.text, at + 1);
    const isUnended = opener !== undefined && !found && this.isOpen && matchAt(OPEN_TARGET, this.text, at + 1);
    if (!found && !isUnended) {
      this.pushText("]");
      return at + 1;
    }
    const target = found ? safeTarget(found[1] ?? found[2]) : null;
    if (!target && found) { // shown as written, so that it does not look like a link
      this.pushText(`]${found[0]}`);
      return at + 1 + found[0].length;
    }
    this.pair(opener);
    if (target) {
      this.marks[opener] = { begin: target };
      this.push({ end: true });
    } else {
      this.marks[opener] = { text: "" };
    }
    this.brackets = []; // links do not nest
    return found ? at + 1 + found[0].length : this.text.length;
  }

  pushLink(text, address) {
    const target = safeTarget(address);
    if (!target) {
      this.pushText(text);
      return;
    }
    this.push({ begin: target });
    this.push({ text });
    this.push({ end: true });
    this.brackets = [];
  }

  takeUrl(at) {
    const found = matchAt(URL_TEXT, this.text, at);
    if (!found || isWord(this.text[at - 1] ?? "") || this.brackets.length) {
      this.pushText("h");
      return at + 1;
    }
    let url = found[0].replace(/[.,;:!?"'*_~]+$/, "");
    if (url.endsWith(")") && !url.includes("(")) url = url.replace(/\)[).,;:!?]*$/, "");
    this.pushLink(url, url);
    return at + url.length;
  }

  // Pairs runs from marks[from] on: each that can close is paired with the nearest open run of its kind. Returns the
  // runs that stay open.
  pair(from) {
    const open = [], n_open = { "*": 0, _: 0, "~": 0 };
    for (let i = from; i < this.marks.length; i++) {
      const closer = this.marks[i];
      if (!closer.run || closer.isPaired) continue;
      closer.isPaired = true;
      while (closer.canClose && closer.n > 0 && n_open[closer.run] > 0) {
        const opener = open.at(-1);
        if (opener.run === closer.run) {
          const n = opener.n >= 2 && closer.n >= 2 ? 2 : 1;
          const name = closer.run === "~" ? "del" : n === 2 ? "strong" : "em";
          opener.opens.unshift(name);
          closer.closes.push(name);
          opener.n -= n;
          closer.n -= n;
          if (closer.run === "~") opener.n = closer.n = 0;
        }
        if (opener.n === 0 || opener.run !== closer.run) n_open[open.pop().run]--;
      }
      if (!closer.canOpen || closer.n === 0) continue;
      open.push(closer);
      n_open[closer.run]++;
    }
    return open;
  }

  // Closes bold text whose end has not arrived yet.
  closeBold(open) {
    for (const opener of open.reverse()) {
      if (opener.run === "_" || opener.n < 2) continue;
      const name = opener.run === "~" ? "del" : "strong";
      opener.opens.unshift(name);
      opener.n -= 2;
      this.push({ run: opener.run, n: 0, opens: [], closes: [name], isPaired: true });
    }
  }
}

function setTarget(link, target) {
  if (!link) return;
  link.href = target;
  link.target = "_blank";
  link.rel = "noopener noreferrer nofollow";
}

// Replaces the element's content by the rendered text. isOpen: the last characters may be an incomplete construct.
export function renderInline(element, text, isOpen = false) {
  const made = document.createDocumentFragment();
  const parents = [made];
  let words = ""; // pending text, not yet a node
  let n_made = 0, n_left_out = 0; // elements made; open elements that were left out
  const endWords = () => {
    if (words) parents.at(-1).append(words);
    words = "";
  };
  const enter = (name) => {
    if (parents.length > MAX_DEPTH || n_made >= MAX_ELEMENTS || n_left_out > 0) {
      n_left_out++;
      return null;
    }
    const child = document.createElement(name);
    endWords();
    parents.at(-1).append(child);
    parents.push(child);
    n_made++;
    return child;
  };
  const leave = () => {
    if (n_left_out > 0) {
      n_left_out--;
      return;
    }
    endWords();
    parents.pop();
  };
  for (const mark of new Scanner(text, isOpen).scan()) {
    if (mark.run) {
      mark.closes.forEach(leave);
      words += mark.run.repeat(mark.n);
      mark.opens.forEach((name) => enter(name));
    } else if (mark.code !== undefined) {
      enter("code");
      words += mark.code;
      leave();
    } else if (mark.br) {
      if (!enter("br")) words += "\n";
      leave();
    } else if (mark.begin) {
      setTarget(enter("a"), mark.begin);
    } else if (mark.end) {
      leave();
    } else {
      words += mark.text ?? mark.bracket;
    }
  }
  endWords();
  element.replaceChildren(made);
}

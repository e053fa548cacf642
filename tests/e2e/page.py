"""The page at /, driven in headless Chromium against answers that a test writes. Skips without Chromium."""

import json
import os
import shlex

import page_case
import page_stub

LUMINANCE = """(name, property) => {
  const style = getComputedStyle(document.querySelector(name))[property];
  const [r, g, b] = style.match(/[0-9.]+/g).map((c) => c / 255).map(
    (c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}"""

DEPTH = """(() => {
  let most = 0;
  for (const element of document.querySelectorAll("#log *")) {
    if (element.children.length) continue;
    let depth = 0;
    for (let at = element; at; at = at.parentElement) depth++;
    most = Math.max(most, depth);
  }
  return most;
})()"""

CODE = "<div><div><span>{}</span></div><pre><code>{}</code></pre></div>"
MARKDOWN = [
    ("one\ntwo\n\nthree", "<p>one\ntwo</p><p>three</p>"),
    ("# One #\n## *Two*\n#no\nThree\n===\nFour\n---\n\n---\nx",
     "<h1>One</h1><h2><em>Two</em></h2><h1>#no\nThree</h1><h2>Four</h2><hr><p>x</p>"),
    ("*a* **b** ***c*** ~~d~~ _e_ snake_case_x 2 * 3 \\*f\\* **g", "<p><em>a</em> <strong>b</strong> "
     "<em><strong>c</strong></em> <del>d</del> <em>e</em> snake_case_x 2 * 3 *f* **g</p>"),
    ("**g：**h **i *j* k**", "<p><strong>g：</strong>h <strong>i <em>j</em> k</strong></p>"),
    ("See `a*b*` and ``c`d`` &lt; <b>", "<p>See <code>a*b*</code> and <code>c`d</code> &lt; &lt;b&gt;</p>"),
    ("See:\n```py\nx = 1\n\n  y = `2`\n```\nand\n``` not ``` a fence\n~~~\nopen",
     "<p>See:</p>" + CODE.format("py", "x = 1\n\n  y = `2`") + "<p>and\n<code>not</code> a fence</p>" +
     CODE.format("", "open")),
    ("text\n\n    code\n\n      more\n\nend", "<p>text</p>" + CODE.format("", "code\n\n  more") + "<p>end</p>"),
    ("- a\n  - b\n    - c\n- d\n\n  e\n\n1. f\n  - g\n   h\n2. i\n\nj",
     "<ul><li><p>a</p><ul><li><p>b</p><ul><li><p>c</p></li></ul></li></ul></li><li><p>d</p><p>e</p></li></ul>"
     "<ol><li><p>f</p><ul><li><p>g\nh</p></li></ul></li><li><p>i</p></li></ol><p>j</p>"),
    ("3. a\n   ```c\n   x\n     y\n   ```\n4. b\n- [ ] c\n- [x] d\n- [e](https://e.example)",
     '<ol start="3"><li><p>a</p>' + CODE.format("c", "x\n  y") + "</li><li><p>b</p></li></ol>"
     '<ul><li><p>☐ c</p></li><li><p>☑ d</p></li><li><p><a href="https://e.example/">e</a></p></li></ul>'),
    ("> a\nb\n>> c\n\n> - d\n> ```\n> e\n> ```\nf", "<blockquote><p>a\nb</p><blockquote><p>c</p></blockquote>"
     "</blockquote><blockquote><ul><li><p>d</p></li></ul>" + CODE.format("", "e") + "</blockquote><p>f</p>"),
    ("Table:\n| a | b \\| `|` |\n|:-:|--:|\n| 1 | **2**<br>3 |\n| x |\n\nend",
     '<p>Table:</p><div><table><thead><tr><th class="middle">a</th><th class="right">b | <code>|</code></th></tr>'
     '</thead><tbody><tr><td class="middle">1</td><td class="right"><strong>2</strong><br>3</td></tr>'
     '<tr><td class="middle">x</td></tr></tbody></table></div><p>end</p>'),
    ("[a *b*](https://x.example/y \"t\") <https://z.example> https://w.example/v_(u). [1] (https://q.example)",
     '<p><a href="https://x.example/y">a <em>b</em></a> <a href="https://z.example/">https://z.example</a> '
     '<a href="https://w.example/v_(u)">https://w.example/v_(u)</a>. [1] '
     '(<a href="https://q.example/">https://q.example</a>)</p>'),
]


class Page(page_case.Case):
    def setUp(self):
        super().setUp()
        self.stub = page_stub.Stub()
        self.addCleanup(self.stub.close)
        self.url = self.stub.url

    def exchange(self, text, *pieces):
        n_articles = self.value("document.querySelectorAll('article').length")
        self.stub.say(*pieces, None)
        self.send(text)
        self.wait(f"document.querySelectorAll('article').length === {n_articles + 2} && {page_case.IDLE}")

    def test_chat_by_keyboard(self):
        self.open()
        self.assertEqual(self.value(page_case.FOCUS), "prompt")
        self.stub.say("One sheep. ", "Two")
        self.send("Count sheep.")
        self.shown("One sheep. Two")
        self.assertFalse(self.value(page_case.IDLE), "the text came while the answer was not over")
        self.assertEqual(self.value("document.getElementById('spoken').textContent"), "One sheep.")
        self.stub.say(" sheep", None)
        self.wait(page_case.IDLE)
        self.assertEqual(self.value(page_case.LAST), "One sheep. Two sheep")
        self.assertEqual(self.value("[...document.querySelectorAll('#spoken p')].map((p) => p.textContent)"),
                         ["One sheep.", "Two sheep"])
        self.assertIn("3 tokens", self.value(page_case.NOTE))
        self.assertEqual(self.value(page_case.FOCUS), "prompt")
        path, body = self.stub.requests[0]
        self.assertEqual(path, "/v1/chat/completions")
        self.assertEqual(body, {"model": "sheep", "stream": True, "stream_options": {"include_usage": True},
                                "max_tokens": 512, "messages": [{"role": "user", "content": "Count sheep."}]})
        self.browser.type("A")
        self.browser.press("Enter", shift=True)
        self.exchange("B", "C")
        self.assertEqual(self.stub.requests[1][1]["messages"][1:], [
            {"role": "assistant", "content": "One sheep. Two sheep"}, {"role": "user", "content": "A\nB"}])

    def test_stop(self):
        self.open()
        self.stub.say("begun")
        self.send("Go on.")
        self.shown("begun")
        self.browser.press("Escape")
        self.wait(page_case.IDLE)
        self.assertIn("stopped", self.value(page_case.NOTE))
        self.assertTrue(self.stub.left.wait(10), "the server did not see the end of the stream")
        self.assertEqual(self.value(page_case.LAST), "begun")
        self.stub.say("again")
        self.send("And on.")
        self.shown("again")
        self.browser.press("Tab")
        self.assertEqual(self.value(page_case.FOCUS), "stop")
        self.browser.press("Enter")
        self.wait(page_case.IDLE)
        self.assertEqual(self.value(page_case.FOCUS), "prompt")

    def test_parameters(self):
        self.open()
        numbers = {"temperature": 0.7, "top_p": 0.9, "top_k": 40, "min_p": 0.05, "max_tokens": 64, "seed": 7,
                   "repetition_penalty": 1.1, "frequency_penalty": -0.5, "presence_penalty": 0.25}
        for name, value in numbers.items():
            self.fill(name, str(value))
        self.fill("system", "Be brief.")
        self.fill("stop", "END\n\\n\\n")
        self.value("document.getElementById('prompt').focus()")
        self.exchange("Hello", "Hi")
        body = self.stub.requests[0][1]
        self.assertEqual({name: body[name] for name in numbers}, numbers)
        self.assertEqual(body["stop"], ["END", "\n\n"])
        self.assertEqual(body["messages"][0], {"role": "system", "content": "Be brief."})
        self.fill("top_p", "1.5")
        self.value("document.getElementById('prompt').focus()")
        self.send("Hello again")
        self.wait(f"{page_case.FOCUS} === 'top_p'")
        self.assertEqual(len(self.stub.requests), 1)
        self.fill("top_p", "0.25")
        self.browser.open(self.url)
        self.wait("document.getElementById('model').textContent")
        self.assertEqual(self.value("document.querySelector('[name=top_p]').value"), "0.25")
        self.value("document.querySelector('#settings [type=reset]').click()")
        self.exchange("Once more", "Yes")
        self.assertEqual(set(self.stub.requests[1][1]), {"model", "stream", "stream_options", "max_tokens", "messages"})

    def test_key(self):
        self.expected_errors = ("401",)
        self.stub.key = "right"
        self.open()
        self.assertEqual(self.value(page_case.FOCUS), "key")
        self.send("wrong")
        self.wait("/does not accept/.test(document.getElementById('key-text').textContent)")
        self.send("right")
        self.wait("document.getElementById('model').textContent === 'sheep'")
        self.wait("document.getElementById('figure-running').textContent === '3'")
        self.value("document.getElementById('prompt').focus()")
        self.exchange("Hello", "Hi")
        self.open()
        self.assertFalse(self.value("document.getElementById('key-dialog').open"))
        self.assertEqual(self.value("localStorage.length + document.cookie"), "0")
        self.stub.key = "another"
        self.send("Hello?")
        self.wait("document.getElementById('key-dialog').open")
        self.browser.press("Escape")
        self.wait("!document.getElementById('notice').hidden")
        self.assertIn("key is needed", self.value("document.getElementById('notice').textContent"))

    def test_markup_stays_text(self):
        self.open()
        nasty = "<script>window.hit = 1</script><img src=x onerror='window.hit = 1'><b>&amp;</b>"
        self.exchange(nasty, nasty[:9], nasty[9:], "\n```html\n", nasty, "\n```\nend")
        self.assertEqual(self.value("document.querySelector('.user .text').textContent"), nasty)
        self.assertEqual(self.value("document.querySelector('.assistant p').textContent"), nasty.replace("&amp;", "&"))
        self.assertEqual(self.value("document.querySelector('article pre').textContent"), nasty)
        made = "document.querySelectorAll('#log :is(script, img, b), #spoken :is(script, img, b)').length"
        self.assertEqual(self.value(made), 0)
        self.assertFalse(self.value("'hit' in window"))
        self.assertTrue(self.value(f"{page_case.LAST}.endsWith('end')"))

    def test_policy(self):
        """If markup of an answer ever became part of the page, the browser would refuse to run it."""
        self.expected_errors = ("Content Security Policy",)
        page_stub.Handler.policy = None
        self.addCleanup(setattr, page_stub.Handler, "policy", page_stub.POLICY)
        self.open()
        self.value("document.body.append(Object.assign(document.createElement('script'), { textContent: 'hit = 1' }))")
        self.assertFalse(self.value("'hit' in window"))
        self.assertEqual(self.value("fetch('http://127.0.0.1:9/').then(() => 'sent', () => 'refused')"), "refused")

    def outline(self, text, *pieces):
        """The elements of an answer, in pieces or at once, as HTML without the page's own parts."""
        self.exchange("x", *(pieces or (text,)))
        found = self.value("[...document.querySelectorAll('.assistant .text')].at(-1).innerHTML")
        for own in (' tabindex="0"', ' class="code"', ' class="table"', ' class=""', ' target="_blank"',
                    ' rel="noopener noreferrer nofollow"',
                    '<button type="button" aria-label="Copy this code">Copy</button>'):
            found = found.replace(own, "")
        return found

    def test_markdown(self):
        """Each text gives the expected HTML, at once and a character at a time."""
        self.open()
        for text, expected in MARKDOWN:
            with self.subTest(text):
                self.assertEqual(self.outline(text), expected)
                self.assertEqual(self.outline(text, *text), expected)

    def test_safe_links(self):
        self.open()
        self.exchange("x", "\n".join(f"[text]({target})" for target in (
            "javascript:hit=1", "JaVaScRiPt:hit=1", "java\tscript:hit=1", "data:text/html,<script>hit=1</script>",
            "vbscript:x", "file:///etc/passwd", "//elsewhere.example/x", "/metrics", "#log", "blob:http://x/y",
            "https://safe.example/a(b)", "<mailto:a@b.example>", " &#106;avascript:hit=1")) + "\n<javascript:hit=1>"
            "\n![picture](https://safe.example/p.png)\n[![x](https://safe.example/q)](javascript:hit=1)")
        links = self.value("[...document.querySelectorAll('#log a')].map((a) => [a.href, a.target, a.rel])")
        self.assertEqual([link[0] for link in links], ["https://safe.example/a(b)", "mailto:a@b.example",
                                                       "https://safe.example/p.png", "https://safe.example/q"])
        self.assertEqual({tuple(link[1:]) for link in links}, {("_blank", "noopener noreferrer nofollow")})
        self.assertEqual(self.value("document.querySelectorAll('#log :is(img, script)').length"), 0)
        self.assertIn("[text](javascript:hit=1)", self.value(page_case.LAST))

    def test_hostile_markdown(self):
        """Any text is shown within seconds, and no element is nested deeper than the browser supports."""
        self.open()
        line, n = 1 << 20, 1 << 15
        for text in ("a" * line, "```\n" + "b " * (line // 2), "> " * n, "- " * n, "[" * n, "![](" * n, "*a " * n,
                     "**a" * n, "`" * n, "".join("`" * (i % 700) + " " for i in range(n // 350)), "|" * n,
                     "|a|b|\n|-|-|\n" + "|" * n, "a|b\n-|-\n" + "c\n" * 5000, "&" * n, "~~" * n, "[a](b \"" * n,
                     "_a*" * n, "1. " * n, "-" * n, "<" * n, "\\" * n):
            with self.subTest(text[:16]):
                self.value("document.getElementById('clear').click()")
                self.exchange("x", *(text[i:i + 65536] for i in range(0, len(text), 65536)))
                self.assertLess(self.value(DEPTH), 100)
                self.assertGreaterEqual(self.value(f"{page_case.LAST}.length"), 1)
                self.assertLess(self.value("document.querySelectorAll('#log *').length"), 16000)

    def test_markdown_in_one_piece(self):
        """Runs of marks and blanks that a letter turns into plain text take linear time."""
        self.open()
        seconds = self.value("""(async () => {
          const { MarkdownView } = await import("./markdown.js");
          const view = new MarkdownView(document.createElement("div")), n = 200000, from = performance.now();
          for (const run of "*_~`") view.add(`a ${run.repeat(n)}b\\n\\n`);
          for (const run of " >") view.add(`\\`\\`\\`\\n${run.repeat(n)}b\\n\\`\\`\\`\\n`);
          view.end();
          return (performance.now() - from) / 1000;
        })()""")
        self.assertLess(seconds, 20)  # minutes if a run is read again for each of its characters

    def test_streaming_is_incremental(self):
        """Finished parts stay the same elements, so that a selection persists, and a long answer costs only its new
        text."""
        self.open()
        self.stub.say("# One\n\n- a\n- b\n\n```py\nx = 1\n")
        self.send("x")
        self.wait("document.querySelector('article code')?.textContent === 'x = 1'")
        self.value("kept = [...document.querySelectorAll('.assistant .text *')]")
        self.stub.say("y = 2\n```\n\nend", None)
        self.wait(page_case.IDLE)
        self.assertTrue(self.value("kept.every((element) => element.isConnected)"))
        self.assertEqual(self.value("document.querySelector('article code').textContent"), "x = 1\ny = 2")
        seconds = self.value("""(async () => {
          const { MarkdownView } = await import("./markdown.js");
          const cost = (n) => {
            const view = new MarkdownView(document.createElement("div")), from = performance.now();
            for (let i = 0; i < n; i++) view.add(i % 40 ? `word${i} **bold** ` : "\\n\\n- item\\n");
            view.end();
            return performance.now() - from;
          };
          const least = (n) => Math.min(cost(n), cost(n), cost(n));
          cost(2000);
          return [least(4000), least(16000)];
        })()""")
        self.assertLess(seconds[1], 12 * max(seconds[0], 5), "four times the text")

    def test_copy_code(self):
        self.open()
        self.browser.call("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"])
        self.exchange("x", "Do:\n\n```sh\necho 1\n\n  echo 2\n```\n")
        self.value("document.querySelector('.code button').click()")
        self.wait("document.querySelector('.code button').textContent === 'Copied'")
        self.assertEqual(self.value("navigator.clipboard.readText()"), "echo 1\n\n  echo 2")

    def thought(self):
        return self.value("[...document.querySelectorAll('.thought')].map((e) => [e.open, e.children[0].textContent, "
                          "e.children[1].innerText])")

    def test_thought_is_folded(self):
        self.open()
        self.stub.say("\n<thi", "nk>\nFirst *this*", ", then")
        self.send("x")
        self.wait("document.querySelector('.thought > div')?.textContent === 'First this, then'")
        self.assertEqual(self.thought(), [[False, "Thinking", ""]])
        self.assertEqual(self.value(page_case.LAST), "")
        self.stub.say(" that.\n</thi", "nk>\n\n", "Four.", None)
        self.wait(page_case.IDLE)
        self.assertEqual(self.value(page_case.LAST), "Four.")
        self.assertEqual([part[:2] for part in self.thought()], [[False, "Thought"]])
        self.assertEqual(self.value("document.querySelector('.thought > div').textContent"), "First this, then that.")
        self.assertEqual(self.value("document.getElementById('spoken').textContent"), "Four.")
        self.exchange("y", "Well.\n", "</think>", "\n\nFive </think> x")  # the template has written <think>
        self.assertEqual(self.value(page_case.LAST), "Five </think> x")
        self.assertEqual(self.stub.requests[1][1]["messages"][1], {"role": "assistant", "content": "Four."})
        self.stub.say({"reasoning": "Hm, "}, {"reasoning_content": "so."}, "Six.", None)
        self.send("z")
        self.shown("Six.")
        self.wait(page_case.IDLE)
        thoughts = "[...document.querySelectorAll('.thought > div')].map((e) => e.textContent)"
        expected = ["First this, then that.", "Well.", "Hm, so."]
        self.assertEqual(self.value(thoughts), expected)
        self.open()
        self.assertEqual(self.value(thoughts), expected)
        self.exchange("plain", "A < b, <thin", "g>, <think> </think>")
        self.assertEqual(self.value(page_case.LAST), "A < b, <thing>, <think> </think>")

    def test_calls_and_their_results(self):
        self.open()
        find = {"name": "find", "parameters": {"type": "object"}}
        self.fill("tools", json.dumps([find]))
        self.value("document.querySelector('[name=tool_choice]').value = 'required'")
        self.value("document.getElementById('prompt').focus()")
        begin = {"index": 0, "id": "a", "type": "function", "function": {"name": "find", "arguments": '{"na'}}
        self.stub.say({"reasoning": "Two."}, {"tool_calls": [begin]})
        self.send("Who?")
        self.wait("document.querySelector('.call pre')?.textContent === '{\"na'")
        other = {"index": 1, "id": "b", "type": "function", "function": {"name": "find", "arguments": "<b>"}}
        self.stub.say({"tool_calls": [{"index": 0, "function": {"arguments": 'me": "Ada"}'}}]}, {"tool_calls": [other]},
                      None)
        self.wait(page_case.IDLE)
        calls = "[...document.querySelectorAll('.call')].map((e) => [e.querySelector('h4').textContent, " \
                "e.querySelector('pre').textContent])"
        expected = [["Call of find", '{\n  "name": "Ada"\n}'], ["Call of find", "<b>"]]
        self.assertEqual(self.value(calls), expected)
        self.assertEqual(self.value("document.getElementById('spoken').textContent"), "Call of find. Call of find.")
        self.assertEqual(self.value("document.querySelector('.thought > div').textContent"), "Two.")
        self.value("document.querySelector('.call textarea').focus()")
        self.browser.type("here")
        self.open()  # kept for this tab
        self.assertEqual(self.value(calls), expected)
        self.stub.say("Ada is here.", None)
        self.value("document.querySelector('.calls > button').click()")
        self.shown("Ada is here.")
        self.wait(page_case.IDLE)
        self.assertEqual(self.value("document.querySelectorAll('.call textarea, .calls > button').length"), 0)
        self.assertIn("Returned: here", self.value("document.querySelector('.call').textContent"))
        first, second = (body for _, body in self.stub.requests)
        self.assertEqual((first["tools"], first["tool_choice"]), ([{"type": "function", "function": find}], "required"))
        made = [{"id": id, "type": "function", "function": {"name": "find", "arguments": text}}
                for id, text in (("a", '{"name": "Ada"}'), ("b", "<b>"))]
        self.assertEqual(second["messages"][1:], [
            {"role": "assistant", "content": "", "tool_calls": made},
            {"role": "tool", "tool_call_id": "a", "content": "here"},
            {"role": "tool", "tool_call_id": "b", "content": ""}])
        self.value("document.getElementById('mode-completion').click()")
        self.exchange("Once", "more")
        self.assertNotIn("tools", self.stub.requests[2][1])

    def test_schema(self):
        self.open()
        self.fill("schema", '{"type": "obj')
        self.value("document.getElementById('prompt').focus()")
        self.send("Who?")
        self.wait(f"{page_case.FOCUS} === 'schema'")
        self.assertIn("not JSON", self.value("document.querySelector('[name=schema]').validationMessage"))
        for name, wrong in (("schema", "[1]"), ("tools", '[{"parameters": {}}]')):
            self.fill(name, wrong)
            self.value("document.querySelector('#composer').requestSubmit()")
            self.assertIn("object", self.value(f"document.querySelector('[name={name}]').validationMessage"))
            self.value(f"document.querySelector('[name={name}]').value = ''")
        self.assertEqual(self.stub.requests, [])
        schema = {"type": "object", "properties": {"name": {"enum": ["Ada"]}}}
        self.fill("schema", json.dumps(schema))
        self.value("document.getElementById('prompt').value = ''")
        self.value("document.getElementById('prompt').focus()")
        self.exchange("Who?", "{}")
        self.assertEqual(self.stub.requests[0][1]["response_format"], {
            "type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": schema}})

    def test_no_leading_blank(self):
        self.open()
        self.exchange("x", "\n", " \n\n", "  Hello", "\n\nyou")
        self.assertEqual(self.value("[...document.querySelectorAll('.assistant p')].map((e) => e.textContent)"),
                         ["Hello", "you"])
        self.exchange("y", "z")
        self.assertEqual(self.stub.requests[1][1]["messages"][1]["content"], "Hello\n\nyou")

    def test_version_and_help(self):
        self.open()
        self.wait("document.getElementById('version').textContent === '1.2.3'")
        self.value("document.getElementById('help').click()")
        base = self.url + "v1"
        examples = self.value("[...document.querySelectorAll('#help-examples pre')].map((e) => e.textContent)")
        self.assertEqual(examples[0], base)
        for example, path in zip(examples[1:], ("/chat/completions", "/completions"), strict=True):
            words = shlex.split(example)
            self.assertEqual(words[:2], ["curl", base + path])
            self.assertEqual(json.loads(words[words.index("-d") + 1])["model"], "sheep")
        self.browser.press("Escape")
        self.wait("!document.getElementById('help-dialog').open")

    def test_completion(self):
        self.expected_errors = ("400",)
        self.open()
        self.stub.refusal = (400, "the model has no chat template")
        self.send("Once upon")
        self.wait("!document.getElementById('notice').hidden")
        self.value("document.querySelector('#notice button').focus()")
        self.browser.press("Enter")
        self.wait("document.getElementById('prompt').value === 'Once upon'")
        self.assertEqual(self.value(page_case.FOCUS), "prompt")
        self.stub.refusal = None
        self.exchange("", " a time")
        path, body = self.stub.requests[1]
        self.assertEqual((path, body["prompt"]), ("/v1/completions", "Once upon"))
        self.assertNotIn("messages", body)
        self.value("document.getElementById('mode-completion').focus()")
        self.browser.press("ArrowLeft")
        self.assertEqual(self.value("document.querySelectorAll('article').length"), 0)

    def test_history(self):
        self.open()
        self.exchange("Hello", "first")
        self.value("document.getElementById('regenerate').focus()")
        self.stub.say("second", None)
        self.browser.press("Enter")
        self.shown("second")
        self.wait(page_case.IDLE)
        self.assertEqual(self.stub.requests[0], self.stub.requests[1])
        self.open()
        self.assertEqual(self.value("[...document.querySelectorAll('article .text')].map((e) => e.textContent)"),
                         ["Hello", "second"])
        self.assertEqual(self.value("localStorage.length"), 0)
        self.browser.call("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"])
        self.value("[...document.querySelectorAll('article button')].at(-1).click()")
        self.wait("[...document.querySelectorAll('article button')].at(-1).textContent === 'Copied'")
        self.assertEqual(self.value("navigator.clipboard.readText()"), "second")
        self.value("document.getElementById('clear').focus()")
        self.browser.press("Enter")
        self.assertEqual(self.value("document.querySelectorAll('article').length"), 0)
        self.assertEqual(self.value(page_case.FOCUS), "prompt")
        self.open()
        self.assertEqual(self.value("document.querySelectorAll('article').length"), 0)

    def test_failures(self):
        self.expected_errors = ("429", "ERR_INTERNET_DISCONNECTED")
        self.open()
        notice = "document.getElementById('notice').textContent"
        self.stub.refusal = (429, "too many requests wait")
        self.send("Hello")
        self.wait(f"{notice} === 'too many requests wait'")
        self.wait("document.getElementById('prompt').value === 'Hello'")
        self.assertEqual(self.value("document.querySelectorAll('article').length"), 0)
        self.stub.refusal = None
        self.stub.say("half", {"error": {"message": "rank 1 has failed", "code": 500}})
        self.browser.press("Enter")
        self.wait(f"{notice} === 'rank 1 has failed'")
        self.shown("half")
        self.wait(page_case.IDLE)
        self.assertEqual(self.stub.requests[1][1]["messages"], [{"role": "user", "content": "Hello"}])
        self.stub.refusal = (429, "not now")
        self.value("document.getElementById('regenerate').click()")
        self.wait(f"{notice} === 'not now'")
        self.shown("half")
        self.value("document.getElementById('prompt').focus()")
        self.browser.call("Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=-1,
                          uploadThroughput=-1)
        self.send("Hello")
        self.wait(f"{notice} === 'The server cannot be reached.'")
        self.wait("document.getElementById('health').textContent === 'Not reachable'")

    def test_figures(self):
        self.open()
        figure = "document.getElementById('figure-{}').textContent"
        self.wait(figure.format("waiting") + " === '12'")
        self.assertEqual([self.value(figure.format(name)) for name in ("running", "kv", "prefix")],
                         ["3", "25 %", "25 %"])
        self.assertEqual(self.value("[...document.querySelectorAll('#memory li')].map((e) => e.textContent)"),
                         ["Rank 0: 3.0 GiB (weights 2.0 GiB, KV 1.0 GiB)", "Rank 1: 100 MiB (weights 100 MiB)"])
        self.stub.counters = {"tokens": 1500, "ttft_s": 1.5, "firsts": 12}
        self.wait(figure.format("ttft") + " === '250 ms'")
        # 1,000 tokens since the last poll: 500 a second, and fewer where a busy machine polls late.
        self.wait(f"Number({figure.format('rate')}) > 50 && Number({figure.format('rate')}) <= 700")
        self.assertIn("at most", self.value("document.getElementById('sparkline').getAttribute('aria-label')"))
        self.assertTrue(self.value("document.querySelector('#sparkline polyline').getAttribute('points')"))
        self.stub.counters = {"tokens": 5, "ttft_s": 0.1, "firsts": 1}  # the server has restarted
        self.wait(f"{figure.format('rate')} === '–'")
        self.wait(f"{figure.format('rate')} === '0'")

    def test_phone(self):
        self.size(360, 640)
        self.open()
        self.exchange("x" * 300, "y" * 300, "\n```\n", "z" * 300, "\n```\n")
        fits = "document.documentElement.scrollWidth <= innerWidth && document.body.scrollWidth <= innerWidth"
        self.assertTrue(self.value(fits))
        self.assertTrue(self.value("(({ scrollWidth, clientWidth }) => scrollWidth <= clientWidth)"
                                   "(document.getElementById('log'))"))
        box = "(id) => { const { left, right, bottom } = document.getElementById(id).getBoundingClientRect(); " \
              "return [left, right, bottom]; }"
        for name in ("send", "clear", "regenerate", "panel-switch", "prompt"):
            left, right, bottom = self.value(f"({box})('{name}')")
            self.assertTrue(left >= 0 and right <= 360 and bottom <= 640, name)
        self.assertTrue(self.value("document.getElementById('panel').hidden"))
        self.value("document.getElementById('panel-switch').focus()")
        self.browser.press("Enter")
        self.assertFalse(self.value("document.getElementById('panel').hidden"))
        self.assertTrue(self.value(fits))
        self.assertTrue(self.value("document.querySelector('main').inert"))
        self.browser.press("Escape")
        self.assertTrue(self.value("document.getElementById('panel').hidden"))
        self.assertEqual(self.value(page_case.FOCUS), "panel-switch")

    def test_colours(self):
        self.open()
        self.exchange("Hello", "Hi")
        for scheme in ("light", "dark"):
            self.scheme(scheme)
            with self.subTest(scheme):
                ground = self.value(f"({LUMINANCE})('body', 'backgroundColor')")
                self.assertEqual(scheme == "dark", ground < 0.18)
                for text, behind in (("article.assistant .text", "article.assistant"),
                                     ("article.user .text", "article.user"), ("#keys", "body"), ("dt", "aside"),
                                     ("article footer .quiet", "article.assistant"), ("#health", "header"),
                                     ("#send", "#send"), ("#mode-chat + label", "#mode-chat + label")):
                    pair = sorted((self.value(f"({LUMINANCE})('{text}', 'color')"),
                                   self.value(f"({LUMINANCE})('{behind}', 'backgroundColor')")))
                    self.assertGreaterEqual((pair[1] + 0.05) / (pair[0] + 0.05), 4.5, text)

    def test_names(self):
        """Every control has a name for screen readers, and can be reached by Tab."""
        self.open()
        nodes = self.browser.call("Accessibility.getFullAXTree")["nodes"]
        used = [node for node in nodes if not node["ignored"] and node["role"]["value"] in
                ("button", "textbox", "spinbutton", "radio", "log", "img", "complementary")]
        self.assertGreater(len(used), 15)
        self.assertEqual([node for node in used if not node.get("name", {}).get("value")], [])
        self.exchange("Hello", "Hi")
        self.value("document.querySelector('.skip').focus()")
        reached = set()
        for _ in range(40):
            self.browser.press("Tab")
            reached.add(self.value(page_case.FOCUS))
        self.assertLessEqual({"panel-switch", "mode-chat", "regenerate", "clear", "log", "prompt", "send",
                              "temperature", "stop"}, reached)

    def test_files(self):
        total = 0
        for name in sorted(os.listdir(page_stub.PAGE)):
            if os.path.splitext(name)[1] not in page_stub.TYPES:
                continue
            with open(os.path.join(page_stub.PAGE, name), encoding="utf-8") as file:
                text = file.read()
            total += len(text.encode())
            self.assertNotRegex(text, r"innerHTML|insertAdjacentHTML|document\.write|eval\(|\bstyle=|\bon\w+=", name)
            self.assertNotRegex(text.replace("http://www.w3.org/2000/svg", ""), "https?://", name)
        self.assertLess(total, 90000)
        self.open()


if __name__ == "__main__":
    page_case.main()

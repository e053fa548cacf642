"""The page at /, driven in headless Chromium against the program. Skips where no Chromium is installed.

Environment: YOKE_SCREENSHOT names a file to write a picture of the page to, as runtime/server/page.png was.
"""

import base64
import concurrent.futures
import json
import os
import unittest

import harness
import page_case
import server_case
from page_case import FOCUS, IDLE, LAST, NOTE

ANSWERED = f"document.querySelectorAll('article.assistant').length === {{}} && {IDLE}"


class PageServed(page_case.Case, server_case.Case):
    def serve_page(self, *options):
        server = self.serve(*options)
        self.url = f"http://127.0.0.1:{server.port}/"
        return server

    def ask_for(self, text, n_tokens):
        self.fill("max_tokens", str(n_tokens))
        self.value("document.getElementById('prompt').focus()")
        n_answers = self.value("document.querySelectorAll('article.assistant').length")
        self.send(text)
        self.wait(ANSWERED.format(n_answers + 1))
        self.assertTrue(self.value("document.getElementById('notice').hidden"))

    def test_chat(self):
        server = self.serve_page("--chat-template", "builtin:chatml", "--tp", 2)
        self.open()
        self.ask_for("the", 24)
        self.assertRegex(self.value(NOTE), r"\d+ tokens?, first after")
        self.assertEqual(server.metric("prompt_tokens_total") > 0, True)
        self.wait("/%/.test(document.getElementById('figure-kv').textContent)")
        for name in ("running", "waiting", "rate"):
            self.wait(f"/^[0-9]/.test(document.getElementById('figure-{name}').textContent)")
        self.wait("document.querySelectorAll('#memory li').length === 2")
        self.wait("document.getElementById('health').textContent === 'Serving'")

    @unittest.skipUnless(harness.has_grammar_library(), "no grammar library")
    def test_schema_and_calls(self):
        self.serve_page("--chat-template", server_case.TOOL_TEMPLATE, "--tool-call-parser", "hermes")
        self.open()
        schema = {"type": "object", "properties": {"name": {"enum": ["Ada", "Lily"]}}, "required": ["name"],
                  "additionalProperties": False}
        self.fill("schema", json.dumps(schema))
        self.ask_for("Who?", 200)
        self.assertIn(json.loads(self.value(LAST))["name"], ("Ada", "Lily"))
        self.fill("schema", " ")
        self.fill("tools", json.dumps({"name": "find", "parameters": schema}))
        self.value("document.querySelector('[name=tool_choice]').value = 'required'")
        self.ask_for("Who?", 200)
        self.assertIn("find", self.value("document.querySelector('.call h4').textContent"))
        call = "document.querySelector('.call pre').textContent"
        self.assertIn(json.loads(self.value(call))["name"], ("Ada", "Lily"))
        self.value("document.querySelector('[name=tool_choice]').value = 'none'")
        self.value("document.querySelector('.call textarea').focus()")
        self.browser.type("here")
        self.value("document.querySelector('.calls > button').click()")
        self.wait(ANSWERED.format(3))
        self.assertTrue(self.value("document.getElementById('notice').hidden"))

    def test_stop_frees(self):
        """The engine does not continue a stopped answer."""
        server = self.serve_page()
        self.open()
        self.value("document.getElementById('mode-completion').click()")
        self.fill("max_tokens", "900")
        self.value("document.getElementById('prompt').focus()")
        self.send("the")
        self.wait("document.querySelector('.assistant .text').textContent.length > 5")
        self.browser.press("Escape")
        self.wait(IDLE)
        server.wait_for_metric("num_requests_running", 0)
        self.assertEqual(self.value(FOCUS), "prompt")

    def test_completion_and_key(self):
        self.expected_errors = ("401",)
        self.serve_page("--api-key", "secret")
        self.open()
        self.send("secret")
        self.wait("document.getElementById('model').textContent")
        self.value("document.getElementById('mode-completion').click()")
        self.ask_for("the", 24)

    def test_no_template(self):
        """The demo model has no chat template, and the page offers only supported functions."""
        self.expected_errors = ("400",)
        self.serve_page()
        self.open()
        self.send("the")
        self.wait("document.querySelector('#notice button') !== null")
        self.value("document.querySelector('#notice button').click()")
        self.ask_for("", 8)

    @unittest.skipUnless("YOKE_SCREENSHOT" in os.environ, "YOKE_SCREENSHOT names no file")
    def test_screenshot(self):
        server = self.serve_page("--chat-template", "builtin:chatml", "--tp", 2, "--served-model-name", "demo")
        self.size(1200, 760)
        self.open()
        self.fill("temperature", "0")
        with concurrent.futures.ThreadPoolExecutor(6) as pool:  # so that the picture shows an answer
            others = [pool.submit(server.post, "/v1/completions", {"prompt": f"Tom has {i} balls.", "ignore_eos": True,
                                                                   "max_tokens": 400}) for i in range(60)]
            for text in ("Anna has a red ball. Tom has a blue boat. Who has the boat?",
                         "Anna gives the ball to Tom. Who has the ball?"):
                self.ask_for(text, 60)
                self.browser.pump(2)
            picture = self.browser.call("Page.captureScreenshot")["data"]
            for other in others:
                other.cancel()
        with open(os.environ["YOKE_SCREENSHOT"], "wb") as file:
            file.write(base64.b64decode(picture))


if __name__ == "__main__":
    page_case.main()

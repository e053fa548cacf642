"""Shared by the tests of the page: a tab of a headless Chromium, and the checks that every page passes after a test."""

import sys
import urllib.parse

import browser
import harness

IDLE = "!document.querySelector('.busy')"
LAST = "[...document.querySelectorAll('article .text')].at(-1).textContent"
NOTE = "[...document.querySelectorAll('article footer .quiet')].at(-1).textContent"
FOCUS = "document.activeElement.id || document.activeElement.name"


class Case(harness.Case):
    @classmethod
    def setUpClass(cls):
        cls.browser = browser.Browser(browser.find())
        cls.addClassCleanup(cls.browser.close)

    def setUp(self):
        self.browser.new_tab()
        self.size(1200, 800)
        self.expected_errors = ()

    def tearDown(self):
        """After any test: no other host was contacted, and the console is empty."""
        host = urllib.parse.urlsplit(self.url).netloc
        self.browser.pump(0.05)
        asked = [event["request"]["url"] for event in self.browser.notified("Network.requestWillBeSent")]
        self.assertTrue(asked)
        self.assertEqual([url for url in asked if urllib.parse.urlsplit(url).netloc != host], [])
        problems = [event["exceptionDetails"]["text"] for event in self.browser.notified("Runtime.exceptionThrown")]
        problems += [str(event["args"]) for event in self.browser.notified("Runtime.consoleAPICalled")]
        problems += [event["entry"]["text"] for event in self.browser.notified("Log.entryAdded")]
        self.assertEqual([text for text in problems if not any(part in text for part in self.expected_errors)], [])

    def size(self, width, height):
        self.browser.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                          mobile=False)

    def scheme(self, name):
        self.browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def open(self):
        self.browser.open(self.url)
        self.wait("document.getElementById('model').textContent || document.getElementById('key-dialog').open")

    def wait(self, expression):
        return self.browser.wait(expression)

    def value(self, expression):
        return self.browser.value(expression)

    def shown(self, text):
        self.wait(f"{LAST} === {text!r}")

    def send(self, text):
        self.browser.type(text)
        self.browser.press("Enter")

    def fill(self, name, text):
        self.value(f"document.querySelector('[name={name}]').select()")
        self.browser.type(text)


def main():
    """Run the tests of the calling file, if Chromium is installed."""
    if not browser.find():
        print("skipped, no Chromium is installed: apt-get install chromium-headless-shell")
        sys.exit(77)
    harness.main()

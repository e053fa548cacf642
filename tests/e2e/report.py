"""The report of a scaling study, opened from its file in headless Chromium. Skips without Chromium."""

import base64
import copy
import json
import os
import re
import subprocess
import sys
import urllib.parse
import xml.etree.ElementTree

import harness
import page_case

HERE = os.path.join(harness.TESTS_DIR, "e2e", "report")
sys.path.insert(0, HERE)
import make_synthetic_study  # noqa: E402, a neighbour of the study that it makes

SYNTHETIC = os.path.join(HERE, "synthetic_study.json")
FIGURES = ["speedup", "efficiency", "latency", "limit", "time", "losses"]
HOSTILE = '</script><script>document.title = "taken"</script><!--<script><img src=x onerror=alert(1)>"\'&amp;\0'

CONTRASTS = """(() => {
  const luminance = (color) => {
    const [r, g, b] = color.match(/[0-9.]+/g).map((c) => c / 255).map(
      (c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (a, b) => (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
  const ground = luminance(getComputedStyle(document.body).backgroundColor);
  const found = [];
  const add = (selector, property, least) => document.querySelectorAll(selector).forEach((element) => (
    found.push([selector, contrast(luminance(getComputedStyle(element)[property]), ground), least])));
  add("h1, h2, h3, p, td, th, dt, dd, summary, caption, td .interval", "color", 4.5);
  add("svg text:not(.letter):not(.series-name)", "fill", 4.5);
  add("svg .series-name", "fill", 3);
  add("svg .mark", "fill", 3);
  add("svg .line", "stroke", 3);
  add(".definitions .base", "fill", 3);
  const letter = luminance(getComputedStyle(document.querySelector("svg .letter")).fill);
  document.querySelectorAll(".definitions .base").forEach((element) => (
    found.push(["letter", contrast(luminance(getComputedStyle(element).fill), letter), 4.5])));
  return found;
})()"""


class Report(page_case.Case):
    def setUp(self):
        super().setUp()
        self.url = "file:///"
        self.folder = harness.scratch_folder(self.addCleanup)
        with open(SYNTHETIC, encoding="utf-8") as file:
            self.study = json.load(file)

    def tearDown(self):
        """Only the file itself was loaded, and the console is empty."""
        super().tearDown()
        asked = [event["request"]["url"] for event in self.browser.notified("Network.requestWillBeSent")]
        self.assertEqual({urllib.parse.urlsplit(url).scheme for url in asked} - {"data"}, {"file"})
        self.assertEqual({url for url in asked if url.startswith("file:")}, {self.url})

    def open(self, study):
        given, self.report = os.path.join(self.folder, "study.json"), os.path.join(self.folder, "report.html")
        with open(given, "w", encoding="utf-8") as file:
            json.dump(study, file)
        program = os.path.join(os.path.dirname(self.yoke), "write_report")
        subprocess.run([program, given, self.report], check=True, timeout=harness.TIMEOUT_S)
        self.url = f"file://{self.report}"
        self.browser.open(self.url)
        self.wait("window.yokeReport !== undefined")

    def ids(self):
        return self.value("yokeReport.ids()")

    def text(self, selector):
        return self.value(f"document.querySelector({selector!r}).textContent")

    def count(self, selector):
        return self.value(f"document.querySelectorAll({selector!r}).length")

    def choose(self, i, value):
        self.value(f"""(() => {{
          const control = document.getElementById("choice-{i}");
          control.value = {json.dumps(value)};
          control.dispatchEvent(new Event("change"));
        }})()""")

    def rows(self, selector):
        """The cells of a table's body, each with its text and its number."""
        return self.value(f"""[...document.querySelector({selector!r}).tBodies[0].rows].map((row) => (
          [...row.cells].map((cell) => [cell.textContent, cell.dataset.value ?? null])))""")

    def points(self, input_len=512):
        return [point for point in self.study["points"] if point["input_len"] == input_len]

    def fits(self, width):
        """The page is not wider than the window; wider tables have a scrollable box."""
        self.size(width, 800)
        self.browser.pump(0.2)
        self.assertEqual(self.value("document.documentElement.scrollWidth"), width)
        self.assertEqual(self.value("[...document.querySelectorAll('svg')].filter((drawing) => "
                                    f"drawing.getBoundingClientRect().right > {width}).length"), 0)

    def test_summary(self):
        self.open(self.study)
        best = next(p for p in self.points() if (p["ranks"], p["batch"]) == (4, 256))
        low, high = best["speedup_interval"]
        summary = self.text("#summary").replace("\xa0", " ")
        self.assertEqual(summary, (
            f"4 \u00d7 Synthetic GPU give {best['speedup']:.2f} ({low:.2f} to {high:.2f}) times the output tokens/s of "
            f"one at batch 256 (512 in, 128 out): {best['output_throughput']:,.0f} tokens/s. That is an efficiency of "
            f"{100 * best['efficiency']:.0f} % and {100 * best['limit']['share']:.0f} % of the machine's limit, which "
            f"the GEMM rate sets; the largest loss is the transfer of all-reduces, "
            f"{100 * best['losses']['all_reduce']:.1f} % of the time."))
        self.assertEqual(self.value("document.title"), "Scaling of synthetic-8b from 1 to 4 \u00d7 Synthetic GPU")
        facts = self.text("dl.facts")
        for part in ("4 \u00d7 Synthetic GPU", "4.35 TB/s", "640 TFLOP/s", "36 layers", self.study["command"], "0.2.0",
                     "2026-01-01T00:00:00Z"):
            self.assertIn(part, facts)

    def test_drawn_points(self):
        self.open(self.study)
        self.assertEqual(self.ids(), FIGURES)
        n = len(self.points())
        self.assertEqual(n, 9)
        self.assertEqual(self.count("#speedup .wide .mark"), n)
        self.assertEqual(self.count("#speedup .wide .open"), len(self.study["predictions"]))
        self.assertEqual(self.count("#efficiency .wide .datum"), n)
        self.assertEqual(self.count("#latency .wide .datum"), n)
        self.assertEqual(self.count("#limit .wide .mark"), n)
        self.assertEqual(self.count("#limit .wide .limit"), n)
        self.assertEqual(self.count("#time .wide > svg[role=img]"), 3)
        self.assertEqual(self.count("#time .wide .datum"), 8 * 6 + 5 * 3 + 3)  # one rank: no all-reduce
        self.assertEqual(self.count("#losses .wide .datum"), 4 * 6)

    def test_places_of_points(self):
        """Marks agree with the axis: speed-ups of one rank count are ordered like their numbers."""
        self.open(self.study)
        marks = self.value("[...document.querySelectorAll('#speedup .wide .mark')].map((mark) => [mark.textContent, "
                          "mark.getBBox().y])")
        placed = sorted((float(re.search(r"ranks?: ([0-9.]+)", words)[1]), y) for words, y in marks)
        for (speedup, y), (next_speedup, next_y) in zip(placed, placed[1:]):
            if next_speedup > speedup + 0.05:
                self.assertLess(next_y, y - 1)

    def test_tables(self):
        self.open(self.study)
        for row, point in zip(self.rows(".main-table"), self.points(), strict=True):
            self.assertEqual([row[0][1], row[1][0]], [str(point["ranks"]), f"batch {point['batch']}"])
            numbers = [float(value) for _, value in row[2:]]
            self.assertEqual(numbers, [point["output_throughput"], point["speedup"], point["efficiency"],
                                       point["limit"]["share"], point["median_ttft_ms"], point["median_tpot_ms"],
                                       point["p99_tpot_ms"], point["energy_j_per_token"], point["n_runs"]])
            self.assertTrue(row[3][0].startswith(f"{point['speedup']:.2f}"), row[3])
            self.assertTrue(row[4][0].startswith(f"{100 * point['efficiency']:.1f}\xa0%"), row[4])
            if point["ranks"] > 1:
                low, high = point["speedup_interval"]
                self.assertTrue(row[3][0].endswith(f"{low:.2f} to {high:.2f}"), row[3])
        for row, point in zip(self.rows("#time table"), self.points(), strict=True):
            times = point["time_us"]
            self.assertEqual([float(value) for _, value in row[2:]],
                             [times["step"], *(times[part] for part in make_synthetic_study.PARTS)])
        scaled = [point for point in self.points() if point["ranks"] > 1]
        for row, point in zip(self.rows("#losses table"), scaled, strict=True):
            self.assertEqual([float(value) for _, value in row[3:]],
                             [point["losses"][name] for name in make_synthetic_study.LOSSES])
        self.assertIn(self.study["skipped"][0]["reason"], self.text("[aria-labelledby=skipped]"))
        self.assertIn("clock fell from 1980", self.text("[aria-labelledby=warnings]"))
        self.assertEqual(len(self.rows("[aria-labelledby=predictions] table")), 3)

    def test_experts_of_the_busiest_rank(self):
        """Next to transfer and waiting, for a mixture of experts only."""
        study = make_synthetic_study.make_study(ranks=(1, 2), batches=(8,), lengths=((512, 128),))
        for point in study["points"]:
            point["expert_busiest_share"] = 1.25 / point["ranks"]
        self.open(study)
        self.assertEqual([row[-1] for row in self.rows("#time table")],
                         [["125.0\xa0%", "1.25"], ["62.5\xa0%", "0.625"]])
        self.assertEqual([row[-1][1] for row in self.rows("#losses table")], ["0.625"])
        self.assertIn("Experts chosen on the busiest rank", self.text("#losses table"))

    def test_selection(self):
        self.study["points"] += [{**copy.deepcopy(point), "options": {"max-num-seqs": "64"}, "speedup": 9.75,
                                  "efficiency": 9.75 / point["ranks"]} for point in self.points()]
        self.open(self.study)
        self.assertEqual(self.value("[...document.querySelectorAll('select')].map((s) => s.options.length)"), [2, 2])
        self.choose(0, "2048 in, 256 out")
        self.assertIn("3.71", self.text("#summary"))
        self.assertEqual(self.rows(".main-table")[0][2][1], str(self.points(2048)[0]["output_throughput"]))
        self.choose(1, "64")
        self.assertEqual(self.text("#summary"), "No point was measured with these settings.")
        self.assertEqual(self.ids(), [])
        self.choose(0, "512 in, 128 out")
        self.assertIn("9.75", self.text("#summary"))
        self.assertEqual(self.ids(), FIGURES)

    def test_accessible(self):
        self.open(self.study)
        nodes = self.browser.call("Accessibility.getFullAXTree")["nodes"]
        seen = [node for node in nodes if not node["ignored"]]
        drawings = [node for node in seen if node["role"]["value"] == "image"]
        self.assertEqual(len(drawings), 4 + 3 + 3)
        for node in drawings:
            self.assertRegex(node["name"]["value"], r"^Figure \d\. .{100,}", "the figure's title and words")
        for role in ("button", "combobox", "figure", "table", "region"):
            some = [node for node in seen if node["role"]["value"] == role]
            self.assertTrue(some, role)
            self.assertEqual([node for node in some if not node.get("name", {}).get("value")], [], role)
        self.assertEqual(self.count("figure"), self.count("figure details table:first-of-type caption") and 6)
        self.assertEqual(self.count("table"), self.count("table > caption"))
        self.assertEqual(self.count("th"), self.count("th[scope]"))
        self.assertEqual(self.count("figure:not(:has(details table))"), 0)
        self.browser.press("Tab")
        self.assertEqual(self.value("document.activeElement.id"), "choice-0")
        self.browser.press("Tab")
        self.browser.press("Tab")
        self.browser.press("Enter")
        self.wait("document.querySelector('#speedup details').open")

    def test_widths(self):
        self.open(self.study)
        for width in (360, 768, 1280, 1920):
            self.fits(width)
        self.value("document.querySelectorAll('details').forEach((details) => details.open = true)")
        self.fits(360)

    def test_print(self):
        self.open(self.study)
        self.scheme("dark")
        pdf = base64.b64decode(self.browser.call("Page.printToPDF", preferCSSPageSize=True)["data"])
        self.assertTrue(pdf.startswith(b"%PDF"))
        self.assertIn(len(re.findall(rb"/Type\s*/Page\b", pdf)), range(3, 8))
        self.browser.call("Emulation.setEmulatedMedia", media="print",
                          features=[{"name": "prefers-color-scheme", "value": "dark"}])
        ground = self.value("getComputedStyle(document.documentElement).getPropertyValue('--ground')")
        self.assertEqual(ground.strip(), "#ffffff")
        self.assertEqual(self.value("[...document.querySelectorAll('figure, svg')].filter((element) => "
                                    "getComputedStyle(element).breakInside !== 'avoid').length"), 0)
        self.assertEqual(self.value("getComputedStyle(document.querySelector('.tools')).display"), "none")
        self.browser.call("Emulation.setEmulatedMedia", media="", features=[])

    def on_paper(self, study):
        """The printed page, one long sheet of A4's width."""
        self.open(study)
        self.size(680, 1000)
        self.browser.call("Emulation.setEmulatedMedia", media="print")
        self.value("dispatchEvent(new Event('beforeprint'))")

    def test_pages(self):
        """No figure is higher than a page, the first page is filled, folded tables are printed and fit."""
        big = make_synthetic_study.make_study(ranks=range(1, 9), batches=[2 ** i for i in range(12)],
                                              lengths=((512, 128),), n_repeats=1)
        for study in (self.study, big):
            self.on_paper(study)
            self.assertLess(max(self.value("[...document.querySelectorAll('figure')].map((figure) => "
                                           "figure.getBoundingClientRect().height)")), 1000)
            bottoms = self.value("[...document.querySelectorAll('.figures > *')].map((one) => "
                                 "one.getBoundingClientRect().bottom)")
            self.assertGreater(max(bottom for bottom in bottoms if bottom <= 1000), 850)
            self.assertEqual(self.count(".appendix table"), self.count("details table"))
            self.assertLessEqual(max(self.value("[...document.querySelectorAll('.appendix table')].map((table) => "
                                                "table.getBoundingClientRect().width)")), 680)
            self.value("dispatchEvent(new Event('afterprint'))")
            self.assertEqual(self.count(".appendix, .filler"), 0)
            self.browser.call("Emulation.setEmulatedMedia", media="")

    def test_two_starts_that_differ(self):
        study = make_synthetic_study.make_study(ranks=(1, 2), batches=(8,), lengths=((512, 128),))
        study["points"][1]["speedup_interval"] = [0, 12.5]
        self.open(study)
        self.assertRegex(self.text("#summary"), "^2 . Synthetic GPU give [0-9.]+ times the output tokens/s of one.*"
                         "These are two starts of the engine, which differ too much for an interval that tells "
                         r"anything: it is 0\.00 to 12\.50\. Three starts")
        self.assertIn("0.00 to 12.50\xa0\u2020", self.text(".main-table"))
        self.assertIn("tells nothing", self.text(".main-table caption"))
        self.assertIn("One whisker reaches beyond the axes, and ends there with an arrowhead.",
                      self.text("#speedup-words"))
        study["points"][1]["speedup_interval"] = None
        self.open(study)
        self.assertIn("tells anything: it has no end.", self.text("#summary"))
        study["points"][1]["speedup_interval"] = [0, 12.5]
        for run in study["points"][1]["runs"]:
            run["start"] = run["repeat"] + 7 * run["start"]  # four starts may have intervals as wide
        self.open(study)
        self.assertIn("(0.00 to 12.50) times", self.text("#summary"))

    def test_shared_cores(self):
        """CPU ranks share cores: no comparison with twice the hardware."""
        self.study["machine"]["device"] = "cpu"
        self.open(self.study)
        self.assertEqual(self.ids(), ["speedup", "latency", "limit", "time"])
        self.assertIn("share the cores of one machine, so that 1 is ideal", self.text("#summary"))
        self.assertNotIn("efficiency", self.text("#summary"))
        self.assertNotIn("Efficiency", self.text(".main-table"))
        self.assertEqual(self.count("#time .wide .ideal"), 0)
        self.assertIn("same cores", self.text("#speedup .wide"))

    def test_contrast(self):
        big = make_synthetic_study.make_study(ranks=(1, 2), batches=[2 ** i for i in range(12)], lengths=((512, 128),))
        self.open(big)
        for scheme in ("light", "dark"):
            self.scheme(scheme)
            for what, contrast, least in self.value(CONTRASTS):
                self.assertGreaterEqual(contrast, least, f"{scheme}: {what}")

    def test_looks_differ(self):
        """Also without colour: no two series share both marker and dashes."""
        self.open(make_synthetic_study.make_study(ranks=(1, 2), batches=[2 ** i for i in range(12)],
                                                  lengths=((512, 128),)))
        looks = self.value("""[...document.querySelectorAll("#efficiency .wide .line")].map((line) => {
          let mark = line.nextElementSibling;
          while (!mark.matches(".mark")) mark = mark.nextElementSibling;
          const numbers = mark.getAttribute("d").match(/[-0-9.]+/g).map(Number), [x, y] = numbers;
          return [line.getAttribute("stroke-dasharray"), ...numbers.map((n, i) => Math.round(n - (i % 2 ? y : x)))]
            .join(" ");
        })""")
        self.assertEqual(len(looks), 12)
        self.assertEqual(len(set(looks)), 12)

    def test_much_data(self):
        self.open(make_synthetic_study.make_study(ranks=range(1, 9), batches=[2 ** i for i in range(12)],
                                                  lengths=((512, 128),), n_repeats=1))
        self.assertEqual(self.count("#efficiency .wide .datum"), 96)
        names = self.value("""[...document.querySelectorAll("#speedup .wide .series-name")].map((name) => {
          const box = name.getBoundingClientRect();
          return [box.left, box.right, box.top, box.bottom];
        })""")
        self.assertEqual(len(names), 12)
        for i, (left, right, top, bottom) in enumerate(names):
            for other in names[:i]:
                is_apart = left >= other[1] or right <= other[0]
                self.assertTrue(is_apart or top >= other[3] - 3 or bottom <= other[2] + 3, "names cover each other")
        self.fits(360)

    def test_little_data(self):
        one = make_synthetic_study.make_study(ranks=(2,), batches=(8,), lengths=((512, 128),))
        for key in ("limit", "time_us", "time_us_by_rank", "time_us_prefill", "losses", "intervals", "slowest"):
            del one["points"][0][key]
        one.update(machine={"device": "cpu"}, predictions=[], skipped=[])
        self.open(one)
        self.assertEqual(self.ids(), ["latency"])
        self.assertRegex(self.text("#summary"), r"^2 CPU ranks give [0-9,]+ output tokens/s at batch 8")
        self.assertEqual(self.count("[aria-labelledby=not-shown] li"), 5)

    def test_one_batch_of_offered_load(self):
        study = make_synthetic_study.make_study(ranks=(1, 2), batches=(8,), lengths=((512, 128),))
        for point in study["points"]:
            point["request_rate"] = point.pop("batch")
            point["limit"].update(running=7.5, offered_share=0.875)
        self.open(study)
        self.assertEqual(self.ids(), FIGURES)
        self.assertRegex(self.text("main"), r"Requests runningOf the offered load.*7\.50087\.5\s%")
        self.assertIn("with 8 requests/s", self.text("#summary"))

    def test_all_skipped(self):
        self.study.update(points=[], predictions=[])
        self.open(self.study)
        self.assertEqual(self.text("#summary"), "No point was measured: the only one was skipped.")
        self.assertEqual(self.ids(), [])
        self.assertIn(self.study["skipped"][0]["reason"], self.text("main"))

    def test_nothing_known(self):
        for study in ({}, {"points": [None, 3, "x", {}, {"ranks": "two", "speedup": [], "intervals": 7}],
                           "skipped": {"a": 1}, "machine": [], "model": "x", "predictions": [{}]},
                      {"points": [{"ranks": 1, "batch": 4, "output_throughput": None, "median_tpot_ms": None,
                                   "time_us": None, "limit": {"output_throughput": None, "share": None}}]}):
            self.open(study)
            self.assertEqual(self.ids(), [])
            self.assertIn("No point was measured", self.text("#summary"))

    def test_hostile_names(self):
        study = self.study
        study["model"]["name"] = study["command"] = study["machine"]["cpu"] = HOSTILE
        study["machine"]["devices"] = [HOSTILE] * 4
        study["skipped"][0]["reason"] = HOSTILE + "x" * 20000
        study["points"][0]["warnings"] = [HOSTILE]
        for point in study["points"][:3]:
            point["options"] = {HOSTILE.strip("\0"): HOSTILE, "</select>": "y" * 5000}
        self.open(study)
        self.assertNotEqual(self.value("document.title"), "taken")
        self.assertEqual(self.count("script"), 2)
        self.assertEqual(self.count("img"), 0)
        self.assertIn(HOSTILE, self.text("dl.facts code"))
        self.assertIn(HOSTILE, self.text("[aria-labelledby=warnings] li"))
        self.assertIn("x" * 20000, self.text("[aria-labelledby=skipped]"))
        self.fits(360)

    def test_svg_file(self):
        """A figure alone needs nothing from the page, and has no style that other programs do not support."""
        self.open(self.study)
        for scheme, ground in (("light", "rgb(255, 255, 255)"), ("dark", "rgb(20, 24, 27)")):
            self.scheme(scheme)
            for name in self.ids():
                content = self.value(f"yokeReport.svgOf({name!r})")
                tree = xml.etree.ElementTree.fromstring(content)
                self.assertIn(tree.attrib["width"], ("576", "1136"))
                self.assertEqual(tree.find("{*}rect").attrib["fill"], ground)
                self.assertNotRegex(content, r"var\(|class=|<style|oklch|undefined|NaN")
        self.assertIn("batch 256", content)
        self.assertRegex(self.value("(() => { try { yokeReport.svgOf('x'); } catch (e) { return e.message; } })()"),
                         "no figure x: there are speedup, ")

    def test_files(self):
        self.open(self.study)
        folder = os.path.join(harness.TESTS_DIR, "..", "runtime", "study", "report")
        for name in sorted(os.listdir(folder)):
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                content = file.read()
            self.assertTrue(content.isascii(), name)
            self.assertNotRegex(content, r"innerHTML|insertAdjacentHTML|document\.write|eval\(|\bon\w+=", name)
            self.assertNotRegex(content.replace("http://www.w3.org/2000/svg", ""), "https?://", name)
            self.assertLessEqual(max(map(len, content.splitlines())), 120, name)


if __name__ == "__main__":
    page_case.main()

#!/usr/bin/env python3
"""Takes a figure out of a study's report.html as an SVG file of its own, for a README or a paper. Needs Chromium."""

import argparse
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "e2e"))
import browser  # noqa: E402, what drives Chromium in tests


def take(tab, arguments):
    tab.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": arguments.scheme}])
    tab.open(f"file://{os.path.abspath(arguments.report)}")
    tab.wait("window.yokeReport !== undefined")
    chosen = [part for part in arguments.settings.split(";") if part]
    for i, value in enumerate(chosen):
        tab.value(f"""(() => {{
          const control = document.getElementById("choice-{i}");
          control.value = {value!r};
          control.dispatchEvent(new Event("change"));
        }})()""")
    return tab.value(f"yokeReport.svgOf({arguments.figure!r}, {arguments.width})")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("report", help="report.html of a study")
    parser.add_argument("--output", required=True, help="the SVG file to write")
    parser.add_argument("--figure", default="speedup", help="speedup (default), efficiency, latency, limit, time or "
                        "losses")
    parser.add_argument("--width", type=int, default=620, help="in pixels (620)")
    parser.add_argument("--scheme", choices=("light", "dark"), default="light", help="its colours (light)")
    parser.add_argument("--settings", default="", help="what to choose in the report's lists, in their order and "
                        "separated by semicolons: '512 in, 100 out;256'")
    arguments = parser.parse_args()
    path = browser.find()
    if not path:
        sys.exit("no Chromium is installed: apt-get install chromium-headless-shell")
    tab = browser.Browser(path)
    try:
        content = take(tab, arguments)
    except browser.Failure as failure:
        sys.exit(str(failure))
    finally:
        tab.close()
    with open(arguments.output, "w", encoding="utf-8") as file:
        file.write(content)


if __name__ == "__main__":
    main()

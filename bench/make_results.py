#!/usr/bin/env python3
"""Writes bench/RESULTS.md from bench/results/*.json, and with --check reports where the page differs from them.

  python3 bench/make_results.py [--check]

To add a figure to the page: add or replace a file under bench/results with machine, driver, commit, command, medians
and spreads; name it in a table of bench/results_page, run this program and commit all three. Errors: a file that no
table reads, a file without machine and commit, a page of more than 250 lines.
"""

import argparse
import difflib
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

from results_page import kernels, models, page, system  # noqa: E402

MOST_LINES = 250
ORDER = (models.add_speed, models.add_studies, system.add_serving, system.add_single_figures, kernels.add_gemm,
         kernels.add_experts, kernels.add_expert_formats, kernels.add_latent, kernels.add_gated_delta,
         kernels.add_attention, kernels.add_wide_attention, kernels.add_all_reduce, kernels.add_sampling,
         models.add_accuracy, models.add_loading, models.add_quantising, system.add_cpu, system.add_tests)
OPENING = (
    "The present figures, written by `python3 bench/make_results.py` from `bench/results`: change the files, not this "
    "page. State: the commit that was measured; the link leads to its figures, with spreads, more points and the "
    "whole command. Unless stated otherwise: driver 580.159.04, CUDA 13.0, float16, medians, programs of "
    "`build/release/bin`; DIR: `scripts/make_random_model.py --preset MODEL`, random AWQ weights. Experiments: "
    "[log](log/2026-12.md).")


def make_page(folder):
    """The page as text, and the faults of the files and the page, each as a line of text."""
    results = page.Results(folder)
    made = page.Page("Results")
    made.paragraph(OPENING)
    for add in ORDER:
        add(made, results)
    text = made.text()
    problems = [f"{name}: no table of bench/results_page reads it" for name in results.unread()]
    n_lines = text.count("\n")
    if n_lines > MOST_LINES:
        problems.append(f"RESULTS.md: {n_lines} lines, more than {MOST_LINES}")
    return text, problems


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; fail where the page differs")
    parser.add_argument("--root", default=HERE, help="the folder of RESULTS.md and results [bench]")
    arguments = parser.parse_args()
    path = os.path.join(arguments.root, "RESULTS.md")
    try:
        text, problems = make_page(os.path.join(arguments.root, "results"))
    except (KeyError, TypeError, ValueError, OSError) as error:
        sys.exit(f"make_results.py: {type(error).__name__}: {error}")
    if arguments.check:
        with open(path, encoding="utf-8") as file:
            problems += list(difflib.unified_diff(file.read().split("\n"), text.split("\n"), "RESULTS.md",
                                                  "the files' page", lineterm="", n=0))
    else:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    for problem in problems:
        print(problem, file=sys.stderr)
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()

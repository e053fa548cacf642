#!/usr/bin/env python3
"""Writes study_stats.inc, next to this file: numbers of scipy that runtime/study/stats.c is compared with.

    python3 -m venv VENV && VENV/bin/pip install scipy && VENV/bin/python tests/golden/make_study_stats.py
"""

import os

import numpy
import scipy
from scipy import optimize, stats

CONFIDENCE = 0.95
SAMPLES = [
    ([100.0, 101.0], [50.0, 50.5]),
    ([812.1, 815.9, 809.7], [430.2, 428.8, 431.0]),
    ([12.0, 12.5, 11.8, 12.1, 12.3], [10.1, 9.7, 10.4, 10.0, 9.9]),
    ([1.5, 1.5, 1.5001], [3.0, 3.1]),
    ([2000.0, 1990.0], [400.0, 402.0, 401.0, 399.5, 400.5, 398.0, 403.0]),
]


def fieller(a, b):
    """The set of r for which a - r b does not differ from 0, by a search for its ends, without a formula for the
    roots."""
    a, b = numpy.array(a), numpy.array(b)
    ratio = a.mean() / b.mean()
    # Welch's degrees of freedom at the estimate, by scipy for the samples a and r b.
    freedom = stats.ttest_ind(a, ratio * b, equal_var=False).df
    t = stats.t.ppf(0.5 + CONFIDENCE / 2, freedom)

    def excess(r):
        error = numpy.sqrt(stats.sem(a) ** 2 + r ** 2 * stats.sem(b) ** 2)
        return abs(a.mean() - r * b.mean()) - t * error

    low = optimize.brentq(excess, 0, ratio, xtol=1e-15, rtol=1e-14)
    high = optimize.brentq(excess, ratio, 100 * ratio, xtol=1e-15, rtol=1e-14)
    return low, high


def literal(values):
    return "{" + ", ".join(repr(float(value)) for value in values) + "}"


def main():
    lines = [f"/* Made by make_study_stats.py with scipy {scipy.__version__}. */", "", "static const struct {",
             "  double confidence, freedom, t;", "} quantiles[] = {"]
    for confidence in (0.5, 0.9, 0.95, 0.99):
        for freedom in (0.7, 1, 1.37, 2, 3, 5, 9.25, 30, 250, 10000):
            t = stats.t.ppf(0.5 + confidence / 2, freedom)
            lines.append(f"    {{{confidence}, {freedom}, {float(t)!r}}},")
    lines += ["};", "", "static const struct {", "  double a[8], b[8];", "  size_t n_a, n_b;",
              "  yk_interval mean, ratio;", "} samples[] = {"]
    for a, b in SAMPLES:
        mean = stats.t.interval(CONFIDENCE, len(a) - 1, loc=numpy.mean(a), scale=stats.sem(a))
        lines += [f"    {{{literal(a)},", f"     {literal(b)},", f"     {len(a)}, {len(b)},", f"     {literal(mean)},",
                  f"     {literal(fieller(a, b))}}},"]
    lines.append("};")
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "study_stats.inc"), "w",
              encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


main()

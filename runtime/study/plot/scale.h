/* scale.h - maps numbers to pixels, chooses ticks of axes, and formats numbers. */
#ifndef YK_STUDY_PLOT_SCALE_H
#define YK_STUDY_PLOT_SCALE_H

#include <stdbool.h>
#include <stddef.h>

enum { YK_MAX_TICKS = 64, YK_NUMBER_TEXT = 40 };

typedef struct yk_scale {
  bool is_log;
  double low, high; /* numbers */
  double from, to;  /* pixels of low and high */
} yk_scale;

typedef struct yk_ticks {
  double at[YK_MAX_TICKS];
  size_t n;
} yk_ticks;

/* Formats a number; returns text. */
typedef const char *(*yk_number_format)(double value, char text[YK_NUMBER_TEXT]);

/* yk_scale_at - the place of a value on the axis. */
double yk_scale_at(const yk_scale *scale, double value);

/* yk_ticks_* - linear: about `most` ticks, at 1, 2, 2.5, 5 times a power of ten; log: at factors of powers of ten,
 *   fewer for wide ranges; doubled: powers of two. */
void yk_ticks_linear(double low, double high, double most, yk_ticks *out);
void yk_ticks_log(double low, double high, yk_ticks *out);
void yk_ticks_doubled(double low, double high, yk_ticks *out);
void yk_ticks_add(yk_ticks *ticks, double value); /* keeps the first YK_MAX_TICKS */

/* yk_ticks_thin - keep as many ticks as fit with their labels: the last one, then from the first on. */
void yk_ticks_thin(yk_ticks *ticks, const yk_scale *scale, yk_number_format format);

/* yk_format_readable - four digits, or all digits before the point of a larger number, with commas: "0.1235",
 *   "12,345". */
const char *yk_format_readable(double value, char text[YK_NUMBER_TEXT]);
const char *yk_format_times(double value, char text[YK_NUMBER_TEXT]);         /* "1.65" */
const char *yk_format_percent(double value, char text[YK_NUMBER_TEXT]);       /* "82.5 %" of 0.825 */
const char *yk_format_whole_percent(double value, char text[YK_NUMBER_TEXT]); /* "82 %" */
const char *yk_format_percents(double value, char text[YK_NUMBER_TEXT]);      /* "82": the axis gives the unit */

#endif

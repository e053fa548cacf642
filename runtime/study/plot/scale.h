/* scale.h - numbers to pixels, the ticks of axes, and numbers as words. */
#ifndef YK_STUDY_PLOT_SCALE_H
#define YK_STUDY_PLOT_SCALE_H

#include <stdbool.h>
#include <stddef.h>

enum { YK_MAX_TICKS = 64, YK_NUMBER_TEXT = 40 };

typedef struct yk_scale {
  bool is_log;
  double low, high; /* numbers */
  double from, to;  /* their pixels */
} yk_scale;

typedef struct yk_ticks {
  double at[YK_MAX_TICKS];
  size_t n;
} yk_ticks;

/* Writes a number; returns text. */
typedef const char *(*yk_number_format)(double value, char text[YK_NUMBER_TEXT]);

double yk_scale_at(const yk_scale *scale, double value);

/* yk_ticks_* - linear: about most of them, at 1, 2, 2.5, 5 times a power of ten; log: at 1, 2, 5 or powers of ten;
 *   doubled: powers of two. */
void yk_ticks_linear(double low, double high, double most, yk_ticks *out);
void yk_ticks_log(double low, double high, yk_ticks *out);
void yk_ticks_doubled(double low, double high, yk_ticks *out);
void yk_ticks_add(yk_ticks *ticks, double value); /* the first YK_MAX_TICKS */

/* yk_ticks_thin - keep as many as fit beside each other with their labels: the last one, then from the first on. */
void yk_ticks_thin(yk_ticks *ticks, const yk_scale *scale, yk_number_format format);

/* yk_format_readable - four digits, or all of a larger number before its point, with commas: "0.1235", "12,345". */
const char *yk_format_readable(double value, char text[YK_NUMBER_TEXT]);
const char *yk_format_times(double value, char text[YK_NUMBER_TEXT]);         /* "1.65" */
const char *yk_format_percent(double value, char text[YK_NUMBER_TEXT]);       /* "82.5 %" of 0.825 */
const char *yk_format_whole_percent(double value, char text[YK_NUMBER_TEXT]); /* "82 %" */
const char *yk_format_percents(double value, char text[YK_NUMBER_TEXT]);      /* "82": the axis says of what */

#endif

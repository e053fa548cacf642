/* values.h - lists of values in a sweep's notation: "1,2,4", "1-256*2" (1, 2, 4 ... 256), "8-64+8" (8, 16, ... 64),
 * "1-4" (1, 2, 3, 4), and any of these separated by commas. */
#ifndef YK_STUDY_VALUES_H
#define YK_STUDY_VALUES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

enum { YK_VALUES_MAX = 4096 }; /* in one list */

typedef struct yk_values {
  double *at; /* [n], owned; all different, in the order of the text */
  size_t n;
} yk_values;

/* yk_values_parse - parse the values of a text, each in [min, max], above 0, and whole if is_whole. Replaces the
 *   contents of *out; free with yk_values_free.
 *   Errors: YK_E_INVAL with the form or the range and the found text, YK_E_NOMEM; *out is then empty. Thread: any. */
yk_status yk_values_parse(const char *text, double min, double max, bool is_whole, yk_values *out, yk_err *err);
void yk_values_free(yk_values *values);

/* yk_values_is_range - whether a text is a range of whole numbers ("1-256*2") rather than a literal value. */
bool yk_values_is_range(const char *text);

#endif

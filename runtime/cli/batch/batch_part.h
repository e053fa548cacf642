/* batch_part.h - a part of a batch: one of several runs, on different machines, that share an input.
 *
 * Line n of the input, from 1, belongs to part (n - 1) mod count + 1. The rule needs no index of the input, does not
 * change when lines are appended, and gives every part its share of an input that is sorted by length. Seeds and hashes
 * depend on the line's number in the whole input, so that a part's results equal the results of a run without parts. */
#ifndef YK_CLI_BATCH_PART_H
#define YK_CLI_BATCH_PART_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

typedef struct yk_batch_part {
  int32_t number, count; /* number 1 .. count; count 0: one run for all lines */
} yk_batch_part;

/* yk_batch_part_parse - "3/16" into a yk_batch_part, for an option. Errors: YK_E_INVAL. */
yk_status yk_batch_part_parse(void *part, const char *text, yk_err *err);

/* yk_batch_part_has - whether a line belongs to the part. */
bool yk_batch_part_has(const yk_batch_part *part, int64_t line);

/* yk_batch_part_of - the number of the part that a line belongs to. count: at least 1. */
int32_t yk_batch_part_of(int32_t count, int64_t line);

/* yk_batch_part_path - replace "{part}" in the name of an output file by part and count, "03-of-16", in malloc'd memory
 *   that the caller frees; other names are copied. Errors: YK_E_INVAL if there is no part to name; YK_E_NOMEM. */
yk_status yk_batch_part_path(const yk_batch_part *part, const char *pattern, char **path, yk_err *err);

#endif

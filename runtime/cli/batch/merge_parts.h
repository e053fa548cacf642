/* merge_parts.h - joins the outputs of a batch's parts into one file, in the order of the input.
 *
 * The results carry hashes of their input lines that start from a hash of the model and the options. Undone over the
 * line's own bytes (base/hash.h), a result's hash gives that start. All results must agree on one start: this finds
 * results of another input, model or options without the model. One result alone cannot disagree. */
#ifndef YK_CLI_BATCH_MERGE_PARTS_H
#define YK_CLI_BATCH_MERGE_PARTS_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "base/strbuf.h"

typedef struct yk_merge_place yk_merge_place;

typedef struct yk_merge {
  const char *input_path;
  const char *const *part_paths; /* [n_parts] outputs of runs, with results in any order */
  size_t n_parts;
  /* Filled by yk_merge_read; free with yk_merge_free. */
  int *part_fds;          /* [n_parts] */
  yk_merge_place *places; /* [n_places] by line: where its result is */
  int64_t n_places;
  int64_t n_results, n_failed; /* results; errors among them */
  int64_t *missing;            /* [n_missing] lines without a result, in order */
  int64_t n_missing;
} yk_merge;

/* yk_merge_read - read the input and all parts. *merge must be freed even after an error.
 *   Errors: YK_E_IO; YK_E_NOMEM; YK_E_INVAL if a part is still being written; YK_E_FORMAT if a part has anything but
 *   results of this input, or a line has two results. Lines without a result are not an error here. Thread: any. */
yk_status yk_merge_read(yk_merge *merge, yk_err *err);

/* yk_merge_write - write all results, in the order of the input, to path, "-" being standard output. A file appears
 *   whole or not at all: it is written as path.part. Errors: YK_E_IO, also if path is no regular file; YK_E_INVAL if
 *   path is the input or a part; those of memory. Thread: any. */
yk_status yk_merge_write(const yk_merge *merge, const char *path, yk_err *err);

/* yk_merge_list - append the lines of lines[n] as ranges, "3-5, 19, 35", at most max_ranges of them. Thread: any. */
void yk_merge_list(const int64_t *lines, size_t n, size_t max_ranges, yk_strbuf *out);

void yk_merge_free(yk_merge *merge);

#endif

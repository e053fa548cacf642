/* batch_files.h - the input and output files of a batch, and the results of an earlier run in the output.
 *
 * A result is one line, written by one write(). An interrupted run therefore leaves whole lines and at most one torn
 * line at the end; a power failure may also leave zero bytes there, for data that had not reached the disk. The next
 * run needs no other record: it reads the results, truncates the file after the last complete result, and computes the
 * missing results. Blank lines are ignored. */
#ifndef YK_CLI_BATCH_FILES_H
#define YK_CLI_BATCH_FILES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/jsonl.h"
#include "cli/batch/batch_part.h"

enum { YK_BATCH_LINE_MAX_BYTES = 64 << 20 }; /* of the input */

typedef struct yk_batch_files {
  const char *input_path, *output_path; /* "-": standard input, standard output */
  yk_batch_part part;                   /* the lines to answer */
  bool overwrite;                       /* start from the beginning instead of resuming */
  /* start value for hashes of lines: stands for model and options, see batch_identity.h */
  uint32_t hash_start;
  int input_fd, output_fd;
  yk_jsonl_reader reader;
  yk_jsonl_writer writer;
  bool is_indexed; /* the input is a file: the following fields are valid */
  /* [n_lines] hash of each line that is still to be done, 0 for done and blank ones; owned */
  uint32_t *pending;
  int64_t n_lines, n_to_answer; /* number of lines; of the part's lines that are not blank, done or not */
  int64_t n_done, n_failed;     /* results in the output; errors among them */
} yk_batch_files;

/* yk_batch_files_open - open and lock both files. If the output has results, check that they belong to the input, the
 *   model and the options.
 *   Free with yk_batch_files_close, even after an error.
 *   Errors: YK_E_IO; YK_E_INVAL if a run cannot be resumed (the input is not a file, both are one file, another run has
 *   locked the output); YK_E_FORMAT if the output contains anything else than results of this input: it is
 *   unchanged. */
yk_status yk_batch_files_open(yk_batch_files *files, yk_err *err);
void yk_batch_files_close(yk_batch_files *files);

/* yk_batch_files_skips - whether the line belongs to another part, or an earlier run has answered it. */
bool yk_batch_files_skips(const yk_batch_files *files, int64_t line);

#endif

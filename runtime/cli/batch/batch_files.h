/* batch_files.h - the two files of a batch, and what an earlier run has left in the second.
 *
 * A result is one line, written by one write(). Whoever stops a run therefore leaves whole lines and at most one torn
 * one at the end; a power cut may also leave bytes of zero there, for what had not reached the disk. The next run needs
 * no other record: it reads the results, cuts off what follows the last of them, and does the rest. Blank lines are no
 * harm. */
#ifndef YK_CLI_BATCH_FILES_H
#define YK_CLI_BATCH_FILES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/jsonl.h"

typedef struct yk_batch_files {
  const char *input_path, *output_path; /* "-": standard input, standard output */
  bool overwrite;                       /* start anew instead of resuming */
  uint32_t hash_start;                  /* of lines: stands for model and options, see batch_identity.h */
  int input_fd, output_fd;
  yk_jsonl_reader reader;
  yk_jsonl_writer writer;
  bool is_indexed;              /* the input is a file: what follows is known */
  uint32_t *pending;            /* [n_lines] hash of each line that is still to be done, 0 for others; owned */
  int64_t n_lines, n_to_answer; /* lines that are not blank, done or not */
  int64_t n_done, n_failed;     /* results in the output, and those of them that are errors */
} yk_batch_files;

/* yk_batch_files_open - open and lock both, and where the output holds results, check that they belong to the input,
 *   the model and the options.
 *   Free with yk_batch_files_close whatever is returned.
 *   Errors: YK_E_IO; YK_E_INVAL where a run cannot be resumed (the input is no file, both are one, another run has the
 *   output); YK_E_FORMAT where the output holds something else than results of this input: it is left as it was. */
yk_status yk_batch_files_open(yk_batch_files *files, yk_err *err);
void yk_batch_files_close(yk_batch_files *files);

/* yk_batch_files_is_done - whether an earlier run has answered the line. */
bool yk_batch_files_is_done(const yk_batch_files *files, int64_t line);

#endif

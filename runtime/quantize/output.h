/* output.h - the directory that a quantised checkpoint is written to, so that a run that was stopped goes on.
 *
 * A shard is written in a folder of its rank's, DIR/quantize.part/N, and moved to its place once it is whole: which
 * shards are there says which are finished. DIR/quantize.part also holds what the run was begun with (run.json).
 * config.json comes last, and then the folder goes: a directory that another program opens as a checkpoint is
 * complete. */
#ifndef YK_QUANTIZE_OUTPUT_H
#define YK_QUANTIZE_OUTPUT_H

#include "loader/safetensors/dir.h"
#include "quantize/quantize_plan.h"

typedef struct yk_quantize_output {
  const char *dir; /* the caller's */
  char part_dir[YK_PATH_BYTES];
  int lock_fd; /* of part_dir; -1: none */
} yk_quantize_output;

/* yk_quantize_output_begin - make the directory, or go on with what is in it. device: what searches for scales.
 *   Errors: YK_E_IO (another run is writing it, it holds something else, or what was begun with other options or
 *   another source: named), YK_E_NOMEM. */
yk_status yk_quantize_output_begin(const yk_quantize_options *options, yk_device_kind device, yk_quantize_output *out,
                                   yk_err *err);

/* yk_quantize_output_end - unlock the directory. Allowed after an error, too. */
void yk_quantize_output_end(yk_quantize_output *output);

/* yk_quantize_output_has - whether a shard is finished. */
bool yk_quantize_output_has(const yk_quantize_output *output, const char *file);

/* yk_quantize_output_folder - a rank's folder, empty, for the next shard. Errors: YK_E_IO. */
yk_status yk_quantize_output_folder(const yk_quantize_output *output, int rank, char folder[YK_PATH_BYTES],
                                    yk_err *err);

/* yk_quantize_output_take - the shard in the rank's folder becomes DIR/file. Errors: YK_E_IO. */
yk_status yk_quantize_output_take(const yk_quantize_output *output, int rank, const char *file, yk_err *err);

/* yk_quantize_output_finish - index, tokenizer, templates and generation settings, config.json; the folder is removed.
 *   Errors: YK_E_IO, YK_E_FORMAT (a file to copy that is longer than such a file can be), YK_E_NOMEM. */
yk_status yk_quantize_output_finish(const yk_quantize_output *output, const yk_quantize_options *options,
                                    const yk_quantize_plan *plan, yk_err *err);

#endif

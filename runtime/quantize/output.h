/* output.h - the output directory of a quantised checkpoint, which allows an interrupted run to continue.
 *
 * Each rank writes a shard in its own folder, DIR/quantize.part/N, and moves the complete shard to DIR: a shard in DIR
 * is finished. DIR/quantize.part also holds the options of the run (run.json). config.json is written last, then the
 * folder is removed: a directory that another program can open as a checkpoint is complete. */
#ifndef YK_QUANTIZE_OUTPUT_H
#define YK_QUANTIZE_OUTPUT_H

#include "loader/safetensors/dir.h"
#include "quantize/quantize_plan.h"

typedef struct yk_quantize_output {
  const char *dir; /* owned by the caller */
  char part_dir[YK_PATH_BYTES];
  int lock_fd; /* lock of part_dir; -1: none */
} yk_quantize_output;

/* yk_quantize_output_begin - create the directory, or continue the run in it. device: the device that searches for
 *   scales.
 *   Errors: YK_E_IO (another run is writing the directory, it holds other files, or its run has other options or
 *   another source, which the message names), YK_E_NOMEM. */
yk_status yk_quantize_output_begin(const yk_quantize_options *options, yk_device_kind device, yk_quantize_output *out,
                                   yk_err *err);

/* yk_quantize_output_end - unlock the directory. Allowed after an error too. */
void yk_quantize_output_end(yk_quantize_output *output);

/* yk_quantize_output_has - whether a shard is finished. */
bool yk_quantize_output_has(const yk_quantize_output *output, const char *file);

/* yk_quantize_output_folder - a rank's folder, empty, for the next shard. Errors: YK_E_IO. */
yk_status yk_quantize_output_folder(const yk_quantize_output *output, int rank, char folder[YK_PATH_BYTES],
                                    yk_err *err);

/* yk_quantize_output_take - move the shard in the rank's folder to DIR/file. Errors: YK_E_IO. */
yk_status yk_quantize_output_take(const yk_quantize_output *output, int rank, const char *file, yk_err *err);

/* yk_quantize_output_finish - write index, tokenizer, templates and generation settings, then config.json; remove the
 *   folder.
 *   Errors: YK_E_IO, YK_E_FORMAT (a file to copy exceeds the limit of its kind), YK_E_NOMEM. */
yk_status yk_quantize_output_finish(const yk_quantize_output *output, const yk_quantize_options *options,
                                    const yk_quantize_plan *plan, yk_err *err);

#endif

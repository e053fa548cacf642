/* output_files.h - what a quantised checkpoint consists of beside its weights. */
#ifndef YK_QUANTIZE_OUTPUT_FILES_H
#define YK_QUANTIZE_OUTPUT_FILES_H

#include "quantize/quantize_plan.h"

/* The tensors that stand for a quantised layer's weight, in the order in which they are written. */
enum { YK_QUANTISED_TENSORS = 3 };

/* yk_quantize_tensors - name, dtype and shape of what becomes of a tensor: one, or YK_QUANTISED_TENSORS. The names of
 *   the latter are malloc'ed, and the caller's. Returns how many; 0: no memory. */
int yk_quantize_tensors(const yk_quantize_plan *plan, const yk_planned_tensor *tensor,
                        yk_tensor out[YK_QUANTISED_TENSORS]);

/* yk_quantize_write_index - dir/model.safetensors.index.json: which tensor is in which file. */
yk_status yk_quantize_write_index(const char *dir, const yk_quantize_plan *plan, yk_err *err);

/* yk_quantize_write_config - dir/config.json with a quantization_config. */
yk_status yk_quantize_write_config(const char *dir, const yk_quantize_plan *plan, yk_err *err);

/* Errors of all: YK_E_IO, YK_E_NOMEM. */

#endif

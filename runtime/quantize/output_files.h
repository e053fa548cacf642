/* output_files.h - the files of a quantised checkpoint other than its weights. */
#ifndef YK_QUANTIZE_OUTPUT_FILES_H
#define YK_QUANTIZE_OUTPUT_FILES_H

#include "quantize/quantize_plan.h"

/* The number of tensors of a quantised layer's weight, in the order in which they are written. */
enum { YK_QUANTISED_TENSORS = 3 };

/* yk_quantize_tensors - name, dtype and shape of the tensors that replace a tensor: one, or YK_QUANTISED_TENSORS. The
 *   names of the latter are malloc'ed; the caller frees them. Returns the number of tensors; 0: no memory. */
int yk_quantize_tensors(const yk_quantize_plan *plan, const yk_planned_tensor *tensor,
                        yk_tensor out[YK_QUANTISED_TENSORS]);

/* yk_quantize_write_index - write dir/model.safetensors.index.json: the file of each tensor. */
yk_status yk_quantize_write_index(const char *dir, const yk_quantize_plan *plan, yk_err *err);

/* yk_quantize_write_config - write dir/config.json with a quantization_config. */
yk_status yk_quantize_write_config(const char *dir, const yk_quantize_plan *plan, yk_err *err);

/* Errors of the two write functions: YK_E_IO, YK_E_NOMEM. */

#endif

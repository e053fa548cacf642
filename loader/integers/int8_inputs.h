/* int8_inputs.h - the tensors that define the quantisation of a layer's inputs. Not for use outside the loader. */
#ifndef YK_LOADER_INT8_INPUTS_H
#define YK_LOADER_INT8_INPUTS_H

#include "loader/model/model_config.h"
#include "loader/safetensors/tensors.h"

/* yk_int8_inputs_begin - sets the parts of view->inputs that the configuration alone defines. Errors: YK_E_UNSUPPORTED
 *   for more inputs than integer sums can hold. */
yk_status yk_int8_inputs_begin(const char *module, const yk_quant_scheme *scheme, yk_weight_view *view, yk_err *err);

/* yk_int8_inputs_read - for static inputs, read input_scale and, if the scheme has zeros, input_zero_point.
 *   Errors: YK_E_FORMAT naming file and tensor, expected and found. */
yk_status yk_int8_inputs_read(const yk_shards *shards, const char *module, const yk_quant_scheme *scheme,
                              yk_weight_view *view, yk_err *err);

#endif

/* block_tensors.h - the tensors of a layer with one-byte weights, 8-bit floats or integers, and a scale per block of
 * outputs and inputs. Not for use outside the loader. */
#ifndef YK_LOADER_BLOCK_TENSORS_H
#define YK_LOADER_BLOCK_TENSORS_H

#include "loader/model/model_config.h"
#include "loader/safetensors/tensors.h"

/* yk_block_tensors_begin - set format, packing and blocks of a view, whose k and n are set, from the configuration's
 *   scheme. */
void yk_block_tensors_begin(const yk_quant_scheme *scheme, yk_weight_view *view);

/* yk_block_tensors_read - complete the view from checked tensors: weight F8_E4M3 or I8 [n, k], and weight_scale or
 *   weight_scale_inv (both are factors), floats [n/group_n, k/group] or [n/group_n, 1, k/group, 1], rounded up. A
 *   single scale may be [1] or have no dimensions; scales per output may be [n].
 *   Errors: YK_E_FORMAT naming file and tensor, expected and found; YK_E_UNSUPPORTED for F8_E5M2. */
yk_status yk_block_tensors_read(const yk_shards *shards, const char *module, const yk_quant_scheme *scheme,
                                yk_weight_view *view, yk_err *err);

#endif

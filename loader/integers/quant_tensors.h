/* quant_tensors.h - the tensors of a quantised layer for each format and packing. Not for use outside the loader. */
#ifndef YK_LOADER_QUANT_TENSORS_H
#define YK_LOADER_QUANT_TENSORS_H

#include "loader/integers/packing.h"

/* yk_quant_suffix - the suffix of the tensor that marks a module as quantised, according to the rows of packings: a
 *   name that only quantised modules have, or "weight" with an 8-bit type; NULL: not quantised. */
const char *yk_quant_suffix(const yk_shards *shards, const char *module);

/* yk_quant_is_blank - whether g_idx is all zeros, which some GPTQ tools write without act order: with desc_act false,
 *   groups are then runs of neighbouring inputs. */
bool yk_quant_is_blank(const yk_tensor *g_idx, yk_packing packing);

/* yk_quant_begin - set format, packing and group of a view, whose k and n are set, from the configuration's scheme.
 *   Errors: YK_E_FORMAT if k or n do not fit group or packing. */
yk_status yk_quant_begin(const char *module, const yk_quant_scheme *scheme, yk_weight_view *view, yk_err *err);

/* yk_quant_read - complete the view from checked tensors. g_idx may be missing if the scheme does not require it.
 *   act_order is set if groups are not runs of neighbouring inputs.
 *   Errors: YK_E_FORMAT naming file and tensor, expected and found; YK_E_NOMEM. */
yk_status yk_quant_read(const yk_shards *shards, const char *module, const yk_quant_scheme *scheme,
                        yk_weight_view *view, yk_err *err);

#endif

/* quant_tensors.h - the tensors of a quantised layer of each format and packing. Not for use outside the loader. */
#ifndef YK_LOADER_QUANT_TENSORS_H
#define YK_LOADER_QUANT_TENSORS_H

#include "loader/integers/packing.h"

/* yk_quant_suffix - the suffix of the tensor that makes a module a quantised one, as the rows of packings say:
 *   a name that only those have, or "weight" where its type is one of 8 bits; NULL: none. */
const char *yk_quant_suffix(const yk_shards *shards, const char *module);

/* yk_quant_is_blank - whether g_idx is all zeros, which some GPTQ tools write where they choose no order: with desc_act
 *   false, groups are then of neighbouring inputs. */
bool yk_quant_is_blank(const yk_tensor *g_idx, yk_packing packing);

/* yk_quant_begin - format, packing and group of a layer of view's k and n, from what the configuration says of it.
 *   Errors: YK_E_FORMAT where k or n do not fit group or packing. */
yk_status yk_quant_begin(const char *module, const yk_quant_scheme *scheme, yk_weight_view *view, yk_err *err);

/* yk_quant_read - the rest of the view, from checked tensors. g_idx may be absent where the scheme does not want it;
 *   act_order where it says more than that groups are of neighbouring inputs.
 *   Errors: YK_E_FORMAT naming file and tensor, expected and found; YK_E_NOMEM. */
yk_status yk_quant_read(const yk_shards *shards, const char *module, const yk_quant_scheme *scheme,
                        yk_weight_view *view, yk_err *err);

#endif

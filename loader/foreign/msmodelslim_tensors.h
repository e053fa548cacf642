/* msmodelslim_tensors.h - the tensors of layers and norms that msmodelslim writes. Not for use outside the loader. */
#ifndef YK_LOADER_MSMODELSLIM_TENSORS_H
#define YK_LOADER_MSMODELSLIM_TENSORS_H

#include "loader/model/model_config.h"
#include "loader/model/weight_names.h"
#include "loader/safetensors/tensors.h"

/* yk_msmodelslim_begin - fill the view of a quantised layer, with k and n set, from the description alone.
 *   Errors: those of yk_quant_begin; YK_E_UNSUPPORTED for more quantised inputs than integer sums can hold. */
yk_status yk_msmodelslim_begin(const char *module, const yk_quant_scheme *scheme, yk_weight_view *view, yk_err *err);

/* yk_msmodelslim_read - complete the view from checked tensors, except for the bias of layers whose inputs are not
 *   STATIC.
 *   Errors: YK_E_FORMAT naming file and tensor, expected and found; YK_E_UNSUPPORTED. */
yk_status yk_msmodelslim_read(const yk_shards *shards, const char *module, const yk_quant_scheme *scheme,
                              yk_weight_view *view, yk_err *err);

/* Tensor names of a role's norm. Quantised layers and float layers may read different norms. */
typedef struct yk_norm_tensors {
  const char *weight, *offset; /* suffixes after the norm's module; offset NULL: no offset, or an offset of zeros */
} yk_norm_tensors;

/* yk_msmodelslim_norm_of - the names for an attention, FFN or final norm.
 *   Errors: YK_E_FORMAT naming file and tensor; YK_E_UNSUPPORTED if layers of both kinds read norms that differ. */
yk_status yk_msmodelslim_norm_of(const yk_model_config *config, const yk_shards *shards, yk_weight_role role, int layer,
                                 yk_norm_tensors *out, yk_err *err);

#endif

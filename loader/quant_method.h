/* quant_method.h - the table of quantisation methods: properties of a method beyond the packing of its tensors.
 * hf/hf_quant_methods.h reads the methods' configurations. Not for use outside the loader. */
#ifndef YK_LOADER_QUANT_METHOD_H
#define YK_LOADER_QUANT_METHOD_H

#include "loader/foreign/msmodelslim_tensors.h"
#include "loader/model/model_config.h"

typedef struct yk_quant_method_row {
  /* The configuration lists for every module whether it is quantised; otherwise the tensors present decide. */
  bool is_described;

  /* begin, read - as yk_quant_begin and yk_quant_read, for a quantised layer. */
  yk_status (*begin)(const char *module, const yk_quant_scheme *scheme, yk_weight_view *view, yk_err *err);
  yk_status (*read)(const yk_shards *shards, const char *module, const yk_quant_scheme *scheme, yk_weight_view *view,
                    yk_err *err);

  /* find_norm - the tensors of an attention, FFN or final norm. NULL: norms have only a weight. */
  yk_status (*find_norm)(const yk_model_config *config, const yk_shards *shards, yk_weight_role role, int layer,
                         yk_norm_tensors *out, yk_err *err);

  /* check_files - check the method's own files against the tensors when a directory is opened. NULL: the method has
   * none. */
  yk_status (*check_files)(const char *dir, const yk_shards *shards, const yk_log *log, yk_err *err);
} yk_quant_method_row;

/* yk_quant_method_row_of - the row of a method, including YK_QUANT_NONE. */
const yk_quant_method_row *yk_quant_method_row_of(yk_quant_method method);

#endif

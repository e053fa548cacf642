/* source.h - all weights that a model uses, as stored in its checkpoint, for any format. */
#ifndef YK_CONVERT_SOURCE_H
#define YK_CONVERT_SOURCE_H

#include "base/log.h"
#include "loader/checkpoint.h"

typedef enum yk_convert_kind {
  YK_CONVERT_VECTOR, /* a norm, the choice correction of a router, or a vector of a gated delta net or of Mamba2 */
  YK_CONVERT_MATRIX  /* the embedding, or the weight of a linear layer, plain or of 4-bit integers */
} yk_convert_kind;

typedef struct yk_convert_item {
  char module[YK_WEIGHT_NAME_BYTES];
  const char *suffix; /* suffix of a vector's tensor, after the module's name; NULL: none */
  yk_weight_role role;
  int32_t layer;
  yk_convert_kind kind;
  yk_vector_view vector;
  yk_weight_view weight;
} yk_convert_item;

typedef struct yk_convert_source {
  yk_checkpoint *checkpoint; /* owned */
  const yk_model_config *config;
  yk_convert_item *items; /* [n_items] embedding, layers, final norm, lm_head unless it is tied to the embedding */
  size_t n_items, n_quantised;
  /* Inputs that share a scale, -1 for all inputs of a layer: the largest group in which all 4-bit layers are exact.
   * Larger groups repeat their scales and zero points. */
  int32_t group_size;
} yk_convert_source;

/* yk_convert_source_open - path: as for yk_checkpoint_open.
 *   Errors: those of yk_checkpoint_open and of reading every weight; YK_E_UNSUPPORTED naming a module whose weight is
 *   neither 16- or 32-bit floats nor 4-bit integers that AWQ's packing can hold, and if there is no 4-bit layer. Close
 *   the source after an error too.
 */
yk_status yk_convert_source_open(const char *path, const yk_log *log, yk_convert_source *out, yk_err *err);
void yk_convert_source_close(yk_convert_source *source);

/* yk_convert_source_find - a module's weight, for experts that of the first expert; or NULL. */
const yk_convert_item *yk_convert_source_find(const yk_convert_source *source, yk_weight_role role, int32_t layer);

/* yk_convert_is_quantised - whether the weight consists of 4-bit integers. */
static inline bool yk_convert_is_quantised(const yk_convert_item *item)
{
  return item->kind == YK_CONVERT_MATRIX && item->weight.format == YK_WEIGHT_AWQ;
}

#endif

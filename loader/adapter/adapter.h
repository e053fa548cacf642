/* adapter.h - a low-rank adapter (LoRA) in a PEFT directory: adapter_config.json and adapter_model.safetensors.
 *
 * For a row x of a module's inputs an adapter adds scale * B (A x) to the module's outputs: A [rank, k], B [n, rank].
 * Adapters may change the linear layers of attention, gated delta nets, Mamba2 and dense feed-forward networks. An
 * adapter that does more, or is of another model, is refused by name. */
#ifndef YK_LOADER_ADAPTER_H
#define YK_LOADER_ADAPTER_H

#include "base/dtype.h"
#include "loader/adapter/adapter_config.h"
#include "loader/model/weight_names.h"

typedef struct yk_adapter yk_adapter;

/* A matrix in the mapped file, row-major, possibly unaligned. */
typedef struct yk_adapter_matrix {
  const void *data;
  yk_dtype dtype;
  int64_t n_rows, n_columns;
} yk_adapter_matrix;

typedef struct yk_adapter_module {
  const char *tensor;  /* name of a's tensor, for errors; lives as long as the adapter */
  yk_weight_role role; /* the first, if roles share the module */
  int32_t layer;
  int32_t rank;
  float scale;
  yk_adapter_matrix a, b; /* [rank, k], [n, rank] of the module */
} yk_adapter_module;

/* yk_adapter_open - check an adapter against a model. config is not kept. max_rank: of any module, at most
 *   YK_ADAPTER_MAX_RANK. Free with yk_adapter_close.
 *   Errors: YK_E_IO, YK_E_FORMAT (naming file and key or tensor, expected and found), YK_E_UNSUPPORTED (an adapter that
 *   cannot be computed, or a rank beyond max_rank), YK_E_NOMEM. Thread: any; afterwards the adapter is constant. */
yk_status yk_adapter_open(const char *dir, const yk_model_config *config, int32_t max_rank, yk_adapter **out,
                          yk_err *err);
void yk_adapter_close(yk_adapter *adapter); /* NULL is allowed */

/* yk_adapter_settle - returns status; but YK_E_IO if the file lost bytes since it was opened. Call before values that
 *   were read are used. */
yk_status yk_adapter_settle(const yk_adapter *adapter, yk_status status, yk_err *err);

/* yk_adapter_find - the module of a role in a layer; NULL: the adapter does not change the role. */
const yk_adapter_module *yk_adapter_find(const yk_adapter *adapter, yk_model_family family, yk_weight_role role,
                                         int32_t layer);

/* yk_adapter_can_change - whether adapters may have a module of the role. */
bool yk_adapter_can_change(yk_weight_role role);

/* yk_adapter_element - an element of a matrix as float32. */
float yk_adapter_element(const yk_adapter_matrix *matrix, int64_t row, int64_t column);

#endif

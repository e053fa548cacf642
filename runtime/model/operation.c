#include "model/operation.h"

#include <stdio.h>

yk_status yk_operation_begin(yk_operations *operations, yk_operation_kind kind, int layer, const char *name,
                             yk_err *err)
{
  atomic_store_explicit(&operations->layer, layer, memory_order_relaxed);
  atomic_store_explicit(&operations->name, name, memory_order_relaxed);
  atomic_fetch_add_explicit(&operations->n_begun, 1, memory_order_relaxed);
  if (atomic_load_explicit(&operations->is_stopped, memory_order_relaxed))
    return yk_err_set(err, YK_E_COMM, "rank %d was stopped because the step had failed", operations->rank);
  if (!operations->profile) return YK_OK;
  yk_timed_operation operation = {.kind = kind, .layer = layer, .name = name};
  yk_status status = yk_step_profile_stamp(operations->profile, operations->dev, &operation, err);
  return yk_operation_name_error(operations, layer, name, status, err);
}

yk_status yk_operation_name_error(const yk_operations *operations, int layer, const char *name, yk_status status,
                                  yk_err *err)
{
  char stage[32] = "";
  if (status == YK_OK) return YK_OK;
  if (operations->stage >= 0) snprintf(stage, sizeof stage, " of stage %d", operations->stage);
  if (layer == YK_OUTSIDE_LAYERS)
    yk_err_prefix(err, "rank %d%s, %s", operations->rank, stage, name);
  else
    yk_err_prefix(err, "rank %d%s, layer %d, %s", operations->rank, stage, layer, name);
  return status;
}

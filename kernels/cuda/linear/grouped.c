/* grouped.c - see grouped.h. */
#include "kernels/cuda/linear/grouped.h"

#include "kernels/cuda/device/state.h"
#include "kernels/cuda/linear/convert.h"
#include "kernels/cuda/linear/input_order.h"
#include "kernels/cuda/linear/linear.h"
#include "kernels/cuda/linear/prepared.h"

const yk_cuda_gemm *yk_cuda_grouped_gemm(const yk_linear *linear)
{
  return linear && linear->layout.n_gemms > 0 ? &linear->layout.gemms[0] : NULL;
}

yk_cuda_grouped_call yk_cuda_grouped_call_of(const yk_linear *linear, const yk_grouped_args *args,
                                             const yk_cuda_grouped_fusion *fusion)
{
  const yk_cuda_gemm *gemm = &linear->layout.gemms[0];
  yk_cuda_grouped_call call = {.gemm = gemm,
                               .weights = linear->memory + gemm->weights,
                               .bias = gemm->has_bias ? linear->memory + gemm->bias : NULL,
                               .matrix_bytes = linear->layout.matrix_bytes,
                               .n_matrices = linear->n_matrices,
                               .next_tile = linear->next_tile,
                               .args = args};
  if (!fusion) return call;
  call.combine = fusion->combine;
  if (!fusion->shared) return call;
  call.shared = yk_cuda_linear_only(fusion->shared, &call.shared_weights);
  call.shared_args = fusion->shared_args;
  return call;
}

/* Permutes x of each slot into the order of its matrix's inputs, in the staging buffer; *args then has a row for each
 * slot. */
static yk_status order_slots(yk_cuda_device *cuda, const yk_linear *linear, yk_grouped_args *args, yk_err *err)
{
  const yk_cuda_gemm *gemm = &linear->layout.gemms[0];
  const yk_cuda_input_order_args order = {.y = args->staging,
                                          .x = args->x,
                                          .rows = args->row_of_slot,
                                          .order = (const int32_t *)(const void *)(linear->memory + gemm->order),
                                          .n_rows = args->max_slots,
                                          .x_size = gemm->x_size,
                                          .k = gemm->k,
                                          .starts = args->starts,
                                          .n_matrices = linear->n_matrices,
                                          .matrix_bytes = linear->layout.matrix_bytes};
  args->x = args->staging;
  args->row_of_slot = NULL;
  args->n_rows = args->max_slots;
  return yk_cuda_check(cuda, yk_cuda_launch_input_order(&order, cuda->stream), "ordering of inputs of slots", err);
}

static yk_status check(const yk_cuda_gemm *gemm, const yk_grouped_args *args, yk_err *err)
{
  if (args->y_stride != yk_cuda_gemm_columns_of_y(gemm))
    return yk_err_set(err, YK_E_INVAL, "linear: a grouped forward on a GPU: expected rows of y %lld apart, found %lld",
                      (long long)yk_cuda_gemm_columns_of_y(gemm), (long long)args->y_stride);
  if (!args->staging && yk_cuda_grouped_staging_bytes(gemm, args->max_slots) > 0)
    return yk_err_set(err, YK_E_INVAL,
                      "linear: a grouped forward on a GPU: expected %lld bytes of staging memory, found none",
                      (long long)yk_cuda_grouped_staging_bytes(gemm, args->max_slots));
  return YK_OK;
}

/* The kernel that permutes slots lets the GEMM begin only after its own wait, so starts are settled. Two forwards of
 * one layer never run at once: the second, or the grouped forward before it, waits for all preceding kernels before it
 * takes tiles. One counter therefore serves all forwards of the layer. */
yk_status yk_cuda_grouped_forward(yk_cuda_device *cuda, const yk_linear *linear, const yk_grouped_args *args,
                                  const yk_cuda_grouped_fusion *fusion, bool starts_are_settled, yk_err *err)
{
  const yk_cuda_gemm *gemm = yk_cuda_grouped_gemm(linear);
  YK_TRY(yk_grouped_check(args, linear->is_grouped, linear->max_tokens, err));
  if (!gemm || args->max_slots == 0) return YK_OK;
  YK_TRY(check(gemm, args, err));
  yk_grouped_args own = *args;
  const bool has_order = gemm->x_size > 0 && gemm->k > 0;
  if (has_order) YK_TRY(order_slots(cuda, linear, &own, err));
  yk_cuda_grouped_call call = yk_cuda_grouped_call_of(linear, &own, fusion);
  call.starts_are_settled = has_order || starts_are_settled;
  YK_TRY(gemm->kind->forward_grouped(cuda, &call, err));
  yk_cuda_activate_args behind = {.y = args->y,
                                  .dtype = cuda->base.dtype,
                                  .y_stride = args->y_stride,
                                  .max_rows = args->max_slots,
                                  .n_rows = args->starts + linear->n_matrices};
  return yk_cuda_activate(cuda, &behind, gemm, err);
}

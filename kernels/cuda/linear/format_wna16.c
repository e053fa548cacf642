/* format_wna16.c - the GEMMs of quantised weights and 16-bit activations (gemm/dense/dense.h) as kinds of GEMM, one for
 * each encoding of the weights. The only file of this folder that calls that GEMM. */
#include "kernels/cuda/linear/format_wna16.h"

#include <stdlib.h>

#include "kernels/cuda/gemm/dense/dense.h"
#include "kernels/cuda/gemm/grouped/grouped.h"
#include "kernels/cuda/gemm/packed_sizes.h"

/* ---- Arithmetic, on any machine ---------------------------------------------------------------------------------- */

yk_gemm_desc yk_gemm_desc_of(const yk_cuda_gemm *gemm)
{
  const yk_activation none = YK_NO_ACTIVATION;
  return (yk_gemm_desc){.k = gemm->k,
                        .n = gemm->n,
                        .group = gemm->key,
                        .dtype = gemm->dtype,
                        .activation = gemm->kind->has_epilogue ? yk_cuda_gemm_activation(gemm) : none,
                        .encoding = (yk_gemm_encoding)gemm->kind->variant,
                        .f32_output = gemm->f32_output || !gemm->kind->has_epilogue,
                        .k_slices = gemm->k_slices};
}

static int64_t weight_bytes(const yk_cuda_gemm *gemm)
{
  const yk_gemm_desc desc = yk_gemm_desc_of(gemm);
  return (int64_t)yk_gemm_packed_bytes(&desc);
}

#ifdef YOKE_HAVE_CUDA
#include "kernels/cuda/device/memory.h"
#include "kernels/cuda/device/state.h"

/* ---- The GEMM ---------------------------------------------------------------------------------------------------- */

static yk_status plan(const yk_cuda_device *cuda, const yk_cuda_gemm *gemm, void **out, yk_err *err)
{
  const yk_gemm_desc desc = yk_gemm_desc_of(gemm);
  if (gemm->k_slices > 0 && cuda->wna16.path != YK_GEMM_WGMMA)
    return yk_err_set(err, YK_E_UNSUPPORTED, "slices of K of 4-bit weights need a GPU of compute capability 9.0");
  yk_gemm_plans *plans = malloc(sizeof *plans);
  if (!plans) return yk_err_set(err, YK_E_NOMEM, "no memory for the plans of a GEMM");
  yk_gemm_plans_choose(&cuda->wna16, &desc, gemm->half_rows, plans);
  *out = plans;
  return YK_OK;
}

static size_t workspace_bytes(const yk_cuda_device *cuda, const yk_cuda_gemm *gemm, int32_t max_tokens)
{
  const yk_gemm_desc desc = yk_gemm_desc_of(gemm);
  return yk_gemm_workspace_bytes(&cuda->wna16, &desc, max_tokens);
}

static bool writes_in_place(const yk_cuda_gemm *gemm, const void *y, int64_t y_stride)
{
  return y_stride == yk_cuda_gemm_columns_of_y(gemm) && (uintptr_t)y % 16 == 0;
}

static bool writes_f32_in_place(const yk_cuda_gemm *gemm, const void *y, int64_t y_stride)
{
  (void)y, (void)y_stride;
  return !gemm->has_bias && gemm->activation.kind == YK_ACTIVATION_NONE;
}

static bool fuses(const yk_cuda_device *cuda, const yk_cuda_gemm_call *call)
{
  const yk_gemm_desc desc = yk_gemm_desc_of(call->gemm);
  if ((call->norm_w != NULL) == call->adds) return false; /* a kernel has one of the two */
  return call->adds ? yk_gemm_takes_sum(&cuda->wna16, &desc, call->plan, call->n_rows)
                    : yk_gemm_takes_norm(&cuda->wna16, &desc, call->plan, call->n_rows);
}

static yk_status forward(yk_cuda_device *cuda, const yk_cuda_gemm_call *call, yk_err *err)
{
  const yk_gemm_desc desc = yk_gemm_desc_of(call->gemm);
  yk_gemm_call wna16 = {.packed = call->weights,
                        .bias = call->bias,
                        .x = call->x,
                        .y = call->y,
                        .m = call->n_rows,
                        .workspace = cuda->gemm_workspace.ptr,
                        .second_half = yk_gemm_take_turn(&cuda->gemm_turns),
                        .y_stride = call->y_stride,
                        .next_reads_x = call->next_reads_x,
                        .norm_w = call->norm_w,
                        .norm_eps = call->norm_eps,
                        .adds = call->adds,
                        .alpha = call->alpha};
  return yk_cuda_blame(cuda, yk_gemm_forward(&cuda->wna16, &desc, call->plan, &wna16, cuda->stream, err), err);
}

static bool is_same_activation(const yk_cuda_gemm *a, const yk_cuda_gemm *b)
{
  return a->activation.kind == b->activation.kind && a->activation.is_gated == b->activation.is_gated &&
         a->activation.alpha == b->activation.alpha && a->activation.limit == b->activation.limit;
}

/* The shared expert's layer in the form that the grouped kernel takes. weights is NULL if there is none, or if the
 * kernel cannot multiply it: its GEMM must have the grouped GEMM's kind, groups and activation, no bias and no order,
 * and write y in place. */
static yk_grouped_shared_expert shared_of(const yk_cuda_grouped_call *call)
{
  const yk_cuda_gemm *gemm = call->shared, *own = call->gemm;
  const yk_linear_args *args = call->shared_args;
  const yk_grouped_shared_expert none = {.weights = NULL};
  if (!gemm || gemm->kind != own->kind || gemm->key != own->key || !is_same_activation(gemm, own)) return none;
  if (gemm->has_bias || gemm->x_size > 0 || gemm->is_resident || gemm->k == 0 || gemm->n == 0) return none;
  if (!writes_in_place(gemm, args->y, args->y_stride)) return none;
  return (yk_grouped_shared_expert){.weights = call->shared_weights,
                                    .x = args->x,
                                    .y = args->y,
                                    .k = gemm->k,
                                    .n = gemm->n,
                                    .n_rows = args->n_tokens};
}

yk_grouped_call yk_cuda_wna16_grouped_call(const yk_cuda_device *cuda, const yk_cuda_grouped_call *call)
{
  return (yk_grouped_call){.weights = call->weights,
                           .bias = call->bias,
                           .bias_dtype = call->gemm->dtype,
                           .matrix_bytes = call->matrix_bytes,
                           .n_matrices = call->n_matrices,
                           .n_rows = call->args->n_rows,
                           .x = call->args->x,
                           .row_of_slot = call->args->row_of_slot,
                           .starts = call->args->starts,
                           .max_slots = call->args->max_slots,
                           .y = call->args->y,
                           .second_half = yk_gemm_turn(&cuda->gemm_turns),
                           .starts_are_settled = call->starts_are_settled,
                           .next_tile = call->next_tile,
                           .combine = call->combine,
                           .shared_expert = shared_of(call)};
}

void yk_cuda_wna16_grouped_launched(yk_cuda_device *cuda)
{
  yk_gemm_take_turn(&cuda->gemm_turns);
}

static yk_status forward_grouped(yk_cuda_device *cuda, const yk_cuda_grouped_call *call, yk_err *err)
{
  const yk_gemm_desc desc = yk_gemm_desc_of(call->gemm);
  const yk_grouped_call grouped = yk_cuda_wna16_grouped_call(cuda, call);
  yk_cuda_wna16_grouped_launched(cuda);
  return yk_cuda_blame(cuda, yk_gemm_grouped_forward(&cuda->wna16, &desc, &grouped, cuda->stream, err), err);
}

#define FUNCTIONS                                                                                                      \
  .delays_next = true, .plan = plan, .workspace_bytes = workspace_bytes, .writes_in_place = writes_in_place,           \
  .fuses = fuses, .forward = forward, .forward_grouped = forward_grouped
#define F32_FUNCTIONS                                                                                                  \
  .plan = plan, .workspace_bytes = workspace_bytes, .writes_in_place = writes_f32_in_place, .forward = forward
#else
#define FUNCTIONS     .plan = NULL
#define F32_FUNCTIONS .plan = NULL
#endif

/* ---- The kinds --------------------------------------------------------------------------------------------------- */

const yk_cuda_gemm_kind yk_cuda_gemm_wna16_int4 = {.name = "W4A16",
                                                   .variant = YK_GEMM_INT4,
                                                   .has_epilogue = true,
                                                   .takes_slices = true,
                                                   .weight_bytes = weight_bytes,
                                                   FUNCTIONS};
const yk_cuda_gemm_kind yk_cuda_gemm_wna16_int8 = {
    .name = "W8A16", .variant = YK_GEMM_INT8, .has_epilogue = true, .weight_bytes = weight_bytes, FUNCTIONS};
const yk_cuda_gemm_kind yk_cuda_gemm_wna16_int8_to_f32 = {
    .name = "W8A16 to float32", .variant = YK_GEMM_INT8, .weight_bytes = weight_bytes, F32_FUNCTIONS};
const yk_cuda_gemm_kind yk_cuda_gemm_wna16_fp8 = {
    .name = "W8A16 of floats", .variant = YK_GEMM_FP8, .has_epilogue = true, .weight_bytes = weight_bytes, FUNCTIONS};
const yk_cuda_gemm_kind yk_cuda_gemm_wna16_fp4 = {
    .name = "W4A16 of floats", .variant = YK_GEMM_FP4, .has_epilogue = true, .weight_bytes = weight_bytes, FUNCTIONS};

bool yk_cuda_gemm_is_wna16(const yk_cuda_gemm *gemm)
{
  return gemm->kind == &yk_cuda_gemm_wna16_int4 || gemm->kind == &yk_cuda_gemm_wna16_int8 ||
         gemm->kind == &yk_cuda_gemm_wna16_fp8 || gemm->kind == &yk_cuda_gemm_wna16_fp4;
}

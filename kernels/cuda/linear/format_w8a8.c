/* format_w8a8.c - 8-bit weights that are multiplied with 8-bit inputs on a GPU: packed for the W8A8 GEMM (w8a8/w8a8.h).
 * Quantisation of x and rounding are as in kernels/cpu/linear/format_w8a8.c. */
#include "base/checked.h"
#include "base/dtype.h"
#include "kernels/cuda/layout/format.h"
#include "kernels/cuda/w8a8/sizes.h"

/* ---- Arithmetic, on any machine ---------------------------------------------------------------------------------- */

static bool has_plain_scales(const yk_weight_view *weight)
{
  return !weight->has_zeros && weight->group >= weight->k;
}

static yk_status check(const yk_linear_part *part, int index, yk_err *err)
{
  const yk_weight_view *weight = &part->weight;
  if (weight->inputs.kind == YK_INPUTS_FLOAT || part->as_16_bits || has_plain_scales(weight)) return YK_OK;
  return yk_err_set(err, YK_E_UNSUPPORTED,
                    "linear part %d: 8-bit inputs need 8-bit weights with one scale for each output and no zeros",
                    index);
}

/* Independent of the slice, so that all ranks get the same result, including a rank with an empty slice. */
static bool takes(const yk_linear_spec *spec, int i)
{
  const yk_linear_part *part = &spec->parts[i];
  return part->weight.inputs.kind != YK_INPUTS_FLOAT && !part->as_16_bits && !spec->f32_output &&
         has_plain_scales(&part->weight) && part->weight.k <= YK_MAX_QUANTISED_INPUTS && part->x_size == 0 &&
         (!spec->is_grouped || part->weight.inputs.kind == YK_INPUTS_PER_TOKEN);
}

/* Parts that quantise x equally are one GEMM: the key is the scale's bits, 0 per token, and above them the zero. */
static int64_t inputs_key(const yk_linear_part *part)
{
  const yk_inputs *inputs = &part->weight.inputs;
  if (inputs->kind != YK_INPUTS_STATIC) return 0;
  return (int64_t)inputs->zero * (INT64_C(1) << 32) + (int64_t)yk_f32_bits(inputs->scale);
}

static int32_t zero_of(const yk_cuda_gemm *gemm)
{
  return (int32_t)(gemm->key >> 32);
}

static yk_w8a8_desc desc_of(const yk_cuda_gemm *gemm)
{
  return (yk_w8a8_desc){.k = gemm->k, .n = gemm->n, .zero = zero_of(gemm), .activation = yk_cuda_gemm_activation(gemm)};
}

static int64_t weight_bytes(const yk_cuda_gemm *gemm)
{
  const yk_w8a8_desc desc = desc_of(gemm);
  return yk_w8a8_packed_bytes(&desc);
}

/* Quantised rows are scales f32, padded to a multiple of YK_W8A8_ROW_MULTIPLE, then int8 [n_rows, k_padded] from this
 * byte on. */
static int64_t quants_at(int64_t n_rows)
{
  return yk_round_up_i64(n_rows, YK_W8A8_ROW_MULTIPLE) * (int64_t)sizeof(float);
}

static int64_t quantised_bytes(const yk_cuda_gemm *gemm, int64_t n_rows)
{
  return quants_at(n_rows) + n_rows * yk_w8a8_k_padded(gemm->k);
}

/* Includes the scales that the GEMM reads past the last row without using them. */
static int64_t grouped_staging_bytes(const yk_cuda_gemm *gemm, int64_t max_slots)
{
  return quantised_bytes(gemm, max_slots) + YK_W8A8_ROW_MULTIPLE * (int64_t)sizeof(float);
}

#ifdef YOKE_HAVE_CUDA
#include "kernels/cuda/device/memory.h"
#include "kernels/cuda/linear/stage.h"
#include "kernels/cuda/rows/quantise.h"
#include "kernels/cuda/w8a8/grouped.h"
#include "kernels/cuda/w8a8/w8a8.h"

static float static_scale_of(const yk_cuda_gemm *gemm)
{
  return yk_f32_from_bits((uint32_t)(gemm->key & INT64_C(0xFFFFFFFF)));
}

/* ---- Loading ----------------------------------------------------------------------------------------------------- */

static yk_status load(yk_cuda_device *cuda, const yk_cuda_gemm *gemm, void *weights, const yk_linear_part *part,
                      int64_t first_column, yk_err *err)
{
  yk_gemm_rows rows;
  const yk_w8a8_desc desc = desc_of(gemm);
  YK_TRY(yk_cuda_stage_rows(cuda, part, &rows, err));
  const yk_w8a8_source source = {(const int8_t *)rows.bytes, rows.scales};
  return yk_cuda_blame(
      cuda, yk_w8a8_pack(&desc, weights, &source, first_column, yk_range_size(part->n), cuda->stream, err), err);
}

/* ---- The GEMM ---------------------------------------------------------------------------------------------------- */

static yk_status quantise(yk_cuda_device *cuda, const yk_cuda_gemm *gemm, void *to, const void *x,
                          const int32_t *maxima, int64_t n_rows, yk_err *err)
{
  yk_cuda_quantise_args args = {.x = x,
                                .quants = (int8_t *)to + quants_at(n_rows),
                                .scales = to,
                                .maxima = maxima,
                                .n_rows = n_rows,
                                .k = gemm->k,
                                .k_padded = yk_w8a8_k_padded(gemm->k),
                                .static_scale = static_scale_of(gemm),
                                .zero = zero_of(gemm)};
  return yk_cuda_check(cuda, yk_cuda_launch_quantise(gemm->dtype, &args, cuda->stream), "quantising inputs", err);
}

static yk_status forward(yk_cuda_device *cuda, const yk_cuda_gemm_call *call, yk_err *err)
{
  const yk_w8a8_desc desc = desc_of(call->gemm);
  yk_w8a8_call w8a8 = {.packed = call->weights,
                       .bias = call->bias,
                       .x = (const int8_t *)call->quantised + quants_at(call->n_rows),
                       .x_scales = call->quantised,
                       .y = call->y,
                       .y_dtype = call->y_dtype,
                       .y_stride = call->y_stride,
                       .sums = call->sums,
                       .m = call->n_rows};
  return yk_cuda_blame(cuda, yk_w8a8_forward(&cuda->w8a8, &desc, &w8a8, cuda->stream, err), err);
}

/* x of each slot is first quantised into the staging buffer. That kernel lets the GEMM begin only after its own wait,
 * so starts are complete by then. */
static yk_status forward_grouped(yk_cuda_device *cuda, const yk_cuda_grouped_call *call, yk_err *err)
{
  const yk_w8a8_desc desc = desc_of(call->gemm);
  const yk_grouped_args *args = call->args;
  int8_t *quants = (int8_t *)args->staging + quants_at(args->max_slots);
  const yk_cuda_quantise_args rows = {.x = args->x,
                                      .rows = args->row_of_slot,
                                      .n_there = args->starts + call->n_matrices,
                                      .quants = quants,
                                      .scales = args->staging,
                                      .maxima = args->maxima,
                                      .n_rows = args->max_slots,
                                      .k = desc.k,
                                      .k_padded = yk_w8a8_k_padded(desc.k)};
  const yk_w8a8_grouped_call w8a8 = {.packed = call->weights,
                                     .bias = call->bias,
                                     .matrix_bytes = call->matrix_bytes,
                                     .n_matrices = call->n_matrices,
                                     .x = quants,
                                     .x_scales = args->staging,
                                     .starts = args->starts,
                                     .max_slots = args->max_slots,
                                     .y = args->y,
                                     .y_dtype = call->gemm->dtype,
                                     .starts_are_settled = true};
  YK_TRY(yk_cuda_check(cuda, yk_cuda_launch_quantise(call->gemm->dtype, &rows, cuda->stream),
                       "quantising inputs of slots", err));
  return yk_cuda_blame(cuda, yk_w8a8_grouped_forward(&cuda->w8a8, &desc, &w8a8, cuda->stream, err), err);
}

static yk_status scale_sums(yk_cuda_device *cuda, const yk_cuda_gemm_call *call, const int32_t *maxima, yk_err *err)
{
  const yk_w8a8_desc desc = desc_of(call->gemm);
  yk_cuda_scale_sums_args args = {
      .y = call->y,
      .sums = call->sums,
      .maxima = maxima,
      .w_scales = (const float *)(const void *)((const char *)call->weights + yk_w8a8_scales_at(&desc)),
      .bias = call->bias,
      .n_rows = call->n_rows,
      .n = call->gemm->n,
      .static_scale = static_scale_of(call->gemm)};
  return yk_cuda_check(cuda, yk_cuda_launch_scale_sums(call->y_dtype, &args, cuda->stream), "scaling of sums", err);
}
#endif

/* ---- The row ----------------------------------------------------------------------------------------------------- */

static const yk_cuda_gemm_kind w8a8 = {
    .name = "W8A8",
    .has_epilogue = true,
    .f32_bias = true,
    .weight_bytes = weight_bytes,
    .grouped_staging_bytes = grouped_staging_bytes,
#ifdef YOKE_HAVE_CUDA
    .delays_next = true, /* for every call: the GEMM lets the next kernel start after its own wait */
    .quantised_bytes = quantised_bytes,
    .quantise = quantise,
    .forward = forward,
    .forward_grouped = forward_grouped,
    .scale_sums = scale_sums,
#endif
};

const yk_cuda_format yk_cuda_format_w8a8 = {
    .name = "w8a8",
    .weight_format = YK_WEIGHT_INT8,
    .check = check,
    .takes = takes,
    .fuse_key = inputs_key,
    .gemm = &w8a8,
#ifdef YOKE_HAVE_CUDA
    .load = load,
#endif
};

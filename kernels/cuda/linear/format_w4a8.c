/* format_w4a8.c - AWQ weights whose inputs are rounded to 8 bits (yk_linear_part.rounding): packed as by format_awq.c,
 * multiplied by w4a8/w4a8.h. Few rows are multiplied in 16 bits by the WNA16 GEMM, which is faster there. */
#include <stdlib.h>

#include "base/checked.h"
#include "kernels/cuda/linear/format_awq.h"
#include "kernels/cuda/linear/format_wna16.h"

/* ---- Arithmetic, on any machine ---------------------------------------------------------------------------------- */

enum { LEAST_ROWS = 128, SCALE_MULTIPLE = 64 /* YK_W4A8_SCALE_MULTIPLE */ };

static int64_t weight_bytes(const yk_cuda_gemm *gemm)
{
  return yk_cuda_gemm_wna16_int4.weight_bytes(gemm);
}

/* Quantised rows are scales f32, padded, then codes [n_rows, k] from this byte on. */
static int64_t codes_at(int64_t n_rows)
{
  return yk_round_up_i64(n_rows, SCALE_MULTIPLE) * (int64_t)sizeof(float);
}

static int64_t quantised_bytes(const yk_cuda_gemm *gemm, int64_t n_rows)
{
  return codes_at(n_rows) + n_rows * gemm->k;
}

static bool takes(const yk_linear_spec *spec, int i, yk_inputs_kind rounding)
{
  return spec->parts[i].rounding == rounding && yk_linear_rounds_inputs(spec, i) && yk_cuda_format_awq.takes(spec, i);
}

static bool takes_fp8(const yk_linear_spec *spec, int i)
{
  return takes(spec, i, YK_INPUTS_FP8);
}

static bool takes_int8(const yk_linear_spec *spec, int i)
{
  return takes(spec, i, YK_INPUTS_INT8);
}

#ifdef YOKE_HAVE_CUDA
#include "kernels/cuda/device/memory.h"
#include "kernels/cuda/device/state.h"
#include "kernels/cuda/w4a8/w4a8.h"

_Static_assert((int)SCALE_MULTIPLE == (int)YK_W4A8_SCALE_MULTIPLE, "padding of scales");

/* ---- The GEMM ---------------------------------------------------------------------------------------------------- */

static yk_status plan(const yk_cuda_device *cuda, const yk_cuda_gemm *gemm, void **out, yk_err *err)
{
  return yk_cuda_gemm_wna16_int4.plan(cuda, gemm, out, err);
}

static size_t workspace_bytes(const yk_cuda_device *cuda, const yk_cuda_gemm *gemm, int32_t max_tokens)
{
  return yk_cuda_gemm_wna16_int4.workspace_bytes(cuda, gemm, max_tokens);
}

static bool writes_in_place(const yk_cuda_gemm *gemm, const void *y, int64_t y_stride)
{
  return yk_cuda_gemm_wna16_int4.writes_in_place(gemm, y, y_stride);
}

static yk_w4a8_codes codes_of(const yk_cuda_gemm *gemm)
{
  return gemm->kind == &yk_cuda_gemm_w4a8_int8 ? YK_W4A8_INT8 : YK_W4A8_FP8;
}

/* Whether x of a block of rows is rounded. Other GPUs lack the kernels. */
static bool is_rounded(const yk_cuda_device *cuda, const yk_cuda_gemm *gemm, int64_t n_rows)
{
  return cuda->wna16.path == YK_GEMM_WGMMA && n_rows >= LEAST_ROWS && n_rows * gemm->n >= cuda->w4a8_least_results;
}

static yk_status quantise(yk_cuda_device *cuda, const yk_cuda_gemm *gemm, void *to, const void *x,
                          const int32_t *maxima, int64_t n_rows, yk_err *err)
{
  (void)maxima;
  if (!is_rounded(cuda, gemm, n_rows)) return YK_OK;
  return yk_cuda_blame(cuda,
                       yk_w4a8_quantise(gemm->dtype, codes_of(gemm), x, (uint8_t *)to + codes_at(n_rows), to, n_rows,
                                        gemm->k, cuda->stream, err),
                       err);
}

static yk_status forward(yk_cuda_device *cuda, const yk_cuda_gemm_call *call, yk_err *err)
{
  if (!is_rounded(cuda, call->gemm, call->n_rows)) return yk_cuda_gemm_wna16_int4.forward(cuda, call, err);
  const yk_gemm_desc desc = yk_gemm_desc_of(call->gemm);
  const yk_w4a8_call w4a8 = {.packed = call->weights,
                             .bias = call->bias,
                             .codes = codes_of(call->gemm),
                             .x = (const uint8_t *)call->quantised + codes_at(call->n_rows),
                             .x_scales = call->quantised,
                             .y = call->y,
                             .m = call->n_rows,
                             .workspace = cuda->gemm_workspace.ptr};
  return yk_cuda_blame(cuda, yk_w4a8_forward(&cuda->wna16, &desc, &w4a8, cuda->stream, err), err);
}
#endif

/* ---- The rows ---------------------------------------------------------------------------------------------------- */

#define ARITHMETIC                                                                                                     \
  .variant = YK_GEMM_INT4, .has_epilogue = true, .weight_bytes = weight_bytes, .quantised_bytes = quantised_bytes

#ifdef YOKE_HAVE_CUDA
#define FUNCTIONS                                                                                                      \
  ARITHMETIC, .plan = plan, .workspace_bytes = workspace_bytes, .writes_in_place = writes_in_place,                    \
              .quantise = quantise, .forward = forward
#define LOAD yk_cuda_awq_load_packed
#else
#define FUNCTIONS ARITHMETIC
#define LOAD      NULL
#endif

const yk_cuda_gemm_kind yk_cuda_gemm_w4a8_fp8 = {.name = "W4A8 fp8", FUNCTIONS};
const yk_cuda_gemm_kind yk_cuda_gemm_w4a8_int8 = {.name = "W4A8 int8", FUNCTIONS};

const yk_cuda_format yk_cuda_format_awq_fp8_inputs = {
    .name = "awq, fp8 inputs",
    .weight_format = YK_WEIGHT_AWQ,
    .takes = takes_fp8,
    .fuse_key = yk_cuda_awq_packed_group,
    .takes_order = true,
    .gemm = &yk_cuda_gemm_w4a8_fp8,
    .load = LOAD,
};

const yk_cuda_format yk_cuda_format_awq_int8_inputs = {
    .name = "awq, int8 inputs",
    .weight_format = YK_WEIGHT_AWQ,
    .takes = takes_int8,
    .fuse_key = yk_cuda_awq_packed_group,
    .takes_order = true,
    .gemm = &yk_cuda_gemm_w4a8_int8,
    .load = LOAD,
};

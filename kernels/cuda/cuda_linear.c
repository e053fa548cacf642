/* cuda_linear.c - linear layers on the CUDA device, as cuda_layout.c lays them out.
 *
 * The parts of a layer become products: neighbours of one kind are fused. AWQ parts whose shapes the W4A16 kernels take
 * stay packed in 4 bits; plain parts, and the few AWQ slices that those kernels do not take (cuts inside a word, groups
 * below 32, a float32 result), are kept in the activation type and multiplied by cuBLAS. A product that is alone and
 * contiguous writes y itself; else its result passes through the device's scratch, a block of rows at a time. */
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "kernels/cuda/cuda_convert.h"
#include "kernels/cuda/cuda_layout.h"
#include "kernels/cuda/cuda_linear.h"
#include "kernels/cuda/device/blas.h"
#include "kernels/cuda/device/memory.h"
#include "kernels/cuda/device/staging.h"
#include "kernels/cuda/device/state.h"

enum {
  SCRATCH_ROWS = 512,       /* rows of one block that passes through the scratch */
  CONVERT_BYTES = 16 << 20, /* of a plain weight on its way to another type */
  ALIGNMENT = YK_CUDA_ALIGNMENT_BYTES
};

typedef yk_cuda_product product;

struct yk_linear {
  product products[YK_MAX_LINEAR_PARTS];
  int n_products;
  yk_epilogue epilogue;
  bool f32_output;
  int32_t max_tokens;
  char *memory; /* of all products */
};

/* ---- Loading ----------------------------------------------------------------------------------------------------- */

/* The words of an AWQ slice on the device, in a buffer of their own that the caller frees. */
static yk_status stage_awq(yk_cuda_device *cuda, const yk_linear_part *part, void **buffer, yk_w4a16_source *source,
                           yk_err *err)
{
  const yk_weight_view *w = &part->weight;
  int64_t first_word = part->n.begin / 8, n_words = yk_ceil_div_i64(part->n.end, 8) - first_word;
  int64_t first_group = part->k.begin / w->group, n_groups = yk_ceil_div_i64(part->k.end, w->group) - first_group;
  int64_t k = yk_range_size(part->k), row_bytes = n_words * 4, stride = w->n / 8 * 4;
  int64_t zeros_at = yk_round_up_i64(k * row_bytes, ALIGNMENT);
  int64_t scales_at = yk_round_up_i64(zeros_at + n_groups * row_bytes, ALIGNMENT);
  YK_TRY(yk_cuda_alloc(&cuda->base, (size_t)(scales_at + n_groups * row_bytes * 4), buffer, err));
  char *to = *buffer;
  *source = (yk_w4a16_source){.qweight = *buffer,
                              .qzeros = (const int32_t *)(const void *)(to + zeros_at),
                              .scales = to + scales_at,
                              .scales_dtype = w->dtype,
                              .words_per_row = n_words,
                              .first_column = part->n.begin % 8,
                              .group = w->group,
                              .k_phase = part->k.begin % w->group};
  YK_TRY(yk_cuda_upload_rows(cuda, to, (const char *)w->qweight + part->k.begin * stride + first_word * 4,
                             (size_t)row_bytes, (size_t)stride, (size_t)k, err));
  YK_TRY(yk_cuda_upload_rows(cuda, to + zeros_at, (const char *)w->qzeros + first_group * stride + first_word * 4,
                             (size_t)row_bytes, (size_t)stride, (size_t)n_groups, err));
  return yk_cuda_upload_rows(cuda, to + scales_at, (const char *)w->scales + first_group * w->n * 2 + first_word * 16,
                             (size_t)row_bytes * 4, (size_t)w->n * 2, (size_t)n_groups, err);
}

/* Columns first .. of product p from an AWQ part: packed, or each weight rounded to the activation type. */
static yk_status load_awq(yk_cuda_device *cuda, const product *p, char *weights, const yk_linear_part *part,
                          int64_t first, yk_err *err)
{
  void *buffer = NULL;
  yk_w4a16_source source;
  int64_t n = yk_range_size(part->n);
  yk_status status = stage_awq(cuda, part, &buffer, &source, err);
  if (status == YK_OK && p->is_packed)
    status = yk_cuda_blame(cuda, yk_w4a16_pack(&p->desc, weights, &source, first, n, cuda->stream, err), err);
  else if (status == YK_OK)
    status = yk_cuda_check(
        cuda, yk_cuda_launch_unpack_awq(cuda->base.dtype, weights + first * p->k * 2, &source, p->k, n, cuda->stream),
        "unpacking of AWQ weights", err);
  yk_cuda_free(&cuda->base, buffer);
  return status;
}

static yk_status load_converted(yk_cuda_device *cuda, char *dst, const char *src, const yk_linear_part *part,
                                yk_err *err)
{
  int64_t k = yk_range_size(part->k), n = yk_range_size(part->n), bytes = (int64_t)yk_dtype_bytes(part->weight.dtype);
  int64_t block = yk_min_i64(n, yk_max_i64(1, CONVERT_BYTES / (k * bytes)));
  void *buffer = NULL;
  YK_TRY(yk_cuda_alloc(&cuda->base, (size_t)(block * k * bytes), &buffer, err));
  yk_status status = YK_OK;
  for (int64_t row = 0; row < n && status == YK_OK; row += block) {
    int64_t n_rows = yk_min_i64(block, n - row);
    status = yk_cuda_upload_rows(cuda, buffer, src + row * part->weight.k * bytes, (size_t)(k * bytes),
                                 (size_t)(part->weight.k * bytes), (size_t)n_rows, err);
    if (status != YK_OK) break;
    status = yk_cuda_check(cuda,
                           yk_cuda_launch_convert(cuda->base.dtype, dst + row * k * 2, part->weight.dtype, buffer,
                                                  n_rows * k, cuda->stream),
                           "conversion of weights", err);
  }
  yk_cuda_free(&cuda->base, buffer);
  return status;
}

static yk_status load_plain(yk_cuda_device *cuda, char *dst, const yk_linear_part *part, yk_err *err)
{
  const yk_weight_view *w = &part->weight;
  int64_t bytes = (int64_t)yk_dtype_bytes(w->dtype);
  const char *src = (const char *)w->plain + (part->n.begin * w->k + part->k.begin) * bytes;
  if (w->dtype != cuda->base.dtype) return load_converted(cuda, dst, src, part, err);
  return yk_cuda_upload_rows(cuda, dst, src, (size_t)(yk_range_size(part->k) * bytes), (size_t)(w->k * bytes),
                             (size_t)yk_range_size(part->n), err);
}

/* The biases of a product's parts, zero where a part has none: act if packed, else float32. */
static yk_status load_bias(yk_cuda_device *cuda, const yk_linear_spec *spec, const product *p, char *bias, yk_err *err)
{
  yk_dtype dtype = p->is_packed ? cuda->base.dtype : YK_F32;
  void *values = calloc((size_t)p->n, yk_dtype_bytes(dtype));
  if (!values) return yk_err_set(err, YK_E_NOMEM, "no memory for %lld biases", (long long)p->n);
  size_t at = 0;
  for (int i = p->first_part; i < p->end_part; i++) {
    const yk_linear_part *part = &spec->parts[i];
    size_t bytes = yk_dtype_bytes(part->weight.bias_dtype);
    for (int64_t n = part->n.begin; n < part->n.end; n++, at++) {
      uint32_t element = 0; /* the source may be unaligned */
      if (!part->use_bias) continue;
      memcpy(&element, (const char *)part->weight.bias + (size_t)n * bytes, bytes);
      yk_dtype_store(dtype, values, at, yk_dtype_load(part->weight.bias_dtype, &element, 0));
    }
  }
  yk_status status = yk_cuda_upload(&cuda->base, bias, values, at * yk_dtype_bytes(dtype), err);
  free(values);
  return status;
}

static yk_status load_product(yk_cuda_device *cuda, const yk_linear_spec *spec, const yk_linear *linear,
                              const product *p, yk_err *err)
{
  char *weights = linear->memory + p->weights;
  int64_t first = 0;
  for (int i = p->first_part; i < p->end_part; i++) {
    const yk_linear_part *part = &spec->parts[i];
    int64_t n = yk_range_size(part->n);
    if (n == 0 || p->k == 0 || p->is_resident) continue;
    if (part->weight.format == YK_WEIGHT_AWQ)
      YK_TRY(load_awq(cuda, p, weights, part, first, err));
    else
      YK_TRY(load_plain(cuda, weights + first * p->k * 2, part, err));
    first += n;
  }
  return p->has_bias ? load_bias(cuda, spec, p, linear->memory + p->bias, err) : YK_OK;
}

/* What a forward of max_tokens needs beside x and y. */
static yk_status reserve(yk_cuda_device *cuda, const yk_linear *linear, const product *p, yk_err *err)
{
  int64_t rows = yk_min_i64(linear->max_tokens, SCRATCH_ROWS);
  if (p->is_packed)
    YK_TRY(yk_cuda_grow(cuda, &cuda->gemm_workspace,
                        yk_w4a16_workspace_bytes(&cuda->w4a16, &p->desc, linear->max_tokens), err));
  return yk_cuda_grow(cuda, &cuda->scratch, (size_t)(rows * p->n) * (p->is_packed ? 2 : sizeof(float)), err);
}

static yk_status load(yk_cuda_device *cuda, const yk_linear_spec *spec, yk_linear *linear, int64_t n_bytes, yk_err *err)
{
  void *memory = NULL;
  YK_TRY(yk_cuda_alloc(&cuda->base, (size_t)n_bytes, &memory, err));
  linear->memory = memory;
  for (int i = 0; i < linear->n_products; i++) {
    product *p = &linear->products[i];
    if (p->is_packed) yk_w4a16_plans_choose(&cuda->w4a16, &p->desc, &p->plans);
    YK_TRY(reserve(cuda, linear, p, err));
    YK_TRY(load_product(cuda, spec, linear, p, err));
  }
  /* Once packed weights are complete, a product may begin to read them while the kernel before it still runs. */
  return yk_cuda_drain(cuda, "loading of weights", err);
}

static yk_status check_types(const yk_linear_spec *spec, yk_err *err)
{
  for (int i = 0; i < spec->n_parts; i++)
    if (spec->parts[i].weight.format == YK_WEIGHT_AWQ && spec->parts[i].weight.dtype == YK_F32)
      return yk_err_set(err, YK_E_UNSUPPORTED,
                        "linear part %d: AWQ scales: expected float16 or bfloat16, found float32", i);
  return YK_OK;
}

yk_status yk_cuda_linear_create(yk_device *dev, const yk_linear_spec *spec, yk_linear **out, yk_err *err)
{
  yk_cuda_device *cuda = yk_cuda_device_of(dev);
  YK_TRY(yk_linear_check(spec, err));
  YK_TRY(check_types(spec, err));
  YK_TRY(yk_cuda_enter(cuda, err));
  yk_linear *linear = calloc(1, sizeof *linear);
  if (!linear) return yk_err_set(err, YK_E_NOMEM, "no memory for a linear layer");
  *linear = (yk_linear){.epilogue = spec->epilogue, .f32_output = spec->f32_output, .max_tokens = spec->max_tokens};
  int64_t n_bytes = yk_cuda_linear_lay_out(spec, dev->dtype, linear->products, &linear->n_products);
  yk_status status = load(cuda, spec, linear, n_bytes, err);
  if (status != YK_OK) {
    yk_cuda_linear_destroy(dev, linear);
    return status;
  }
  *out = linear;
  return YK_OK;
}

void yk_cuda_linear_destroy(yk_device *dev, yk_linear *linear)
{
  if (!linear) return;
  yk_cuda_free(dev, linear->memory);
  free(linear);
}

/* ---- Products ---------------------------------------------------------------------------------------------------- */

/* A block of rows of one product. */
typedef struct block {
  const void *x;
  void *y; /* the product's first column */
  int64_t n_rows, y_stride;
} block;

static yk_status multiply_packed(yk_cuda_device *cuda, const yk_linear *linear, const product *p, const block *b,
                                 bool is_direct, yk_err *err)
{
  yk_w4a16_call call = {.packed = linear->memory + p->weights,
                        .bias = p->has_bias ? linear->memory + p->bias : NULL,
                        .x = b->x,
                        .y = is_direct ? b->y : cuda->scratch.ptr,
                        .m = b->n_rows,
                        .workspace = cuda->gemm_workspace.ptr,
                        .second_half = cuda->gemm_second_half};
  cuda->gemm_second_half = !cuda->gemm_second_half;
  YK_TRY(yk_cuda_blame(cuda, yk_w4a16_forward(&cuda->w4a16, &p->desc, &p->plans, &call, cuda->stream, err), err));
  if (is_direct) return YK_OK;
  int64_t n = p->desc.gate_up ? p->n / 2 : p->n;
  return yk_cuda_check(
      cuda, yk_cuda_launch_place(cuda->base.dtype, b->y, b->y_stride, cuda->scratch.ptr, b->n_rows, n, cuda->stream),
      "placing a product", err);
}

/* y [n_rows, n] of stride y_stride and type y_dtype = x W^T. */
static yk_status gemm(yk_cuda_device *cuda, const product *p, const void *weights, const block *b, yk_dtype y_dtype,
                      yk_err *err)
{
  size_t y_bytes = yk_dtype_bytes(y_dtype);
  if (p->k == 0)
    return yk_cuda_check(cuda,
                         cudaMemset2DAsync(b->y, (size_t)b->y_stride * y_bytes, 0, (size_t)p->n * y_bytes,
                                           (size_t)b->n_rows, cuda->stream),
                         "zeroing a product", err);
  yk_cuda_blas_gemm call = {.x = b->x,
                            .w = weights,
                            .y = b->y,
                            .m = b->n_rows,
                            .n = p->n,
                            .k = p->k,
                            .y_stride = b->y_stride,
                            .dtype = cuda->base.dtype,
                            .y_dtype = y_dtype};
  return yk_cuda_blame(cuda, yk_cuda_blas_multiply(cuda->blas, &call, err), err);
}

static yk_status multiply_plain(yk_cuda_device *cuda, const yk_linear *linear, const product *p, const block *b,
                                bool is_direct, yk_err *err)
{
  const void *weights = p->is_resident ? p->resident : linear->memory + p->weights;
  yk_dtype y_dtype = linear->f32_output ? YK_F32 : cuda->base.dtype;
  if (is_direct) return gemm(cuda, p, weights, b, y_dtype, err);
  block sums = {.x = b->x, .y = cuda->scratch.ptr, .n_rows = b->n_rows, .y_stride = p->n};
  YK_TRY(gemm(cuda, p, weights, &sums, YK_F32, err));
  yk_cuda_finish_args finish = {.y = b->y,
                                .y_dtype = y_dtype,
                                .y_stride = b->y_stride,
                                .src = cuda->scratch.ptr,
                                .bias = p->has_bias ? (const float *)(const void *)(linear->memory + p->bias) : NULL,
                                .n_rows = b->n_rows,
                                .n = p->n,
                                .silu_mul = linear->epilogue == YK_EPILOGUE_SILU_MUL};
  return yk_cuda_check(cuda, yk_cuda_launch_finish(&finish, cuda->stream), "bias and activation", err);
}

/* Whether a product can write y without passing through the scratch. */
static bool writes_directly(const yk_linear *linear, const product *p, const yk_linear_args *args)
{
  if (!p->is_packed) return !p->has_bias && linear->epilogue == YK_EPILOGUE_NONE;
  int64_t n = p->desc.gate_up ? p->n / 2 : p->n;
  return linear->n_products == 1 && args->y_stride == n && (uintptr_t)args->y % 16 == 0;
}

static yk_status multiply(yk_cuda_device *cuda, const yk_linear *linear, const product *p, const yk_linear_args *args,
                          yk_err *err)
{
  bool is_direct = writes_directly(linear, p, args);
  int64_t y_bytes = linear->f32_output ? 4 : 2, n_rows = is_direct ? args->n_tokens : SCRATCH_ROWS;
  for (int64_t row = 0; row < args->n_tokens; row += n_rows) {
    block b = {.x = (const char *)args->x + row * p->k * 2,
               .y = (char *)args->y + (row * args->y_stride + p->first_column) * y_bytes,
               .n_rows = yk_min_i64(n_rows, args->n_tokens - row),
               .y_stride = args->y_stride};
    if (p->is_packed)
      YK_TRY(multiply_packed(cuda, linear, p, &b, is_direct, err));
    else
      YK_TRY(multiply_plain(cuda, linear, p, &b, is_direct, err));
  }
  return YK_OK;
}

yk_status yk_cuda_linear_forward(yk_device *dev, const yk_linear *linear, const yk_linear_args *args, yk_err *err)
{
  yk_cuda_device *cuda = yk_cuda_device_of(dev);
  if (args->n_tokens > linear->max_tokens)
    return yk_err_set(err, YK_E_INVAL, "linear: expected at most %d tokens, found %d", linear->max_tokens,
                      args->n_tokens);
  YK_TRY(yk_cuda_enter(cuda, err));
  for (int i = 0; i < linear->n_products; i++) YK_TRY(multiply(cuda, linear, &linear->products[i], args, err));
  return YK_OK;
}

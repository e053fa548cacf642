/* linear.c - linear layers on the CUDA device, for every row of the table of formats (format.h), in the layout of
 * layout.c: loading a list of parts, and multiplying rows with their GEMMs. A GEMM that cannot write y in place writes
 * the device's scratch, a block of rows at a time. */
#include "kernels/cuda/linear/linear.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "kernels/cuda/device/memory.h"
#include "kernels/cuda/device/staging.h"
#include "kernels/cuda/device/state.h"
#include "kernels/cuda/gemm/grouped/types.h"
#include "kernels/cuda/linear/adapted.h"
#include "kernels/cuda/linear/convert.h"
#include "kernels/cuda/linear/input_order.h"
#include "kernels/cuda/linear/prepared.h"

/* Rows of a block for which the scratch holds only x, in the order of the GEMM's inputs: bounds the scratch's size. */
enum { ORDERED_ROWS = 2048 };

/* ---- The device's scratch: results before their copy to y, then quantised rows, then permuted rows --------------- */

static int64_t result_bytes(const yk_linear *linear, const yk_cuda_gemm *gemm)
{
  if (gemm == &linear->unfinished) return yk_cuda_block_rows(linear, gemm) * gemm->n * 2;
  if (!gemm->kind->writes_in_place) return 0;
  return yk_cuda_block_rows(linear, gemm) * gemm->n * (gemm->kind->has_epilogue ? 2 : (int64_t)sizeof(float));
}

static int64_t quantised_at(const yk_linear *linear, const yk_cuda_gemm *gemm)
{
  return yk_round_up_i64(result_bytes(linear, gemm), YK_DEVICE_ALIGNMENT_BYTES);
}

static int64_t ordered_at(const yk_linear *linear, const yk_cuda_gemm *gemm)
{
  if (!gemm->kind->quantise) return quantised_at(linear, gemm);
  return yk_round_up_i64(quantised_at(linear, gemm) +
                             gemm->kind->quantised_bytes(gemm, yk_cuda_quantised_rows(linear, gemm)),
                         YK_DEVICE_ALIGNMENT_BYTES);
}

static int64_t scratch_bytes(const yk_linear *linear, const yk_cuda_gemm *gemm)
{
  int64_t ordered_rows = gemm->x_size > 0 ? yk_min_i64(linear->max_tokens, ORDERED_ROWS) : 0;
  return ordered_at(linear, gemm) + ordered_rows * gemm->k * 2;
}

/* ---- Loading ----------------------------------------------------------------------------------------------------- */

/* Loads the biases of a GEMM's parts, zeros for a part without one. */
static yk_status load_bias(yk_cuda_device *cuda, const yk_linear_spec *spec, int32_t matrix, const yk_cuda_gemm *gemm,
                           char *bias, yk_err *err)
{
  yk_dtype dtype = gemm->kind->has_epilogue && !gemm->kind->f32_bias ? cuda->base.dtype : YK_F32;
  void *values = calloc((size_t)gemm->n, yk_dtype_bytes(dtype));
  if (!values) return yk_err_set(err, YK_E_NOMEM, "no memory for %lld biases", (long long)gemm->n);
  size_t at = 0;
  for (int i = gemm->first_part; i < gemm->end_part; i++) {
    const yk_linear_part part = yk_linear_part_of(&spec->parts[i], matrix);
    size_t bytes = yk_dtype_bytes(part.weight.bias_dtype);
    for (int64_t n = part.n.begin; n < part.n.end; n++, at++) {
      uint32_t element = 0; /* the source may be unaligned */
      if (!part.use_bias) continue;
      memcpy(&element, (const char *)part.weight.bias + (size_t)n * bytes, bytes);
      yk_dtype_store(dtype, values, at, yk_dtype_load(part.weight.bias_dtype, &element, 0));
    }
  }
  yk_status status = yk_cuda_upload(&cuda->base, bias, values, at * yk_dtype_bytes(dtype), err);
  free(values);
  return status;
}

static yk_status load_gemm(yk_cuda_device *cuda, const yk_linear_spec *spec, int32_t matrix, const yk_linear *linear,
                           const yk_cuda_gemm *gemm, yk_err *err)
{
  char *memory = linear->memory + matrix * linear->layout.matrix_bytes;
  int64_t first_column = 0;
  for (int i = gemm->first_part; i < gemm->end_part; i++) {
    const yk_linear_part part = yk_linear_part_of(&spec->parts[i], matrix);
    int64_t n = yk_range_size(part.n);
    if (n == 0 || yk_range_size(part.k) == 0 || gemm->is_resident) continue;
    YK_TRY(linear->layout.formats[i]->load(cuda, gemm, memory + gemm->weights, &part, first_column, err));
    first_column += n;
  }
  const int32_t *order = yk_linear_part_of(&spec->parts[gemm->first_part], matrix).x_order;
  if (gemm->x_size > 0 && gemm->k > 0)
    YK_TRY(yk_cuda_upload(&cuda->base, memory + gemm->order, order, (size_t)gemm->k * sizeof *order, err));
  return gemm->has_bias ? load_bias(cuda, spec, matrix, gemm, memory + gemm->bias, err) : YK_OK;
}

/* Grows the device's workspace and scratch for forwards of up to max_tokens rows. */
static yk_status reserve(yk_cuda_device *cuda, const yk_linear *linear, const yk_cuda_gemm *gemm, yk_err *err)
{
  if (gemm->kind->workspace_bytes)
    YK_TRY(yk_cuda_grow(cuda, &cuda->gemm_workspace, gemm->kind->workspace_bytes(cuda, gemm, linear->max_tokens), err));
  return yk_cuda_grow(cuda, &cuda->scratch, (size_t)scratch_bytes(linear, gemm), err);
}

static yk_status create_counter(yk_cuda_device *cuda, yk_linear *linear, yk_err *err)
{
  void *counter = NULL;
  YK_TRY(yk_cuda_alloc(&cuda->base, sizeof *linear->next_tile, &counter, err));
  linear->next_tile = counter;
  return YK_OK;
}

static yk_status load(yk_cuda_device *cuda, const yk_linear_spec *spec, yk_linear *linear, yk_err *err)
{
  void *memory = NULL;
  YK_TRY(yk_cuda_alloc(&cuda->base, (size_t)(linear->n_matrices * linear->layout.matrix_bytes), &memory, err));
  linear->memory = memory;
  YK_TRY(yk_cuda_adapted_create(cuda, spec, linear, err));
  if (linear->unfinished.kind) YK_TRY(reserve(cuda, linear, &linear->unfinished, err));
  for (int i = 0; i < linear->layout.n_gemms; i++) {
    const yk_cuda_gemm *gemm = &linear->layout.gemms[i];
    if (gemm->kind->plan) YK_TRY(gemm->kind->plan(cuda, gemm, &linear->plans[i], err));
    YK_TRY(linear->is_grouped ? create_counter(cuda, linear, err) : reserve(cuda, linear, gemm, err));
    for (int32_t m = 0; m < linear->n_matrices; m++) YK_TRY(load_gemm(cuda, spec, m, linear, gemm, err));
  }
  /* Forwards read weights before the preceding kernel has ended (programmatic dependent launch), so the weights must be
   * complete before the first forward. */
  return yk_cuda_drain(cuda, "loading of weights", err);
}

static yk_status check_formats(const yk_linear_spec *spec, yk_err *err)
{
  for (int i = 0; i < spec->n_parts; i++)
    for (const yk_cuda_format *const *row = yk_cuda_formats; *row; row++)
      if ((*row)->weight_format == spec->parts[i].weight.format && (*row)->check)
        YK_TRY((*row)->check(&spec->parts[i], i, err));
  return YK_OK;
}

/* A grouped layer is one GEMM that writes y itself. */
static yk_status check_grouped(const yk_linear_spec *spec, const yk_cuda_linear_layout *layout, yk_err *err)
{
  if (!spec->is_grouped) return YK_OK;
  if (spec->n_matrices > YK_GROUPED_MAX_MATRICES)
    return yk_err_set(err, YK_E_UNSUPPORTED, "linear: a grouped layer on a GPU: expected at most %d matrices, found %d",
                      YK_GROUPED_MAX_MATRICES, spec->n_matrices);
  if (spec->max_tokens > YK_GROUPED_MAX_SLOTS)
    return yk_err_set(
        err, YK_E_UNSUPPORTED,
        "linear: a grouped layer on a GPU: expected at most %d slots (rows times experts of a row), found %d",
        YK_GROUPED_MAX_SLOTS, spec->max_tokens);
  if (spec->f32_output || layout->n_gemms > 1)
    return yk_err_set(err, YK_E_UNSUPPORTED, "linear: a grouped layer on a GPU: expected one GEMM, found %d%s",
                      layout->n_gemms, spec->f32_output ? " of float32 output" : "");
  if (layout->n_gemms == 1 && !layout->gemms[0].kind->forward_grouped)
    return yk_err_set(err, YK_E_UNSUPPORTED, "linear: a grouped layer on a GPU: %s has no grouped GEMM",
                      layout->gemms[0].kind->name);
  return YK_OK;
}

static yk_status check_slices(const yk_linear_spec *spec, const yk_cuda_linear_layout *layout, yk_err *err)
{
  for (int i = 0; i < layout->n_gemms && spec->k_slices > 0; i++)
    if (!layout->gemms[i].kind->takes_slices)
      return yk_err_set(err, YK_E_UNSUPPORTED,
                        "linear: slices of K on a GPU: expected 4-bit integers or plain weights, found %s",
                        layout->gemms[i].kind->name);
  return YK_OK;
}

yk_status yk_cuda_linear_create(yk_device *dev, const yk_linear_spec *spec, yk_linear **out, yk_err *err)
{
  yk_cuda_device *cuda = yk_cuda_device_of(dev);
  YK_TRY(yk_linear_check(spec, err));
  YK_TRY(check_formats(spec, err));
  YK_TRY(yk_cuda_enter(cuda, err));
  yk_linear *linear = calloc(1, sizeof *linear);
  if (!linear) return yk_err_set(err, YK_E_NOMEM, "no memory for a linear layer");
  linear->n_matrices = spec->n_matrices;
  linear->f32_output = spec->f32_output;
  linear->is_grouped = spec->is_grouped;
  linear->max_tokens = spec->max_tokens;
  yk_status status = yk_cuda_linear_lay_out(spec, dev->dtype, &linear->layout, err);
  if (status == YK_OK) status = check_grouped(spec, &linear->layout, err);
  if (status == YK_OK) status = check_slices(spec, &linear->layout, err);
  if (status == YK_OK) status = load(cuda, spec, linear, err);
  yk_cuda_release(cuda, &cuda->landing);
  yk_cuda_release(cuda, &cuda->landing_order);
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
  yk_cuda_free(dev, linear->next_tile);
  for (int i = 0; i < YK_MAX_LINEAR_PARTS; i++) free(linear->plans[i]);
  yk_cuda_adapted_destroy(dev, linear);
  free(linear);
}

/* ---- Multiplying ------------------------------------------------------------------------------------------------- */

/* A block of rows: of x, and of the columns of y that a GEMM fills. */
typedef struct row_block {
  const void *x;
  void *y;
  yk_dtype y_dtype;
  int64_t y_stride, n_rows;
  bool next_reads_x; /* as in yk_cuda_gemm_call */
} row_block;

/* Copies results from the scratch to y. bias: for a GEMM without an epilogue. */
static yk_status finish(yk_cuda_device *cuda, const yk_cuda_gemm *gemm, const void *bias, const row_block *b,
                        yk_err *err)
{
  if (gemm->kind->has_epilogue)
    return yk_cuda_check(cuda,
                         yk_cuda_launch_copy_rows(cuda->base.dtype, b->y, b->y_stride, cuda->scratch.ptr, b->n_rows,
                                                  yk_cuda_gemm_columns_of_y(gemm), cuda->stream),
                         "copying the result of a GEMM", err);
  yk_cuda_finish_args args = {.y = b->y,
                              .y_dtype = b->y_dtype,
                              .y_stride = b->y_stride,
                              .src = cuda->scratch.ptr,
                              .bias = bias,
                              .n_rows = b->n_rows,
                              .n = gemm->n,
                              .activation = gemm->activation};
  return yk_cuda_check(cuda, yk_cuda_launch_finish(&args, cuda->stream), "bias and activation", err);
}

yk_status yk_cuda_activate(yk_cuda_device *cuda, yk_cuda_activate_args *args, const yk_cuda_gemm *gemm, yk_err *err)
{
  if (!yk_cuda_gemm_is_activated_after(gemm)) return YK_OK;
  args->n = gemm->n;
  args->activation = gemm->activation;
  return yk_cuda_check(cuda, yk_cuda_launch_activate(args, cuda->stream), "activation", err);
}

/* Multiplies call's rows by its GEMM: permutes and quantises x first, if the GEMM needs that. matrix: the matrix's
 * weights in device memory. */
static yk_status run_gemm(yk_cuda_device *cuda, const yk_linear *linear, const char *matrix, yk_cuda_gemm_call *call,
                          yk_err *err)
{
  const yk_cuda_gemm *gemm = call->gemm;
  call->weights = gemm->is_resident ? gemm->resident : matrix + gemm->weights;
  if (gemm->x_size > 0) {
    const yk_cuda_input_order_args order = {.y = (char *)cuda->scratch.ptr + ordered_at(linear, gemm),
                                            .x = call->x,
                                            .order = (const int32_t *)(const void *)(matrix + gemm->order),
                                            .n_rows = call->n_rows,
                                            .x_size = gemm->x_size,
                                            .k = gemm->k};
    YK_TRY(yk_cuda_check(cuda, yk_cuda_launch_input_order(&order, cuda->stream), "ordering of inputs", err));
    call->x = order.y;
  }
  if (gemm->kind->quantise) {
    void *quantised = (char *)cuda->scratch.ptr + quantised_at(linear, gemm);
    YK_TRY(gemm->kind->quantise(cuda, gemm, quantised, call->x, NULL, call->n_rows, err));
    call->quantised = quantised;
  }
  return gemm->kind->forward(cuda, call, err);
}

/* Multiplies one block of rows by GEMM i, and copies from the scratch to y if the GEMM cannot write y itself
 * (is_in_place). */
static yk_status multiply_block(yk_cuda_device *cuda, const yk_linear *linear, int i, const char *matrix,
                                const row_block *b, bool is_in_place, yk_err *err)
{
  const yk_cuda_gemm *gemm = &linear->layout.gemms[i];
  const yk_cuda_gemm_kind *kind = gemm->kind;
  const void *bias = gemm->has_bias ? matrix + gemm->bias : NULL;
  yk_cuda_gemm_call call = {.gemm = gemm,
                            .plan = linear->plans[i],
                            .bias = kind->has_epilogue ? bias : NULL,
                            .x = b->x,
                            .y = b->y,
                            .y_dtype = b->y_dtype,
                            .y_stride = b->y_stride,
                            .n_rows = b->n_rows,
                            .next_reads_x = b->next_reads_x};
  if (!is_in_place) {
    call.y = cuda->scratch.ptr;
    call.y_dtype = kind->has_epilogue ? gemm->dtype : YK_F32;
    call.y_stride = kind->has_epilogue ? yk_cuda_gemm_columns_of_y(gemm) : gemm->n;
  }
  YK_TRY(run_gemm(cuda, linear, matrix, &call, err));
  if (!is_in_place) YK_TRY(finish(cuda, gemm, bias, b, err));
  if (!kind->has_epilogue) return YK_OK;
  yk_cuda_activate_args behind = {.y = b->y, .dtype = b->y_dtype, .y_stride = b->y_stride, .max_rows = b->n_rows};
  return yk_cuda_activate(cuda, &behind, gemm, err);
}

/* Multiplies all rows by GEMM i, in blocks. */
static yk_status multiply(yk_cuda_device *cuda, const yk_cuda_adapted *adapted, int i, const yk_linear_args *args,
                          yk_err *err)
{
  const yk_linear *linear = adapted->linear;
  const yk_cuda_gemm *gemm = &linear->layout.gemms[i];
  const char *matrix = linear->memory + args->matrix * linear->layout.matrix_bytes;
  yk_dtype y_dtype = linear->f32_output ? YK_F32 : cuda->base.dtype;
  int64_t y_bytes = (int64_t)yk_dtype_bytes(y_dtype);
  char *y = (char *)args->y + gemm->first_column * y_bytes;
  bool is_in_place = !gemm->kind->writes_in_place || gemm->kind->writes_in_place(gemm, y, args->y_stride);
  int64_t x_size = gemm->x_size > 0 ? gemm->x_size : gemm->k;
  int64_t n_rows = gemm->x_size > 0 ? ORDERED_ROWS : args->n_tokens;
  if (!is_in_place) n_rows = yk_min_i64(n_rows, yk_cuda_block_rows(linear, gemm));
  if (gemm->kind->quantise) n_rows = yk_min_i64(n_rows, yk_cuda_quantised_rows(linear, gemm));
  /* Blocks of equal size: a kind that quantises many rows alone then does so with all rows of a call, or with none. */
  if (n_rows < args->n_tokens) n_rows = yk_ceil_div_i64(args->n_tokens, yk_ceil_div_i64(args->n_tokens, n_rows));
  for (int64_t row = 0; row < args->n_tokens; row += n_rows) {
    const row_block b = {.x = (const char *)args->x + row * x_size * 2,
                         .y = y + row * args->y_stride * y_bytes,
                         .y_dtype = y_dtype,
                         .y_stride = args->y_stride,
                         .n_rows = yk_min_i64(n_rows, args->n_tokens - row),
                         .next_reads_x = adapted->is_after_gemm};
    YK_TRY(multiply_block(cuda, linear, i, matrix, &b, is_in_place, err));
  }
  return YK_OK;
}

/* The same for a layer with an activation and rows with adapters: the products of adapters complete the results of the
 * GEMM, which pass through the scratch. */
static yk_status multiply_unfinished(yk_cuda_device *cuda, const yk_cuda_adapted *adapted, const yk_linear_args *args,
                                     yk_err *err)
{
  const yk_linear *linear = adapted->linear;
  const yk_cuda_gemm *gemm = &linear->unfinished;
  const int64_t x_bytes = linear->adapters.k * 2, y_bytes = args->y_stride * 2,
                n_rows = yk_cuda_block_rows(linear, gemm);
  for (int64_t row = 0; row < args->n_tokens; row += n_rows) {
    yk_cuda_gemm_call call = {.gemm = gemm,
                              .plan = linear->unfinished_plan,
                              .x = (const char *)args->x + row * x_bytes,
                              .y = cuda->scratch.ptr,
                              .y_dtype = gemm->dtype,
                              .y_stride = gemm->n,
                              .n_rows = yk_min_i64(n_rows, args->n_tokens - row),
                              .next_reads_x = adapted->is_after_gemm};
    YK_TRY(run_gemm(cuda, linear, linear->memory, &call, err));
    YK_TRY(yk_cuda_adapted_finish(cuda, adapted, row, &call, (char *)args->y + row * y_bytes, args->y_stride, err));
  }
  return YK_OK;
}

/* The only GEMM of a layer of one matrix, over all rows of a forward in one call. */
static yk_cuda_gemm_call whole_call(const yk_linear *linear, const yk_linear_args *args)
{
  const yk_cuda_gemm *gemm = &linear->layout.gemms[0];
  return (yk_cuda_gemm_call){.gemm = gemm,
                             .plan = linear->plans[0],
                             .bias = gemm->has_bias ? linear->memory + gemm->bias : NULL,
                             .x = args->x,
                             .y = args->y,
                             .y_dtype = gemm->dtype,
                             .y_stride = args->y_stride,
                             .n_rows = args->n_tokens,
                             .norm_w = args->norm_w,
                             .norm_eps = args->norm_eps,
                             .adds = args->adds,
                             .alpha = args->alpha};
}

bool yk_cuda_linear_fuses(yk_device *dev, const yk_linear *linear, const yk_linear_args *args)
{
  const yk_cuda_gemm *gemm = &linear->layout.gemms[0];
  const bool has_adapters = args->adapters && linear->adapters.n_adapters > 0;
  if (linear->layout.n_gemms != 1 || linear->n_matrices != 1 || gemm->x_size > 0 || has_adapters) return false;
  if (!gemm->kind->fuses || yk_cuda_gemm_is_activated_after(gemm)) return false;
  if (!gemm->kind->writes_in_place(gemm, args->y, args->y_stride)) return false;
  const yk_cuda_gemm_call call = whole_call(linear, args);
  return gemm->kind->fuses(yk_cuda_device_of(dev), &call);
}

yk_status yk_cuda_linear_forward(yk_device *dev, const yk_linear *linear, const yk_linear_args *args, yk_err *err)
{
  yk_cuda_device *cuda = yk_cuda_device_of(dev);
  YK_TRY(yk_linear_check_args(args, linear->max_tokens, linear->n_matrices, err));
  YK_TRY(yk_cuda_enter(cuda, err));
  if (args->norm_w || args->adds) {
    yk_cuda_gemm_call call = whole_call(linear, args);
    return run_gemm(cuda, linear, linear->memory, &call, err);
  }
  const yk_cuda_adapted adapted = yk_cuda_adapted_of(linear, args);
  YK_TRY(yk_cuda_adapted_begin(cuda, &adapted, err));
  if (yk_cuda_adapted_is_any(&adapted) && linear->unfinished.kind)
    return multiply_unfinished(cuda, &adapted, args, err);
  for (int i = 0; i < linear->layout.n_gemms; i++) YK_TRY(multiply(cuda, &adapted, i, args, err));
  return yk_cuda_adapted_add(cuda, &adapted, args->y, args->y_stride, err);
}

const void *yk_cuda_linear_plain(const yk_linear *linear, int64_t *n, int64_t *k, const float **bias)
{
  const yk_cuda_gemm *gemm = &linear->layout.gemms[0];
  if (linear->layout.n_gemms != 1 || linear->n_matrices != 1 || !linear->f32_output) return NULL;
  if (gemm->kind != &yk_cuda_gemm_16_bits || gemm->activation.kind != YK_ACTIVATION_NONE || gemm->x_size > 0)
    return NULL;
  *n = gemm->n;
  *k = gemm->k;
  *bias = gemm->has_bias ? (const float *)(const void *)(linear->memory + gemm->bias) : NULL;
  return gemm->is_resident ? gemm->resident : linear->memory + gemm->weights;
}

const yk_cuda_gemm *yk_cuda_linear_only(const yk_linear *linear, const void **weights)
{
  const yk_cuda_gemm *gemm = &linear->layout.gemms[0];
  if (linear->layout.n_gemms != 1 || linear->n_matrices != 1 || linear->f32_output) return NULL;
  *weights = gemm->is_resident ? gemm->resident : linear->memory + gemm->weights;
  return gemm;
}

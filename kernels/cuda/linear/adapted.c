#include "kernels/cuda/linear/adapted.h"

#include <stdlib.h>

#include "kernels/cuda/adapters/adapters.h"
#include "kernels/cuda/device/memory.h"
#include "kernels/cuda/device/staging.h"

enum { GATES_SIDE_BY_SIDE = 8 }; /* of a GEMM with an epilogue: packed columns are 8 gates, then their 8 ups */

/* The layer's GEMM without bias and activation. Gates and ups come in the order of the packed columns, with padding. */
static yk_status create_unfinished(yk_cuda_device *cuda, yk_linear *linear, yk_err *err)
{
  const yk_cuda_gemm *gemm = &linear->layout.gemms[0];
  if (gemm->activation.kind == YK_ACTIVATION_NONE) return YK_OK;
  yk_cuda_gemm *unfinished = &linear->unfinished;
  *unfinished = *gemm;
  unfinished->activation = (yk_activation)YK_NO_ACTIVATION;
  unfinished->has_bias = false;
  unfinished->half_rows = YK_ADAPTER_EXCHANGE_ROWS;
  if (gemm->activation.is_gated && gemm->kind->has_epilogue)
    unfinished->n = 2 * yk_round_up_i64(gemm->n / 2, GATES_SIDE_BY_SIDE);
  return gemm->kind->plan ? gemm->kind->plan(cuda, unfinished, &linear->unfinished_plan, err) : YK_OK;
}

yk_status yk_cuda_adapted_create(yk_cuda_device *cuda, const yk_linear_spec *spec, yk_linear *linear, yk_err *err)
{
  void *memory = NULL;
  linear->adapters = yk_cuda_adapters_lay_out(spec);
  if (linear->adapters.n_adapters == 0) return YK_OK;
  if (spec->f32_output)
    return yk_err_set(err, YK_E_UNSUPPORTED, "linear: adapters on a GPU: expected 16-bit results, found float32");
  YK_TRY(yk_cuda_alloc(&cuda->base, (size_t)yk_cuda_adapters_bytes(&linear->adapters), &memory, err));
  linear->adapter_memory = memory;
  const int64_t n_tiles = (int64_t)linear->adapters.n_parts * linear->adapters.part_tiles,
                n_floats = yk_cuda_adapter_product_floats(n_tiles, linear->max_tokens),
                exchange_bytes = yk_cuda_adapter_exchange_bytes(n_tiles, linear->adapters.n_adapters);
  YK_TRY(yk_cuda_grow(cuda, &cuda->adapter_products, (size_t)n_floats * sizeof(float), err));
  YK_TRY(yk_cuda_grow(cuda, &cuda->adapter_exchange, (size_t)exchange_bytes, err));
  return create_unfinished(cuda, linear, err);
}

void yk_cuda_adapted_destroy(yk_device *dev, yk_linear *linear)
{
  yk_cuda_free(dev, linear->adapter_memory);
  free(linear->unfinished_plan);
}

/* ---- Adapters ---------------------------------------------------------------------------------------------------- */

static yk_status check_adapter(const yk_cuda_adapter_layout *layout, int32_t adapter, const yk_linear_adapter *parts,
                               yk_err *err)
{
  if (adapter < 1 || adapter > layout->n_adapters)
    return yk_err_set(err, YK_E_INVAL, "linear: expected an adapter of 1 to %d, found %d", layout->n_adapters, adapter);
  for (int i = 0; i < layout->n_parts; i++)
    if (parts[i].rank < 0 || parts[i].rank > layout->max_rank)
      return yk_err_set(err, YK_E_INVAL, "linear part %d: expected an adapter of rank 0 to %d, found %d", i,
                        layout->max_rank, parts[i].rank);
  return YK_OK;
}

/* Forwards read the matrices before the preceding kernel has ended, as weights: they must be complete before. */
yk_status yk_cuda_linear_adapt(yk_device *dev, yk_linear *linear, int32_t adapter, const yk_linear_adapter *parts,
                               yk_err *err)
{
  yk_cuda_device *cuda = yk_cuda_device_of(dev);
  const yk_cuda_adapter_layout *layout = &linear->adapters;
  yk_cuda_adapter_part table[YK_MAX_LINEAR_PARTS];
  if (layout->adapter_bytes == 0) return YK_OK; /* this rank has no share of the layer */
  YK_TRY(check_adapter(layout, adapter, parts, err));
  YK_TRY(yk_cuda_enter(cuda, err));
  char *packed = calloc(1, (size_t)layout->adapter_bytes);
  if (!packed)
    return yk_err_set(err, YK_E_NOMEM, "no memory for %lld bytes of an adapter", (long long)layout->adapter_bytes);
  yk_cuda_adapter_pack(layout, dev->dtype, parts, packed, table);
  char *to = linear->adapter_memory + layout->matrices + (adapter - 1) * layout->adapter_bytes;
  const size_t table_bytes = (size_t)layout->n_parts * sizeof *table;
  yk_status status = yk_cuda_upload(dev, to, packed, (size_t)layout->adapter_bytes, err);
  free(packed);
  if (status != YK_OK) return status;
  YK_TRY(yk_cuda_upload(dev, linear->adapter_memory + (size_t)(adapter - 1) * table_bytes, table, table_bytes, err));
  return yk_cuda_drain(cuda, "loading of an adapter", err);
}

/* ---- Products ---------------------------------------------------------------------------------------------------- */

static yk_cuda_adapted_rows rows_of(const yk_cuda_device *cuda, const yk_cuda_adapted *adapted)
{
  return (yk_cuda_adapted_rows){.layout = &adapted->linear->adapters,
                                .memory = adapted->linear->adapter_memory,
                                .dtype = cuda->base.dtype,
                                .adapters = adapted->adapters,
                                .n_rows = adapted->n_rows,
                                .products = cuda->adapter_products.ptr,
                                .exchange = cuda->adapter_exchange.ptr,
                                .n_multiprocessors = cuda->wna16.n_multiprocessors};
}

yk_cuda_adapted yk_cuda_adapted_of(const yk_linear *linear, const yk_linear_args *args)
{
  yk_cuda_adapted adapted = {.linear = linear, .adapters = args->adapters, .n_rows = args->n_tokens, .x = args->x};
  adapted.is_after_gemm = yk_cuda_adapted_is_any(&adapted) && linear->layout.n_gemms == 1 &&
                          linear->layout.gemms[0].kind->delays_next &&
                          yk_cuda_adapts_in_one_launch(&linear->adapters, adapted.n_rows);
  return adapted;
}

yk_status yk_cuda_adapted_begin(yk_cuda_device *cuda, const yk_cuda_adapted *adapted, yk_err *err)
{
  if (!yk_cuda_adapted_is_any(adapted) || adapted->is_after_gemm) return YK_OK;
  const yk_cuda_adapted_rows rows = rows_of(cuda, adapted);
  return yk_cuda_check(cuda, yk_cuda_launch_shrink(&rows, adapted->x, cuda->stream), "first product of adapters", err);
}

static yk_status expand(yk_cuda_device *cuda, const yk_cuda_adapted *adapted, const yk_cuda_expand_args *args,
                        yk_err *err)
{
  const yk_cuda_adapted_rows rows = rows_of(cuda, adapted);
  if (adapted->is_after_gemm)
    return yk_cuda_check(cuda, yk_cuda_launch_adapt(&rows, adapted->x, args, cuda->stream), "products of adapters",
                         err);
  return yk_cuda_check(cuda, yk_cuda_launch_expand(&rows, args, cuda->stream), "second product of adapters", err);
}

yk_status yk_cuda_adapted_add(yk_cuda_device *cuda, const yk_cuda_adapted *adapted, void *y, int64_t y_stride,
                              yk_err *err)
{
  if (!yk_cuda_adapted_is_any(adapted)) return YK_OK;
  const yk_cuda_expand_args args = {
      .n_rows = adapted->n_rows, .src = y, .y = y, .src_stride = y_stride, .y_stride = y_stride};
  return expand(cuda, adapted, &args, err);
}

yk_status yk_cuda_adapted_finish(yk_cuda_device *cuda, const yk_cuda_adapted *adapted, int64_t first_row,
                                 const yk_cuda_gemm_call *unfinished, void *y, int64_t y_stride, yk_err *err)
{
  const yk_linear *linear = adapted->linear;
  const yk_cuda_gemm *gemm = &linear->layout.gemms[0];
  const yk_cuda_expand_args args = {.first_row = first_row,
                                    .n_rows = unfinished->n_rows,
                                    .src = unfinished->y,
                                    .y = y,
                                    .src_stride = unfinished->y_stride,
                                    .y_stride = y_stride,
                                    .finishes = true,
                                    .is_interleaved = gemm->activation.is_gated && gemm->kind->has_epilogue,
                                    .bias = gemm->has_bias ? linear->memory + gemm->bias : NULL,
                                    .bias_dtype =
                                        gemm->kind->has_epilogue && !gemm->kind->f32_bias ? cuda->base.dtype : YK_F32,
                                    .activation = gemm->activation};
  return expand(cuda, adapted, &args, err);
}

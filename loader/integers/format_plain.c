/* format_plain.c - weights in 16- or 32-bit floats: devices read them directly from the checkpoint, or as copied rows
 * in another order. */
#include <string.h>

#include "base/checked.h"
#include "loader/integers/format.h"

enum { MIN_THREAD_BYTES = 1 << 17 /* less work per thread costs more than it saves */ };

static bool is_ready(const yk_weight_view *weight)
{
  (void)weight;
  return true;
}

static int64_t row_bytes_of(const yk_weight_view *weight)
{
  return weight->k * (int64_t)yk_dtype_bytes(weight->dtype);
}

static size_t repacked_bytes(const yk_slice_source *source)
{
  return (size_t)((source->slice.n_end - source->slice.n_begin) * row_bytes_of(source->weight));
}

typedef struct copying {
  const yk_slice_source *source;
  char *to;
} copying;

static void copy_rows(void *context, int thread, int64_t begin, int64_t end)
{
  (void)thread;
  const copying *c = context;
  int64_t row_bytes = row_bytes_of(c->source->weight);
  const char *from = c->source->weight->plain;
  for (int64_t i = begin; i < end; i++)
    memcpy(c->to + i * row_bytes, from + c->source->order->outputs[i] * row_bytes, (size_t)row_bytes);
}

/* Copy the rows in the order of outputs, with all inputs of each. */
static yk_status repack(const yk_slice_source *source, yk_cpu_pool *pool, void *buffer, yk_repacked_slice *out,
                        yk_err *err)
{
  (void)err;
  copying c = {source, buffer};
  int64_t n = source->slice.n_end - source->slice.n_begin;
  int64_t min_rows = yk_ceil_div_i64(MIN_THREAD_BYTES, yk_max_i64(row_bytes_of(source->weight), 1));
  yk_cpu_pool_deal(pool, n, min_rows, copy_rows, &c);
  *out = (yk_repacked_slice){*source->weight, {source->slice.k_begin, source->slice.k_end, 0, n}};
  out->weight.plain = buffer;
  out->weight.n = n;
  return YK_OK;
}

static yk_status to_floats(const yk_weight_view *weight, const yk_weight_slice *slice, float *to, int64_t stride,
                           yk_err *err)
{
  (void)err;
  int64_t element_bytes = (int64_t)yk_dtype_bytes(weight->dtype);
  for (int64_t n = slice->n_begin; n < slice->n_end; n++, to += stride)
    for (int64_t k = slice->k_begin; k < slice->k_end; k++) {
      uint32_t element = 0; /* data in files may be unaligned */
      memcpy(&element, (const char *)weight->plain + (n * weight->k + k) * element_bytes, (size_t)element_bytes);
      to[k - slice->k_begin] = yk_dtype_load(weight->dtype, &element, 0);
    }
  return YK_OK;
}

const yk_loader_format yk_loader_format_plain = {
    .is_ready = is_ready, .repacked_bytes = repacked_bytes, .repack = repack, .to_floats = to_floats};

/* format_plain.c - weights in 16- or 32-bit floats: devices read them directly from the checkpoint, or as copied rows
 * in another order, which transposed weights become too. */
#include <string.h>

#include "base/checked.h"
#include "loader/integers/format.h"
#include "loader/safetensors/transposed.h"

enum { MIN_THREAD_BYTES = 1 << 17 /* less work per thread costs more than it saves */ };

static bool is_ready(const yk_weight_view *weight)
{
  return weight->plain_stride == 0;
}

/* The inputs that repacking copies: of transposed weights those of the slice, which are far apart; else all. */
static int64_t first_input(const yk_slice_source *source)
{
  return source->weight->plain_stride > 0 ? source->slice.k_begin : 0;
}

static int64_t n_inputs(const yk_slice_source *source)
{
  return source->weight->plain_stride > 0 ? source->slice.k_end - source->slice.k_begin : source->weight->k;
}

static int64_t row_bytes_of(const yk_slice_source *source)
{
  return n_inputs(source) * (int64_t)yk_dtype_bytes(source->weight->dtype);
}

static size_t repacked_bytes(const yk_slice_source *source)
{
  return (size_t)((source->slice.n_end - source->slice.n_begin) * row_bytes_of(source));
}

typedef struct copying {
  const yk_slice_source *source;
  char *to;
} copying;

static void copy_rows(void *context, int thread, int64_t begin, int64_t end)
{
  (void)thread;
  const copying *c = context;
  int64_t row_bytes = row_bytes_of(c->source);
  const char *from = c->source->weight->plain;
  for (int64_t i = begin; i < end; i++)
    memcpy(c->to + i * row_bytes, from + c->source->order->outputs[i] * row_bytes, (size_t)row_bytes);
}

static void transpose_rows(void *context, int thread, int64_t begin, int64_t end)
{
  (void)thread;
  const copying *c = context;
  const yk_slice_source *source = c->source;
  const yk_transposed matrix = {.data = source->weight->plain,
                                .stride = source->weight->plain_stride,
                                .element_bytes = yk_dtype_bytes(source->weight->dtype),
                                .k_first = first_input(source),
                                .n_k = n_inputs(source),
                                .n_first = source->slice.n_begin,
                                .outputs = source->order ? source->order->outputs : NULL};
  yk_transposed_copy(&matrix, begin, end, c->to);
}

/* Copy the rows in the order of outputs, or transposed ones in any order. */
static yk_status repack(const yk_slice_source *source, yk_cpu_pool *pool, void *buffer, yk_repacked_slice *out,
                        yk_err *err)
{
  (void)err;
  copying c = {source, buffer};
  const bool is_transposed = source->weight->plain_stride > 0;
  int64_t n = source->slice.n_end - source->slice.n_begin, k_first = first_input(source);
  int64_t min_rows = yk_ceil_div_i64(MIN_THREAD_BYTES, yk_max_i64(row_bytes_of(source), 1));
  yk_cpu_pool_deal(pool, n, min_rows, is_transposed ? transpose_rows : copy_rows, &c);
  *out = (yk_repacked_slice){*source->weight, {source->slice.k_begin - k_first, source->slice.k_end - k_first, 0, n}};
  out->weight.plain = buffer;
  out->weight.plain_stride = 0;
  out->weight.k = n_inputs(source);
  out->weight.n = n;
  return YK_OK;
}

static yk_status to_floats(const yk_weight_view *weight, const yk_weight_slice *slice, float *to, int64_t stride,
                           yk_err *err)
{
  (void)err;
  const int64_t element_bytes = (int64_t)yk_dtype_bytes(weight->dtype), column_stride = weight->plain_stride;
  for (int64_t n = slice->n_begin; n < slice->n_end; n++, to += stride)
    for (int64_t k = slice->k_begin; k < slice->k_end; k++) {
      uint32_t element = 0; /* data in files may be unaligned */
      const int64_t at = column_stride > 0 ? k * column_stride + n : n * weight->k + k;
      memcpy(&element, (const char *)weight->plain + at * element_bytes, (size_t)element_bytes);
      to[k - slice->k_begin] = yk_dtype_load(weight->dtype, &element, 0);
    }
  return YK_OK;
}

const yk_loader_format yk_loader_format_plain = {
    .is_ready = is_ready, .repacked_bytes = repacked_bytes, .repack = repack, .to_floats = to_floats};

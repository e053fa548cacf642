#include "model/repack_floats.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "kernels/cpu/cpu_simd.h"
#include "loader/integers/dequantise.h"

enum {
  BLOCK_K = 4096, /* a block is floats in a cache before it is rounded */
  BLOCK_N = 32,
  SCRATCH_BYTES = BLOCK_K * BLOCK_N * (int)sizeof(float),
  MIN_THREAD_ELEMENTS = 1 << 16 /* less costs more than it saves */
};

typedef struct bringing {
  const yk_linear_part *part;
  yk_dtype dtype;
  char *to;
} bringing;

/* ---- Dequantised ------------------------------------------------------------------------------------------------- */

/* Outputs come in items: as blocks that begin at multiples of BLOCK_N of the weight, or one by one in another order. */
static int64_t n_items_of(const yk_linear_part *part)
{
  if (part->n_order) return yk_range_size(part->n);
  return yk_ceil_div_i64(part->n.end, BLOCK_N) - part->n.begin / BLOCK_N;
}

static yk_range outputs_of(const yk_linear_part *part, int64_t item)
{
  if (part->n_order) return (yk_range){part->n_order[item], part->n_order[item] + 1};
  int64_t first = (part->n.begin / BLOCK_N + item) * BLOCK_N;
  return (yk_range){yk_max_i64(first, part->n.begin), yk_min_i64(first + BLOCK_N, part->n.end)};
}

/* floats: SCRATCH_BYTES. */
static yk_status dequantise_item(const bringing *b, int64_t item, float *floats, yk_err *err)
{
  const yk_cpu_simd *simd = yk_cpu_simd_best();
  const yk_linear_part *part = b->part;
  const yk_range outputs = outputs_of(part, item);
  int64_t element_bytes = (int64_t)yk_dtype_bytes(b->dtype), row_bytes = yk_range_size(part->k) * element_bytes;
  yk_weight_slice block = {.n_begin = outputs.begin, .n_end = outputs.end};
  for (block.k_begin = part->k.begin; block.k_begin < part->k.end; block.k_begin = block.k_end) {
    block.k_end = yk_min_i64(yk_round_up_i64(block.k_begin + 1, BLOCK_K), part->k.end);
    YK_TRY(yk_dequantise(&part->weight, &block, floats, BLOCK_K, err));
    int64_t place = part->n_order ? item : outputs.begin - part->n.begin;
    char *to = b->to + place * row_bytes + (block.k_begin - part->k.begin) * element_bytes;
    for (int64_t n = 0; n < yk_range_size(outputs); n++, to += row_bytes)
      simd->from_f32(to, b->dtype, floats + n * BLOCK_K, (size_t)(block.k_end - block.k_begin));
  }
  return YK_OK;
}

static yk_status dequantise_items(void *context, int64_t begin, int64_t end, yk_err *err)
{
  float *floats = malloc(SCRATCH_BYTES);
  if (!floats) return yk_err_set(err, YK_E_NOMEM, "no memory for %d bytes of dequantised weights", SCRATCH_BYTES);
  yk_status status = YK_OK;
  for (int64_t i = begin; i < end && status == YK_OK; i++) status = dequantise_item(context, i, floats, err);
  free(floats);
  return status;
}

static int64_t min_items(const yk_linear_part *part, int64_t item_outputs)
{
  return yk_ceil_div_i64(MIN_THREAD_ELEMENTS, yk_max_i64(item_outputs * yk_range_size(part->k), 1));
}

yk_status yk_repack_as_floats(yk_cpu_pool *pool, const yk_linear_part *part, yk_dtype dtype, void *to, yk_err *err)
{
  bringing b = {.part = part, .dtype = dtype, .to = to};
  return yk_cpu_pool_try(pool, n_items_of(part), min_items(part, part->n_order ? 1 : BLOCK_N), dequantise_items, &b,
                         err);
}

/* ---- Rows in another order --------------------------------------------------------------------------------------- */

static void copy_rows(void *context, int thread, int64_t begin, int64_t end)
{
  (void)thread;
  const bringing *b = context;
  const yk_weight_view *weight = &b->part->weight;
  int64_t row_bytes = weight->k * (int64_t)yk_dtype_bytes(weight->dtype);
  for (int64_t i = begin; i < end; i++)
    memcpy(b->to + i * row_bytes, (const char *)weight->plain + b->part->n_order[i] * row_bytes, (size_t)row_bytes);
}

void yk_repack_rows(yk_cpu_pool *pool, const yk_linear_part *part, void *to)
{
  bringing b = {.part = part, .to = to};
  yk_cpu_pool_deal(pool, yk_range_size(part->n), min_items(part, 1), copy_rows, &b);
}

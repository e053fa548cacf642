#include "loader/repack_floats.h"

#include <stdlib.h>

#include "base/checked.h"
#include "loader/integers/dequantise.h"

enum {
  BLOCK_K = 4096, /* a block of floats fits the cache until it is rounded */
  BLOCK_N = 32,
  SCRATCH_BYTES = BLOCK_K * BLOCK_N * (int)sizeof(float),
  MIN_THREAD_ELEMENTS = 1 << 16 /* less work per thread costs more than it saves */
};

typedef struct rounding {
  const yk_repack_request *request;
  char *to;
} rounding;

typedef struct outputs {
  int64_t begin, end;
} outputs;

/* Items of work: blocks of outputs that begin at multiples of BLOCK_N of the weight, or single outputs if they are
 * reordered. */
static int64_t n_items_of(const yk_repack_request *r)
{
  if (r->n_order) return r->slice.n_end - r->slice.n_begin;
  return yk_ceil_div_i64(r->slice.n_end, BLOCK_N) - r->slice.n_begin / BLOCK_N;
}

static outputs outputs_of(const yk_repack_request *r, int64_t item)
{
  if (r->n_order) return (outputs){r->n_order[item], r->n_order[item] + 1};
  int64_t first = (r->slice.n_begin / BLOCK_N + item) * BLOCK_N;
  return (outputs){yk_max_i64(first, r->slice.n_begin), yk_min_i64(first + BLOCK_N, r->slice.n_end)};
}

/* floats: SCRATCH_BYTES. */
static yk_status round_item(const rounding *job, int64_t item, float *floats, yk_err *err)
{
  const yk_repack_request *r = job->request;
  const yk_weight_slice *slice = &r->slice;
  const outputs n = outputs_of(r, item);
  int64_t element_bytes = (int64_t)yk_dtype_bytes(r->dtype),
          row_bytes = (slice->k_end - slice->k_begin) * element_bytes;
  int64_t place = r->n_order ? item : n.begin - slice->n_begin;
  yk_weight_slice block = {.n_begin = n.begin, .n_end = n.end};
  for (block.k_begin = slice->k_begin; block.k_begin < slice->k_end; block.k_begin = block.k_end) {
    block.k_end = yk_min_i64(yk_round_up_i64(block.k_begin + 1, BLOCK_K), slice->k_end);
    YK_TRY(yk_dequantise(r->weight, &block, floats, BLOCK_K, err));
    char *to = job->to + place * row_bytes + (block.k_begin - slice->k_begin) * element_bytes;
    for (int64_t i = 0; i < n.end - n.begin; i++, to += row_bytes)
      r->round(to, r->dtype, floats + i * BLOCK_K, (size_t)(block.k_end - block.k_begin));
  }
  return YK_OK;
}

static yk_status round_items(void *context, int64_t begin, int64_t end, yk_err *err)
{
  float *floats = malloc(SCRATCH_BYTES);
  if (!floats) return yk_err_set(err, YK_E_NOMEM, "no memory for %d bytes of dequantised weights", SCRATCH_BYTES);
  yk_status status = YK_OK;
  for (int64_t i = begin; i < end && status == YK_OK; i++) status = round_item(context, i, floats, err);
  free(floats);
  return status;
}

yk_status yk_repack_floats(const yk_repack_request *request, yk_cpu_pool *pool, void *to, yk_err *err)
{
  rounding job = {request, to};
  int64_t item_elements = (request->n_order ? 1 : BLOCK_N) * (request->slice.k_end - request->slice.k_begin);
  int64_t min_items = yk_ceil_div_i64(MIN_THREAD_ELEMENTS, yk_max_i64(item_elements, 1));
  return yk_cpu_pool_try(pool, n_items_of(request), min_items, round_items, &job, err);
}

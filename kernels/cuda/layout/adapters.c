#include "kernels/cuda/layout/adapters.h"

#include <math.h>

#include "base/checked.h"
#include "base/dtype.h"
#include "kernels/device.h"

yk_cuda_adapter_layout yk_cuda_adapters_lay_out(const yk_linear_spec *spec)
{
  yk_cuda_adapter_layout layout = {.n_parts = spec->n_parts,
                                   .max_rank = spec->adapter_rank,
                                   .part_tiles = yk_cuda_adapter_tiles(spec->adapter_rank),
                                   .k = yk_linear_x_size(&spec->parts[0])};
  int64_t n_outputs = 0;
  layout.k_chunks = yk_ceil_div_i64(layout.k, YK_ADAPTER_CHUNK);
  int64_t n_blocks = layout.n_parts * layout.part_tiles * layout.k_chunks;
  for (int i = 0; i < spec->n_parts; i++) {
    layout.n[i] = yk_range_size(spec->parts[i].n);
    layout.b[i] = n_blocks * YK_ADAPTER_BLOCK * YK_ADAPTER_ELEMENT_BYTES;
    n_blocks += yk_ceil_div_i64(layout.n[i], YK_ADAPTER_CHUNK) * layout.part_tiles;
    n_outputs += layout.n[i];
  }
  if (spec->n_adapters == 0 || layout.k == 0 || n_outputs == 0) return (yk_cuda_adapter_layout){0};
  layout.n_adapters = spec->n_adapters;
  layout.adapter_bytes = n_blocks * YK_ADAPTER_BLOCK * YK_ADAPTER_ELEMENT_BYTES;
  layout.matrices = yk_round_up_i64((int64_t)layout.n_adapters * layout.n_parts * (int64_t)sizeof(yk_cuda_adapter_part),
                                    YK_DEVICE_ALIGNMENT_BYTES);
  return layout;
}

int64_t yk_cuda_adapters_bytes(const yk_cuda_adapter_layout *layout)
{
  return layout->matrices + layout->n_adapters * layout->adapter_bytes;
}

int64_t yk_cuda_adapter_product_floats(int64_t n_tiles, int64_t max_rows)
{
  const int64_t row_ranges = yk_max_i64(max_rows, yk_min_i64(max_rows * YK_ADAPTER_RANGES, YK_ADAPTER_ROW_RANGES));
  return row_ranges * n_tiles * YK_ADAPTER_TILE_RANKS;
}

int64_t yk_cuda_adapter_exchange_bytes(int64_t n_tiles, int64_t n_adapters)
{
  enum { ROWS = YK_ADAPTER_EXCHANGE_ROWS, OCTET = 8, TILE_ROWS = YK_ADAPTER_TILE_OCTETS * OCTET };
  /* Tiles of rows: full ones, and one more for each adapter and for rows without. */
  const int64_t n_row_tiles = yk_min_i64(ROWS, ROWS / TILE_ROWS + n_adapters + 1);
  const int64_t rank_tiles = yk_min_i64(n_tiles, YK_ADAPTER_EXCHANGE_TILES),
                sums = n_row_tiles * YK_ADAPTER_RANGES * TILE_ROWS * rank_tiles * YK_ADAPTER_TILE_RANKS;
  return ROWS * (int64_t)sizeof(int32_t) + sums * (int64_t)sizeof(float);
}

/* The power of two by which the largest of n numbers is in [1, 2), if there is a finite one above 2^-100; else 1. */
static float gain_of(const float *values, int64_t n)
{
  const float least = 0x1p-100f; /* whose gain is finite */
  float most = 0.0f;
  int exponent = 0;
  for (int64_t i = 0; i < n; i++)
    if (isfinite(values[i]) && fabsf(values[i]) > most) most = fabsf(values[i]);
  if (most < least) return 1.0f;
  frexpf(most, &exponent);
  return ldexpf(1.0f, 1 - exponent);
}

static void pack_part(const yk_cuda_adapter_layout *layout, yk_dtype dtype, int part, const yk_linear_adapter *from,
                      void *to, yk_cuda_adapter_part *entry)
{
  char *b = (char *)to + layout->b[part];
  const int64_t k = layout->k, n = layout->n[part];
  const float a_gain = gain_of(from->a, from->rank * k), b_gain = gain_of(from->b, from->rank * n);
  for (int32_t r = 0; r < from->rank; r++) {
    for (int64_t i = 0; i < k; i++)
      yk_dtype_store(dtype, to, (size_t)yk_cuda_adapter_a_at(layout, part, r, i), from->a[r * k + i] * a_gain);
    for (int64_t i = 0; i < n; i++)
      yk_dtype_store(dtype, b, (size_t)yk_cuda_adapter_b_at(layout, r, i), from->b[r * n + i] * b_gain);
  }
  entry->rank = from->rank;
  entry->scale = from->scale / a_gain / b_gain;
}

void yk_cuda_adapter_pack(const yk_cuda_adapter_layout *layout, yk_dtype dtype, const yk_linear_adapter *parts,
                          void *to, yk_cuda_adapter_part *table)
{
  for (int i = 0; i < layout->n_parts; i++) {
    table[i] = (yk_cuda_adapter_part){0};
    if (parts[i].rank > 0 && layout->n[i] > 0) pack_part(layout, dtype, i, &parts[i], to, &table[i]);
  }
}

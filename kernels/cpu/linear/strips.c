/* strips.c - rows times one panel of a linear layer, with its weights unpacked to floats.
 *
 * A strip of weights is unpacked once for all rows of the block and multiplied while it is in the L1 cache. Sums are
 * kept in the thread's scratch between strips of inputs. */
#include "base/checked.h"
#include "kernels/cpu/linear/format.h"

void yk_cpu_multiply_strips(const yk_cpu_rows *rows, yk_cpu_unpack *unpack, const void *panel, float *acc)
{
  yk_cpu_scratch *scratch = rows->scratch;
  for (int first = 0; first < YK_CPU_PANEL; first += YK_CPU_STRIP)
    for (int64_t k = 0; k < rows->n_k; k += YK_CPU_STRIP_K) {
      int64_t n_k = yk_min_i64(YK_CPU_STRIP_K, rows->n_k - k);
      unpack(scratch->strip, panel, first, k, n_k);
      rows->simd->multiply(&(yk_cpu_product){.y = acc + first,
                                             .x = rows->x + k,
                                             .w = scratch->strip,
                                             .sums = scratch->sums,
                                             .y_stride = YK_CPU_BLOCK_COLUMNS,
                                             .x_stride = rows->x_stride,
                                             .n_k = n_k,
                                             .n_rows = rows->n_rows,
                                             .is_first = k == 0,
                                             .is_last = k + n_k == rows->n_k});
    }
}

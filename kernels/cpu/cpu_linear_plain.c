/* cpu_linear_plain.c - plain weights: the rank's slice of the checkpoint's [n, k], elements as they are. */
#include <string.h>

#include "kernels/cpu/cpu_linear.h"

void yk_cpu_pack_plain(void *context, int thread, int64_t begin, int64_t end)
{
  (void)thread;
  const yk_cpu_pack *pack = context;
  const yk_linear_part *source = pack->source;
  const yk_cpu_part *part = pack->part;
  int64_t n_bytes = (int64_t)yk_dtype_bytes(part->dtype);
  for (int64_t i = begin; i < end; i++) {
    int64_t first = (source->n.begin + i) * source->weight.k + source->k.begin;
    memcpy((char *)part->weights + i * part->stride * n_bytes, (const char *)source->weight.plain + first * n_bytes,
           (size_t)(part->k * n_bytes));
  }
}

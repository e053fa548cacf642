#include "loader/safetensors/transposed.h"

#include <string.h>

#include "base/checked.h"

enum { TILE = 32 /* elements: a cache line of 16 bits */ };

typedef struct tile {
  int64_t begin, end, k_begin, k_end;
} tile;

static void copy_tile(const yk_transposed *m, const tile *t, char *to)
{
  for (int64_t i = t->begin; i < t->end; i++) {
    const int64_t n = m->outputs ? m->outputs[i] : m->n_first + i;
    for (int64_t k = t->k_begin; k < t->k_end; k++) {
      const int64_t at = (m->k_first + k) * m->stride + n;
      memcpy(to + (size_t)(i * m->n_k + k) * m->element_bytes, (const char *)m->data + (size_t)at * m->element_bytes,
             m->element_bytes);
    }
  }
}

void yk_transposed_copy(const yk_transposed *matrix, int64_t begin, int64_t end, void *to)
{
  for (int64_t i = begin; i < end; i += TILE)
    for (int64_t k = 0; k < matrix->n_k; k += TILE) {
      const tile t = {i, yk_min_i64(i + TILE, end), k, yk_min_i64(k + TILE, matrix->n_k)};
      copy_tile(matrix, &t, to);
    }
}

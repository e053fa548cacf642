/* transposed.h - rows of a matrix that a file holds transposed. For use in the loader and in code that rewrites
 * checkpoints. */
#ifndef YK_LOADER_TRANSPOSED_H
#define YK_LOADER_TRANSPOSED_H

#include <stddef.h>
#include <stdint.h>

/* Element (n, k) is element k * stride + n of data. */
typedef struct yk_transposed {
  const void *data;
  int64_t stride;
  size_t element_bytes;
  int64_t k_first, n_k;   /* the columns that are copied */
  int64_t n_first;        /* row of the matrix that is row 0 of the copy, */
  const int32_t *outputs; /* or, unless NULL, the row of the matrix for each row of the copy */
} yk_transposed;

/* yk_transposed_copy - rows [begin, end) of the copy [*, n_k], row-major; to: row 0. Thread: any. */
void yk_transposed_copy(const yk_transposed *matrix, int64_t begin, int64_t end, void *to);

#endif

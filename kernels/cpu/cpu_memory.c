#include "kernels/cpu/cpu_memory.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/checked.h"

enum {
  ALIGNMENT_BYTES = 256,
  HUGE_PAGE_BYTES = 2 << 20,
  CHUNK_BYTES = 64 << 20,      /* the unused end of the last chunk has no physical pages */
  LEAST_SHARED_BYTES = 1 << 18 /* smaller layers have separate memory */
};

struct yk_cpu_chunk {
  char *memory, *first; /* first: aligned to a large page */
  size_t n_bytes, used;
  int n_layers;
};

/* Weights are read sequentially at every step, which takes a fifth less time with large pages. The request may be
 * ignored. */
static void advise_huge_pages(char *memory, size_t n_bytes)
{
#ifdef MADV_HUGEPAGE
  uintptr_t first = (uintptr_t)yk_round_up_i64((int64_t)(uintptr_t)memory, HUGE_PAGE_BYTES);
  uintptr_t end = ((uintptr_t)memory + n_bytes) / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
  if (first < end) madvise((void *)first, end - first, MADV_HUGEPAGE);
#else
  (void)memory, (void)n_bytes;
#endif
}

static yk_status no_memory(size_t n_bytes, yk_err *err)
{
  return yk_err_set(err, YK_E_CAPACITY, "cpu device: no memory for %zu bytes", n_bytes);
}

/* calloc rather than aligned_alloc and memset: large blocks are then zero pages without physical memory until their
 * first use. The address from calloc is stored just before the aligned address. */
yk_status yk_cpu_alloc(yk_device *dev, size_t n_bytes, void **out, yk_err *err)
{
  (void)dev;
  uint64_t padded = 0;
  bool is_possible = yk_checked_add_u64(n_bytes, ALIGNMENT_BYTES + sizeof(void *), &padded) && padded <= PTRDIFF_MAX;
  char *raw = is_possible ? calloc(1, padded) : NULL;
  if (!raw) return no_memory(n_bytes, err);
  uintptr_t first = (uintptr_t)raw + sizeof(void *);
  char *aligned = raw + (yk_round_up_i64((int64_t)first, ALIGNMENT_BYTES) - (int64_t)(uintptr_t)raw);
  memcpy(aligned - sizeof raw, &raw, sizeof raw);
  advise_huge_pages(aligned, n_bytes);
  *out = aligned;
  return YK_OK;
}

void yk_cpu_free(yk_device *dev, void *ptr)
{
  (void)dev;
  if (!ptr) return;
  void *raw;
  memcpy(&raw, (char *)ptr - sizeof raw, sizeof raw);
  free(raw);
}

static yk_status new_chunk(size_t n_bytes, yk_cpu_chunk **out, yk_err *err)
{
  yk_cpu_chunk *chunk = calloc(1, sizeof *chunk);
  if (!chunk) return yk_err_set(err, YK_E_NOMEM, "cpu device: no memory for weights");
  chunk->n_bytes = n_bytes > CHUNK_BYTES ? n_bytes : CHUNK_BYTES;
  chunk->memory = n_bytes <= PTRDIFF_MAX - HUGE_PAGE_BYTES ? calloc(1, chunk->n_bytes + HUGE_PAGE_BYTES) : NULL;
  if (!chunk->memory) {
    free(chunk);
    return no_memory(n_bytes, err);
  }
  int64_t address = (int64_t)(uintptr_t)chunk->memory;
  chunk->first = chunk->memory + (yk_round_up_i64(address, HUGE_PAGE_BYTES) - address);
  advise_huge_pages(chunk->first, chunk->n_bytes);
  *out = chunk;
  return YK_OK;
}

yk_status yk_cpu_weights_alloc(yk_cpu_chunk **current, size_t n_bytes, yk_cpu_chunk **chunk, void **out, yk_err *err)
{
  *chunk = NULL;
  if (n_bytes < LEAST_SHARED_BYTES) return yk_cpu_alloc(NULL, n_bytes, out, err);
  if (!*current || (*current)->n_bytes - (*current)->used < n_bytes) YK_TRY(new_chunk(n_bytes, current, err));
  yk_cpu_chunk *from = *current;
  *out = from->first + from->used;
  from->used =
      (size_t)yk_min_i64(yk_round_up_i64((int64_t)(from->used + n_bytes), ALIGNMENT_BYTES), (int64_t)from->n_bytes);
  from->n_layers++;
  *chunk = from;
  return YK_OK;
}

void yk_cpu_weights_free(yk_cpu_chunk **current, yk_cpu_chunk *chunk, void *ptr)
{
  if (!chunk) {
    yk_cpu_free(NULL, ptr);
    return;
  }
  if (--chunk->n_layers > 0) return;
  if (*current == chunk) *current = NULL;
  free(chunk->memory);
  free(chunk);
}

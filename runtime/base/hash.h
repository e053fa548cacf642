/* hash.h - FNV-1a, 32 bits, of Fowler, Noll and Vo: tells whether bytes are the same, not who made them. */
#ifndef YK_BASE_HASH_H
#define YK_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#define YK_HASH_START UINT32_C(2166136261)

/* yk_hash - of n_bytes bytes, never 0. start: YK_HASH_START, or the hash of what comes before. */
static inline uint32_t yk_hash(uint32_t start, const void *bytes, size_t n_bytes)
{
  const unsigned char *at = bytes;
  uint32_t hash = start;
  for (size_t i = 0; i < n_bytes; i++) hash = (hash ^ at[i]) * UINT32_C(16777619);
  return hash ? hash : 1;
}

#endif

/* hash.h - FNV-1a, 32 bits, by Fowler, Noll and Vo: detects changed bytes, but does not authenticate them. */
#ifndef YK_BASE_HASH_H
#define YK_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#define YK_HASH_START UINT32_C(2166136261)

/* yk_hash - hash of n_bytes bytes, never 0. start: YK_HASH_START, or the hash of the preceding bytes. */
static inline uint32_t yk_hash(uint32_t start, const void *bytes, size_t n_bytes)
{
  const unsigned char *at = bytes;
  uint32_t hash = start;
  for (size_t i = 0; i < n_bytes; i++) hash = (hash ^ at[i]) * UINT32_C(16777619);
  return hash ? hash : 1;
}

/* yk_hash_undo - the start from which these bytes give a hash other than 1, which may stand for 0. The factor is the
 *   inverse of yk_hash's modulo 2^32. */
static inline uint32_t yk_hash_undo(uint32_t hash, const void *bytes, size_t n_bytes)
{
  const unsigned char *at = bytes;
  uint32_t start = hash;
  for (size_t i = n_bytes; i-- > 0;) start = start * UINT32_C(899433627) ^ at[i];
  return start;
}

#endif

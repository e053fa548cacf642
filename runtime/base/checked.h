/* checked.h - arithmetic on sizes from files. Each checked function returns false on overflow and leaves *out
 * unchanged. */
#ifndef YK_BASE_CHECKED_H
#define YK_BASE_CHECKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool yk_checked_mul_u64(uint64_t a, uint64_t b, uint64_t *out)
{
  uint64_t product;
  if (__builtin_mul_overflow(a, b, &product)) return false;
  *out = product;
  return true;
}

static inline bool yk_checked_add_u64(uint64_t a, uint64_t b, uint64_t *out)
{
  uint64_t sum;
  if (__builtin_add_overflow(a, b, &sum)) return false;
  *out = sum;
  return true;
}

static inline int64_t yk_min_i64(int64_t a, int64_t b)
{
  return a < b ? a : b;
}

static inline int64_t yk_max_i64(int64_t a, int64_t b)
{
  return a > b ? a : b;
}

static inline int64_t yk_ceil_div_i64(int64_t a, int64_t b)
{
  return (a + b - 1) / b;
}

/* Greatest common divisor of two non-negative numbers. */
static inline int64_t yk_gcd_i64(int64_t a, int64_t b)
{
  while (b) {
    int64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

static inline int64_t yk_round_up_i64(int64_t a, int64_t multiple)
{
  return yk_ceil_div_i64(a, multiple) * multiple;
}

#endif

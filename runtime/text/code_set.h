/* code_set.h - a set of code points. Owner: the declaring function; start from {0}, free with yk_code_set_free.
 * A failed allocation sets failed, which stays set, as in a yk_strbuf. */
#ifndef YK_TEXT_CODE_SET_H
#define YK_TEXT_CODE_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { YK_CODE_POINT_END = 0x110000 };

typedef struct yk_code_range {
  uint32_t first, last;
} yk_code_range;

typedef struct yk_code_set {
  yk_code_range *ranges; /* ascending and disjoint after yk_code_set_order */
  size_t n, capacity;
  bool failed;
} yk_code_set;

/* yk_code_set_add - add first to last; yk_code_set_order must be called before any query. */
void yk_code_set_add(yk_code_set *set, uint32_t first, uint32_t last);
void yk_code_set_add_all(yk_code_set *set, const yk_code_range *ranges, size_t n);

/* yk_code_set_order - sort the ranges and join adjacent ones. */
void yk_code_set_order(yk_code_set *set);

/* These need an ordered set; yk_code_set_invert leaves the set ordered. */
void yk_code_set_invert(yk_code_set *set);
bool yk_code_set_equal(const yk_code_set *a, const yk_code_set *b);

/* yk_code_ranges_hold - whether one of n ascending ranges contains the code point. */
bool yk_code_ranges_hold(const yk_code_range *ranges, size_t n, uint32_t code_point);

void yk_code_set_free(yk_code_set *set);

#endif

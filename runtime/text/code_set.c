#include "text/code_set.h"

#include <stdlib.h>
#include <string.h>

static bool reserve(yk_code_set *set, size_t n)
{
  if (set->failed || n <= set->capacity) return !set->failed;
  size_t capacity = n < 2 * set->capacity ? 2 * set->capacity : n;
  yk_code_range *ranges = realloc(set->ranges, capacity * sizeof *ranges);
  if (!ranges) {
    set->failed = true;
    return false;
  }
  set->ranges = ranges;
  set->capacity = capacity;
  return true;
}

void yk_code_set_add(yk_code_set *set, uint32_t first, uint32_t last)
{
  if (reserve(set, set->n + 1)) set->ranges[set->n++] = (yk_code_range){first, last};
}

void yk_code_set_add_all(yk_code_set *set, const yk_code_range *ranges, size_t n)
{
  if (n == 0 || !reserve(set, set->n + n)) return;
  memcpy(set->ranges + set->n, ranges, n * sizeof *ranges);
  set->n += n;
}

static int compare_ranges(const void *a, const void *b)
{
  const yk_code_range *x = a, *y = b;
  return (x->first > y->first) - (x->first < y->first);
}

void yk_code_set_order(yk_code_set *set)
{
  if (set->n < 2) return;
  qsort(set->ranges, set->n, sizeof *set->ranges, compare_ranges);
  size_t n = 1;
  for (size_t i = 1; i < set->n; i++) {
    yk_code_range next = set->ranges[i], *last = &set->ranges[n - 1];
    if (next.first > last->last + 1)
      set->ranges[n++] = next;
    else if (next.last > last->last)
      last->last = next.last;
  }
  set->n = n;
}

void yk_code_set_invert(yk_code_set *set)
{
  if (!reserve(set, set->n + 1)) return;
  uint32_t begin = 0; /* of the gap before the next range */
  size_t n = 0;
  for (size_t i = 0; i < set->n; i++) {
    yk_code_range range = set->ranges[i];
    if (range.first > begin) set->ranges[n++] = (yk_code_range){begin, range.first - 1};
    begin = range.last + 1;
  }
  if (begin < YK_CODE_POINT_END) set->ranges[n++] = (yk_code_range){begin, YK_CODE_POINT_END - 1};
  set->n = n;
}

bool yk_code_set_equal(const yk_code_set *a, const yk_code_set *b)
{
  return a->n == b->n && (a->n == 0 || memcmp(a->ranges, b->ranges, a->n * sizeof *a->ranges) == 0);
}

bool yk_code_ranges_hold(const yk_code_range *ranges, size_t n, uint32_t code_point)
{
  size_t low = 0, high = n; /* ranges before low begin at or before the code point, ranges from high on after it */
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (ranges[middle].first <= code_point)
      low = middle + 1;
    else
      high = middle;
  }
  return low > 0 && code_point <= ranges[low - 1].last;
}

void yk_code_set_free(yk_code_set *set)
{
  free(set->ranges);
  *set = (yk_code_set){0};
}

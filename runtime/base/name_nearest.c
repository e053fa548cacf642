#include "base/name_nearest.h"

#include <string.h>

/* Levenshtein distance, computed with one row. */
static size_t edit_distance(const char *a, const char *b)
{
  size_t row[YK_NAME_MAX_CHARS + 1], n = strlen(b);
  for (size_t j = 0; j <= n; j++) row[j] = j;
  for (size_t i = 0; a[i]; i++) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 1; j <= n; j++) {
      size_t best = diagonal + (a[i] != b[j - 1]);
      diagonal = row[j];
      if (row[j] + 1 < best) best = row[j] + 1;
      if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
      row[j] = best;
    }
  }
  return row[n];
}

const char *yk_name_nearest(const char *text, const char *const *candidates, size_t n_candidates)
{
  size_t length = strlen(text), best_distance = length / 3 + 1;
  const char *best = NULL;
  if (length > YK_NAME_MAX_CHARS) return NULL;
  for (size_t i = 0; i < n_candidates; i++) {
    if (!candidates[i] || strlen(candidates[i]) > YK_NAME_MAX_CHARS) continue;
    size_t distance = edit_distance(text, candidates[i]);
    if (distance > best_distance || distance >= strlen(candidates[i])) continue;
    if (distance == best_distance && best) continue;
    best_distance = distance;
    best = candidates[i];
  }
  return best;
}

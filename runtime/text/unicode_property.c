#include "text/unicode_property.h"

#include <string.h>

#include "text/unicode_tables.h"

enum { NAME_MAX_BYTES = 64 };

/* Writes the name in the tables' form. False: no name of letters. */
static bool plain_name(const char *name, size_t n_bytes, char plain[NAME_MAX_BYTES])
{
  size_t n = 0;
  for (size_t i = 0; i < n_bytes; i++) {
    char c = name[i];
    if (c == ' ' || c == '-' || c == '_') continue;
    if (c >= 'A' && c <= 'Z') c = (char)(c - 'A' + 'a');
    if (c < 'a' || c > 'z' || n + 1 == NAME_MAX_BYTES) return false;
    plain[n++] = c;
  }
  plain[n] = '\0';
  return n > 0;
}

static void add_category(yk_code_set *set, uint32_t mask)
{
  for (size_t i = 0; i < yk_unicode_n_category_runs; i++) {
    uint32_t run = yk_unicode_category_runs[i];
    uint32_t end = i + 1 < yk_unicode_n_category_runs ? yk_unicode_category_runs[i + 1] >> 8 : YK_CODE_POINT_END;
    if (mask >> (run & 0xFF) & 1) yk_code_set_add(set, run >> 8, end - 1);
  }
}

static void add_script(yk_code_set *set, uint32_t script)
{
  for (size_t i = 0; i < yk_unicode_n_script_runs; i++) {
    uint32_t run = yk_unicode_script_runs[i];
    uint32_t end = i + 1 < yk_unicode_n_script_runs ? yk_unicode_script_runs[i + 1] >> 8 : YK_CODE_POINT_END;
    if ((run & 0xFF) == script) yk_code_set_add(set, run >> 8, end - 1);
  }
}

bool yk_unicode_add_property(yk_code_set *set, const char *name, size_t n_bytes)
{
  char plain[NAME_MAX_BYTES];
  if (!plain_name(name, n_bytes, plain)) return false;
  if (strcmp(plain, "alphabetic") == 0) {
    yk_code_set_add_all(set, yk_unicode_alphabetic, yk_unicode_n_alphabetic);
    return true;
  }
  for (size_t i = 0; i < yk_unicode_n_category_names; i++)
    if (strcmp(plain, yk_unicode_category_names[i].name) == 0) {
      add_category(set, yk_unicode_category_names[i].mask);
      return true;
    }
  for (size_t i = 0; i < yk_unicode_n_script_names; i++)
    if (strcmp(plain, yk_unicode_script_names[i].name) == 0) {
      add_script(set, yk_unicode_script_names[i].script);
      return true;
    }
  return false;
}

static bool holds(const yk_code_set *set, uint32_t code_point)
{
  return yk_code_ranges_hold(set->ranges, set->n, code_point);
}

/* Adds the smallest member of each case class that has a member in the set, then all members of these classes. */
void yk_unicode_close_over_case(yk_code_set *set)
{
  for (int adding_kind = 0; adding_kind < 2; adding_kind++) {
    yk_code_set added = {0};
    for (size_t i = 0; i < yk_unicode_n_foldings; i++) {
      const yk_folding_run *run = &yk_unicode_foldings[i];
      for (uint32_t c = run->first; c <= run->last; c += run->step) {
        uint32_t smallest = c - run->distance;
        if (holds(set, adding_kind ? smallest : c)) {
          uint32_t other = adding_kind ? c : smallest;
          yk_code_set_add(&added, other, other);
        }
      }
    }
    yk_code_set_add_all(set, added.ranges, added.n);
    set->failed = set->failed || added.failed;
    yk_code_set_free(&added);
    yk_code_set_order(set);
  }
}

/* The smallest of the characters that differ from this one only by case. */
static uint32_t fold(uint32_t code_point)
{
  for (size_t i = 0; i < yk_unicode_n_foldings; i++) {
    const yk_folding_run *run = &yk_unicode_foldings[i];
    if (code_point >= run->first && code_point <= run->last && (code_point - run->first) % run->step == 0)
      return code_point - run->distance;
  }
  return code_point;
}

bool yk_unicode_has_several(const yk_code_set *set, uint32_t *found)
{
  for (size_t i = 0; i < yk_unicode_n_several; i++)
    for (*found = yk_unicode_several[i].first; *found <= yk_unicode_several[i].last; (*found)++)
      if (holds(set, *found)) return true;
  return false;
}

bool yk_unicode_ends_in_several(const uint32_t *code_points, size_t n)
{
  for (size_t i = 0; i < yk_unicode_n_long_foldings; i++) {
    const uint32_t *several = yk_unicode_long_foldings[i];
    size_t n_several = several[YK_LONG_FOLDING_MAX - 1] ? YK_LONG_FOLDING_MAX : YK_LONG_FOLDING_MAX - 1;
    if (n_several > n) continue;
    size_t same = 0;
    while (same < n_several && fold(code_points[n - n_several + same]) == fold(several[same])) same++;
    if (same == n_several) return true;
  }
  return false;
}

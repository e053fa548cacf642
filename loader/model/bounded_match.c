#include "loader/model/bounded_match.h"

enum { MAX_HEAP_KIB = 1024 };

int yk_bounded_match(const pcre2_code *regex, const char *module, uint32_t max_steps)
{
  pcre2_match_data *data = pcre2_match_data_create(1, NULL);
  pcre2_match_context *limits = pcre2_match_context_create(NULL);
  int result = PCRE2_ERROR_NOMEMORY;
  if (data && limits) {
    pcre2_set_match_limit(limits, max_steps);
    pcre2_set_heap_limit(limits, MAX_HEAP_KIB);
    result = pcre2_match(regex, (PCRE2_SPTR)module, PCRE2_ZERO_TERMINATED, 0, 0, data, limits);
  }
  pcre2_match_data_free(data);
  pcre2_match_context_free(limits);
  return result;
}

/* Options of a peer-to-peer group that are refused before it uses a GPU. */
#include <csetjmp>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "parallel/p2p/allreduce_p2p.h"

extern "C" { /* cmocka.h is C alone */
#include <cmocka.h>
}

namespace {

void refused(int n_ranks, const yk_p2p_options &options, const char *why)
{
  const int devices[] = {0, 1};
  const yk_p2p_ranks ranks = {n_ranks, 0, 2, 0, devices};
  yk_p2p *ends[2] = {};
  yk_err err = YK_ERR_INIT;
  assert_int_equal(yk_p2p_create(&ranks, &options, ends, &err), YK_E_INVAL);
  if (!std::strstr(err.message, why)) fail_msg("expected \"%s\", found \"%s\"", why, err.message);
  assert_null(ends[0]);
}

void rows_beyond_the_slots_are_refused(void **)
{
  const int64_t bytes = int64_t{1} << 20, gib = int64_t{1} << 30;
  for (int n_ranks : {0, YK_P2P_MAX_RANKS + 1}) refused(n_ranks, {bytes, 8192, 0, 0}, "ranks: expected 1 to");
  for (int64_t max_bytes : {int64_t{0}, int64_t{-1}, 2 * gib}) refused(2, {max_bytes, 8192, 0, 0}, "below 2 GiB");
  for (int64_t row : {int64_t{0}, int64_t{YK_P2P_MAX_ROW_BYTES + 16}}) refused(2, {bytes, row, 0, 0}, "up to 32 KiB");
  refused(2, {bytes, 8192, 0, -1}, "time limit not below 0");
}

} // namespace

int main()
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(rows_beyond_the_slots_are_refused)};
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}

/* The sequences of each salt have a separate hash chain, also with more salts than are remembered. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "engine/loop/cache_salts.h"
#include "engine/loop/sequence.h"
#include "kernels/device.h"

static yk_kv_chain start_of(yk_cache_salts *salts, yk_kv_blocks *blocks, int number)
{
  char text[32];
  const yk_salt salt = {.text = text, .n_bytes = (size_t)snprintf(text, sizeof text, "salt %d", number)};
  return yk_cache_salts_start(salts, blocks, &salt);
}

static void chains_of_salts(void **state)
{
  (void)state;
  yk_cache_salts salts = {0};
  yk_kv_blocks *blocks;
  assert_int_equal(yk_kv_blocks_create(4, &blocks, NULL), YK_OK);
  yk_kv_chain first = start_of(&salts, blocks, 0), highest = first;
  assert_true(first != 0);
  for (int i = 1; i < YK_CACHE_SALTS; i++) {
    yk_kv_chain start = start_of(&salts, blocks, i);
    assert_true(start > highest); /* a new one */
    highest = start;
  }
  assert_true(start_of(&salts, blocks, 0) == first);
  yk_kv_chain second = start_of(&salts, blocks, 1);
  assert_true(start_of(&salts, blocks, YK_CACHE_SALTS) > highest); /* replaces number 2 */
  assert_true(start_of(&salts, blocks, 0) == first && start_of(&salts, blocks, 1) == second);
  assert_true(start_of(&salts, blocks, 2) > highest);
  yk_cache_salts_free(&salts);
  yk_kv_blocks_destroy(blocks);
}

/* Also after blocks were returned, and in copies. */
static void sequences_share_within_a_salt(void **state)
{
  (void)state;
  enum { N_TOKENS = 3 * YK_KV_BLOCK_TOKENS };
  int32_t ids[N_TOKENS] = {0};
  yk_memory_pool *pool;
  yk_sequence sequences[3], copy;
  const yk_memory_rules rules = {.reuses_prefixes = true};
  assert_int_equal(yk_memory_pool_create(40, 64, &rules, &pool, NULL), YK_OK);
  yk_kv_blocks *blocks = yk_memory_pool_blocks(pool);
  yk_kv_chain starts[] = {0, yk_kv_blocks_new_chain(blocks), yk_kv_blocks_new_chain(blocks)};
  for (int i = 0; i < 3; i++) {
    yk_sequence *seq = &sequences[i];
    assert_int_equal(yk_sequence_init(seq, NULL, ids, N_TOKENS, N_TOKENS, NULL), YK_OK);
    yk_sequence_memory_begin_at(&seq->memory, starts[i]);
    for (int again = 0; again < 2; again++) {
      assert_int_equal(yk_sequence_reuse(seq, pool), again ? N_TOKENS - YK_KV_BLOCK_TOKENS : 0);
      assert_true(yk_sequence_memory_reserve(&seq->memory, pool, N_TOKENS));
      yk_sequence_memory_plan(&seq->memory, pool, ids, N_TOKENS - seq->memory.n_computed);
      if (!again) yk_sequence_memory_release(&seq->memory, pool);
    }
  }
  assert_int_equal(yk_sequence_init(&copy, NULL, ids, 0, N_TOKENS, NULL), YK_OK);
  yk_sequence_fork(&sequences[1], pool, &copy);
  yk_sequence_memory_release(&copy.memory, pool);
  assert_true(copy.memory.chain == starts[1]);
  for (int i = 0; i < 3; i++) {
    yk_sequence_memory_release(&sequences[i].memory, pool);
    yk_sequence_destroy(&sequences[i]);
  }
  yk_sequence_destroy(&copy);
  yk_memory_pool_destroy(pool);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(chains_of_salts),
                                     cmocka_unit_test(sequences_share_within_a_salt)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

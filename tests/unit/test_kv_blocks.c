/* Which published KV blocks are found. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/loop/kv_blocks.h"
#include "kernels/kv_cache.h"

static yk_kv_chain publish(yk_kv_blocks *blocks, int32_t block, yk_kv_chain previous, const int32_t *ids)
{
  int32_t holder = -1;
  yk_kv_chain chain = yk_kv_blocks_publish(blocks, block, previous, ids, &holder);
  assert_true(holder >= 0);
  return chain;
}

static void forgotten_blocks_are_not_reused(void **state)
{
  (void)state;
  yk_kv_blocks *blocks;
  yk_kv_chain chain = 99;
  int32_t a[YK_KV_BLOCK_TOKENS] = {1}, b[YK_KV_BLOCK_TOKENS] = {2};
  assert_int_equal(yk_kv_blocks_create(4, &blocks, NULL), YK_OK);
  int32_t first = yk_kv_blocks_take(blocks), second = yk_kv_blocks_take(blocks);
  yk_kv_chain after_a = publish(blocks, first, 0, a);
  yk_kv_blocks_release(blocks, first);
  yk_kv_blocks_forget(blocks);
  assert_int_equal(yk_kv_blocks_find(blocks, 0, a, &chain), -1);
  assert_int_equal(yk_kv_blocks_free_count(blocks), 3);
  publish(blocks, second, after_a, b); /* of a sequence that continues */
  assert_int_equal(yk_kv_blocks_find(blocks, 0, b, &chain), -1);
  int32_t anew = yk_kv_blocks_take(blocks);
  assert_true(publish(blocks, anew, 0, a) != after_a);
  assert_int_equal(yk_kv_blocks_find(blocks, 0, a, &chain), anew);
  assert_int_equal(yk_kv_blocks_find(blocks, chain, b, &chain), -1);
  for (int i = 0; i < 2; i++) yk_kv_blocks_release(blocks, anew);
  yk_kv_blocks_release(blocks, second);
  assert_int_equal(yk_kv_blocks_free_count(blocks), 4);
  yk_kv_blocks_destroy(blocks);
}

/* A block is found only after exactly the same prefix, independent of the block's tokens and hash. */
static void a_block_is_found_only_behind_the_same_chain(void **state)
{
  (void)state;
  yk_kv_blocks *blocks;
  yk_kv_chain chain = 99;
  int32_t a[YK_KV_BLOCK_TOKENS] = {1}, b[YK_KV_BLOCK_TOKENS] = {2};
  assert_int_equal(yk_kv_blocks_create(4, &blocks, NULL), YK_OK);
  int32_t first = yk_kv_blocks_take(blocks), second = yk_kv_blocks_take(blocks), twin = yk_kv_blocks_take(blocks);
  yk_kv_chain after_a = publish(blocks, first, 0, a);
  yk_kv_chain after_b = publish(blocks, second, after_a, b);
  assert_int_equal(publish(blocks, twin, 0, a), after_a); /* computed twice: one block is used */
  assert_int_equal(yk_kv_blocks_find(blocks, 0, b, &chain), -1);
  assert_int_equal(yk_kv_blocks_find(blocks, after_b, b, &chain), -1);
  assert_int_equal(yk_kv_blocks_find(blocks, after_a, b, &chain), second);
  assert_int_equal(chain, after_b);
  yk_kv_blocks_release(blocks, second);
  yk_kv_blocks_release(blocks, twin);
  yk_kv_blocks_release(blocks, first);
  yk_kv_blocks_release(blocks, second);
  assert_int_equal(yk_kv_blocks_free_count(blocks), 4);
  assert_int_equal(yk_kv_blocks_find(blocks, 0, a, &chain), first); /* free, and still valid */
  /* Taking all other blocks evicts the published blocks, least recently used first. */
  for (int i = 0; i < 3; i++) assert_true(yk_kv_blocks_take(blocks) >= 0);
  assert_int_equal(yk_kv_blocks_take(blocks), -1);
  assert_int_equal(yk_kv_blocks_find(blocks, after_a, b, &chain), -1);
  yk_kv_blocks_destroy(blocks);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(forgotten_blocks_are_not_reused),
                                     cmocka_unit_test(a_block_is_found_only_behind_the_same_chain)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

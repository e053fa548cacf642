/* The tables of snapshots and of slots: lookups, replacement, and the operations that are illegal within one step. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "engine/loop/sequence_memory.h"
#include "engine/loop/slots.h"

static yk_snapshots *create(int32_t n)
{
  yk_snapshots *snapshots;
  assert_int_equal(yk_snapshots_create(n, &snapshots, NULL), YK_OK);
  return snapshots;
}

/* In a separate step. */
static int32_t save(yk_snapshots *s, yk_kv_chain chain)
{
  yk_snapshots_begin_step(s);
  int32_t entry = yk_snapshots_save(s, chain, 1);
  yk_snapshots_begin_step(s);
  return entry;
}

static void the_least_recently_used_is_overwritten(void **state)
{
  (void)state;
  yk_snapshots *s = create(3);
  int32_t a = save(s, 10), b = save(s, 11), c = save(s, 12);
  assert_true(a >= 0 && b >= 0 && c >= 0 && a != b && b != c && a != c);
  yk_snapshots_load(s, yk_snapshots_find(s, 10));
  assert_int_equal(save(s, 13), b);
  assert_int_equal(yk_snapshots_find(s, 11), -1);
  assert_int_equal(yk_snapshots_find(s, 10), a);
  assert_int_equal(save(s, 13), -1); /* the chain has a snapshot already */
  yk_snapshots_drop(s, 10);
  yk_snapshots_drop(s, 99);
  assert_int_equal(save(s, 14), a); /* free entries first */
  yk_snapshot_counts counts = yk_snapshots_count(s);
  assert_int_equal(counts.n_entries, 3);
  assert_int_equal(counts.n_used, 3);
  assert_int_equal(counts.saved, 5);
  assert_int_equal(counts.evicted, 2);
  yk_snapshots_destroy(s);
}

/* A step runs its loads and saves in any order. */
static void a_step_neither_loads_what_it_saves_nor_saves_what_it_loads(void **state)
{
  (void)state;
  yk_snapshots *s = create(1);
  assert_int_equal(yk_snapshots_save(s, 10, 1), 0);
  assert_true(yk_snapshots_is_coming(s, 0));
  assert_int_equal(yk_snapshots_save(s, 11, 1), -1);
  yk_snapshots_begin_step(s);
  assert_false(yk_snapshots_is_coming(s, 0));
  yk_snapshots_load(s, 0);
  assert_int_equal(yk_snapshots_save(s, 11, 1), -1);
  yk_snapshots_drop(s, 10); /* free, but the step still loads the entry */
  assert_int_equal(yk_snapshots_save(s, 11, 1), -1);
  yk_snapshots_begin_step(s);
  assert_int_equal(yk_snapshots_save(s, 11, 1), 0);
  yk_snapshots_destroy(s);
  s = create(0);
  assert_int_equal(yk_snapshots_save(s, 10, 1), -1);
  assert_int_equal(yk_snapshots_find(s, 10), -1);
  yk_snapshots_destroy(s);
}

static void snapshots_that_are_not_sound_are_dropped(void **state)
{
  (void)state;
  yk_snapshots *s = create(4);
  yk_snapshots_save(s, 10, 1);
  yk_snapshots_save(s, 12, 2);
  yk_snapshots_begin_step(s);
  yk_snapshots_mark_sound(s, 1);
  yk_snapshots_save(s, 11, 1);
  yk_snapshots_begin_step(s);
  assert_true(yk_snapshots_load(s, yk_snapshots_find(s, 10)));
  assert_false(yk_snapshots_load(s, yk_snapshots_find(s, 11)));
  yk_snapshots_drop_unsound(s);
  assert_true(yk_snapshots_find(s, 10) >= 0);
  assert_int_equal(yk_snapshots_find(s, 11), -1);
  assert_int_equal(yk_snapshots_find(s, 12), -1);
  yk_snapshots_destroy(s);
}

static void slots_left_last_keep_their_holders_longest(void **state)
{
  (void)state;
  yk_slots *slots;
  yk_sequence_memory memories[4], *loser;
  assert_int_equal(yk_slots_create(3, &slots, NULL), YK_OK);
  int32_t of[3];
  for (int i = 0; i < 3; i++) {
    of[i] = yk_slots_take(slots, &memories[i], &loser);
    assert_null(loser);
    assert_ptr_equal(yk_slots_user(slots, of[i]), &memories[i]);
  }
  assert_int_equal(yk_slots_take(slots, &memories[3], &loser), -1);
  yk_slots_leave(slots, of[1], true);
  yk_slots_leave(slots, of[0], true);
  yk_slots_leave(slots, of[2], false);
  assert_null(yk_slots_user(slots, of[1]));
  assert_int_equal(yk_slots_take(slots, &memories[3], &loser), of[2]);
  assert_null(loser);
  yk_slots_retake(slots, of[1]);
  yk_slots_leave(slots, of[1], true);
  assert_int_equal(yk_slots_take(slots, &memories[2], &loser), of[0]);
  assert_ptr_equal(loser, &memories[0]);
  yk_slots_drop_holder(slots, of[1]);
  assert_int_equal(yk_slots_take(slots, &memories[0], &loser), of[1]);
  assert_null(loser);
  yk_slots_destroy(slots);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(the_least_recently_used_is_overwritten),
                                     cmocka_unit_test(a_step_neither_loads_what_it_saves_nor_saves_what_it_loads),
                                     cmocka_unit_test(snapshots_that_are_not_sound_are_dropped),
                                     cmocka_unit_test(slots_left_last_keep_their_holders_longest)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

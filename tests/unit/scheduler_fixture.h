/* scheduler_fixture.h - a scheduler over a pool of KV blocks and states. */
#ifndef TESTS_UNIT_SCHEDULER_FIXTURE_H
#define TESTS_UNIT_SCHEDULER_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/loop/scheduler.h"
#include "kernels/device.h"

typedef struct scheduler_limits {
  yk_device_limits step;
  yk_memory_rules rules;
} scheduler_limits;

typedef struct scheduled_pool {
  yk_memory_pool *pool;
  yk_kv_blocks *blocks; /* the pool's */
  yk_scheduler *scheduler;
} scheduled_pool;

/* depth: steps in flight. */
static inline scheduled_pool scheduled_pool_new(const scheduler_limits *limits, int depth, int32_t n_blocks,
                                                int32_t n_slots)
{
  scheduled_pool made;
  assert_int_equal(yk_memory_pool_create(n_blocks, n_slots, &limits->rules, &made.pool, NULL), YK_OK);
  assert_int_equal(yk_scheduler_create(&limits->step, depth, made.pool, &made.scheduler, NULL), YK_OK);
  made.blocks = yk_memory_pool_blocks(made.pool);
  return made;
}

static inline void scheduled_pool_free(const scheduled_pool *made)
{
  yk_scheduler_destroy(made->scheduler);
  yk_memory_pool_destroy(made->pool);
}

#endif

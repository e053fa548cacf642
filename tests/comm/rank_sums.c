#include "comm/rank_sums.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>

#include "base/rng.h"

static void *run_rank(void *context)
{
  rank_sum *s = context;
  const yk_comm_ops *ops = s->comm->ops;
  const int32_t mine[2] = {s->comm->rank, 10 * s->comm->rank};
  const yk_all_reduce_add_norm_args args = {.partial.rows = s->partial,
                                            .residual = s->residual,
                                            .y = s->y,
                                            .w = s->w,
                                            .n_rows = s->n_rows,
                                            .hidden = RANK_SUM_HIDDEN,
                                            .alpha = 0.7F,
                                            .eps = 1e-5F};
  s->status = ops->all_reduce_add_norm(s->comm, &args, NULL);
  if (s->status == YK_OK) s->status = ops->all_reduce(s->comm, s->partial, RANK_SUM_ELEMENTS, YK_F32, NULL);
  if (s->status == YK_OK) s->status = ops->all_reduce_i32(s->comm, s->largest, 8, YK_REDUCE_MAX, NULL);
  if (s->status == YK_OK) s->status = ops->gather_host(s->comm, mine, sizeof mine, s->gathered, NULL);
  if (s->status == YK_OK) s->status = ops->barrier(s->comm, NULL);
  return NULL;
}

/* Numbers of very different sizes, so that another order of additions changes bits. */
static float number_at(int source, int i)
{
  float u = yk_rng_uniform((uint64_t)source, (uint64_t)i, 0), size = yk_rng_uniform((uint64_t)source, (uint64_t)i, 1);
  return (u - 0.5F) * (size < 0.5F ? 1e-3F : 1e3F);
}

static void fill(rank_sum *s, int rank, int32_t n_rows, yk_comm *comm)
{
  *s = (rank_sum){.comm = comm, .n_rows = n_rows};
  for (int i = 0; i < RANK_SUM_ELEMENTS; i++) {
    s->partial[i] = number_at(rank + 1, i);
    s->residual[i] = number_at(100, i);
  }
  for (int i = 0; i < RANK_SUM_HIDDEN; i++) s->w[i] = number_at(101, i);
  for (int i = 0; i < 8; i++) s->largest[i] = (rank + 3) * (i + 5) % 7;
}

void rank_sums_run(rank_sum *ranks, int first, int n, yk_comm **comms, int32_t n_rows)
{
  pthread_t threads[YK_MAX_RANKS];
  for (int i = 0; i < n; i++) {
    fill(&ranks[i], first + i, n_rows, comms[i]);
    assert_int_equal(pthread_create(&threads[i], NULL, run_rank, &ranks[i]), 0);
  }
  for (int i = 0; i < n; i++) {
    pthread_join(threads[i], NULL);
    assert_int_equal(ranks[i].status, YK_OK);
  }
}

static bool same_bits(const void *a, const void *b, size_t n_bytes)
{
  return memcmp(a, b, n_bytes) == 0;
}

bool rank_sums_equal(const rank_sum *a, const rank_sum *b)
{
  return same_bits(a->residual, b->residual, sizeof a->residual) && same_bits(a->y, b->y, sizeof a->y) &&
         same_bits(a->partial, b->partial, sizeof a->partial) && same_bits(a->largest, b->largest, sizeof a->largest) &&
         same_bits(a->gathered, b->gathered, sizeof a->gathered);
}

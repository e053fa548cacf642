/* Reductions in two levels, over CPU ranks: the conformance suite over a communicator of a group, one of each host and
 * one between the hosts. CPU ranks reduce in one level themselves; here they stand for GPUs. */
#include "parallel/comm_levels.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "comm/conformance.h"
#include "each_case.h"
#include "sanitized.h"

/* Sizes on both sides of both crossovers among the shapes of the suite. */
enum { GATHER_BYTES = 2048, SLICE_BYTES = 64 << 10, MOST_RANKS = 8 };

/* A CPU communicator with the operations of a level. */
typedef struct level {
  yk_comm base;
  yk_comm *inner;
} level;

typedef struct levels_end {
  yk_comm base;
  yk_comm *whole;
  level local, between;
  yk_levels levels;
  char gathered[YK_LEVELS_MAX_HOSTS * GATHER_BYTES];
} levels_end;

/* All ends of the open fixture: an abort ends the communicators of every host, as in a run of several processes. */
static levels_end *open_ends[MOST_RANKS];
static int n_open_ends;

/* ---- A level ----------------------------------------------------------------------------------------------------- */

static yk_status level_all_reduce(yk_comm *base, void *data, int64_t count, yk_dtype dtype, yk_err *err)
{
  yk_comm *inner = ((level *)base)->inner;
  return inner->ops->all_reduce(inner, data, count, dtype, err);
}

static yk_status level_all_reduce_i32(yk_comm *base, int32_t *data, int64_t count, yk_reduction reduction, yk_err *err)
{
  yk_comm *inner = ((level *)base)->inner;
  return inner->ops->all_reduce_i32(inner, data, count, reduction, err);
}

/* Undefined slices become NaNs. */
static yk_status level_reduce_scatter(yk_comm *base, void *data, int64_t count, yk_dtype dtype, yk_err *err)
{
  const size_t slice = (size_t)count * yk_dtype_bytes(dtype) / (size_t)base->n_ranks;
  YK_TRY(level_all_reduce(base, data, count, dtype, err));
  for (int rank = 0; rank < base->n_ranks; rank++)
    if (rank != base->rank) memset((char *)data + (size_t)rank * slice, 0xff, slice);
  return YK_OK;
}

/* As a sum of 32-bit words that are 0 on all ranks but one. */
static yk_status level_all_gather(yk_comm *base, const void *data, int64_t n_bytes, void *all, yk_err *err)
{
  char *own = (char *)all + base->rank * n_bytes;
  if (own != data) memcpy(own, data, (size_t)n_bytes);
  memset(all, 0, (size_t)(base->rank * n_bytes));
  memset(own + n_bytes, 0, (size_t)((base->n_ranks - base->rank - 1) * n_bytes));
  return level_all_reduce_i32(base, all, base->n_ranks * n_bytes / (int64_t)sizeof(int32_t), YK_REDUCE_SUM, err);
}

static level level_of(yk_comm *inner)
{
  static const yk_comm_ops ops = {.name = "level",
                                  .all_reduce = level_all_reduce,
                                  .all_reduce_i32 = level_all_reduce_i32,
                                  .reduce_scatter = level_reduce_scatter,
                                  .all_gather = level_all_gather};
  level made = {.base = *inner, .inner = inner};
  made.base.ops = &ops;
  return made;
}

/* ---- The group --------------------------------------------------------------------------------------------------- */

static bool end_destroy(yk_comm *base)
{
  levels_end *end = (levels_end *)base;
  end->whole->ops->destroy(end->whole);
  end->local.inner->ops->destroy(end->local.inner);
  end->between.inner->ops->destroy(end->between.inner);
  free(end);
  return true;
}

static yk_status end_all_reduce(yk_comm *base, void *data, int64_t count, yk_dtype dtype, yk_err *err)
{
  levels_end *end = (levels_end *)base;
  const yk_levels *l = &end->levels;
  if (yk_levels_route_of(&l->sizes, count * (int64_t)yk_dtype_bytes(dtype)) == YK_LEVELS_SLICES)
    return yk_levels_all_reduce(l, data, count, dtype, err);
  return end->whole->ops->all_reduce(end->whole, data, count, dtype, err);
}

static yk_status end_all_reduce_i32(yk_comm *base, int32_t *data, int64_t count, yk_reduction reduction, yk_err *err)
{
  levels_end *end = (levels_end *)base;
  if (yk_levels_route_of(&end->levels.sizes, count * (int64_t)sizeof *data) == YK_LEVELS_GATHER)
    return yk_levels_all_reduce_i32(&end->levels, data, count, reduction, err);
  return end->whole->ops->all_reduce_i32(end->whole, data, count, reduction, err);
}

static yk_status end_add_norm(yk_comm *base, const yk_all_reduce_add_norm_args *args, yk_err *err)
{
  levels_end *end = (levels_end *)base;
  const int64_t n_bytes = (int64_t)args->n_rows * args->hidden * (int64_t)yk_dtype_bytes(base->dev->dtype);
  if (yk_levels_route_of(&end->levels.sizes, n_bytes) != YK_LEVELS_NONE)
    return yk_levels_all_reduce_add_norm(&end->levels, args, err);
  return end->whole->ops->all_reduce_add_norm(end->whole, args, err);
}

static yk_status end_gather(yk_comm *base, void *data, int64_t n_bytes, yk_err *err)
{
  yk_comm *whole = ((levels_end *)base)->whole;
  return whole->ops->gather(whole, data, n_bytes, err);
}

static yk_status end_gather_host(yk_comm *base, const void *data, size_t n_bytes, void *all, yk_err *err)
{
  yk_comm *whole = ((levels_end *)base)->whole;
  return whole->ops->gather_host(whole, data, n_bytes, all, err);
}

static yk_status end_open_memories(yk_comm *base, void *memory, void **opened, yk_err *err)
{
  yk_comm *whole = ((levels_end *)base)->whole;
  return whole->ops->open_memories(whole, memory, opened, err);
}

static yk_status end_await_writes(yk_comm *base, yk_err *err)
{
  yk_comm *whole = ((levels_end *)base)->whole;
  return whole->ops->await_writes(whole, err);
}

static yk_status end_barrier(yk_comm *base, yk_err *err)
{
  yk_comm *whole = ((levels_end *)base)->whole;
  return whole->ops->barrier(whole, err);
}

static void end_abort(yk_comm *base)
{
  (void)base;
  for (int i = 0; i < n_open_ends; i++) {
    yk_comm *parts[] = {open_ends[i]->whole, open_ends[i]->local.inner, open_ends[i]->between.inner};
    for (size_t k = 0; k < sizeof parts / sizeof *parts; k++) parts[k]->ops->abort(parts[k]);
  }
}

static const yk_comm_ops end_ops = {.name = "two levels",
                                    .destroy = end_destroy,
                                    .all_reduce = end_all_reduce,
                                    .all_reduce_i32 = end_all_reduce_i32,
                                    .all_reduce_add_norm = end_add_norm,
                                    .gather = end_gather,
                                    .gather_host = end_gather_host,
                                    .open_memories = end_open_memories,
                                    .await_writes = end_await_writes,
                                    .barrier = end_barrier,
                                    .abort = end_abort};

/* Hosts of 2 ranks, or of 4 if there are 8; with an odd number of ranks, each rank has its own host. */
static int ranks_of_host(int n_ranks)
{
  return n_ranks % 2 ? 1 : n_ranks == 8 ? 4 : 2;
}

static bool open_levels(int n_ranks, yk_dtype dtype, yk_device **devs, yk_comm **comms)
{
  const yk_device_limits limits = {.max_tokens = 64, .max_seqs = 64, .max_model_tokens = 64, .vocab = 64};
  const int n_local = ranks_of_host(n_ranks), n_hosts = n_ranks / n_local;
  const yk_world whole = yk_world_of_process(n_ranks), between = yk_world_of_process(n_hosts);
  yk_world local = whole;
  yk_comm *wholes[MOST_RANKS], *locals[MOST_RANKS], *betweens[MOST_RANKS];
  local.n_stages = n_hosts; /* groups of n_local consecutive ranks */
  for (int rank = 0; rank < n_ranks; rank++)
    if (yk_cpu_device_create(dtype, 1, &limits, &devs[rank], NULL) != YK_OK) return false;
  if (yk_comm_local_create(&whole, devs, wholes, NULL) != YK_OK) return false;
  if (yk_comm_local_create(&local, devs, locals, NULL) != YK_OK) return false;
  for (int number = 0; number < n_local; number++) {
    yk_device *of_number[MOST_RANKS];
    for (int host = 0; host < n_hosts; host++) of_number[host] = devs[host * n_local + number];
    if (yk_comm_local_create(&between, of_number, betweens + (ptrdiff_t)number * n_hosts, NULL) != YK_OK) return false;
  }
  n_open_ends = n_ranks;
  for (int rank = 0; rank < n_ranks; rank++) {
    levels_end *end = calloc(1, sizeof *end);
    if (!end) return false;
    end->base = *wholes[rank];
    end->base.ops = &end_ops;
    end->whole = wholes[rank];
    end->local = level_of(locals[rank]);
    end->between = level_of(betweens[rank % n_local * n_hosts + rank / n_local]);
    end->levels = (yk_levels){.sizes = {.n_hosts = n_hosts,
                                        .n_local = n_local,
                                        .gather_bytes = n_hosts > 1 ? GATHER_BYTES : 0,
                                        .slice_bytes = n_hosts > 1 && n_local > 1 ? SLICE_BYTES : 0},
                              .local = n_local > 1 ? &end->local.base : NULL,
                              .between = &end->between.base,
                              .gathered = end->gathered};
    open_ends[rank] = end;
    comms[rank] = &end->base;
  }
  return true;
}

static void close_levels(int n_ranks, yk_device **devs, yk_comm **comms)
{
  for (int rank = 0; rank < n_ranks; rank++) comms[rank]->ops->destroy(comms[rank]);
  for (int rank = 0; rank < n_ranks; rank++) devs[rank]->ops->destroy(devs[rank]);
}

/* Within a host, between the hosts, and with the residual. */
static double round_at_each_level(int n_ranks, comm_shape shape)
{
  (void)shape;
  return ranks_of_host(n_ranks) > 1 && n_ranks > 2 ? 3 : 1;
}

/* ---- Sizes ------------------------------------------------------------------------------------------------------- */

static void the_route_follows_the_size(void **state)
{
  (void)state;
  for (int n_local = 2; each_case(n_local, n_local <= YK_P2P_MAX_RANKS); n_local *= 2) {
    const yk_p2p_options slots = yk_p2p_options_for(n_local, 4096, 8192, 60);
    int64_t last = INT64_MAX;
    for (int n_hosts = 2; n_hosts <= YK_LEVELS_MAX_HOSTS; n_hosts++) {
      const yk_levels_sizes sizes = yk_levels_sizes_for(n_hosts, n_local, &slots);
      assert_true(sizes.gather_bytes > 0 && sizes.gather_bytes <= last && sizes.gather_bytes < sizes.slice_bytes);
      assert_int_equal(sizes.slice_bytes, 8 << 20);
      assert_int_equal(yk_levels_route_of(&sizes, 16), YK_LEVELS_GATHER);
      assert_int_equal(yk_levels_route_of(&sizes, 8), YK_LEVELS_NONE); /* not whole packets */
      assert_int_equal(yk_levels_route_of(&sizes, sizes.gather_bytes), YK_LEVELS_GATHER);
      assert_int_equal(yk_levels_route_of(&sizes, sizes.gather_bytes + 16), YK_LEVELS_NONE); /* unequal slices */
      assert_int_equal(yk_levels_route_of(&sizes, sizes.gather_bytes + 16 * n_local), YK_LEVELS_SLICES);
      assert_int_equal(yk_levels_route_of(&sizes, sizes.slice_bytes), YK_LEVELS_SLICES);
      assert_int_equal(yk_levels_route_of(&sizes, sizes.slice_bytes + 16 * n_local), YK_LEVELS_NONE);
      last = sizes.gather_bytes;
    }
  }
}

static void few_things_take_one_level(void **state)
{
  (void)state;
  const yk_p2p_options slots = yk_p2p_options_for(4, 4096, 8192, 60), none = yk_p2p_options_for(4, 4096, 8190, 60),
                       few_rows = yk_p2p_options_for(4, 1, 8192, 60);
  const yk_levels_sizes one_host = yk_levels_sizes_for(1, 4, &slots), no_slots = yk_levels_sizes_for(2, 4, &none),
                        many = yk_levels_sizes_for(YK_LEVELS_MAX_HOSTS + 1, 4, &slots),
                        alone = yk_levels_sizes_for(2, 1, NULL), small = yk_levels_sizes_for(2, 4, &few_rows);
  assert_int_equal(yk_levels_route_of(&one_host, 8192), YK_LEVELS_NONE);
  assert_int_equal(yk_levels_route_of(&no_slots, 8192), YK_LEVELS_NONE);
  assert_int_equal(yk_levels_route_of(&many, 8192), YK_LEVELS_SLICES);
  assert_int_equal(yk_levels_route_of(&alone, 8192), YK_LEVELS_GATHER);
  assert_int_equal(yk_levels_route_of(&alone, 1 << 20), YK_LEVELS_NONE);
  assert_int_equal(small.slice_bytes, 0);
  assert_int_equal(yk_levels_route_of(&small, few_rows.max_bytes), YK_LEVELS_GATHER);
  assert_int_equal(yk_levels_route_of(&small, few_rows.max_bytes + 64), YK_LEVELS_NONE);
}

/* A slice's rows in one thread block fit its slots: rows as yk_p2p_route_of_array cuts them. */
static void slices_fit_the_slots(void **state)
{
  (void)state;
  for (int n_ranks = 2; each_case(n_ranks, n_ranks <= YK_P2P_MAX_RANKS); n_ranks++) {
    const yk_p2p_options slots = yk_p2p_options_for(n_ranks, 1024, 8192, 60);
    const yk_p2p_layout layout = yk_p2p_layout_of(&slots, n_ranks);
    for (int64_t packets = 1; packets * n_ranks * 16 <= slots.max_bytes; packets += 61) {
      int64_t row_bytes;
      assert_true(yk_p2p_takes_slices(&slots, n_ranks, packets * n_ranks * 16));
      yk_p2p_route_of_array(&slots, packets * 16, &row_bytes);
      const int64_t n_rows = (packets * 16 + row_bytes - 1) / row_bytes;
      const int64_t of_block = (n_rows + YK_P2P_BLOCKS - 1) / YK_P2P_BLOCKS;
      assert_true(of_block * row_bytes / 16 <= layout.two_shot_packets);
    }
  }
}

/* The plan's memory holds the buffers of any division. */
static void memory_holds_any_division(void **state)
{
  (void)state;
  const yk_p2p_options slots = yk_p2p_options_for(8, 4096, 8192, 60);
  const int64_t one_host = yk_p2p_layout_of(&slots, 8).n_bytes,
                gathered = 2 * yk_levels_sizes_for(2, 8, &slots).gather_bytes;
  assert_int_equal(yk_levels_device_bytes(8, false, 4096, 8192), one_host);
  assert_int_equal(yk_levels_device_bytes(16, false, 4096, 8192), 0);
  assert_true(yk_levels_device_bytes(16, true, 4096, 8192) >= one_host + gathered);
  assert_int_equal(yk_levels_device_bytes(1, true, 4096, 8192), 0);
}

int main(void)
{
  const struct CMUnitTest own[] = {cmocka_unit_test(the_route_follows_the_size),
                                   cmocka_unit_test(few_things_take_one_level), cmocka_unit_test(slices_fit_the_slots),
                                   cmocka_unit_test(memory_holds_any_division)};
  static const comm_shape shapes[] = {{2, 96}, {16, 64}, {70, 96}, {64, 512}, {65, 512}};
  const comm_fixture fixture = {.name = "two levels",
                                .open = open_levels,
                                .close = close_levels,
                                .max_ranks = TEST_IS_SANITIZED ? 4 : MOST_RANKS,
                                .rounding_steps = round_at_each_level,
                                .large_shapes = shapes,
                                .n_large_shapes = sizeof shapes / sizeof *shapes};
  return cmocka_run_group_tests_name("two levels: sizes", own, NULL, NULL) + comm_conformance_run(&fixture);
}

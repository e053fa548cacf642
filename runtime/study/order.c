#include "study/order.h"

#include <stdlib.h>

#include "base/rng.h"

typedef struct order {
  const yk_study_grid *grid;
  uint64_t seed;
  uint32_t n_shuffles; /* each has its own stream of random numbers */
  yk_study_item *items;
  size_t n_items;
} order;

/* Fisher and Yates. */
static void shuffle(order *made, size_t *values, size_t n)
{
  uint32_t stream = made->n_shuffles++;
  for (size_t i = n; i > 1; i--) {
    size_t j = (size_t)((double)yk_rng_uniform(made->seed, stream, (uint32_t)i) * (double)i);
    size_t swapped = values[i - 1];
    values[i - 1] = values[j];
    values[j] = swapped;
  }
}

static size_t possible_points(const yk_study_grid *grid, size_t config, size_t *points)
{
  size_t n = 0;
  for (size_t i = 0; i < grid->n_points; i++)
    if (grid->points[i].config == config && !grid->points[i].reason[0]) points[n++] = i;
  return n;
}

static void add_block(order *made, const size_t *points, size_t n, yk_study_item like)
{
  for (size_t i = 0; i < n; i++) {
    like.point = points[i];
    made->items[made->n_items++] = like;
  }
}

static void add_start(order *made, size_t config, int start, int n_repeats, bool profiles, size_t *points)
{
  size_t n = possible_points(made->grid, config, points);
  for (int repeat = 0; repeat < n_repeats; repeat++) {
    shuffle(made, points, n);
    add_block(made, points, n, (yk_study_item){.start = start, .repeat = repeat});
  }
  if (profiles) add_block(made, points, n, (yk_study_item){.start = start, .is_profile = true});
}

yk_status yk_study_order_make(const yk_study_grid *grid, int n_starts, int n_repeats, bool profiles, uint64_t seed,
                              yk_study_item **items, size_t *n_items, yk_err *err)
{
  order made = {.grid = grid, .seed = seed};
  size_t n_rounds = (size_t)n_starts * (size_t)n_repeats + profiles;
  size_t *configs = calloc(grid->n_configs, sizeof *configs), *points = calloc(grid->n_points, sizeof *points);
  made.items = calloc(grid->n_points * n_rounds, sizeof *made.items);
  bool has_memory = configs && points && made.items;
  for (size_t i = 0; has_memory && i < grid->n_configs; i++) configs[i] = i;
  for (int start = 0; has_memory && start < n_starts; start++) {
    shuffle(&made, configs, grid->n_configs);
    for (size_t i = 0; i < grid->n_configs; i++)
      add_start(&made, configs[i], start, n_repeats, profiles && start == n_starts - 1, points);
  }
  free(configs);
  free(points);
  *items = made.items;
  *n_items = made.n_items;
  if (has_memory) return YK_OK;
  free(made.items);
  *items = NULL;
  return yk_err_set(err, YK_E_NOMEM, "no memory for the order of %zu points", grid->n_points);
}

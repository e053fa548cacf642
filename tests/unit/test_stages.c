/* Layers of pipeline stages: against every possible division of small models. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "model/stages.h"

enum { MAX_LAYERS = 9 };

typedef struct costs {
  double largest, squares;
} costs;

static costs costs_of(const yk_stage_weights *w, int n_stages, const int32_t *first)
{
  costs c = {0};
  for (int stage = 0; stage < n_stages; stage++) {
    double bytes = stage == 0 ? (double)w->before : 0;
    if (stage == n_stages - 1) bytes += (double)w->after;
    for (int32_t i = first[stage]; i < first[stage + 1]; i++) bytes += (double)w->layers[i];
    if (bytes > c.largest) c.largest = bytes;
    c.squares += bytes * bytes;
  }
  return c;
}

static bool is_better(costs a, costs b)
{
  return a.largest < b.largest || (a.largest == b.largest && a.squares < b.squares);
}

/* Tries all first layers of stage and later stages. */
static void try_all(const yk_stage_weights *w, int n_stages, int stage, int32_t *first, costs *best)
{
  first[n_stages] = w->n_layers;
  if (stage == n_stages) {
    costs found = costs_of(w, n_stages, first);
    if (best->largest < 0 || is_better(found, *best)) *best = found;
    return;
  }
  for (first[stage] = first[stage - 1] + 1; first[stage] <= w->n_layers - (n_stages - stage); first[stage]++)
    try_all(w, n_stages, stage + 1, first, best);
}

static void no_division_is_better(void **state)
{
  (void)state;
  for (uint32_t seed = 0; seed < 300; seed++) {
    int64_t layers[MAX_LAYERS];
    for (uint32_t i = 0; i < MAX_LAYERS; i++)
      layers[i] = 1 + (int64_t)(yk_rng_uniform(seed, 0, i) * (seed % 2 ? 3 : 9));
    yk_stage_weights w = {layers, 1 + (int32_t)(seed % MAX_LAYERS), (int64_t)(seed % 11), (int64_t)(seed % 7)};
    for (int n_stages = 1; n_stages <= w.n_layers; n_stages++) {
      int32_t first[MAX_LAYERS + 1], tried[MAX_LAYERS + 1] = {0};
      costs best = {.largest = -1};
      assert_int_equal(yk_stages_divide(&w, n_stages, first, NULL), YK_OK);
      assert_int_equal(first[0], 0);
      assert_int_equal(first[n_stages], w.n_layers);
      for (int stage = 0; stage < n_stages; stage++) assert_true(first[stage] < first[stage + 1]);
      try_all(&w, n_stages, 1, tried, &best);
      assert_false(is_better(best, costs_of(&w, n_stages, first)));
    }
  }
}

static void the_ends_carry_fewer_layers(void **state)
{
  (void)state;
  static const struct {
    int64_t before, after;
    int n_stages;
    int32_t first[5];
  } cases[] = {{0, 0, 3, {0, 3, 5, 7}},   /* equal layers: the earlier stages have more */
               {20, 20, 3, {0, 2, 6, 7}}, /* lm_head and embedding count as two layers each */
               {0, 100, 2, {0, 6, 7}},    /* a large vocabulary */
               {0, 0, 4, {0, 2, 4, 6, 7}}};
  static const int64_t layers[7] = {10, 10, 10, 10, 10, 10, 10};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const yk_stage_weights w = {layers, 7, cases[i].before, cases[i].after};
    int32_t first[8];
    assert_int_equal(yk_stages_divide(&w, cases[i].n_stages, first, NULL), YK_OK);
    assert_memory_equal(first, cases[i].first, (size_t)(cases[i].n_stages + 1) * sizeof *first);
  }
}

static void more_stages_than_layers_are_refused(void **state)
{
  (void)state;
  static const int64_t layers[2] = {1, 1};
  const yk_stage_weights w = {layers, 2, 0, 0};
  int32_t first[4];
  yk_err err = YK_ERR_INIT;
  assert_int_equal(yk_stages_divide(&w, 3, first, &err), YK_E_INVAL);
  assert_non_null(strstr(err.message, "pipeline stages: expected at most 2, one for each layer or for "
                                      "layers that share a KV cache, found 3"));
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(no_division_is_better),
                                     cmocka_unit_test(the_ends_carry_fewer_layers),
                                     cmocka_unit_test(more_stages_than_layers_are_refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_invariance.c - batch invariance is refused with the reason: communicators without an all-reduce in a tree,
 * weights in act order, ranges that are no equal slices. */
#include "model/invariance.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/cpu/cpu_device.h"
#include "unit/loader_fixture.h"

static yk_rank_source source_of(const yk_model_limits *limits, int n_ranks)
{
  return (yk_rank_source){.limits = limits,
                          .share = {.rank = n_ranks - 1, .n_ranks = n_ranks},
                          .dev = {.dtype = YK_F32, .abilities = &yk_cpu_abilities}};
}

/* ---- Communicators ----------------------------------------------------------------------------------------------- */

static yk_status refuse_tree(yk_comm *comm, float *sums, int64_t count, yk_err *err)
{
  if (count > 0) sums[0] = NAN; /* the loader only checks; a caller that had a sum here would see none */
  return yk_err_set(err, YK_E_UNSUPPORTED, "all-reduce in a tree: found %d ranks", comm->n_ranks);
}

static yk_status take_tree(yk_comm *comm, float *sums, int64_t count, yk_err *err)
{
  (void)err;
  for (int64_t i = 0; i < count; i++) sums[i] *= (float)comm->n_ranks; /* of ranks with equal values */
  return YK_OK;
}

static void communicators(void **state)
{
  (void)state;
  static const yk_comm_ops none = {.name = "pigeons"}, refuses = {.name = "auto", .all_reduce_tree = refuse_tree},
                           takes = {.name = "local", .all_reduce_tree = take_tree};
  static const struct {
    const char *name;
    const yk_comm_ops *ops;
    int n_ranks;
    bool is_invariant;
    const char *words; /* of the message; NULL: no error */
  } cases[] = {
      {"no tree", &none, 2, true, "batch_invariant: |ranks over pigeons have no all-reduce in a tree"},
      {"a tree of fewer ranks", &refuses, 8, true, "batch_invariant: |all-reduce in a tree: found 8 ranks"},
      {"a tree", &takes, 2, true, NULL},
      {"one rank adds nothing", &none, 1, true, NULL},
      {"without the option", &none, 2, false, NULL},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const yk_model_limits limits = {.batch_invariant = cases[i].is_invariant};
    const yk_rank_source source = source_of(&limits, cases[i].n_ranks);
    yk_comm comm = {.ops = cases[i].ops, .n_ranks = cases[i].n_ranks};
    yk_err err = YK_ERR_INIT;
    const yk_status status = yk_invariance_check_comm(&source, &comm, &err);
    if (cases[i].words)
      expect_error(cases[i].name, YK_E_UNSUPPORTED, cases[i].words, status, &err);
    else
      expect_ok(cases[i].name, status, &err);
  }
}

/* ---- Row-parallel layers ----------------------------------------------------------------------------------------- */

static void row_parallel_layers(void **state)
{
  (void)state;
  static const struct {
    const char *name;
    yk_linear_part part; /* of rank 1 of 2 */
    const char *words;
  } cases[] = {
      {"half of the inputs", {.weight = {.k = 1024}, .k = {512, 1024}}, NULL},
      {"act order gives a rank other inputs",
       {.weight = {.tensor = "down_proj", .k = 1024, .act_order = true}, .k = {0, 384}},
       "batch_invariant: not with act order: down_proj"},
      {"act order",
       {.weight = {.k = 1024, .act_order = true}, .k = {512, 1024}},
       "batch_invariant: not with act order"},
      {"quantised inputs",
       {.weight = {.tensor = "o_proj", .k = 1024, .inputs = {.kind = YK_INPUTS_PER_TOKEN}}, .k = {0, 384}},
       "batch_invariant: not with quantised inputs: o_proj"},
      {"an uneven part",
       {.weight = {.tensor = "o_proj", .k = 1024}, .k = {384, 1024}},
       "batch_invariant: o_proj|1024 inputs in 8 slices|found inputs 384 to 1024 on rank 1"},
      {"inputs that are one slice",
       {.weight = {.tensor = "o_proj", .k = 192}, .k = {96, 192}},
       "batch_invariant: o_proj|192 inputs in 1 slice on each"},
      {"a bias", {.weight = {.k = 1024}, .k = {512, 1024}, .use_bias = true}, "batch_invariant: not with a bias"},
  };
  const yk_model_limits limits = {.batch_invariant = true};
  const yk_rank_source source = source_of(&limits, 2);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    yk_linear_spec spec = {.n_parts = 1, .parts = {cases[i].part}};
    yk_err err = YK_ERR_INIT;
    const yk_status status = yk_invariance_row(&source, &spec, &err);
    if (cases[i].words) {
      expect_error(cases[i].name, YK_E_UNSUPPORTED, cases[i].words, status, &err);
      continue;
    }
    expect_ok(cases[i].name, status, &err);
    assert_true(spec.k_slices == 4 && spec.f32_output);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(communicators), cmocka_unit_test(row_parallel_layers)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

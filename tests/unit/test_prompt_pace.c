/* Rows of a long prompt with decodes: the time of steps that was measured on a GPU, other times, and missing ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/loop/prompt_pace.h"

enum { MAX_STEPS = 4096 };

/* Steps in which 64 sequences decode: rows of the prompt, the time in us if none of its tokens is computed yet, and how
 * much 32,000 computed tokens add. Qwen3-8B on an H200 (bench/results/long_prompt_h200.json): mean and largest
 * times by rows. Between 64 and 65 rows a GEMM begins another tile. */
static const struct {
  double rows, us, attention_us;
} measured[] = {{0, 4400, 0},      {64, 5300, 3400},   {64.5, 8000, 3400},
                {128, 8000, 4600}, {256, 10300, 9000}, {512, 18300, 13500}};

static double between(double rows, int i, double a, double b)
{
  return a + (b - a) * (rows - measured[i].rows) / (measured[i + 1].rows - measured[i].rows);
}

static int64_t step_ns(int32_t rows, int32_t n_computed)
{
  int i = 0;
  while (rows > measured[i + 1].rows) i++;
  const double us = between(rows, i, measured[i].us, measured[i + 1].us);
  return (int64_t)(1000 * (us + between(rows, i, measured[i].attention_us, measured[i + 1].attention_us) * n_computed /
                                    32000));
}

typedef struct run {
  int64_t ns[MAX_STEPS], total_ns;
  int n, n_without; /* steps, and those without the prompt */
} run;

static void add(run *r, int64_t ns)
{
  assert_true(r->n < MAX_STEPS);
  r->ns[r->n++] = ns;
  r->total_ns += ns;
}

static void compute_prompt(yk_prompt_pace *pace, int32_t n_tokens, run *r)
{
  for (int32_t n_computed = 0; n_computed < n_tokens;) {
    int32_t n_rows = yk_prompt_pace_next(pace);
    if (n_rows > n_tokens - n_computed) n_rows = n_tokens - n_computed;
    const int64_t ns = step_ns(n_rows, n_computed);
    add(r, ns);
    r->n_without += n_rows == 0;
    if (n_rows == 0)
      yk_prompt_pace_decoded(pace, ns);
    else
      yk_prompt_pace_mixed(pace, ns);
    n_computed += n_rows;
  }
}

static int compare(const void *a, const void *b)
{
  const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

/* 32,000 tokens among 800 steps: the slowest hundredth takes less than twice the median, and the prompt at most 3.6 s,
 * where no division of its rows that keeps this pace takes less than 3.4 s. */
static void a_prompt_on_a_gpu(void **state)
{
  (void)state;
  static run r;
  yk_prompt_pace pace;
  memset(&r, 0, sizeof r);
  yk_prompt_pace_init(&pace, YK_PACE_FEWEST_ROWS);
  compute_prompt(&pace, 32000, &r);
  assert_true(r.total_ns < 3600000000);
  assert_true(r.n_without > r.n / 80 && r.n_without < r.n / 50);
  while (r.n < 800) add(&r, step_ns(0, 0));
  qsort(r.ns, (size_t)r.n, sizeof *r.ns, compare);
  assert_true(r.ns[r.n * 99 / 100] < 2 * r.ns[r.n / 2]);
  assert_true(r.ns[r.n - 1] < 10000000);
}

/* A prompt of 1,000 tokens takes as few steps as their time permits. */
static void a_short_prompt_is_done_soon(void **state)
{
  (void)state;
  static run r;
  yk_prompt_pace pace;
  memset(&r, 0, sizeof r);
  yk_prompt_pace_init(&pace, YK_PACE_FEWEST_ROWS);
  compute_prompt(&pace, 1000, &r);
  assert_int_equal(r.n, 1 + 8);
  assert_int_equal(r.n_without, 1);
}

/* Where rows cost little, their number grows to the most; where they cost much, it falls to the fewest. */
static void bounds(void **state)
{
  (void)state;
  yk_prompt_pace pace;
  yk_prompt_pace_init(&pace, 94);
  yk_prompt_pace_decoded(&pace, 1000);
  for (int i = 0; i < 1000; i++)
    if (yk_prompt_pace_next(&pace) > 0)
      yk_prompt_pace_mixed(&pace, 1499);
    else
      yk_prompt_pace_decoded(&pace, 1000);
  assert_int_equal(pace.n_rows, YK_PACE_MOST_ROWS);
  for (int i = 0; i < 20; i++) yk_prompt_pace_mixed(&pace, 1500);
  assert_int_equal(pace.n_rows, YK_PACE_MOST_ROWS);
  for (int i = 0; i < 20; i++) yk_prompt_pace_mixed(&pace, 2001);
  assert_int_equal(pace.n_rows, 94);
  for (int i = 0; i < 31; i++) yk_prompt_pace_mixed(&pace, 1499);
  yk_prompt_pace_mixed(&pace, 1500);
  for (int i = 0; i < 31; i++) yk_prompt_pace_mixed(&pace, 1499);
  assert_int_equal(pace.n_rows, 94);
  yk_prompt_pace_mixed(&pace, 1499);
  assert_int_equal(pace.n_rows, 94 + 16);
}

/* A step that was to measure decodes may have a short prompt after all: the long one does not wait for another. A slow
 * step changes the time of decodes by a quarter of the difference. */
static void times_that_are_missing(void **state)
{
  (void)state;
  yk_prompt_pace pace;
  yk_prompt_pace_init(&pace, YK_PACE_FEWEST_ROWS);
  assert_int_equal(yk_prompt_pace_next(&pace), 0);
  for (int i = 0; i < 64; i++) {
    assert_int_equal(yk_prompt_pace_next(&pace), YK_PACE_FIRST_ROWS);
    yk_prompt_pace_mixed(&pace, 1000000);
  }
  assert_int_equal(yk_prompt_pace_next(&pace), 0);
  assert_int_equal(yk_prompt_pace_next(&pace), YK_PACE_FIRST_ROWS);
  yk_prompt_pace_decoded(&pace, 1000);
  yk_prompt_pace_decoded(&pace, 9000);
  assert_int_equal(pace.decode_ns, 3000);
  yk_prompt_pace_decoded(&pace, 1100);
  assert_int_equal(pace.decode_ns, 1100);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_prompt_on_a_gpu), cmocka_unit_test(a_short_prompt_is_done_soon),
                                     cmocka_unit_test(bounds), cmocka_unit_test(times_that_are_missing)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

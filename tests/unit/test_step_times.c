/* Parts of a step's time, from synthetic timestamps: clocks with offset and drift, slow ranks, single ranks, steps in
 * which nothing takes any time. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/observe/step_times.h"

enum { N_LAYERS = 20, MAX_STAMPS = 200, TRANSFER_NS = 5000 };

/* Properties of a synthetic step. */
typedef struct plan {
  int n_ranks;
  int64_t gemm_ns[YK_MAX_RANKS];   /* each GEMM of the rank */
  int64_t offset_ns[YK_MAX_RANKS]; /* initial offset of its clock, */
  double drift[YK_MAX_RANKS];      /* and its drift for each ns */
  int64_t transfer_ns, sampling_ns, before_ns, after_ns;
  int64_t last_ends_sooner_ns; /* the last rank to reach an all-reduce has its own data sooner */
} plan;

typedef struct made_step {
  yk_timed_step step;
  yk_step_profile ranks[YK_MAX_RANKS];
  yk_timed_operation operations[YK_MAX_RANKS][MAX_STAMPS];
  int64_t begin_ns[YK_MAX_RANKS][MAX_STAMPS];
  int64_t now_ns[YK_MAX_RANKS]; /* on the common clock, from the beginning of the forward */
  int64_t wait_ns[YK_MAX_RANKS];
} made_step;

static const int64_t start_ns = 1000000000;

static void stamp(made_step *m, const plan *p, int r, yk_operation_kind kind)
{
  yk_step_profile *rank = &m->ranks[r];
  assert_true(rank->n < MAX_STAMPS);
  m->operations[r][rank->n] = (yk_timed_operation){.kind = kind, .name = "made up"};
  m->begin_ns[r][rank->n++] = start_ns + m->now_ns[r] + p->offset_ns[r] + (int64_t)(p->drift[r] * (double)m->now_ns[r]);
}

static void all_reduce(made_step *m, const plan *p)
{
  int64_t last = 0;
  for (int r = 0; r < p->n_ranks; r++) last = m->now_ns[r] > last ? m->now_ns[r] : last;
  for (int r = 0; r < p->n_ranks; r++) {
    stamp(m, p, r, YK_OPERATION_ALL_REDUCE);
    m->wait_ns[r] += last - m->now_ns[r];
    m->now_ns[r] = last + p->transfer_ns - (m->now_ns[r] == last ? p->last_ends_sooner_ns : 0);
  }
}

static void make(const plan *p, made_step *m)
{
  *m = (made_step){.step = {.n_ranks = p->n_ranks, .n_stages = 1}};
  for (int r = 0; r < p->n_ranks; r++) {
    m->step.ranks[r] = &m->ranks[r];
    m->ranks[r].operations = m->operations[r];
    m->ranks[r].begin_ns = m->begin_ns[r];
    m->now_ns[r] = p->before_ns;
  }
  for (int layer = 0; layer < N_LAYERS; layer++) {
    for (int r = 0; r < p->n_ranks; r++) {
      stamp(m, p, r, YK_OPERATION_GEMM_QKV);
      m->now_ns[r] += p->gemm_ns[r];
      stamp(m, p, r, YK_OPERATION_GEMM_DOWN);
      m->now_ns[r] += p->gemm_ns[r];
    }
    all_reduce(m, p);
  }
  int64_t end_ns = 0;
  for (int r = 0; r < p->n_ranks; r++) {
    if (r == 0) stamp(m, p, r, YK_OPERATION_SAMPLING);
    m->now_ns[r] += r == 0 ? p->sampling_ns : 0;
    stamp(m, p, r, YK_OPERATION_END);
    m->ranks[r].forward_begin_ns = start_ns;
    m->ranks[r].forward_end_ns = start_ns + m->now_ns[r] + p->after_ns;
    end_ns = m->now_ns[r] > end_ns ? m->now_ns[r] : end_ns;
  }
  m->step.period_ns = end_ns + p->after_ns + 70000;
}

static double sum_of(const yk_step_times *times, int rank)
{
  double sum = 0;
  for (int part = 0; part < YK_TIME_PARTS; part++) {
    assert_true(times->part_s[rank][part] >= 0);
    sum += times->part_s[rank][part];
  }
  return sum;
}

static void assert_near(double found, double expected, double within)
{
  if (!(fabs(found - expected) <= within)) fail_msg("expected %g within %g, found %g", expected, within, found);
}

static void check(const plan *p, double within_s, yk_step_times *times)
{
  static made_step m;
  yk_step_sums sums = {0};
  make(p, &m);
  m.step.has_one_clock = false;
  yk_step_sums_add(&sums, &m.step);
  yk_step_sums_correct(&sums, p->n_ranks, 0, times);
  assert_near(times->step_s, (double)m.step.period_ns * 1e-9, 1e-12);
  for (int r = 0; r < p->n_ranks; r++) {
    assert_near(sum_of(times, r), times->step_s, times->step_s * 0.001 + 1e-12);
    assert_near(times->part_s[r][YK_TIME_ALL_REDUCE_WAIT], (double)m.wait_ns[r] * 1e-9, within_s);
    if (p->n_ranks > 1)
      assert_near(times->part_s[r][YK_TIME_ALL_REDUCE_TRANSFER], (double)(N_LAYERS * p->transfer_ns) * 1e-9, within_s);
  }
}

static const plan four_alike = {.n_ranks = 4,
                                .gemm_ns = {20000, 20000, 20000, 20000},
                                .transfer_ns = TRANSFER_NS,
                                .sampling_ns = 30000,
                                .before_ns = 4000,
                                .after_ns = 6000};

static void ranks_alike(void **state)
{
  (void)state;
  yk_step_times times;
  check(&four_alike, 1e-9, &times);
  assert_int_equal(times.n_steps, 1);
  assert_int_equal(times.n_all_reduces, N_LAYERS);
  assert_int_equal(times.slowest[0], N_LAYERS); /* the lowest of equals */
  assert_near(times.part_s[1][YK_TIME_GEMM_QKV], N_LAYERS * 20000e-9, 1e-12);
  assert_near(times.part_s[1][YK_TIME_LAUNCH_GAP], 10000e-9, 1e-12);
  for (int r = 0; r < 4; r++) {
    assert_near(times.part_s[r][YK_TIME_SAMPLING], 30000e-9, 1e-12); /* the others wait for it */
    assert_near(times.part_s[r][YK_TIME_HOST], 70000e-9, 1e-12);
  }
}

static void clocks_apart(void **state)
{
  (void)state;
  yk_step_times times;
  plan p = four_alike;
  const int64_t offsets[] = {0, 5000000000000, -3000000000, 77};
  for (int r = 0; r < 4; r++) p.offset_ns[r] = offsets[r];
  check(&p, 1e-9, &times);
  static made_step m;
  int64_t found[YK_MAX_RANKS];
  make(&p, &m);
  yk_clocks_align(&m.step, found);
  for (int r = 0; r < 4; r++) assert_true(llabs(found[r] - offsets[r]) <= 1);
  m.step.has_one_clock = true;
  yk_clocks_align(&m.step, found);
  for (int r = 0; r < 4; r++) assert_true(found[r] == 0);
}

static void a_slow_rank_is_named(void **state)
{
  (void)state;
  yk_step_times times;
  for (int slow = 0; slow < 4; slow++) {
    plan p = four_alike;
    p.gemm_ns[slow] += 4000;
    p.offset_ns[1] = -123456789;
    p.offset_ns[3] = 987654321;
    check(&p, N_LAYERS * 1e-9, &times);
    assert_int_equal(times.slowest[slow], N_LAYERS);
    assert_true(times.part_s[slow][YK_TIME_ALL_REDUCE_WAIT] < times.part_s[(slow + 1) % 4][YK_TIME_ALL_REDUCE_WAIT]);
  }
}

/* Two millionths: 2 ns in a millisecond, about the length of the step. */
static void clocks_that_drift(void **state)
{
  (void)state;
  yk_step_times times;
  plan p = four_alike;
  p.offset_ns[1] = 123456;
  p.drift[1] = 2e-6;
  p.drift[2] = -2e-6;
  p.gemm_ns[2] += 3000;
  check(&p, N_LAYERS * 10e-9, &times);
  assert_int_equal(times.slowest[2], N_LAYERS);
}

static void a_link_has_a_latency(void **state)
{
  (void)state;
  yk_step_times times;
  plan p = four_alike;
  p.offset_ns[2] = 444444444;
  p.gemm_ns[2] += 3000;
  p.last_ends_sooner_ns = 700;
  check(&p, N_LAYERS * 701e-9, &times);
  assert_int_equal(times.slowest[2], N_LAYERS);
}

/* No mean may contradict the order of events. */
static void bounds_are_kept(void **state)
{
  (void)state;
  static made_step m;
  int64_t found[YK_MAX_RANKS];
  plan p = {.n_ranks = 2, .gemm_ns = {100, 100}, .transfer_ns = 10};
  make(&p, &m);
  m.begin_ns[1][3] += 1000000; /* rank 1 ends only the first all-reduce late */
  yk_clocks_align(&m.step, found);
  assert_true(found[1] >= -10 && found[1] <= 10);
}

static void a_single_rank(void **state)
{
  (void)state;
  yk_step_times times;
  plan p = four_alike;
  p.n_ranks = 1;
  check(&p, 0, &times);
  assert_int_equal(times.n_all_reduces, 0);
  assert_int_equal(times.slowest[0], 0);
  assert_near(times.part_s[0][YK_TIME_ALL_REDUCE_TRANSFER], 0, 0);
  assert_near(times.part_s[0][YK_TIME_OTHER_KERNELS], N_LAYERS * TRANSFER_NS * 1e-9, 1e-12);
}

static void nothing_takes_time(void **state)
{
  (void)state;
  yk_step_times times;
  const plan p = {.n_ranks = 3};
  check(&p, 0, &times);
  assert_near(times.part_s[2][YK_TIME_HOST], 70000e-9, 1e-12);
  yk_step_sums sums = {0};
  static made_step m;
  make(&p, &m);
  m.step.period_ns = 0;
  yk_step_sums_add(&sums, &m.step);
  yk_step_sums_correct(&sums, 3, 1000, &times); /* timestamps cannot have cost more than there was */
  assert_near(times.step_s, 0, 0);
  for (int r = 0; r < 3; r++) assert_near(sum_of(&times, r), 0, 0);
  yk_step_sums_correct(&(yk_step_sums){0}, 3, 1000, &times);
  assert_int_equal(times.n_steps, 0);
  assert_near(times.step_s, 0, 0);
}

/* Each operation, and the end, has taken a timestamp's time longer. */
static void stamps_are_taken_off(void **state)
{
  (void)state;
  const int64_t stamp_ns = 1000;
  static made_step m;
  plan p = four_alike, stamped;
  yk_step_sums sums = {0};
  yk_step_times times;
  make(&p, &m);
  int64_t plain_ns = m.step.period_ns;
  stamped = p;
  for (int r = 0; r < 4; r++) stamped.gemm_ns[r] += stamp_ns;
  stamped.transfer_ns += stamp_ns;
  stamped.sampling_ns += stamp_ns;
  stamped.after_ns += stamp_ns;
  make(&stamped, &m);
  yk_step_sums_add(&sums, &m.step);
  yk_step_sums_correct(&sums, 4, (double)stamp_ns, &times);
  assert_near(times.step_s, (double)plain_ns * 1e-9, 1e-12);
  assert_near(times.timestamp_cost_s, (3 * N_LAYERS + 2) * (double)stamp_ns * 1e-9, 1e-12);
  for (int r = 0; r < 4; r++) {
    assert_near(sum_of(&times, r), times.step_s, 0.01 * times.step_s);
    assert_near(times.part_s[r][YK_TIME_GEMM_DOWN], N_LAYERS * 20000e-9, 1e-12);
    assert_near(times.part_s[r][YK_TIME_ALL_REDUCE_TRANSFER], N_LAYERS * TRANSFER_NS * 1e-9, 1e-12);
  }
}

/* An operation that stamps its parts itself takes no longer for that. */
static void internal_stamps_take_no_time(void **state)
{
  (void)state;
  const int64_t stamp_ns = 1000;
  static made_step m;
  yk_step_sums sums = {0};
  yk_step_times times;
  make(&four_alike, &m);
  for (int r = 0; r < 4; r++)
    for (int32_t i = 0; i < m.ranks[r].n; i++)
      m.operations[r][i].is_internal = m.operations[r][i].kind == YK_OPERATION_GEMM_QKV;
  yk_step_sums_add(&sums, &m.step);
  yk_step_sums_correct(&sums, 4, (double)stamp_ns, &times);
  assert_near(times.timestamp_cost_s, (2 * N_LAYERS + 2) * (double)stamp_ns * 1e-9, 1e-12);
  assert_near(times.part_s[0][YK_TIME_GEMM_QKV], N_LAYERS * 20000e-9, 1e-12);
  assert_near(times.part_s[0][YK_TIME_GEMM_DOWN], N_LAYERS * 19000e-9, 1e-12);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(ranks_alike),          cmocka_unit_test(clocks_apart),
      cmocka_unit_test(a_slow_rank_is_named), cmocka_unit_test(clocks_that_drift),
      cmocka_unit_test(a_single_rank),        cmocka_unit_test(nothing_takes_time),
      cmocka_unit_test(stamps_are_taken_off), cmocka_unit_test(a_link_has_a_latency),
      cmocka_unit_test(bounds_are_kept),      cmocka_unit_test(internal_stamps_take_no_time)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_op_cuda_sample.c - sampling on a GPU: its definition, and the CPU device's choices at the size of a real
 * model. */
#include "base/clock.h"
#include "each_case.h"
#include "op/op_cases_sample.h"
#include "op/op_cuda_target.h"

static void test_some_draws(void **state)
{
  (void)state;
  check_sample_some_draws(&cuda_target, 15);
}

static void test_a_large_draw(void **state)
{
  (void)state;
  check_sample_large_draws(&cuda_target, 1);
}

enum { VOCAB = 151936, N_ROWS = 256, N_DISTINCT = VOCAB * 37 };

static double seconds_of_sampling(yk_device *dev, const yk_sample_args *args)
{
  int64_t start_ns = yk_clock_now_ns();
  op_ok(dev->ops->sample(dev, args, &err));
  return yk_clock_seconds_since(start_ns);
}

/* Logits of all rows, in the memory of both devices. */
typedef struct both_devices {
  yk_device *gpu, *cpu;
  float *on_cpu;
  void *on_gpu;
} both_devices;

static both_devices both_new(void)
{
  const yk_device_limits limits = {.max_tokens = N_ROWS, .max_seqs = N_ROWS, .max_model_tokens = 64, .vocab = VOCAB};
  const size_t n = (size_t)VOCAB * N_ROWS;
  both_devices b = {.on_cpu = malloc(n * sizeof *b.on_cpu)};
  op_random random = {.seed = 5};
  float *logits = random_logits(N_DISTINCT, 2.5, false, &random);
  assert_non_null(b.on_cpu);
  for (size_t i = 0; i < n; i++) b.on_cpu[i] = logits[(i * 7 + i / VOCAB) % N_DISTINCT];
  free(logits);
  op_ok(yk_cuda_device_create(0, YK_F16, &limits, &b.gpu, &err));
  op_ok(yk_cpu_device_create(YK_F16, 8, &limits, &b.cpu, &err));
  op_ok(b.gpu->ops->alloc(b.gpu, n * sizeof *b.on_cpu, &b.on_gpu, &err));
  op_ok(b.gpu->ops->upload(b.gpu, b.on_gpu, b.on_cpu, n * sizeof *b.on_cpu, &err));
  return b;
}

static void both_free(both_devices *b)
{
  b->gpu->ops->free(b->gpu, b->on_gpu);
  b->gpu->ops->destroy(b->gpu);
  b->cpu->ops->destroy(b->cpu);
  free(b->on_cpu);
}

/* The number of rows with a different token on both devices. A GPU gives the same bits twice. */
static int n_different(const both_devices *b, const char *name, const yk_sample_row *params)
{
  static const int32_t shard_first[] = {0, VOCAB};
  static yk_sample_row rows[N_ROWS];
  static yk_sampled on_gpu[N_ROWS], again[N_ROWS], on_cpu[N_ROWS];
  for (uint32_t i = 0; i < N_ROWS; i++) {
    rows[i] = *params;
    rows[i].seed = 99;
    rows[i].position = i;
  }
  yk_sample_args args = {.logits = b->on_gpu,
                         .n_rows = N_ROWS,
                         .n_shards = 1,
                         .shard_stride = VOCAB,
                         .shard_first = shard_first,
                         .rows = rows,
                         .out = on_gpu};
  seconds_of_sampling(b->gpu, &args);
  args.out = again;
  double seconds = seconds_of_sampling(b->gpu, &args);
  assert_memory_equal(on_gpu, again, sizeof again);
  args.n_rows = 1;
  double alone = seconds_of_sampling(b->gpu, &args);
  args.n_rows = N_ROWS;
  args.logits = b->on_cpu;
  args.out = on_cpu;
  seconds_of_sampling(b->cpu, &args);
  int n = 0;
  for (int i = 0; i < N_ROWS; i++) {
    n += on_gpu[i].token_id != on_cpu[i].token_id;
    if (on_gpu[i].token_id == on_cpu[i].token_id)
      assert_true(fabs((double)on_gpu[i].logprob - (double)on_cpu[i].logprob) < 2e-5);
  }
  printf("%-32s %3d rows of %d: %.3f ms, one row: %.3f ms; %d differ from the CPU\n", name, N_ROWS, VOCAB,
         seconds * 1e3, alone * 1e3, n);
  return n;
}

/* The same logits and parameters on both devices. A draw may fall on the other side of an edge that rounding moves; two
 * in a thousand is a generous limit. */
static void test_like_the_cpu(void **state)
{
  (void)state;
  static const struct {
    const char *name;
    yk_sample_row row;
  } cases[] = {
      {"greedy", {.top_p = 1.0f}},
      {"temperature", {.temperature = 1.0f, .top_p = 1.0f}},
      {"top_k 50, top_p 0.95", {.temperature = 0.8f, .top_p = 0.95f, .top_k = 50}},
      {"top_p 0.9", {.temperature = 1.0f, .top_p = 0.9f}},
      {"min_p 0.02, log-probabilities", {.temperature = 1.0f, .top_p = 1.0f, .min_p = 0.02f, .want_logprob = true}}};
  both_devices b = both_new();
  for (size_t c = 0; each_case(c, c < sizeof cases / sizeof *cases); c++)
    assert_true(n_different(&b, cases[c].name, &cases[c].row) <= (c == 0 ? 0 : N_ROWS / 128));
  both_free(&b);
}

int main(void)
{
  int gate = gpu_gate(1);
  if (gate != GPU_GO) return gate;
  op_target target = cuda_target;
  const struct CMUnitTest tests[] = {SAMPLE_TESTS(&target), cmocka_unit_test(test_like_the_cpu)};
  const struct CMUnitTest small[] = {cmocka_unit_test(test_some_draws),
                                     cmocka_unit_test_prestate(test_logprobs, &target),
                                     cmocka_unit_test_prestate(test_bad_logits, &target),
                                     cmocka_unit_test_prestate(test_extreme_penalties, &target),
                                     cmocka_unit_test_prestate(test_penalties, &target),
                                     cmocka_unit_test_prestate(test_best_logits, &target),
                                     cmocka_unit_test(test_a_large_draw)};
  return gpu_is_small() ? cmocka_run_group_tests(small, NULL, NULL) : cmocka_run_group_tests(tests, NULL, NULL);
}

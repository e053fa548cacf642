/* test_op_cuda_decode_ranks.c - all layers of a decode step as one operation of several ranks, which share one GPU
 * here: each rank's kernel has a part of the multiprocessors, so that the kernels can wait for each other. */
#include <time.h>

#include "op/op_cases_decode.h"
#include "op/op_cpu_target.h"
#include "op/op_cuda_paths.h"

enum { MOST_RANKS = 4 };

/* A rank: its device, its layers, and its sequence. */
typedef struct rank_side {
  yk_device *dev;
  decode_model *model;
  decode_run *run;
  yk_decode_layers *layers;
} rank_side;

/* The ranks, the whole layers on the CPU, and what the kernels need to end without each other. */
typedef struct group {
  decode_shape whole, share;
  int32_t n_ranks;
  yk_device *cpu_dev;
  decode_weights *weights;
  decode_model *cpu_model;
  decode_run *cpu;
  rank_side ranks[MOST_RANKS];
  volatile int32_t *flags; /* pinned [MOST_RANKS][3]: is_aborted, failed, missing */
} group;

/* limit_ns: of a wait for another rank. */
static void connect_ranks(group *g, uint64_t limit_ns)
{
  int32_t traits[MOST_RANKS][YK_DECODE_N_TRAITS];
  yk_decode_peers peers = {0};
  void *flags = NULL;
  op_ok(g->ranks[0].dev->ops->host_alloc(g->ranks[0].dev, MOST_RANKS * 3 * sizeof *g->flags, &flags, &err));
  g->flags = flags;
  for (int32_t r = 0; r < g->n_ranks; r++) {
    const rank_side *side = &g->ranks[r];
    peers.exchange[r] = side->dev->ops->decode_layers_exchange(side->dev, side->layers, traits[r]);
    assert_non_null(peers.exchange[r]);
    assert_memory_equal(traits[r], traits[0], sizeof traits[r]);
  }
  for (int32_t r = 0; r < g->n_ranks; r++) {
    const rank_side *side = &g->ranks[r];
    volatile int32_t *of_rank = g->flags + 3 * r;
    of_rank[0] = of_rank[1] = of_rank[2] = 0;
    peers.wait = (yk_peer_wait){of_rank, of_rank + 1, of_rank + 2, limit_ns};
    side->dev->ops->decode_layers_connect(side->dev, side->layers, &peers);
  }
}

static group *group_new(const op_target *target, yk_dtype dtype, const decode_shape *shape, int32_t n_ranks,
                        int32_t n_tokens, uint64_t limit_ns)
{
  const op_target cpu_target = {.name = "cpu", .create = cpu_target_create, .variant = yk_cpu_simd_best()};
  group *g = calloc(1, sizeof *g);
  assert_non_null(g);
  g->n_ranks = n_ranks;
  g->whole = *shape;
  g->whole.v_gain = decode_v_gain(n_tokens);
  g->share = decode_shape_of(&g->whole, n_ranks);
  g->cpu_dev = op_device_new(&cpu_target, dtype, 4, 16);
  g->weights = decode_weights_new(&g->whole, dtype);
  g->cpu_model = decode_model_new(g->cpu_dev, g->weights);
  g->cpu = decode_run_new(g->cpu_model, n_tokens);
  decode_fill(g->cpu, n_tokens - 1);
  for (int32_t r = 0; r < n_ranks; r++) {
    rank_side *side = &g->ranks[r];
    side->dev = op_device_new(target, dtype, 1, 16);
    yk_cuda_device_of(side->dev)->wna16.n_multiprocessors /= n_ranks;
    side->model = decode_model_of_rank(side->dev, g->weights, &g->share, (decode_share){r, n_ranks});
    side->run = decode_run_new(side->model, n_tokens);
    decode_fill_share(side->run, g->cpu, n_tokens - 1, r);
    side->layers = decode_prepare(side->run, YK_KV_ACT);
    assert_non_null(side->layers);
  }
  connect_ranks(g, limit_ns);
  return g;
}

static void group_free(group *g)
{
  g->ranks[0].dev->ops->host_free(g->ranks[0].dev, (void *)(uintptr_t)g->flags);
  for (int32_t r = 0; r < g->n_ranks; r++) {
    rank_side *side = &g->ranks[r];
    side->dev->ops->decode_layers_destroy(side->dev, side->layers);
    decode_run_free(side->run);
    decode_model_free(side->model);
    side->dev->ops->destroy(side->dev);
  }
  decode_run_free(g->cpu);
  decode_model_free(g->cpu_model);
  decode_weights_free(g->weights);
  g->cpu_dev->ops->destroy(g->cpu_dev);
  free(g);
}

static void launch(const rank_side *side)
{
  const yk_decode_layers_args args = {
      .residual = side->run->residual.dev, .y = side->run->y.dev, .batch = &side->run->scene.batch};
  assert_true(side->dev->ops->decode_layers_takes(side->dev, side->layers, args.batch));
  op_ok(side->dev->ops->decode_layers_run(side->dev, side->layers, &args, &err));
}

/* A step of all ranks. */
static void step(group *g, int32_t position)
{
  for (int32_t r = 0; r < g->n_ranks; r++) decode_place(g->ranks[r].run, position);
  for (int32_t r = 0; r < g->n_ranks; r++) op_ok(g->ranks[r].dev->ops->sync(g->ranks[r].dev, &err));
  for (int32_t r = 0; r < g->n_ranks; r++) launch(&g->ranks[r]);
  for (int32_t r = 0; r < g->n_ranks; r++) op_ok(g->ranks[r].dev->ops->sync(g->ranks[r].dev, &err));
}

/* The ranks' results as one: residual and y, which have the same bits on all ranks, and the rows of all KV heads. */
static void fetch(group *g, decode_result *whole)
{
  const yk_dtype dtype = whole->dtype;
  const size_t element_bytes = yk_dtype_bytes(dtype);
  for (int32_t r = 0; r < g->n_ranks; r++) {
    decode_result of_rank = decode_result_new(&g->share, dtype);
    decode_fetch(g->ranks[r].run, &of_rank);
    for (int i = 0; i < decode_n_outputs(&g->whole); i++) {
      size_t from, to;
      const size_t n = decode_output(&g->share, i, &from);
      decode_output(&g->whole, i, &to);
      to += i < 2 ? 0 : (size_t)r * n;
      char *at = whole->bytes + to * element_bytes;
      if (i < 2 && r > 0) assert_memory_equal(at, of_rank.bytes + from * element_bytes, n * element_bytes);
      memcpy(at, of_rank.bytes + from * element_bytes, n * element_bytes);
    }
    decode_result_free(&of_rank);
  }
  for (size_t i = 0; i < whole->n; i++) whole->values[i] = (double)yk_dtype_load(dtype, whole->bytes, i);
}

/* Ranks, tokens of the sequence, and the whole layers. Every rank's thread blocks fit next to those of the others. */
static const struct {
  int32_t n_ranks, n_tokens;
  decode_shape shape;
} cases[] = {
    {2, 300, {1024, 2816, 8, 2, 3, YK_GATED_SILU, DECODE_ALL_BIASES, true, false, 0.5f, .group = 0}},
    {2, 17, {512, 1024, 16, 4, 2, YK_GATED_SILU, DECODE_NO_BIASES, false, true, 1.0f, .group = 0}},
    {4, 1000, {512, 2048, 8, 4, 2, YK_GATED_SILU, DECODE_ALL_BIASES, true, false, 1.0f, .group = 0}},
    {3, 100, {512, 1536, 6, 3, 1, YK_GATED_SILU, DECODE_QKV_BIASES, false, false, 1.0f, .group = 0}},
};
enum { N_CASES = sizeof cases / sizeof *cases };
static const uint64_t LONG_NS = 20000000000;

/* Two steps, of which the second overwrites the first, against the CPU's separate operations of the whole layers. */
static void test_ranks(void **state)
{
  int n_wrong = 0;
  for (int d = 0; each_case(d, d < N_GPU_DTYPES); d++)
    for (int c = 0; each_case(c, c < N_CASES); c++) {
      const int32_t position = cases[c].n_tokens - 1;
      group *g = group_new(*state, gpu_dtypes[d], &cases[c].shape, cases[c].n_ranks, cases[c].n_tokens, LONG_NS);
      decode_result expected = decode_result_new(&g->whole, gpu_dtypes[d]), found = expected;
      found = decode_result_new(&g->whole, gpu_dtypes[d]);
      char what[80];
      snprintf(what, sizeof what, "%s, %d ranks", yk_dtype_name(gpu_dtypes[d]), g->n_ranks);
      decode_place(g->cpu, position);
      decode_compose(g->cpu);
      decode_fetch(g->cpu, &expected);
      for (int turn = 0; turn < 2; turn++) {
        step(g, position);
        for (int32_t r = 0; r < g->n_ranks; r++) assert_int_equal(g->flags[3 * r + 1], 0);
        fetch(g, &found);
        n_wrong += decode_count_wrong(&found, &expected, what);
      }
      decode_result_free(&expected), decode_result_free(&found);
      group_free(g);
    }
  assert_int_equal(n_wrong, 0);
}

/* A kernel whose peers are not launched ends at its limit, and names a rank that is missing. */
static void test_missing_rank(void **state)
{
  static const uint64_t LIMIT_NS = 200000000;
  for (int32_t alone = 0; each_case(alone, alone < 3); alone += 2) {
    group *g = group_new(*state, YK_F16, &cases[2].shape, 4, 64, LIMIT_NS);
    const rank_side *side = &g->ranks[alone];
    struct timespec began, ended;
    decode_place(side->run, 63);
    clock_gettime(CLOCK_MONOTONIC, &began);
    launch(side);
    op_ok(side->dev->ops->sync(side->dev, &err));
    clock_gettime(CLOCK_MONOTONIC, &ended);
    const double seconds = (double)(ended.tv_sec - began.tv_sec) + 1e-9 * (double)(ended.tv_nsec - began.tv_nsec);
    assert_true(seconds > 0.2 && seconds < 5.0);
    assert_int_equal(g->flags[3 * alone + 1], 1);
    assert_int_equal(g->flags[3 * alone + 2], alone == 0 ? 1 : 0);
    group_free(g);
  }
}

/* A kernel of an aborted group ends without its peers, long before its limit. */
static void test_abort(void **state)
{
  group *g = group_new(*state, YK_F16, &cases[2].shape, 4, 64, LONG_NS);
  const rank_side *side = &g->ranks[1];
  decode_place(side->run, 63);
  launch(side);
  nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
  g->flags[3] = 1;
  op_ok(side->dev->ops->sync(side->dev, &err));
  assert_int_equal(g->flags[3 + 1], 0);
  group_free(g);
}

int main(int argc, char **argv)
{
  const op_target *target = cuda_target_of(argc, argv);
  yk_cuda_device_info info;
  int gate = gpu_gate(1);
  if (!target || gate != GPU_GO) return target ? gate : GPU_FAIL;
  if (yk_cuda_device_query(0, &info, NULL) != YK_OK) return GPU_FAIL;
  if (info.compute_major != 9 || gpu_is_small()) {
    printf("skipped, needs a whole GPU of compute capability 9.0, found %d.%d\n", info.compute_major,
           info.compute_minor);
    return GPU_SKIP;
  }
  const struct CMUnitTest tests[] = {ON_TARGET(test_ranks, target), ON_TARGET(test_missing_rank, target),
                                     ON_TARGET(test_abort, target)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

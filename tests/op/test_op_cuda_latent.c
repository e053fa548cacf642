/* test_op_cuda_latent.c - latent attention on a GPU. */
#include "each_case.h"
#include "kernels/cuda/device/state.h"
#include "op/op_cases_latent.h"
#include "op/op_cuda_target.h"

static void test_table(void **state)
{
  (void)state;
  check_latent_table(&cuda_target, N_GPU_DTYPES, false);
}

/* Shapes for the tensor core kernels: DeepSeek's sizes, tiles of 16 and of 64 queries, whole and shared items. */
static const latent_shape deepseek_shapes[] = {
    {{16, 128, 64, 512, 128},
     5,
     {{0, 1}, {62, 1}, {63, 1}, {64, 1}, {700, 1}},
     0},                                                                      /* decode: splits of different lengths */
    {{20, 128, 64, 512, 128}, 4, {{0, 1}, {64, 1}, {300, 1}, {900, 1}}, 0},   /* decode, 64 queries per tile */
    {{70, 128, 64, 512, 128}, 2, {{300, 1}, {90, 1}}, 0},                     /* two tiles of heads */
    {{16, 128, 64, 512, 128}, 4, {{200, 21}, {0, 50}, {33, 1}, {250, 3}}, 0}, /* chunks: several rows per tile */
    {{3, 128, 64, 512, 128}, 3, {{0, 70}, {100, 25}, {1, 1}}, 0},             /* tiles of 21 rows */
    /* 64 queries per tile with outputs in tiles of 64 rows, from partial results and from whole ones. */
    {{96, 128, 64, 512, 128}, 1, {{100, 33}}, 0},
    {{128, 64, 64, 512, 64}, 1, {{0, 60}}, 0},
    /* Keys and values of each head: alone; with other rows before, between and after. */
    {{2, 128, 64, 512, 128}, 1, {{0, 171}}, 0},
    {{2, 128, 64, 512, 128}, 6, {{90, 1}, {0, 256}, {40, 20}, {500, 172}, {70, 1}, {0, 3}}, 0},
};

/* Few decode rows in one call, by clusters or in one launch of all multiprocessors: fewer heads than a tile; pages of
 * some thread blocks alone, unequal shares, rounds of the ring, fewer heads than a cluster has; the first token; a
 * block that the step completes and other rows read. */
static const latent_shape few_row_shapes[] = {
    {{10, 128, 64, 512, 128}, 2, {{127, 1}, {128, 1}}, 0},
    {{16, 128, 64, 512, 128}, 1, {{63, 1}}, 0},
    {{8, 128, 64, 512, 128}, 1, {{700, 1}}, 0},
    {{2, 128, 64, 512, 128}, 1, {{2100, 1}}, 0},
    {{6, 128, 64, 512, 128}, 1, {{90, 1}}, 0},
    {{9, 128, 64, 512, 128}, 3, {{0, 1}, {64, 1}, {600, 1}}, 0},
    {{5, 128, 64, 512, 128}, 4, {{1100, 1}, {300, 1}, {20, 1}, {3, 1}}, 0},
    {{4, 128, 64, 512, 128}, 3, {{31, 1}, {32, 1}, {40, 1}}, 2},
    {{8, 128, 64, 512, 128}, 2, {{1919, 1}, {2000, 1}}, 120},
    {{16, 128, 64, 512, 128}, 3, {{31, 1}, {32, 1}, {40, 1}}, 2},
};

enum { N_FEW_ROW_SHAPES = sizeof few_row_shapes / sizeof *few_row_shapes };
enum { N_DEEPSEEK_SHAPES = sizeof deepseek_shapes / sizeof *deepseek_shapes };

static void test_deepseek(void **state)
{
  (void)state;
  check_latent_shapes(&cuda_target, deepseek_shapes, N_DEEPSEEK_SHAPES, N_GPU_DTYPES, false);
  check_latent_shapes(&cuda_target, few_row_shapes, N_FEW_ROW_SHAPES, N_GPU_DTYPES, false);
}

static void test_growing_scores(void **state)
{
  (void)state;
  check_latent_growth(&cuda_target, latent_shapes, N_LATENT_SHAPES, false);
  check_latent_growth(&cuda_target, deepseek_shapes, N_DEEPSEEK_SHAPES, false);
  check_latent_growth(&cuda_target, few_row_shapes, N_FEW_ROW_SHAPES, false);
}

static void test_new_tokens_behind_a_long_call(void **state)
{
  (void)state;
  check_latent_new_tokens(&cuda_target, N_GPU_DTYPES, false);
}

/* Scores so far apart that their maximum changes from tile to tile. Their errors grow with them. */
static void test_sharp_scores(void **state)
{
  (void)state;
  static const latent_shape shapes[] = {
      {{20, 128, 64, 512, 128}, 2, {{400, 1}, {130, 1}}, 0},
      {{20, 128, 64, 512, 128}, 1, {{200, 30}}, 0},
      {{16, 128, 64, 512, 128}, 5, {{300, 1}, {200, 1}, {64, 1}, {65, 1}, {3, 1}}, 0},
      {{2, 128, 64, 512, 128}, 1, {{2100, 1}}, 0},
  };
  const float sharpness = 16;
  for (size_t i = 0; each_case(i, i < sizeof shapes / sizeof *shapes); i++) {
    double error = latent_sharp_error(&cuda_target, YK_F16, &shapes[i], sharpness, OP_RIGHT);
    if (!(error <= sharpness * latent_tolerance(YK_F16, YK_F16))) fail_msg("shape %zu: error %.3g", i, error);
  }
}

/* Decode of many sequences, each with some tokens; some rows are padding, including the last. */
enum { MANY_STRIDE = 7, MANY_AT_ONCE = 5, MANY_BLOCK_VALUES = YK_KV_BLOCK_TOKENS * 576 };

typedef struct many_scene {
  yk_latent_layout layout;
  int32_t n, *positions, *slots, *seqs, *starts, *kv_tokens, *tables; /* on the device; tables: no block twice */
  op_array rows, cache, norm_w, kv_up, rope, y; /* cache: preceded by an unowned block, where slot -1 would be */
  void *scratch;
} many_scene;

static bool is_padding(int32_t row, int32_t n)
{
  return row % 11 == 10 || row == n - 1;
}

static many_scene many_scene_new(yk_device *dev, int32_t n, int32_t n_heads)
{
  many_scene m = {.layout = {n_heads, 128, 64, 512, 128}, .n = n};
  op_random random = {.seed = 4};
  int32_t *arrays = calloc((size_t)n * (6 + MANY_STRIDE), sizeof *arrays), *positions = arrays, *slots = arrays + n,
          *seqs = arrays + 2 * n, *kv_tokens = arrays + 3 * n, *starts = arrays + 4 * n, *tables = arrays + 6 * n;
  for (int32_t i = 0; i < n; i++) {
    positions[i] = i * 37 % (MANY_STRIDE * YK_KV_BLOCK_TOKENS);
    kv_tokens[i] = positions[i] + 1;
    seqs[i] = i;
    starts[i + 1] = i + 1;
    for (int32_t b = 0; b < MANY_STRIDE; b++) tables[i * MANY_STRIDE + b] = b * n + i;
    slots[i] = tables[i * MANY_STRIDE + positions[i] / YK_KV_BLOCK_TOKENS] * YK_KV_BLOCK_TOKENS +
               positions[i] % YK_KV_BLOCK_TOKENS;
    if (is_padding(i, n)) slots[i] = -1;
  }
  m.positions = op_send_i32(dev, positions, (size_t)n);
  m.slots = op_send_i32(dev, slots, (size_t)n);
  m.seqs = op_send_i32(dev, seqs, (size_t)n);
  m.kv_tokens = op_send_i32(dev, kv_tokens, (size_t)n);
  m.starts = op_send_i32(dev, starts, (size_t)n + 1);
  m.tables = op_send_i32(dev, tables, (size_t)n * MANY_STRIDE);
  free(arrays);
  size_t width = (size_t)yk_latent_width(&m.layout), row = (size_t)yk_latent_q_width(&m.layout) + width;
  m.rows = op_array_random(dev, dev->dtype, (size_t)n * row, 1.5, &random);
  m.cache = op_array_random(dev, dev->dtype, ((size_t)n * MANY_STRIDE + 1) * MANY_BLOCK_VALUES, 1.0, &random);
  m.norm_w = op_array_random(dev, dev->dtype, 512, 1.0, &random);
  m.kv_up = op_array_random(dev, dev->dtype, (size_t)n_heads * 256 * 512, 1.2 / sqrt(512), &random);
  m.rope = op_array_random(dev, YK_F32, (size_t)(MANY_STRIDE * YK_KV_BLOCK_TOKENS) * 64, 0.7, &random);
  m.y = op_array_new(dev, dev->dtype, (size_t)n * (size_t)n_heads * 128);
  op_ok(dev->ops->alloc(dev, (size_t)dev->ops->latent_scratch_bytes(&m.layout, n), &m.scratch, &err));
  return m;
}

static void many_scene_free(yk_device *dev, many_scene *m)
{
  op_array *arrays[] = {&m->rows, &m->cache, &m->norm_w, &m->kv_up, &m->rope, &m->y};
  void *rest[] = {m->positions, m->slots, m->seqs, m->starts, m->kv_tokens, m->tables, m->scratch};
  for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) op_array_free(dev, arrays[i]);
  for (size_t i = 0; i < sizeof rest / sizeof *rest; i++) dev->ops->free(dev, rest[i]);
}

/* The block before the cache is unchanged: padding rows have no tokens. */
static void check_block_in_front(yk_device *dev, const many_scene *m)
{
  const size_t n_bytes = MANY_BLOCK_VALUES * yk_dtype_bytes(dev->dtype);
  void *found = malloc(n_bytes);
  assert_non_null(found);
  op_ok(dev->ops->download(dev, found, m->cache.dev, n_bytes, &err));
  assert_memory_equal(found, m->cache.bytes, n_bytes);
  free(found);
}

/* All rows, at_once rows per call, from the scene's initial state; zeros for padding. The caller frees the result. */
static double *attend_many(yk_device *dev, many_scene *m, int32_t at_once)
{
  int64_t element = (int64_t)yk_dtype_bytes(dev->dtype), stride = yk_latent_q_width(&m->layout) + 576;
  void *const cache = (char *)m->cache.dev + MANY_BLOCK_VALUES * element;
  op_array_send(dev, &m->rows);
  op_array_send(dev, &m->cache);
  for (int32_t first = 0; first < m->n; first += at_once) {
    int32_t n = m->n - first < at_once ? m->n - first : at_once;
    yk_batch batch = {.n_tokens = n,
                      .n_seqs = n,
                      .max_rows_per_seq = 1,
                      .max_kv_tokens = MANY_STRIDE * YK_KV_BLOCK_TOKENS,
                      .block_table_stride = MANY_STRIDE,
                      .positions = m->positions + first,
                      .kv_slots = m->slots + first,
                      .seq_of_row = m->seqs,
                      .row_starts = m->starts,
                      .kv_tokens = m->kv_tokens + first,
                      .block_tables = m->tables + first * MANY_STRIDE};
    char *q = (char *)m->rows.dev + first * stride * element;
    const yk_latent_attention_args args = {.y = (char *)m->y.dev + first * m->layout.n_heads * 128 * element,
                                           .q = q,
                                           .latent = q + yk_latent_q_width(&m->layout) * element,
                                           .q_stride = stride,
                                           .latent_stride = stride,
                                           .layout = m->layout,
                                           .norm_w = m->norm_w.dev,
                                           .norm_eps = 1e-3f,
                                           .scale = 0.07f,
                                           .rope = m->rope.dev,
                                           .kv_up = m->kv_up.dev,
                                           .cache = cache,
                                           .scratch = m->scratch,
                                           .batch = &batch};
    op_ok(dev->ops->latent_attention(dev, &args, &err));
  }
  check_block_in_front(dev, m);
  op_array_fetch(dev, &m->y);
  double *y = malloc(m->y.n * sizeof *y);
  assert_non_null(y);
  memcpy(y, m->y.values, m->y.n * sizeof *y);
  for (int32_t i = 0; i < m->n; i++)
    if (is_padding(i, m->n)) memset(y + (size_t)i * (m->y.n / (size_t)m->n), 0, m->y.n / (size_t)m->n * sizeof *y);
  return y;
}

/* More rows than a tile of rows that are multiplied by K[h] or V[h] together, and than a launch processes; compared
 * with calls of few rows, which are compared with the reference above. */
static void test_many_rows(void **state)
{
  (void)state;
  static const int32_t sizes[][2] = {{70, 16}, {300, 16}, {260, 3}, {70, 20}, {130, 70}, {260, 20}}; /* rows, heads */
  for (size_t i = 0; each_case(i, i < sizeof sizes / sizeof *sizes); i++) {
    yk_device *dev = op_device_new(&cuda_target, YK_F16, 3, 16);
    many_scene m = many_scene_new(dev, sizes[i][0], sizes[i][1]);
    double *all = attend_many(dev, &m, m.n), *few = attend_many(dev, &m, MANY_AT_ONCE);
    double error = op_error(all, few, m.y.n);
    if (!(error <= latent_tolerance(YK_F16, YK_F16)))
      fail_msg("%d rows of %d heads: error %.3g", sizes[i][0], sizes[i][1], error);
    free(all);
    free(few);
    many_scene_free(dev, &m);
    dev->ops->destroy(dev);
  }
}

/* Like a GPU without wgmma. */
static yk_status create_without_wgmma(const void *variant, yk_dtype dtype, int n_threads,
                                      const yk_device_limits *limits, yk_device **out, yk_err *err)
{
  YK_TRY(cuda_target_create(variant, dtype, n_threads, limits, out, err));
  yk_cuda_device_of(*out)->latent.encode_tensor_map = NULL;
  return YK_OK;
}

/* Like a GPU that runs at most this many clusters at once. */
static yk_status create_with_clusters(const void *variant, yk_dtype dtype, int n_threads,
                                      const yk_device_limits *limits, yk_device **out, yk_err *err)
{
  const int32_t *most = variant;
  YK_TRY(cuda_target_create(NULL, dtype, n_threads, limits, out, err));
  yk_cuda_latent *latent = &yk_cuda_device_of(*out)->latent;
  if (latent->n_clusters > *most) latent->n_clusters = *most;
  return YK_OK;
}

static void test_without_wgmma(void **state)
{
  (void)state;
  static const op_target target = {.name = "cuda without wgmma", .create = create_without_wgmma};
  check_latent_shapes(&target, deepseek_shapes, N_DEEPSEEK_SHAPES, 1, false);
  check_latent_shapes(&target, few_row_shapes, N_FEW_ROW_SHAPES, 1, false);
}

static void test_few_clusters(void **state)
{
  (void)state;
  static const int32_t most[] = {0, 2};
  for (size_t i = 0; each_case(i, i < sizeof most / sizeof *most); i++) {
    const op_target target = {.name = "cuda with few clusters", .create = create_with_clusters, .variant = &most[i]};
    check_latent_shapes(&target, few_row_shapes, N_FEW_ROW_SHAPES, 1, false);
  }
}

static void test_planted_faults_are_seen(void **state)
{
  (void)state;
  check_latent_faults(&cuda_target, YK_BF16);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_table),
      cmocka_unit_test(test_deepseek),
      cmocka_unit_test(test_growing_scores),
      cmocka_unit_test(test_new_tokens_behind_a_long_call),
      cmocka_unit_test(test_sharp_scores),
      cmocka_unit_test(test_many_rows),
      cmocka_unit_test(test_without_wgmma),
      cmocka_unit_test(test_few_clusters),
      cmocka_unit_test(test_planted_faults_are_seen),
  };
  int gate = gpu_gate(1);
  return gate ? gate : cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_op_cuda_latent.c - latent attention on a GPU. */
#include "kernels/cuda/device/state.h"
#include "op/op_cases_latent.h"
#include "op/op_cuda_target.h"

static void test_table(void **state)
{
  (void)state;
  check_latent_table(&cuda_target, N_GPU_DTYPES, false);
}

/* What the tensor core kernels take: DeepSeek's sizes, tiles of 16 and of 64 queries, whole and shared items. */
static const latent_shape deepseek_shapes[] = {
    {{16, 128, 64, 512, 128}, 5, {{0, 1}, {62, 1}, {63, 1}, {64, 1}, {700, 1}}}, /* decode: splits of unlike lengths */
    {{10, 128, 64, 512, 128}, 2, {{127, 1}, {128, 1}}},                          /* fewer heads than a tile */
    {{20, 128, 64, 512, 128}, 4, {{0, 1}, {64, 1}, {300, 1}, {900, 1}}},         /* decode, 64 queries a tile */
    {{70, 128, 64, 512, 128}, 2, {{300, 1}, {90, 1}}},                           /* two tiles of heads */
    {{16, 128, 64, 512, 128}, 4, {{200, 21}, {0, 50}, {33, 1}, {250, 3}}},       /* chunks: several rows a tile */
    {{3, 128, 64, 512, 128}, 3, {{0, 70}, {100, 25}, {1, 1}}},                   /* tiles of 21 rows */
    /* Few decode rows, by clusters: pages of some thread blocks alone, unlike shares, rounds of the ring, fewer
     * heads than a cluster's; the first token. */
    {{16, 128, 64, 512, 128}, 1, {{63, 1}}},
    {{8, 128, 64, 512, 128}, 1, {{700, 1}}},
    {{2, 128, 64, 512, 128}, 1, {{2100, 1}}},
    {{6, 128, 64, 512, 128}, 1, {{90, 1}}},
    {{9, 128, 64, 512, 128}, 3, {{0, 1}, {64, 1}, {600, 1}}},
    {{5, 128, 64, 512, 128}, 4, {{1100, 1}, {300, 1}, {20, 1}, {3, 1}}},
    /* 64 queries a tile with outputs in tiles of 64 rows, from partial results and whole ones. */
    {{96, 128, 64, 512, 128}, 1, {{100, 33}}},
    {{128, 64, 64, 512, 64}, 1, {{0, 60}}},
    /* Keys and values of each head: alone; beside rows without them, before, between and behind. */
    {{2, 128, 64, 512, 128}, 1, {{0, 171}}},
    {{2, 128, 64, 512, 128}, 6, {{90, 1}, {0, 256}, {40, 20}, {500, 172}, {70, 1}, {0, 3}}},
};

enum { N_DEEPSEEK_SHAPES = sizeof deepseek_shapes / sizeof *deepseek_shapes };

static void test_deepseek(void **state)
{
  (void)state;
  check_latent_shapes(&cuda_target, deepseek_shapes, N_DEEPSEEK_SHAPES, N_GPU_DTYPES, false);
}

/* Scores so far apart that what they are taken relative to moves from tile to tile. Their errors grow with them. */
static void test_sharp_scores(void **state)
{
  (void)state;
  static const latent_shape shapes[] = {
      {{20, 128, 64, 512, 128}, 2, {{400, 1}, {130, 1}}},
      {{20, 128, 64, 512, 128}, 1, {{200, 30}}},
      {{16, 128, 64, 512, 128}, 5, {{300, 1}, {200, 1}, {64, 1}, {65, 1}, {3, 1}}},
      {{2, 128, 64, 512, 128}, 1, {{2100, 1}}},
  };
  const float sharpness = 16;
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    double error = latent_sharp_error(&cuda_target, YK_F16, &shapes[i], sharpness, OP_RIGHT);
    if (!(error <= sharpness * latent_tolerance(YK_F16, YK_F16))) fail_msg("shape %zu: error %.3g", i, error);
  }
}

/* A sequence reads a block whose last token another sequence's row writes in the same step: attention that follows the
 * write at once gives what it gives later. */
static void test_block_written_in_the_same_step(void **state)
{
  (void)state;
  static const latent_shape shape = {{16, 128, 64, 512, 128}, 2, {{31, 1}, {32, 1}}};
  yk_device *dev = op_device_new(&cuda_target, YK_F16, 3, 16);
  latent_scene *l = latent_scene_new(dev, &shape, 9);
  for (int b = 0; b < 2; b++) l->s.tables[l->s.stride + b] = l->s.tables[b];
  size_t n_tables = (size_t)(shape.n_seqs * l->s.stride), n_y = (size_t)(2 * 16 * 128);
  op_ok(dev->ops->upload(dev, (void *)l->s.batch.block_tables, l->s.tables, n_tables * sizeof *l->s.tables, &err));
  op_array at_once = op_array_new(dev, YK_F16, n_y), later = op_array_new(dev, YK_F16, n_y);
  void *scratch = NULL;
  op_ok(dev->ops->alloc(dev, (size_t)dev->ops->latent_scratch_bytes(&l->layout, 2), &scratch, &err));
  run_latent_rope_cache(dev, l);
  attend_latent(dev, l, &at_once, scratch);
  op_array_fetch(dev, &at_once);
  attend_latent(dev, l, &later, scratch);
  op_array_fetch(dev, &later);
  assert_memory_equal(at_once.values, later.values, n_y * sizeof *later.values);
  dev->ops->free(dev, scratch);
  op_array_free(dev, &at_once);
  op_array_free(dev, &later);
  latent_scene_free(dev, l);
  dev->ops->destroy(dev);
}

/* As a GPU without wgmma. */
static yk_status create_without_wgmma(const void *variant, yk_dtype dtype, int n_threads,
                                      const yk_device_limits *limits, yk_device **out, yk_err *err)
{
  YK_TRY(cuda_target_create(variant, dtype, n_threads, limits, out, err));
  yk_cuda_device_of(*out)->attention.encode_tensor_map = NULL;
  return YK_OK;
}

static void test_without_wgmma(void **state)
{
  (void)state;
  static const op_target target = {.name = "cuda without wgmma", .create = create_without_wgmma};
  check_latent_shapes(&target, deepseek_shapes, N_DEEPSEEK_SHAPES, 1, false);
}

static void test_planted_faults_are_seen(void **state)
{
  (void)state;
  check_latent_faults(&cuda_target, YK_BF16);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_table),         cmocka_unit_test(test_deepseek),
      cmocka_unit_test(test_sharp_scores),  cmocka_unit_test(test_block_written_in_the_same_step),
      cmocka_unit_test(test_without_wgmma), cmocka_unit_test(test_planted_faults_are_seen)};
  int gate = gpu_gate(1);
  return gate ? gate : cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_op_cuda_attention.c - rotary embedding, cache and attention on a GPU, or on one with less of something
 * (op_cuda_paths.h), which the first argument names. */
#include "each_case.h"
#include "op/op_cases_attention_large.h"
#include "op/op_cases_attention_options.h"
#include "op/op_cases_kv.h"
#include "op/op_cuda_paths.h"

static double tolerance_of(yk_dtype dtype)
{
  return attention_tolerance(&cuda_target, dtype);
}

static void check_scene(const op_target *target, yk_dtype dtype, const scene_shape *shape, uint32_t seed)
{
  double rope = rope_error(target, dtype, shape, seed, OP_RIGHT);
  double attention = attention_error(target, dtype, shape, seed, OP_RIGHT);
  if (!(rope <= rope_tolerance(dtype, shape->qk_norm)) || !(attention <= tolerance_of(dtype)))
    fail_msg("%s %s scene of seed %u, head_dim %d: errors of qk_rope_kv %.3g, attention %.3g", target->name,
             yk_dtype_name(dtype), seed, shape->heads.head_dim, rope, attention);
}

/* More query heads per KV head than fit a tile of eight, gates, and heads of 512. */
static const scene_shape crowded_scenes[] = {
    {{20, 1, 64, 20, 0, 0, false, YK_KV_COLUMNS_BOTH}, 3, {{70, 1}, {0, 18}, {99, 3}}, 0, .qk_norm = false},
    {{32, 2, 128, 16, 0, 0, false, YK_KV_COLUMNS_BOTH}, 2, {{120, 1}, {5, 30}}, 50, .qk_norm = true},
    {{32, 2, 256, 16, 0, 0, true, YK_KV_COLUMNS_BOTH}, 4, {{120, 1}, {5, 12}, {90, 1}, {99, 17}}, 70, .qk_norm = true},
    {{24, 4, 256, 6, 0, 0, true, YK_KV_COLUMNS_BOTH}, 4, {{155, 1}, {85, 30}, {14, 1}, {15, 2}}, 0, .qk_norm = true},
    {{16, 2, 512, 8, 0, 0, false, YK_KV_COLUMNS_BOTH}, 4, {{120, 1}, {5, 12}, {90, 1}, {99, 17}}, 70, .qk_norm = 3},
    {{20, 1, 512, 20, 0, 0, true, YK_KV_COLUMNS_BOTH}, 4, {{155, 1}, {85, 30}, {14, 1}, {15, 2}}, 0, .qk_norm = 1},
};
enum { N_CROWDED = sizeof crowded_scenes / sizeof *crowded_scenes };

/* More rows than rotate with one warp per head, and consecutive work tiles within thread blocks. */
static const scene_shape long_scenes[] = {
    {{32, 4, 128, 8, 0, 0, false, YK_KV_COLUMNS_BOTH}, 4, {{0, 160}, {20, 130}, {99, 1}, {0, 155}}, 0, .qk_norm = true},
    {{6, 3, 128, 4, 3, 0, false, YK_KV_COLUMNS_BOTH},
     5,
     {{0, 140}, {10, 77}, {1, 1}, {0, 140}, {0, 20}},
     50,
     .qk_norm = false},
    {{5, 2, 256, 4, 2, 0, true, YK_KV_COLUMNS_BOTH}, 4, {{0, 140}, {10, 77}, {1, 1}, {0, 110}}, 0, .qk_norm = true},
    {{5, 2, 512, 4, 2, 0, false, YK_KV_COLUMNS_BOTH}, 4, {{0, 140}, {10, 77}, {1, 1}, {0, 110}}, 0, .qk_norm = 1},
};
enum { N_LONG = sizeof long_scenes / sizeof *long_scenes };

/* Scenes with several key tiles and work tiles. options: sinks, growth, and chunks, of which short ones in every other
 * scene, else with the scene's window. */
static void check_larger_scenes(const op_target *target, const scene_shape *options, const char *name)
{
  for (uint32_t i = 0; each_case(i, i < N_CROWDED + N_LONG); i++) {
    scene_shape shape = i < N_CROWDED ? crowded_scenes[i] : long_scenes[i - N_CROWDED];
    shape.has_sinks = options->has_sinks;
    shape.growth = options->growth;
    shape.is_chunk = options->is_chunk;
    if (shape.is_chunk && i % 2) shape.window = options->window;
    if (shape.window == 0) shape.is_chunk = false;
    check_option(target, &shape, 60 + i, name);
  }
}

static void test_sinks(void **state)
{
  check_attention_sinks(*state);
  check_larger_scenes(*state, &(scene_shape){.has_sinks = true}, "sinks");
}

static void test_chunks(void **state)
{
  check_attention_chunks(*state);
  check_larger_scenes(*state, &(scene_shape){.is_chunk = true, .window = 45}, "chunks");
}

static void test_score_growth(void **state)
{
  const scene_shape growing = {.growth = {.beta = 0.3f, .period = 30, .shift = 1}};
  check_score_growth(*state);
  check_larger_scenes(*state, &growing, "growing scores");
}

static void test_rotations(void **state)
{
  check_rotations(*state);
}

static void test_kv_columns(void **state)
{
  check_kv_columns(*state);
}

static void test_table(void **state)
{
  for (int d = 0; d < N_GPU_DTYPES; d++) {
    for (int i = 0; i < N_SCENES; i++) check_scene(*state, gpu_dtypes[d], &scene_shapes[i], 40 + (uint32_t)i);
    for (uint32_t i = 0; i < N_CROWDED; i++) check_scene(*state, gpu_dtypes[d], &crowded_scenes[i], 60 + i);
    for (uint32_t i = 0; i < N_LONG; i++) check_scene(*state, gpu_dtypes[d], &long_scenes[i], 64 + i);
    check_scene(*state, gpu_dtypes[d], &gated_scene, 90);
  }
}

/* is_invariant has kernels for 9.0. */
static void skip_without_invariance(const op_target *target)
{
  yk_cuda_device_info info;
  op_ok(yk_cuda_device_query(0, &info, &err));
  if (info.compute_major != 9 || target != &cuda_target) skip();
}

/* is_invariant: right values, and the bits of a row alone. */
static void test_invariance(void **state)
{
  skip_without_invariance(*state);
  for (int d = 0; d < N_GPU_DTYPES; d++)
    for (size_t i = 0; each_case(i, i < N_SCENES + N_CROWDED + N_LONG); i++) {
      scene_shape shape = i < N_SCENES               ? scene_shapes[i]
                          : i < N_SCENES + N_CROWDED ? crowded_scenes[i - N_SCENES]
                                                     : long_scenes[i - N_SCENES - N_CROWDED];
      shape.is_invariant = true;
      check_scene(*state, gpu_dtypes[d], &shape, 40 + (uint32_t)i);
      check_rows_alone(*state, gpu_dtypes[d], &shape);
      shape.has_sinks = true;
      check_rows_alone(*state, gpu_dtypes[d], &shape);
    }
}

/* The same with up to eight key tiles, with 400 work items of decode, of which thread blocks take several one after the
 * other, and with windows that begin in a later key tile. */
static void test_invariance_of_decodes(void **state)
{
  static const int32_t head_dims[] = {128, 96, 64};
  skip_without_invariance(*state);
  for (int d = 0; each_case(d, d < N_GPU_DTYPES); d++)
    for (int i = 0; each_case(i, i < 3); i++) {
      scene_shape shape = {.heads = grouped_heads(8, 4, head_dims[i]),
                           .n_seqs = 100,
                           .shortest = 1,
                           .longest = 900,
                           .is_invariant = true};
      check_large_scene(*state, gpu_dtypes[d], &shape, 480 + (uint32_t)i);
      check_rows_alone(*state, gpu_dtypes[d], &shape);
      shape.window = 300;
      shape.has_sinks = true;
      check_large_scene(*state, gpu_dtypes[d], &shape, 490 + (uint32_t)i);
      check_rows_alone(*state, gpu_dtypes[d], &shape);
    }
}

/* All rows of a scene, or n_rows at a time; one of them is padding. */
static scene rotated_scene(yk_device *dev, const scene_shape *shape, int32_t n_rows)
{
  scene s = scene_new(dev, shape, 62);
  const yk_batch all = s.batch;
  const int32_t padding = -1;
  const size_t row_bytes = (size_t)yk_head_layout_width(&shape->heads) * yk_dtype_bytes(dev->dtype);
  void *const qkv = s.qkv.dev;
  op_ok(dev->ops->upload(dev, (void *)(uintptr_t)(all.kv_slots + 5), &padding, sizeof padding, &err));
  for (int32_t row = 0; row < s.n_tokens; row += n_rows) {
    s.batch.n_tokens = s.n_tokens - row < n_rows ? s.n_tokens - row : n_rows;
    s.batch.positions = all.positions + row;
    s.batch.kv_slots = all.kv_slots + row;
    s.qkv.dev = (char *)qkv + (size_t)row * row_bytes;
    run_rope(dev, &s);
  }
  s.batch = all;
  s.qkv.dev = qkv;
  op_array_fetch(dev, &s.qkv), op_array_fetch(dev, &s.k_cache), op_array_fetch(dev, &s.v_cache);
  return s;
}

/* The same bits, whichever kernel processes them. */
static void test_many_rows_rotate_as_few(void **state)
{
  for (int d = 0; d < N_GPU_DTYPES; d++) {
    yk_device *dev = op_device_new(*state, gpu_dtypes[d], 1, 16);
    for (size_t i = 0; each_case(i, i < N_LONG); i++) {
      scene many = rotated_scene(dev, &long_scenes[i], 640), few = rotated_scene(dev, &long_scenes[i], 150);
      assert_true(many.n_tokens > 300);
      assert_memory_equal(many.qkv.bytes, few.qkv.bytes, many.qkv.n * yk_dtype_bytes(dev->dtype));
      assert_memory_equal(many.k_cache.bytes, few.k_cache.bytes, many.k_cache.n * yk_dtype_bytes(dev->dtype));
      assert_memory_equal(many.v_cache.bytes, few.v_cache.bytes, many.v_cache.n * yk_dtype_bytes(dev->dtype));
      scene_free(dev, &many), scene_free(dev, &few);
    }
    dev->ops->destroy(dev);
  }
}

static void random_scene(op_random *random, scene_shape *shape)
{
  static const int32_t head_dims[] = {16, 20, 32, 64, 80, 96, 128, 256, 512, 320};
  yk_head_layout *heads = &shape->heads;
  *shape = (scene_shape){.n_seqs = (int)op_between(random, 1, RANDOM_SCENE_SEQS), .qk_norm = op_uniform(random) < 0.5};
  heads->head_dim = head_dims[op_between(random, 0, 9)];
  heads->q_per_kv = (int32_t)op_between(random, 1, 8);
  heads->q_head_first = (int32_t)op_between(random, 0, 7);
  heads->n_q_heads = (int32_t)op_between(random, 1, 9);
  heads->kv_head_first = heads->q_head_first / heads->q_per_kv;
  heads->n_kv_heads = (heads->q_head_first + heads->n_q_heads - 1) / heads->q_per_kv - heads->kv_head_first + 1;
  for (int q = 0; q < shape->n_seqs; q++) {
    shape->seqs[q].cached = (int32_t)op_between(random, 0, 120);
    shape->seqs[q].rows = op_uniform(random) < 0.5 ? 1 : (int32_t)op_between(random, 1, 20);
  }
  if (op_uniform(random) < 0.4) shape->window = (int32_t)op_between(random, 1, 60);
  heads->has_gates = op_uniform(random) < 0.3;
  shape->has_sinks = op_uniform(random) < 0.3;
  shape->is_chunk = shape->window > 0 && op_uniform(random) < 0.4;
  if (op_uniform(random) < 0.3) shape->growth = (yk_score_growth){.beta = 0.2f, .period = 24, .shift = 1};
  if (op_uniform(random) < 0.3) heads->kv_columns = YK_KV_COLUMNS_KEYS;
  if (op_uniform(random) < 0.4) shape->qk_norm = (int)op_between(random, 2, 3);
}

static void test_random_scenes(void **state)
{
  for (uint32_t i = 0; i < 60; i++) {
    op_random random = {.seed = 9000 + i};
    scene_shape shape;
    random_scene(&random, &shape);
    check_scene(*state, gpu_dtypes[i % 2], &shape, 70 + i);
  }
}

/* Each head size with separate kernels, in both types, with and without a prompt. */
static void test_few_scenes(void **state)
{
  static const int32_t head_dims[] = {64, 80, 96, 128, 256, 512, 20};
  for (uint32_t i = 0; i < 28; i++) {
    op_random random = {.seed = 9000 + i};
    scene_shape shape;
    random_scene(&random, &shape);
    shape.heads.head_dim = head_dims[i % 7];
    for (int q = 0; i >= 14 && q < shape.n_seqs; q++) shape.seqs[q].rows = 1;
    check_scene(*state, gpu_dtypes[i / 7 % 2], &shape, 70 + i);
  }
  for (uint32_t i = 0; i < N_CROWDED; i++) check_scene(*state, gpu_dtypes[i % 2], &crowded_scenes[i], 60 + i);
}

/* Decode rounds the query times K's static scales to float16: scores of at most about 8 in size here move by a unit.
 * For prefill see staging_error. */
static double code_tolerance(yk_dtype dtype)
{
  return tolerance_of(dtype) + 9.0 * op_unit_roundoff(dtype);
}

static void test_codes(void **state)
{
  for (int i = 0; i < N_SCENES; i++)
    check_code_cases(*state, gpu_dtypes[i % 2], &scene_shapes[i], 40 + (uint32_t)i, code_tolerance(gpu_dtypes[i % 2]));
  for (uint32_t i = 0; i < 20; i++) {
    op_random random = {.seed = 9000 + i};
    scene_shape shape;
    random_scene(&random, &shape);
    check_code_cases(*state, gpu_dtypes[i % 2], &shape, 70 + i, code_tolerance(gpu_dtypes[i % 2]));
  }
  for (uint32_t i = 0; i < N_CROWDED; i++)
    check_code_cases(*state, gpu_dtypes[i % 2], &crowded_scenes[i], 60 + i, code_tolerance(gpu_dtypes[i % 2]));
}

/* Sequences of several parts, also of prompts. */
static void test_long_codes(void **state)
{
  static const int32_t head_dims[] = {64, 128, 256};
  for (int i = 0; each_case(i, i < 3); i++) {
    const scene_shape shape = {.heads = grouped_heads(8, 2, head_dims[i]),
                               .n_seqs = 9,
                               .shortest = 1,
                               .longest = 1500,
                               .window = i == 2 ? 100 : 0};
    check_code_cases(*state, gpu_dtypes[i % 2], &shape, 470 + (uint32_t)i, code_tolerance(gpu_dtypes[i % 2]));
  }
  const scene_shape prompts = {.heads = grouped_heads(8, 2, 128), .n_seqs = 3, .seqs = {{4500, 20}, {0, 40}, {900, 1}}};
  check_code_cases(*state, YK_F16, &prompts, 473, code_tolerance(YK_F16));
}

static void test_few_codes(void **state)
{
  for (int i = 1; i < 4; i++)
    check_code_cases(*state, gpu_dtypes[i % 2], &scene_shapes[i], 40 + (uint32_t)i, code_tolerance(gpu_dtypes[i % 2]));
}

static void test_unsound_tokens(void **state)
{
  for (int d = 0; d < N_GPU_DTYPES; d++)
    for (yk_kv_format format = YK_KV_INT8; format <= YK_KV_FP8; format++)
      for (int is_static = 0; is_static < 2; is_static++) check_unsound_token(*state, gpu_dtypes[d], format, is_static);
}

static void test_planted_faults_are_seen(void **state)
{
  static const struct {
    op_fault fault;
    int scene;
  } faults[] = {{OP_MASK_LATE, 1},     {OP_MASK_EARLY, 2},    {OP_WINDOW_WIDE, 4},     {OP_WINDOW_WIDE, 5},
                {OP_WRONG_KV_HEAD, 3}, {OP_WRONG_KV_HEAD, 6}, {OP_BLOCKS_IN_ORDER, 2}, {OP_NO_SOFTMAX_SCALE, 3}};
  static const op_fault rope_faults[] = {OP_ROPE_INTERLEAVED, OP_ROPE_LATE, OP_NO_QK_NORM};
  for (int d = 0; d < N_GPU_DTYPES; d++) {
    yk_dtype dtype = gpu_dtypes[d];
    for (size_t i = 0; each_case(i, i < sizeof faults / sizeof *faults); i++)
      assert_true(attention_error(*state, dtype, &scene_shapes[faults[i].scene], 4, faults[i].fault) >
                  5.0 * tolerance_of(dtype));
    check_code_faults(*state, dtype, code_tolerance(dtype));
    for (size_t i = 0; i < 3; i++)
      assert_true(rope_error(*state, dtype, &scene_shapes[3], 4, rope_faults[i]) > 5.0 * rope_tolerance(dtype, true));
  }
}

static const int32_t decode_dims[] = {64, 80, 96, 128, 16, 20, 36, 192, 256, 512};
static const int32_t prefill_dims[] = {64, 80, 96, 128, 20, 256, 512};

static void test_decode_heads(void **state)
{
  for (int i = 0; each_case(i, i < 10); i++) check_decode_heads(*state, decode_dims[i], i);
}

static void test_decode_sizes(void **state)
{
  check_decode_sizes(*state);
}

static void test_prefill_heads(void **state)
{
  for (int i = 0; each_case(i, i < 7); i++) check_prefill_heads(*state, prefill_dims[i], i);
}

static void test_prefill_sizes(void **state)
{
  check_prefill_sizes(*state);
}

static void test_prefill_splits(void **state)
{
  static const int32_t head_dims[] = {64, 128, 80};
  for (int i = 0; each_case(i, i < 3); i++) check_prefill_splits(*state, head_dims[i], i);
}

static void test_replay(void **state)
{
  const yk_head_layout heads[] = {grouped_heads(32, 8, 128), grouped_heads(16, 4, 256), grouped_heads(16, 2, 512)};
  for (int i = 0; each_case(i, i < 3); i++) check_attention_replay(*state, &heads[i]);
}

int main(int argc, char **argv)
{
  const op_target *target = cuda_target_of(argc, argv);
  int gate = gpu_gate(1);
  if (!target || gate != GPU_GO) return target ? gate : GPU_FAIL;
  const struct CMUnitTest tests[] = {
      ON_TARGET(test_table, target),
      ON_TARGET(test_sinks, target),
      ON_TARGET(test_chunks, target),
      ON_TARGET(test_invariance, target),
      ON_TARGET(test_invariance_of_decodes, target),
      ON_TARGET(test_score_growth, target),
      ON_TARGET(test_decode_heads, target),
      ON_TARGET(test_decode_sizes, target),
      ON_TARGET(test_replay, target),
      ON_TARGET(test_prefill_heads, target),
      ON_TARGET(test_prefill_sizes, target),
      ON_TARGET(test_prefill_splits, target),
      ON_TARGET(test_random_scenes, target),
      ON_TARGET(test_codes, target),
      ON_TARGET(test_long_codes, target),
      /* The next do not depend on the restrictions. */
      ON_TARGET(test_rotations, target),
      ON_TARGET(test_kv_columns, target),
      ON_TARGET(test_many_rows_rotate_as_few, target),
      ON_TARGET(test_unsound_tokens, target),
      ON_TARGET(test_planted_faults_are_seen, target),
  };
  enum { N_TESTS = sizeof tests / sizeof *tests, N_INDEPENDENT = 5 };
  const struct CMUnitTest small[] = {ON_TARGET(test_few_scenes, target), ON_TARGET(test_rotations, target),
                                     ON_TARGET(test_kv_columns, target), ON_TARGET(test_few_codes, target)};
  if (gpu_is_small()) return cmocka_run_group_tests(small, NULL, NULL);
  if (target == &cuda_target) return cmocka_run_group_tests(tests, NULL, NULL);
  return _cmocka_run_group_tests("on a restricted GPU", tests, N_TESTS - N_INDEPENDENT, NULL, NULL);
}

/* op_cases_attention_options.h - options of qk_rope_kv and attention. */
#ifndef YK_TESTS_OP_CASES_ATTENTION_OPTIONS_H
#define YK_TESTS_OP_CASES_ATTENTION_OPTIONS_H

#include "op/op_cases_attention.h"

static const scene_shape gated_scene = {
    {3, 2, 32, 2, 1, 0, true, YK_KV_COLUMNS_BOTH}, 3, {{20, 3}, {0, 18}, {33, 1}}, 0, .qk_norm = true};

/* On devices with rotation_before_norms and unrotated_layers: heads of both numbers of pairs a lane on GPUs. */
static inline void check_rotations(const op_target *target)
{
  static const int indices[] = {3, 9};
  for (size_t d = 0; each_case(d, d < op_n_dtypes(target)); d++)
    for (int i = 0; each_case(i, i < 6); i++) {
      scene_shape shape = scene_shapes[indices[i % 2]];
      shape.qk_norm = i < 4 ? 2 : 1;
      shape.is_unrotated = i >= 2;
      double error = rope_error(target, op_dtypes[d], &shape, 95, OP_RIGHT);
      if (error > rope_tolerance(op_dtypes[d], true))
        fail_msg("%s %s, norms %d, %s: error %.3g", target->name, yk_dtype_name(op_dtypes[d]), shape.qk_norm,
                 shape.is_unrotated ? "not rotated" : "rotated", error);
    }
}

/* On devices with value_norms and kv_columns: every yk_kv_columns, with norms of values and heads inside KV groups. */
static inline void check_kv_columns(const op_target *target)
{
  for (size_t d = 0; d < op_n_dtypes(target); d++)
    for (int columns = YK_KV_COLUMNS_BOTH; columns <= YK_KV_COLUMNS_NONE; columns++) {
      scene_shape shape = scene_shapes[6];
      shape.heads.kv_columns = (yk_kv_columns)columns;
      shape.qk_norm = 3;
      double rope = rope_error(target, op_dtypes[d], &shape, 97, OP_RIGHT);
      double attention = attention_error(target, op_dtypes[d], &shape, 97, OP_RIGHT);
      if (!(rope <= rope_tolerance(op_dtypes[d], true) && attention <= attention_tolerance(target, op_dtypes[d])))
        fail_msg("%s %s, columns %d: errors of qk_rope_kv %.3g, attention %.3g", target->name,
                 yk_dtype_name(op_dtypes[d]), columns, rope, attention);
    }
}

/* A scene of the table with other options. */
static inline void check_option(const op_target *target, const scene_shape *shape, uint32_t seed, const char *option)
{
  for (size_t d = 0; each_case(d, d < op_n_dtypes(target)); d++) {
    double error = attention_error(target, op_dtypes[d], shape, seed, OP_RIGHT);
    if (!(error <= attention_tolerance(target, op_dtypes[d])))
      fail_msg("%s %s with %s, heads of %d, window %d: error %.3g", target->name, yk_dtype_name(op_dtypes[d]), option,
               shape->heads.head_dim, shape->window, error);
  }
}

/* On devices with attention_sinks: decode, without and with a window, inside KV groups, and many query heads. */
static inline void check_attention_sinks(const op_target *target)
{
  static const int indices[] = {2, 3, 5, 6, 7, 9};
  for (size_t i = 0; each_case(i, i < sizeof indices / sizeof *indices); i++) {
    scene_shape shape = scene_shapes[indices[i]];
    shape.has_sinks = true;
    check_option(target, &shape, 80 + (uint32_t)i, "sinks");
  }
}

/* On devices with attention_chunks: chunks shorter than a block, of a block, and longer. */
static inline void check_attention_chunks(const op_target *target)
{
  static const struct {
    int scene;
    int32_t window;
  } cases[] = {{4, 7}, {5, 16}, {4, 37}, {5, 37}, {2, 37}, {9, 80}};
  for (size_t i = 0; each_case(i, i < sizeof cases / sizeof *cases); i++) {
    scene_shape shape = scene_shapes[cases[i].scene];
    shape.window = cases[i].window;
    shape.is_chunk = true;
    check_option(target, &shape, 85 + (uint32_t)i, "chunks");
  }
}

/* On devices with score_growth: periods that end within the sequences, with and without a window. */
static inline void check_score_growth(const op_target *target)
{
  static const int indices[] = {2, 3, 5, 6, 9};
  for (size_t i = 0; each_case(i, i < sizeof indices / sizeof *indices); i++) {
    scene_shape shape = scene_shapes[indices[i]];
    shape.growth = (yk_score_growth){.beta = 0.3f, .period = 16, .shift = (int32_t)i % 2};
    check_option(target, &shape, 100 + (uint32_t)i, "growing scores");
  }
}

/* On devices with attention_gates. */
static inline void check_attention_gates(const op_target *target)
{
  for (size_t d = 0; d < op_n_dtypes(target); d++) {
    double rope = rope_error(target, op_dtypes[d], &gated_scene, 90, OP_RIGHT);
    double attention = attention_error(target, op_dtypes[d], &gated_scene, 90, OP_RIGHT);
    if (!(rope <= rope_tolerance(op_dtypes[d], true) && attention <= attention_tolerance(target, op_dtypes[d])))
      fail_msg("%s %s with gates: errors of qk_rope_kv %.3g, attention %.3g", target->name, yk_dtype_name(op_dtypes[d]),
               rope, attention);
  }
}

#endif

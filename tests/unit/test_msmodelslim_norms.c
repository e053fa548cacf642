/* Norms of msmodelslim with an offset, and the terms that are folded into biases. */
#include <math.h>

#include "unit/msmodelslim_fixture.h"

#include "each_case.h"
#include "loader/integers/folded_bias.h"

/* A directory whose norm has these tensors; q has the given kind, k and v are quantised. */
static yk_status read_norm(const tensor *tensors, const char *kind_of_q, yk_weight_view *q, yk_vector_view *norm,
                           yk_checkpoint **checkpoint, yk_err *err)
{
  file_builder f = {0};
  char description[512];
  const temp_dir dir = temp_dir_make();
  for (int i = 0; i < MAX_TENSORS && tensors[i].suffix; i++)
    add(&f, tensors[i].suffix, tensors[i].dtype, tensors[i].shape, tensors[i].n, tensors[i].value);
  static const char *const modules[] = {"q", "k", "v"};
  snprintf(description, sizeof description, "{");
  for (int i = 0; i < 3; i++) {
    char name[80];
    const char *kind = i == 0 ? kind_of_q : "W8A16";
    snprintf(name, sizeof name, "model.layers.0.self_attn.%s_proj.weight", modules[i]);
    add(&f, name, strcmp(kind, "FLOAT") == 0 ? "F16" : "I8", "[8,8]", 64, 1);
    snprintf(description + strlen(description), sizeof description - strlen(description), "%s'%s': '%s'", i ? ", " : "",
             name, kind);
  }
  snprintf(description + strlen(description), sizeof description - strlen(description), "}");
  *checkpoint = NULL;
  yk_status status = open_with(&dir, &f, description, NULL, checkpoint, err);
  temp_dir_remove(&dir);
  if (status == YK_OK) status = yk_checkpoint_vector(*checkpoint, YK_ROLE_ATTENTION_NORM, 0, 8, norm, err);
  *q = (yk_weight_view){.k = 8, .n = 8, .inputs = {.kind = YK_INPUTS_PER_TOKEN}};
  if (status == YK_OK) status = yk_checkpoint_add_offset(*checkpoint, YK_ROLE_Q, 0, q, err);
  return status;
}

static float first_of(const void *data)
{
  float value;
  memcpy(&value, data, sizeof value);
  return value;
}

/* Eight floats of one value. */
#define FLOATS(name, value)                                                                                            \
  {                                                                                                                    \
    name, "F32", "[8]", 8, value                                                                                       \
  }
#define PLAIN_NORM  FLOATS(NORM ".weight", 1)
#define SCALED_NORM FLOATS(NORM ".module.weight", 2)
#define SAME_NORM   FLOATS(NORM ".module.weight", 1)
#define OFFSET      FLOATS(NORM ".module.bias", 5)
#define NO_OFFSET   FLOATS(NORM ".module.bias", 0)
#define NEW_OFFSET  FLOATS(NORM ".bias", 6)

static void norms(void **state)
{
  (void)state;
  static const struct {
    const char *what;
    tensor tensors[MAX_TENSORS];
    const char *kind_of_q;
    float weight, offset; /* 0: none */
  } cases[] = {{"scaled", {PLAIN_NORM, SCALED_NORM, OFFSET}, "W8A16", 2, 5},
               {"scaled alone", {SCALED_NORM, OFFSET}, "W8A16", 2, 5},
               {"scaled alone, read by floats too", {SCALED_NORM, OFFSET}, "FLOAT", 2, 5},
               {"zeros", {PLAIN_NORM, SCALED_NORM, NO_OFFSET}, "W8A16", 2, 0},
               {"the same", {PLAIN_NORM, SAME_NORM, NO_OFFSET}, "FLOAT", 1, 0},
               {"newer", {PLAIN_NORM, NEW_OFFSET}, "FLOAT", 1, 6},
               {"plain", {PLAIN_NORM}, "W8A16", 1, 0}};
  for (size_t i = 0; each_case(i, i < sizeof cases / sizeof *cases); i++) {
    yk_checkpoint *checkpoint;
    yk_weight_view q;
    yk_vector_view norm;
    yk_err err = YK_ERR_INIT;
    expect_ok(cases[i].what, read_norm(cases[i].tensors, cases[i].kind_of_q, &q, &norm, &checkpoint, &err), &err);
    if (first_of(norm.data) != cases[i].weight || (q.x_offset ? first_of(q.x_offset) : 0) != cases[i].offset)
      fail_msg("%s: weight %g", cases[i].what, (double)first_of(norm.data));
    assert_int_equal(q.folds_bias, cases[i].offset != 0);
    assert_int_equal(q.inputs.kind, cases[i].offset != 0 ? YK_INPUTS_FLOAT : YK_INPUTS_PER_TOKEN);
    yk_checkpoint_close(checkpoint);
  }
}

static void bad_norms(void **state)
{
  (void)state;
  static const struct {
    const char *what;
    tensor tensors[MAX_TENSORS];
    yk_status status;
    const char *words;
  } cases[] = {
      {"two", {PLAIN_NORM, SCALED_NORM}, YK_E_UNSUPPORTED, "_proj reads " NORM ".module.weight|" Q " reads"},
      {"an offset for some", {PLAIN_NORM, SAME_NORM, OFFSET}, YK_E_UNSUPPORTED, "norms that differ"},
      {"missing", {{"x", "F32", "[8]", 8, 1}}, YK_E_FORMAT, NORM ".weight is missing"},
      {"shape of the offset",
       {PLAIN_NORM, {NORM ".bias", "F32", "[4]", 4, 1}},
       YK_E_FORMAT,
       NORM ".bias|[8]|found F32 [4]"},
      {"an offset without elements",
       {PLAIN_NORM, {NORM ".bias", "F32", "[0]", 0, 0}},
       YK_E_FORMAT,
       NORM ".bias|[8]|found F32 [0]"},
  };
  for (size_t i = 0; each_case(i, i < sizeof cases / sizeof *cases); i++) {
    yk_checkpoint *checkpoint;
    yk_weight_view q;
    yk_vector_view norm;
    yk_err err = YK_ERR_INIT;
    expect_error(cases[i].what, cases[i].status, cases[i].words,
                 read_norm(cases[i].tensors, "FLOAT", &q, &norm, &checkpoint, &err), &err);
    yk_checkpoint_close(checkpoint);
  }
  static const tensor final[MAX_TENSORS] = {PLAIN_NORM, FLOATS("model.norm.weight", 1), FLOATS("model.norm.bias", 1)};
  yk_checkpoint *checkpoint;
  yk_weight_view q;
  yk_vector_view norm;
  yk_err err = YK_ERR_INIT;
  expect_ok("final", read_norm(final, "FLOAT", &q, &norm, &checkpoint, &err), &err);
  expect_error("final", YK_E_UNSUPPORTED, "model.norm.bias|layers' norms",
               yk_checkpoint_vector(checkpoint, YK_ROLE_FINAL_NORM, 0, 8, &norm, &err), &err);
  yk_checkpoint_close(checkpoint);
}

/* Offsets before floats and before integers with more inputs and outputs than a block has. */
static void offsets_become_biases(void **state)
{
  (void)state;
  enum { K = 300, N = 140, FIRST = 3 };
  static float plain[N * K], offsets[K], scales[N], zeros[N], own[N], found[N];
  static int8_t bytes[N * K];
  yk_err err = YK_ERR_INIT;
  for (int i = 0; i < N * K; i++) {
    bytes[i] = (int8_t)(i * 37 >> 2);
    plain[i] = (float)(i % 17) / 8 - 1;
  }
  for (int k = 0; k < K; k++) offsets[k] = (float)(k % 5) - 2;
  for (int n = 0; n < N; n++) {
    scales[n] = 0.5f + (float)n;
    zeros[n] = (float)(n % 3);
    own[n] = (float)n;
  }
  yk_weight_view floats = {.k = K, .n = N, .dtype = YK_F32, .plain = plain, .bias = own, .bias_dtype = YK_F32};
  yk_weight_view integers = {.format = YK_WEIGHT_INT8,
                             .packing = YK_PACKING_ROWS,
                             .k = K,
                             .n = N,
                             .group = K,
                             .dtype = YK_F32,
                             .qweight = bytes,
                             .scales = scales,
                             .qzeros = zeros,
                             .has_zeros = true};
  floats.folds_bias = integers.folds_bias = true;
  floats.x_offset = integers.x_offset = offsets;
  floats.x_offset_dtype = integers.x_offset_dtype = YK_F32;
  for (int of_integers = 0; of_integers < 2; of_integers++) {
    expect_ok("fold", yk_folded_bias(of_integers ? &integers : &floats, FIRST, N, found, &err), &err);
    for (int n = FIRST; n < N; n++) {
      double expected = of_integers ? 0 : (double)own[n];
      for (int k = 0; k < K; k++) {
        double w = of_integers ? ((double)bytes[n * K + k] - zeros[n]) * scales[n] : (double)plain[n * K + k];
        expected += w * offsets[k];
      }
      if (fabs(found[n - FIRST] - expected) > 1e-5 * fabs(expected) + 1e-4)
        fail_msg("output %d: %g, expected %g", n, (double)found[n - FIRST], expected);
    }
  }
  offsets[7] = INFINITY;
  expect_error("infinite", YK_E_FORMAT, "a weight|bias of output 3", yk_folded_bias(&floats, FIRST, N, found, &err),
               &err);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(norms),
      cmocka_unit_test(bad_norms),
      cmocka_unit_test(offsets_become_biases),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

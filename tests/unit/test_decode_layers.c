/* The layers of a rank's model as one operation of its device: which sublayers and models the operation can express,
 * and that the device gets their pointers and numbers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "each_case.h"
#include "kernels/cpu/cpu_device.h"
#include "model/decode_layers.h"
#include "model/model_parts.h"
#include "unit/loader_fixture.h"

/* ---- Sublayers of golden models ---------------------------------------------------------------------------------- */

typedef struct rank {
  yk_model_limits limits;
  int n_ranks;
} rank;

/* A reason why the operation cannot express a sublayer: of a golden model, or set in its configuration or limits. */
typedef struct refusal {
  const char *name, *model;
  const yk_sublayer_kind *kind;
  int32_t layer;
  void (*change)(yk_model_config *config, int32_t layer, rank *on); /* NULL: none */
} refusal;

static void add_window(yk_model_config *config, int32_t layer, rank *on)
{
  (void)on;
  config->window_tokens[layer] = 8;
}

static void take_rotation_away(yk_model_config *config, int32_t layer, rank *on)
{
  (void)on;
  config->is_unrotated[layer] = true;
}

static void let_scores_grow(yk_model_config *config, int32_t layer, rank *on)
{
  (void)layer, (void)on;
  config->score_growth = (yk_score_growth){.beta = 0.1f, .period = 64};
}

static void let_norms_follow(yk_model_config *config, int32_t layer, rank *on)
{
  (void)layer, (void)on;
  config->qk_norm_follows = true;
}

static void norm_values(yk_model_config *config, int32_t layer, rank *on)
{
  (void)layer, (void)on;
  config->value_norms = true;
}

static void leave_values_as_they_are(yk_model_config *config, int32_t layer, rank *on)
{
  (void)layer, (void)on;
  config->value_norms = false;
}

static void quantise_cache(yk_model_config *config, int32_t layer, rank *on)
{
  (void)config, (void)layer;
  on->limits.kv_format = YK_KV_INT8;
}

static void be_invariant(yk_model_config *config, int32_t layer, rank *on)
{
  (void)config, (void)layer;
  on->limits.batch_invariant = true;
}

static void run_on_two_ranks(yk_model_config *config, int32_t layer, rank *on)
{
  (void)config, (void)layer;
  on->n_ranks = 2;
}

static void take_gate_away(yk_model_config *config, int32_t layer, rank *on)
{
  (void)layer, (void)on;
  config->activation.is_gated = false;
}

static const refusal refusals[] = {
    {"window", "qwen3", &yk_attention_grouped, 0, add_window},
    {"no rotation", "qwen3", &yk_attention_grouped, 1, take_rotation_away},
    {"scores that grow", "qwen3", &yk_attention_grouped, 0, let_scores_grow},
    {"norms after the rotation", "qwen3", &yk_attention_grouped, 0, let_norms_follow},
    {"norms of values", "qwen3", &yk_attention_grouped, 0, norm_values},
    {"cache in 8 bits", "qwen3", &yk_attention_grouped, 0, quantise_cache},
    {"batch invariance", "qwen3", &yk_attention_grouped, 0, be_invariant},
    {"norms of whole rows", "minimax_m2", &yk_attention_grouped, 0, NULL},
    {"sinks", "gpt_oss", &yk_attention_grouped, 1, NULL},
    {"gates", "hybrid_qwen3_next", &yk_attention_grouped, 1, NULL},
    {"keys that are values", "gemma4", &yk_attention_grouped, 2, leave_values_as_they_are},
    {"integer sums of o over ranks", "format_w8a8", &yk_attention_grouped, 0, run_on_two_ranks},
    {"integer sums of down over ranks", "format_w8a8", &yk_ffn_dense, 0, run_on_two_ranks},
    {"no gate", "qwen3", &yk_ffn_dense, 0, take_gate_away},
    {"three query heads for two KV heads", "llama_uneven", &yk_attention_grouped, 0, run_on_two_ranks},
};

/* Sublayers that the operation can express: heads with norms and biases, partial rotation, several ranks that add
 * floats. */
static const refusal taken[] = {
    {"norms of heads", "qwen3", &yk_attention_grouped, 1, NULL},
    {"biases", "qwen2_no_window", &yk_attention_grouped, 0, NULL},
    {"part of a head rotates", "glm", &yk_attention_grouped, 0, NULL},
    {"floats on two ranks", "qwen3", &yk_attention_grouped, 0, run_on_two_ranks},
    {"FFN", "qwen3", &yk_ffn_dense, 1, NULL},
};

static yk_checkpoint *open_golden(const char *model)
{
  char dir[512];
  yk_checkpoint *checkpoint;
  yk_err err = YK_ERR_INIT;
  snprintf(dir, sizeof dir, "%s/golden/families/%s", YOKE_TESTS_DIR, model);
  expect_ok(model, yk_checkpoint_open(dir, NULL, &checkpoint, &err), &err);
  return checkpoint;
}

static yk_device *open_device(const rank *on)
{
  yk_device *dev;
  assert_int_equal(yk_cpu_device_create(YK_F32, 1, &on->limits.step, &dev, NULL), YK_OK);
  return dev;
}

/* The answer of the sublayer's describe. */
static bool describe_golden(const refusal *c, yk_decode_layer *layer, yk_decode_layers_spec *spec)
{
  yk_checkpoint *checkpoint = open_golden(c->model);
  yk_model_config *config = (yk_model_config *)(uintptr_t)yk_checkpoint_config(checkpoint);
  rank on = {.limits = {.step = {.max_tokens = 8, .max_seqs = 4, .max_model_tokens = 64, .vocab = config->vocab_size},
                        .n_kv_blocks = 8},
             .n_ranks = 1};
  if (c->change) c->change(config, c->layer, &on);
  yk_device *dev = open_device(&on);
  yk_rank_buffer repacked = {0};
  yk_adapted adapted = {0};
  const yk_rank_loader loader = {.source = {.checkpoint = checkpoint,
                                            .config = config,
                                            .limits = &on.limits,
                                            .share = yk_rank_share_of(config, 0, on.n_ranks, false),
                                            .dev = {.dtype = YK_F32,
                                                    .abilities = dev->ops->abilities,
                                                    .linear_bytes = dev->ops->linear_bytes,
                                                    .linear_keeps = dev->ops->linear_keeps,
                                                    .linear_divides = dev->ops->linear_divides}},
                                 .dev = dev,
                                 .adapted = &adapted,
                                 .repacked = &repacked};
  yk_sublayer *sublayer = NULL;
  yk_err err = YK_ERR_INIT;
  expect_ok(c->name, c->kind->load(&loader, c->layer, &sublayer, &err), &err);
  const bool is_taken = c->kind->describe(sublayer, layer, spec);
  c->kind->destroy(dev, sublayer);
  yk_adapted_free(&adapted);
  free(repacked.memory);
  dev->ops->destroy(dev);
  yk_checkpoint_close(checkpoint);
  return is_taken;
}

static void sublayers_are_refused(void **state)
{
  (void)state;
  for (size_t i = 0; each_case(i, i < sizeof refusals / sizeof *refusals); i++) {
    yk_decode_layer layer = {0};
    yk_decode_layers_spec spec = {0};
    if (describe_golden(&refusals[i], &layer, &spec)) fail_msg("%s: taken", refusals[i].name);
  }
}

static void sublayers_are_taken(void **state)
{
  (void)state;
  for (size_t i = 0; each_case(i, i < sizeof taken / sizeof *taken); i++) {
    yk_decode_layer layer = {0};
    yk_decode_layers_spec spec = {0};
    if (!describe_golden(&taken[i], &layer, &spec)) fail_msg("%s: refused", taken[i].name);
    const bool is_ffn = taken[i].kind == &yk_ffn_dense, has_norms = strcmp(taken[i].model, "qwen3") == 0;
    assert_true((layer.gate_up && layer.down) == is_ffn);
    assert_true((layer.qkv && layer.o && layer.kv.k && layer.kv.v) == !is_ffn);
    assert_true((layer.q_norm_w && layer.k_norm_w) == (!is_ffn && has_norms));
    assert_true((spec.n_q_heads > 0 && spec.n_kv_heads > 0 && spec.head_dim > 0 && spec.attention_scale > 0) ==
                !is_ffn);
  }
}

/* ---- Models of stand-in sublayers -------------------------------------------------------------------------------- */

enum { N_LAYERS = 3 };

/* A sublayer of either stand-in kind. */
struct yk_sublayer {
  bool is_refused;
  const yk_linear *first, *last;
  int32_t n_q_heads, n_kv_heads, head_dim;
  float scale;
};

static bool describe_attention(const yk_sublayer *a, yk_decode_layer *layer, yk_decode_layers_spec *spec)
{
  layer->qkv = a->first;
  layer->o = a->last;
  spec->n_q_heads = a->n_q_heads;
  spec->n_kv_heads = a->n_kv_heads;
  spec->head_dim = a->head_dim;
  spec->attention_scale = a->scale;
  return !a->is_refused;
}

static bool describe_ffn(const yk_sublayer *ffn, yk_decode_layer *layer, yk_decode_layers_spec *spec)
{
  (void)spec;
  layer->gate_up = ffn->first;
  layer->down = ffn->last;
  return !ffn->is_refused;
}

static const yk_sublayer_kind attention_kind = {.name = "attention", .describe = describe_attention},
                              ffn_kind = {.name = "FFN", .describe = describe_ffn}, other_kind = {.name = "other"};

/* Calls of the stand-in device, and its answer. */
static struct {
  int n_created, n_destroyed;
  yk_decode_layers_spec spec;
  yk_decode_layer layers[N_LAYERS];
  yk_decode_layers *made; /* NULL: the device has no kernel */
  yk_status status;
} device;

static yk_status create(yk_device *dev, const yk_decode_layers_spec *spec, yk_decode_layers **out, yk_err *err)
{
  (void)dev;
  device.n_created++;
  device.spec = *spec;
  assert_int_equal(spec->n_layers, N_LAYERS);
  memcpy(device.layers, spec->layers, sizeof device.layers);
  if (device.status != YK_OK) return yk_err_set(err, device.status, "made to fail");
  *out = device.made;
  return YK_OK;
}

static void destroy(yk_device *dev, yk_decode_layers *layers)
{
  (void)dev;
  device.n_destroyed++;
  assert_ptr_equal(layers, device.made);
}

/* ---- A stand-in for the communicator of two ranks, of which this is rank 1 --------------------------------------- */

static struct {
  char memory[2];                               /* of the ranks */
  bool is_opened;                               /* both ranks give memory, and both devices can access it */
  int32_t other_traits[YK_DECODE_N_TRAITS + 1]; /* of rank 0, then whether it has a kernel */
  yk_decode_peers peers;
  int n_opened, n_connected;
  volatile int32_t is_aborted;
  yk_status status;
} group;

static void *exchange(yk_device *dev, yk_decode_layers *layers, int32_t traits[YK_DECODE_N_TRAITS])
{
  (void)dev;
  assert_ptr_equal(layers, device.made);
  for (int32_t i = 0; i < YK_DECODE_N_TRAITS; i++) traits[i] = 5 + i;
  return &group.memory[1];
}

static void connect_peers(yk_device *dev, yk_decode_layers *layers, const yk_decode_peers *peers)
{
  (void)dev, (void)layers;
  group.n_connected++;
  group.peers = *peers;
}

static yk_status transfer(yk_device *dev, void *dst, const void *src, size_t n_bytes, yk_err *err)
{
  (void)dev, (void)err;
  memcpy(dst, src, n_bytes);
  return YK_OK;
}

static yk_status open_memories(yk_comm *comm, void *memory, void **opened, yk_err *err)
{
  (void)comm;
  group.n_opened++;
  if (group.status != YK_OK) return yk_err_set(err, group.status, "made to fail");
  for (int i = 0; i < 2; i++) opened[i] = group.is_opened && memory ? &group.memory[i] : NULL;
  return YK_OK;
}

static yk_status largest(yk_comm *comm, int32_t *data, int64_t count, yk_reduction reduction, yk_err *err)
{
  (void)comm, (void)err;
  assert_int_equal(reduction, YK_REDUCE_MAX);
  for (int64_t i = 0; i < count; i++) {
    const int32_t other = group.other_traits[i / 2] * (i % 2 ? -1 : 1);
    if (other > data[i]) data[i] = other;
  }
  return YK_OK;
}

static bool peer_wait(const yk_comm *comm, yk_peer_wait *out)
{
  (void)comm;
  *out = (yk_peer_wait){.is_aborted = &group.is_aborted};
  return true;
}

static const yk_comm_ops without_flag = {.open_memories = open_memories}, with_flag = {.open_memories = open_memories,
                                                                                       .all_reduce_i32 = largest,
                                                                                       .peer_wait = peer_wait};
static const yk_device_ops with_operation = {.upload = transfer,
                                             .download = transfer,
                                             .decode_layers_create = create,
                                             .decode_layers_exchange = exchange,
                                             .decode_layers_connect = connect_peers,
                                             .decode_layers_destroy = destroy},
                           without_operation = {0};

/* A model of stand-ins, with distinct addresses for everything that the device gets. */
typedef struct stand_in {
  yk_model model;
  yk_device dev;
  yk_comm comm;
  yk_layer layers[N_LAYERS];
  yk_sublayer attention[N_LAYERS], ffn[N_LAYERS];
  char places[N_LAYERS][6], final_norm;
  float rope;
  int32_t n_adapters, partial[2 * (YK_DECODE_N_TRAITS + 1)];
} stand_in;

static void stand_in_make(stand_in *s)
{
  *s = (stand_in){.dev = {.ops = &with_operation}, .comm = {.ops = &without_flag, .n_ranks = 1}};
  s->model = (yk_model){.dev = &s->dev,
                        .comm = &s->comm,
                        .hidden = 48,
                        .n_layers = N_LAYERS,
                        .eps = 1e-5f,
                        .residual_scale = 0.5f,
                        .rope = &s->rope,
                        .layers = s->layers,
                        .act = {.partial = s->partial},
                        .final_norm = {.w = &s->final_norm}};
  for (int i = 0; i < N_LAYERS; i++) {
    char *at = s->places[i];
    s->attention[i] = (yk_sublayer){.first = (yk_linear *)(void *)&at[0],
                                    .last = (yk_linear *)(void *)&at[1],
                                    .n_q_heads = 6,
                                    .n_kv_heads = 2,
                                    .head_dim = 8,
                                    .scale = 0.25f};
    s->ffn[i] = (yk_sublayer){.first = (yk_linear *)(void *)&at[2], .last = (yk_linear *)(void *)&at[3]};
    s->layers[i] = (yk_layer){.input_norm = {.w = &at[4]},
                              .post_norm = {.w = &at[5]},
                              .attention_kind = &attention_kind,
                              .ffn_kind = &ffn_kind,
                              .attention = &s->attention[i],
                              .ffn = &s->ffn[i]};
  }
  memset(&device, 0, sizeof device);
  device.made = (yk_decode_layers *)(void *)&s->rope;
}

static void device_gets_all_layers(void **state)
{
  (void)state;
  stand_in s;
  stand_in_make(&s);
  assert_int_equal(yk_decode_layers_load(&s.model, 0, NULL), YK_OK);
  assert_int_equal(device.n_created, 1);
  assert_ptr_equal(s.model.decode, device.made);
  const yk_decode_layers_spec *spec = &device.spec;
  assert_true(spec->hidden == 48 && spec->n_q_heads == 6 && spec->n_kv_heads == 2 && spec->head_dim == 8);
  assert_true(spec->norm_eps == 1e-5f && spec->attention_scale == 0.25f && spec->alpha == 0.5f);
  assert_ptr_equal(spec->rope, &s.rope);
  assert_ptr_equal(spec->final_norm_w, &s.final_norm);
  for (int i = 0; each_case(i, i < N_LAYERS); i++) {
    const yk_decode_layer *layer = &device.layers[i];
    const void *const found[] = {layer->qkv,          layer->o,          layer->gate_up, layer->down,
                                 layer->input_norm_w, layer->post_norm_w};
    for (int j = 0; j < 6; j++) assert_ptr_equal(found[j], &s.places[i][j]);
  }
  yk_decode_layers_unload(&s.model);
  assert_int_equal(device.n_destroyed, 1);
}

static void add_rank(stand_in *s)
{
  s->comm.n_ranks = 2;
}

static void add_adapter(stand_in *s)
{
  s->n_adapters = 1;
}

static void lack_operation(stand_in *s)
{
  s->dev.ops = &without_operation;
}

static void lack_attention(stand_in *s)
{
  s->layers[1].attention_kind = NULL;
}

static void lack_ffn(stand_in *s)
{
  s->layers[1].ffn_kind = NULL;
}

static void have_other_attention(stand_in *s)
{
  s->layers[2].attention_kind = &other_kind;
}

static void have_other_ffn(stand_in *s)
{
  s->layers[2].ffn_kind = &other_kind;
}

static void refuse_attention(stand_in *s)
{
  s->attention[2].is_refused = true;
}

static void refuse_ffn(stand_in *s)
{
  s->ffn[0].is_refused = true;
}

static void norm_result_of_attention(stand_in *s)
{
  s->layers[1].attention_result_w = s->places;
}

static void norm_result_of_ffn(stand_in *s)
{
  s->layers[1].ffn_result_w = s->places;
}

static void have_embeddings(stand_in *s)
{
  s->layers[0].input = &s->ffn[0];
}

static void have_gain(stand_in *s)
{
  s->layers[2].gain = 0.5f;
}

static void have_more_heads(stand_in *s)
{
  s->attention[1].n_q_heads = 8;
}

static void have_more_kv_heads(stand_in *s)
{
  s->attention[1].n_kv_heads = 3;
}

static void have_wider_heads(stand_in *s)
{
  s->attention[2].head_dim = 16;
}

static void have_another_scale(stand_in *s)
{
  s->attention[2].scale = 0.5f;
}

static void other_models_run_layer_by_layer(void **state)
{
  (void)state;
  static void (*const changes[])(stand_in * s) = {add_rank,           add_adapter,
                                                  lack_operation,     lack_attention,
                                                  lack_ffn,           have_other_attention,
                                                  have_other_ffn,     refuse_attention,
                                                  refuse_ffn,         norm_result_of_attention,
                                                  norm_result_of_ffn, have_embeddings,
                                                  have_gain,          have_more_heads,
                                                  have_more_kv_heads, have_wider_heads,
                                                  have_another_scale};
  for (size_t i = 0; each_case(i, i < sizeof changes / sizeof *changes); i++) {
    stand_in s;
    stand_in_make(&s);
    changes[i](&s);
    assert_int_equal(yk_decode_layers_load(&s.model, s.n_adapters, NULL), YK_OK);
    assert_int_equal(device.n_created, 0);
    assert_null(s.model.decode);
    yk_decode_layers_unload(&s.model);
    assert_int_equal(device.n_destroyed, 0);
  }
}

/* Two ranks with equal forms and opened memories; load and connect. */
static yk_status connect_two(stand_in *s, yk_err *err)
{
  s->comm = (yk_comm){.ops = &with_flag, .rank = 1, .n_ranks = 2};
  assert_int_equal(yk_decode_layers_load(&s->model, 0, NULL), YK_OK);
  return yk_decode_layers_connect(&s->model, err);
}

static void open_group(void)
{
  memset(&group, 0, sizeof group);
  group.is_opened = true;
  for (int32_t i = 0; i < YK_DECODE_N_TRAITS; i++) group.other_traits[i] = 5 + i;
  group.other_traits[YK_DECODE_N_TRAITS] = 1;
}

static void ranks_are_connected(void **state)
{
  (void)state;
  stand_in s;
  stand_in_make(&s);
  open_group();
  assert_int_equal(connect_two(&s, NULL), YK_OK);
  assert_true(device.spec.rank == 1 && device.spec.n_ranks == 2);
  assert_int_equal(group.n_connected, 1);
  assert_ptr_equal(group.peers.exchange[0], &group.memory[0]);
  assert_ptr_equal(group.peers.exchange[1], &group.memory[1]);
  assert_true(group.peers.wait.is_aborted == &group.is_aborted);
  assert_ptr_equal(s.model.decode, device.made);
}

static void close_memories(void)
{
  group.is_opened = false;
}

static void divide_otherwise(void)
{
  group.other_traits[3]++;
}

static void have_less(void)
{
  group.other_traits[0]--;
}

static void have_no_kernel(void)
{
  device.made = NULL;
}

static void let_rank_0_have_none(void)
{
  memset(group.other_traits, 0, sizeof group.other_traits);
}

static void ranks_that_differ_run_layer_by_layer(void **state)
{
  (void)state;
  static void (*const changes[])(void) = {close_memories, divide_otherwise, have_less, have_no_kernel,
                                          let_rank_0_have_none};
  for (size_t i = 0; each_case(i, i < sizeof changes / sizeof *changes); i++) {
    stand_in s;
    stand_in_make(&s);
    open_group();
    changes[i]();
    const int n_made = device.made ? 1 : 0;
    assert_int_equal(connect_two(&s, NULL), YK_OK);
    assert_int_equal(group.n_opened, changes[i] == close_memories); /* not if the forms differ */
    assert_int_equal(group.n_connected, 0);
    assert_null(s.model.decode);
    assert_int_equal(device.n_destroyed, n_made);
  }
}

static void errors_of_the_communicator_are_reported(void **state)
{
  (void)state;
  stand_in s;
  yk_err err = YK_ERR_INIT;
  stand_in_make(&s);
  open_group();
  group.status = YK_E_COMM;
  assert_int_equal(connect_two(&s, &err), YK_E_COMM);
  assert_non_null(strstr(err.message, "connection of decode layers"));
  yk_decode_layers_unload(&s.model);
  assert_int_equal(device.n_destroyed, 1);
}

static void device_without_a_kernel(void **state)
{
  (void)state;
  stand_in s;
  stand_in_make(&s);
  device.made = NULL;
  assert_int_equal(yk_decode_layers_load(&s.model, 0, NULL), YK_OK);
  assert_int_equal(device.n_created, 1);
  assert_null(s.model.decode);
  yk_decode_layers_unload(&s.model);
  assert_int_equal(device.n_destroyed, 0);
}

static void errors_of_the_device_are_reported(void **state)
{
  (void)state;
  stand_in s;
  yk_err err = YK_ERR_INIT;
  stand_in_make(&s);
  device.status = YK_E_CAPACITY;
  expect_error("create", YK_E_CAPACITY, "made to fail", yk_decode_layers_load(&s.model, 0, &err), &err);
  assert_null(s.model.decode);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(sublayers_are_refused),
                                     cmocka_unit_test(sublayers_are_taken),
                                     cmocka_unit_test(device_gets_all_layers),
                                     cmocka_unit_test(other_models_run_layer_by_layer),
                                     cmocka_unit_test(device_without_a_kernel),
                                     cmocka_unit_test(errors_of_the_device_are_reported),
                                     cmocka_unit_test(ranks_are_connected),
                                     cmocka_unit_test(ranks_that_differ_run_layer_by_layer),
                                     cmocka_unit_test(errors_of_the_communicator_are_reported)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

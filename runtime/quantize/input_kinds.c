#include "quantize/input_kinds.h"

enum { MAX_WRITERS = 2 };

/* Roles over all families: a layer has some of the readers, and at most one of the writers. */
typedef struct kind_roles {
  int n_readers, n_float_readers, n_writers;
  yk_weight_role readers[YK_MAX_READERS], float_readers[YK_MAX_FLOAT_READERS], writers[MAX_WRITERS];
} kind_roles;

static const kind_roles kinds[YK_N_INPUT_KINDS] = {
    [YK_INPUT_QKV] = {.n_readers = 8,
                      .readers = {YK_ROLE_Q, YK_ROLE_K, YK_ROLE_V, YK_ROLE_Q_A, YK_ROLE_KV_A, YK_ROLE_DELTA_QKV,
                                  YK_ROLE_DELTA_Z, YK_ROLE_DELTA_QKVZ},
                      .n_float_readers = 3,
                      .float_readers = {YK_ROLE_DELTA_B, YK_ROLE_DELTA_A, YK_ROLE_DELTA_BA},
                      .n_writers = 1,
                      .writers = {YK_ROLE_ATTENTION_NORM}},
    [YK_INPUT_Q_B] = {.n_readers = 1, .readers = {YK_ROLE_Q_B}, .n_writers = 1, .writers = {YK_ROLE_Q_A_NORM}},
    [YK_INPUT_KV_B] = {.n_readers = 1, .readers = {YK_ROLE_KV_B}, .n_writers = 1, .writers = {YK_ROLE_KV_A_NORM}},
    [YK_INPUT_O] = {.n_readers = 1, .readers = {YK_ROLE_O}, .n_writers = 2, .writers = {YK_ROLE_V, YK_ROLE_KV_B}},
    [YK_INPUT_GATE_UP] = {.n_readers = 6,
                          .readers = {YK_ROLE_GATE, YK_ROLE_UP, YK_ROLE_SHARED_GATE, YK_ROLE_SHARED_UP,
                                      YK_ROLE_EXPERT_GATE, YK_ROLE_EXPERT_UP},
                          .n_float_readers = 2,
                          .float_readers = {YK_ROLE_ROUTER, YK_ROLE_SHARED_SCORE},
                          .n_writers = 1,
                          .writers = {YK_ROLE_FFN_NORM}},
    [YK_INPUT_DOWN] = {.n_readers = 1, .readers = {YK_ROLE_DOWN}, .n_writers = 1, .writers = {YK_ROLE_UP}},
    [YK_INPUT_SHARED_DOWN] = {.n_readers = 1,
                              .readers = {YK_ROLE_SHARED_DOWN},
                              .n_writers = 1,
                              .writers = {YK_ROLE_SHARED_UP}},
    [YK_INPUT_EXPERT_DOWN] = {.n_readers = 1,
                              .readers = {YK_ROLE_EXPERT_DOWN},
                              .n_writers = 1,
                              .writers = {YK_ROLE_EXPERT_UP}},
};

/* Copy the roles that the layer has to out. Returns their number. */
static int select_roles(const yk_model_config *config, int32_t layer, const yk_weight_role *roles, int n,
                        yk_weight_role *out)
{
  int n_out = 0;
  for (int i = 0; i < n; i++)
    if (yk_weight_is_in_layer(config, roles[i], layer)) out[n_out++] = roles[i];
  return n_out;
}

yk_input_roles yk_input_roles_of(const yk_model_config *config, int32_t layer, yk_input_kind kind)
{
  const kind_roles *k = &kinds[kind];
  yk_input_roles roles = {0};
  yk_weight_role writers[MAX_WRITERS];
  roles.n_readers = select_roles(config, layer, k->readers, k->n_readers, roles.readers);
  roles.n_float_readers = select_roles(config, layer, k->float_readers, k->n_float_readers, roles.float_readers);
  if (roles.n_readers == 0 || select_roles(config, layer, k->writers, k->n_writers, writers) == 0)
    return (yk_input_roles){0};
  roles.writer = writers[0];
  roles.writer_is_norm = !yk_weight_is_linear(roles.writer);
  return roles;
}

static bool is_among(const yk_weight_role *roles, int n, yk_weight_role role)
{
  for (int i = 0; i < n; i++)
    if (roles[i] == role) return true;
  return false;
}

yk_input_kind yk_input_read_by(const yk_model_config *config, int32_t layer, yk_weight_role role)
{
  for (int kind = 0; kind < YK_N_INPUT_KINDS; kind++) {
    const yk_input_roles roles = yk_input_roles_of(config, layer, (yk_input_kind)kind);
    if (is_among(roles.readers, roles.n_readers, role) || is_among(roles.float_readers, roles.n_float_readers, role))
      return (yk_input_kind)kind;
  }
  return YK_N_INPUT_KINDS;
}

yk_input_kind yk_input_written_by(const yk_model_config *config, int32_t layer, yk_weight_role role)
{
  for (int kind = 0; kind < YK_N_INPUT_KINDS; kind++) {
    const yk_input_roles roles = yk_input_roles_of(config, layer, (yk_input_kind)kind);
    if (roles.n_readers > 0 && roles.writer == role) return (yk_input_kind)kind;
  }
  return YK_N_INPUT_KINDS;
}

/* input_kinds.h - which linear layers of a transformer layer read the same rows, and which layer or norm writes these
 * rows.
 *
 *   kind          written by            read by
 *   QKV           norm                  q, k, v; with latent attention q or q_a, and kv_a; of a gated delta net q, k, v
 *                                       and z, and b and a, which stay floats
 *   Q_B           norm after q_a        q_b
 *   KV_B          norm after kv_a       kv_b
 *   O             v; the values of kv_b o
 *   GATE_UP       norm                  gate, up: one of each, or of every expert and the shared expert; router and
 *                                       score of the shared expert, which stay floats
 *   DOWN          up                    down
 *   SHARED_DOWN   up, shared expert     down of the shared expert
 *   EXPERT_DOWN   up of an expert       down of the same expert: separate inputs per expert */
#ifndef YK_QUANTIZE_INPUT_KINDS_H
#define YK_QUANTIZE_INPUT_KINDS_H

#include "loader/model/weight_modules.h"

typedef enum yk_input_kind {
  YK_INPUT_QKV,
  YK_INPUT_Q_B,
  YK_INPUT_KV_B,
  YK_INPUT_O,
  YK_INPUT_GATE_UP,
  YK_INPUT_DOWN,
  YK_INPUT_SHARED_DOWN,
  YK_INPUT_EXPERT_DOWN,
  YK_N_INPUT_KINDS
} yk_input_kind;

enum { YK_MAX_READERS = 8, YK_MAX_FLOAT_READERS = 3 };

/* The roles of a kind that exist in a layer. */
typedef struct yk_input_roles {
  int n_readers, n_float_readers;
  yk_weight_role readers[YK_MAX_READERS];
  yk_weight_role float_readers[YK_MAX_FLOAT_READERS]; /* readers whose weights stay floats */
  yk_weight_role writer;
  bool writer_is_norm;
} yk_input_roles;

/* yk_input_roles_of - the roles of a kind in a layer; without readers if the layer has no such inputs. */
yk_input_roles yk_input_roles_of(const yk_model_config *config, int32_t layer, yk_input_kind kind);

/* yk_input_read_by, yk_input_written_by - the kind of inputs that a role of a layer reads (float readers included), or
 *   writes. YK_N_INPUT_KINDS: none. */
yk_input_kind yk_input_read_by(const yk_model_config *config, int32_t layer, yk_weight_role role);
yk_input_kind yk_input_written_by(const yk_model_config *config, int32_t layer, yk_weight_role role);

/* yk_input_stays_float - whether quantising leaves a linear role's weights as floats. */
static inline bool yk_input_stays_float(yk_weight_role role)
{
  return yk_weight_is_float(role) || role == YK_ROLE_DELTA_B || role == YK_ROLE_DELTA_A || role == YK_ROLE_DELTA_BA;
}

/* yk_input_size - elements of a row. roles: roles of the layer, with readers. */
static inline int64_t yk_input_size(const yk_model_config *config, int32_t layer, const yk_input_roles *roles)
{
  return yk_weight_module_of(config, roles->readers[0], layer).k;
}

#endif

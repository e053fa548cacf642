/* ffn_gated.h - a feed-forward network with a gate, down(f(gate(x)) * up(x)), or without one, down(f(up(x))): the
 * network of a dense layer, or the shared expert of a mixture.
 *
 * gate and up are column-parallel, down row-parallel. Without a gate, gate_up below is up alone. A rank may hold any
 * set of the channels between them. If the groups of down are not runs of neighbouring inputs, the rank takes the
 * channels that its share of the sorted inputs lists, in that order, so that the input of down needs no reordering. */
#ifndef YK_MODEL_FFN_GATED_H
#define YK_MODEL_FFN_GATED_H

#include "model/layer.h"
#include "model/row_parallel.h"

/* yk_ffn_n_inner - number of parts of gate_up: 2, or 1 without a gate. Thread: any. */
static inline int yk_ffn_n_inner(const yk_activation *activation)
{
  return activation->is_gated ? 2 : 1;
}

/* Identifies the network: its roles in the checkpoint, and the rank's channels. */
typedef struct yk_gated_ffn_spec {
  int32_t layer;
  yk_weight_role gate, up, down;
  yk_range channels;
} yk_gated_ffn_spec;

typedef struct yk_gated_ffn {
  yk_linear *gate_up; /* NULL: not loaded */
  yk_row_parallel down;
  bool is_gated;
  int32_t width;             /* this rank's channels */
  int64_t down_offset_bytes; /* offset of down's scratch, which follows the rows between gate, up and down */
} yk_gated_ffn;

/* yk_gated_ffn_measure - adds bytes of weights and scratch to out. Reads no weights. Errors: those of the
 * checkpoint. */
yk_status yk_gated_ffn_measure(const yk_rank_source *source, const yk_gated_ffn_spec *spec, yk_sublayer_bytes *out,
                               yk_err *err);

/* yk_gated_ffn_in_steps - whether the ranks run down in steps (row_parallel.h). Reads no weights. Errors: as above. */
yk_status yk_gated_ffn_in_steps(const yk_rank_source *source, const yk_gated_ffn_spec *spec, bool *out, yk_err *err);

/* yk_gated_ffn_load - fill a zeroed network. After an error too, call yk_gated_ffn_destroy. */
yk_status yk_gated_ffn_load(const yk_rank_loader *loader, const yk_gated_ffn_spec *spec, yk_gated_ffn *out,
                            yk_err *err);
void yk_gated_ffn_destroy(yk_device *dev, yk_gated_ffn *ffn);

/* yk_gated_ffn_describe - describe of yk_sublayer_kind, of a network that is a whole sublayer. Thread: any. */
bool yk_gated_ffn_describe(const yk_gated_ffn *ffn, yk_decode_layer *layer);

/* yk_gated_order_channels - if down's inputs are sorted by group (k_is_sorted), gate and up get n_orders, so that each
 *   matrix writes its channels in the order of its down's inputs. *order: malloc'ed; the caller frees *order once
 *   gate_up and down are loaded, and after an error too. NULL if nothing is sorted. Errors: YK_E_NOMEM. Thread: any. */
yk_status yk_gated_order_channels(yk_linear_spec *gate_up, const yk_linear_spec *down, int32_t **order, yk_err *err);

/* yk_gated_ffn_forward - step->x, whose norm may be pending, to step->y. scratch: bytes as measured. Errors name the
 *   operation. */
yk_status yk_gated_ffn_forward(const yk_gated_ffn *ffn, yk_sublayer_step *step, void *scratch, yk_err *err);

#endif

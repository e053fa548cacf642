/* ffn_gated.h - one gated feed-forward network that every row passes: down(f(gate(x)) * up(x)): that of a dense
 * layer, and the shared expert of a mixture.
 *
 * gate and up are column-parallel, down row-parallel. A rank may hold any of the channels between them: where down's
 * groups are not of neighbouring inputs, those that its share of the sorted inputs names, in that order, so that down's
 * x need not be put in order. */
#ifndef YK_MODEL_FFN_GATED_H
#define YK_MODEL_FFN_GATED_H

#include "model/layer.h"
#include "model/row_parallel.h"

/* Which network: its roles in the checkpoint, and the rank's channels. */
typedef struct yk_gated_ffn_spec {
  int32_t layer;
  yk_weight_role gate, up, down;
  yk_range channels;
} yk_gated_ffn_spec;

typedef struct yk_gated_ffn {
  yk_linear *gate_up; /* NULL: not loaded */
  yk_row_parallel down;
  int32_t width;             /* this rank's channels */
  int64_t down_offset_bytes; /* of down's own scratch, behind the rows between gate, up and down */
} yk_gated_ffn;

/* yk_gated_ffn_measure - weights and scratch are added to out. Reads no weights. Errors: those of the checkpoint. */
yk_status yk_gated_ffn_measure(const yk_rank_source *source, const yk_gated_ffn_spec *spec, yk_sublayer_bytes *out,
                               yk_err *err);

/* yk_gated_ffn_in_steps - whether ranks go in steps at down (row_parallel.h). Reads no weights. Errors: as above. */
yk_status yk_gated_ffn_in_steps(const yk_rank_source *source, const yk_gated_ffn_spec *spec, bool *out, yk_err *err);

/* yk_gated_ffn_load - fills a zeroed network. What was loaded before an error is for yk_gated_ffn_destroy. */
yk_status yk_gated_ffn_load(const yk_rank_loader *loader, const yk_gated_ffn_spec *spec, yk_gated_ffn *out,
                            yk_err *err);
void yk_gated_ffn_destroy(yk_device *dev, yk_gated_ffn *ffn);

/* yk_gated_order_channels - where down's inputs are sorted by group (k_is_sorted), gate and up get n_orders, so that
 *   each matrix gives its channels in the order of its down's inputs. *order: malloc'ed, the caller's to free once both
 *   are brought; NULL where nothing is sorted. Errors: YK_E_NOMEM, and *order is to be freed then too. Thread: any. */
yk_status yk_gated_order_channels(yk_linear_spec *gate_up, const yk_linear_spec *down, int32_t **order, yk_err *err);

/* yk_gated_ffn_forward - step->x, whose norm is complete, to step->y, with scratch bytes as measured. Errors name the
 * operation. */
yk_status yk_gated_ffn_forward(const yk_gated_ffn *ffn, const yk_sublayer_step *step, void *scratch, yk_err *err);

#endif

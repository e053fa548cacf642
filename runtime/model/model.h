/* model.h - one rank's share of the model, and its forward over one step.
 *
 * A rank has the layers of its pipeline stage. The first stage embeds; each stage sends the residual rows to the next;
 * the last has the final norm and lm_head, and the first rank of the last stage samples.
 *
 * One forward serves every family, weight format, device and rank count: families differ in the numbers of their
 * configuration, formats and devices are hidden by the device table, rank counts differ in the ranges of shard.h. */
#ifndef YK_MODEL_MODEL_H
#define YK_MODEL_MODEL_H

#include "loader/adapter/adapter.h"
#include "loader/checkpoint.h"
#include "model/model_limits.h"
#include "model/rank_specs.h"
#include "model/step.h"
#include "model/step_profile.h"
#include "parallel/comm.h"

typedef struct yk_model yk_model;

/* yk_model_measure - the bytes that yk_model_create would take on such a device (limits->n_kv_blocks is ignored). Reads
 *   no weights.
 *   Errors: YK_E_INVAL for more stages than layers, and those of the checkpoint: a missing tensor, a wrong shape. */
yk_status yk_model_measure(const yk_checkpoint *checkpoint, const yk_model_limits *limits, const yk_model_device *dev,
                           const yk_rank_place *place, yk_model_memory *out, yk_err *err);

/* yk_model_create - load this rank's slices onto its device.
 *   The rank's place is the communicator's. dev and comm are not owned and must outlive the model; the checkpoint may
 *   be closed afterwards. on_bytes: called with the weight bytes just loaded, from this thread; may be NULL.
 *   Errors: YK_E_FORMAT (checkpoint), YK_E_CAPACITY (device memory). Nothing stays allocated. Thread: the rank's
 *   own. */
yk_status yk_model_create(const yk_checkpoint *checkpoint, const yk_model_limits *limits, yk_device *dev, yk_comm *comm,
                          void (*on_bytes)(void *user, int64_t n_bytes), void *user, yk_model **out, yk_err *err);
void yk_model_destroy(yk_model *model);

/* yk_model_connect - let a rank of the last stage write its share of the logits directly into the buffer of the rank
 *   that samples, if its device can reach that memory; otherwise logits are gathered. Connects the ranks' decode layers
 *   (decode_layers.h). Every rank calls this function once, between the creation of its model and its first step.
 *   Errors: those of the communicator. Thread: the rank's own. */
yk_status yk_model_connect(yk_model *model, yk_err *err);

/* yk_model_forward - run one step: all ranks call it with the same steps in the same order. The first rank of the last
 *   stage fills step->answer.
 *   Errors name rank, layer and operation. Thread: the rank's own. */
yk_status yk_model_forward(yk_model *model, const yk_step *step, yk_err *err);

/* yk_model_adapt - give the rank's layers a low-rank adapter as number 1 .. limits->n_adapters, replacing the adapter
 *   with that number. No step that has begun may use the number; after an error none may. Errors: those of
 *   yk_adapted_set. Thread: the rank's own, between steps. */
yk_status yk_model_adapt(yk_model *model, const yk_adapter *adapter, int32_t number, yk_err *err);

/* yk_model_profile - the profile of the last timed step (step->counts.is_timed). Thread: any, between steps. */
const yk_step_profile *yk_model_profile(const yk_model *model);

/* yk_model_read_expert_rows - rows that chose each expert since the model was created: [layers with experts, experts];
 *   the model of each stage's first rank fills those of its layers. Errors name the layer. Thread: the rank's own,
 *   between steps. */
yk_status yk_model_read_expert_rows(yk_model *model, int64_t *rows, yk_err *err);

/* yk_model_stop - a running forward fails before its next operation, and every later forward fails. The step and the
 *   memory that the step points at may be freed afterwards. Thread: any. */
void yk_model_stop(yk_model *model);

/* yk_model_describe - the operation that began last, such as "layer 3, attention". Thread: any. */
void yk_model_describe(const yk_model *model, char *text, size_t n_bytes);

/* yk_model_n_begun - operations that have begun in the current step; 0 between steps. All ranks begin the same
 *   operations in the same order, so a stalled rank has the smallest count. Thread: any. */
int yk_model_n_begun(const yk_model *model);

#endif

/* decode_graph.h - decode steps padded to buckets, so that one recorded graph serves many steps.
 *
 * A graph is recorded with fixed addresses and fixed counts of rows. A step in which every sequence brings one row is
 * therefore padded: to a bucket of rows, and to a bucket of blocks per sequence, which fixes where each array of its
 * block lies; step_arrays.h says with what. Padding rows belong to no sequence, write no K and V and are read by
 * nobody. One graph is kept a pair of buckets, and another for timed steps, which holds their timestamps. Owner: a
 * model. Thread: the rank's own. */
#ifndef YK_MODEL_DECODE_GRAPH_H
#define YK_MODEL_DECODE_GRAPH_H

#include "model/step.h"

typedef struct yk_decode_graphs yk_decode_graphs;

/* yk_decode_graphs_create - none recorded yet. max_rows: of the largest step; max_model_tokens: of the longest
 *   sequence. Errors: YK_E_NOMEM. */
yk_status yk_decode_graphs_create(int32_t max_rows, int32_t max_model_tokens, yk_decode_graphs **out, yk_err *err);
void yk_decode_graphs_destroy(yk_decode_graphs *graphs, yk_device *dev);

/* yk_decode_graphs_pad - the step padded to its buckets, valid until the next call: of its block only what every rank
 *   reads is there. NULL for a step that is no decode or larger than any bucket. *slot: where the graph of these
 *   buckets is kept, NULL while there is none. */
const yk_step *yk_decode_graphs_pad(yk_decode_graphs *graphs, const yk_step *step, yk_graph ***slot);

#endif

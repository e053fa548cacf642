/* decode_graph.h - decode steps padded to buckets, so that one recorded graph serves many steps.
 *
 * A graph is recorded with fixed addresses and fixed counts of rows. A step with one row per sequence is therefore
 * padded to a bucket of rows and to a bucket of blocks per sequence; the two fix the offset of each array in the step's
 * block. step_arrays.h defines the padding values. Padding rows belong to no sequence, write no K and V and no row
 * reads them. Each pair of buckets has a graph for plain steps, one for timed steps with their timestamps, and the same
 * for steps with adapters, whose linear layers have further kernels. Owner: a model. Thread: the rank's own. */
#ifndef YK_MODEL_DECODE_GRAPH_H
#define YK_MODEL_DECODE_GRAPH_H

#include "model/step.h"
#include "model/step_profile.h"

typedef struct yk_decode_graphs yk_decode_graphs;

typedef struct yk_decode_graph {
  yk_graph *graph;        /* NULL before it is recorded */
  yk_graph_stamps stamps; /* of a graph for timed steps */
} yk_decode_graph;

/* yk_decode_graphs_create - an empty set of graphs. max_rows: rows of the largest step; max_model_tokens: tokens of the
 *   longest sequence; has_adapters: rows may have adapters. Errors: YK_E_NOMEM. */
yk_status yk_decode_graphs_create(int32_t max_rows, int32_t max_model_tokens, bool has_adapters, yk_decode_graphs **out,
                                  yk_err *err);
void yk_decode_graphs_destroy(yk_decode_graphs *graphs, yk_device *dev);

/* yk_decode_graphs_pad - the step padded to its buckets, valid until the next call. The padded block holds only
 *   the arrays that every rank reads. NULL for a step that is not a decode step, has copies, or exceeds the largest
 *   bucket. *graph: that of these buckets. */
const yk_step *yk_decode_graphs_pad(yk_decode_graphs *graphs, const yk_step *step, yk_decode_graph **graph);

#endif

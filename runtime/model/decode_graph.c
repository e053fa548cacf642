#include "model/decode_graph.h"

#include <stdlib.h>

#include "base/checked.h"

/* Rows 1, 2, 4, then multiples of 8 to 64 and of 16 to 512; blocks 64 and its doublings. */
enum {
  N_SMALL = 3,
  EIGHTS_TO = 64,
  SIXTEENS_TO = 512,
  N_ROW_BUCKETS = N_SMALL + EIGHTS_TO / 8 + (SIXTEENS_TO - EIGHTS_TO) / 16,
  FIRST_BLOCKS = 64,
  N_BLOCK_BUCKETS = 16
};

/* Kinds of steps with separate graphs: flags that add up. */
enum { TIMED = 1, ADAPTED = 2, N_KINDS = 4 };

struct yk_decode_graphs {
  int32_t max_rows, max_blocks;
  yk_decode_graph graphs[N_KINDS][N_ROW_BUCKETS][N_BLOCK_BUCKETS];
  void *block; /* the padded step's arrays that every rank reads */
  yk_step step;
};

/* A bucket's index in the graph table and its size in rows or blocks. */
typedef struct bucket {
  int32_t index, size;
} bucket;

static bucket row_bucket(int32_t n_rows)
{
  int32_t n_eighths = (int32_t)yk_ceil_div_i64(n_rows, 8), n_sixteenths = (int32_t)yk_ceil_div_i64(n_rows, 16);
  if (n_rows <= 2) return (bucket){n_rows - 1, n_rows};
  if (n_rows <= 4) return (bucket){2, 4};
  if (n_rows <= EIGHTS_TO) return (bucket){N_SMALL + n_eighths - 1, 8 * n_eighths};
  return (bucket){N_SMALL + EIGHTS_TO / 8 + n_sixteenths - EIGHTS_TO / 16 - 1, 16 * n_sixteenths};
}

static bucket block_bucket(int32_t n_blocks)
{
  bucket b = {0, FIRST_BLOCKS};
  for (; b.size < n_blocks; b.index++) b.size *= 2;
  return b;
}

yk_status yk_decode_graphs_create(int32_t max_rows, int32_t max_model_tokens, bool has_adapters, yk_decode_graphs **out,
                                  yk_err *err)
{
  yk_decode_graphs *graphs = calloc(1, sizeof *graphs);
  if (!graphs) return yk_err_set(err, YK_E_NOMEM, "no memory for the graphs of decode steps");
  graphs->max_rows = (int32_t)yk_min_i64(max_rows, SIXTEENS_TO);
  const yk_device_limits limits = {
      .max_tokens = graphs->max_rows, .max_seqs = graphs->max_rows, .max_model_tokens = max_model_tokens};
  yk_step_counts most = yk_step_counts_max(&limits);
  most.n_copies = 0;
  most.has_adapters = has_adapters;
  graphs->max_blocks = most.block_table_stride;
  graphs->block = calloc(1, yk_step_layout_of(&most).rank_bytes);
  if (!graphs->block) {
    free(graphs);
    return yk_err_set(err, YK_E_NOMEM, "no memory for decode steps of %d rows", max_rows);
  }
  *out = graphs;
  return YK_OK;
}

static void destroy_graph(yk_decode_graph *graph, yk_device *dev)
{
  if (graph->graph) dev->ops->graph_destroy(dev, graph->graph);
  free(graph->stamps.operations);
}

void yk_decode_graphs_destroy(yk_decode_graphs *graphs, yk_device *dev)
{
  if (!graphs) return;
  for (int kind = 0; kind < N_KINDS; kind++)
    for (int i = 0; i < N_ROW_BUCKETS; i++)
      for (int j = 0; j < N_BLOCK_BUCKETS; j++) destroy_graph(&graphs->graphs[kind][i][j], dev);
  free(graphs->block);
  free(graphs);
}

/* Copy the step, with its arrays in the layout of n_rows rows and stride blocks. */
static void lay_out(yk_decode_graphs *graphs, const yk_step *step, int32_t n_rows, int32_t stride)
{
  yk_step *padded = &graphs->step;
  *padded = *step;
  padded->counts.n_tokens = padded->counts.n_seqs = n_rows;
  padded->counts.max_kv_tokens = stride * YK_KV_BLOCK_TOKENS;
  padded->counts.block_table_stride = stride;
  padded->layout = yk_step_layout_of(&padded->counts);
  padded->block = graphs->block;
  yk_step_pad(padded->block, &padded->counts, step->block, &step->counts);
}

const yk_step *yk_decode_graphs_pad(yk_decode_graphs *graphs, const yk_step *step, yk_decode_graph **graph)
{
  const yk_step_counts *c = &step->counts;
  if (c->max_rows_per_seq != 1 || c->n_tokens != c->n_seqs || c->n_seqs > graphs->max_rows || c->n_copies > 0)
    return NULL;
  bucket rows = row_bucket(c->n_seqs), blocks = block_bucket(c->block_table_stride);
  if (blocks.index >= N_BLOCK_BUCKETS) return NULL;
  lay_out(graphs, step, (int32_t)yk_min_i64(rows.size, graphs->max_rows),
          (int32_t)yk_min_i64(blocks.size, graphs->max_blocks));
  *graph = &graphs->graphs[(c->is_timed ? TIMED : 0) + (c->has_adapters ? ADAPTED : 0)][rows.index][blocks.index];
  return &graphs->step;
}

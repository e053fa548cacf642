#include "model/decode_graph.h"

#include <stdlib.h>
#include <string.h>

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

struct yk_decode_graphs {
  int32_t max_rows, max_blocks;
  yk_graph *graphs[2][N_ROW_BUCKETS][N_BLOCK_BUCKETS]; /* of plain steps, of timed ones */
  int32_t *words;                                      /* of the padded step */
  yk_step step;
};

/* A bucket's place in its array and its size. */
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

yk_status yk_decode_graphs_create(int32_t max_rows, int32_t max_blocks, yk_decode_graphs **out, yk_err *err)
{
  yk_decode_graphs *graphs = calloc(1, sizeof *graphs);
  if (!graphs) return yk_err_set(err, YK_E_NOMEM, "no memory for the graphs of decode steps");
  graphs->max_rows = (int32_t)yk_min_i64(max_rows, SIXTEENS_TO);
  graphs->max_blocks = max_blocks;
  graphs->words = calloc(yk_step_words_max(graphs->max_rows, graphs->max_rows, max_blocks), sizeof *graphs->words);
  if (!graphs->words) {
    free(graphs);
    return yk_err_set(err, YK_E_NOMEM, "no memory for decode steps of %d rows", max_rows);
  }
  *out = graphs;
  return YK_OK;
}

void yk_decode_graphs_destroy(yk_decode_graphs *graphs, yk_device *dev)
{
  if (!graphs) return;
  for (int timed = 0; timed < 2; timed++)
    for (int i = 0; i < N_ROW_BUCKETS; i++)
      for (int j = 0; j < N_BLOCK_BUCKETS; j++)
        if (graphs->graphs[timed][i][j]) dev->ops->graph_destroy(dev, graphs->graphs[timed][i][j]);
  free(graphs->words);
  free(graphs);
}

/* n values at to, then padding up to size. Returns what follows. */
static int32_t *put(int32_t *to, const int32_t *values, int32_t n, int32_t padding, int32_t size)
{
  memcpy(to, values, (size_t)n * sizeof *to);
  for (int32_t i = n; i < size; i++) to[i] = padding;
  return to + size;
}

static int32_t *put_tables(int32_t *to, const yk_batch *from, int32_t n_rows, int32_t stride)
{
  for (int32_t seq = 0; seq < from->n_seqs; seq++)
    memcpy(to + (size_t)seq * (size_t)stride, from->block_tables + (size_t)seq * (size_t)from->block_table_stride,
           (size_t)from->block_table_stride * sizeof *to); /* the rest of a row is never read */
  return to + (size_t)n_rows * (size_t)stride;
}

/* The arrays of `from` in the layout of n_rows rows and stride blocks. */
static void lay_out(yk_decode_graphs *graphs, const yk_step *step, int32_t n_rows, int32_t stride)
{
  const yk_batch *from = &step->batch;
  int32_t n = from->n_seqs, *at = graphs->words;
  yk_batch batch = {.n_tokens = n_rows,
                    .n_seqs = n_rows,
                    .max_rows_per_seq = 1,
                    .max_kv_tokens = stride * YK_KV_BLOCK_TOKENS,
                    .block_table_stride = stride};
  batch.token_ids = at;
  batch.positions = at = put(at, from->token_ids, n, 0, n_rows);
  batch.kv_slots = at = put(at, from->positions, n, 0, n_rows);
  batch.seq_of_row = at = put(at, from->kv_slots, n, -1, n_rows);
  batch.row_starts = at = put(at, from->seq_of_row, n, n, n_rows);
  batch.kv_tokens = at = put(at, from->row_starts, n + 1, n, n_rows + 1);
  batch.block_tables = at = put(at, from->kv_tokens, n, 0, n_rows);
  at = put_tables(at, from, n_rows, stride);
  graphs->step = *step;
  graphs->step.batch = batch;
  graphs->step.words = graphs->words;
  graphs->step.wanted_rows = at;
  at = put(at, step->wanted_rows, step->n_wanted, 0, step->n_wanted);
  graphs->step.n_words = (size_t)(at - graphs->words);
}

const yk_step *yk_decode_graphs_pad(yk_decode_graphs *graphs, const yk_step *step, yk_graph ***slot)
{
  const yk_batch *batch = &step->batch;
  if (batch->max_rows_per_seq != 1 || batch->n_tokens != batch->n_seqs || batch->n_seqs > graphs->max_rows) return NULL;
  bucket rows = row_bucket(batch->n_seqs), blocks = block_bucket(batch->block_table_stride);
  if (blocks.index >= N_BLOCK_BUCKETS) return NULL;
  lay_out(graphs, step, (int32_t)yk_min_i64(rows.size, graphs->max_rows),
          (int32_t)yk_min_i64(blocks.size, graphs->max_blocks));
  *slot = &graphs->graphs[step->is_timed][rows.index][blocks.index];
  return &graphs->step;
}

/* device.h - the interface of a compute device, as a table of operations.
 *
 * A device belongs to one rank and is used by that rank's thread alone. Operations on device memory are asynchronous on
 * the device's one stream, in call order; download and sync wait for it. The operations are fused to the granularity of
 * the transformer layer in runtime/model/layer.c; a device without a fused kernel composes the operation from several.
 *
 * Memory: device pointers come from alloc and are opaque to the caller. dtype is the activation type chosen when the
 * device was created; "act" below means that type. Arithmetic is float32; values stored between operations are rounded
 * to dtype once. All matrices are row-major and contiguous unless a stride is given.
 *
 * Errors: YK_E_DEVICE when an operation could not be launched or an earlier one failed, YK_E_CAPACITY when memory is
 * insufficient, YK_E_UNSUPPORTED for a case without a kernel. The caller guarantees the shapes: the model fixes them
 * when it is built, so operations do not check them at every step. */
#ifndef YK_KERNELS_DEVICE_H
#define YK_KERNELS_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cpu_pool.h"
#include "base/dtype.h"
#include "base/status.h"
#include "kernels/abilities.h"
#include "kernels/awq_quantize.h"
#include "kernels/decode_layers.h"
#include "kernels/gated_delta.h"
#include "kernels/kv_cache.h"
#include "kernels/latent.h"
#include "kernels/linear.h"
#include "kernels/mamba.h"
#include "kernels/mixture.h"
#include "kernels/row_norms.h"
#include "kernels/score_growth.h"
#include "yoke/limits.h"
#include "yoke/logit_bias.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { YK_DEVICE_ALIGNMENT_BYTES = 256 };

typedef struct yk_device yk_device;
typedef struct yk_graph yk_graph; /* recording of operations, defined by the device */

/* Where a sequence's recurrent states come from at its first row of a step: yk_batch.state_loads. */
enum {
  YK_STATE_KEEP = -1, /* the states in the sequence's slot, as its previous step left them */
  YK_STATE_ZERO = -2  /* zeros: the row is the first of the sequence */
};

/* States are saved after multiples of YK_STATE_SAVE_TOKENS tokens of a sequence: see yk_batch.state_saves. A device may
 * compute the rows of a sequence in chunks, whose results round differently from those of single rows. Chunks end at
 * these multiples and at the last row of the step; a step with fewer rows of the sequence than YK_STATE_CHUNK_ROWS has
 * none. Results then depend on where steps end, unless steps end at these multiples with at least YK_STATE_CHUNK_ROWS
 * rows on either side. */
enum { YK_STATE_SAVE_TOKENS = 64, YK_STATE_CHUNK_ROWS = 16 };

/* The rows of one step as the device receives them. The arrays are device memory, written by the rank before the
 * forward. Rows of one sequence are contiguous and in order; a sequence has one row (decode) or many (prefill, or a
 * chunk of it). */
typedef struct yk_batch {
  int32_t n_tokens;           /* rows of this step */
  int32_t n_seqs;             /* sequences that have rows in this step */
  int32_t max_rows_per_seq;   /* longest run of rows of one sequence: 1 means a pure decode step */
  int32_t max_kv_tokens;      /* longest kv_tokens of the step */
  int32_t block_table_stride; /* blocks per row of block_table */
  const int32_t *token_ids;   /* [n_tokens] */
  const int32_t *positions;   /* [n_tokens] position in the sequence, from 0 */
  /* [n_tokens] slot to which the row's K and V are written: block * YK_KV_BLOCK_TOKENS + offset. In recorded steps -1
   * marks a padding row, which belongs to no sequence and writes nothing. */
  const int32_t *kv_slots;
  const int32_t *seq_of_row; /* [n_tokens] index of the row's sequence */
  const int32_t *row_starts; /* [n_seqs + 1] first row of each sequence */
  const int32_t *kv_tokens;  /* [n_seqs] tokens in the cache once this step's rows are written */
  /* [n_seqs] each sequence's row, below max_seqs, in tables that persist between steps; the slot of a batch row is
   * seq_slots[seq_of_row[row]]. -1: a padding sequence. */
  const int32_t *seq_slots;
  /* [n_seqs] YK_STATE_KEEP, YK_STATE_ZERO, or the entry of the table of snapshots that a sequence begins with.
   * No sequence saves into that entry in the same step. */
  const int32_t *state_loads;
  /* [n_seqs] entry to which a state of the sequence is copied, or -1; and the number of the sequence's rows in the step
   * after which that state is taken, at least 1. The sequence then has a multiple of YK_STATE_SAVE_TOKENS tokens. */
  const int32_t *state_saves;
  const int32_t *state_save_rows;
  const int32_t *block_tables; /* [n_seqs, block_table_stride] physical block of each logical block */
  const int32_t *adapters;     /* [n_tokens] as in yk_linear_args, or NULL: no row has an adapter */
} yk_batch;

/* Whether the rows of a fused projection have columns of keys and of values. */
typedef enum yk_kv_columns {
  YK_KV_COLUMNS_BOTH,
  YK_KV_COLUMNS_KEYS, /* the values are the keys before norm and rotation */
  YK_KV_COLUMNS_NONE  /* the layer writes no cache and reads the cache of another layer */
} yk_kv_columns;

/* Layout of this rank's heads. The rank's query heads are contiguous; local query head h reads KV head (q_head_first +
 * h) / q_per_kv - kv_head_first. This covers ranks whose range starts or ends inside a KV group. */
typedef struct yk_head_layout {
  int32_t n_q_heads, n_kv_heads; /* local */
  int32_t head_dim;
  int32_t q_per_kv; /* query heads per KV head, of the whole model */
  int32_t q_head_first, kv_head_first;
  bool has_gates; /* rows end with a gate for each query head */
  yk_kv_columns kv_columns;
} yk_head_layout;

/* yk_head_layout_kv_columns - elements of the keys and values in a row. Thread: any. */
static inline int64_t yk_head_layout_kv_columns(const yk_head_layout *heads)
{
  const int32_t n_parts = heads->kv_columns == YK_KV_COLUMNS_BOTH ? 2 : heads->kv_columns == YK_KV_COLUMNS_KEYS ? 1 : 0;
  return (int64_t)n_parts * heads->n_kv_heads * heads->head_dim;
}

/* yk_head_layout_width - elements of a row: q heads; k heads and v heads as kv_columns specifies; gates if has_gates.
 * Thread: any. */
static inline int64_t yk_head_layout_width(const yk_head_layout *heads)
{
  return (heads->has_gates ? 2 : 1) * (int64_t)heads->n_q_heads * heads->head_dim + yk_head_layout_kv_columns(heads);
}

/* embed: y[row] = table[token_ids[row] - first_id] * scale, or zeros if the table does not hold the id.
 *   table act [n_ids, hidden] holds the ids first_id .. first_id + n_ids - 1; y act [n_tokens, hidden];
 *   cleared act [n_tokens, hidden] or NULL: set to zeros, as the accumulator of a sum of y over ranks. */
typedef struct yk_embed_args {
  void *y, *cleared;
  const void *table;
  const int32_t *token_ids;
  int32_t first_id, n_ids;
  int32_t n_tokens, hidden;
  float scale;
} yk_embed_args;

/* rms_norm: y = round(x * rsqrt(mean(x^2) + eps)) * w.   x act [n_rows, hidden], rows x_stride elements apart; y act
 * [n_rows, hidden], w act [hidden]; y may be x if their rows coincide. */
typedef struct yk_rms_norm_args {
  void *y;
  const void *x, *w;
  int64_t x_stride;
  int32_t n_rows, hidden;
  float eps;
} yk_rms_norm_args;

/* add_norm: residual += alpha * (partials[0] + ... + partials[n_partials-1]), added in that order in float32 and
 * rounded once; then y = rms_norm(residual, w) unless w is NULL. With result_w the sum is rounded and becomes
 * rms_norm(sum, result_w) before it is added; y, which is then not NULL, is overwritten.
 * With gain other than 0, the new residual is multiplied by gain before it is rounded.
 *   partials, residual, y act [n_rows, hidden]. Partials may be other ranks' memory; residual is this rank's own, so
 * every rank computes the same bits. combine: the combination of experts, of n_rows rows, whose y is partials[0];
 * add_norm runs it first and may leave that y unwritten. NULL: partials[0] is complete. */
typedef struct yk_add_norm_args {
  void *y, *residual;
  const void *partials[YK_MAX_RANKS];
  int32_t n_partials;
  const void *result_w, *w;
  int32_t n_rows, hidden;
  float alpha, gain, eps;
  const yk_combine_args *combine;
} yk_add_norm_args;

/* qk_rope_kv: on the fused projection qkv act [n_tokens, yk_head_layout_width] (q heads, k heads, v heads, gates):
 * per-head RMSNorm of q and k if weights are given, then rotary embedding of q (in place) and k; with norms_follow the
 * rotation precedes the norms. With norms_values, per-head RMSNorm of v, without weights. Then K and V, rounded to act,
 * are written to the cache at kv_slots in the cache's format (kv_cache.h). With YK_KV_COLUMNS_NONE only q is computed,
 * and the cache is not written.
 *   rope: f32 [n_positions, 2, head_dim/2], cos then sin; first half rotates with second half. NULL: q and k
 *   do not rotate. */
typedef struct yk_qk_rope_kv_args {
  void *qkv;
  yk_head_layout heads;
  const void *q_norm_w, *k_norm_w; /* act [head_dim] or NULL */
  bool norms_follow;
  bool norms_values;
  float norm_eps;
  const float *rope;
  yk_kv_layer kv;
  const yk_batch *batch;
} yk_qk_rope_kv_args;

/* attention: y[row, h] = softmax(scale * growth * q k^T, causal, window) v over the row's sequence in the paged cache.
 * With sinks the softmax has one more score, without a value. Rows of this step are also read from the cache: an 8-bit
 * cache gives their quantised values.
 *   qkv as above (only q and gates are read); y act [n_tokens, n_q * head_dim]. With gates y is multiplied by their
 *   sigmoid before it is rounded.
 *   The row at position p attends to cache positions max(0, p - window_tokens + 1) .. p; window_tokens 0 means no
 *   window. With window_is_chunk it attends to the positions p - p % window_tokens .. p instead: itself and the earlier
 *   tokens of its chunk of window_tokens positions. Slots after a sequence's last token may have any content, NaNs too,
 *   and affect no row. A block that lies wholly before the window may still be loaded: its entry of the block table
 *   must name a block of finite values, as any other entry of the sequence. */
typedef struct yk_attention_args {
  void *y;
  const void *qkv;
  yk_head_layout heads;
  yk_kv_layer kv;
  float scale;
  yk_score_growth growth;
  int32_t window_tokens;
  bool window_is_chunk; /* requires window_tokens above 0 */
  /* device [n_q_heads] a score of each head for no token, neither scaled nor in a window. NULL: none. */
  const float *sinks;
  /* Each row has the same bits for any other rows of the step, and for any division of the sequence's rows into steps.
   * Not for 8-bit caches on devices with needs_kv_staging. */
  bool is_invariant;
  const yk_batch *batch;
} yk_attention_args;

/* gather_rows: y[i] = x[rows[i]].   x act [*, hidden], y act [n_rows, hidden], rows device i32 [n_rows] */
typedef struct yk_gather_rows_args {
  void *y;
  const void *x;
  const int32_t *rows;
  int32_t n_rows, hidden;
} yk_gather_rows_args;

/* How one row is sampled; order and definitions are those of vLLM. All steps work on float32 logits:
 * mask -> biases -> repetition (l > 0 ? l / r : l * r, ids of prompt and output), frequency (l -= f * count), presence
 * (l -= p; both of output ids only), each finite result kept finite (at most FLT_MAX) -> greedy if temperature < 1e-5,
 * else temperature -> min_p -> top_k (ties of the k-th stay) -> top_p -> draw. A zero-initialised row is greedy with
 * every other step off; top_p alone must be set. */
typedef struct yk_sample_row {
  float temperature; /* >= 0 */
  float top_p;       /* (0, 1]; 1 keeps all */
  float min_p;       /* [0, 1]; 0 keeps all */
  int32_t top_k;     /* <= 0 keeps all */
  uint64_t seed;
  uint32_t stream;        /* sample index within the request */
  uint32_t position;      /* output position: the draw is yk_rng_uniform(seed, stream, position) */
  int32_t n_top_logprobs; /* top alternatives to report, 0 .. YK_MAX_TOP_LOGPROBS */
  bool want_logprob;
  bool is_forced; /* draw nothing: report forced_id and its log-probability (prompt log-probabilities, scoring) */
  int32_t forced_id;
  bool has_penalties;                                            /* the chosen id is then also counted in the slot */
  float repetition_penalty, frequency_penalty, presence_penalty; /* 1, 0, 0: off */
  int32_t penalty_slot; /* row of the device's table of counts: see penalties_set */
  int32_t n_biases;     /* number of biases; their ids are distinct */
  int64_t first_bias;   /* index of the first bias in yk_sample_args.biases */
  bool has_mask;        /* only ids whose bit is set in the mask may be drawn */
  int64_t first_mask;   /* index of the mask's first word in yk_sample_args.masks */
  bool returns_logits;  /* the raw logits are copied to this row of yk_sample_args.logits_out */
  int32_t logits_row;
} yk_sample_row;

/* Whether the row's result is just the id of its largest raw logit. */
static inline bool yk_sample_row_is_plain(const yk_sample_row *row)
{
  return row->temperature < 1e-5f && row->n_top_logprobs == 0 && !row->want_logprob && !row->is_forced &&
         !row->has_penalties && row->n_biases == 0 && !row->has_mask && !row->returns_logits;
}

enum { YK_MAX_TOP_LOGPROBS = 20 };

/* Result of sampling a row. A failure concerns that row alone: the other rows of the call are unaffected. */
typedef enum yk_row_state {
  YK_ROW_SAMPLED,
  YK_ROW_NAN,      /* a raw logit is a NaN */
  YK_ROW_INFINITE, /* a raw logit is +infinity, or every one is -infinity */
  YK_ROW_BANNED    /* the raw logits are valid, but mask and biases ban every id */
} yk_row_state;

typedef struct yk_sampled {
  yk_row_state state;
  int32_t token_id; /* -1 unless state is YK_ROW_SAMPLED */
  float logprob;    /* log-probability under the raw logits; 0 unless requested */
  int32_t n_top;
  int32_t top_ids[YK_MAX_TOP_LOGPROBS]; /* by falling log-probability, lower id first on ties */
  float top_logprobs[YK_MAX_TOP_LOGPROBS];
} yk_sampled;

/* yk_mask_words - words of a mask over n_ids ids. */
static inline int64_t yk_mask_words(int32_t n_ids)
{
  return ((int64_t)n_ids + 31) / 32;
}

/* sample: one token per row. Rank 0 only.
 *   logits: f32 device [n_shards][n_rows][shard_stride]; shard s holds vocabulary ids shard_first[s] ..
 *   shard_first[s + 1] - 1 in its first columns; the rest is padding, which is never read. Ties: lower id first.
 *   rows: host [n_rows]; biases, masks, logits_out: host, indexed by the rows; logits_out is [*, all ids].
 *   out: host [n_rows], valid on return (the call waits for its result).
 *   Log-probabilities are of the raw logits, before mask, biases and penalties.
 *   A row that cannot be sampled returns the reason in its state; its token is not counted and its logits are not
 *   copied. */
typedef struct yk_sample_args {
  const float *logits;
  int32_t n_rows, n_shards, shard_stride;
  const int32_t *shard_first; /* host [n_shards + 1] */
  const yk_sample_row *rows;
  const yk_logit_bias *biases; /* may be NULL, as masks and logits_out, if no row uses it */
  const uint32_t *masks;       /* a mask is yk_mask_words words: bit id % 32 of word id / 32 is the id's */
  float *logits_out;
  yk_sampled *out;
} yk_sample_args;

/* best_logits: the largest logit of each row of a vocabulary shard; among equal logits the one with the lower id. This
 * is all that greedy rows need: see yk_sample_row_is_plain.
 *   logits: f32 device [n_rows][stride]; the first n_ids columns are ids first_id and following.
 *   out: memory from host_alloc [n_rows], valid once the stream has reached this point. value is NaN if any logit is
 *   NaN; id is meaningful only if value is finite. */
typedef struct yk_best_logit {
  float value; /* -infinity: the shard has no larger logit, or no ids */
  int32_t id;
} yk_best_logit;

typedef struct yk_best_logits_args {
  const float *logits;
  int32_t n_rows, n_ids, first_id;
  int64_t stride;
  yk_best_logit *out;
} yk_best_logits_args;

/* layer_inputs: the per-layer embeddings of Gemma 4 (Gemma4TextModel of transformers), for each row and layer
 *   y = (rms_norm(projected_scale * projected, norm_w) + embed_scale * table[token id]) / sqrt(2)
 * rounded once. The norm is over all `size` elements; y and table have the elements first .. first + width - 1 alone.
 *   projected act [n_tokens, n_layers, size]; norm_w act [size]; table act [vocab, n_layers, width]; y act [n_tokens,
 *   n_layers, width]. */
typedef struct yk_layer_inputs_args {
  void *y;
  const void *projected, *norm_w, *table;
  const int32_t *token_ids; /* device [n_tokens], rows of table */
  int32_t n_tokens, n_layers, size, first, width;
  float projected_scale, embed_scale, eps;
} yk_layer_inputs_args;

/* multiply: x *= factors, elementwise, each product rounded once.
 *   x act [n_rows, width]; factors act [n_rows, stride], of which the first width elements of each row are read. */
typedef struct yk_multiply_args {
  void *x;
  const void *factors;
  int64_t stride;
  int32_t n_rows, width;
} yk_multiply_args;

/* cap_logits: logits = cap * tanh(logits / cap) in the first n columns of each row; infinite and NaN logits stay.
 *   logits f32 device [n_rows, stride]; cap above 0. */
typedef struct yk_cap_logits_args {
  float *logits;
  int32_t n_rows, n;
  int64_t stride;
  float cap;
} yk_cap_logits_args;

/* round_sums: y = sums, rounded.   sums f32 device [count]; y act [count] */
typedef struct yk_round_sums_args {
  void *y;
  const float *sums;
  int64_t count;
} yk_round_sums_args;

typedef struct yk_device_ops {
  const char *name;                     /* "cpu", "cuda" */
  const yk_device_abilities *abilities; /* building a model of other sizes fails */
  bool is_host; /* device memory is host memory, so data in it needs neither upload nor download */
  void (*destroy)(yk_device *dev);

  /* Memory. alloc returns zeroed memory aligned to YK_DEVICE_ALIGNMENT_BYTES. upload may return before the copy has
   * happened, but src may be reused at once; download returns when dst is filled. free waits for the stream. */
  yk_status (*alloc)(yk_device *dev, size_t n_bytes, void **out, yk_err *err);
  void (*free)(yk_device *dev, void *ptr);
  yk_status (*upload)(yk_device *dev, void *dst, const void *src, size_t n_bytes, yk_err *err);
  /* copy: within device memory, in stream order; the places do not overlap. */
  yk_status (*copy)(yk_device *dev, void *dst, const void *src, size_t n_bytes, yk_err *err);
  yk_status (*download)(yk_device *dev, void *dst, const void *src, size_t n_bytes, yk_err *err);
  yk_status (*sync)(yk_device *dev, yk_err *err);

  /* Host memory for the fastest uploads and downloads (pinned, on a GPU). host_free takes NULL; thread: any. */
  yk_status (*host_alloc)(yk_device *dev, size_t n_bytes, void **out, yk_err *err);
  void (*host_free)(yk_device *dev, void *ptr);

  /* settle: after a failure, with the communicators aborted: returns once no operation still runs, however long that
   * takes. NULL if every operation has ended when its call returns. */
  void (*settle)(yk_device *dev);

  /* Linear layers: see linear.h. */
  yk_status (*linear_create)(yk_device *dev, const yk_linear_spec *spec, yk_linear **out, yk_err *err);
  void (*linear_destroy)(yk_device *dev, yk_linear *linear);
  yk_status (*linear_forward)(yk_device *dev, const yk_linear *linear, const yk_linear_args *args, yk_err *err);
  /* linear_fuses: whether the device norms x (norm_w) or adds to y (adds) in the kernel of the layer, for these
   * arguments, whose data is not read. Otherwise the caller runs rms_norm before, and add_norm after, the forward.
   * NULL: never. */
  bool (*linear_fuses)(yk_device *dev, const yk_linear *linear, const yk_linear_args *args);
  int64_t (*linear_bytes)(const yk_linear_spec *spec); /* device bytes that linear_create allocates */
  /* linear_keeps: whether linear_create takes part i of a layer in its weight's format, and with an order of x if the
   * weight has act order. Otherwise the caller passes the part as 16-bit floats. Reads no data. */
  bool (*linear_keeps)(const yk_linear_spec *spec, int i);
  /* linear_divides: whether linear_create takes part i, in the form in which the caller passes the part, in a layer
   * with k_slices. NULL: every part. Reads no data. */
  bool (*linear_divides)(const yk_linear_spec *spec, int i);
  /* linear_shared_bytes: device bytes that linear_create allocates once for all layers, if this layer needs the most of
   * them; not part of linear_bytes. NULL: 0. */
  int64_t (*linear_shared_bytes)(const yk_linear_spec *spec);
  /* The steps of a row-parallel layer with quantised inputs: see yk_linear_sums_args. All three are NULL on a device
   * that keeps no such layers. */
  yk_status (*linear_maxima)(yk_device *dev, const yk_linear *linear, const yk_linear_sums_args *args, yk_err *err);
  yk_status (*linear_sums)(yk_device *dev, const yk_linear *linear, const yk_linear_sums_args *args, yk_err *err);
  yk_status (*linear_scale)(yk_device *dev, const yk_linear *linear, const yk_linear_sums_args *args, yk_err *err);

  /* linear_adapt: sets adapter number adapter, 1 .. n_adapters, of a layer: parts [the layer's parts]. No forward that
   * was begun before may use that adapter. */
  yk_status (*linear_adapt)(yk_device *dev, yk_linear *linear, int32_t adapter, const yk_linear_adapter *parts,
                            yk_err *err);

  /* Mixtures of experts: see mixture.h. Either all are set or all are NULL; without them, building a model with experts
   * fails. mixture_scratch_bytes: takes the layers' specifications, NULL on a rank without experts; reads no data. */
  yk_status (*mixture_create)(yk_device *dev, const yk_mixture_spec *spec, yk_mixture **out, yk_err *err);
  void (*mixture_destroy)(yk_device *dev, yk_mixture *mixture);
  int64_t (*mixture_scratch_bytes)(const yk_mixture_sizes *sizes, const yk_linear_spec *gate_up,
                                   const yk_linear_spec *down);
  yk_status (*mixture_forward)(yk_device *dev, const yk_mixture *mixture, const yk_mixture_args *args, yk_err *err);
  /* partial_complete: completes the rows of a partial result in either state. */
  yk_status (*partial_complete)(yk_device *dev, const yk_partial *partial, yk_err *err);

  /* Latent attention: see latent.h. NULL: building a model with latent attention fails. */
  yk_status (*latent_attention)(yk_device *dev, const yk_latent_attention_args *args, yk_err *err);
  int64_t (*latent_scratch_bytes)(const yk_latent_layout *layout, int32_t max_tokens); /* NULL: needs no scratch */

  /* Gated delta nets: see gated_delta.h. NULL: building a model with such layers fails. */
  yk_status (*gated_delta)(yk_device *dev, const yk_gated_delta_args *args, yk_err *err);

  /* Mamba2: see mamba.h. */
  yk_status (*mamba)(yk_device *dev, const yk_mamba_args *args, yk_err *err);

  /* All layers of a dense model as one operation, for a decode step of one row: see decode_layers.h. Either all are set
   * or all are NULL; without them, and for other steps, the layer operations below run one by one.
   * create: *out is NULL if the device has no kernel for these layers, which is not an error. destroy takes NULL, and
   * waits for the stream.
   * takes: whether run takes a step. Reads the counts of the batch and whether adapters is NULL, but no device data:
   * the answer for a recorded step holds for every step that the graph repeats.
   * run: only of a batch that takes has accepted. May be recorded in a graph.
   * exchange: this rank's memory of yk_decode_peers, an allocation, and the traits, which must be equal on all ranks of
   * the group. connect: once, before the first run; until then takes is false with several ranks. The memories are
   * used until every rank's last run has ended. */
  yk_status (*decode_layers_create)(yk_device *dev, const yk_decode_layers_spec *spec, yk_decode_layers **out,
                                    yk_err *err);
  void *(*decode_layers_exchange)(yk_device *dev, yk_decode_layers *layers, int32_t traits[YK_DECODE_N_TRAITS]);
  void (*decode_layers_connect)(yk_device *dev, yk_decode_layers *layers, const yk_decode_peers *peers);
  bool (*decode_layers_takes)(yk_device *dev, const yk_decode_layers *layers, const yk_batch *batch);
  yk_status (*decode_layers_run)(yk_device *dev, const yk_decode_layers *layers, const yk_decode_layers_args *args,
                                 yk_err *err);
  void (*decode_layers_destroy)(yk_device *dev, yk_decode_layers *layers);

  /* Layer operations. */
  yk_status (*embed)(yk_device *dev, const yk_embed_args *args, yk_err *err);
  yk_status (*rms_norm)(yk_device *dev, const yk_rms_norm_args *args, yk_err *err);
  yk_status (*add_norm)(yk_device *dev, const yk_add_norm_args *args, yk_err *err);
  yk_status (*qk_rope_kv)(yk_device *dev, const yk_qk_rope_kv_args *args, yk_err *err);
  yk_status (*attention)(yk_device *dev, const yk_attention_args *args, yk_err *err);
  /* Norms of whole rows of q and k, before qk_rope_kv: see row_norms.h. */
  yk_status (*row_squares)(yk_device *dev, const yk_row_norms_args *args, yk_err *err);
  yk_status (*row_norms)(yk_device *dev, const yk_row_norms_args *args, yk_err *err);
  bool needs_kv_staging; /* for 8-bit caches: see yk_kv_layer */
  yk_status (*gather_rows)(yk_device *dev, const yk_gather_rows_args *args, yk_err *err);
  yk_status (*round_sums)(yk_device *dev, const yk_round_sums_args *args, yk_err *err);
  yk_status (*layer_inputs)(yk_device *dev, const yk_layer_inputs_args *args, yk_err *err);
  yk_status (*multiply)(yk_device *dev, const yk_multiply_args *args, yk_err *err);
  yk_status (*cap_logits)(yk_device *dev, const yk_cap_logits_args *args, yk_err *err);
  yk_status (*sample)(yk_device *dev, const yk_sample_args *args, yk_err *err);
  yk_status (*best_logits)(yk_device *dev, const yk_best_logits_args *args, yk_err *err);

  /* penalties_set: assigns a slot of the table of counts (limits.max_seqs slots, vocab ids each) to a sequence: marks
   * the ids of tokens[0 .. n_prompt - 1] as present in the prompt and counts the other ids as output. tokens: host. */
  yk_status (*penalties_set)(yk_device *dev, int32_t slot, const int32_t *tokens, int32_t n_prompt, int32_t n_tokens,
                             yk_err *err);

  /* timestamp: writes the device's clock in nanoseconds to *at (device memory) once all preceding operations of the
   * stream have ended. Clocks of different devices need not agree; the CPU device uses yk_clock_now_ns. */
  yk_status (*timestamp)(yk_device *dev, int64_t *at, yk_err *err);

  /* Quantising: see awq_quantize.h. All four are NULL on a device that does not quantise. */
  yk_status (*awq_quantize)(yk_device *dev, const yk_awq_quantize_args *args, yk_err *err);
  yk_status (*awq_observe)(yk_device *dev, const yk_awq_observe_args *args, yk_err *err);
  yk_status (*awq_loss)(yk_device *dev, const yk_awq_loss_args *args, yk_err *err);
  yk_status (*awq_limits)(yk_device *dev, const yk_awq_limits_args *args, yk_err *err);

  /* Graphs: all NULL on a device without graphs. Between begin and end, operations (a communicator's too) are recorded
   * instead of run; graph_run then repeats all of them, on the same addresses, at the cost of one launch. An operation
   * must have run once before it is recorded, and may neither wait for the stream (sync, download, sample) nor
   * allocate. end always ends the recording; out NULL discards it. destroy waits for the stream. */
  yk_status (*graph_begin)(yk_device *dev, yk_err *err);
  yk_status (*graph_end)(yk_device *dev, yk_graph **out, yk_err *err);
  yk_status (*graph_run)(yk_device *dev, const yk_graph *graph, yk_err *err);
  void (*graph_destroy)(yk_device *dev, yk_graph *graph);
} yk_device_ops;

/* First member of each device; the device's own state follows. */
struct yk_device {
  const yk_device_ops *ops;
  yk_dtype dtype; /* activations */
  /* Host threads for this device's work on the host: the operations, if the device is the CPU; otherwise uploads while
   * weights are loaded. NULL: the caller's thread does that work alone. */
  yk_cpu_pool *pool;
};

/* yk_normed_add_norm - the add_norm that completes normed; its arguments point into normed. Thread: any. */
yk_add_norm_args yk_normed_add_norm(const yk_normed *normed);

/* Capacity of a device: the workspace is sized for these when the device is created. */
typedef struct yk_device_limits {
  int32_t max_tokens;       /* rows of one step */
  int32_t max_seqs;         /* sequences of one step, and rows sampled */
  int32_t max_model_tokens; /* longest sequence */
  int32_t vocab;
  int32_t n_adapters;   /* low-rank adapters that rows may have; 0: none */
  int32_t adapter_rank; /* their largest rank */
} yk_device_limits;

/* yk_cpu_device_create - a device on the host's cores.
 *   n_threads: threads that an operation may use, the caller's included, at least 1. Results do not depend on
 *   n_threads.
 *   Errors: YK_E_NOMEM, YK_E_INVAL. Thread: any; from then on one thread at a time. */
yk_status yk_cpu_device_create(yk_dtype dtype, int n_threads, const yk_device_limits *limits, yk_device **out,
                               yk_err *err);

#ifdef __cplusplus
}
#endif
#endif

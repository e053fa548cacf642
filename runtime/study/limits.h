/* limits.h - the shortest time that a machine can take for a point, and what it is bound by.
 *
 * An operation takes at least max(bytes / memory bandwidth, flops / GEMM rate) (the roofline of S. Williams et al.,
 * CACM 52, 2009) with both halves measured on the machine itself; N ranks take an N-th of that each. All-reduces are
 * added as measured alone, since each waits for the operation before it and holds up the one behind it. Operations of a
 * layer: the products qkv, o, gate and up, down, and attention over the KV of all sequences; of a step: lm_head. Of a
 * mixture the experts that rows choose are read once each, as many different ones as n random choices of k of E give in
 * the mean, E (1 - (1 - k / E)^n); each row is multiplied with its k; router and shared expert are products. Where
 * whole experts are dealt, a layer's experts take as long as the rank with the most of them, ceil(E / N) of E: of bytes
 * and choices it has that share in the mean, and more where choices are uneven. Of latent attention q_a, kv_a and the
 * latent vectors count on every rank, kv_b once a row; a pair of a row and a position takes nope_dim + rope_dim +
 * value_dim products a head in a prompt and 2 kv_rank + rope_dim in a decode. Norms, rotary embedding and sampling move
 * few bytes and count as nothing, so the limit stays a lower bound.
 *   decode step: one row a sequence; attention at the mean context, input + output / 2.
 *   prefill: all prompts' rows, a shared prefix once, weights read once; attention flops 2 heads head_dim input^2 a
 *   sequence (causal).
 * A run of a batch takes its prefill and output - 1 decode steps: the prefill gives the first token.
 *
 * Where requests come and go (clients, a request rate) steps mix prompts with decodes. With n requests running, as many
 * as really were, a step gives n tokens at most, since each request takes part in at least `output` steps: one gives
 * its first token and its prompt is spread over any of them, output - 1 are decodes. The mean step therefore has
 *   n (own input + output - 1) / output rows, n of them lm_head's, and attention's bytes and flops in the same
 * proportion, and its roofline is the limit: a time that is convex in rows is never shorter in the mean than at the
 * mean. A shared prefix counts as nothing: once for any number of requests. */
#ifndef YK_STUDY_LIMITS_H
#define YK_STUDY_LIMITS_H

#include "base/json_tree.h"
#include "study/shapes.h"

enum { YK_MACHINE_MAX_ALL_REDUCES = 256 };

typedef struct yk_machine_rates {
  double memory_bytes_per_s, gemm_flops; /* of one device */
  bool is_shared;                        /* of all ranks together: on a CPU */
  double link_bytes_per_s;               /* 0: not known */
  struct {
    int ranks;
    double bytes, us;
  } all_reduces[YK_MACHINE_MAX_ALL_REDUCES];
  size_t n_all_reduces;
} yk_machine_rates;

/* What a point asks for. */
typedef struct yk_limit_load {
  int ranks;
  double batch, input_len, output_len;
  double shared_prefix; /* tokens that all prompts begin with: computed once */
  double element_bytes; /* of activations and weights that are not quantised */
  bool kv_in_8_bits;    /* with a scale for each token and head; else KV is of such elements too */
  bool no_quantisation; /* linear layers are read as such elements too */
  bool expert_parallel; /* ranks hold whole experts */
} yk_limit_load;

typedef enum yk_limit_bound { YK_BOUND_MEMORY, YK_BOUND_GEMM, YK_BOUND_LINK, YK_BOUNDS } yk_limit_bound;

typedef struct yk_limit {
  double prefill_s, decode_step_s, total_s; /* of a batch; where requests come and go: 0, a step, `output` steps */
  double bound_s[YK_BOUNDS];                /* of the total: operations that memory, the GEMM rate, the links bound */
  yk_limit_bound bound;                     /* the largest of them */
} yk_limit;

/* yk_machine_rates_read - from the object "machine" of a study: memory_bytes_per_s, gemm_flops, link_bytes_per_s, and
 *   all_reduce, an array of {"ranks", "bytes", "us"}; with "device" "cpu" all ranks share the first two. False: those
 *   are not there. */
bool yk_machine_rates_read(const json_t *machine, yk_machine_rates *out);

/* yk_machine_all_reduce_s - an all-reduce of n_bytes over so many ranks: 0 for one; between measured sizes along a line
 *   in both logarithms, below them the smallest's time, above them in proportion; with none measured for the ranks
 *   2 (ranks - 1) / ranks n_bytes / link; negative where the machine knows neither. */
double yk_machine_all_reduce_s(const yk_machine_rates *machine, int ranks, double n_bytes);

/* yk_machine_has_all_reduces - whether all-reduces over so many ranks have been measured. */
bool yk_machine_has_all_reduces(const yk_machine_rates *machine, int ranks);

/* yk_limit_compute - see above. Where the machine knows nothing of all-reduces they count as nothing. Thread: any. */
void yk_limit_compute(const yk_model_shapes *shapes, const yk_machine_rates *machine, const yk_limit_load *load,
                      yk_limit *out);

/* yk_limit_compute_flow - where requests come and go; load->batch is the mean number of those that run, a fraction too.
 *   The output tokens that load->batch requests have take total_s; there is no prefill apart. Thread: any. */
void yk_limit_compute_flow(const yk_model_shapes *shapes, const yk_machine_rates *machine, const yk_limit_load *load,
                           yk_limit *out);

/* yk_limit_bound_name - "memory", "gemm", "link". */
const char *yk_limit_bound_name(yk_limit_bound bound);

#endif

/* limits.h - computes the shortest time that a machine can take for a point, and the resource that bounds it.
 *
 * An operation takes at least max(bytes / memory bandwidth, flops / GEMM rate) (the roofline of S. Williams et al.,
 * CACM 52, 2009), with both rates measured on the machine itself; on N ranks an N-th of that. All-reduces are added
 * with their separately measured times, since each waits for the operation before it and delays the operation after
 * it. Operations of a layer: the products qkv, o, gate and up, down, and attention over the KV of all sequences; of a
 * step: lm_head. In a mixture of experts each chosen expert is read once, E (1 - (1 - k / E)^n) different experts for n
 * random choices of k of E on average; each row is multiplied with its k experts; router and shared expert are
 * products. With whole experts on ranks, a layer's experts take as long as the rank with the most of them, ceil(E / N)
 * of E: on average that rank has this share of bytes and choices, and more if choices are uneven. In latent attention
 * q_a, kv_a and the latent vectors count on every rank, kv_b once a row; a pair of a row and a position takes nope_dim
 * + rope_dim + value_dim products a head in a prompt and 2 kv_rank + rope_dim in a decode. A gated delta net reads and
 * writes the state of each sequence once a step and has three products of the state and a vector a row; Mamba2 has
 * two. A row of a layer with a window sees the window's positions at most. Norms, rotary
 * embedding and sampling move few bytes and count as zero, so the limit stays a lower bound.
 *   decode step: one row a sequence; attention at the mean context, input + output / 2.
 *   prefill: all prompts' rows, a shared prefix once, weights read once; attention flops 2 heads head_dim input^2 a
 *   sequence (causal).
 * A run of a batch takes its prefill and output - 1 decode steps: the prefill yields the first token.
 *
 * With clients or a request rate, steps mix prompts with decodes. With n running requests, the measured mean, a step
 * yields at most n tokens, since each request takes part in at least `output` steps: one step yields the request's
 * first token, with its prompt spread over any of the steps, and output - 1 steps are decodes. The mean step therefore
 * has
 *   n (own input + output - 1) / output rows, n of them rows of lm_head,
 * and attention's bytes and flops in the same proportion. The roofline of the mean step is the limit: the time is
 * convex in the number of rows, so the mean time is at least the time of the mean step. A shared prefix counts as zero:
 * it is computed once for any number of requests. */
#ifndef YK_STUDY_LIMITS_H
#define YK_STUDY_LIMITS_H

#include "base/json_tree.h"
#include "study/shapes.h"

enum { YK_MACHINE_MAX_ALL_REDUCES = 256 };

typedef struct yk_machine_rates {
  double memory_bytes_per_s, gemm_flops; /* of one device */
  bool is_shared;                        /* rates of all ranks together: on a CPU */
  double link_bytes_per_s;               /* 0: unknown */
  struct {
    int ranks;
    double bytes, us;
  } all_reduces[YK_MACHINE_MAX_ALL_REDUCES];
  size_t n_all_reduces;
} yk_machine_rates;

/* The load of a point. */
typedef struct yk_limit_load {
  int ranks;
  double batch, input_len, output_len;
  double shared_prefix; /* tokens at the beginning of all prompts: computed once */
  double element_bytes; /* of activations and weights that are not quantised */
  bool kv_in_8_bits;    /* with a scale for each token and head; false: KV has element_bytes too */
  bool no_quantisation; /* linear layers have element_bytes too */
  bool head_in_8_bits;  /* lm_head; false: lm_head has element_bytes */
  bool expert_parallel; /* ranks hold whole experts */
} yk_limit_load;

typedef enum yk_limit_bound { YK_BOUND_MEMORY, YK_BOUND_GEMM, YK_BOUND_LINK, YK_BOUNDS } yk_limit_bound;

typedef struct yk_limit {
  /* of a batch; with clients or a request rate: 0, one step, `output` steps */
  double prefill_s, decode_step_s, total_s;
  /* parts of the total: operations bound by memory, by the GEMM rate, by links */
  double bound_s[YK_BOUNDS];
  yk_limit_bound bound; /* the largest of them */
} yk_limit;

/* yk_machine_rates_read - read the object "machine" of a study: memory_bytes_per_s, gemm_flops, link_bytes_per_s, and
 *   all_reduce, an array of {"ranks", "bytes", "us"}; with "device" "cpu" all ranks share the first two. False: these
 *   are missing. */
bool yk_machine_rates_read(const json_t *machine, yk_machine_rates *out);

/* yk_machine_all_reduce_s - time of an all-reduce of n_bytes over this number of ranks: 0 for one rank. Between
 *   measured sizes interpolated linearly in both logarithms, below them the smallest size's time, above them in
 *   proportion to bytes; without measurements for the number of ranks 2 (ranks - 1) / ranks n_bytes / link; negative
 *   without a link's rate too. */
double yk_machine_all_reduce_s(const yk_machine_rates *machine, int ranks, double n_bytes);

/* yk_machine_has_all_reduces - whether all-reduces over this number of ranks have been measured. */
bool yk_machine_has_all_reduces(const yk_machine_rates *machine, int ranks);

/* yk_limit_compute - see above. Without times of all-reduces and a link's rate all-reduces count as zero. Thread:
 *   any. */
void yk_limit_compute(const yk_model_shapes *shapes, const yk_machine_rates *machine, const yk_limit_load *load,
                      yk_limit *out);

/* yk_limit_compute_flow - the same for clients and request rates; load->batch is the mean number of running requests,
 *   which may be a fraction. total_s: time of the output tokens of load->batch requests; there is no separate prefill.
 *   Thread: any. */
void yk_limit_compute_flow(const yk_model_shapes *shapes, const yk_machine_rates *machine, const yk_limit_load *load,
                           yk_limit *out);

/* Times of one step on each rank, without all-reduces: of all bytes at the memory's rate, of all flops at the GEMM
 * rate. The limit takes the larger one of each operation. */
typedef struct yk_step_work {
  double memory_s, gemm_s;
} yk_step_work;

/* yk_limit_decode_work - a decode step of load->batch sequences at the mean context. Thread: any. */
yk_step_work yk_limit_decode_work(const yk_model_shapes *shapes, const yk_machine_rates *machine,
                                  const yk_limit_load *load);

/* yk_limit_prompt_work - a step of n_rows prompt rows, of prompts of load->input_len tokens. Thread: any. */
yk_step_work yk_limit_prompt_work(const yk_model_shapes *shapes, const yk_machine_rates *machine,
                                  const yk_limit_load *load, double rows);

/* yk_limit_bound_name - "memory", "gemm", "link". */
const char *yk_limit_bound_name(yk_limit_bound bound);

#endif

/* cpu_sample.c - choosing one token per row.
 *
 * Definition, which every device follows. With s = logit / temperature (one float32 division), order the ids by falling
 * s, lower id first. Every filter keeps a prefix of that order:
 *   min_p  the ids with weight exp(s - s_max) >= min_p
 *   top_k  the first k, and all that tie with the k-th
 *   top_p  among the remaining ids, the shortest prefix whose weights sum to at least top_p of the remaining total
 * The draw then runs over the kept ids by RISING ID, which needs no sort: with u = yk_rng_uniform(seed, stream,
 * position), the first id whose running sum of weights exceeds u * total. Weights are float32, sums float64, so that
 * another device that adds in another order makes the same choice except for the last bits of exp.
 *
 * Before that, biases, penalties and mask adjust the logits in float32; log-probabilities and the copied logits are
 * those of the raw logits. A penalty keeps a finite logit finite: a repetition penalty of 1e-38 would otherwise produce
 * infinities, and their differences NaNs. A forced row is not adjusted, drawn or counted.
 *
 * The prefix is found by a histogram over s_max - s and a heap of the one bin in which it ends. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "kernels/cpu/cpu_device.h"

enum {
  N_BINS = 2048,
  BINS_PER_NAT = 64, /* the last bin includes all beyond 32 nats, with weights below 1e-13 */
  LANES = 16
};

typedef struct sample_context {
  yk_cpu_device *cpu;
  const yk_sample_args *args;
} sample_context;

/* The sampler's working data of one row. With a mask, ids are numbered among those of the mask once the logits have
 * been adjusted: the others are never drawn. */
typedef struct row_view {
  float *scaled;  /* [n] logits, then adjusted, then divided by the temperature */
  float *weights; /* [n] exp(scaled - maximum) of kept ids */
  int32_t *kept;  /* [n_kept], rising */
  int32_t *heap;  /* [n] */
  int32_t n, n_kept;
  float maximum; /* maximum of scaled */
} row_view;

/* Finds the largest of v's logits; returns false if there is a NaN or +infinity, or nothing finite. */
static bool find_maximum(row_view *v)
{
  float lanes[LANES];
  int n_bad = 0;
  int32_t i = 0;
  for (int j = 0; j < LANES; j++) lanes[j] = -INFINITY;
  for (; i + LANES <= v->n; i += LANES)
    for (int j = 0; j < LANES; j++) {
      float logit = v->scaled[i + j];
      n_bad |= !(logit < INFINITY);
      lanes[j] = logit > lanes[j] ? logit : lanes[j];
    }
  for (; i < v->n; i++) {
    n_bad |= !(v->scaled[i] < INFINITY);
    lanes[0] = v->scaled[i] > lanes[0] ? v->scaled[i] : lanes[0];
  }
  v->maximum = lanes[0];
  for (int j = 1; j < LANES; j++) v->maximum = lanes[j] > v->maximum ? lanes[j] : v->maximum;
  return !n_bad && v->maximum > -INFINITY;
}

/* The reason why find_maximum failed on raw logits. */
static yk_row_state fault_of(const row_view *v)
{
  for (int32_t id = 0; id < v->n; id++)
    if (isnan(v->scaled[id])) return YK_ROW_NAN;
  return YK_ROW_INFINITE;
}

static const float *shard_row(const yk_sample_args *a, int32_t shard, int64_t row)
{
  return a->logits + ((int64_t)shard * a->n_rows + row) * a->shard_stride;
}

static void load_logits(const yk_sample_args *a, int64_t row, row_view *v)
{
  v->n = 0;
  for (int32_t s = 0; s < a->n_shards; s++) {
    int32_t n = a->shard_first[s + 1] - a->shard_first[s];
    memcpy(v->scaled + v->n, shard_row(a, s, row), (size_t)n * sizeof(float));
    v->n += n;
  }
}

static float raw_logit(const yk_sample_args *a, int64_t row, int32_t id)
{
  int32_t s = 0;
  while (id >= a->shard_first[s + 1]) s++;
  return shard_row(a, s, row)[id - a->shard_first[s]];
}

static double log_sum_exp(const row_view *v)
{
  double sum = 0.0;
  for (int32_t i = 0; i < v->n; i++) sum += (double)expf(v->scaled[i] - v->maximum);
  return (double)v->maximum + log(sum);
}

/* Finds the n_wanted largest raw logits, in falling order. */
static void find_top(const row_view *v, int32_t n_wanted, yk_sampled *out)
{
  for (int32_t i = 0; i < v->n; i++) {
    float logit = v->scaled[i];
    if (out->n_top == n_wanted && !(logit > out->top_logprobs[n_wanted - 1])) continue;
    int32_t at = out->n_top < n_wanted ? out->n_top++ : n_wanted - 1;
    for (; at > 0 && logit > out->top_logprobs[at - 1]; at--) {
      out->top_logprobs[at] = out->top_logprobs[at - 1];
      out->top_ids[at] = out->top_ids[at - 1];
    }
    out->top_logprobs[at] = logit;
    out->top_ids[at] = i;
  }
}

/* Writes the results that depend on the raw logits, before they are adjusted. Returns their log-sum-exp, or 0 if not
 * needed. */
static double report_raw(const yk_sample_args *a, const yk_sample_row *params, const row_view *v, yk_sampled *out)
{
  if (params->returns_logits)
    memcpy(a->logits_out + (int64_t)params->logits_row * v->n, v->scaled, (size_t)v->n * sizeof(float));
  if (!params->want_logprob && params->n_top_logprobs <= 0) return 0.0;
  double log_sum = log_sum_exp(v);
  if (params->n_top_logprobs > 0)
    find_top(v, params->n_top_logprobs < YK_MAX_TOP_LOGPROBS ? params->n_top_logprobs : YK_MAX_TOP_LOGPROBS, out);
  for (int32_t i = 0; i < out->n_top; i++) out->top_logprobs[i] = (float)((double)out->top_logprobs[i] - log_sum);
  return log_sum;
}

/* Number the ids of the mask among themselves, in their order. */
static void keep_masked(const uint32_t *mask, row_view *v)
{
  int32_t n = 0;
  for (int32_t first = 0; first < v->n; first += 32) {
    uint32_t word = mask[first / 32];
    if (v->n - first < 32) word &= (UINT32_C(1) << (v->n - first)) - 1;
    if (word == UINT32_MAX) {
      memmove(v->scaled + n, v->scaled + first, 32 * sizeof *v->scaled);
      n += 32;
      continue;
    }
    if (__builtin_popcount(word) <= 8) {
      for (; word; word &= word - 1) v->scaled[n++] = v->scaled[first + __builtin_ctz(word)];
      continue;
    }
    for (int32_t id = first; word; word >>= 1, id++) { /* no branch on a bit */
      v->scaled[n] = v->scaled[id];
      n += (int32_t)(word & 1);
    }
  }
  v->n = n;
}

/* The id of a number among those of the mask. */
static int32_t masked_id(const uint32_t *mask, int32_t number)
{
  int32_t first = 0;
  for (int32_t n; number >= (n = __builtin_popcount(mask[first / 32])); first += 32) number -= n;
  uint32_t word = mask[first / 32];
  for (; number > 0; number--) word &= word - 1;
  return first + __builtin_ctz(word);
}

/* Biases, repetition, frequency and presence penalties, in this order and in float32. The mask is applied last, which
 * gives the same result as the order of device.h: a masked id has no influence on the others. */
static void adjust_logits(const yk_sample_args *a, const yk_sample_row *params, const uint32_t *counts, row_view *v)
{
  for (int64_t i = params->first_bias; i < params->first_bias + params->n_biases; i++)
    v->scaled[a->biases[i].token_id] += a->biases[i].bias;
  for (int32_t id = 0; params->has_penalties && id < v->n; id++) {
    float logit = v->scaled[id];
    if (!counts[id] || logit == -INFINITY) continue;
    uint32_t n_output = counts[id] / YK_CPU_COUNT_OUTPUT;
    logit = logit > 0.0f ? logit / params->repetition_penalty : logit * params->repetition_penalty;
    if (n_output) {
      logit -= params->frequency_penalty * (float)n_output;
      logit -= params->presence_penalty;
    }
    v->scaled[id] = fminf(fmaxf(logit, -FLT_MAX), FLT_MAX);
  }
  if (params->has_mask) keep_masked(a->masks + params->first_mask, v);
}

static bool comes_before(const row_view *v, int32_t a, int32_t b)
{
  return v->scaled[a] > v->scaled[b] || (v->scaled[a] == v->scaled[b] && a < b);
}

static int bin_of(const row_view *v, int32_t id)
{
  float nats = v->maximum - v->scaled[id];
  return nats < (float)N_BINS / BINS_PER_NAT ? (int)(nats * BINS_PER_NAT) : N_BINS - 1;
}

static void sift_down(row_view *v, int32_t n_heap, int32_t at)
{
  int32_t id = v->heap[at];
  for (int32_t child; (child = 2 * at + 1) < n_heap; at = child) {
    if (child + 1 < n_heap && comes_before(v, v->heap[child + 1], v->heap[child])) child++;
    if (!comes_before(v, v->heap[child], id)) break;
    v->heap[at] = v->heap[child];
  }
  v->heap[at] = id;
}

static void build_heap(row_view *v, int32_t n_heap)
{
  for (int32_t i = n_heap / 2 - 1; i >= 0; i--) sift_down(v, n_heap, i);
}

static int32_t pop_heap(row_view *v, int32_t *n_heap)
{
  int32_t first = v->heap[0];
  v->heap[0] = v->heap[--*n_heap];
  if (*n_heap > 0) sift_down(v, *n_heap, 0);
  return first;
}

/* The k-th largest of scaled, 1 <= k <= n. */
static float kth_largest(row_view *v, int32_t k)
{
  int32_t counts[N_BINS] = {0};
  for (int32_t id = 0; id < v->n; id++) counts[bin_of(v, id)]++;
  int bin = 0;
  for (; k > counts[bin]; bin++) k -= counts[bin];
  int32_t n_heap = 0;
  for (int32_t id = 0; id < v->n; id++)
    if (bin_of(v, id) == bin) v->heap[n_heap++] = id;
  build_heap(v, n_heap);
  while (--k > 0) pop_heap(v, &n_heap);
  return v->scaled[v->heap[0]];
}

/* Keeps the ids that pass min_p and top_k: both are a threshold. Returns the sum of the kept weights. */
static double keep_by_threshold(row_view *v, float lowest_scaled, float min_p)
{
  double total = 0.0;
  v->n_kept = 0;
  for (int32_t id = 0; id < v->n; id++) {
    if (v->scaled[id] < lowest_scaled) continue;
    float weight = expf(v->scaled[id] - v->maximum);
    if (weight < min_p) continue;
    v->weights[id] = weight;
    v->kept[v->n_kept++] = id;
    total += (double)weight;
  }
  return total;
}

/* Cuts the kept ids to the shortest prefix whose weight is at least top_p * total. Returns the sum of that prefix. */
static double keep_top_p(row_view *v, double total, float top_p)
{
  double bins[N_BINS] = {0}, target = (double)top_p * total, sum = 0.0;
  for (int32_t i = 0; i < v->n_kept; i++) bins[bin_of(v, v->kept[i])] += (double)v->weights[v->kept[i]];
  int bin = 0, last = 0;
  for (int i = 0; i < N_BINS; i++) last = bins[i] > 0.0 ? i : last;
  for (; bin < last && sum + bins[bin] < target; bin++) sum += bins[bin];
  int32_t n_heap = 0;
  for (int32_t i = 0; i < v->n_kept; i++)
    if (bin_of(v, v->kept[i]) == bin) v->heap[n_heap++] = v->kept[i];
  build_heap(v, n_heap);
  int32_t last_kept;
  do {
    last_kept = pop_heap(v, &n_heap);
    sum += (double)v->weights[last_kept];
  } while (sum < target && n_heap > 0);
  int32_t n_kept = 0;
  double kept_total = 0.0;
  for (int32_t i = 0; i < v->n_kept; i++) {
    int32_t id = v->kept[i];
    if (comes_before(v, last_kept, id)) continue;
    v->kept[n_kept++] = id;
    kept_total += (double)v->weights[id];
  }
  v->n_kept = n_kept;
  return kept_total;
}

static int32_t draw(const row_view *v, double total, float uniform)
{
  double target = (double)uniform * total, sum = 0.0;
  int32_t chosen = v->kept[0];
  for (int32_t i = 0; i < v->n_kept; i++) {
    if (v->weights[v->kept[i]] <= 0.0f) continue;
    chosen = v->kept[i];
    sum += (double)v->weights[chosen];
    if (sum > target) break;
  }
  return chosen;
}

/* The token of a row with adjusted logits. */
static int32_t choose(const yk_sample_row *params, row_view *v)
{
  /* A temperature so low that the largest logit overflows leaves only that logit. */
  float maximum = v->maximum / params->temperature;
  if (params->temperature < 1e-5f || !isfinite(maximum)) {
    int32_t id = 0;
    while (v->scaled[id] != v->maximum) id++;
    return id;
  }
  for (int32_t id = 0; id < v->n; id++) v->scaled[id] /= params->temperature;
  v->maximum = maximum;
  float lowest = params->top_k > 0 && params->top_k < v->n ? kth_largest(v, params->top_k) : -INFINITY;
  double total = keep_by_threshold(v, lowest, params->min_p);
  if (params->top_p < 1.0f) total = keep_top_p(v, total, params->top_p);
  return draw(v, total, yk_rng_uniform(params->seed, params->stream, params->position));
}

/* Writes the row's token to the row's result; returns the state, which gives the reason if there is no token. */
static yk_row_state sample_row(const sample_context *c, int64_t row, row_view *v)
{
  const yk_sample_args *a = c->args;
  const yk_sample_row *params = &a->rows[row];
  yk_sampled *out = &a->out[row];
  load_logits(a, row, v);
  if (!find_maximum(v)) return fault_of(v);
  double log_sum = report_raw(a, params, v, out);
  int32_t id = params->forced_id;
  if (!params->is_forced) {
    uint32_t *counts =
        params->has_penalties ? c->cpu->penalty_counts + (int64_t)params->penalty_slot * c->cpu->limits.vocab : NULL;
    if (params->has_penalties || params->n_biases || params->has_mask) {
      adjust_logits(a, params, counts, v);
      if (!find_maximum(v)) return YK_ROW_BANNED;
    }
    id = choose(params, v);
    if (params->has_mask) id = masked_id(a->masks + params->first_mask, id);
    if (counts) counts[id] += YK_CPU_COUNT_OUTPUT;
  }
  if (params->want_logprob) out->logprob = (float)((double)raw_logit(a, row, id) - log_sum);
  out->token_id = id;
  return YK_ROW_SAMPLED;
}

static void sample_rows(void *context, int thread, int64_t begin, int64_t end)
{
  const sample_context *c = context;
  int64_t vocab = c->cpu->limits.vocab;
  float *floats = c->cpu->sample_floats + 2 * vocab * thread;
  int32_t *ids = c->cpu->sample_ids + 2 * vocab * thread;
  for (int64_t row = begin; row < end; row++) {
    row_view v = {.scaled = floats, .weights = floats + vocab, .kept = ids, .heap = ids + vocab};
    c->args->out[row] = (yk_sampled){.token_id = -1};
    c->args->out[row].state = sample_row(c, row, &v);
  }
}

/* Checks that ids and slots of one row are within this device's limits. */
static yk_status check_row(const yk_cpu_device *cpu, const yk_sample_args *args, int32_t index, int32_t n_ids,
                           yk_err *err)
{
  const yk_sample_row *row = &args->rows[index];
  if (row->is_forced && (row->forced_id < 0 || row->forced_id >= n_ids))
    return yk_err_set(err, YK_E_INVAL, "sample: row %d: forced id %d: expected an id below %d", index, row->forced_id,
                      n_ids);
  if (row->has_penalties && (row->penalty_slot < 0 || row->penalty_slot >= cpu->limits.max_seqs))
    return yk_err_set(err, YK_E_INVAL, "sample: row %d: penalty slot %d: expected a slot below %d", index,
                      row->penalty_slot, cpu->limits.max_seqs);
  if (row->has_mask && !args->masks)
    return yk_err_set(err, YK_E_INVAL,
                      "sample: row %d: expected a row without a mask, since the step has none, found one", index);
  for (int64_t i = row->first_bias; i < row->first_bias + row->n_biases; i++)
    if (args->biases[i].token_id < 0 || args->biases[i].token_id >= n_ids)
      return yk_err_set(err, YK_E_INVAL, "sample: row %d: biased id %d: expected an id below %d", index,
                        args->biases[i].token_id, n_ids);
  return YK_OK;
}

yk_status yk_cpu_sample(yk_device *dev, const yk_sample_args *args, yk_err *err)
{
  sample_context context = {yk_cpu_device_of(dev), args};
  int32_t n_ids = args->shard_first[args->n_shards];
  if (args->shard_first[0] != 0 || n_ids > context.cpu->limits.vocab)
    return yk_err_set(err, YK_E_INVAL, "sample: expected ids 0 to %d at most, found %d to %d",
                      context.cpu->limits.vocab - 1, args->shard_first[0], n_ids - 1);
  for (int32_t row = 0; row < args->n_rows; row++) YK_TRY(check_row(context.cpu, args, row, n_ids, err));
  yk_cpu_pool_run(context.cpu->pool, args->n_rows, 1, sample_rows, &context);
  return YK_OK;
}

static void find_bests(void *context, int thread, int64_t begin, int64_t end)
{
  (void)thread;
  const yk_best_logits_args *a = context;
  for (int64_t row = begin; row < end; row++) {
    const float *logits = a->logits + row * a->stride;
    yk_best_logit best = {.value = -INFINITY};
    for (int32_t i = 0; i < a->n_ids && !isnan(best.value); i++)
      if (logits[i] > best.value || isnan(logits[i])) best = (yk_best_logit){logits[i], a->first_id + i};
    a->out[row] = best;
  }
}

yk_status yk_cpu_best_logits(yk_device *dev, const yk_best_logits_args *args, yk_err *err)
{
  (void)err;
  yk_best_logits_args a = *args;
  yk_cpu_pool_run(yk_cpu_device_of(dev)->pool, args->n_rows, 1, find_bests, &a);
  return YK_OK;
}

yk_status yk_cpu_penalties_set(yk_device *dev, int32_t slot, const int32_t *tokens, int32_t n_prompt, int32_t n_tokens,
                               yk_err *err)
{
  yk_cpu_device *cpu = yk_cpu_device_of(dev);
  int32_t vocab = cpu->limits.vocab;
  if (slot < 0 || slot >= cpu->limits.max_seqs)
    return yk_err_set(err, YK_E_INVAL, "penalties: slot: expected 0 to %d, found %d", cpu->limits.max_seqs - 1, slot);
  for (int32_t i = 0; i < n_tokens; i++)
    if (tokens[i] < 0 || tokens[i] >= vocab)
      return yk_err_set(err, YK_E_INVAL, "penalties: token %d: expected an id below %d, found %d", i, vocab, tokens[i]);
  uint32_t *counts = cpu->penalty_counts + (int64_t)slot * vocab;
  memset(counts, 0, (size_t)vocab * sizeof *counts);
  for (int32_t i = 0; i < n_tokens; i++) {
    if (i < n_prompt)
      counts[tokens[i]] |= YK_CPU_COUNT_PROMPT;
    else
      counts[tokens[i]] += YK_CPU_COUNT_OUTPUT;
  }
  return YK_OK;
}

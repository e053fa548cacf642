/* cpu_experts.c - routing of rows to experts, and the weighted sum of the experts' outputs (kernels/experts.h). */
#include <math.h>
#include <string.h>

#include "kernels/cpu/cpu_device.h"

enum {
  CHUNK = 256,              /* elements converted at a time */
  MIN_THREAD_EXPERTS = 2048 /* scores, or elements, below which a thread costs more than it saves */
};

static int64_t min_rows(int64_t elements_per_row)
{
  return elements_per_row >= MIN_THREAD_EXPERTS ? 1
                                                : MIN_THREAD_EXPERTS / (elements_per_row > 0 ? elements_per_row : 1);
}

/* ---- Scores ------------------------------------------------------------------------------------------------------ */

static bool is_sound(const float *logits, int32_t n)
{
  bool sound = true;
  for (int32_t e = 0; e < n; e++) sound = sound && isfinite(logits[e]);
  return sound;
}

static void softmax(const float *logits, int32_t n, float *scores)
{
  float largest = logits[0], sum = 0.0f;
  for (int32_t e = 1; e < n; e++) largest = logits[e] > largest ? logits[e] : largest;
  for (int32_t e = 0; e < n; e++) sum += scores[e] = expf(logits[e] - largest);
  for (int32_t e = 0; e < n; e++) scores[e] /= sum;
}

static float sigmoid(float x)
{
  return 1.0f / (1.0f + expf(-x));
}

static float group_score(const yk_route_spec *spec, const float *choice, int32_t group_size)
{
  float first = -INFINITY, second = -INFINITY;
  for (int32_t e = 0; e < group_size; e++) {
    if (choice[e] > first)
      second = first, first = choice[e];
    else if (choice[e] > second)
      second = choice[e];
  }
  return spec->group_score == YK_GROUP_SCORE_MAXIMUM ? first : first + second;
}

/* The index of the largest value that is not taken; the first among equal ones. */
static int32_t take_largest(const float *values, bool *taken, int32_t n)
{
  int32_t best = -1;
  for (int32_t i = 0; i < n; i++)
    if (!taken[i] && (best < 0 || values[i] > values[best])) best = i;
  taken[best] = true;
  return best;
}

/* Marks experts of excluded groups as taken before the choice begins. */
static void take_groups(const yk_route_spec *spec, const float *choice, bool *taken)
{
  float scores[YK_MAX_EXPERT_GROUPS] = {0};
  bool stays[YK_MAX_EXPERT_GROUPS] = {false};
  int32_t size = spec->n_experts / spec->n_groups;
  for (int32_t g = 0; g < spec->n_groups; g++) scores[g] = group_score(spec, choice + g * size, size);
  for (int32_t i = 0; i < spec->top_groups; i++) take_largest(scores, stays, spec->n_groups);
  for (int32_t g = 0; g < spec->n_groups; g++)
    for (int32_t e = 0; e < size; e++) taken[g * size + e] = !stays[g];
}

/* ---- Choices of a row -------------------------------------------------------------------------------------------- */

static void choose(const yk_route_args *a, const float *logits, int32_t *choices, float *weights)
{
  const yk_route_spec *spec = a->spec;
  float scores[YK_MAX_EXPERTS] = {0}, choice[YK_MAX_EXPERTS] = {0}, sum = 0.0f;
  bool taken[YK_MAX_EXPERTS] = {false};
  if (spec->scoring == YK_SCORE_SOFTMAX)
    softmax(logits, spec->n_experts, scores);
  else
    for (int32_t e = 0; e < spec->n_experts; e++) scores[e] = sigmoid(logits[e]);
  for (int32_t e = 0; e < spec->n_experts; e++) choice[e] = scores[e] + (a->bias ? a->bias[e] : 0.0f);
  if (spec->top_groups < spec->n_groups) take_groups(spec, choice, taken);
  for (int32_t j = 0; j < spec->top_k; j++) {
    choices[j] = take_largest(choice, taken, spec->n_experts);
    sum += weights[j] = scores[choices[j]];
  }
  if (spec->normalise)
    for (int32_t j = 0; j < spec->top_k; j++) weights[j] /= sum + 1e-20f;
  for (int32_t j = 0; j < spec->top_k; j++)
    weights[j] *= spec->scale * (a->expert_scales ? a->expert_scales[choices[j]] : 1.0f);
}

static void choose_rows(void *context, int thread, int64_t begin, int64_t end)
{
  (void)thread;
  const yk_route_args *a = context;
  int32_t top_k = a->spec->top_k;
  for (int64_t row = begin; row < end; row++) {
    const float *logits = a->logits + row * a->logits_stride;
    int32_t *choices = a->choices + row * top_k;
    float *weights = a->weights + row * top_k;
    bool is_padding = a->kv_slots && a->kv_slots[row] < 0;
    if (!is_padding && is_sound(logits, a->spec->n_experts)) {
      choose(a, logits, choices, weights);
      continue;
    }
    for (int32_t j = 0; j < top_k; j++) {
      choices[j] = is_padding ? -1 : j;
      weights[j] = is_padding ? 0.0f : NAN;
    }
  }
}

/* ---- Slots ------------------------------------------------------------------------------------------------------- */

/* The index of a choice among the rank's experts, or -1. */
static int32_t local_of(const yk_route_spec *spec, int32_t choice)
{
  bool is_local = choice >= spec->first_local && choice < spec->first_local + spec->n_local;
  return is_local ? choice - spec->first_local : -1;
}

/* next: [n_local] the next slot of each expert. */
static void number_slots(const yk_route_args *a, int32_t *next)
{
  const yk_route_spec *spec = a->spec;
  memset(a->starts, 0, ((size_t)spec->n_local + 1) * sizeof *a->starts);
  int64_t n_choices = (int64_t)a->n_tokens * spec->top_k;
  for (int64_t i = 0; i < n_choices; i++) {
    int32_t local = local_of(spec, a->choices[i]);
    if (a->counts && a->choices[i] >= 0) a->counts[a->choices[i]]++;
    if (local >= 0) a->starts[local + 1]++;
  }
  for (int32_t e = 0; e < spec->n_local; e++) {
    a->starts[e + 1] += a->starts[e];
    next[e] = a->starts[e];
  }
  for (int64_t i = 0; i < n_choices; i++) {
    int32_t local = local_of(spec, a->choices[i]);
    a->slot_of_choice[i] = local >= 0 ? next[local]++ : -1;
    if (local >= 0) a->row_of_slot[a->slot_of_choice[i]] = (int32_t)(i / spec->top_k);
  }
}

yk_status yk_cpu_route(yk_device *dev, const yk_route_args *args, yk_err *err)
{
  const yk_linear_args logits = {
      .x = args->x, .y = args->logits, .n_tokens = args->n_tokens, .y_stride = args->logits_stride};
  if (args->norm) YK_TRY(yk_cpu_add_norm(dev, args->norm, err));
  if (args->router) YK_TRY(yk_cpu_linear_forward(dev, args->router, &logits, err));
  yk_route_args a = *args;
  yk_cpu_pool_run(yk_cpu_device_of(dev)->pool, args->n_tokens,
                  min_rows((int64_t)args->spec->n_experts * args->spec->top_k), choose_rows, &a);
  if (args->n_tokens > 0)
    number_slots(args, args->scratch);
  else
    memset(args->starts, 0, ((size_t)args->spec->n_local + 1) * sizeof *args->starts);
  return YK_OK;
}

/* ---- Weighted inputs --------------------------------------------------------------------------------------------- */

typedef struct weigh_context {
  yk_cpu_device *cpu;
  const yk_weigh_args *args;
} weigh_context;

static void weigh_choices(void *context, int thread, int64_t begin, int64_t end)
{
  (void)thread;
  const weigh_context *c = context;
  const yk_weigh_args *a = c->args;
  const yk_dtype dtype = c->cpu->base.dtype;
  float chunk[CHUNK];
  for (int64_t choice = begin; choice < end; choice++) {
    const int64_t slot = a->slot_of_choice[choice], row = choice / a->top_k;
    for (int32_t i = 0, n; slot >= 0 && i < a->hidden; i += n) {
      n = a->hidden - i < CHUNK ? a->hidden - i : CHUNK;
      c->cpu->simd->to_f32(chunk, dtype, yk_cpu_at(dtype, a->x, row * a->hidden + i), (size_t)n);
      for (int32_t j = 0; j < n; j++) chunk[j] *= a->weights[choice];
      c->cpu->simd->from_f32(yk_cpu_at(dtype, a->y, slot * a->hidden + i), dtype, chunk, (size_t)n);
    }
  }
}

void yk_cpu_weigh(yk_device *dev, const yk_weigh_args *args)
{
  weigh_context context = {yk_cpu_device_of(dev), args};
  yk_cpu_pool_run(context.cpu->pool, (int64_t)args->n_tokens * args->top_k, min_rows(args->hidden), weigh_choices,
                  &context);
}

/* ---- The sum ----------------------------------------------------------------------------------------------------- */

typedef struct combine_context {
  yk_cpu_device *cpu;
  const yk_combine_args *args;
} combine_context;

static void add_scaled(const combine_context *c, float *sum, const void *values, int64_t first, int32_t n, float factor)
{
  yk_dtype dtype = c->cpu->base.dtype;
  float chunk[CHUNK];
  c->cpu->simd->to_f32(chunk, dtype, yk_cpu_at(dtype, values, first), (size_t)n);
  for (int32_t i = 0; i < n; i++) sum[i] += factor * chunk[i];
}

static void combine_rows(void *context, int thread, int64_t begin, int64_t end)
{
  (void)thread;
  const combine_context *c = context;
  const yk_combine_args *a = c->args;
  float sum[CHUNK];
  for (int64_t row = begin; row < end; row++) {
    const float *weights = a->weights ? a->weights + row * a->top_k : NULL;
    const int32_t *slots = a->slot_of_choice + row * a->top_k;
    float gate = a->shared_gate ? sigmoid(a->shared_gate[row * a->shared_gate_stride]) : 1.0f;
    for (int32_t i = 0, n; i < a->hidden; i += n) {
      n = a->hidden - i < CHUNK ? a->hidden - i : CHUNK;
      memset(sum, 0, sizeof sum);
      for (int32_t j = 0; j < a->top_k; j++)
        if (slots[j] >= 0) add_scaled(c, sum, a->slots, (int64_t)slots[j] * a->hidden + i, n, weights ? weights[j] : 1);
      if (a->shared) add_scaled(c, sum, a->shared, row * a->hidden + i, n, gate);
      yk_dtype dtype = c->cpu->base.dtype;
      c->cpu->simd->from_f32(yk_cpu_at(dtype, a->y, row * a->hidden + i), dtype, sum, (size_t)n);
    }
  }
}

yk_status yk_cpu_combine(yk_device *dev, const yk_combine_args *args, yk_err *err)
{
  (void)err;
  combine_context context = {yk_cpu_device_of(dev), args};
  yk_cpu_pool_run(context.cpu->pool, args->n_tokens, min_rows((int64_t)args->hidden * (args->top_k + 1)), combine_rows,
                  &context);
  return YK_OK;
}

#include "model/stages.h"

#include <math.h>
#include <stdlib.h>

/* Best divisions of the first layers: entry [stage][end] is of stages 0 .. stage and layers 0 .. end - 1. */
typedef struct division {
  const yk_stage_weights *weights;
  int n_stages;
  int64_t *sums;  /* [n_layers + 1] bytes of the first layers */
  double *cost;   /* [n_stages, n_layers + 1] */
  int32_t *begin; /* [n_stages, n_layers + 1] first layer of the last stage */
} division;

static double bytes_of(const division *d, int stage, int32_t begin, int32_t end)
{
  int64_t bytes = d->sums[end] - d->sums[begin];
  if (stage == 0) bytes += d->weights->before;
  if (stage == d->n_stages - 1) bytes += d->weights->after;
  return (double)bytes;
}

/* The cost of a division is the bytes of its largest stage, or, with a limit of these, the sum of squares. */
static double cost_with(double before, double bytes, double limit)
{
  if (limit == INFINITY) return fmax(before, bytes);
  return bytes > limit ? INFINITY : before + bytes * bytes;
}

/* Fills all entries. Returns the cost of the best division of all layers. */
static double divide(const division *d, double limit)
{
  int32_t n_layers = d->weights->n_layers, stride = n_layers + 1;
  for (int stage = 0; stage < d->n_stages; stage++)
    for (int32_t end = 0; end <= n_layers; end++) {
      double *best = &d->cost[(int64_t)stage * stride + end];
      *best = INFINITY;
      for (int32_t begin = stage == 0 ? 0 : end - 1; begin >= stage && begin < end; begin--) {
        double before = stage == 0 ? 0 : d->cost[(int64_t)(stage - 1) * stride + begin];
        double cost = cost_with(before, bytes_of(d, stage, begin, end), limit);
        if (cost >= *best) continue;
        *best = cost;
        d->begin[(int64_t)stage * stride + end] = begin;
      }
    }
  return d->cost[(int64_t)(d->n_stages - 1) * stride + n_layers];
}

yk_status yk_stages_divide(const yk_stage_weights *weights, int n_stages, int32_t *first, yk_err *err)
{
  size_t stride = (size_t)weights->n_layers + 1, n = (size_t)n_stages * stride;
  if (n_stages > weights->n_layers)
    return yk_err_set(
        err, YK_E_INVAL,
        "pipeline stages: expected at most %d, one for each layer or for layers that share a KV cache, found %d",
        weights->n_layers, n_stages);
  division d = {.weights = weights,
                .n_stages = n_stages,
                .sums = calloc(stride, sizeof *d.sums),
                .cost = calloc(n, sizeof *d.cost),
                .begin = calloc(n, sizeof *d.begin)};
  yk_status status = YK_OK;
  if (d.sums && d.cost && d.begin) {
    for (int32_t i = 0; i < weights->n_layers; i++) d.sums[i + 1] = d.sums[i] + weights->layers[i];
    divide(&d, divide(&d, INFINITY));
    first[n_stages] = weights->n_layers;
    for (int stage = n_stages - 1; stage >= 0; stage--)
      first[stage] = d.begin[(size_t)stage * stride + (size_t)first[stage + 1]];
  } else
    status = yk_err_set(err, YK_E_NOMEM, "no memory to divide %d layers", weights->n_layers);
  free(d.sums);
  free(d.cost);
  free(d.begin);
  return status;
}

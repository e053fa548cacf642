#include "quantize/awq_search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"

enum { GRID = 20 };

static yk_status no_memory(yk_err *err)
{
  return yk_err_set(err, YK_E_NOMEM, "no memory for the scales of a layer");
}

/* ---- Rows -------------------------------------------------------------------------------------------------------- */

/* Make the kept rows that a linear layer reads accessible to the device: those of tokens that chose its expert, or all
 * rows. Layers that read the same rows are searched one after another, so that rows are uploaded once for all of
 * them. */
static yk_status show_rows(yk_awq_search *s, const yk_weight_place *reader, yk_input_kind kind, yk_err *err)
{
  const yk_calibration *c = &s->calibration;
  const yk_calibrated_input *input = yk_calibrated_input_of(c, reader->layer, kind);
  bool is_expert = reader->role >= YK_ROLE_EXPERT_GATE;
  int64_t which = is_expert ? reader->expert + 1 : 0;
  int64_t key = ((int64_t)reader->layer * YK_N_INPUT_KINDS + kind) * (s->config->experts.n_experts + 1) + which;
  const void *shown = NULL;
  if (s->rows && s->rows_key == key) return YK_OK;
  s->rows = NULL;
  s->n_rows = c->n_rows;
  const float *rows = input->rows;
  if (is_expert) {
    free(s->gathered);
    s->gathered = malloc((size_t)(c->n_rows * input->k) * sizeof *s->gathered);
    if (!s->gathered) return no_memory(err);
    s->n_rows = yk_calibrated_expert_rows(c, reader->layer, kind, reader->expert, s->gathered);
    rows = s->gathered;
  }
  if (s->n_rows == 0) return YK_OK;
  size_t n_bytes = (size_t)(s->n_rows * input->k) * sizeof *rows;
  YK_TRY(yk_quantize_show(s->rank, &s->shown_rows, rows, n_bytes, &shown, err));
  s->rows = shown;
  s->rows_key = key;
  return YK_OK;
}

/* The mean of |x| per input: over all tokens, or for experts over the kept tokens that chose the expert. */
static yk_status find_means(yk_awq_search *s, const yk_awq_inputs *inputs, double *means, yk_err *err)
{
  const yk_calibration *c = &s->calibration;
  const yk_calibrated_input *input = yk_calibrated_input_of(c, inputs->layer, inputs->kind);
  for (int64_t i = 0; i < input->k; i++) means[i] = input->sums ? input->sums[i] / c->n_tokens : 0;
  if (input->sums) return YK_OK;
  float *rows = malloc((size_t)(c->n_rows * input->k) * sizeof *rows);
  if (!rows) return no_memory(err);
  int32_t n = yk_calibrated_expert_rows(c, inputs->layer, inputs->kind, inputs->expert, rows);
  for (int32_t row = 0; row < n; row++)
    for (int64_t i = 0; i < input->k; i++) means[i] += fabs((double)rows[row * input->k + i]) / n;
  free(rows);
  return YK_OK;
}

/* ---- Scales of a power ------------------------------------------------------------------------------------------- */

/* Inputs to scale, and the tensors that absorb the scales. */
typedef struct task {
  yk_input_roles roles;
  int64_t k;
  double *means;                                      /* [k] */
  yk_vector_view norm;                                /* if a norm writes the inputs */
  float norm_offset;                                  /* of the model: added to the norm's stored elements */
  yk_weight_view float_readers[YK_MAX_FLOAT_READERS]; /* [roles.n_float_readers] */
} task;

static float element_of(yk_dtype dtype, const void *data, int64_t i)
{
  size_t n_bytes = yk_dtype_bytes(dtype);
  uint32_t element = 0; /* elements may be unaligned in the file */
  memcpy(&element, (const char *)data + (size_t)i * n_bytes, n_bytes);
  return yk_dtype_load(dtype, &element, 0);
}

/* m^power, divided by the square root of the product of its maximum and minimum. */
static void power_scales(const task *t, double power, float *scales)
{
  double most = 0, least = INFINITY;
  for (int64_t i = 0; i < t->k; i++) {
    double scale = fmax(pow(t->means[i], power), 1e-4);
    most = fmax(most, scale);
    least = fmin(least, scale);
    scales[i] = (float)scale;
  }
  float middle = (float)sqrt(most * least);
  for (int64_t i = 0; i < t->k; i++) scales[i] /= middle;
}

/* Whether a column of a float weight stays exact when multiplied by scale. */
static bool takes_exactly(const yk_weight_view *weight, int64_t column, float scale)
{
  for (int64_t row = 0; row < weight->n; row++) {
    float exact = element_of(weight->dtype, weight->plain, row * weight->k + column) * scale;
    uint32_t element = 0;
    yk_dtype_store(weight->dtype, &element, 0, exact);
    if (yk_dtype_load(weight->dtype, &element, 0) != exact) return false;
  }
  return true;
}

/* Round scales to powers of two, which multiply the weights of float readers without error; 1 if a product would leave
 * the range of the weights' type. */
static void round_to_exact(const task *t, float *scales)
{
  for (int64_t i = 0; i < t->k; i++) {
    scales[i] = exp2f(roundf(log2f(scales[i])));
    for (int j = 0; j < t->roles.n_float_readers; j++)
      if (!takes_exactly(&t->float_readers[j], i, scales[i])) scales[i] = 1;
  }
}

/* A router's choices must not change, so that its product with scaled inputs must be exact. */
static bool needs_exact(const task *t)
{
  for (int i = 0; i < t->roles.n_float_readers; i++)
    if (yk_weight_is_float(t->roles.float_readers[i])) return true;
  return false;
}

/* Divide the norm's elements by the scales, then set each scale to the quotient of the old element and the new element.
 * The scale becomes 1 if that quotient is not close to the scale (a norm element of zero, or outside the range of its
 * type). With a router among the readers the quotient must equal the scale. norm [n] of the view's type. */
static void divide_norm(const task *t, float *scales, void *norm)
{
  const float tolerance = needs_exact(t) ? 0 : 0.02f;
  for (int64_t i = 0; i < t->norm.n; i++) {
    float stored = element_of(t->norm.dtype, t->norm.data, i), before = t->norm_offset + stored;
    yk_dtype_store(t->norm.dtype, norm, (size_t)i, before / scales[i] - t->norm_offset);
    float after = t->norm_offset + yk_dtype_load(t->norm.dtype, norm, (size_t)i), ratio = before / after;
    bool is_sound = isfinite(ratio) && ratio > 0 && fabsf(ratio / scales[i] - 1) <= tolerance;
    scales[i] = is_sound ? ratio : 1;
    if (!is_sound) yk_dtype_store(t->norm.dtype, norm, (size_t)i, stored);
  }
}

static void make_scales(const task *t, int power, float *scales, void *norm)
{
  power_scales(t, (double)power / GRID, scales);
  if (needs_exact(t)) round_to_exact(t, scales);
  if (t->roles.writer_is_norm) divide_norm(t, scales, norm);
}

/* ---- The loss of given scales ------------------------------------------------------------------------------------ */

static yk_status rows_of(yk_awq_search *s, const yk_weight_view *view, const void **out, yk_err *err)
{
  const yk_tensor tensor = {.name = view->tensor,
                            .n_dims = 2,
                            .shape = {view->n, view->k},
                            .data = view->plain,
                            .n_bytes = (uint64_t)(view->n * view->k) * yk_dtype_bytes(view->dtype),
                            .column_stride = view->plain_stride};
  return yk_quantize_rows_of(&tensor, &s->rows_of_reader, out, err);
}

static yk_status floats_of(yk_awq_search *s, const yk_weight_place *place, yk_awq_floats *out, yk_err *err)
{
  const yk_weight_module m = yk_weight_module_of(s->config, place->role, place->layer);
  char name[YK_WEIGHT_NAME_BYTES];
  yk_weight_view view;
  yk_weight_name_of_expert(s->config, place->role, place->layer, place->expert, name);
  YK_TRY(yk_checkpoint_linear(s->checkpoint, name, m.k, m.n, false, &view, err));
  const void *rows;
  YK_TRY(rows_of(s, &view, &rows, err));
  *out = (yk_awq_floats){.w = rows,
                         .dtype = view.dtype,
                         .n = m.n,
                         .k = m.k,
                         .group = yk_quantize_group(s->rank->run->plan.group_size, m.k)};
  return YK_OK;
}

static yk_status reserve_scratch(yk_awq_search *s, const yk_awq_floats *weight, yk_err *err)
{
  int64_t n_floats = yk_awq_scratch_floats(weight->n, weight->k, s->n_rows);
  return yk_quantize_reserve(s->rank, &s->scratch, (size_t)n_floats * sizeof(float), err);
}

/* losses[i] += the change of a reader's outputs caused by scales i of the grid, [GRID, k] on the device: the sum of
 * squares over rows and outputs. */
static yk_status add_losses(yk_awq_search *s, const yk_weight_place *reader, yk_input_kind kind, const float *grid,
                            double *losses, yk_err *err)
{
  const yk_quantize_run *run = s->rank->run;
  yk_device *dev = s->rank->dev;
  yk_awq_floats weight;
  YK_TRY(floats_of(s, reader, &weight, err));
  YK_TRY(show_rows(s, reader, kind, err));
  if (s->n_rows == 0) return YK_OK;
  size_t n_bytes = (size_t)(weight.n * weight.k) * yk_dtype_bytes(weight.dtype);
  YK_TRY(yk_quantize_show(s->rank, &s->reader, weight.w, n_bytes, &weight.w, err));
  YK_TRY(reserve_scratch(s, &weight, err));
  for (int i = 0; i < GRID; i++) {
    double loss;
    weight.k_scales = grid + i * weight.k;
    const yk_awq_loss_args args = {.weight = weight,
                                   .rows = s->rows,
                                   .n_rows = s->n_rows,
                                   .scratch = s->scratch.memory,
                                   .found = s->rank->found.memory};
    YK_TRY(dev->ops->awq_loss(dev, &args, err));
    YK_TRY(yk_quantize_found(s->rank, &weight, &loss, err));
    losses[i] += loss;
    YK_TRY(yk_quantize_progress(s->rank, "searching", atomic_load(&run->done_bytes), run->plan.total_bytes, err));
  }
  return YK_OK;
}

/* Add the losses of all readers. Readers of one expert follow each other, since they read the same rows. */
static yk_status find_losses(yk_awq_search *s, const yk_awq_inputs *inputs, const task *t, const float *grid,
                             double *losses, yk_err *err)
{
  bool is_one = inputs->kind == YK_INPUT_EXPERT_DOWN;
  int32_t n_experts = is_one ? 1 : (int32_t)yk_max_i64(1, s->config->experts.n_experts);
  for (int32_t e = 0; e < n_experts; e++)
    for (int i = 0; i < t->roles.n_readers; i++) {
      const yk_weight_place reader = {t->roles.readers[i], inputs->layer, is_one ? inputs->expert : e};
      if (!is_one && e >= yk_weight_count(s->config, reader.role, inputs->layer)) continue;
      YK_TRY(add_losses(s, &reader, inputs->kind, grid, losses, err));
    }
  return YK_OK;
}

/* ---- The search -------------------------------------------------------------------------------------------------- */

/* The input of this kind that an output of the writer becomes; -1: none. For each head, kv_b writes the parts of keys
 * and then the values, which o reads. */
static int64_t input_of_output(const yk_model_config *c, yk_weight_role writer, int64_t n)
{
  const yk_latent_config *latent = &c->latent;
  if (writer != YK_ROLE_KV_B) return n;
  int64_t width = latent->nope_dim + latent->value_dim, place = n % width - latent->nope_dim;
  return place < 0 ? -1 : n / width * latent->value_dim + place;
}

static yk_status invert(const yk_awq_search *s, int32_t layer, const task *t, yk_awq_fold *fold, yk_err *err)
{
  if (t->roles.writer_is_norm) return YK_OK;
  const yk_weight_module m = yk_weight_module_of(s->config, t->roles.writer, layer);
  fold->inverses = malloc((size_t)m.n * sizeof *fold->inverses);
  if (!fold->inverses) return no_memory(err);
  for (int64_t i = 0; i < m.n; i++) {
    const int64_t own = i - m.first_n;
    int64_t input = own >= 0 && own < m.n_own ? input_of_output(s->config, t->roles.writer, own) : -1;
    fold->inverses[i] = input < 0 ? 1.0f : 1.0f / fold->scales[input];
  }
  return YK_OK;
}

/* grid [GRID, k]: host memory. */
static yk_status search_grid(yk_awq_search *s, const yk_awq_inputs *inputs, const task *t, float *grid,
                             yk_awq_fold *out, yk_err *err)
{
  double losses[GRID] = {0};
  const void *shown;
  int best = 0;
  for (int i = 0; i < GRID; i++) make_scales(t, i, grid + i * t->k, out->norm);
  YK_TRY(yk_quantize_show(s->rank, &s->grid, grid, (size_t)(GRID * t->k) * sizeof *grid, &shown, err));
  YK_TRY(find_losses(s, inputs, t, shown, losses, err));
  for (int i = 1; i < GRID; i++)
    if (losses[i] < losses[best]) best = i;
  make_scales(t, best, out->scales, out->norm);
  yk_log_write(&s->rank->run->options->log, YK_LOG_DEBUG, "layer %d, inputs %d, expert %d: power %g, loss %g",
               (int)inputs->layer, (int)inputs->kind, (int)inputs->expert, (double)best / GRID, losses[best]);
  return invert(s, inputs->layer, t, out, err);
}

static yk_status read_task(const yk_awq_search *s, const yk_awq_inputs *inputs, task *t, yk_err *err)
{
  char name[YK_WEIGHT_NAME_BYTES];
  if (t->roles.writer_is_norm)
    YK_TRY(yk_checkpoint_vector(s->checkpoint, t->roles.writer, inputs->layer, t->k, &t->norm, err));
  for (int i = 0; i < t->roles.n_float_readers; i++) {
    const yk_weight_module m = yk_weight_module_of(s->config, t->roles.float_readers[i], inputs->layer);
    yk_weight_name(s->config, t->roles.float_readers[i], inputs->layer, name);
    YK_TRY(yk_checkpoint_matrix(s->checkpoint, name, m.n, m.k, &t->float_readers[i], err));
  }
  return YK_OK;
}

yk_status yk_awq_search_scales(yk_awq_search *search, const yk_awq_inputs *inputs, yk_awq_fold *out, yk_err *err)
{
  task t = {.roles = yk_input_roles_of(search->config, inputs->layer, inputs->kind),
            .norm_offset = search->config->norm_offset};
  size_t k = (size_t)(t.k = yk_input_size(search->config, inputs->layer, &t.roles));
  YK_TRY(read_task(search, inputs, &t, err));
  float *grid = malloc(GRID * k * sizeof *grid);
  t.means = malloc(k * sizeof *t.means);
  out->scales = malloc(k * sizeof *out->scales);
  out->norm = t.roles.writer_is_norm ? malloc(k * sizeof(float)) : NULL;
  bool has_memory = grid && t.means && out->scales && (out->norm || !t.roles.writer_is_norm);
  yk_status status = has_memory ? find_means(search, inputs, t.means, err) : no_memory(err);
  if (status == YK_OK) status = search_grid(search, inputs, &t, grid, out, err);
  free(grid);
  free(t.means);
  return status;
}

void yk_awq_fold_free(yk_awq_fold *fold)
{
  free(fold->scales);
  free(fold->inverses);
  free(fold->norm);
  *fold = (yk_awq_fold){0};
}

/* ---- Limits ------------------------------------------------------------------------------------------------------ */

yk_status yk_awq_search_limits(yk_awq_search *search, const yk_weight_place *reader, yk_awq_floats *weight, yk_err *err)
{
  const yk_quantize_rank *rank = search->rank;
  if (weight->group > YK_AWQ_MAX_LIMITED_GROUP) return YK_OK;
  YK_TRY(show_rows(search, reader, yk_input_read_by(search->config, reader->layer, reader->role), err));
  if (search->n_rows == 0) return YK_OK;
  size_t n_limits = (size_t)(weight->n * (weight->k / weight->group));
  YK_TRY(reserve_scratch(search, weight, err));
  YK_TRY(yk_quantize_reserve(rank, &search->grams, (size_t)(weight->k * weight->group) * sizeof(float), err));
  YK_TRY(yk_quantize_reserve(rank, &search->limits, n_limits * sizeof(float), err));
  const yk_awq_limits_args args = {.weight = *weight,
                                   .rows = search->rows,
                                   .n_rows = search->n_rows,
                                   .grams = search->grams.memory,
                                   .scratch = search->scratch.memory,
                                   .limits = search->limits.memory,
                                   .found = rank->found.memory};
  YK_TRY(rank->dev->ops->awq_limits(rank->dev, &args, err));
  weight->limits = search->limits.memory;
  return yk_quantize_found(rank, weight, NULL, err);
}

void yk_awq_search_free(yk_awq_search *search)
{
  yk_quantize_buffer *const buffers[] = {&search->shown_rows, &search->reader, &search->grid,
                                         &search->scratch,    &search->grams,  &search->limits};
  for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++) yk_quantize_release(search->rank, buffers[i]);
  free(search->rows_of_reader.memory);
  free(search->gathered);
  yk_calibration_free(&search->calibration);
}

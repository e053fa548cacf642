/* cpu_awq_quantize.c - the definition of kernels/awq_quantize.h, a group of some outputs at a time. */
#include "kernels/cpu/awq_rounding.h"
#include "kernels/cpu/cpu_awq.h"
#include "kernels/weight.h"

enum {
  TILE_WORDS = 16, /* words of qweight, from neighbouring outputs: a cache line */
  TILE_OUTPUTS = TILE_WORDS * 8,
  MIN_THREAD_TILES = 2
};

static const uint8_t nibble_of_column[8] = YK_AWQ_NIBBLE_OF_COLUMN;

typedef struct task {
  const yk_cpu_simd *simd;
  const yk_awq_floats *weight;
  const yk_awq_tensors *out; /* or NULL: */
  float *errors;
  _Atomic int64_t first_bad; /* the least row * groups + group that cannot be quantised; INT64_MAX: none */
} task;

static int64_t n_groups_of(const yk_awq_floats *weight)
{
  return weight->k / weight->group;
}

static void read_cut(const task *t, int64_t row, int64_t group, int64_t k, int count, float *w)
{
  yk_awq_read(t->simd, t->weight, row, k, count, w);
  if (t->weight->limits) yk_awq_cut(w, count, t->weight->limits[row * n_groups_of(t->weight) + group]);
}

static yk_awq_group find_group(task *t, int64_t row, int64_t group)
{
  yk_awq_range range = {0};
  yk_awq_group found;
  float w[YK_AWQ_CHUNK];
  int64_t begin = group * t->weight->group, end = begin + t->weight->group;
  for (int64_t k = begin; k < end; k += YK_AWQ_CHUNK) {
    int count = yk_awq_chunk(k, end);
    read_cut(t, row, group, k, count, w);
    yk_awq_range_add(&range, w, count);
  }
  if (!yk_awq_group_of(&range, &found)) {
    yk_awq_note_bad(&t->first_bad, row * n_groups_of(t->weight) + group);
    found = (yk_awq_group){.scale = 1.0f};
  }
  return found;
}

/* ---- Words ------------------------------------------------------------------------------------------------------- */

/* Words of inputs k .. k + count - 1 for n_words words of outputs from row on. */
static void write_chunk(const task *t, const yk_awq_group *groups, int64_t row, int64_t n_words, int64_t group,
                        int64_t k, int count)
{
  uint32_t words[TILE_WORDS][YK_AWQ_CHUNK] = {{0}};
  float w[YK_AWQ_CHUNK];
  for (int64_t i = 0; i < n_words * 8; i++) {
    read_cut(t, row + i, group, k, count, w);
    yk_awq_add_words(&groups[i], w, count, 4 * nibble_of_column[i % 8], words[i / 8]);
  }
  uint32_t *out = t->out->qweight + k * (t->weight->n / 8) + row / 8;
  for (int i = 0; i < count; i++, out += t->weight->n / 8)
    for (int64_t j = 0; j < n_words; j++) out[j] = words[j][i];
}

static void write_tile(task *t, int64_t tile, int64_t group)
{
  yk_awq_group groups[TILE_OUTPUTS];
  int64_t n = t->weight->n, row = tile * TILE_OUTPUTS, n_words = yk_min_i64(TILE_WORDS, (n - row) / 8);
  for (int64_t i = 0; i < n_words * 8; i++) {
    groups[i] = find_group(t, row + i, group);
    t->out->scales[group * n + row + i] = groups[i].scale_bits;
  }
  for (int64_t j = 0; j < n_words; j++) {
    uint32_t zeros = 0;
    for (int i = 0; i < 8; i++) zeros |= (uint32_t)groups[8 * j + i].zero << 4 * nibble_of_column[i];
    t->out->qzeros[group * (n / 8) + row / 8 + j] = zeros;
  }
  int64_t begin = group * t->weight->group, end = begin + t->weight->group;
  for (int64_t k = begin; k < end; k += YK_AWQ_CHUNK)
    write_chunk(t, groups, row, n_words, group, k, yk_awq_chunk(k, end));
}

static void write_tiles(void *context, int thread, int64_t begin, int64_t end)
{
  (void)thread;
  task *t = context;
  int64_t n_groups = n_groups_of(t->weight);
  for (int64_t i = begin; i < end; i++) write_tile(t, i / n_groups, i % n_groups);
}

/* ---- Errors of rounding ------------------------------------------------------------------------------------------ */

static void write_errors(task *t, int64_t row, int64_t group)
{
  const yk_awq_floats *weight = t->weight;
  yk_awq_floats plain = *weight;
  plain.n_scales = plain.k_scales = NULL;
  float w[YK_AWQ_CHUNK], before[YK_AWQ_CHUNK];
  yk_awq_group found = find_group(t, row, group);
  int64_t begin = group * weight->group, end = begin + weight->group;
  for (int64_t k = begin; k < end; k += YK_AWQ_CHUNK) {
    int count = yk_awq_chunk(k, end);
    float *out = t->errors + row * weight->k + k;
    read_cut(t, row, group, k, count, w);
    yk_awq_values(&found, w, count, out);
    yk_awq_read(t->simd, &plain, row, k, count, before);
    if (weight->n_scales)
      for (int i = 0; i < count; i++) out[i] /= weight->n_scales[row];
    if (weight->k_scales)
      for (int i = 0; i < count; i++) out[i] /= weight->k_scales[k + i];
    for (int i = 0; i < count; i++) out[i] -= before[i];
  }
}

static void write_error_rows(void *context, int thread, int64_t begin, int64_t end)
{
  (void)thread;
  task *t = context;
  for (int64_t row = begin; row < end; row++)
    for (int64_t group = 0; group < n_groups_of(t->weight); group++) write_errors(t, row, group);
}

/* ---- Whole weights ----------------------------------------------------------------------------------------------- */

int64_t yk_awq_quantize(yk_cpu_pool *pool, const yk_awq_floats *weight, const yk_awq_tensors *out)
{
  task t = {.simd = yk_cpu_simd_best(), .weight = weight, .out = out, .first_bad = INT64_MAX};
  int64_t n_tiles = yk_ceil_div_i64(weight->n, TILE_OUTPUTS);
  yk_cpu_pool_run(pool, n_tiles * n_groups_of(weight), MIN_THREAD_TILES, write_tiles, &t);
  return yk_awq_first_bad(&t.first_bad);
}

int64_t yk_awq_errors(yk_cpu_pool *pool, const yk_awq_floats *weight, float *errors)
{
  task t = {.simd = yk_cpu_simd_best(), .weight = weight, .errors = errors, .first_bad = INT64_MAX};
  yk_cpu_pool_run(pool, weight->n, yk_max_i64(1, TILE_OUTPUTS * YK_AWQ_CHUNK / weight->k), write_error_rows, &t);
  return yk_awq_first_bad(&t.first_bad);
}

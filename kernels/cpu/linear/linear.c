/* linear.c - linear layers on the CPU device, for every row of the table of formats (format.h): preparing a list of
 * parts. multiply.c multiplies rows with them. */
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "kernels/cpu/linear/adapters.h"
#include "kernels/cpu/linear/prepared.h"
#include "kernels/cpu/linear/slices.h"

enum {
  QUANTISED_ROW_ALIGNMENT_BYTES = 64,
  ROW_BLOCK_BYTES = 768 << 10, /* three quarters of the L2 cache of most processors */
  MIN_ROW_BLOCK = 12           /* with fewer rows, unpacking the weights would take longer than the multiplication */
};

static yk_status check_formats(const yk_linear_spec *spec, yk_err *err)
{
  for (int i = 0; i < spec->n_parts; i++)
    for (const yk_cpu_format *const *row = yk_cpu_formats; *row; row++)
      if ((*row)->weight_format == spec->parts[i].weight.format && (*row)->check)
        YK_TRY((*row)->check(&spec->parts[i], i, err));
  return YK_OK;
}

static const yk_cpu_format *format_of(const yk_linear_spec *spec, int i)
{
  for (const yk_cpu_format *const *row = yk_cpu_formats; *row; row++)
    if ((*row)->weight_format == spec->parts[i].weight.format && (!(*row)->takes || (*row)->takes(spec, i)))
      return *row;
  return NULL;
}

int64_t yk_cpu_quantised_row_bytes(const yk_cpu_part *part)
{
  return yk_round_up_i64(part->format->quantised_row_bytes(part->k), QUANTISED_ROW_ALIGNMENT_BYTES);
}

static bool have_same_rows(const yk_cpu_part *a, const yk_cpu_part *b)
{
  return a->format == b->format && a->x_copy == b->x_copy && yk_inputs_are_alike(&a->inputs, &b->inputs);
}

int yk_cpu_first_of_rows(const yk_linear *linear, int i)
{
  const yk_cpu_part *part = &linear->parts[i];
  int first = 0;
  while (!have_same_rows(&linear->parts[first], part)) first++;
  return first;
}

/* Compares the orders of every matrix. */
static bool is_same_order(const yk_linear_part *a, const yk_linear_part *b, int32_t n_matrices)
{
  int64_t k = yk_range_size(a->k);
  return a->x_order && b->x_order && yk_range_size(b->k) == k &&
         memcmp(a->x_order, b->x_order, (size_t)(n_matrices * k) * sizeof *a->x_order) == 0;
}

/* Parts that were quantised together have their inputs in the same order: rows are permuted into that order once. */
static void choose_x_copy(const yk_linear_spec *spec, yk_linear *linear, int i)
{
  yk_cpu_part *part = &linear->parts[i];
  part->has_x_order = spec->parts[i].x_size > 0;
  if (!part->has_x_order) return;
  for (int other = 0; other < i && part->x_copy == 0; other++)
    if (is_same_order(&spec->parts[other], &spec->parts[i], spec->n_matrices))
      part->x_copy = linear->parts[other].x_copy;
  if (part->x_copy == 0) part->x_copy = linear->n_x_copies++;
}

static void lay_out_quantised(yk_linear *linear, int i)
{
  yk_cpu_part *part = &linear->parts[i];
  if (!part->format->quantise_row) return;
  int first = yk_cpu_first_of_rows(linear, i);
  part->quantised = first == i ? linear->quantised_bytes : linear->parts[first].quantised;
  if (first == i)
    linear->quantised_bytes += yk_min_i64(linear->max_tokens, YK_CPU_ROW_BLOCK) * yk_cpu_quantised_row_bytes(part);
}

/* Sets the offsets of the arrays after a part's weights in a matrix. */
static void lay_out_memory(yk_linear *linear, yk_cpu_part *part)
{
  part->bias = yk_round_up_i64(part->weights + part->n_bytes, YK_CPU_PART_ALIGNMENT_BYTES);
  part->x_order = yk_round_up_i64(part->bias + (part->has_bias ? part->n_panels * YK_CPU_PANEL * 4 : 0),
                                  YK_CPU_PART_ALIGNMENT_BYTES);
  int64_t order_bytes = part->has_x_order ? part->k * (int64_t)sizeof(int32_t) : 0;
  linear->matrix_bytes = yk_round_up_i64(part->x_order + order_bytes, YK_CPU_PART_ALIGNMENT_BYTES);
}

/* Rows of a block stay in the L2 cache while all columns are multiplied with them. */
static void choose_row_block(yk_linear *linear)
{
  int64_t row_bytes = 1;
  for (int i = 0; i < linear->n_parts; i++) {
    const yk_cpu_part *part = &linear->parts[i];
    int64_t part_bytes = part->format->quantise_row ? yk_cpu_quantised_row_bytes(part) : part->n_k * 4;
    row_bytes = yk_max_i64(row_bytes, part_bytes);
  }
  linear->row_block = (int)yk_min_i64(yk_max_i64(ROW_BLOCK_BYTES / row_bytes, MIN_ROW_BLOCK), YK_CPU_ROW_BLOCK);
}

/* Lays out a layer without its memory. */
static yk_status lay_out(const yk_linear_spec *spec, yk_dtype dtype, yk_linear *linear, yk_err *err)
{
  int64_t x_size = yk_linear_x_size(&spec->parts[0]), first_column = 0;
  *linear = (yk_linear){.n_parts = spec->n_parts,
                        .n_matrices = spec->n_matrices,
                        .activation = spec->activation,
                        .f32_output = spec->f32_output,
                        .is_grouped = spec->is_grouped,
                        .max_tokens = spec->max_tokens,
                        .x_size = x_size,
                        .n_k = yk_round_up_i64(x_size, YK_CPU_CHUNK_K),
                        .n_x_copies = 1};
  for (int i = 0; i < spec->n_parts; i++) {
    const yk_linear_part *source = &spec->parts[i];
    const yk_cpu_format *format = format_of(spec, i);
    if (!format)
      return yk_err_set(err, YK_E_UNSUPPORTED, "linear part %d: no format of the cpu device takes weight format %d", i,
                        (int)source->weight.format);
    int64_t k = yk_range_size(source->k), n = yk_range_size(source->n);
    yk_cpu_part *part = &linear->parts[i];
    *part = (yk_cpu_part){.format = format,
                          .k = k,
                          .n_k = yk_round_up_i64(k, YK_CPU_CHUNK_K),
                          .n = n,
                          .n_panels = yk_ceil_div_i64(n, YK_CPU_PANEL),
                          .first_column = first_column,
                          .weights = linear->matrix_bytes,
                          .has_bias = source->use_bias,
                          .inputs = source->weight.inputs};
    choose_x_copy(spec, linear, i);
    format->lay_out(spec, i, dtype, part);
    lay_out_memory(linear, part);
    first_column += n;
    linear->n_k = yk_max_i64(linear->n_k, part->n_k);
    lay_out_quantised(linear, i);
  }
  linear->x_stride = linear->n_k + YK_CPU_LANES;
  choose_row_block(linear);
  yk_cpu_adapters_lay_out(spec, linear);
  return YK_OK;
}

static int64_t bytes_of_slices(const yk_linear_spec *spec)
{
  int64_t n_bytes = yk_cpu_slices_bytes(spec);
  for (int i = 0; i < spec->k_slices; i++) {
    const yk_linear_spec slice = yk_cpu_slice_of(spec, i);
    n_bytes += yk_cpu_linear_bytes(&slice);
  }
  return n_bytes;
}

int64_t yk_cpu_linear_bytes(const yk_linear_spec *spec)
{
  if (yk_cpu_slices_are_of(spec)) return bytes_of_slices(spec);
  yk_linear linear;
  yk_err refusal = YK_ERR_INIT;
  if (lay_out(spec, YK_F32, &linear, &refusal) != YK_OK) return 0; /* linear_create will report the reason */
  return linear.n_matrices * linear.matrix_bytes + yk_cpu_adapters_bytes(&linear);
}

bool yk_cpu_linear_keeps(const yk_linear_spec *spec, int i)
{
  return format_of(spec, i) != NULL;
}

static void load_bias(const yk_linear_part *source, float *bias)
{
  const yk_weight_view *weight = &source->weight;
  size_t n_bytes = yk_dtype_bytes(weight->bias_dtype);
  for (int64_t i = source->n.begin; i < source->n.end; i++) {
    uint32_t element = 0;
    memcpy(&element, (const char *)weight->bias + (size_t)i * n_bytes, n_bytes);
    bias[i - source->n.begin] = yk_dtype_load(weight->bias_dtype, &element, 0);
  }
}

static void load(yk_cpu_device *cpu, const yk_linear_spec *spec, const yk_linear *linear)
{
  for (int32_t m = 0; m < linear->n_matrices; m++)
    for (int i = 0; i < linear->n_parts; i++) {
      const yk_cpu_part *part = &linear->parts[i];
      const yk_linear_part source = yk_linear_part_of(&spec->parts[i], m);
      char *memory = linear->memory + m * linear->matrix_bytes;
      if (part->has_bias) load_bias(&source, (float *)(void *)(memory + part->bias));
      if (part->has_x_order) memcpy(memory + part->x_order, source.x_order, (size_t)part->k * sizeof *source.x_order);
      if (part->k == 0 || part->n == 0 || part->is_resident) continue;
      part->format->load(cpu->pool, &source, part, memory + part->weights);
    }
}

/* Replaces *buffer by a larger one; the contents are lost. Vectors that cross cache lines take twice as long to load:
 * rows and strips begin at the start of the allocation, or whole vectors after it. */
static yk_status grow(yk_device *dev, void **buffer, int64_t *n_bytes, int64_t n_wanted, yk_err *err)
{
  if (n_wanted <= *n_bytes) return YK_OK;
  void *grown;
  YK_TRY(yk_cpu_alloc(dev, (size_t)n_wanted, &grown, err));
  yk_cpu_free(dev, *buffer);
  *buffer = grown;
  *n_bytes = n_wanted;
  return YK_OK;
}

/* Inputs as float32 and quantised: buffers for the device's largest layer. */
static yk_status reserve(yk_cpu_device *cpu, const yk_linear *linear, yk_err *err)
{
  int64_t n_rows = yk_min_i64(yk_max_i64(linear->max_tokens, 1), linear->row_block);
  int64_t x_bytes = linear->n_x_copies * n_rows * linear->x_stride * (int64_t)sizeof(float);
  YK_TRY(grow(&cpu->base, &cpu->x_f32, &cpu->x_f32_bytes, x_bytes, err));
  YK_TRY(grow(&cpu->base, &cpu->x_adapted, &cpu->x_adapted_bytes, n_rows * yk_cpu_adapters_row_bytes(linear), err));
  return grow(&cpu->base, &cpu->x_quantised, &cpu->x_quantised_bytes, linear->quantised_bytes, err);
}

static yk_status create_slices(yk_device *dev, const yk_linear_spec *spec, yk_linear **out, yk_err *err)
{
  yk_cpu_device *cpu = yk_cpu_device_of(dev);
  YK_TRY(grow(dev, &cpu->slices, &cpu->slices_bytes, yk_cpu_linear_shared_bytes(spec), err));
  yk_linear *linear = calloc(1, sizeof *linear);
  if (!linear) return yk_err_set(err, YK_E_NOMEM, "cpu device: no memory for a linear layer");
  linear->n_matrices = 1;
  linear->max_tokens = spec->max_tokens;
  const yk_status status = yk_cpu_slices_create(dev, spec, &linear->slices, err);
  if (status != YK_OK) {
    yk_cpu_linear_destroy(dev, linear);
    return status;
  }
  *out = linear;
  return YK_OK;
}

yk_status yk_cpu_linear_create(yk_device *dev, const yk_linear_spec *spec, yk_linear **out, yk_err *err)
{
  yk_cpu_device *cpu = yk_cpu_device_of(dev);
  yk_linear prepared;
  YK_TRY(yk_linear_check(spec, err));
  YK_TRY(check_formats(spec, err));
  if (yk_cpu_slices_are_of(spec)) return create_slices(dev, spec, out, err);
  YK_TRY(lay_out(spec, dev->dtype, &prepared, err));
  YK_TRY(reserve(cpu, &prepared, err));
  yk_linear *linear = malloc(sizeof *linear);
  if (!linear) return yk_err_set(err, YK_E_NOMEM, "cpu device: no memory for a linear layer");
  *linear = prepared;
  void *memory = NULL;
  yk_status status = yk_cpu_weights_alloc(&cpu->chunk, (size_t)(linear->n_matrices * linear->matrix_bytes),
                                          &linear->chunk, &memory, err);
  if (status != YK_OK) {
    free(linear);
    return status;
  }
  linear->memory = memory;
  status = yk_cpu_adapters_alloc(dev, linear, err);
  if (status != YK_OK) {
    yk_cpu_linear_destroy(dev, linear);
    return status;
  }
  load(cpu, spec, linear);
  *out = linear;
  return YK_OK;
}

void yk_cpu_linear_destroy(yk_device *dev, yk_linear *linear)
{
  if (!linear) return;
  if (linear->slices) {
    yk_cpu_slices_destroy(dev, linear->slices);
    free(linear);
    return;
  }
  yk_cpu_weights_free(&yk_cpu_device_of(dev)->chunk, linear->chunk, linear->memory);
  yk_cpu_adapters_free(dev, linear);
  free(linear);
}

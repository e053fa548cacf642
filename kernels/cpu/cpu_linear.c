/* cpu_linear.c - linear layers on the CPU device: preparing a list of parts, and the product over them. */
#include "kernels/cpu/cpu_linear.h"

#include <stdlib.h>
#include <string.h>

enum {
  PART_ALIGNMENT_BYTES = 256,
  BLOCK_PANELS = YK_CPU_BLOCK_COLUMNS / YK_CPU_PANEL,
  MIN_THREAD_INPUTS = 1 << 14,
  MIN_THREAD_PRODUCTS = 1 << 16 /* multiply-adds below which a thread costs more than it saves */
};

static int64_t n_groups_of(const yk_linear_part *part)
{
  int64_t k = yk_range_size(part->k);
  return part->weight.format == YK_WEIGHT_AWQ && k > 0 ? yk_ceil_div_i64(k, part->group_local) : 0;
}

/* A lone plain part that the device holds already is multiplied where it is. */
static bool is_resident(const yk_linear_spec *spec)
{
  return spec->n_parts == 1 && spec->parts[0].is_resident && spec->parts[0].weight.format == YK_WEIGHT_PLAIN;
}

/* Where a part's arrays lie when it begins at byte first. */
static yk_cpu_part_layout layout_of(const yk_linear_spec *spec, int i, int64_t first)
{
  const yk_linear_part *part = &spec->parts[i];
  int64_t k = yk_range_size(part->k), n = yk_range_size(part->n);
  bool is_awq = part->weight.format == YK_WEIGHT_AWQ;
  yk_cpu_part_layout layout = {.n_panels = yk_ceil_div_i64(n, YK_CPU_PANEL),
                               .n_lines = yk_ceil_div_i64(k, YK_CPU_CHUNK_K),
                               .n_groups = n_groups_of(part)};
  int64_t columns = layout.n_panels * YK_CPU_PANEL;
  int64_t weight_bytes =
      is_awq ? columns * layout.n_lines * YK_CPU_LANES * 4 : n * k * (int64_t)yk_dtype_bytes(part->weight.dtype);
  if (is_resident(spec)) weight_bytes = 0;
  layout.weights = first;
  layout.scales = yk_round_up_i64(layout.weights + weight_bytes, PART_ALIGNMENT_BYTES);
  layout.zeros = yk_round_up_i64(layout.scales + columns * layout.n_groups * 4, PART_ALIGNMENT_BYTES);
  layout.bias = yk_round_up_i64(layout.zeros + columns * layout.n_groups, PART_ALIGNMENT_BYTES);
  layout.end = yk_round_up_i64(layout.bias + (part->use_bias ? columns * 4 : 0), PART_ALIGNMENT_BYTES);
  return layout;
}

int64_t yk_cpu_linear_bytes(const yk_linear_spec *spec)
{
  int64_t end = 0;
  for (int i = 0; i < spec->n_parts; i++) end = layout_of(spec, i, end).end;
  return end;
}

static void pack_bias(const yk_linear_part *source, float *bias)
{
  const yk_weight_view *weight = &source->weight;
  size_t n_bytes = yk_dtype_bytes(weight->bias_dtype);
  for (int64_t i = source->n.begin; i < source->n.end; i++) {
    uint32_t element = 0;
    memcpy(&element, (const char *)weight->bias + (size_t)i * n_bytes, n_bytes);
    bias[i - source->n.begin] = yk_dtype_load(weight->bias_dtype, &element, 0);
  }
}

static void pack_part(yk_cpu_device *cpu, const yk_linear_part *source, yk_cpu_part *part)
{
  yk_cpu_pack pack = {source, part};
  if (part->k == 0 || part->n == 0) return;
  if (part->format == YK_WEIGHT_AWQ)
    yk_cpu_pool_run(cpu->pool, part->layout.n_panels, 1, yk_cpu_pack_awq, &pack);
  else
    yk_cpu_pool_run(cpu->pool, part->n, 1, yk_cpu_pack_plain, &pack);
}

static void fill_part(yk_cpu_part *part, const yk_linear_part *source, const yk_cpu_part_layout *layout, char *memory)
{
  *part = (yk_cpu_part){.format = source->weight.format,
                        .dtype = source->weight.dtype,
                        .k = yk_range_size(source->k),
                        .n = yk_range_size(source->n),
                        .stride = yk_range_size(source->k),
                        .group = source->group_local,
                        .layout = *layout,
                        .weights = memory + layout->weights,
                        .scales = (float *)(memory + layout->scales),
                        .zeros = (uint8_t *)memory + layout->zeros};
  if (!source->use_bias) return;
  float *bias = (float *)(memory + layout->bias);
  pack_bias(source, bias);
  part->bias = bias;
}

/* The weight stays where it is: the rows of its slice of n, whole, of the activation type. */
static void borrow(yk_cpu_part *part, const yk_linear_part *source, yk_dtype dtype)
{
  part->dtype = dtype;
  part->stride = source->weight.k;
  part->weights = yk_cpu_at(dtype, source->resident, source->k.begin);
}

static yk_status grow(float **floats, int64_t *n_floats, int64_t n_wanted, yk_err *err)
{
  if (n_wanted <= *n_floats) return YK_OK;
  float *grown = malloc((size_t)n_wanted * sizeof *grown);
  if (!grown)
    return yk_err_set(err, YK_E_CAPACITY, "cpu device: no memory for %lld floats of a product", (long long)n_wanted);
  free(*floats);
  *floats = grown;
  *n_floats = n_wanted;
  return YK_OK;
}

/* Products need their inputs as float32, and each thread a strip of weights: buffers for the device's largest layer. */
static yk_status grow_floats(yk_cpu_device *cpu, int64_t n_rows, int64_t x_stride, int64_t n_k, yk_err *err)
{
  YK_TRY(grow(&cpu->x_f32, &cpu->x_f32_elements, yk_min_i64(yk_max_i64(n_rows, 1), YK_CPU_ROW_BLOCK) * x_stride, err));
  return grow(&cpu->w_f32, &cpu->w_f32_elements, cpu->n_threads * n_k * YK_CPU_STRIP, err);
}

yk_status yk_cpu_linear_create(yk_device *dev, const yk_linear_spec *spec, yk_linear **out, yk_err *err)
{
  yk_cpu_device *cpu = yk_cpu_device_of(dev);
  YK_TRY(yk_linear_check(spec, err));
  int64_t k = yk_range_size(spec->parts[0].k);
  int64_t n_k = yk_round_up_i64(k, YK_CPU_CHUNK_K), x_stride = n_k + YK_CPU_LANES;
  YK_TRY(grow_floats(cpu, spec->max_tokens, x_stride, n_k, err));
  yk_linear *linear = calloc(1, sizeof *linear);
  if (!linear) return yk_err_set(err, YK_E_NOMEM, "cpu device: no memory for a linear layer");
  *linear = (yk_linear){.n_parts = spec->n_parts,
                        .epilogue = spec->epilogue,
                        .f32_output = spec->f32_output,
                        .max_tokens = spec->max_tokens,
                        .k = k,
                        .n_k = n_k,
                        .x_stride = x_stride};
  yk_status status =
      yk_cpu_weights_alloc(&cpu->chunk, (size_t)yk_cpu_linear_bytes(spec), &linear->chunk, &linear->memory, err);
  if (status != YK_OK) {
    free(linear);
    return status;
  }
  int64_t first_byte = 0, first_column = 0;
  for (int i = 0; i < spec->n_parts; i++) {
    yk_cpu_part_layout layout = layout_of(spec, i, first_byte);
    fill_part(&linear->parts[i], &spec->parts[i], &layout, linear->memory);
    linear->parts[i].first_column = first_column;
    if (is_resident(spec))
      borrow(&linear->parts[i], &spec->parts[i], dev->dtype);
    else
      pack_part(cpu, &spec->parts[i], &linear->parts[i]);
    first_byte = layout.end;
    first_column += linear->parts[i].n;
  }
  *out = linear;
  return YK_OK;
}

void yk_cpu_linear_destroy(yk_device *dev, yk_linear *linear)
{
  if (!linear) return;
  yk_cpu_weights_free(&yk_cpu_device_of(dev)->chunk, linear->chunk, linear->memory);
  free(linear);
}

/* One block of at most YK_CPU_ROW_BLOCK rows of a forward. */
typedef struct forward_context {
  yk_cpu_device *cpu;
  const yk_linear *linear;
  const yk_linear_args *args;
  int64_t first_row;
  int n_rows;
} forward_context;

/* Rows of x as float32, padded with zeros to whole chunks. */
static void convert_rows(void *context, int thread, int64_t begin, int64_t end)
{
  (void)thread;
  const forward_context *c = context;
  const yk_linear *linear = c->linear;
  yk_dtype dtype = c->cpu->base.dtype;
  for (int64_t row = begin; row < end; row++) {
    float *out = c->cpu->x_f32 + row * linear->x_stride;
    c->cpu->simd->to_f32(out, dtype, yk_cpu_at(dtype, c->args->x, (c->first_row + row) * linear->k), (size_t)linear->k);
    for (int64_t k = linear->k; k < linear->n_k; k++) out[k] = 0.0f;
  }
}

static void multiply_strip(const forward_context *c, const float *w, float *acc)
{
  c->cpu->simd->multiply(acc, YK_CPU_BLOCK_COLUMNS, c->cpu->x_f32, c->linear->x_stride, c->n_rows, w, c->linear->n_k);
}

static void multiply_awq_panel(const forward_context *c, float *w, const yk_cpu_awq_panel *panel, float *acc)
{
  const yk_cpu_simd *simd = c->cpu->simd;
  if (c->n_rows == 1 && simd->awq_row(acc, c->cpu->x_f32, panel)) return;
  for (int first = 0; first < YK_CPU_PANEL; first += YK_CPU_STRIP) {
    simd->awq_unpack(w, panel, first);
    multiply_strip(c, w, acc + first);
  }
}

static void multiply_plain_panel(const forward_context *c, float *w, const yk_cpu_plain_panel *panel, float *acc)
{
  const yk_cpu_simd *simd = c->cpu->simd;
  if (c->n_rows == 1) {
    simd->plain_row(acc, c->cpu->x_f32, panel);
    return;
  }
  for (int first = 0; first < YK_CPU_PANEL; first += YK_CPU_STRIP) {
    simd->plain_unpack(w, panel, first);
    multiply_strip(c, w, acc + first);
  }
}

/* acc[row, 0 .. PANEL - 1] = x times panel i of a part; rows of acc are BLOCK_COLUMNS apart. One row is multiplied with
 * the weights as they are, more share strips of floats: the same sums. */
static void multiply_panel(const forward_context *c, int thread, const yk_cpu_part *part, int64_t i, float *acc)
{
  float *w = c->cpu->w_f32 + thread * c->linear->n_k * YK_CPU_STRIP;
  if (part->format == YK_WEIGHT_AWQ) {
    yk_cpu_awq_panel panel = yk_cpu_awq_panel_of(part, i);
    multiply_awq_panel(c, w, &panel, acc);
  } else {
    yk_cpu_plain_panel panel = yk_cpu_plain_panel_of(part, i);
    multiply_plain_panel(c, w, &panel, acc);
  }
}

/* Panels first .. end - 1 of a part, at most BLOCK_PANELS, with its bias. */
static void multiply_block(const forward_context *c, int thread, const yk_cpu_part *part, int64_t first, int64_t end,
                           float *acc)
{
  for (int64_t i = first; i < end; i++) {
    float *columns = acc + (i - first) * YK_CPU_PANEL;
    if (part->k > 0)
      multiply_panel(c, thread, part, i, columns);
    else
      for (int row = 0; row < c->n_rows; row++) memset(columns + row * YK_CPU_BLOCK_COLUMNS, 0, YK_CPU_PANEL * 4);
  }
  if (!part->bias) return;
  const float *bias = part->bias + first * YK_CPU_PANEL;
  int n = (int)(end - first) * YK_CPU_PANEL;
  for (int row = 0; row < c->n_rows; row++)
    for (int i = 0; i < n; i++) acc[row * YK_CPU_BLOCK_COLUMNS + i] += bias[i];
}

static void store_block(const forward_context *c, const yk_cpu_part *part, int64_t first, int64_t end, const float *acc)
{
  yk_dtype dtype = c->linear->f32_output ? YK_F32 : c->cpu->base.dtype;
  int64_t n_columns = yk_min_i64(end * YK_CPU_PANEL, part->n) - first * YK_CPU_PANEL;
  for (int row = 0; row < c->n_rows; row++) {
    int64_t to = (c->first_row + row) * c->args->y_stride + part->first_column + first * YK_CPU_PANEL;
    c->cpu->simd->from_f32(yk_cpu_at(dtype, c->args->y, to), dtype, acc + row * YK_CPU_BLOCK_COLUMNS,
                           (size_t)n_columns);
  }
}

static void multiply_silu_panels(void *context, int thread, int64_t begin, int64_t end)
{
  const forward_context *c = context;
  const yk_cpu_part *parts = c->linear->parts;
  float *gate = c->cpu->scratch[thread].acc[0], *up = c->cpu->scratch[thread].acc[1];
  for (int64_t first = begin, block_end; first < end; first = block_end) {
    block_end = yk_min_i64(first + BLOCK_PANELS, end);
    multiply_block(c, thread, &parts[0], first, block_end, gate);
    multiply_block(c, thread, &parts[1], first, block_end, up);
    c->cpu->simd->silu_mul(gate, up, (size_t)c->n_rows * YK_CPU_BLOCK_COLUMNS);
    store_block(c, &parts[0], first, block_end, gate);
  }
}

static void multiply_panels(void *context, int thread, int64_t begin, int64_t end)
{
  const forward_context *c = context;
  float *acc = c->cpu->scratch[thread].acc[0];
  int64_t part_first = 0; /* of the part's panels among all */
  for (int p = 0; p < c->linear->n_parts; p++) {
    const yk_cpu_part *part = &c->linear->parts[p];
    int64_t part_end = yk_min_i64(end - part_first, part->layout.n_panels);
    for (int64_t first = yk_max_i64(begin - part_first, 0), block_end; first < part_end; first = block_end) {
      block_end = yk_min_i64(first + BLOCK_PANELS, part_end);
      multiply_block(c, thread, part, first, block_end, acc);
      store_block(c, part, first, block_end, acc);
    }
    part_first += part->layout.n_panels;
  }
}

static void forward_rows(forward_context *c)
{
  const yk_linear *linear = c->linear;
  bool is_silu = linear->epilogue == YK_EPILOGUE_SILU_MUL;
  int64_t n_panels = 0;
  for (int i = 0; i < (is_silu ? 1 : linear->n_parts); i++) n_panels += linear->parts[i].layout.n_panels;
  if (n_panels == 0) return;
  yk_cpu_pool_run(c->cpu->pool, c->n_rows, yk_ceil_div_i64(MIN_THREAD_INPUTS, yk_max_i64(linear->k, 1)), convert_rows,
                  c);
  int64_t panel_products = yk_max_i64(linear->k, 1) * YK_CPU_PANEL * c->n_rows * (is_silu ? 2 : 1);
  yk_cpu_pool_run(c->cpu->pool, n_panels, yk_ceil_div_i64(MIN_THREAD_PRODUCTS, panel_products),
                  is_silu ? multiply_silu_panels : multiply_panels, c);
}

yk_status yk_cpu_linear_forward(yk_device *dev, const yk_linear *linear, const yk_linear_args *args, yk_err *err)
{
  if (args->n_tokens > linear->max_tokens)
    return yk_err_set(err, YK_E_INVAL, "linear: expected at most %d tokens, found %d", linear->max_tokens,
                      args->n_tokens);
  forward_context context = {.cpu = yk_cpu_device_of(dev), .linear = linear, .args = args};
  for (int64_t row = 0; row < args->n_tokens; row += YK_CPU_ROW_BLOCK) {
    context.first_row = row;
    context.n_rows = (int)yk_min_i64(YK_CPU_ROW_BLOCK, args->n_tokens - row);
    forward_rows(&context);
  }
  return YK_OK;
}

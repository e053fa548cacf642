#include "kernels/cuda/layout/layout.h"

#include <string.h>

#include "base/checked.h"
#include "kernels/cuda/blas/blas.h"
#include "kernels/cuda/layout/adapters.h"

/* ---- The table row of a part ------------------------------------------------------------------------------------- */

static bool takes(const yk_cuda_format *format, const yk_linear_spec *spec, int i)
{
  return format->weight_format == spec->parts[i].weight.format && (!format->takes || format->takes(spec, i));
}

/* K of a part's GEMM. */
static int64_t inputs_of(const yk_cuda_format *format, const yk_linear_part *part)
{
  return format->undoes_order ? yk_linear_x_size(part) : yk_range_size(part->k);
}

static int64_t key_of(const yk_cuda_format *format, const yk_linear_part *part)
{
  return format->fuse_key ? format->fuse_key(part) : 0;
}

/* Columns of the x that a row's GEMM reads through an order; 0 if the GEMM reads x in order. */
static int64_t ordered_x_size(const yk_cuda_format *format, const yk_linear_part *part)
{
  return format->undoes_order ? 0 : part->x_size;
}

/* Whether one x serves parts a and b, in every matrix. Orders that are not loaded yet are assumed to be equal. */
static bool have_one_order(const yk_linear_spec *spec, const yk_cuda_format *a_row, int a, const yk_cuda_format *b_row,
                           int b)
{
  const yk_linear_part *one = &spec->parts[a], *other = &spec->parts[b];
  int64_t k = inputs_of(a_row, one), x_size = ordered_x_size(a_row, one);
  if (k != inputs_of(b_row, other) || x_size != ordered_x_size(b_row, other)) return false;
  return x_size == 0 || !one->x_order || !other->x_order ||
         memcmp(one->x_order, other->x_order, (size_t)(spec->n_matrices * k) * sizeof(int32_t)) == 0;
}

/* The first row that takes part i, or NULL. */
static const yk_cuda_format *first_that_takes(const yk_linear_spec *spec, int i)
{
  for (const yk_cuda_format *const *row = yk_cuda_formats; *row; row++)
    if (takes(*row, spec, i)) return *row;
  return NULL;
}

/* Gate and up must be one GEMM: the row of part i in the first pair of rows that take both and fuse, or NULL. */
static const yk_cuda_format *first_that_takes_both(const yk_linear_spec *spec, int i)
{
  const yk_linear_part *gate = &spec->parts[0], *up = &spec->parts[1];
  for (const yk_cuda_format *const *a = yk_cuda_formats; *a; a++)
    for (const yk_cuda_format *const *b = yk_cuda_formats; *b; b++)
      if (takes(*a, spec, 0) && takes(*b, spec, 1) && (*a)->gemm == (*b)->gemm && key_of(*a, gate) == key_of(*b, up) &&
          have_one_order(spec, *a, 0, *b, 1))
        return i == 0 ? *a : *b;
  return NULL;
}

/* The row of part i of a layer, or NULL. */
static const yk_cuda_format *format_of(const yk_linear_spec *spec, int i)
{
  return spec->activation.is_gated ? first_that_takes_both(spec, i) : first_that_takes(spec, i);
}

/* Whether a row that rounds weights to 16 bits takes part i: every other 16-bit part fuses with such a part. */
static bool is_rounded(const yk_linear_spec *spec, int i)
{
  for (const yk_cuda_format *const *row = yk_cuda_formats; *row; row++)
    if ((*row)->rounds && takes(*row, spec, i)) return true;
  return false;
}

/* Whether a row takes part i once its inputs are sorted by group. */
static bool is_taken_sorted(const yk_linear_spec *spec, int i)
{
  yk_linear_spec sorted = *spec;
  sorted.parts[i].x_size = sorted.parts[i].weight.k;
  for (const yk_cuda_format *const *row = yk_cuda_formats; *row; row++)
    if ((*row)->takes_order && takes(*row, &sorted, i)) return true;
  return false;
}

bool yk_cuda_linear_keeps(const yk_linear_spec *spec, int i)
{
  if (spec->parts[i].weight.act_order) return is_taken_sorted(spec, i);
  const yk_cuda_format *format = format_of(spec, i);
  return (format && format->gemm != &yk_cuda_gemm_16_bits) || is_rounded(spec, i);
}

bool yk_cuda_linear_divides(const yk_linear_spec *spec, int i)
{
  const yk_cuda_format *format = format_of(spec, i);
  return format && format->gemm->takes_slices;
}

/* ---- Offsets ----------------------------------------------------------------------------------------------------- */

/* Adds part i to the previous GEMM, or begins a new one. */
static void add_part(const yk_linear_spec *spec, yk_dtype dtype, int i, const yk_cuda_format *format,
                     yk_cuda_linear_layout *layout)
{
  const yk_linear_part *part = &spec->parts[i];
  yk_cuda_gemm *last = layout->n_gemms ? &layout->gemms[layout->n_gemms - 1] : NULL;
  int64_t n = yk_range_size(part->n), key = key_of(format, part);
  if (n == 0) return;
  if (!last || last->kind != format->gemm || last->key != key ||
      !have_one_order(spec, layout->formats[last->first_part], last->first_part, format, i)) {
    int64_t first_column = last ? last->first_column + last->n : 0;
    last = &layout->gemms[layout->n_gemms++];
    *last = (yk_cuda_gemm){.kind = format->gemm,
                           .key = key,
                           .first_part = i,
                           .k = inputs_of(format, part),
                           .x_size = ordered_x_size(format, part),
                           .first_column = first_column,
                           .dtype = dtype,
                           .activation = spec->activation,
                           .k_slices = spec->k_slices,
                           .f32_output = spec->f32_output};
  }
  last->end_part = i + 1;
  last->n += n;
  last->has_bias |= part->use_bias;
}

yk_status yk_cuda_linear_lay_out(const yk_linear_spec *spec, yk_dtype dtype, yk_cuda_linear_layout *out, yk_err *err)
{
  *out = (yk_cuda_linear_layout){0};
  bool is_pair = spec->activation.is_gated;
  for (int i = 0; i < spec->n_parts; i++) {
    const yk_cuda_format *format = format_of(spec, i);
    if (!format)
      return yk_err_set(err, YK_E_UNSUPPORTED, "linear part %d: no format of the cuda device takes weight format %d%s",
                        i, (int)spec->parts[i].weight.format, is_pair ? " in one GEMM of gate and up" : "");
    out->formats[i] = format;
    add_part(spec, dtype, i, format, out);
  }
  for (int i = 0; i < out->n_gemms; i++) {
    yk_cuda_gemm *gemm = &out->gemms[i];
    gemm->is_resident = gemm->kind->uses_resident && gemm->kind->uses_resident(spec);
    gemm->resident = gemm->is_resident ? spec->parts[0].resident : NULL;
    gemm->weights = out->matrix_bytes;
    int64_t n_bytes = gemm->is_resident ? 0 : gemm->kind->weight_bytes(gemm);
    gemm->bias = yk_round_up_i64(gemm->weights + n_bytes, YK_DEVICE_ALIGNMENT_BYTES);
    gemm->order = yk_round_up_i64(gemm->bias + (gemm->has_bias ? gemm->n * 4 : 0), YK_DEVICE_ALIGNMENT_BYTES);
    int64_t order_bytes = gemm->x_size > 0 ? gemm->k * (int64_t)sizeof(int32_t) : 0;
    out->matrix_bytes = yk_round_up_i64(gemm->order + order_bytes, YK_DEVICE_ALIGNMENT_BYTES);
  }
  return YK_OK;
}

int64_t yk_cuda_linear_bytes(const yk_linear_spec *spec)
{
  yk_cuda_linear_layout layout;
  yk_err refusal = YK_ERR_INIT;
  /* linear_create will report the reason */
  if (yk_cuda_linear_lay_out(spec, YK_F16, &layout, &refusal) != YK_OK) return 0;
  const yk_cuda_adapter_layout adapters = yk_cuda_adapters_lay_out(spec);
  return spec->n_matrices * layout.matrix_bytes + yk_cuda_adapters_bytes(&adapters);
}

int64_t yk_cuda_grouped_staging_bytes(const yk_cuda_gemm *gemm, int64_t max_slots)
{
  if (gemm->x_size > 0) return max_slots * gemm->k * 2;
  return gemm->kind->grouped_staging_bytes ? gemm->kind->grouped_staging_bytes(gemm, max_slots) : 0;
}

int64_t yk_cuda_linear_staging_bytes(const yk_linear_spec *spec)
{
  yk_cuda_linear_layout layout;
  yk_err refusal = YK_ERR_INIT;
  if (!spec->is_grouped || yk_cuda_linear_lay_out(spec, YK_F16, &layout, &refusal) != YK_OK || layout.n_gemms == 0)
    return 0;
  return yk_cuda_grouped_staging_bytes(&layout.gemms[0], spec->max_tokens);
}

/* ---- The device itself ------------------------------------------------------------------------------------------- */

/* For adapters: results of GEMMs before activation, of rows of up to 32768 columns, products, and exchanged sums. */
static int64_t adapters_bytes(const yk_device_limits *limits)
{
  const int64_t n_tiles = (int64_t)YK_MAX_LINEAR_PARTS * yk_cuda_adapter_tiles(limits->adapter_rank);
  if (limits->n_adapters == 0) return 0;
  return (INT64_C(32) << 20) + yk_cuda_adapter_product_floats(n_tiles, limits->max_tokens) * (int64_t)sizeof(float) +
         yk_cuda_adapter_exchange_bytes(n_tiles, limits->n_adapters);
}

int64_t yk_cuda_device_own_bytes(const yk_device_limits *limits)
{
  const int64_t rest = INT64_C(64) << 20; /* workspaces of GEMMs and attention */
  return YK_CUDA_CUBLAS_BYTES + YK_CUDA_QUANTISED_BYTES + rest + adapters_bytes(limits) +
         (int64_t)limits->max_seqs * limits->vocab * (int64_t)sizeof(uint32_t);
}
